//! The actions of one commit, as lines of JSON. Kinds of actions that are not known are kept out of
//! the way: what a reader must know of a table, its protocol names.

use onefold_types::{Error, Result};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Values of partition columns as text; `None` is null.
pub(crate) type PartitionValues = BTreeMap<String, Option<String>>;

/// A file that comes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Add {
    /// Relative to the table's folder, with the escapes of a URI.
    pub(crate) path: String,
    pub(crate) partition_values: PartitionValues,
    pub(crate) size: i64,
    /// Milliseconds since 1970.
    pub(crate) modification_time: i64,
    pub(crate) data_change: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) stats: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) deletion_vector: Option<Value>,
}

/// A file that goes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Remove {
    pub(crate) path: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) deletion_timestamp: Option<i64>,
    pub(crate) data_change: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) extended_file_metadata: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) partition_values: Option<PartitionValues>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) size: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) deletion_vector: Option<Value>,
}

/// What an application remembers in the table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Txn {
    pub(crate) app_id: String,
    pub(crate) version: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) last_updated: Option<i64>,
}

/// A commit.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Commit {
    pub(crate) info: Option<Map<String, Value>>,
    pub(crate) protocol: Option<Value>,
    pub(crate) metadata: Option<Value>,
    pub(crate) txns: Vec<Txn>,
    pub(crate) adds: Vec<Add>,
    pub(crate) removes: Vec<Remove>,
    /// Whether rows of change data are written beside.
    pub(crate) has_cdc: bool,
}

impl Commit {
    /// Reads a commit's file. `place` names it for messages.
    ///
    /// # Errors
    /// Corrupt: a line is no action.
    pub(crate) fn parse(bytes: &[u8], place: &str) -> Result<Commit> {
        let damaged = |error: serde_json::Error| {
            Error::corrupt(format!(
                "{place} is no commit of a Delta table: it is damaged; restore it from a backup"
            ))
            .because(error)
        };
        let mut commit = Commit::default();
        for line in bytes.split(|byte| *byte == b'\n') {
            if line.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            let action: Map<String, Value> = serde_json::from_slice(line).map_err(damaged)?;
            for (name, value) in action {
                match name.as_str() {
                    "add" => commit.adds.push(serde_json::from_value(value).map_err(damaged)?),
                    "remove" => {
                        commit.removes.push(serde_json::from_value(value).map_err(damaged)?);
                    }
                    "txn" => commit.txns.push(serde_json::from_value(value).map_err(damaged)?),
                    "metaData" => commit.metadata = Some(value),
                    "protocol" => commit.protocol = Some(value),
                    "commitInfo" => {
                        commit.info = Some(serde_json::from_value(value).map_err(damaged)?);
                    }
                    "cdc" => commit.has_cdc = true,
                    _ => {}
                }
            }
        }
        Ok(commit)
    }

    /// The bytes of the commit's file. What it is about comes first, as other writers have it.
    ///
    /// # Errors
    /// Internal: an action is no JSON.
    pub(crate) fn to_bytes(&self) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        if let Some(info) = &self.info {
            line(&mut bytes, "commitInfo", info)?;
        }
        if let Some(protocol) = &self.protocol {
            line(&mut bytes, "protocol", protocol)?;
        }
        if let Some(metadata) = &self.metadata {
            line(&mut bytes, "metaData", metadata)?;
        }
        for txn in &self.txns {
            line(&mut bytes, "txn", txn)?;
        }
        for remove in &self.removes {
            line(&mut bytes, "remove", remove)?;
        }
        for add in &self.adds {
            line(&mut bytes, "add", add)?;
        }
        Ok(bytes)
    }

    /// What the writer called its act.
    pub(crate) fn operation(&self) -> Option<&str> {
        self.info.as_ref()?.get("operation")?.as_str()
    }
}

fn line(bytes: &mut Vec<u8>, name: &str, action: &impl Serialize) -> Result<()> {
    let value = serde_json::to_value(action)
        .map_err(|error| Error::internal("an action is no JSON").because(error))?;
    let mut whole = Map::new();
    whole.insert(name.to_owned(), value);
    serde_json::to_writer(&mut *bytes, &whole)
        .map_err(|error| Error::internal("an action is no JSON").because(error))?;
    bytes.push(b'\n');
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_commit_is_read_as_it_was_written() {
        let add = Add {
            path: "k=a%20b/x.parquet".to_owned(),
            partition_values: BTreeMap::from([
                ("k".to_owned(), Some("a b".to_owned())),
                ("n".to_owned(), None),
            ]),
            size: 5,
            modification_time: 7,
            data_change: true,
            stats: Some("{\"numRecords\":1}".to_owned()),
            deletion_vector: None,
        };
        let remove = Remove {
            path: "x".to_owned(),
            deletion_timestamp: Some(1),
            data_change: true,
            extended_file_metadata: None,
            partition_values: None,
            size: None,
            deletion_vector: None,
        };
        let txn = Txn { app_id: "q".to_owned(), version: 3, last_updated: Some(9) };
        let info = serde_json::json!({"timestamp": 12, "operation": "WRITE"});
        let commit = Commit {
            info: info.as_object().cloned(),
            protocol: Some(serde_json::json!({"minReaderVersion": 1})),
            metadata: Some(serde_json::json!({"id": "x"})),
            txns: vec![txn],
            adds: vec![add],
            removes: vec![remove],
            has_cdc: false,
        };
        let bytes = commit.to_bytes().unwrap();
        assert_eq!(Commit::parse(&bytes, "here").unwrap(), commit);
        assert_eq!(commit.operation(), Some("WRITE"));
    }

    #[test]
    fn actions_of_later_versions_are_no_damage_and_broken_lines_are() {
        let later = b"{\"sidecar\":{\"path\":\"x\"}}\n\n{\"cdc\":{\"path\":\"y\"}}\n";
        let commit = Commit::parse(later, "here").unwrap();
        assert!(commit.has_cdc && commit.adds.is_empty());
        let error = Commit::parse(b"{\"add\":{\"path\":1}}", "t/_delta_log/1.json").unwrap_err();
        assert!(error.to_string().contains("t/_delta_log/1.json"), "{error}");
        assert!(Commit::parse(b"\0\0\0", "here").is_err());
    }
}
