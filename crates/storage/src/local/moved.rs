//! Folders that take another name.

use super::disk::{Disk, RealDisk};
use std::io;
use std::path::Path;

/// Gives a folder another name on the same disk, durably. One that has the name already must be
/// empty.
///
/// # Errors
/// Those of the disk; the folder then has one of the two names.
pub fn move_folder(from: &Path, to: &Path) -> io::Result<()> {
    let disk = RealDisk::default();
    disk.rename_over(from, to)?;
    for folder in [from.parent(), to.parent()].into_iter().flatten() {
        disk.sync_folder(folder)?;
    }
    Ok(())
}
