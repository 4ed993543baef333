//! A store in memory with the ways of a local disk: hidden names, durable or not yet.

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use onefold_storage::{CreateError, Created, Durability, Entry, Staged, StagedWriter, Store};
use onefold_types::{Error, Result};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[derive(Debug, Clone)]
struct File {
    bytes: Bytes,
    modified_ms: i64,
    durable: bool,
}

#[derive(Debug, Default)]
struct Files {
    by_path: BTreeMap<String, File>,
    /// Grows by one with each file, so that times are distinct and the same in every run.
    now_ms: i64,
}

/// A folder in memory. Clones share it, as processes share a disk.
#[derive(Debug, Clone)]
pub struct MemoryStore {
    url: String,
    files: Arc<Mutex<Files>>,
}

impl Default for MemoryStore {
    fn default() -> Self {
        MemoryStore::new("store")
    }
}

impl MemoryStore {
    /// An empty store with the URL `memory:///NAME`.
    #[must_use]
    pub fn new(name: &str) -> Self {
        let files = Files { now_ms: 1_700_000_000_000, ..Files::default() };
        MemoryStore { url: format!("memory:///{name}"), files: Arc::new(Mutex::new(files)) }
    }

    /// Cuts the power: files that are durable only later are gone.
    pub fn cut_power(&self) {
        self.lock().by_path.retain(|_, file| file.durable);
    }

    /// Cuts the power while the disk was writing: of files that are durable only later the first
    /// `bytes` are there.
    pub fn cut_power_tearing(&self, bytes: usize) {
        for file in self.lock().by_path.values_mut().filter(|file| !file.durable) {
            file.bytes.truncate(bytes);
            file.durable = true;
        }
    }

    /// All paths, hidden ones too, in order.
    #[must_use]
    pub fn paths(&self) -> Vec<String> {
        self.lock().by_path.keys().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, Files> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn list_where(&self, folder: &str, keep: impl Fn(&str) -> bool) -> Vec<Entry> {
        let start = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        let files = self.lock();
        let below =
            files.by_path.iter().filter(|(path, _)| path.strip_prefix(&start).is_some_and(&keep));
        below.map(|(path, file)| entry(path, file)).collect()
    }
}

impl Files {
    fn insert(&mut self, path: &str, bytes: Bytes, durable: bool) {
        self.now_ms += 1;
        let file = File { bytes, modified_ms: self.now_ms, durable };
        self.by_path.insert(path.to_owned(), file);
    }

    /// Renames unless the new name is taken; whether the old one was there.
    fn rename(&mut self, from: &str, to: &str) -> Result<bool> {
        if !self.by_path.contains_key(from) {
            return Ok(false);
        }
        if self.by_path.contains_key(to) {
            return Err(Error::corrupt(format!("{to} is there already")));
        }
        if let Some(file) = self.by_path.remove(from) {
            self.by_path.insert(to.to_owned(), file);
        }
        Ok(true)
    }
}

fn entry(path: &str, file: &File) -> Entry {
    Entry {
        path: path.to_owned(),
        size: file.bytes.len() as u64,
        modified_ms: file.modified_ms,
        etag: None,
    }
}

fn hidden_name(path: &str, tag: &str) -> String {
    match path.rsplit_once('/') {
        Some((folder, name)) => format!("{folder}/.{name}.{tag}.staged"),
        None => format!(".{path}.{tag}.staged"),
    }
}

#[derive(Debug)]
struct MemoryWriter {
    store: MemoryStore,
    staged: Staged,
    bytes: BytesMut,
}

#[async_trait]
impl StagedWriter for MemoryWriter {
    async fn write(&mut self, bytes: Bytes) -> Result<()> {
        self.bytes.extend_from_slice(&bytes);
        Ok(())
    }

    async fn finish(self: Box<Self>) -> Result<Staged> {
        let mut staged = self.staged;
        staged.size = self.bytes.len() as u64;
        self.store.lock().insert(&staged.held_as, self.bytes.freeze(), true);
        Ok(staged)
    }

    async fn create_later(self: Box<Self>) -> Result<Created, CreateError> {
        self.store.create(&self.staged.path, self.bytes.freeze(), Durability::Later).await
    }

    async fn abandon(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

#[async_trait]
impl Store for MemoryStore {
    fn url(&self) -> &str {
        &self.url
    }

    async fn create(
        &self,
        path: &str,
        bytes: Bytes,
        durability: Durability,
    ) -> Result<Created, CreateError> {
        let mut files = self.lock();
        if let Some(found) = files.by_path.get(path) {
            return Ok(Created::Exists(found.bytes.clone()));
        }
        files.insert(path, bytes, durability == Durability::Now);
        Ok(Created::New)
    }

    async fn sync(&self, paths: &[String]) -> Result<()> {
        let mut files = self.lock();
        for path in paths {
            match files.by_path.get_mut(path) {
                Some(file) => file.durable = true,
                None => return Err(Error::corrupt(format!("{path} is gone"))),
            }
        }
        Ok(())
    }

    async fn read(&self, path: &str) -> Result<Option<Bytes>> {
        Ok(self.lock().by_path.get(path).map(|file| file.bytes.clone()))
    }

    async fn read_range(&self, path: &str, start: u64, length: u64) -> Result<Bytes> {
        let Some(bytes) = self.read(path).await? else {
            return Err(Error::corrupt(format!("{path} is gone")));
        };
        let size = bytes.len();
        let start = usize::try_from(start).unwrap_or(size).min(size);
        let length = usize::try_from(length).unwrap_or(size).min(size - start);
        Ok(bytes.slice(start..start + length))
    }

    async fn stat(&self, path: &str) -> Result<Option<Entry>> {
        Ok(self.lock().by_path.get(path).map(|file| entry(path, file)))
    }

    async fn list(&self, folder: &str) -> Result<Vec<Entry>> {
        Ok(self.list_where(folder, |rest| !rest.contains('/') && !rest.starts_with('.')))
    }

    async fn list_deep(&self, folder: &str, hidden: bool) -> Result<Vec<Entry>> {
        Ok(self.list_where(folder, |rest| {
            hidden || !rest.split('/').any(|part| part.starts_with('.'))
        }))
    }

    async fn delete(&self, path: &str) -> Result<()> {
        self.lock().by_path.remove(path);
        Ok(())
    }

    async fn stage(&self, path: &str, tag: &str) -> Result<Box<dyn StagedWriter>> {
        let held_as = hidden_name(path, tag);
        let staged = Staged { path: path.to_owned(), held_as, parts: Vec::new(), size: 0 };
        Ok(Box::new(MemoryWriter { store: self.clone(), staged, bytes: BytesMut::new() }))
    }

    async fn reveal(&self, staged: &[Staged]) -> Result<()> {
        let mut files = self.lock();
        for one in staged {
            if files.rename(&one.held_as, &one.path)? {
                continue;
            }
            let any_size = one.held_as == self.concealed(&one.path).held_as;
            let found = files.by_path.get(&one.path).map(|file| file.bytes.len() as u64);
            if found != Some(one.size) && !(any_size && found.is_some()) {
                return Err(Error::corrupt(format!("what was staged for {} is gone", one.path)));
            }
        }
        Ok(())
    }

    async fn conceal(&self, paths: &[String]) -> Result<()> {
        let mut files = self.lock();
        for path in paths {
            files.rename(path, &hidden_name(path, "concealed"))?;
        }
        Ok(())
    }

    fn concealed(&self, path: &str) -> Staged {
        let held_as = hidden_name(path, "concealed");
        Staged { path: path.to_owned(), held_as, parts: Vec::new(), size: 0 }
    }

    async fn discard(&self, staged: &[Staged]) -> Result<()> {
        let mut files = self.lock();
        for one in staged {
            if files.by_path.remove(&one.held_as).is_none() {
                files.by_path.remove(&one.path);
            }
        }
        Ok(())
    }

    async fn create_staged(&self, staged: &Staged) -> Result<Created, CreateError> {
        let mut files = self.lock();
        if let Some(found) = files.by_path.get(&staged.path) {
            return Ok(Created::Exists(found.bytes.clone()));
        }
        match files.rename(&staged.held_as, &staged.path) {
            Ok(true) => Ok(Created::New),
            Ok(false) => Err(CreateError::NotDone(Error::corrupt(format!(
                "what was staged for {} is gone",
                staged.path
            )))),
            Err(error) => Err(CreateError::NotDone(error)),
        }
    }
}
