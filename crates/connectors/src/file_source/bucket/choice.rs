//! Which objects a path or pattern names, as a walk through folders would find them. Decides, does
//! nothing.

use super::super::listing::{Places, has_glob, hidden, matcher};
use globset::GlobMatcher;
use onefold_types::Result;
use std::path::Path;

enum Part {
    Name(String),
    Pattern(GlobMatcher),
}

/// One path or pattern.
pub(super) struct Chooser {
    parts: Vec<Part>,
    folder: String,
    names: Option<GlobMatcher>,
    recursive: bool,
}

impl Chooser {
    pub(super) fn new(pattern: &str, places: &Places) -> Result<Chooser> {
        let mut parts = Vec::new();
        let mut folder: Vec<&str> = Vec::new();
        for part in pattern.split('/').filter(|part| !part.is_empty()) {
            if has_glob(part) {
                parts.push(Part::Pattern(matcher(part)?));
            } else {
                if folder.len() == parts.len() {
                    folder.push(part);
                }
                parts.push(Part::Name(part.to_owned()));
            }
        }
        Ok(Chooser {
            parts,
            folder: folder.join("/"),
            names: places.name_filter.clone(),
            recursive: places.recursive,
        })
    }

    /// The folder that holds all objects it may take; empty for the whole bucket.
    pub(super) fn folder(&self) -> &str {
        &self.folder
    }

    /// Whether a key is the path itself.
    pub(super) fn is_itself(&self, key: &str) -> bool {
        key == self.folder && self.parts.iter().all(|part| matches!(part, Part::Name(_)))
    }

    /// Whether it names this object, or a folder in which a walk meets it.
    pub(super) fn takes(&self, key: &str) -> bool {
        let names: Vec<&str> = key.split('/').collect();
        if names.len() < self.parts.len() {
            return false;
        }
        let (front, rest) = names.split_at(self.parts.len());
        let fits = front.iter().zip(&self.parts).all(|(name, part)| match part {
            Part::Name(wanted) => name == wanted,
            Part::Pattern(matcher) => !hidden(name.as_bytes()) && matcher.is_match(Path::new(name)),
        });
        // A file that the path names by itself is taken whatever it is called.
        let Some((file, folders)) = rest.split_last() else { return fits };
        let walked = folders.iter().enumerate().all(|(at, folder)| {
            let in_partition = || folders.iter().take(at + 1).any(|f| is_partition(f));
            !hidden(folder.as_bytes()) && (self.recursive || in_partition())
        });
        let wanted = self.names.as_ref().is_none_or(|names| names.is_match(Path::new(file)));
        fits && walked && wanted && !hidden(file.as_bytes())
    }
}

fn is_partition(folder: &str) -> bool {
    folder.find('=').is_some_and(|at| at > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(pattern: &str, recursive: bool, keys: &[&str]) -> Vec<String> {
        let places = Places {
            patterns: Vec::new(),
            name_filter: Some(matcher("*.json").unwrap()),
            recursive,
            bucket: None,
        };
        let chooser = Chooser::new(pattern, &places).unwrap();
        keys.iter().filter(|key| chooser.takes(key)).map(|key| (*key).to_owned()).collect()
    }

    #[test]
    fn objects_are_found_as_a_walk_would_find_them() {
        let keys = [
            "in/a.json",
            "in/b.txt",
            "in/_c.json",
            "in/.d.json",
            "in/k=1/e.json",
            "in/k=1/deep/f.json",
            "in/sub/g.json",
            "in/_x/h.json",
            "inner/i.json",
            "in",
        ];
        assert_eq!(taken("/in", false, &keys)[..2], ["in/a.json", "in/k=1/e.json"]);
        assert_eq!(taken("/in", false, &keys).len(), 4);
        assert!(taken("/in", true, &keys).contains(&"in/sub/g.json".to_owned()));
        assert!(!taken("/in", true, &keys).contains(&"in/_x/h.json".to_owned()));
        assert_eq!(taken("/in/*.json", false, &keys), ["in/a.json"]);
        assert_eq!(taken("/in*", false, &keys).last().unwrap(), "in");
        assert!(taken("/in*", false, &keys).contains(&"inner/i.json".to_owned()));
        assert_eq!(taken("/in/b.txt", false, &keys), ["in/b.txt"]);
        assert_eq!(taken("/{in,inner}/[ai].json", false, &keys), ["in/a.json", "inner/i.json"]);
    }
}
