//! What the file source knows of file formats: names and compression.

/// A file format by its name in `format("…")`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Format {
    /// One JSON value a line (or a file).
    Json,
    /// Comma-separated values.
    Csv,
    /// Lines of text.
    Text,
    /// Apache Parquet.
    Parquet,
    /// Apache ORC.
    Orc,
    /// Apache Avro object containers.
    Avro,
    /// Whole files as bytes.
    BinaryFile,
}

impl Format {
    /// The name that users write.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Format::Json => "json",
            Format::Csv => "csv",
            Format::Text => "text",
            Format::Parquet => "parquet",
            Format::Orc => "orc",
            Format::Avro => "avro",
            Format::BinaryFile => "binaryFile",
        }
    }
}

/// How the bytes of a text file are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Compression {
    /// Not at all.
    None,
    /// `.gz`.
    Gzip,
    /// `.bz2`.
    Bzip2,
    /// `.zst`.
    Zstd,
    /// `.deflate`: a zlib stream.
    Deflate,
    /// `.snappy`: Hadoop's block stream of raw Snappy.
    Snappy,
    /// `.lz4`: Hadoop's block stream of raw LZ4.
    Lz4,
}

impl Compression {
    /// The codec that a file name tells, as Hadoop's codec factory does.
    pub(crate) fn of_file_name(name: &str) -> Compression {
        match name.rsplit_once('.').map(|(_, extension)| extension.to_lowercase()).as_deref() {
            Some("gz") => Compression::Gzip,
            Some("bz2") => Compression::Bzip2,
            Some("zst") => Compression::Zstd,
            Some("deflate") => Compression::Deflate,
            Some("snappy") => Compression::Snappy,
            Some("lz4") => Compression::Lz4,
            _ => Compression::None,
        }
    }
}
