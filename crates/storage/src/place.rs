//! The folder that a path or URL means, whatever its spelling, and how two folders lie to each
//! other.
//!
//! [`Place::find`] asks the disk where links lead; all else is decided from what it found.

use crate::location::{decode_path, encode_bytes, local_path};
use onefold_types::{Error, Result};
use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fmt::{self, Display};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

/// Links followed before a path counts as a loop, as Linux counts them.
const LINKS_MAX: usize = 40;

/// A folder, the same for all spellings of its path or URL: `file:/a` and `/b/../a`, a link and what
/// it leads to, `s3://` and `s3a://`, hosts in any case.
#[derive(Debug, Clone)]
pub struct Place {
    /// As it was given.
    given: String,
    root: Root,
    /// The folders' names from the root down to this one.
    names: Vec<OsString>,
    /// Device and inode of the root and of the folders below, as far as they exist.
    identities: Vec<(u64, u64)>,
    /// Whether links led elsewhere than the spelling says.
    led: bool,
}

/// What paths begin at.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Root {
    Disk,
    Bucket {
        store: String,
        name: String,
        /// Of Azure; `None` where the URL leaves it to the settings.
        account: Option<String>,
    },
}

impl Root {
    fn same(&self, other: &Root) -> bool {
        match (self, other) {
            (Root::Disk, Root::Disk) => true,
            (
                Root::Bucket { store, name, account },
                Root::Bucket { store: other_store, name: other_name, account: other_account },
            ) => {
                let accounts =
                    account.is_none() || other_account.is_none() || account == other_account;
                store == other_store && name == other_name && accounts
            }
            _ => false,
        }
    }

    /// Of `scheme://authority`.
    fn of(scheme: &str, authority: &str) -> Root {
        let (scheme, authority) = (scheme.to_lowercase(), authority.to_lowercase());
        let store = match scheme.as_str() {
            "s3a" | "s3n" => "s3",
            "abfs" | "wasb" | "wasbs" | "az" => "abfss",
            other => other,
        };
        let (name, host) = match store {
            "abfss" => authority.split_once('@').unwrap_or((&authority, "")),
            _ => (authority.as_str(), ""),
        };
        let account = host.split('.').next().filter(|account| !account.is_empty());
        Root::Bucket {
            store: store.to_owned(),
            name: name.to_owned(),
            account: account.map(str::to_owned),
        }
    }
}

impl Place {
    /// The place of a path or URL. On a disk, links are followed as far as there is anything; what
    /// does not exist yet is taken as it is written.
    ///
    /// # Errors
    /// Invalid, when a `file:` URL is none. Unavailable, when the current folder is gone and the path
    /// is relative.
    pub fn find(given: &str) -> Result<Place> {
        let path = match local_path(given)? {
            Some(path) => path,
            None if given.contains("://") => return Place::in_bucket(given),
            None => std::path::absolute(given).map_err(|error| {
                Error::unavailable(format!("the folder that `{given}` begins at is gone"))
                    .because(error)
            })?,
        };
        let real = resolved(&path);
        Ok(Place { led: real != path, ..Place::on_disk(given, &real) }.identified())
    }

    fn in_bucket(given: &str) -> Result<Place> {
        let (scheme, rest) = given.split_once("://").unwrap_or(("", given));
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let mut names: Vec<OsString> = Vec::new();
        for part in decode_path(path)?.split('/') {
            match part {
                "" | "." => {}
                ".." => {
                    names.pop();
                }
                name => names.push(name.into()),
            }
        }
        Ok(Place {
            given: given.to_owned(),
            root: Root::of(scheme, authority),
            names,
            identities: Vec::new(),
            led: false,
        })
    }

    /// An absolute path without links.
    fn on_disk(given: &str, path: &Path) -> Place {
        let names = path.components().filter_map(|part| match part {
            Component::Normal(name) => Some(name.to_owned()),
            _ => None,
        });
        Place {
            given: given.to_owned(),
            root: Root::Disk,
            names: names.collect(),
            identities: Vec::new(),
            led: false,
        }
    }

    /// Asks the disk which of the folders exist: a mount, or a disk that knows no case, gives one
    /// folder two names.
    fn identified(mut self) -> Place {
        let mut path = PathBuf::from("/");
        let mut names = self.names.iter();
        while let Ok(found) = fs::metadata(&path) {
            self.identities.push((found.dev(), found.ino()));
            let Some(name) = names.next() else { break };
            path.push(name);
        }
        self
    }

    /// The names that lead from another place down to this one: none when both are the same folder.
    /// `None` when this one lies neither there nor below.
    #[must_use]
    pub fn below(&self, other: &Place) -> Option<&[OsString]> {
        if !self.root.same(&other.root) {
            return None;
        }
        if let Some(names) = self.names.strip_prefix(other.names.as_slice()) {
            return Some(names);
        }
        let identity = other.identities.get(other.names.len())?;
        let depth = self.identities.iter().position(|it| it == identity)?;
        self.names.get(depth..)
    }

    /// Whether both are one folder.
    #[must_use]
    pub fn is(&self, other: &Place) -> bool {
        self.below(other).is_some_and(<[OsString]>::is_empty)
    }

    /// The same place in the one spelling that all others are brought to.
    #[must_use]
    pub fn url(&self) -> String {
        let names: Vec<String> =
            self.names.iter().map(|name| encode_bytes(name.as_bytes())).collect();
        let start = match &self.root {
            Root::Disk => "file://".to_owned(),
            Root::Bucket { store, name, account: None } => format!("{store}://{name}"),
            Root::Bucket { store, name, account: Some(account) } => {
                format!("{store}://{name}@{account}")
            }
        };
        format!("{start}/{}", names.join("/"))
    }
}

/// As it was given, and where links lead from there.
impl Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.given)?;
        if self.led { write!(f, " (that is {})", self.url()) } else { Ok(()) }
    }
}

/// An absolute path without links, `.` and `..`. A link that leads nowhere is followed as well, since
/// its end may be made later.
fn resolved(path: &Path) -> PathBuf {
    let mut real = PathBuf::from("/");
    let mut rest: VecDeque<OsString> = parts(path);
    let mut links = 0;
    while let Some(part) = rest.pop_front() {
        if part == OsStr::new("..") {
            real.pop();
            continue;
        }
        real.push(&part);
        let Ok(target) = fs::read_link(&real) else { continue };
        links += 1;
        if links > LINKS_MAX {
            continue;
        }
        if target.is_absolute() {
            real = PathBuf::from("/");
        } else {
            real.pop();
        }
        for part in parts(&target).into_iter().rev() {
            rest.push_front(part);
        }
    }
    real
}

fn parts(path: &Path) -> VecDeque<OsString> {
    let named = path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsString::from("..")),
        _ => None,
    });
    named.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn find(given: &str) -> Place {
        Place::find(given).unwrap()
    }

    fn names(found: Option<&[OsString]>) -> Option<Vec<&str>> {
        Some(found?.iter().map(|name| name.to_str().unwrap()).collect())
    }

    #[test]
    fn all_spellings_of_a_bucket_s_folder_are_one_place() {
        for (one, other) in [
            ("s3://box/a/b", "s3a://box/a/b/"),
            ("s3://box/a/b", "S3N://BOX//a/./c/../b"),
            ("s3://box", "s3a://box/"),
            ("s3://box/a b", "s3://box/a%20b"),
            ("gs://box/a", "GS://Box/a"),
            ("abfs://c@acc.dfs.core.windows.net/a", "abfss://C@ACC.blob.core.windows.net/a/"),
            ("wasbs://c@acc.blob.core.windows.net/a", "abfss://c@acc.dfs.core.windows.net/a"),
            ("az://c/a", "abfss://c@acc.dfs.core.windows.net/a"),
        ] {
            assert!(find(one).is(&find(other)) && find(other).is(&find(one)), "{one} {other}");
        }
        for (one, other) in [
            ("s3://box/a", "s3://box/A"),
            ("s3://box/a", "gs://box/a"),
            ("s3://box/a", "s3://boxes/a"),
            ("s3://box/ab", "s3://box/a"),
            ("s3://box/a", "/box/a"),
            ("abfss://c@one.dfs.core.windows.net/a", "abfss://c@two.dfs.core.windows.net/a"),
        ] {
            assert!(find(one).below(&find(other)).is_none(), "{one} {other}");
        }
    }

    #[test]
    fn a_folder_lies_below_itself_and_its_parents_only() {
        let (a, b, c) = (find("s3://box/a"), find("s3a://box/a/b/c"), find("s3://box"));
        assert_eq!(names(b.below(&a)), Some(vec!["b", "c"]));
        assert_eq!(names(b.below(&c)), Some(vec!["a", "b", "c"]));
        assert_eq!(names(a.below(&a)), Some(vec![]));
        assert!(a.below(&b).is_none());
    }

    #[test]
    fn links_dots_and_urls_lead_to_one_place_on_a_disk() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name).to_str().unwrap().to_owned();
        fs::create_dir_all(at("in/deep")).unwrap();
        fs::create_dir(at("other")).unwrap();
        symlink("in", at("link")).unwrap();
        symlink(at("link"), at("other/again")).unwrap();
        symlink("../in/later", at("other/dangling")).unwrap();
        let place = find(&at("in"));
        for same in [
            at("in/"),
            at("./in/."),
            at("in/deep/.."),
            at("none/../in"),
            at("link"),
            at("other/again"),
            format!("file:{}", at("link")),
            format!("FILE://{}/", at("in")),
            format!("file://localhost{}", at("in")),
        ] {
            assert!(find(&same).is(&place) && place.is(&find(&same)), "{same}");
        }
        assert_eq!(names(find(&at("other/again/x/y")).below(&place)), Some(vec!["x", "y"]));
        assert_eq!(names(find(&at("link/deep/../z")).below(&place)), Some(vec!["z"]));
        assert_eq!(names(find(&at("other/dangling")).below(&place)), Some(vec!["later"]));
        assert!(find(&at("other")).below(&place).is_none());
        assert!(place.below(&find(&at("other"))).is_none());
        assert!(find(&at("inner")).below(&place).is_none());
    }

    #[test]
    fn links_in_a_circle_end() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name).to_str().unwrap().to_owned();
        symlink("b", at("a")).unwrap();
        symlink("a", at("b")).unwrap();
        let _ = find(&at("a/x"));
    }

    #[test]
    fn a_folder_with_two_names_is_known_by_its_inode() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("in/deep")).unwrap();
        let given = root.path().join("in").to_str().unwrap().to_owned();
        // As a mount of the folder at another name, or a disk without case, shows it.
        let (here, mut other) = (find(&given), find(&format!("{given}/deep")));
        let depth = here.names.len();
        other.names[depth - 1] = "IN".into();
        assert_eq!(names(other.below(&here)), Some(vec!["deep"]));
        assert!(here.below(&other).is_none());
    }

    #[test]
    fn a_place_says_where_it_leads_when_its_spelling_does_not() {
        let root = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(root.path()).unwrap();
        let at = |name: &str| root.join(name).to_str().unwrap().to_owned();
        fs::create_dir(at("a b")).unwrap();
        symlink("a b", at("link")).unwrap();
        let real = find(&at("a b")).url();
        assert_eq!(find(&at("a b")).to_string(), at("a b"));
        assert_eq!(find(&real).to_string(), real);
        assert_eq!(find(&at("link")).to_string(), format!("{} (that is {real})", at("link")));
        assert_eq!(find("s3a://box/a").to_string(), "s3a://box/a");
    }
}
