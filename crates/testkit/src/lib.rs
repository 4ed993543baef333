//! fault store, manual clock, oracle for tests.
