//! Spark Structured Streaming programs, exactly once, without a JVM.
//!
//! *Why separate:* the engine names no connector and the connectors name no engine type; a program
//! that wants both starts here.
//! *What always holds:* what a program can name here, the command line can do too.
//! *What it is not:* it has no behaviour of its own.
//! *Where to start:* [`session`].

/// Arrow, of the version that rows and types of state are of.
pub use arrow;
pub use onefold_engine::*;
pub use onefold_types as types;

/// The bundled sources and sinks.
pub static CONNECTORS: Connectors = Connectors {
    sources: onefold_connectors::SOURCES,
    sinks: onefold_connectors::SINKS,
    tables: onefold_connectors::TABLES,
    registry: Some(onefold_connectors::schema_registry::open),
    calls: Some(onefold_connectors::http::calls),
};

/// Starts to make a session with the bundled sources and sinks.
#[must_use]
pub fn session() -> SessionBuilder {
    Session::builder(CONNECTORS)
}
