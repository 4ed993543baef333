//! The command line.

use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;

/// Runs Spark Structured Streaming programs, each input record delivered exactly once.
#[derive(Debug, Parser)]
#[command(name = "onefold", version, max_term_width = 100, after_help = EXIT_CODES)]
pub struct Args {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

const EXIT_CODES: &str = "\
exit codes:
  0  done, or stopped as asked, or all that was checked holds
  1  a query failed, or something that was checked does not hold
  2  the command line, the pipeline or an option is wrong
  3  a newer driver has taken the checkpoint over
  4  a checkpoint, a sink or an input file is damaged, incomplete or foreign
  5  the disk failed a sync: check it and start again, for only a new process can go on

environment:
  ONEFOLD_LOG  what is logged to standard error, such as `info` or `onefold_engine=debug`";

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Runs the streaming tables of a pipeline file, one query each.
    Run(RunArgs),
    /// Shows what a pipeline would do and what it promises, without running it.
    Explain(ExplainArgs),
    /// Serves Spark's programs over Spark Connect.
    Serve(ServeArgs),
    /// Looks into a checkpoint, checks, rewinds or copies it.
    #[command(subcommand)]
    Checkpoint(CheckpointCommand),
    /// Reads the state that a query's operators keep in a checkpoint.
    #[command(subcommand)]
    State(StateCommand),
    /// Compares a checkpoint with its sink, batch by batch: rows and content hash.
    Verify(VerifyArgs),
    /// Kills a stream at several points of its protocol and counts every event at the end.
    Demo(DemoArgs),
    /// Lists the sources and sinks with their options.
    Connectors(ConnectorsArgs),
    /// Lists the settings of a session with their defaults.
    Settings(SettingsArgs),
    /// Lists the points of the protocol at which ONEFOLD_CRASH_AT=NAME:K can kill the process
    /// (in a build with the feature `crash-points`).
    CrashPoints,
}

/// Where a pipeline is and what it is run with.
#[derive(Debug, Clone, ClapArgs)]
pub struct PipelineArgs {
    /// The file of CREATE STREAMING TABLE statements.
    #[arg(value_name = "PIPELINE.sql")]
    pub pipeline: PathBuf,
    /// Folder or URL for tables without LOCATION, and for checkpoints [default: onefold-data beside
    /// the pipeline file].
    #[arg(long, value_name = "DIR")]
    pub storage: Option<String>,
    /// Folder or URL for checkpoints, one folder a table [default: _checkpoints in the storage].
    #[arg(long, value_name = "DIR")]
    pub checkpoint: Option<String>,
    /// A runtime setting, such as spark.sql.session.timeZone=UTC; may be given many times.
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_value)]
    pub conf: Vec<(String, String)>,
}

impl PipelineArgs {
    /// How an object store is reached: the pipeline's settings say it too.
    #[must_use]
    pub fn reach(&self) -> Reach {
        Reach { conf: self.conf.clone(), command_config: None }
    }
}

/// `onefold run`.
#[derive(Debug, ClapArgs)]
pub struct RunArgs {
    /// The pipeline.
    #[command(flatten)]
    pub pipeline: PipelineArgs,
    /// When to look for new data: `available-now` (what is there, then end), `once` (the same in
    /// one batch), or every so often, such as '10 seconds' [default: back to back, without end].
    #[arg(long, value_name = "WHEN", conflicts_with = "once")]
    pub trigger: Option<String>,
    /// Short for --trigger once.
    #[arg(long)]
    pub once: bool,
}

/// `onefold serve`.
#[derive(Debug, ClapArgs)]
pub struct ServeArgs {
    /// Address and port to listen on. One that other machines can reach needs a token.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:15002")]
    pub bind: std::net::SocketAddr,
    /// A file whose first line is the token that clients must send (`;token=` in their URL) [default:
    /// the value of SPARK_CONNECT_AUTHENTICATE_TOKEN, or none].
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// The server's certificate in PEM, followed by those that vouch for it: connections are
    /// encrypted (`;use_ssl=true` in a client's URL).
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// The private key of the certificate, in PEM.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// Runs Python functions of clients even if other machines can reach the server: whoever has
    /// the token can run any program here then.
    #[arg(long)]
    pub allow_python: bool,
    /// A setting of the server, or a runtime setting of all sessions; may be given many times.
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_value)]
    pub conf: Vec<(String, String)>,
}

/// `onefold explain`.
#[derive(Debug, ClapArgs)]
pub struct ExplainArgs {
    /// The pipeline.
    #[command(flatten)]
    pub pipeline: PipelineArgs,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// `onefold checkpoint …`.
#[derive(Debug, Subcommand)]
pub enum CheckpointCommand {
    /// Shows what a checkpoint holds and what a restart would do.
    Show(ShowArgs),
    /// Says what becomes of each operator's state if a pipeline goes on with a checkpoint.
    Plan(PlanArgs),
    /// Checks that a checkpoint is whole, without its sink.
    Verify(StructureArgs),
    /// Lists the records of Kafka that were gone before the query read them.
    Losses(LossesArgs),
    /// Makes lost entries of the file sink's manifest again, from the data files and the commits.
    /// Only says what it would do, unless --apply is given.
    Repair(RepairArgs),
    /// Goes back to an older batch. Only says what it would do, unless --apply is given.
    Rewind(RewindArgs),
    /// Copies a checkpoint under a new query id.
    Fork(ForkArgs),
    /// Writes a checkpoint's records into one JSON file.
    Export(ExportArgs),
    /// Makes a checkpoint from an exported file.
    Import(ImportArgs),
}

/// How an object store and a sink are reached; by default as the environment says.
#[derive(Debug, Clone, Default, ClapArgs)]
pub struct Reach {
    /// A file of lines NAME=VALUE: options of the sink that no checkpoint holds, such as
    /// kafka.sasl.password [default: what ONEFOLD_COMMAND_CONFIG names]. Certificates and keys in PEM
    /// stand in one line, with \n between theirs.
    #[arg(long, value_name = "FILE")]
    pub command_config: Option<PathBuf>,
    /// A setting of the object store, such as spark.hadoop.fs.s3a.endpoint=URL; may be given many
    /// times [default: the environment, such as AWS_ENDPOINT_URL].
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_value)]
    pub conf: Vec<(String, String)>,
}

/// `onefold checkpoint show`.
#[derive(Debug, ClapArgs)]
pub struct ShowArgs {
    /// The checkpoint's folder or URL; also a bare log, such as its `offsets` folder.
    pub checkpoint: String,
    /// The folder of the file sink, where the checkpoint does not say it or says another.
    #[arg(long, value_name = "DIR")]
    pub sink: Option<String>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// How an object store is reached.
    #[command(flatten)]
    pub reach: Reach,
}

/// `onefold checkpoint losses`.
#[derive(Debug, ClapArgs)]
pub struct LossesArgs {
    /// The checkpoint's folder or URL.
    pub checkpoint: String,
    /// Print JSON: one object a line for each loss.
    #[arg(long)]
    pub json: bool,
    /// How an object store is reached.
    #[command(flatten)]
    pub reach: Reach,
}

/// `onefold checkpoint plan`.
#[derive(Debug, ClapArgs)]
pub struct PlanArgs {
    /// The checkpoint's folder or URL.
    #[arg(value_name = "CHECKPOINT")]
    pub folder: String,
    /// The pipeline.
    #[command(flatten)]
    pub pipeline: PipelineArgs,
    /// The table of the pipeline, where its checkpoint does not tell.
    #[arg(long, value_name = "NAME")]
    pub table: Option<String>,
    /// Let the next start drop the state that the query cannot go on with.
    #[arg(long)]
    pub accept: bool,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// `onefold checkpoint verify`.
#[derive(Debug, ClapArgs)]
pub struct StructureArgs {
    /// The checkpoint's folder or URL.
    pub checkpoint: String,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// How an object store is reached.
    #[command(flatten)]
    pub reach: Reach,
}

/// `onefold checkpoint repair`.
#[derive(Debug, ClapArgs)]
pub struct RepairArgs {
    /// The checkpoint's folder or URL. No query may run on it; one that does is fenced.
    pub checkpoint: String,
    /// Do it; without this, only say what would be done.
    #[arg(long)]
    pub apply: bool,
    /// Also take the files of batches whose commits were purged, which nothing proves to be whole.
    #[arg(long)]
    pub unproven: bool,
    /// The folder of the file sink, where the checkpoint does not say it or says another.
    #[arg(long, value_name = "DIR")]
    pub sink: Option<String>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// How an object store is reached.
    #[command(flatten)]
    pub reach: Reach,
}

/// What to do with batches in the sink after the one that a rewind goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LaterMarks {
    /// Refuse.
    Refuse,
    /// Leave them there; the query will write elsewhere, or the output is cleared by hand.
    Leave,
    /// Take them out of the file sink too; they are kept in its `_onefold/rewound`.
    Rewind,
}

/// `onefold checkpoint rewind`.
#[derive(Debug, ClapArgs)]
pub struct RewindArgs {
    /// The checkpoint's folder or URL.
    pub checkpoint: String,
    /// The batch that becomes the newest one.
    #[arg(long, value_name = "N", required_unless_present = "topic")]
    pub to_batch: Option<u64>,
    /// A topic of Kafka from which the next batch reads from elsewhere; batches stay as they are.
    #[arg(long, requires = "to", conflicts_with_all = ["to_batch", "later_marks", "sink"])]
    pub topic: Option<String>,
    /// Where in the topic: earliest, latest, a time (2026-11-30T10:00:00Z, or milliseconds since
    /// 1970), or offsets by partition ({"0":23}).
    #[arg(long, value_name = "PLACE", requires = "topic", allow_hyphen_values = true)]
    pub to: Option<String>,
    /// Do it; without this, only say what would be done.
    #[arg(long)]
    pub apply: bool,
    /// What to do if the sink holds later batches.
    #[arg(long, value_enum, default_value = "refuse")]
    pub later_marks: LaterMarks,
    /// The folder of the file sink, where the checkpoint does not say it or says another.
    #[arg(long, value_name = "DIR")]
    pub sink: Option<String>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// How an object store is reached.
    #[command(flatten)]
    pub reach: Reach,
}

/// `onefold checkpoint fork`.
#[derive(Debug, ClapArgs)]
pub struct ForkArgs {
    /// The checkpoint's folder or URL.
    pub checkpoint: String,
    /// The folder of the copy; new or empty.
    pub new_dir: String,
    /// The new query's output folder (file sinks), new or empty: it is told that it starts after
    /// the newest committed batch.
    #[arg(long, value_name = "DIR")]
    pub sink: Option<String>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// How an object store is reached.
    #[command(flatten)]
    pub reach: Reach,
}

/// `onefold checkpoint export`.
#[derive(Debug, ClapArgs)]
pub struct ExportArgs {
    /// The checkpoint's folder or URL.
    pub checkpoint: String,
    /// The file to write; it must not exist. `-` is standard output.
    pub file: PathBuf,
    /// Print JSON about what was done.
    #[arg(long)]
    pub json: bool,
    /// How an object store is reached.
    #[command(flatten)]
    pub reach: Reach,
}

/// `onefold checkpoint import`.
#[derive(Debug, ClapArgs)]
pub struct ImportArgs {
    /// The exported file; `-` is standard input.
    pub file: PathBuf,
    /// The folder of the checkpoint; new or empty.
    pub checkpoint: String,
    /// Moves addresses of input files: each absolute path or URL below OLD to the same below NEW;
    /// may be given many times.
    #[arg(long, value_name = "OLD=NEW")]
    pub relocate: Vec<String>,
    /// Print JSON about what was done.
    #[arg(long)]
    pub json: bool,
    /// How an object store is reached.
    #[command(flatten)]
    pub reach: Reach,
}

/// `onefold state …`.
#[derive(Debug, Subcommand)]
pub enum StateCommand {
    /// Lists operators, or the rows of one of them, at the newest or an older version.
    Read(StateReadArgs),
}

/// `onefold state read`.
#[derive(Debug, ClapArgs)]
pub struct StateReadArgs {
    /// The checkpoint's folder or URL.
    pub checkpoint: String,
    /// Show the rows of this operator, by number or name.
    #[arg(long, value_name = "ID")]
    pub operator: Option<String>,
    /// Of the operator's families of rows this one, where it has several.
    #[arg(long, value_name = "NAME", requires = "operator")]
    pub family: Option<String>,
    /// The version: what batch VERSION - 1 left [default: the newest committed].
    #[arg(long, value_name = "VERSION")]
    pub version: Option<u64>,
    /// Show what the batch that left the version changed, instead of all rows.
    #[arg(long, requires = "operator")]
    pub changes: bool,
    /// Show at most so many rows.
    #[arg(long, value_name = "ROWS", default_value_t = 1_000)]
    pub limit: usize,
    /// Print JSON: one object, or with --operator one object a line for each row.
    #[arg(long)]
    pub json: bool,
    /// How an object store is reached.
    #[command(flatten)]
    pub reach: Reach,
}

/// `onefold verify`.
#[derive(Debug, ClapArgs)]
pub struct VerifyArgs {
    /// The checkpoint's folder or URL.
    pub checkpoint: String,
    /// The folder of the file sink, where the checkpoint does not say it or says another.
    #[arg(long, value_name = "DIR")]
    pub sink: Option<String>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// How an object store is reached.
    #[command(flatten)]
    pub reach: Reach,
}

/// `onefold demo`.
#[derive(Debug, ClapArgs)]
pub struct DemoArgs {
    /// How many order events are made.
    #[arg(long, default_value_t = 60_000, value_parser = clap::value_parser!(u64).range(1..=50_000_000))]
    pub events: u64,
    /// How often the stream is killed.
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(0..=1_000))]
    pub kills: u32,
    /// Chooses the moments; the same seed chooses the same ones.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Where to work; new or empty [default: a new folder among temporary files].
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Leave the events, the checkpoint and the output in place.
    #[arg(long)]
    pub keep: bool,
}

/// `onefold connectors`.
#[derive(Debug, ClapArgs)]
pub struct ConnectorsArgs {
    /// Only this one.
    pub name: Option<String>,
    /// Print JSON.
    #[arg(long, conflicts_with = "markdown")]
    pub json: bool,
    /// Print Markdown, as in docs/connectors.md.
    #[arg(long)]
    pub markdown: bool,
}

/// `onefold settings`.
#[derive(Debug, ClapArgs)]
pub struct SettingsArgs {
    /// Print JSON.
    #[arg(long, conflicts_with = "markdown")]
    pub json: bool,
    /// Print Markdown, as in docs/settings.md.
    #[arg(long)]
    pub markdown: bool,
}

fn key_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => {
            Ok((key.trim().to_owned(), value.to_owned()))
        }
        _ => Err("write it as KEY=VALUE".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Args::command().debug_assert();
    }
}
