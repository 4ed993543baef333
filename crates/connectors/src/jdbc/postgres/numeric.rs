//! PostgreSQL's `numeric` in binary: a sign, a weight, and digits to the base of 10,000.
//!
//! The layout is that of `numeric_send` and `numeric_recv`: how many digits, the weight of the first
//! one, the sign, how many decimal digits are shown behind the point, and then the digits, each in two
//! bytes.

use crate::jdbc::decimal::Decimal;
use bytes::{Buf, BufMut, BytesMut};

const NEGATIVE: u16 = 0x4000;
const NAN: u16 = 0xC000;
const INFINITY: u16 = 0xD000;
const MINUS_INFINITY: u16 = 0xF000;

/// Writes a number.
pub(super) fn write(value: Decimal, out: &mut BytesMut) {
    let (mut whole, mut part) = value.parts();
    let shown = part.len();
    while !whole.len().is_multiple_of(4) {
        whole.insert(0, '0');
    }
    while !part.len().is_multiple_of(4) {
        part.push('0');
    }
    let groups: Vec<i16> = whole
        .as_bytes()
        .chunks(4)
        .chain(part.as_bytes().chunks(4))
        .map(|digits| digits.iter().fold(0, |sum, digit| sum * 10 + i16::from(digit - b'0')))
        .collect();
    let leading = groups.iter().take_while(|group| **group == 0).count();
    let mut digits: Vec<i16> = groups.into_iter().skip(leading).collect();
    while digits.last() == Some(&0) {
        digits.pop();
    }
    let count = |length: usize| i16::try_from(length).unwrap_or(i16::MAX);
    let weight = if digits.is_empty() { 0 } else { count(whole.len() / 4) - count(leading) - 1 };
    out.put_i16(count(digits.len()));
    out.put_i16(weight);
    out.put_u16(if value.digits < 0 { NEGATIVE } else { 0 });
    out.put_i16(count(shown));
    for digit in digits {
        out.put_i16(digit);
    }
}

/// Writes a number that is not finite.
pub(super) fn write_odd(value: f64, out: &mut BytesMut) {
    out.put_i16(0);
    out.put_i16(0);
    out.put_u16(if value.is_nan() {
        NAN
    } else if value > 0.0 {
        INFINITY
    } else {
        MINUS_INFINITY
    });
    out.put_i16(0);
}

/// Reads a number as text: `12.50`, `NaN`, `Infinity`, `-Infinity`.
///
/// # Errors
/// Text: the bytes are no number.
pub(super) fn read(mut bytes: &[u8]) -> Result<String, String> {
    let bad = || "the bytes are no numeric".to_owned();
    if bytes.len() < 8 {
        return Err(bad());
    }
    let (count, weight) = (bytes.get_i16(), i32::from(bytes.get_i16()));
    let (sign, shown) = (bytes.get_u16(), bytes.get_i16());
    match sign {
        NAN => return Ok("NaN".to_owned()),
        INFINITY => return Ok("Infinity".to_owned()),
        MINUS_INFINITY => return Ok("-Infinity".to_owned()),
        _ => {}
    }
    let count = usize::try_from(count).map_err(|_| bad())?;
    let shown = usize::try_from(shown).map_err(|_| bad())?;
    if bytes.len() != count * 2 {
        return Err(bad());
    }
    let digits: Vec<i16> = std::iter::repeat_with(|| bytes.get_i16()).take(count).collect();
    let group = |at: i32| {
        usize::try_from(weight - at).ok().and_then(|at| digits.get(at)).copied().unwrap_or(0)
    };
    let mut whole = String::new();
    for at in (0..=weight.max(0)).rev() {
        whole.push_str(&format!("{:04}", group(at)));
    }
    let whole = match whole.trim_start_matches('0') {
        "" => "0",
        whole => whole,
    };
    let mut part = String::new();
    let mut at = -1;
    while part.len() < shown {
        part.push_str(&format!("{:04}", group(at)));
        at -= 1;
    }
    part.truncate(shown);
    let sign = if sign == NEGATIVE { "-" } else { "" };
    let point = if part.is_empty() { "" } else { "." };
    Ok(format!("{sign}{whole}{point}{part}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &str) -> BytesMut {
        let mut out = BytesMut::new();
        write(Decimal::parse(text).unwrap(), &mut out);
        out
    }

    #[test]
    fn numbers_come_back_from_their_bytes() {
        for text in [
            "0",
            "1",
            "-1",
            "10000",
            "0.0001",
            "0.00001",
            "12345678.90",
            "-0.5",
            "1.10",
            "100000000",
            "99999999999999999999999999999999999999",
        ] {
            assert_eq!(read(&bytes(text)).unwrap(), text);
        }
        let mut out = BytesMut::new();
        write_odd(f64::NEG_INFINITY, &mut out);
        assert_eq!(read(&out).unwrap(), "-Infinity");
        assert!(read(&[0, 1, 0, 0, 0, 0, 0, 0]).is_err());
        assert!(read(&[]).is_err());
    }

    #[test]
    fn the_bytes_are_those_of_the_server() {
        // 12345.67: the digits 1, 2345, 6700 with the weight 1, two of them shown.
        let wanted = [0, 3, 0, 1, 0, 0, 0, 2, 0, 1, 9, 41, 26, 44];
        assert_eq!(bytes("12345.67").as_ref(), wanted);
        assert_eq!(bytes("0").as_ref(), [0, 0, 0, 0, 0, 0, 0, 0]);
    }
}
