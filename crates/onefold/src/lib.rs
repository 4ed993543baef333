//! Spark Structured Streaming programs, exactly once, without a JVM.
