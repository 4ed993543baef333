//! Texts as bytes: `encode`, `decode` and `unbase64`.

use super::typed::{Typed, argument};
use arrow::array::{ArrayRef, AsArray, BinaryArray, StringArray};
use arrow::datatypes::DataType;
use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::ScalarUDF;
use std::sync::Arc;

pub(super) fn functions() -> Vec<ScalarUDF> {
    let text: fn(&[DataType]) -> Option<DataType> = |_| Some(DataType::Utf8);
    let bytes: fn(&[DataType]) -> Option<DataType> = |_| Some(DataType::Binary);
    vec![
        Typed { name: "encode", least: 2, most: 2, returns: bytes, body: encode }.udf(),
        Typed { name: "decode", least: 2, most: 2, returns: text, body: decode }.udf(),
        Typed { name: "unbase64", least: 1, most: 1, returns: bytes, body: unbase64 }.udf(),
    ]
}

#[derive(Debug, Clone, Copy)]
enum Charset {
    Ascii,
    Latin,
    Utf8,
    /// With its first byte the one of more weight, and a mark in front when written.
    Utf16 {
        big: bool,
        marked: bool,
    },
}

fn charset(name: &str) -> Result<Charset> {
    Ok(match name.to_ascii_uppercase().as_str() {
        "US-ASCII" => Charset::Ascii,
        "ISO-8859-1" => Charset::Latin,
        "UTF-8" => Charset::Utf8,
        "UTF-16" => Charset::Utf16 { big: true, marked: true },
        "UTF-16BE" => Charset::Utf16 { big: true, marked: false },
        "UTF-16LE" => Charset::Utf16 { big: false, marked: false },
        _ => {
            return Err(DataFusionError::Execution(format!(
                "[INVALID_PARAMETER_VALUE.CHARSET] there is no charset `{name}`; there are \
                 US-ASCII, ISO-8859-1, UTF-8, UTF-16, UTF-16BE and UTF-16LE"
            )));
        }
    })
}

impl Charset {
    fn bytes(self, text: &str) -> Result<Vec<u8>> {
        let narrow = |most: u32| {
            text.chars()
                .map(|c| u8::try_from(u32::from(c)).ok().filter(|byte| u32::from(*byte) <= most))
                .collect::<Option<Vec<u8>>>()
                .ok_or_else(|| {
                    DataFusionError::Execution(
                        "[MALFORMED_CHARACTER_CODING] encode has met a character that is not in \
                         the charset"
                            .to_owned(),
                    )
                })
        };
        match self {
            Charset::Ascii => narrow(0x7f),
            Charset::Latin => narrow(0xff),
            Charset::Utf8 => Ok(text.as_bytes().to_vec()),
            Charset::Utf16 { big, marked } => {
                let mark = marked.then_some(0xfeff_u16);
                let units = mark.into_iter().chain(text.encode_utf16());
                Ok(units
                    .flat_map(|unit| if big { unit.to_be_bytes() } else { unit.to_le_bytes() })
                    .collect())
            }
        }
    }

    fn text(self, bytes: &[u8]) -> Result<String> {
        let malformed = || {
            DataFusionError::Execution(
                "[MALFORMED_CHARACTER_CODING] decode has met bytes that are no text in the charset"
                    .to_owned(),
            )
        };
        match self {
            Charset::Ascii if !bytes.is_ascii() => Err(malformed()),
            Charset::Ascii | Charset::Utf8 => {
                std::str::from_utf8(bytes).map(str::to_owned).map_err(|_| malformed())
            }
            Charset::Latin => Ok(bytes.iter().map(|byte| char::from(*byte)).collect()),
            Charset::Utf16 { big, marked } => {
                let (big, bytes) = match bytes {
                    [0xfe, 0xff, rest @ ..] if marked => (true, rest),
                    [0xff, 0xfe, rest @ ..] if marked => (false, rest),
                    bytes => (big, bytes),
                };
                let (pairs, rest) = bytes.as_chunks::<2>();
                if !rest.is_empty() {
                    return Err(malformed());
                }
                let units = pairs.iter().map(|pair| match big {
                    true => u16::from_be_bytes(*pair),
                    false => u16::from_le_bytes(*pair),
                });
                char::decode_utf16(units)
                    .collect::<std::result::Result<String, _>>()
                    .map_err(|_| malformed())
            }
        }
    }
}

fn encode(columns: &[ArrayRef], _: &DataType) -> Result<ArrayRef> {
    let (texts, names) =
        (argument(columns, 0, &DataType::Utf8)?, argument(columns, 1, &DataType::Utf8)?);
    let mut made = Vec::with_capacity(texts.len());
    for pair in texts.as_string::<i32>().iter().zip(names.as_string::<i32>()) {
        made.push(match pair {
            (Some(text), Some(name)) => Some(charset(name)?.bytes(text)?),
            _ => None,
        });
    }
    Ok(Arc::new(made.into_iter().collect::<BinaryArray>()))
}

fn decode(columns: &[ArrayRef], _: &DataType) -> Result<ArrayRef> {
    let (bytes, names) =
        (argument(columns, 0, &DataType::Binary)?, argument(columns, 1, &DataType::Utf8)?);
    let mut made = Vec::with_capacity(bytes.len());
    for pair in bytes.as_binary::<i32>().iter().zip(names.as_string::<i32>()) {
        made.push(match pair {
            (Some(bytes), Some(name)) => Some(charset(name)?.text(bytes)?),
            _ => None,
        });
    }
    Ok(Arc::new(StringArray::from(made)))
}

/// What is not of the alphabet is left out, as mail does.
fn unbase64(columns: &[ArrayRef], _: &DataType) -> Result<ArrayRef> {
    let config = GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent);
    let engine = GeneralPurpose::new(&STANDARD, config);
    let texts = argument(columns, 0, &DataType::Utf8)?;
    let mut made = Vec::with_capacity(texts.len());
    for text in texts.as_string::<i32>() {
        let Some(text) = text else {
            made.push(None);
            continue;
        };
        let known = |byte: &u8| byte.is_ascii_alphanumeric() || b"+/".contains(byte);
        let digits: Vec<u8> = text.bytes().filter(known).collect();
        let bytes = engine.decode(&digits).map_err(|_| {
            DataFusionError::Execution(
                "[CONVERSION_INVALID_INPUT] unbase64 has met a text that is cut off".to_owned(),
            )
        })?;
        made.push(Some(bytes));
    }
    Ok(Arc::new(made.into_iter().collect::<BinaryArray>()))
}

#[cfg(test)]
mod tests {
    use super::charset;

    #[test]
    fn a_text_comes_back_from_its_bytes() {
        for name in ["utf-8", "UTF-16", "UTF-16LE", "UTF-16BE"] {
            let charset = charset(name).unwrap();
            assert_eq!(charset.text(&charset.bytes("äß€😀").unwrap()).unwrap(), "äß€😀", "{name}");
        }
        assert_eq!(charset("utf-16").unwrap().bytes("a").unwrap(), [0xfe, 0xff, 0, b'a']);
        assert_eq!(charset("ISO-8859-1").unwrap().bytes("ä").unwrap(), [0xe4]);
        assert!(charset("US-ASCII").unwrap().bytes("ä").is_err());
        assert!(charset("KLINGON").is_err());
    }
}
