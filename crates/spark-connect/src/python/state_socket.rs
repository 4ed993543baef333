//! Where a processor in Python reaches its state: a Unix socket in a folder that is the server's
//! own, for one connection of one task.

use onefold_types::{Error, Result};
use std::fs::{self, DirBuilder};
use std::io;
use std::net::Shutdown;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use uuid::Uuid;

/// Longest path of a folder of sockets: a socket's path has at most 107 bytes.
const FOLDER_MAX: usize = 40;

/// A folder that nobody else may look into. It is removed when this is dropped.
#[derive(Debug)]
pub(super) struct SocketFolder(PathBuf);

impl SocketFolder {
    /// # Errors
    /// Unavailable: no folder can be made.
    pub(super) fn new() -> Result<SocketFolder> {
        let base = std::env::temp_dir();
        let text = base.to_str().unwrap_or_default();
        // PySpark's worker takes the path in lower case.
        let fits = !text.is_empty() && text.len() <= FOLDER_MAX && text == text.to_lowercase();
        let base = if fits { base } else { PathBuf::from("/tmp") };
        let path = base.join(format!("onefold-{}", Uuid::new_v4().simple()));
        DirBuilder::new().mode(0o700).create(&path).map_err(|error| {
            Error::unavailable(format!(
                "the folder {} for sockets of Python workers cannot be made",
                path.display()
            ))
            .because(error)
        })?;
        Ok(SocketFolder(path))
    }
}

impl Drop for SocketFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A socket for the state of one task.
#[derive(Debug)]
pub(super) struct StateSocket {
    path: PathBuf,
    listener: UnixListener,
    connection: Mutex<Connection>,
}

#[derive(Debug, Default)]
struct Connection {
    stream: Option<UnixStream>,
    over: bool,
}

impl StateSocket {
    /// # Errors
    /// Unavailable: the socket cannot be made.
    pub(super) fn new(folder: &SocketFolder) -> Result<StateSocket> {
        let path = folder.0.join(Uuid::new_v4().simple().to_string());
        let listener = UnixListener::bind(&path).map_err(|error| {
            Error::unavailable(format!("the socket {} cannot be made", path.display()))
                .because(error)
        })?;
        Ok(StateSocket { path, listener, connection: Mutex::default() })
    }

    /// What the worker connects to.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Waits for the worker; `None`: the task is over without it.
    pub(super) fn accept(&self) -> io::Result<Option<UnixStream>> {
        let (stream, _) = self.listener.accept()?;
        let mut connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        if connection.over {
            return Ok(None);
        }
        connection.stream = Some(stream.try_clone()?);
        Ok(Some(stream))
    }

    /// The task is over, or there is no more to say: ends the connection, and the wait for one.
    pub(super) fn finish(&self) {
        let mut connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        connection.over = true;
        match &connection.stream {
            Some(stream) => drop(stream.shutdown(Shutdown::Both)),
            None => drop(UnixStream::connect(&self.path)),
        }
    }
}

impl Drop for StateSocket {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::{SocketFolder, StateSocket};
    use std::io::Read;
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::UnixStream;

    #[test]
    fn only_the_owner_reaches_a_socket_and_nothing_is_left() {
        let folder = SocketFolder::new().unwrap();
        let path = folder.0.clone();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        let socket = StateSocket::new(&folder).unwrap();
        let mut worker = UnixStream::connect(socket.path()).unwrap();
        let _server = socket.accept().unwrap().unwrap();
        socket.finish();
        assert_eq!(worker.read(&mut [0; 1]).unwrap(), 0);
        drop(socket);
        assert_eq!(std::fs::read_dir(&path).unwrap().count(), 0);
        drop(folder);
        assert!(!path.exists());
    }

    #[test]
    fn a_task_that_ends_without_a_connection_ends_the_wait() {
        let folder = SocketFolder::new().unwrap();
        let socket = StateSocket::new(&folder).unwrap();
        socket.finish();
        assert!(socket.accept().unwrap().is_none());
    }
}
