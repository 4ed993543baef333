//! The contract of a place that keeps files: a local folder or a prefix in an object store.

use async_trait::async_trait;
use bytes::Bytes;
use onefold_types::Result;
use serde::{Deserialize, Serialize};
use std::fmt::Debug;

/// When a created file must survive a power cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// When the call returns.
    Now,
    /// At some later time. The name still appears whole or not at all while the machine runs, but a
    /// power cut may lose or blank the file: only for what can be made again from a durable file.
    Later,
}

/// What a create did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Created {
    /// The file is there, with our bytes, by this call.
    New,
    /// The name was taken; these are its bytes. The caller compares: they may be its own, from a
    /// try whose reply was lost.
    Exists(Bytes),
}

/// Why a create gave no certain answer. There is no `From` into the general error, so that `?`
/// cannot swallow [`CreateError::MaybeDone`].
#[derive(Debug)]
pub enum CreateError {
    /// Nothing is there under the name by this call.
    NotDone(onefold_types::Error),
    /// Nobody knows: read the name back before acting.
    MaybeDone(onefold_types::Error),
}

/// One file of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Path relative to the store's root, `/` between parts.
    pub path: String,
    /// Length in bytes.
    pub size: u64,
    /// Time of last change, milliseconds since 1970 (may be negative).
    pub modified_ms: i64,
    /// The store's own version of the bytes, where it has one.
    pub etag: Option<String>,
}

/// A file whose bytes are durable but which no listing and no reader sees yet. Plain data, so that
/// another process can reveal or discard it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Staged {
    /// The path it will have.
    pub path: String,
    /// Where it is now: a hidden name (local) or an upload id (object store).
    pub held_as: String,
    /// Parts of an upload in order, as the store names them; empty on a local disk.
    pub parts: Vec<String>,
    /// Length in bytes.
    pub size: u64,
}

/// Writes one staged file.
#[async_trait]
pub trait StagedWriter: Send + Debug {
    /// Appends bytes. Memory held is bounded (8 MiB).
    async fn write(&mut self, bytes: Bytes) -> Result<()>;
    /// Makes what was written durable, still invisible.
    async fn finish(self: Box<Self>) -> Result<Staged>;
    /// As [`Store::create`] with [`Durability::Later`], of a file of [`Store::stage_record`]: gives
    /// what was written its final name unless that is taken, and syncs nothing. Unless it is new,
    /// what was written is thrown away.
    async fn create_later(self: Box<Self>) -> Result<Created, CreateError>;
    /// Throws away what was written. Dropping a writer does the same as well as it can.
    async fn abandon(self: Box<Self>) -> Result<()>;
}

/// Says of a path below a store's root whether it is meant.
pub type PathTest<'a> = &'a (dyn Fn(&str) -> bool + Send + Sync);

/// A folder of files: a local directory or a prefix in an object store.
///
/// All paths are relative to the root, with `/` between parts, never starting with `/` and never
/// holding `..`. Errors name the full path and say what to do.
#[async_trait]
pub trait Store: Debug + Send + Sync {
    /// The root as a URL: `file:///a/b` or `s3://bucket/a/b`, without a slash at the end, its path
    /// percent-encoded as in Java's `URI`.
    fn url(&self) -> &str;

    /// Creates a file with these bytes unless the name is taken. Parent folders are made (and made
    /// durable) as needed.
    ///
    /// # Durability
    /// With [`Durability::Now`], when this returns [`Created::New`] a power cut loses nothing:
    /// file and folder are both synced (local), or the store acknowledged a conditional put. A
    /// failed sync is never retried; it poisons the store, so that every later durable call fails
    /// until the process opens it anew.
    async fn create(
        &self,
        path: &str,
        bytes: Bytes,
        durability: Durability,
    ) -> Result<Created, CreateError>;

    /// Makes files durable that were created with [`Durability::Later`], with one sync for each
    /// folder. A failed sync poisons the store as in [`Store::create`].
    ///
    /// # Errors
    /// Corrupt, when one of them is not there (on a local disk: an object store has nothing to do).
    async fn sync(&self, paths: &[String]) -> Result<()>;

    /// The bytes of a file; `None` if there is none.
    async fn read(&self, path: &str) -> Result<Option<Bytes>>;

    /// A part of a file: `length` bytes from `start`, fewer only where the file ends before.
    async fn read_range(&self, path: &str, start: u64, length: u64) -> Result<Bytes>;

    /// Size and time of a file; `None` if there is none.
    async fn stat(&self, path: &str) -> Result<Option<Entry>>;

    /// The files directly in a folder (`""` is the root), in no order; none if there is no such
    /// folder. Folders and names that start with `.` are left out.
    async fn list(&self, folder: &str) -> Result<Vec<Entry>>;

    /// The files below a folder at any depth; hidden names (`.`) included when asked for.
    async fn list_deep(&self, folder: &str, hidden: bool) -> Result<Vec<Entry>>;

    /// The paths of the files below a folder, as [`Store::list_deep`] has them: cheaper where
    /// nothing else is wanted of many files.
    async fn names_deep(&self, folder: &str, hidden: bool) -> Result<Vec<String>> {
        let entries = self.list_deep(folder, hidden).await?;
        Ok(entries.into_iter().map(|entry| entry.path).collect())
    }

    /// Removes a file, and the checksum file (`.NAME.crc`) that Hadoop keeps beside it. A file
    /// that is not there is fine. Needs no free space. When this returns, a power cut does not
    /// bring the file back.
    async fn delete(&self, path: &str) -> Result<()>;

    /// As [`Store::delete`] for many files, with one sync for each folder instead of each file.
    async fn delete_all(&self, paths: &[String]) -> Result<()> {
        for path in paths {
            self.delete(path).await?;
        }
        Ok(())
    }

    /// Starts a file that stays invisible until [`Store::reveal`]. `tag` is unique to the attempt
    /// and becomes part of the hidden name, which lies in the same folder and holds the whole
    /// final name, so that recovery can tell whose it is.
    async fn stage(&self, path: &str, tag: &str) -> Result<Box<dyn StagedWriter>>;

    /// As [`Store::stage`] for a file that [`Store::create_staged`] will name: one whose name
    /// another process may want at the same time.
    async fn stage_record(&self, path: &str, tag: &str) -> Result<Box<dyn StagedWriter>> {
        self.stage(path, tag).await
    }

    /// Gives staged files their final names, durably. Revealing again is fine. Fails, without
    /// harm, if a staged file is gone and its final name is not there either. An existing other
    /// file under the final name is an error, never overwritten.
    async fn reveal(&self, staged: &[Staged]) -> Result<()>;

    /// Takes files out of readers' sight and destroys nothing: each gets the hidden name that
    /// [`Store::concealed`] tells, durably. Files that are not there are fine. On an object store,
    /// which cannot rename, nothing happens.
    async fn conceal(&self, paths: &[String]) -> Result<()>;

    /// Where [`Store::conceal`] puts a file: a function of the path alone, so that a later process
    /// can reveal or discard it.
    fn concealed(&self, path: &str) -> Staged;

    /// Throws staged files away, whether revealed or not. Files that are gone are fine. While a
    /// file is still held, what has its final name is another's and stays.
    async fn discard(&self, staged: &[Staged]) -> Result<()>;

    /// Ends the uploads, whoever began them, of staged files whose final paths are `wanted`: nobody
    /// can reveal those any more. What was revealed before stays. Tells how many were ended.
    ///
    /// Does nothing on a local disk, where staged files are hidden files of a listing, and on object
    /// stores that do not tell of their uploads (all but S3).
    async fn abort_uploads(&self, _wanted: PathTest<'_>) -> Result<u64> {
        Ok(0)
    }

    /// As [`Store::create`] with [`Durability::Now`], of a file that was written ahead with
    /// [`Store::stage_record`]: gives it its final name unless that is taken.
    async fn create_staged(&self, staged: &Staged) -> Result<Created, CreateError>;
}

/// The name of the checksum file that Hadoop keeps beside a file.
pub(crate) fn sibling_checksum(path: &str) -> String {
    let (folder, name) = crate::location::split_path(path);
    crate::location::join_path(folder, &format!(".{name}.crc"))
}
