//! The checksum files that Hadoop's local file system keeps beside the files it writes.
//!
//! Spark refuses to read a file whose `.NAME.crc` does not fit it, so a checkpoint that is to go
//! back to Spark must have none that is stale. A missing one is fine.
//!
//! Layout of `.NAME.crc`: the four bytes `crc\0`, the length of a chunk (32 bit, big-endian, 512 in
//! practice), then the CRC-32 of each chunk of `NAME` (32 bit, big-endian).

use flate2::Crc;

const MAGIC: &[u8] = b"crc\0";

/// The file that a checksum file belongs to, if the name is one of a checksum file.
#[must_use]
pub(crate) fn main_file(path: &str) -> Option<String> {
    let (folder, name) = match path.rsplit_once('/') {
        Some((folder, name)) => (Some(folder), name),
        None => (None, path),
    };
    let name = name.strip_prefix('.')?.strip_suffix(".crc")?;
    if name.is_empty() {
        return None;
    }
    Some(match folder {
        Some(folder) => format!("{folder}/{name}"),
        None => name.to_owned(),
    })
}

/// Compares a checksum file with the bytes it stands for; the text says what does not fit.
pub(crate) fn compare(checksums: &[u8], content: &[u8]) -> Result<(), String> {
    let Some(rest) = checksums.strip_prefix(MAGIC) else {
        return Err("does not start as a checksum file does".to_owned());
    };
    let Some((length, sums)) = rest.split_first_chunk::<4>() else {
        return Err("is cut short".to_owned());
    };
    let chunk_bytes = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(0);
    if chunk_bytes == 0 {
        return Err("says that its chunks have no bytes".to_owned());
    }
    let (found, rest) = sums.as_chunks::<4>();
    let wanted = content.len().div_ceil(chunk_bytes);
    if !rest.is_empty() || found.len() != wanted {
        return Err(format!(
            "holds {} checksums where the file's {} bytes need {wanted}",
            found.len(),
            content.len()
        ));
    }
    for (position, (chunk, sum)) in content.chunks(chunk_bytes).zip(found).enumerate() {
        let mut crc = Crc::new();
        crc.update(chunk);
        if crc.sum() != u32::from_be_bytes(*sum) {
            return Err(format!("does not fit chunk {position} of the file"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checksums_of(content: &[u8]) -> Vec<u8> {
        let mut bytes = b"crc\0\0\0\x02\0".to_vec();
        for chunk in content.chunks(512) {
            let mut crc = Crc::new();
            crc.update(chunk);
            bytes.extend(crc.sum().to_be_bytes());
        }
        bytes
    }

    #[test]
    fn a_checksum_file_fits_its_file_and_no_other() {
        let content = vec![7_u8; 1300];
        let checksums = checksums_of(&content);
        assert_eq!(checksums.len(), 8 + 3 * 4);
        assert_eq!(compare(&checksums, &content), Ok(()));

        let mut changed = content.clone();
        changed[1299] = 8;
        assert_eq!(
            compare(&checksums, &changed),
            Err("does not fit chunk 2 of the file".to_owned())
        );
        assert!(compare(&checksums, &content[..512]).is_err());
        assert!(compare(b"crc\0\0\0\0\0", &content).is_err());
        assert!(compare(b"PAR1", &content).is_err());
    }

    #[test]
    fn a_known_sum_is_computed_as_hadoop_does() {
        // CRC-32 of "123456789" is cbf43926.
        let checksums = b"crc\0\0\0\x02\0\xcb\xf4\x39\x26";
        assert_eq!(compare(checksums, b"123456789"), Ok(()));
    }

    #[test]
    fn a_side_file_names_its_main_file() {
        assert_eq!(main_file("offsets/.7.crc"), Some("offsets/7".to_owned()));
        assert_eq!(main_file(".metadata.crc"), Some("metadata".to_owned()));
        assert_eq!(main_file("offsets/7"), None);
        assert_eq!(main_file("offsets/..crc"), None);
    }
}
