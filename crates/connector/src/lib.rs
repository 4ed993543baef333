//! The contracts of sources and sinks.
//!
//! *Why separate:* the engine names no connector and a connector names no engine type; they meet
//! here.
//! *What always holds:* a range that a source gave is read again with the same rows, or the source
//! says why not; a sink's mark is stored in the same atomic act as the rows, or the sink says that
//! it is at-least-once.
//! *What it is not:* it runs nothing and holds no connector.
//! *Where to start:* [`Source`], [`Sink`], then the option tables in [`options`].

mod clock;
#[cfg(feature = "conformance")]
pub mod conformance;
mod effects;
mod fitted;
pub mod options;
mod outside;
mod schema_registry;
mod sink;
mod source;
mod table;

pub use clock::Clock;
pub use effects::{BatchEffects, CallContent, CallKeys, EffectsLog, SinkEffects};
pub use fitted::fitted;
pub use options::{OptionKind, OptionSpec, Options};
pub use outside::{OutsideCaller, OutsideCalls};
pub use schema_registry::{RegisteredSchema, SchemaContent, SchemaRegistry, Settings};
pub use sink::{
    Attempt, Fence, LostMark, ONE_BATCH, OutputMode, Rebuilt, RowStream, SAVE_MODE, Sink,
    SinkContext, SinkDefinition, SinkRequest, SinkSpec, StagedOutput,
};
pub use source::{
    Defining, LatestOffset, Overlap, ReadLimit, ScanRequest, Source, SourceContext,
    SourceDefinition, SourceRequest, SourceSpec,
};
pub use table::{MergeAct, MergeClause, MergeWhen, TableAct, TableMerge, TableRequest, TableSpec};
