//! Whether the files of kept versions are whole: every byte of each is read and checked.

use crate::StateRef;
use crate::piece::{OpenPiece, ReadError, Window};
use crate::schema::read_schema;
use crate::state_ref::{Hash, Piece, schema_path};
use onefold_storage::Store;
use onefold_types::{ErrorKind, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What reading all files of some versions found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CheckedFiles {
    /// Files that were read.
    pub files: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Those that are missing or damaged, by the oldest version that needs them.
    pub damaged: Vec<DamagedFile>,
}

/// A state file that is missing or damaged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DamagedFile {
    /// Its path in the checkpoint.
    pub path: String,
    /// What is wrong.
    pub text: String,
    /// The oldest version that needs it.
    pub version: u64,
    /// Whether other files hold the same, so that all versions can be read nevertheless.
    pub replaceable: bool,
}

/// Reads and checks all files of some versions, oldest first, also those from which a damaged
/// snapshot would be made anew.
///
/// # Errors
/// As the store's, when a file cannot be read for another reason than damage.
pub async fn check_files(store: &Arc<dyn Store>, kept: &[StateRef]) -> Result<CheckedFiles> {
    let mut checked = CheckedFiles::default();
    let mut schemas: BTreeSet<Hash> = BTreeSet::new();
    // What is wrong with each file that was looked at; nothing with a good one.
    let mut looked: BTreeMap<String, Option<String>> = BTreeMap::new();
    for at in kept {
        let mut all = Vec::new();
        at.pieces.iter().for_each(|piece| with_parts(piece, &mut all));
        for schema in all.iter().map(|piece| piece.schema).chain([at.schema]) {
            if schemas.insert(schema)
                && let Err(error) = read_schema(store.as_ref(), schema).await
            {
                if error.kind() != ErrorKind::Corrupt {
                    return Err(error);
                }
                checked.damaged.push(DamagedFile {
                    path: schema_path(schema),
                    text: error.chain(),
                    version: at.version,
                    replaceable: false,
                });
            }
        }
        for piece in &all {
            if looked.contains_key(&piece.path) {
                continue;
            }
            checked.files += 1;
            checked.bytes += piece.size;
            let wrong = match read_all(store, piece, at.partitions).await {
                Ok(()) => None,
                Err(ReadError::Damaged { error, .. }) => Some(error.chain()),
                Err(ReadError::Other(error)) => return Err(error),
            };
            looked.insert(piece.path.clone(), wrong);
        }
    }
    for at in kept {
        for piece in &at.pieces {
            let replaceable = usable(piece, &looked);
            let mut parts = Vec::new();
            with_parts(piece, &mut parts);
            for part in parts {
                let Some(Some(text)) = looked.get(&part.path) else { continue };
                let (path, text) = (part.full_path(), text.clone());
                match checked.damaged.iter_mut().find(|known| known.path == path) {
                    Some(known) => known.replaceable &= replaceable,
                    None => {
                        let version = at.version;
                        checked.damaged.push(DamagedFile { path, text, version, replaceable });
                    }
                }
            }
        }
    }
    Ok(checked)
}

/// A file and those that it was made from.
fn with_parts<'a>(piece: &'a Piece, all: &mut Vec<&'a Piece>) {
    all.push(piece);
    piece.made_from.iter().for_each(|part| with_parts(part, all));
}

fn usable(piece: &Piece, looked: &BTreeMap<String, Option<String>>) -> bool {
    let good = looked.get(&piece.path).is_some_and(Option::is_none);
    let parts = &piece.made_from;
    good || (!parts.is_empty() && parts.iter().all(|part| usable(part, looked)))
}

async fn read_all(store: &Arc<dyn Store>, piece: &Piece, partitions: u32) -> Result<(), ReadError> {
    let open = OpenPiece::open(store, piece, partitions).await?;
    let mut window = Window::default();
    for block in &open.index.blocks {
        let mut rows = open.read(block, &mut window).await?;
        while rows.step().ok_or_else(|| open.wrong_block(block))? {}
    }
    Ok(())
}
