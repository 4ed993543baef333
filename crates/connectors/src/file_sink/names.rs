//! Names of data files: whose they are can be told from the name alone.

use onefold_storage::planted::{Bug, planted};
use onefold_types::{BatchId, Generation, QueryId};
use std::str::FromStr;

/// What a data file's name says: `part-00003-QUERY-b12-g3-c000`, followed by the extension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DataFile {
    /// The partition of the plan that wrote it.
    pub(crate) partition: u32,
    /// The query.
    pub(crate) query: QueryId,
    /// The batch.
    pub(crate) batch: BatchId,
    /// The driver.
    pub(crate) generation: Generation,
    /// Which of the partition's files.
    pub(crate) file: u32,
}

impl DataFile {
    /// The name without extension.
    pub(crate) fn stem(&self) -> String {
        let DataFile { partition, query, batch, generation, file } = self;
        if planted(Bug::StagedNamesWithoutGeneration) {
            return format!("part-{partition:05}-{query}-b{batch}-c{file:03}");
        }
        format!("part-{partition:05}-{query}-b{batch}-g{generation}-c{file:03}")
    }

    /// Reads a name, or a hidden name that holds it; `None` for names that Onefold did not make.
    pub(crate) fn parse(path: &str) -> Option<DataFile> {
        let name = path.rsplit('/').next()?;
        let rest = name.get(name.find("part-")? + "part-".len()..)?;
        let (partition, rest) = number(rest)?;
        let rest = rest.strip_prefix('-')?;
        let query = QueryId::from_str(rest.get(..36)?).ok()?;
        let (batch, rest) = number(rest.get(36..)?.strip_prefix("-b")?)?;
        let (generation, rest) = number(rest.strip_prefix("-g")?)?;
        let (file, _) = number(rest.strip_prefix("-c")?)?;
        Some(DataFile {
            partition: u32::try_from(partition).ok()?,
            query,
            batch: BatchId(batch),
            generation: Generation(generation),
            file: u32::try_from(file).ok()?,
        })
    }
}

fn number(text: &str) -> Option<(u64, &str)> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (head, tail) = text.split_at_checked(digits)?;
    Some((head.parse().ok()?, tail))
}

/// The part of a path after its last `/` starts with a dot: no reader shows it.
pub(crate) fn hidden(path: &str) -> bool {
    path.rsplit('/').next().is_some_and(|name| name.starts_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUERY: &str = "6fa0ab59-0d2c-4b1e-9d5c-1f2d3c4b5a69";

    #[test]
    fn a_name_tells_query_batch_generation_and_partition() {
        let file = DataFile {
            partition: 3,
            query: QUERY.parse().unwrap(),
            batch: BatchId(12),
            generation: Generation(4),
            file: 1,
        };
        let name = format!("{}.snappy.parquet", file.stem());
        assert_eq!(name, format!("part-00003-{QUERY}-b12-g4-c001.snappy.parquet"));
        assert_eq!(DataFile::parse(&name), Some(file));
        assert_eq!(DataFile::parse(&format!("k=part-1/.{name}.tag")), Some(file));
    }

    #[test]
    fn names_of_others_are_not_ours() {
        let spark = format!("part-00000-{QUERY}-c000.snappy.parquet");
        assert_eq!(DataFile::parse(&spark), None);
        assert_eq!(DataFile::parse("part-00000-é-b1-g1-c000"), None);
        assert_eq!(DataFile::parse(""), None);
    }
}
