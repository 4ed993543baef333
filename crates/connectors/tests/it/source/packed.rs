//! Compressed input, whole and cut short.

use super::rig::{Rig, ids};
use onefold_connectors::file_source;
use onefold_types::ErrorKind;
use std::io::Write;

fn lines(range: std::ops::Range<i64>) -> Vec<u8> {
    range.flat_map(|id| format!("{{\"id\":{id}}}\n").into_bytes()).collect()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zlib(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn bzip2(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// As Hadoop's block compressors write: the length of a block, then its chunks with theirs.
fn hadoop(bytes: &[u8], pack: impl Fn(&[u8]) -> Vec<u8>) -> Vec<u8> {
    let mut out = Vec::new();
    for block in bytes.chunks(7_000) {
        out.extend_from_slice(&(block.len() as u32).to_be_bytes());
        for chunk in block.chunks(3_000) {
            let packed = pack(chunk);
            out.extend_from_slice(&(packed.len() as u32).to_be_bytes());
            out.extend_from_slice(&packed);
        }
    }
    out
}

fn snappy(bytes: &[u8]) -> Vec<u8> {
    hadoop(bytes, |chunk| snap::raw::Encoder::new().compress_vec(chunk).unwrap())
}

fn lz4(bytes: &[u8]) -> Vec<u8> {
    hadoop(bytes, lz4_flex::block::compress)
}

type Pack = fn(&[u8]) -> Vec<u8>;

const CODECS: [(&str, Pack); 6] = [
    ("gz", gzip),
    ("bz2", bzip2),
    ("zst", |bytes| zstd::encode_all(bytes, 1).unwrap()),
    ("deflate", zlib),
    ("snappy", snappy),
    ("lz4", lz4),
];

#[tokio::test]
async fn every_codec_is_told_by_the_end_of_the_name() {
    for (extension, pack) in CODECS {
        let mut rig = Rig::new(&file_source::JSON);
        rig.file(&format!("f.json.{extension}"), pack(&lines(0..3_000)));
        let found = ids(&rig.rows(&[0]).await.unwrap());
        assert_eq!(found, (0..3_000).collect::<Vec<_>>(), "{extension}");
        let mut text = Rig::new(&file_source::TEXT).schema(None).with("wholetext", "true");
        text.file(&format!("F.{}", extension.to_uppercase()), pack(b"a\nb"));
        let found = super::rig::texts(&text.rows(&[0]).await.unwrap(), 0);
        assert_eq!(found, [Some("a\nb".to_owned())], "{extension}");
    }
}

#[tokio::test]
async fn a_file_of_several_members_is_read_to_its_end() {
    for (extension, pack) in &CODECS[..3] {
        let mut rig = Rig::new(&file_source::JSON);
        let mut bytes = pack(&lines(0..10));
        bytes.extend(pack(b""));
        bytes.extend(pack(&lines(10..20)));
        rig.file(&format!("f.json.{extension}"), bytes);
        let found = ids(&rig.rows(&[0]).await.unwrap());
        assert_eq!(found, (0..20).collect::<Vec<_>>(), "{extension}");
    }
}

#[tokio::test]
async fn a_file_that_is_cut_short_stops_the_query_or_gives_its_whole_lines() {
    for (extension, pack) in CODECS {
        let mut packed = pack(&lines(0..60_000));
        packed.truncate(packed.len() * 3 / 4);
        let mut rig = Rig::new(&file_source::JSON);
        rig.file(&format!("f.json.{extension}"), &packed);
        let error = rig.rows(&[0]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{extension}");
        let text = error.to_string();
        assert!(text.contains("f.json.") && text.contains("ignoreCorruptFiles"), "{text}");
        let mut rig = Rig::new(&file_source::JSON).with("ignoreCorruptFiles", "true");
        rig.file(&format!("f.json.{extension}"), &packed);
        rig.file("next.json", lines(-1..0));
        let mut found = ids(&rig.rows(&[0]).await.unwrap());
        found.sort_unstable();
        let wanted: Vec<i64> = (-1..found.len() as i64 - 1).collect();
        assert!(found.len() < 60_000, "{extension}");
        assert_eq!(found, wanted, "{extension}");
    }
}

#[tokio::test]
async fn a_name_that_lies_about_its_codec_is_corrupt() {
    for (extension, _) in CODECS {
        let mut rig = Rig::new(&file_source::JSON);
        rig.file(&format!("f.json.{extension}"), lines(0..3));
        let error = rig.rows(&[0]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{extension}");
    }
}
