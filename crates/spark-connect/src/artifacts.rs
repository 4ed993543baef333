//! What a client uploads: cached rows, and files for its Python functions.

use crate::failure::{Failure, Outcome};
use crate::limits;
use prost::bytes::Bytes;
use spark_connect_proto::add_artifacts_request::{Batch, Payload};
use spark_connect_proto::add_artifacts_response::ArtifactSummary;
use std::collections::{BTreeMap, HashMap};
use std::path::{Component, Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Names of what is kept in memory.
const CACHE: &str = "cache/";
/// Names of files that Python workers find: modules and archives of modules, and plain files.
const FILES: [&str; 2] = ["pyfiles/", "files/"];

/// The uploads of a session.
#[derive(Debug)]
pub(crate) struct Artifacts {
    /// Where files are; made with the first.
    folder: PathBuf,
    /// Bytes at most.
    limit: usize,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default, Clone)]
struct Kept {
    by_name: HashMap<String, Bytes>,
    bytes: usize,
}

impl Artifacts {
    pub(crate) fn new(folder: PathBuf, limit: usize) -> Self {
        Artifacts { folder, limit, kept: Mutex::default() }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        // Each change is one call: a panic leaves it usable.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where the files of the client are.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The bytes uploaded under a name.
    pub(crate) fn get(&self, name: &str) -> Option<Bytes> {
        self.kept().by_name.get(name).cloned()
    }

    /// Whether so many further bytes may be uploaded.
    fn room(&self, bytes: usize) -> Outcome<()> {
        if self.kept().bytes.saturating_add(bytes) <= self.limit {
            return Ok(());
        }
        Err(Failure::limit(
            &format!("the session may upload {} bytes", self.limit),
            limits::ARTIFACTS,
        ))
    }

    /// Keeps an upload. Blocks.
    ///
    /// # Errors
    /// A name that is not of what can be used or that leads out of the folder, other bytes under a
    /// name that is taken, too many bytes, or a disk that fails.
    pub(crate) fn keep(&self, name: &str, bytes: Bytes) -> Outcome<()> {
        let file = file_of(name)?;
        match self.get(name) {
            Some(known) if known == bytes => return Ok(()),
            // A name of cached rows is their hash.
            Some(_) if file.is_some() => {
                return Err(Failure::invalid(format!(
                    "the artifact `{name}` was added with other content already; choose another \
                     name"
                )));
            }
            _ => {}
        }
        self.room(bytes.len())?;
        if let Some(file) = file {
            write(&self.folder.join(file), &bytes).map_err(|error| {
                Failure::invalid(format!("the artifact `{name}` cannot be kept: {error}"))
            })?;
        }
        let mut kept = self.kept();
        kept.bytes = kept.bytes.saturating_add(bytes.len());
        kept.by_name.insert(name.to_owned(), bytes);
        Ok(())
    }

    /// Everything under this, uploaded to another session as well. Blocks.
    pub(crate) fn copy_to(&self, other: &Artifacts) -> Outcome<()> {
        let kept = self.kept().clone();
        kept.by_name.into_iter().try_for_each(|(name, bytes)| other.keep(&name, bytes))
    }

    /// Forgets all. What is left in a temporary folder harms nobody.
    pub(crate) fn clear(&self) {
        *self.kept() = Kept::default();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

#[expect(clippy::disallowed_methods, reason = "a copy for Python, as long as the session lives")]
fn write(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    path.parent().map_or(Ok(()), std::fs::create_dir_all)?;
    std::fs::write(path, bytes)
}

/// The file of an artifact in the folder of the session; `None` for what is kept in memory.
fn file_of(name: &str) -> Outcome<Option<PathBuf>> {
    if name.starts_with(CACHE) {
        return Ok(None);
    }
    let Some(file) = FILES.iter().find_map(|prefix| name.strip_prefix(prefix)) else {
        return Err(Failure::unsupported(format!(
            "the artifact `{name}`, which is none of pyfiles or files,"
        )));
    };
    let path = Path::new(file);
    let plain = path.components().all(|part| matches!(part, Component::Normal(_)));
    if file.is_empty() || file.contains('\0') || file.contains('\\') || !plain {
        return Err(Failure::invalid(format!("`{name}` cannot be the name of an artifact")));
    }
    Ok(Some(path.to_owned()))
}

/// Archives of modules in a folder of artifacts, which Python has to be told of.
pub(crate) fn module_archives(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| {
            let kind = Path::new(name).extension().and_then(|kind| kind.to_str());
            kind.is_some_and(|kind| ["zip", "egg", "jar"].contains(&kind))
        })
        .collect();
    names.sort();
    names
}

/// A call that uploads: single artifacts, and one in chunks at a time.
#[derive(Debug, Default)]
pub(crate) struct Upload {
    open: Option<Chunked>,
    /// What came, by name: whether all of it was whole.
    summaries: BTreeMap<String, bool>,
}

#[derive(Debug)]
struct Chunked {
    name: String,
    bytes: Vec<u8>,
    whole: bool,
    left: i64,
}

impl Upload {
    /// Takes one message of the call. Blocks.
    ///
    /// # Errors
    /// As [`Artifacts::keep`], and a chunk without a beginning.
    pub(crate) fn take(&mut self, artifacts: &Artifacts, payload: Payload) -> Outcome<()> {
        match payload {
            Payload::Batch(Batch { artifacts: all }) => {
                for artifact in all {
                    let chunk = artifact.data.unwrap_or_default();
                    let whole = crc(&chunk.data) == chunk.crc;
                    self.keep(artifacts, artifact.name, chunk.data, whole)?;
                }
            }
            Payload::BeginChunk(begin) => {
                let chunk = begin.initial_chunk.unwrap_or_default();
                let open = Chunked {
                    name: begin.name,
                    bytes: Vec::new(),
                    whole: true,
                    left: begin.num_chunks,
                };
                self.add(artifacts, open, &chunk.data, chunk.crc)?;
            }
            Payload::Chunk(chunk) => {
                let open = self
                    .open
                    .take()
                    .ok_or_else(|| Failure::invalid("a chunk came without its beginning"))?;
                self.add(artifacts, open, &chunk.data, chunk.crc)?;
            }
        }
        Ok(())
    }

    fn add(
        &mut self,
        artifacts: &Artifacts,
        mut open: Chunked,
        data: &[u8],
        sum: i64,
    ) -> Outcome<()> {
        artifacts.room(open.bytes.len().saturating_add(data.len()))?;
        open.whole &= crc(data) == sum;
        open.bytes.extend_from_slice(data);
        open.left -= 1;
        if open.left > 0 {
            self.open = Some(open);
            return Ok(());
        }
        self.keep(artifacts, open.name, open.bytes.into(), open.whole)
    }

    fn keep(
        &mut self,
        artifacts: &Artifacts,
        name: String,
        bytes: Bytes,
        whole: bool,
    ) -> Outcome<()> {
        if whole {
            artifacts.keep(&name, bytes)?;
        }
        self.summaries.insert(name, whole);
        Ok(())
    }

    /// What the client hears.
    pub(crate) fn summaries(self) -> Vec<ArtifactSummary> {
        let all = self.summaries.into_iter();
        all.map(|(name, is_crc_successful)| ArtifactSummary { name, is_crc_successful }).collect()
    }
}

/// CRC-32 as zip files have it.
fn crc(bytes: &[u8]) -> i64 {
    let mut table = flate2::Crc::new();
    table.update(bytes);
    i64::from(table.sum())
}

#[cfg(test)]
mod tests {
    use super::{Artifacts, Upload, crc, file_of, module_archives};
    use prost::bytes::Bytes;
    use spark_connect_proto::add_artifacts_request::{
        ArtifactChunk, BeginChunkedArtifact, Payload,
    };
    use std::path::PathBuf;

    fn artifacts(limit: usize) -> Artifacts {
        let name = format!("onefold-artifacts-{}", uuid::Uuid::new_v4());
        Artifacts::new(std::env::temp_dir().join(name), limit)
    }

    #[test]
    fn chunks_are_checked_with_the_crc_of_zip_files() {
        assert_eq!(crc(b"123456789"), 0xcbf4_3926);
    }

    #[test]
    fn names_do_not_lead_out_of_the_folder() {
        let wrong = ["", "..", "../x", "/etc/passwd", "a/../../x", "a\0b", "a\\b", "./x"];
        for name in wrong {
            let name = format!("pyfiles/{name}");
            assert!(file_of(&name).is_err(), "{name}");
        }
        assert!(file_of("jars/x.jar").is_err() && file_of("x").is_err());
        assert_eq!(file_of("files/a/b.txt").unwrap(), Some(PathBuf::from("a/b.txt")));
        assert_eq!(file_of("cache/../x").unwrap(), None);
    }

    #[test]
    fn files_are_on_disk_until_the_session_ends_and_do_not_change() {
        let artifacts = artifacts(100);
        artifacts.keep("pyfiles/m.zip", Bytes::from_static(b"zip")).unwrap();
        artifacts.keep("pyfiles/m.zip", Bytes::from_static(b"zip")).unwrap();
        let error = artifacts.keep("pyfiles/m.zip", Bytes::from_static(b"other")).unwrap_err();
        assert!(error.message().contains("with other content"), "{}", error.message());
        assert_eq!(std::fs::read(artifacts.folder().join("m.zip")).unwrap(), b"zip");
        assert_eq!(module_archives(artifacts.folder()), ["m.zip"]);
        artifacts.clear();
        assert!(!artifacts.folder().exists());
    }

    #[test]
    fn uploads_beyond_the_limit_name_the_setting() {
        let artifacts = artifacts(3);
        artifacts.keep("cache/a", Bytes::from_static(b"abc")).unwrap();
        let error = artifacts.keep("cache/b", Bytes::from_static(b"d")).unwrap_err();
        assert!(error.message().contains("onefold.connect.maxArtifactBytes"));
        // An artifact in chunks is refused before the last one came.
        let first = ArtifactChunk { data: Bytes::from_static(b"d"), crc: 0 };
        let begin = BeginChunkedArtifact {
            name: "cache/c".to_owned(),
            total_bytes: i64::MAX,
            num_chunks: i64::MAX,
            initial_chunk: Some(first),
        };
        let mut upload = Upload::default();
        assert!(upload.take(&artifacts, Payload::BeginChunk(begin)).is_err());
    }
}
