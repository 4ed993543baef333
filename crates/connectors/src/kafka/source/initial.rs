//! Where a query's first batch begins: written once to `sources/I/0`, in Spark's format, so that
//! either engine may start the query again before its first batch is over.

use super::offsets::{self, Positions};
use bytes::Bytes;
use onefold_storage::{CreateError, Created, Durability, Store};
use onefold_types::{Error, Result};

/// Spark writes a zero byte, then the version on a line of its own, then the offsets.
fn bytes(positions: &Positions) -> Bytes {
    Bytes::from(format!("\0v1\n{}", offsets::text(positions)))
}

fn parse(bytes: &[u8]) -> Option<Positions> {
    let text = std::str::from_utf8(bytes).ok()?;
    let text = text.strip_prefix('\0').unwrap_or(text);
    // Spark 2.1 wrote no version.
    let json = match text.strip_prefix('v') {
        Some(versioned) => versioned.strip_prefix("1\n")?,
        None => text,
    };
    offsets::parse(json.trim())
}

fn read(path: &str, bytes: &[u8], store: &dyn Store) -> Result<Positions> {
    parse(bytes).ok_or_else(|| {
        Error::corrupt(format!(
            "{path} in {} does not hold the first offsets of a Kafka source; run `onefold \
             checkpoint verify`",
            store.url()
        ))
    })
}

/// Where the first batch begins, if that was decided.
///
/// # Errors
/// Corrupt, when the file holds something else.
pub(crate) async fn load(store: &dyn Store, folder: &str) -> Result<Option<Positions>> {
    let path = format!("{folder}/0");
    match store.read(&path).await? {
        Some(bytes) => read(&path, &bytes, store).map(Some),
        None => Ok(None),
    }
}

/// Decides where the first batch begins; what somebody decided before holds.
///
/// # Errors
/// Those of the checkpoint.
pub(crate) async fn decide(
    store: &dyn Store,
    folder: &str,
    positions: Positions,
) -> Result<Positions> {
    let path = format!("{folder}/0");
    match store.create(&path, bytes(&positions), Durability::Now).await {
        Ok(Created::New) => Ok(positions),
        Ok(Created::Exists(found)) => read(&path, &found, store),
        Err(CreateError::NotDone(error)) => Err(error),
        Err(CreateError::MaybeDone(error)) => {
            let found = store.read(&path).await?.ok_or(error)?;
            read(&path, &found, store)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::offsets::TopicPartition;
    use super::*;
    use onefold_testkit::MemoryStore;

    fn at(offset: i64) -> Positions {
        Positions::from([(TopicPartition::new("t", 0), offset)])
    }

    #[tokio::test]
    async fn what_was_decided_first_holds_and_is_in_sparks_format() {
        let store = MemoryStore::default();
        assert_eq!(load(&store, "sources/0").await.unwrap(), None);
        assert_eq!(decide(&store, "sources/0", at(5)).await.unwrap(), at(5));
        assert_eq!(decide(&store, "sources/0", at(9)).await.unwrap(), at(5));
        assert_eq!(load(&store, "sources/0").await.unwrap(), Some(at(5)));
        let bytes = store.read("sources/0/0").await.unwrap().unwrap();
        assert_eq!(bytes, b"\0v1\n{\"t\":{\"0\":5}}".as_slice());
    }

    #[test]
    fn the_file_of_spark_2_1_has_no_version_and_a_newer_one_is_refused() {
        assert_eq!(parse(b"\0{\"t\":{\"0\":5}}"), Some(at(5)));
        assert_eq!(parse(b"\0v2\n{\"t\":{\"0\":5}}"), None);
        assert_eq!(parse(b"\xff"), None);
    }
}
