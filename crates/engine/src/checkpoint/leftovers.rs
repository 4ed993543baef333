//! What drivers that died left half written in the checkpoint.

use futures::future::try_join_all;
use onefold_connector::Fence;
use onefold_storage::Store;
use onefold_types::Result;

/// Where records are written. State has its own keeping.
const FOLDERS: [&str; 6] = [
    "offsets",
    "commits",
    "sources",
    "_onefold/generations",
    "_onefold/prepared",
    "_onefold/sources",
];

/// Removes hidden files that were never given a name, and ends uploads that were never completed.
/// Whose they are need not be known: only the newest driver, which has written nothing yet, gets
/// here.
///
/// # Errors
/// Fenced, when this driver is the newest no more; as the store's.
pub(crate) async fn clear(store: &dyn Store, fence: &dyn Fence) -> Result<()> {
    let listed = try_join_all(FOLDERS.map(|folder| store.list_deep(folder, true))).await?;
    let paths = listed.into_iter().flatten().map(|entry| entry.path);
    let left: Vec<String> = paths.filter(|path| unfinished(path)).collect();
    fence.check().await?;
    if !left.is_empty() {
        store.delete_all(&left).await?;
    }
    let ended = store.abort_uploads(&|path| !path.starts_with("state/")).await?;
    if !left.is_empty() || ended > 0 {
        tracing::info!(
            files = left.len(),
            uploads = ended,
            "unfinished files of earlier drivers went"
        );
    }
    Ok(())
}

/// A hidden name of a file being written. Hadoop's checksum files are hidden too, and stay.
fn unfinished(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    name.starts_with('.') && (name.ends_with(".tmp") || name.ends_with(".staged"))
}

#[cfg(test)]
mod tests {
    use super::unfinished;

    #[test]
    fn only_what_has_no_name_yet_is_unfinished() {
        assert!(unfinished("offsets/.7.8b6a1f0e-0000-4000-8000-000000000000.tmp"));
        assert!(unfinished("sources/0/.9.compact.8b6a1f0e.staged"));
        assert!(!unfinished("offsets/.7.crc") && !unfinished("offsets/7"));
        assert!(!unfinished("sources/a.tmp/7"));
    }
}
