//! Where a stream stands in a table: Spark's offset, text for text.

use onefold_types::{Error, Offset, Result};
use serde::{Deserialize, Serialize};

/// Before the first file of a version.
pub(crate) const BEFORE: i64 = -1;

/// The form of offsets that is written; Spark's without changes of columns.
const FORM: u64 = 1;

/// A place in a table's log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position {
    /// The version whose files come next.
    pub(crate) version: u64,
    /// The last file of that version that is behind; [`BEFORE`] if none is.
    pub(crate) index: i64,
    /// Whether the files are all that the version has, and not only those it brought.
    pub(crate) snapshot: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Text {
    source_version: u64,
    reservoir_id: String,
    reservoir_version: u64,
    index: i64,
    #[serde(alias = "isInitialSnapshot")]
    is_starting_version: bool,
}

impl Position {
    /// Before all that a version brought.
    pub(crate) fn at(version: u64) -> Position {
        Position { version, index: BEFORE, snapshot: false }
    }

    /// Before all that a table has as of a version.
    pub(crate) fn snapshot(version: u64) -> Position {
        Position { version, index: BEFORE, snapshot: true }
    }

    /// Reads an offset of a table.
    ///
    /// # Errors
    /// Corrupt: it is another table's, or of a form that is not known.
    pub(crate) fn parse(offset: &Offset, table: &str) -> Result<Position> {
        let text: Text = serde_json::from_str(offset.json()).map_err(|error| {
            Error::corrupt(format!("`{offset}` is no offset of a Delta table")).because(error)
        })?;
        if CHANGES_OF_COLUMNS.contains(&text.index) {
            return Err(Error::corrupt(format!(
                "the offset {offset} stands at a change of columns, which this version does not \
                 follow: let Spark go past it, or start with a new checkpoint"
            )));
        }
        if text.reservoir_id != table {
            return Err(Error::corrupt(format!(
                "the checkpoint stands in the table {}, but the folder holds the table {table}: it \
                 was dropped and made anew; put the old one back, or start with a new checkpoint",
                text.reservoir_id
            )));
        }
        Ok(Position {
            version: text.reservoir_version,
            // Newer forms have other numbers for the same place.
            index: text.index.max(BEFORE),
            snapshot: text.is_starting_version,
        })
    }

    /// The offset's text.
    ///
    /// # Errors
    /// Internal: it is no JSON.
    pub(crate) fn offset(self, table: &str) -> Result<Offset> {
        let text = Text {
            source_version: FORM,
            reservoir_id: table.to_owned(),
            reservoir_version: self.version,
            index: self.index,
            is_starting_version: self.snapshot,
        };
        let text = serde_json::to_string(&text)
            .map_err(|error| Error::internal("an offset is no JSON").because(error))?;
        Ok(Offset::new(text))
    }
}

/// Places that Spark's newer form has for changes of columns.
const CHANGES_OF_COLUMNS: [i64; 2] = [-20, -19];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offset_is_spark_s_text_for_text() {
        let at = Position { version: 7, index: 3, snapshot: false };
        let text = "{\"sourceVersion\":1,\"reservoirId\":\"t\",\"reservoirVersion\":7,\"index\":3,\
                    \"isStartingVersion\":false}";
        assert_eq!(at.offset("t").unwrap().json(), text);
        assert_eq!(Position::parse(&Offset::new(text), "t").unwrap(), at);
        let error = Position::parse(&Offset::new(text), "u").unwrap_err();
        assert!(error.to_string().contains("made anew"), "{error}");
        assert!(Position::parse(&Offset::new("{\"logOffset\":1}"), "t").is_err());
    }

    #[test]
    fn an_offset_at_a_change_of_columns_is_refused() {
        let text = |index: i64| {
            Offset::new(format!(
                "{{\"sourceVersion\":3,\"reservoirId\":\"t\",\"reservoirVersion\":7,\
                 \"index\":{index},\"isStartingVersion\":false}}"
            ))
        };
        assert!(Position::parse(&text(-20), "t").is_err());
        assert_eq!(Position::parse(&text(2), "t").unwrap().index, 2);
    }
}
