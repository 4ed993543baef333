//! Runs queries: waits for the trigger, asks `protocol` what to do, does it, and tells what it did.
//!
//! *Why separate:* this is where decisions and acts meet: it owns threads and time, names no
//! connector, and decides nothing about recovery.
//! *What always holds:* the order of durable acts of a batch: intent, prepared (where needed),
//! publish, commit, release, purge; each but the last two under a fence.
//! *What it is not:* it neither makes bytes durable (`storage`) nor plans expressions (`plan`).
//! *Where to start:* [`Session`].

mod batch_read;
mod batch_sink;
mod batch_write;
mod batch_writes;
mod checkpoint;
pub mod checkpoint_tools;
mod conf;
mod distinct_columns;
mod effects;
mod evolution;
mod explain;
mod fault;
mod foreach_batch;
mod format_table;
mod frame;
mod grouped;
mod listener;
mod memory;
mod observer;
mod own_state;
pub mod pipeline;
mod progress;
mod query;
mod reader;
mod run;
mod session;
mod state_table;
mod status;
mod stores;
mod streams;
mod table_act;
mod table_location;
mod tasks;
mod timer;
mod trigger;
mod warehouse;
mod writer;

pub use batch_read::DataFrameReader;
pub use batch_write::{DataFrameWriter, SaveMode};
pub use batch_writes::BatchWrites;
pub use conf::{RuntimeConf, SETTINGS};
pub use explain::{
    Explanation, GuaranteeReport, LogsGuarantee, SinkGuarantee, SourceGuarantee, StateExplanation,
};
pub use fault::from_datafusion;
pub use foreach_batch::BatchFunction;
pub use frame::{DataFrame, JoinOn};
pub use grouped::GroupedData;
pub use listener::{ListenerId, QueryIdle, QueryStarted, QueryTerminated, StreamingQueryListener};
pub use observer::BatchObserver;
pub use onefold_connector::{MergeAct, MergeClause, MergeWhen, OutputMode, TableAct, TableMerge};
pub use onefold_operators::{
    DueTimers, ExpiredTimer, GroupCalls, GroupCode, GroupFunction, GroupReturns, GroupRun,
    GroupState, GroupTimeout, GroupedRows, ListState, MapState, Processor, ProcessorCode,
    ProcessorContext, ProcessorRun, ProcessorStart, ProcessorState, Rows, StateChange,
    StatefulProcessor, TimeMode, UserError, ValueState, Variables,
};
pub use progress::{
    FurtherSinkProgress, SinkProgress, SourceProgress, StateOperatorProgress,
    StreamingQueryProgress, WatermarkProgress, iso_ms,
};
pub use query::StreamingQuery;
pub use reader::DataStreamReader;
pub use session::{Connectors, Session, SessionBuilder};
pub use status::{StreamingQueryException, StreamingQueryStatus};
pub use stores::StoreOpener;
pub use streams::{Process, StreamingQueryManager};
pub use table_act::unqualified;
pub use tasks::THREAD_STACK;
pub use timer::{SystemTimer, Timer};
pub use trigger::Trigger;
pub use warehouse::TableDefinition;
pub use writer::{DataStreamWriter, WRITER_OPTIONS};
