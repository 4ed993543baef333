//! Whether a query would read what it writes.

use super::definition::FurtherSink;
use onefold_connector::{Overlap, SinkDefinition};
use onefold_plan::stream::StreamingPlan;
use onefold_storage::Place;
use onefold_types::{Error, Result};

/// What a query writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Written {
    Output,
    Checkpoint,
}

/// Checks the folders that a query writes against those that its sources read.
///
/// # Errors
/// Invalid, when one of them lies where a source reads, or around it. Unavailable, when the disk does
/// not say where a path leads.
pub(crate) fn check(
    plan: &StreamingPlan,
    (sink, further): (&dyn SinkDefinition, &[FurtherSink]),
    checkpoint: Option<&str>,
) -> Result<()> {
    let outputs = further.iter().map(|further| further.sink.folder());
    let outputs = std::iter::once(sink.folder()).chain(outputs).flatten();
    check_folders(plan, outputs, checkpoint)
}

/// As [`check`], of the folders of all sinks.
pub(crate) fn check_folders(
    plan: &StreamingPlan,
    outputs: impl Iterator<Item = String>,
    checkpoint: Option<&str>,
) -> Result<()> {
    let outputs = outputs.map(|folder| (Written::Output, folder));
    let checkpoint = checkpoint.map(|folder| (Written::Checkpoint, folder.to_owned()));
    let mut known: Vec<Place> = Vec::new();
    for (what, folder) in outputs.chain(checkpoint) {
        let place = Place::find(&folder)?;
        if what == Written::Output {
            apart(&known, &place)?;
        }
        for source in plan.sources() {
            let overlap = source.definition.overlap(&place)?;
            if let Some(overlap) = overlap.filter(|overlap| refused(what, overlap)) {
                return Err(Error::invalid(text(what, &place, &overlap)));
            }
        }
        known.push(place);
    }
    Ok(())
}

/// Sinks of one query keep out of each other's folders.
fn apart(known: &[Place], place: &Place) -> Result<()> {
    let within = |other: &Place| place.below(other).is_some() || other.below(place).is_some();
    match known.iter().find(|other| within(other)) {
        None => Ok(()),
        Some(other) => Err(Error::invalid(format!(
            "the folders {place} and {other} of two sinks of the query lie within each other; give \
             each its own"
        ))),
    }
}

/// A checkpoint under a hidden name is never read. An output is for readers, who may list it
/// together with the input: it stays out whatever its name.
pub(crate) fn refused(what: Written, overlap: &Overlap) -> bool {
    what == Written::Output || !overlap.hidden
}

fn text(what: Written, place: &Place, overlap: &Overlap) -> String {
    let input = &overlap.input;
    match what {
        Written::Output => format!(
            "the output folder {place} and the input folder {input} lie within each other, so that \
             the query would read what it writes; choose another output folder"
        ),
        Written::Checkpoint => format!(
            "the checkpoint {place} and the input folder {input} lie within each other, so that \
             the query would read its own logs as rows; choose another checkpointLocation"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::{Written, refused, text};
    use onefold_connector::Overlap;
    use onefold_storage::Place;

    #[test]
    fn a_checkpoint_under_a_hidden_name_is_the_only_overlap_allowed() {
        let overlap = |hidden| Overlap { input: "/in".to_owned(), hidden };
        assert!(refused(Written::Output, &overlap(false)));
        assert!(refused(Written::Output, &overlap(true)));
        assert!(refused(Written::Checkpoint, &overlap(false)));
        assert!(!refused(Written::Checkpoint, &overlap(true)));
    }

    #[test]
    fn both_paths_and_what_to_do_are_said() {
        let overlap = Overlap { input: "file:///in".to_owned(), hidden: false };
        let place = Place::find("/in/x").unwrap();
        let output = text(Written::Output, &place, &overlap);
        assert!(output.contains(" /in/x ") && output.contains(" file:///in "), "{output}");
        assert!(output.contains("choose another output folder"), "{output}");
        let checkpoint = text(Written::Checkpoint, &place, &overlap);
        assert!(checkpoint.contains("checkpointLocation"), "{checkpoint}");
    }
}
