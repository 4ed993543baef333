//! How many batches lie between two compact files: Spark's rule, so that both engines agree.

use super::Files;

/// The interval in force: what the compact files found tell, else the wanted one.
///
/// Two or more compact files: the distance of the newest two. One: an interval that has put it
/// there and is as near to the wanted one as that allows.
pub(super) fn effective(files: &Files, wanted: u64) -> u64 {
    let wanted = wanted.max(1);
    let mut compact = files.iter().rev().filter(|(_, form)| form.compact).map(|(id, _)| id.0);
    match (compact.next(), compact.next()) {
        (Some(newest), Some(before)) => newest - before,
        (Some(only), None) => derived(wanted, only + 1),
        _ => wanted,
    }
}

/// A divisor of the number of batches that the only compact file covers.
fn derived(wanted: u64, batches: u64) -> u64 {
    if batches <= wanted {
        return batches;
    }
    if wanted < batches / 2 {
        let divisor = (wanted..=batches / 2).find(|d| batches.is_multiple_of(*d));
        return divisor.unwrap_or(batches);
    }
    batches
}

#[cfg(test)]
mod tests {
    use super::super::Form;
    use super::*;
    use onefold_types::BatchId;

    fn files(compact: &[u64]) -> Files {
        let form = Form { compact: true, size: 0, modified_ms: 0 };
        compact.iter().map(|id| (BatchId(*id), form)).collect()
    }

    #[test]
    fn the_interval_is_the_one_that_put_the_compact_files_there() {
        assert_eq!(effective(&files(&[]), 10), 10);
        assert_eq!(effective(&files(&[9]), 10), 10);
        assert_eq!(effective(&files(&[4]), 10), 5);
        assert_eq!(effective(&files(&[29]), 4), 5);
        assert_eq!(effective(&files(&[30]), 4), 31);
        assert_eq!(effective(&files(&[2, 5]), 10), 3);
        assert_eq!(effective(&files(&[]), 0), 1);
    }
}
