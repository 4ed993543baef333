//! Errors of the operating system in words: what could not be done, where, and what to do.

use onefold_types::{Error, ErrorKind};
use std::io;
use std::path::Path;

/// An error of one call on one path. `act` completes "cannot …": `write`, `list`.
pub(super) fn fault(act: &str, path: &Path, error: io::Error) -> Error {
    use io::ErrorKind as Io;
    let path = path.display();
    let (kind, advice) = match error.kind() {
        Io::StorageFull | Io::QuotaExceeded => {
            let message =
                format!("the disk is full: cannot {act} {path}; free space, then start again");
            return Error::new(ErrorKind::Unavailable, message).because(error);
        }
        Io::PermissionDenied => {
            (ErrorKind::Invalid, "; give this user the right to it or choose another path")
        }
        Io::ReadOnlyFilesystem => (ErrorKind::Invalid, "; choose a path that can be written"),
        Io::InvalidFilename => (ErrorKind::Invalid, "; choose a shorter name"),
        Io::NotADirectory => (ErrorKind::Invalid, "; a file is where a folder should be"),
        Io::IsADirectory => (
            ErrorKind::Corrupt,
            "; a folder is where a file should be: move it away if it is not needed",
        ),
        Io::Unsupported => (
            ErrorKind::Invalid,
            "; its file system can neither rename without replacing nor make hard links",
        ),
        Io::NotFound => (ErrorKind::Corrupt, "; it is gone"),
        _ if super::disk::is(&error, rustix::io::Errno::LOOP) => {
            (ErrorKind::Invalid, "; symbolic links there lead in a circle")
        }
        _ => (ErrorKind::Unavailable, "; see the system's log for the state of the disk"),
    };
    Error::new(kind, format!("cannot {act} {path}{advice}")).because(error)
}
