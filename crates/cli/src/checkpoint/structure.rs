//! `onefold checkpoint verify`.

use crate::args::StructureArgs;
use crate::exit::Failure;
use crate::table::grouped;
use crate::{sink_lookup, terminal};
use onefold::checkpoint_tools::{Contents, Depth, Severity, check};
use onefold::types::Error;

/// Checks that a checkpoint is whole.
///
/// # Errors
/// Not whole, when a problem was found; Invalid, where there is no checkpoint; as the store's.
pub fn verify(args: &StructureArgs) -> Result<(), Failure> {
    let store = sink_lookup::open_store(&args.checkpoint, &args.reach)?;
    let structure = sink_lookup::runtime()?.block_on(async {
        let contents = Contents::gather(store.as_ref(), Depth::All).await?;
        check(&store, &contents).await
    })?;
    // Nothing to find fault with is no checkpoint: most likely the folder above or beside it is meant.
    if structure.records == 0 && structure.ok {
        return Err(Failure::from(Error::invalid(format!(
            "{} is no checkpoint: it has no metadata, offsets or commits; give the folder that has \
             them (a pipeline keeps one for each table, in _checkpoints/TABLE of its storage)",
            structure.url
        ))));
    }
    if args.json {
        terminal::json(&structure);
    } else {
        terminal::line(&format!("checkpoint  {}", structure.url));
        terminal::line(&format!(
            "read        {} records, {} checksum files",
            structure.records, structure.checksums
        ));
        if structure.state_files > 0 {
            terminal::line(&format!(
                "state       {} files, {} bytes",
                grouped(structure.state_files as u64),
                grouped(structure.state_bytes)
            ));
        }
        for finding in &structure.findings {
            let severity = match finding.severity {
                Severity::Problem => "problem",
                Severity::Remark => "remark",
            };
            terminal::line(&format!("{severity:<10}  {} {}", finding.path, finding.text));
        }
        terminal::line(if structure.ok { "whole       yes" } else { "whole       no" });
    }
    if structure.ok { Ok(()) } else { Err(Failure::not_whole()) }
}
