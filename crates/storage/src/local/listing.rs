//! Listings and facts of files. Symbolic links to files are followed; links to folders too, but
//! never into a folder that is being listed already, so that a circle of links ends.

use super::fault::fault;
use super::{Inner, absent};
use crate::Entry;
use crate::location::join_path;
use onefold_types::{Error, Result};
use std::fs::{DirEntry, Metadata, ReadDir};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// What tells one folder from another.
type Identity = (u64, u64);

impl Inner {
    pub(super) fn stat(&self, path: &str) -> Result<Option<Entry>> {
        let place = self.place(path)?;
        match std::fs::metadata(&place) {
            Ok(facts) if facts.is_dir() => Ok(None),
            Ok(facts) => Ok(Some(entry(path.to_owned(), &facts))),
            Err(error) if absent(&error) => Ok(None),
            Err(error) => Err(fault("look at", &place, error)),
        }
    }

    pub(super) fn list(&self, folder: &str) -> Result<Vec<Entry>> {
        let place = self.folder(folder)?;
        self.meet_folder(&place)?;
        let mut entries = Vec::new();
        let Some(names) = open_folder(&place)? else {
            return Ok(entries);
        };
        for item in names {
            let item = item.map_err(|error| fault("list", &place, error))?;
            let name = name_of(&item, &place)?;
            if name.starts_with('.') {
                continue;
            }
            if let Some(facts) = facts_of(&item)?
                && !facts.is_dir()
            {
                entries.push(entry(join_path(folder, &name), &facts));
            }
        }
        Ok(entries)
    }

    pub(super) fn list_deep(&self, folder: &str, hidden: bool) -> Result<Vec<Entry>> {
        self.meet_folder(&self.folder(folder)?)?;
        let mut entries = Vec::new();
        let mut take = |path: String, item: &DirEntry| -> Result<()> {
            let facts = facts_of(item)?;
            entries.extend(facts.map(|facts| entry(path, &facts)));
            Ok(())
        };
        self.walk(folder, Walk { hidden, above: Vec::new(), take: &mut take })?;
        Ok(entries)
    }

    pub(super) fn names_deep(&self, folder: &str, hidden: bool) -> Result<Vec<String>> {
        let mut names = Vec::new();
        let mut take = |path: String, _: &DirEntry| -> Result<()> {
            names.push(path);
            Ok(())
        };
        self.walk(folder, Walk { hidden, above: Vec::new(), take: &mut take })?;
        Ok(names)
    }

    fn walk(&self, folder: &str, mut walk: Walk<'_>) -> Result<()> {
        let place = self.folder(folder)?;
        let identity = match std::fs::metadata(&place) {
            Ok(facts) => (facts.dev(), facts.ino()),
            Err(error) if absent(&error) => return Ok(()),
            Err(error) => return Err(fault("list", &place, error)),
        };
        walk.enter(&place, folder, identity)
    }
}

/// One walk through a tree.
struct Walk<'a> {
    hidden: bool,
    /// The folders from the top down to the current one.
    above: Vec<Identity>,
    /// Takes each file.
    take: &'a mut dyn FnMut(String, &DirEntry) -> Result<()>,
}

impl Walk<'_> {
    fn enter(&mut self, place: &Path, folder: &str, identity: Identity) -> Result<()> {
        if self.above.contains(&identity) {
            return Ok(());
        }
        let Some(names) = open_folder(place)? else {
            return Ok(());
        };
        self.above.push(identity);
        for item in names {
            let item = item.map_err(|error| fault("list", place, error))?;
            let name = name_of(&item, place)?;
            if name.starts_with('.') && !self.hidden {
                continue;
            }
            let path = join_path(folder, &name);
            if item.file_type().is_ok_and(|kind| kind.is_file()) {
                (self.take)(path, &item)?;
                continue;
            }
            let Some(facts) = facts_of(&item)? else {
                continue;
            };
            if facts.is_dir() {
                self.enter(&item.path(), &path, (facts.dev(), facts.ino()))?;
            } else {
                (self.take)(path, &item)?;
            }
        }
        self.above.pop();
        Ok(())
    }
}

/// The names in a folder; `None` if there is no such folder.
fn open_folder(place: &Path) -> Result<Option<ReadDir>> {
    match std::fs::read_dir(place) {
        Ok(names) => Ok(Some(names)),
        Err(error) if absent(&error) => Ok(None),
        Err(error) => Err(fault("list", place, error)),
    }
}

fn name_of(item: &DirEntry, folder: &Path) -> Result<String> {
    item.file_name().into_string().map_err(|name| {
        Error::invalid(format!(
            "the name {name:?} in {} is not UTF-8 text; rename it or move it away",
            folder.display()
        ))
    })
}

/// Facts of what a name leads to; `None` if it vanished meanwhile, leads nowhere or in a circle.
fn facts_of(item: &DirEntry) -> Result<Option<Metadata>> {
    let plain = item.file_type().is_ok_and(|kind| kind.is_file());
    let facts = if plain { item.metadata() } else { std::fs::metadata(item.path()) };
    match facts {
        Ok(facts) => Ok(Some(facts)),
        Err(error) if absent(&error) => Ok(None),
        Err(error) if super::disk::is(&error, rustix::io::Errno::LOOP) => Ok(None),
        Err(error) => Err(fault("look at", &item.path(), error)),
    }
}

fn entry(path: String, facts: &Metadata) -> Entry {
    // Nanoseconds count upwards from the second, so this rounds down before 1970 too, as Java does.
    let modified_ms =
        facts.mtime().saturating_mul(1_000).saturating_add(facts.mtime_nsec() / 1_000_000);
    Entry { path, size: facts.len(), modified_ms, etag: None }
}
