//! The few system calls by which files become durable, behind a trait so that tests can fail,
//! record and cut short each of them.

use std::fmt::Debug;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// Changes to a disk. Reading needs no seam and goes to `std::fs`.
pub(super) trait Disk: Debug + Send + Sync {
    /// Opens a file that must not exist for writing.
    fn open_new(&self, path: &Path) -> io::Result<File>;
    /// Appends all bytes.
    fn write(&self, file: &File, path: &Path, bytes: &[u8]) -> io::Result<()>;
    /// Makes a file's bytes durable.
    fn sync(&self, file: &File, path: &Path) -> io::Result<()>;
    /// Gives a file another name unless that is taken (`AlreadyExists`).
    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Gives a file another name and destroys what had it. Only a planted fault does this.
    fn rename_over(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Makes one folder.
    fn make_folder(&self, path: &Path) -> io::Result<()>;
    /// Makes a folder's names durable.
    fn sync_folder(&self, path: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;
}

/// The disk of this machine.
#[derive(Debug, Default)]
pub(super) struct RealDisk {
    /// Whether a file system here was seen to lack rename without replace.
    no_rename_new: AtomicBool,
}

impl RealDisk {
    /// A disk whose file system lacks rename without replace.
    #[cfg(test)]
    pub(super) fn without_rename_new() -> Self {
        RealDisk { no_rename_new: AtomicBool::new(true) }
    }
}

impl Disk for RealDisk {
    fn open_new(&self, path: &Path) -> io::Result<File> {
        OpenOptions::new().write(true).create_new(true).open(path)
    }

    fn write(&self, mut file: &File, _path: &Path, bytes: &[u8]) -> io::Result<()> {
        file.write_all(bytes)
    }

    fn sync(&self, file: &File, _path: &Path) -> io::Result<()> {
        file.sync_all()
    }

    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        if !self.no_rename_new.load(Ordering::Relaxed) {
            match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
                Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => {
                    self.no_rename_new.store(true, Ordering::Relaxed);
                }
                outcome => return Ok(outcome?),
            }
        }
        link_then_unlink(from, to)
    }

    fn rename_over(&self, from: &Path, to: &Path) -> io::Result<()> {
        Ok(rustix::fs::rename(from, to)?)
    }

    fn make_folder(&self, path: &Path) -> io::Result<()> {
        std::fs::create_dir(path)
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        match File::open(path)?.sync_all() {
            // Some file systems (FUSE, 9p) know no sync of a folder; there is nothing more to do.
            Err(error) if is(&error, rustix::io::Errno::INVAL) => Ok(()),
            outcome => outcome,
        }
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }
}

/// A hard link refuses a taken name on every file system that has links. When the process dies
/// between the two acts, or the second fails, both names are there: the final one counts, and the
/// hidden one is a leftover that nobody reads.
fn link_then_unlink(from: &Path, to: &Path) -> io::Result<()> {
    rustix::fs::link(from, to)?;
    let _ = std::fs::remove_file(from);
    Ok(())
}

/// Whether an error is this one of the system's.
pub(super) fn is(error: &io::Error, errno: rustix::io::Errno) -> bool {
    error.raw_os_error() == Some(errno.raw_os_error())
}

/// Whether after this error of a rename the old names are certainly unchanged. The others (an
/// input/output error, a network file system's lost reply) leave it open.
pub(super) fn rename_certainly_failed(error: &io::Error) -> bool {
    use rustix::io::Errno;
    [
        Errno::ACCESS,
        Errno::DQUOT,
        Errno::EXIST,
        Errno::INVAL,
        Errno::ISDIR,
        Errno::LOOP,
        Errno::MLINK,
        Errno::NAMETOOLONG,
        Errno::NOENT,
        Errno::NOSPC,
        Errno::NOTDIR,
        Errno::OPNOTSUPP,
        Errno::PERM,
        Errno::ROFS,
        Errno::XDEV,
    ]
    .into_iter()
    .any(|errno| is(error, errno))
}
