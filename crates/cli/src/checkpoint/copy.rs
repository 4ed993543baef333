//! `onefold checkpoint fork | export | import`.

use crate::args::{ExportArgs, ForkArgs, ImportArgs};
use crate::exit::Failure;
use crate::sink_lookup::{self, open_store};
use crate::terminal;
use crate::time::WallClock;
use onefold::checkpoint_tools::{
    self as tools, Archive, Contents, Depth, Relocation, mark_empty_output, take_generation,
};
use onefold::types::{Error, Result as OurResult};
use onefold_connector::Clock;
use serde_json::json;
use std::io::{Read, Write};
use std::path::Path;

/// Copies a checkpoint under a new query id.
///
/// # Errors
/// Usage, when the new folder is not empty; as the stores'.
pub fn fork(args: &ForkArgs) -> Result<(), Failure> {
    let (from, to) =
        (open_store(&args.checkpoint, &args.reach)?, open_store(&args.new_dir, &args.reach)?);
    let fork = sink_lookup::runtime()?.block_on(async {
        let contents = Contents::gather(from.as_ref(), Depth::Newest(2)).await?;
        let definition = match &args.sink {
            Some(output) => sink_lookup::with_output(&contents, output)?,
            None => None,
        };
        let fork = tools::fork(from.as_ref(), &contents, to.as_ref()).await?;
        // Numbers of drivers go on, so that no file of the copy repeats a name of the original.
        let by = ("checkpoint fork", definition);
        take_generation(&to, &contents, WallClock.now_ms(), by).await?;
        if let (Some(output), Some(batch)) = (&args.sink, fork.at_batch) {
            mark_empty_output(open_store(output, &args.reach)?.as_ref(), batch).await?;
        }
        Ok::<_, Error>(fork)
    })?;
    if args.json {
        terminal::json(&fork);
        return Ok(());
    }
    terminal::line(&format!("copied      {} files to {}", fork.files, fork.url));
    let was = fork.forked_from.map_or("not known".to_owned(), |query| query.to_string());
    terminal::line(&format!("query       {} (was {was})", fork.query));
    let Some(batch) = fork.at_batch else {
        terminal::line("sink        any: nothing is committed yet");
        return Ok(());
    };
    terminal::line(&format!("newest      batch {batch} is committed, so is its input"));
    match &args.sink {
        Some(output) => terminal::line(&format!(
            "sink        {output} stands ready: it will get batches from {} on",
            batch.next()
        )),
        None => terminal::line(
            "sink        the old output belongs to the old query and an empty one lacks the \
             batches before: give the copy a new output with --sink",
        ),
    }
    Ok(())
}

/// Writes a checkpoint's records into one JSON file.
///
/// # Errors
/// Usage, when the file exists; as the store's.
pub fn export(args: &ExportArgs) -> Result<(), Failure> {
    let store = open_store(&args.checkpoint, &args.reach)?;
    let archive = sink_lookup::runtime()?.block_on(async {
        let contents = Contents::gather(store.as_ref(), Depth::Newest(1)).await?;
        tools::export(store.as_ref(), &contents).await
    })?;
    let text = serde_json::to_string_pretty(&archive)
        .map_err(|error| Error::internal("the export cannot be written").because(error))?;
    if args.file == Path::new("-") {
        terminal::line(&text);
        return Ok(());
    }
    write_new(&args.file, &text)?;
    let (files, left_out) = (archive.files.len(), archive.left_out.len());
    if args.json {
        terminal::json(&json!({ "file": args.file, "files": files, "leftOut": left_out }));
    } else {
        terminal::line(&format!("exported    {files} records to {}", args.file.display()));
        if left_out > 0 {
            terminal::line(&format!("left out    {left_out} files of state"));
        }
    }
    Ok(())
}

/// A result of the command, not a checkpoint file: an ordinary file, never overwritten.
fn write_new(path: &Path, text: &str) -> OurResult<()> {
    let written = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(path)
        .and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()));
    written.map_err(|error| {
        let text = format!("{} cannot be written: name a new file", path.display());
        Error::invalid(text).because(error)
    })
}

/// Makes a checkpoint from an exported file.
///
/// # Errors
/// Usage, when the file is no export or the folder is not empty; as the store's.
pub fn import(args: &ImportArgs) -> Result<(), Failure> {
    let relocations: Vec<Relocation> =
        args.relocate.iter().map(|text| Relocation::parse(text)).collect::<OurResult<_>>()?;
    let archive = Archive::parse(&read(&args.file)?)?;
    let store = open_store(&args.checkpoint, &args.reach)?;
    sink_lookup::runtime()?.block_on(archive.import(store.as_ref(), &relocations))?;
    let files = archive.files.len();
    if args.json {
        terminal::json(&json!({ "checkpoint": store.url(), "files": files, "from": archive.url }));
    } else {
        terminal::line(&format!("imported    {files} records to {}", store.url()));
        terminal::line(&format!("from        {}", archive.url));
        terminal::line(
            "note        the query goes on with the output that it had; to go on into a new one, \
             use `onefold checkpoint fork`",
        );
    }
    Ok(())
}

fn read(path: &Path) -> OurResult<Vec<u8>> {
    let read = if path == Path::new("-") {
        let mut bytes = Vec::new();
        std::io::stdin().lock().read_to_end(&mut bytes).map(|_| bytes)
    } else {
        std::fs::read(path)
    };
    read.map_err(|error| {
        Error::invalid(format!("{} cannot be read", path.display())).because(error)
    })
}
