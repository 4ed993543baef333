//! Creating a record: a create whose doubts are resolved by reading back.
//!
//! A create can lose to itself: the first try lands, its reply is lost, and the next try finds the
//! name taken. So a taken name says nothing; its bytes do. A record's bytes hold a nonce or a
//! generation, so that equal bytes mean: this was us.

use crate::planted::{Bug, planted};
use crate::{CreateError, Created, Durability, Store};
use bytes::Bytes;
use onefold_types::{Error, ErrorKind, Result};

/// How often an unknown outcome is looked into before giving up.
const TRIES: usize = 5;

/// Whose record has the name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recorded {
    /// Ours, by this call or by an earlier try of it.
    Mine,
    /// Someone else's; these are its bytes.
    Theirs(Bytes),
}

/// Creates a record and finds out who has its name now. `bytes` must be unique to the writer: they
/// hold a nonce or a generation.
///
/// An unknown outcome is resolved by trying again: the second try finds the name taken and reads
/// it, and is refused by a store that lost a sync, where reading back would prove nothing.
///
/// # Errors
/// Unknown, when it could not be found out whether the record is there: look before acting.
/// Restart, when only a new process can find it out.
/// Otherwise the store's error, and the record is certainly not there by this call.
pub async fn create_record(
    store: &dyn Store,
    path: &str,
    bytes: Bytes,
    durability: Durability,
) -> Result<Recorded> {
    let mut doubt: Option<Error> = None;
    for _ in 0..TRIES {
        match store.create(path, bytes.clone(), durability).await {
            Ok(Created::New) => return Ok(Recorded::Mine),
            Ok(Created::Exists(_)) if planted(Bug::ExistsIsSuccess) => return Ok(Recorded::Mine),
            Ok(Created::Exists(found)) if planted(Bug::ExistsIsFailure) => {
                return Ok(Recorded::Theirs(found));
            }
            Ok(Created::Exists(found)) if found == bytes => return Ok(Recorded::Mine),
            Ok(Created::Exists(found)) => return Ok(Recorded::Theirs(found)),
            Err(CreateError::NotDone(error)) => {
                return Err(match doubt {
                    None => error,
                    Some(doubt) => unresolved(store, path, doubt),
                });
            }
            Err(CreateError::MaybeDone(error)) if planted(Bug::UnknownIsFailure) => {
                return Err(error);
            }
            Err(CreateError::MaybeDone(error)) => doubt = Some(error),
        }
    }
    let doubt = doubt.unwrap_or_else(|| Error::internal("no try was made"));
    Err(unresolved(store, path, doubt))
}

fn unresolved(store: &dyn Store, path: &str, doubt: Error) -> Error {
    let text = format!(
        "whether {}/{path} was created is not known; start the query again, which looks first",
        store.url()
    );
    let kind = match doubt.kind() {
        ErrorKind::Restart => ErrorKind::Restart,
        _ => ErrorKind::Unknown,
    };
    Error::new(kind, text).because(doubt)
}
