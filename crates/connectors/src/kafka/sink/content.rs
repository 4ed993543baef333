//! The hash of a record: of all that a reader sees of it, but not of where it lies.

use xxhash_rust::xxh3::{xxh3_64_with_seed, xxh3_128_with_seed};

const NULL: u64 = 0x9e37_79b9_7f4a_7c15;

fn fold(seed: u64, bytes: Option<&[u8]>) -> u64 {
    match bytes {
        Some(bytes) => xxh3_64_with_seed(bytes, seed),
        None => (seed ^ NULL).rotate_left(29).wrapping_mul(NULL),
    }
}

/// The hash of one record.
pub(crate) fn record_hash<'a>(
    topic: &str,
    key: Option<&[u8]>,
    value: Option<&[u8]>,
    headers: impl Iterator<Item = (&'a str, Option<&'a [u8]>)>,
) -> u128 {
    let mut seed = fold(fold(0, Some(topic.as_bytes())), key);
    for (name, value) in headers {
        seed = fold(fold(seed, Some(name.as_bytes())), value);
    }
    match value {
        Some(value) => xxh3_128_with_seed(value, seed),
        None => xxh3_128_with_seed(&[], fold(seed, None)),
    }
}

#[cfg(test)]
mod tests {
    use super::record_hash;

    #[test]
    fn null_and_empty_differ_everywhere() {
        let plain = |key, value| record_hash("t", key, value, std::iter::empty());
        let hashes = [
            plain(None, None),
            plain(Some(&b""[..]), None),
            plain(None, Some(&b""[..])),
            plain(Some(&b"a"[..]), Some(&b"b"[..])),
            plain(Some(&b"b"[..]), Some(&b"a"[..])),
            record_hash("u", None, None, std::iter::empty()),
            record_hash("t", None, None, [("h", None)].into_iter()),
            record_hash("t", None, None, [("h", Some(&b""[..]))].into_iter()),
        ];
        for (at, hash) in hashes.iter().enumerate() {
            assert_eq!(hashes.iter().position(|it| it == hash), Some(at));
        }
    }
}
