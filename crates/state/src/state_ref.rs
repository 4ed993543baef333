//! The durable name of a version of the state: which files hold it.

use crate::OperatorSpec;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeSet;

/// The folder of state in a checkpoint.
pub(crate) const FOLDER: &str = "_onefold/state";

/// A 128-bit hash, as 32 hexadecimal digits in text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Hash)]
pub(crate) struct Hash(pub(crate) u128);

impl std::fmt::Display for Hash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl Serialize for Hash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Hash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let hash = u128::from_str_radix(&text, 16).map_err(serde::de::Error::custom)?;
        Ok(Hash(hash))
    }
}

/// A version of the state: all that must be kept to read it again.
///
/// It is stored in the prepared record of the batch that left this version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StateRef {
    pub(crate) version: u64,
    /// Partitions of the run that wrote it; another run may have another number.
    pub(crate) partitions: u32,
    /// The schema file that tells how `operators` encode their rows.
    pub(crate) schema: Hash,
    pub(crate) operators: Vec<OperatorRef>,
    /// The files, oldest first; of rows in several, the newest counts.
    pub(crate) pieces: Vec<Piece>,
}

/// An operator in a version of the state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OperatorRef {
    pub(crate) label: String,
    /// The version at which it came into the query: rows that older files have under its label are
    /// of another operator that is gone.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) since: u64,
    pub(crate) families: Vec<FamilyRef>,
}

/// A family in a version of the state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FamilyRef {
    pub(crate) name: String,
    pub(crate) rows: u64,
    pub(crate) bytes: u64,
}

/// A state file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Piece {
    /// Its path below the folder of state.
    pub(crate) path: String,
    /// It holds what batches `from..to` changed.
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) size: u64,
    pub(crate) rows: u64,
    /// XXH3-128 of its index.
    pub(crate) hash: Hash,
    /// Hash over this and all earlier changes.
    pub(crate) chain: Hash,
    pub(crate) schema: Hash,
    /// The files that it was merged from, kept so that damage to it can be made good.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) made_from: Vec<Piece>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the form that serde asks for")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl StateRef {
    /// The version: the number of the batch that starts from it.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The partitions of the run that wrote it.
    #[must_use]
    pub fn partitions(&self) -> u32 {
        self.partitions
    }

    /// Paths in the checkpoint of all files that it needs.
    #[must_use]
    pub fn paths(&self) -> BTreeSet<String> {
        let mut paths = BTreeSet::from([schema_path(self.schema)]);
        self.pieces.iter().for_each(|piece| piece.add_paths(&mut paths));
        paths
    }

    /// Bytes of the files that a restart would read.
    #[must_use]
    pub fn bytes_to_read(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.size).sum()
    }

    pub(crate) fn chain(&self) -> u128 {
        self.pieces.last().map_or(0, |piece| piece.chain.0)
    }
}

impl Piece {
    pub(crate) fn full_path(&self) -> String {
        format!("{FOLDER}/{}", self.path)
    }

    /// Whether it holds the changes of one batch as that batch wrote them.
    pub(crate) fn is_changelog(&self) -> bool {
        self.path.starts_with("changes/")
    }

    pub(crate) fn add_paths(&self, paths: &mut BTreeSet<String>) {
        paths.insert(self.full_path());
        paths.insert(schema_path(self.schema));
        self.made_from.iter().for_each(|piece| piece.add_paths(paths));
    }
}

/// The hash over all changes up to a changelog.
pub(crate) fn chain(before: u128, changelog: u128) -> u128 {
    let bytes = [before.to_le_bytes(), changelog.to_le_bytes()].concat();
    xxhash_rust::xxh3::xxh3_128(&bytes)
}

/// Path of the changelog that leaves `version`, below the folder of state.
pub(crate) fn changelog_name(version: u64, generation: u64, hash: u128) -> String {
    format!("changes/{version}-g{generation}-{}.changes", Hash(hash))
}

/// Path of a snapshot, below the folder of state. `hash` is over what it is made from.
pub(crate) fn snapshot_name(from: u64, to: u64, generation: u64, hash: u128) -> String {
    format!("snapshots/{from}-{to}-g{generation}-{}.snapshot", Hash(hash))
}

pub(crate) fn schema_path(hash: Hash) -> String {
    format!("{FOLDER}/schemas/{hash}.json")
}

/// What a path of a changelog or snapshot, hidden or not, tells: the version that it leaves and its
/// writer's generation.
pub(crate) fn parse_name(path: &str) -> Option<(u64, u64)> {
    let name = path.strip_prefix(FOLDER)?.rsplit('/').next()?;
    let name = name.strip_prefix('.').unwrap_or(name);
    let (versions, rest) = name.split_once("-g")?;
    let (generation, _) = rest.split_once('-')?;
    let to = versions.rsplit('-').next()?;
    Some((to.parse().ok()?, generation.parse().ok()?))
}

/// The operators of a run, with no rows yet.
pub(crate) fn operator_refs(
    operators: &[OperatorSpec],
    since: impl Fn(&str) -> u64,
) -> Vec<OperatorRef> {
    let families = |spec: &OperatorSpec| {
        let family = |name: &String| FamilyRef { name: name.clone(), rows: 0, bytes: 0 };
        spec.families.iter().map(|spec| family(&spec.name)).collect()
    };
    let operator = |spec: &OperatorSpec| OperatorRef {
        label: spec.label.clone(),
        since: since(&spec.label),
        families: families(spec),
    };
    operators.iter().map(operator).collect()
}

#[cfg(test)]
mod tests {
    use super::{FOLDER, changelog_name, parse_name, snapshot_name};

    #[test]
    fn names_tell_version_and_generation_even_when_hidden() {
        let of = |name: String| parse_name(&format!("{FOLDER}/{name}"));
        assert_eq!(of(changelog_name(12, 3, 5)), Some((12, 3)));
        assert_eq!(of(snapshot_name(4, 17, 2, 5)), Some((17, 2)));
        let hidden = snapshot_name(0, 17, 2, 5).replace("snapshots/", "snapshots/.");
        assert_eq!(of(format!("{hidden}.tag.staged")), Some((17, 2)));
        assert_eq!(of("schemas/00ff.json".into()), None);
        assert_eq!(parse_name("offsets/3-g1-x"), None);
    }
}
