//! Finding the sink of a checkpoint: what its newest driver wrote down, or what the user names.

use crate::args::Reach;
use crate::command_config;
use crate::time::WallClock;
use onefold::OutputMode;
use onefold::checkpoint_tools::{Contents, Record, SinkMark, effects_to_look_at};
use onefold::types::{
    BatchId, Delivery, Error, ErrorKind, Generation, OptionMap, QueryId, Result, RunId,
};
use onefold_connector::{OptionKind, Options, Sink, SinkContext, SinkRequest};
use onefold_connectors::SINKS;
use onefold_storage::Store;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Opens the folder or URL that a user names.
///
/// # Errors
/// As the storage's.
pub fn open_store(location: &str, reach: &Reach) -> Result<Arc<dyn Store>> {
    let settings = reach.conf.iter().fold(OptionMap::new(), |settings, (key, value)| {
        settings.with(key.as_str(), value.as_str())
    });
    onefold_storage::open(location, &settings)
}

/// A runtime for the few calls of a command.
///
/// # Errors
/// Unavailable, when no thread can be made.
pub fn runtime() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| Error::unavailable("no threads can be started").because(error))
}

/// A sink, opened for looking.
pub struct Found {
    /// As it describes itself.
    pub description: String,
    /// What it promises.
    pub delivery: Delivery,
    /// The sink.
    pub sink: Arc<dyn Sink>,
    /// Its folder, if it has one.
    pub folder: Option<String>,
}

/// Why there is no sink to look at.
pub enum Absent {
    /// The checkpoint does not say what its sink is, or it is one that forgets.
    NotKnown(String),
    /// It cannot be opened.
    Failed(Error),
}

/// The sink of a checkpoint, opened without changing it.
pub async fn find(
    contents: &Contents,
    override_folder: Option<&str>,
    reach: &Reach,
) -> std::result::Result<Found, Absent> {
    // The widest bounds: what does not fit the checkpoint is for the caller to find.
    find_after(contents, override_folder, reach, None).await
}

/// As [`find`], for a driver that knows of this commit: what would stop it is an error.
async fn find_after(
    contents: &Contents,
    override_folder: Option<&str>,
    reach: &Reach,
    last_commit: Option<BatchId>,
) -> std::result::Result<Found, Absent> {
    let definition = contents.definition();
    let recorded = definition.and_then(|definition| definition.get("sink"));
    let text = |key: &str| recorded.and_then(|sink| sink.get(key)).and_then(Value::as_str);
    let format = match (text("format"), override_folder) {
        (Some(format), _) => format.to_owned(),
        // A sink that another engine wrote: its manifest tells the batches, whatever the format.
        (None, Some(_)) => "parquet".to_owned(),
        (None, None) => {
            return Err(Absent::NotKnown(
                "no driver of Onefold wrote down what the sink is; name its folder with --sink"
                    .to_owned(),
            ));
        }
    };
    if FORGETFUL.contains(&format.as_str()) {
        return Err(Absent::NotKnown(format!("a {format} sink keeps nothing")));
    }
    if spec(&format).is_err() {
        return Err(Absent::NotKnown(format!(
            "what a {format} sink holds only the program knows that runs the query"
        )));
    }
    let path = override_folder.or_else(|| text("path")).map(str::to_owned);
    let secrets = command_config::read(reach).map_err(Absent::Failed)?;
    let request = request(&format, path, recorded, &secrets);
    let request = request.map_err(|error| Absent::Failed(with_advice(&format, &secrets, error)))?;
    let schema = definition.and_then(|definition| definition.get("schema")).and_then(Value::as_str);
    let found = open(contents, &format, request, (schema, reach, last_commit)).await;
    found.map_err(|error| Absent::Failed(with_advice(&format, &secrets, error)))
}

/// The error of a sink that takes secrets, which no checkpoint holds, and was given none.
fn with_advice(format: &str, secrets: &[(String, String)], error: Error) -> Error {
    let rows = spec(format).map(|spec| spec.options).unwrap_or_default();
    let mut rows = rows.iter().flat_map(|rows| rows.iter());
    if !secrets.is_empty() || !rows.any(|row| row.kind == OptionKind::Secret) {
        return error;
    }
    let text = "the sink cannot be looked at; passwords and the like, which no checkpoint holds, are \
                given in a file with --command-config";
    Error::new(error.kind(), text).because(error)
}

/// What the checkpoint's query is, with another folder that it writes; `None` where that is not
/// known.
///
/// # Errors
/// Invalid, when its sink writes no folder of that name.
pub fn with_output(contents: &Contents, folder: &str) -> Result<Option<Value>> {
    let Some(mut definition) = contents.definition().cloned() else { return Ok(None) };
    let recorded = definition.get("sink");
    let Some(format) = recorded.and_then(|sink| sink.get("format")).and_then(Value::as_str) else {
        return Ok(None);
    };
    let sink = (spec(format)?.define)(request(format, Some(folder.to_owned()), recorded, &[])?)?;
    let Some(path) = sink.folder() else {
        return Err(Error::invalid(format!(
            "the query's sink, {}, is no folder that --sink could exchange: a copy of the checkpoint \
             has no marks there, and cannot go on; start the copy's query on a new checkpoint",
            sink.description()
        )));
    };
    for (key, value) in [("path", path), ("description", sink.description())] {
        if let Some(place) = definition.get_mut("sink").and_then(|sink| sink.get_mut(key)) {
            *place = value.into();
        }
    }
    Ok(Some(definition))
}

/// The further sinks of a checkpoint with their names, opened without changing them. Those that keep
/// nothing are left out.
///
/// # Errors
/// When one of them cannot be opened.
pub async fn find_further(contents: &Contents, reach: &Reach) -> Result<Vec<(String, Found)>> {
    let recorded = contents.definition().and_then(|it| it.get("furtherSinks"));
    let mut further = Vec::new();
    for sink in recorded.and_then(Value::as_array).into_iter().flatten() {
        let text = |key: &str| sink.get(key).and_then(Value::as_str);
        let (Some(name), Some(format)) = (text("name"), text("format")) else { continue };
        if FORGETFUL.contains(&format) {
            continue;
        }
        let secrets = command_config::read(reach)?;
        let request = request(format, text("path").map(str::to_owned), Some(sink), &secrets)?;
        let found = open(contents, format, request, (text("schema"), reach, None)).await?;
        further.push((name.to_owned(), found));
    }
    Ok(further)
}

/// The sinks that keep nothing.
const FORGETFUL: [&str; 3] = ["console", "noop", "memory"];

fn request(
    format: &str,
    path: Option<String>,
    recorded: Option<&Value>,
    secrets: &[(String, String)],
) -> Result<SinkRequest> {
    let spec = spec(format)?;
    let mut given = OptionMap::new();
    let options = recorded.and_then(|sink| sink.get("options")).and_then(Value::as_object);
    for (name, value) in options.into_iter().flatten() {
        if let Some(value) = value.as_str().filter(|_| name != "path") {
            given.set(name.as_str(), value);
        }
    }
    // One file serves sinks of several kinds: each takes what it knows.
    let known =
        |name: &str| spec.options.iter().flat_map(|rows| rows.iter()).any(|row| row.means(name));
    for (name, value) in secrets.iter().filter(|(name, _)| known(name)) {
        given.set(name.as_str(), value.as_str());
    }
    let what = format!("sink `{format}`");
    let columns = recorded.and_then(|sink| sink.get("partitionBy")).and_then(Value::as_array);
    let columns = columns.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned);
    Ok(SinkRequest {
        options: Options::check(&what, spec.options, given)?,
        path,
        partition_by: columns.collect(),
        query_name: None,
        output_mode: OutputMode::Append,
    })
}

fn spec(format: &str) -> Result<&'static onefold_connector::SinkSpec> {
    SINKS.iter().copied().find(|spec| spec.name.eq_ignore_ascii_case(format)).ok_or_else(|| {
        Error::invalid(format!(
            "the checkpoint's sink is `{format}`, which this build does not have"
        ))
    })
}

async fn open(
    contents: &Contents,
    format: &str,
    request: SinkRequest,
    (schema, reach, last_commit): (Option<&str>, &Reach, Option<BatchId>),
) -> Result<Found> {
    let definition_of_sink = (spec(format)?.define)(request)?;
    let schema = match schema {
        Some(text) => onefold_plan::schema::parse_schema(text)?,
        // The columns of another engine's output are not known, and not needed for its marks.
        None => onefold_plan::schema::parse_schema("value STRING")?,
    };
    let query = contents.metadata.as_ref().and_then(Record::ok).map(|metadata| metadata.id);
    let query = query.unwrap_or(QueryId(Default::default()));
    let newest = contents.generations.keys().next_back().copied();
    // A query may be running: nothing in its output is to be tidied up.
    let looking = ("onefold.readOnly".to_owned(), "true".to_owned());
    let conf: BTreeMap<String, String> = reach.conf.iter().cloned().chain([looking]).collect();
    let effects = effects_to_look_at(open_store(&contents.url, reach)?, query);
    let context = SinkContext {
        query,
        run: RunId(Default::default()),
        generation: newest.unwrap_or(Generation::FIRST),
        last_commit,
        last_intent: Some(BatchId(u64::MAX)),
        follows: false,
        schema,
        clock: Arc::new(WallClock),
        effects,
        conf,
    };
    let description = definition_of_sink.description();
    let folder = definition_of_sink.folder();
    let delivery = definition_of_sink.delivery();
    let sink = definition_of_sink.open(context).await?;
    Ok(Found { description, delivery, sink, folder })
}

/// The newest batch that the checkpoint's sink holds.
pub async fn mark(contents: &Contents, override_folder: Option<&str>, reach: &Reach) -> SinkMark {
    marked(find(contents, override_folder, reach).await).await
}

/// As [`mark`], and what in the sink would stop a driver that goes on from here.
pub async fn mark_for_restart(
    contents: &Contents,
    override_folder: Option<&str>,
    reach: &Reach,
) -> SinkMark {
    let last_commit = contents.commit_ids.last().copied();
    match find_after(contents, override_folder, reach, last_commit).await {
        Err(Absent::Failed(error)) if error.kind() == ErrorKind::Corrupt => {
            SinkMark::Broken { why: error.chain() }
        }
        found => marked(found).await,
    }
}

async fn marked(found: std::result::Result<Found, Absent>) -> SinkMark {
    match found {
        Ok(found) => match found.sink.last_mark().await {
            Ok(mark) => SinkMark::Asked(mark),
            Err(error) => SinkMark::Unknown { why: error.chain() },
        },
        Err(Absent::NotKnown(why)) => SinkMark::Unknown { why },
        Err(Absent::Failed(error)) => SinkMark::Unknown { why: error.chain() },
    }
}
