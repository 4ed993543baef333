//! How much memory a process that runs functions may take.

use onefold_connector::options::parse_bytes;
use onefold_types::{Error, Result};

/// Spark's setting; a number alone counts MiB.
pub(crate) const MEMORY: &str = "spark.executor.pyspark.memory";

/// The whole MiB that a setting allows, at least one.
///
/// # Errors
/// Invalid: it is no size.
pub(crate) fn allowed(setting: &str) -> Result<u64> {
    let text = setting.trim();
    let alone = text.parse::<u64>().ok();
    let mib = alone.or_else(|| parse_bytes(text).map(|bytes| bytes >> 20));
    mib.filter(|mib| *mib > 0).ok_or_else(|| {
        Error::invalid(format!(
            "{MEMORY} is a size of at least 1 MiB, such as 512m, and not `{text}`"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::allowed;

    #[test]
    fn sizes_read_as_spark_reads_them() {
        for (text, mib) in [("512m", 512), ("2g", 2_048), ("300", 300), (" 1048576k ", 1_024)] {
            assert_eq!(allowed(text).unwrap(), mib, "{text}");
        }
        for text in ["", "0", "much", "1k", "-5m"] {
            assert!(allowed(text).unwrap_err().to_string().contains("512m"), "{text}");
        }
    }
}
