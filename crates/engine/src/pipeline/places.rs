//! Where the queries of a pipeline write, and keep their checkpoints.

use super::PipelineOptions;
use crate::writer::{DataStreamWriter, NO_FILES, OUTPUT_OF_PROCESS};
use onefold_plan::pipeline::{Place, Sink, StreamingTable};
use onefold_types::{Error, Result};

/// One more sink for a flow's rows.
pub(super) fn also_into(
    writer: DataStreamWriter,
    sink: &Sink,
    options: &PipelineOptions,
) -> Result<DataStreamWriter> {
    let said = sink.location.as_deref().or_else(|| sink.options.get("path"));
    let lacking = || no_location("sink", &sink.name, sink.place);
    let path = folder(said, &sink.format, &sink.name, options, lacking)?;
    let option = |name: &str| format!("onefold.sinks.{}.{name}", sink.name);
    let given = sink.options.iter().map(|(name, value)| (option(name), value.to_owned()));
    let by = sink.partition_by.join(",");
    let by = Some(by).filter(|by| !by.is_empty()).map(|by| (option("partitionBy"), by));
    let path = path.map(|path| (option("path"), path));
    let format = (option("format"), sink.format.clone());
    Ok(given
        .chain([format])
        .chain(by)
        .chain(path)
        .fold(writer, |writer, (name, value)| writer.option(name, value)))
}

/// Where a table's rows go: `LOCATION`, option `path`, or a folder of its own below `storage`.
pub(super) fn output(table: &StreamingTable, options: &PipelineOptions) -> Result<Option<String>> {
    let said = table.location.as_deref().or_else(|| table.options.get("path"));
    let lacking = || no_location(table.kind(), &table.name, table.place);
    folder(said, &table.format, table.output_name(), options, lacking)
}

/// The folder of a sink, if it writes one.
fn folder(
    said: Option<&str>,
    format: &str,
    name: &str,
    options: &PipelineOptions,
    lacking: impl FnOnce() -> Error,
) -> Result<Option<String>> {
    match (said, &options.storage) {
        (Some(location), _) => Ok(Some(location.to_owned())),
        _ if NO_FILES.contains(&format) => Ok(None),
        (None, Some(storage)) => Ok(Some(below(storage, name))),
        (None, None) => Err(lacking()),
    }
}

fn no_location(kind: &str, name: &str, place: Place) -> Error {
    Error::invalid(format!(
        "{kind} `{name}` (line {}) has no LOCATION; give it one, or name a storage folder",
        place.line
    ))
}

pub(super) fn checkpoint(table: &StreamingTable, options: &PipelineOptions) -> Option<String> {
    if let Some(folder) = &options.checkpoint {
        return Some(below(folder, &table.name));
    }
    let storage = options.storage.as_ref()?;
    (!OUTPUT_OF_PROCESS.contains(&table.format.as_str()))
        .then(|| below(&below(storage, "_checkpoints"), &table.name))
}

fn below(folder: &str, name: &str) -> String {
    format!("{}/{name}", folder.trim_end_matches('/'))
}
