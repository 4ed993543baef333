//! Floating-point numbers as Java reads them (`Double.parseDouble`, `Float.parseFloat`), which is
//! how Spark reads them from text: with a suffix (`1.5f`, `1.5d`), in hexadecimal (`0x1p3`), and by
//! the words `NaN` and `Infinity`.

use std::str::FromStr;

/// A type of numbers: how many bits its whole numbers have, and the least power of two it has.
pub(crate) trait Float: FromStr + Copy {
    /// Bits of precision.
    const BITS: u32;
    /// The exponent of its smallest number.
    const LEAST: i64;
    /// A number that this type has, or one that is too large for it.
    fn of(exact: f64) -> Self;
    /// The number with the other sign.
    fn negated(self) -> Self;
}

impl Float for f64 {
    const BITS: u32 = f64::MANTISSA_DIGITS;
    const LEAST: i64 = -1074;
    fn of(exact: f64) -> Self {
        exact
    }
    fn negated(self) -> Self {
        -self
    }
}

impl Float for f32 {
    const BITS: u32 = f32::MANTISSA_DIGITS;
    const LEAST: i64 = -149;
    #[expect(clippy::cast_possible_truncation, reason = "it is exact, or becomes infinite")]
    fn of(exact: f64) -> Self {
        exact as f32
    }
    fn negated(self) -> Self {
        -self
    }
}

/// The number that a text is; `None` where Java would throw.
pub(crate) fn parse<F: Float>(text: &str) -> Option<F> {
    // What Java trims.
    let text = text.trim_matches(|letter| letter <= ' ');
    let (negative, rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let number = match rest {
        "NaN" => F::of(f64::NAN),
        "Infinity" => F::of(f64::INFINITY),
        _ => match rest.strip_prefix("0x").or_else(|| rest.strip_prefix("0X")) {
            Some(digits) => hexadecimal(without_suffix(digits))?,
            None => decimal(without_suffix(rest))?,
        },
    };
    Some(if negative { number.negated() } else { number })
}

fn without_suffix(text: &str) -> &str {
    text.strip_suffix(['f', 'F', 'd', 'D']).unwrap_or(text)
}

fn decimal<F: Float>(text: &str) -> Option<F> {
    // Without this Rust would take a second sign and its own words.
    let first = text.bytes().next()?;
    if first.is_ascii_digit() || first == b'.' { text.parse().ok() } else { None }
}

/// What follows `0x`: digits, perhaps with a point, and the power of two, which must be there.
fn hexadecimal<F: Float>(text: &str) -> Option<F> {
    let (digits, power) = text.split_once(['p', 'P'])?;
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.is_empty() && part.is_empty() {
        return None;
    }
    let mut mantissa = Mantissa::default();
    for digit in whole.chars() {
        mantissa.push(digit.to_digit(16)?, false);
    }
    for digit in part.chars() {
        mantissa.push(digit.to_digit(16)?, true);
    }
    mantissa.exponent = mantissa.exponent.saturating_add(power_of(power)?);
    Some(mantissa.rounded())
}

/// A decimal power; one beyond all numbers where it is too long.
fn power_of(text: &str) -> Option<i64> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let power = digits.parse().unwrap_or(i64::MAX / 2).min(i64::MAX / 2);
    Some(if negative { -power } else { power })
}

/// `kept · 2^exponent`, and whether anything more follows.
#[derive(Debug, Default)]
struct Mantissa {
    kept: u128,
    exponent: i64,
    more: bool,
}

impl Mantissa {
    fn push(&mut self, digit: u32, after_point: bool) {
        if self.kept >> 124 == 0 {
            self.kept = self.kept << 4 | u128::from(digit);
            self.exponent -= if after_point { 4 } else { 0 };
        } else {
            self.more |= digit != 0;
            self.exponent += if after_point { 0 } else { 4 };
        }
    }

    /// The nearest number; of two as near, the even one.
    fn rounded<F: Float>(&self) -> F {
        if self.kept == 0 {
            return F::of(0.0);
        }
        let bits = i64::from(u128::BITS - self.kept.leading_zeros());
        let top = self.exponent.saturating_add(bits);
        let lowest = top.saturating_sub(i64::from(F::BITS)).max(F::LEAST);
        let drop = lowest.saturating_sub(self.exponent);
        if drop <= 0 {
            return F::of(scaled(self.kept, self.exponent));
        }
        let Some(drop) = u32::try_from(drop).ok().filter(|drop| i64::from(*drop) <= bits) else {
            return F::of(0.0);
        };
        let whole = self.kept.checked_shr(drop).unwrap_or(0);
        let half = 1_u128 << (drop - 1);
        let rest = self.kept & (half | (half - 1));
        let up = rest > half || (rest == half && (self.more || whole % 2 == 1));
        F::of(scaled(whole + u128::from(up), lowest))
    }
}

/// A whole number of at most 53 bits times a power of two: exact, or infinite.
#[expect(clippy::cast_precision_loss, reason = "it has no more bits than a number")]
fn scaled(whole: u128, power: i64) -> f64 {
    let exact = whole as f64;
    match power {
        ..-1074 => 0.0,
        -1074..-1022 => exact * f64::from_bits(1 << (power + 1074)),
        -1022..1024 => exact * f64::from_bits(((power + 1023) as u64) << 52),
        _ => f64::INFINITY,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What Java makes of texts.
    #[test]
    fn numbers_are_those_of_java() {
        let numbers = [
            ("+Infinity", f64::INFINITY, f32::INFINITY),
            ("-Infinity", f64::NEG_INFINITY, f32::NEG_INFINITY),
            ("1.5f", 1.5, 1.5),
            ("1.5D", 1.5, 1.5),
            (" \u{1f}1\0", 1.0, 1.0),
            ("1e5d", 1e5, 1e5),
            ("1.", 1.0, 1.0),
            ("+.5", 0.5, 0.5),
            (".5e-3F", 0.5e-3, 0.5e-3),
            ("0x1p3", 8.0, 8.0),
            ("0X1P+3", 8.0, 8.0),
            ("0x1p3d", 8.0, 8.0),
            ("0x1.p3", 8.0, 8.0),
            ("0x1.8p1f", 3.0, 3.0),
            ("0x.8p-2", 0.125, 0.125),
            ("-0x0p0", -0.0, -0.0),
            ("0x0p9999999999999999999", 0.0, 0.0),
            ("0x1p99999999999999999999", f64::INFINITY, f32::INFINITY),
            ("0x1p-99999999999999999999", 0.0, 0.0),
            ("0x1p-1080", 0.0, 0.0),
            ("0x0.8p-1074", 0.0, 0.0),
            ("0x0.8000001p-1074", 5e-324, 0.0),
            ("0x1p-149", 1.401298464324817e-45, f32::from_bits(1)),
            ("0x1.fffffffffffff8p0", 2.0, 2.0),
            ("0x1.00000000000008p0", 1.0, 1.0),
            ("0x1.000000000000080000000000000000000000001p0", 1.0000000000000002, 1.0),
            ("0x1.fffffffffffff8p1023", f64::INFINITY, f32::INFINITY),
            ("0x123456789abcdef01p0", 2.0988295479420645e19, 2.0988296e19),
            ("0x10000000000000800000000000000000000000000001p-172", 1.0000000000000002, 1.0),
            ("3.4028235677973366e38", 3.4028235677973366e38, f32::MAX),
            // The nearest number of 64 bits lies between two of 32 bits.
            (
                "1.00000017881393421514957253748434595763683319091796875",
                1.0000001788139343,
                1.0000001,
            ),
        ];
        for (text, double, float) in numbers {
            assert_eq!(parse::<f64>(text).map(f64::to_bits), Some(double.to_bits()), "{text}");
            assert_eq!(parse::<f32>(text).map(f32::to_bits), Some(float.to_bits()), "{text}");
        }
        for text in ["NaN", "+NaN", "-NaN"] {
            assert!(parse::<f64>(text).unwrap().is_nan() && parse::<f32>(text).unwrap().is_nan());
        }
    }

    #[test]
    fn what_java_does_not_read_is_no_number() {
        for text in [
            "",
            " ",
            "+",
            "-",
            ".",
            "e",
            "d",
            "1e",
            "1ed",
            "1.5ff",
            "1_0",
            "--1",
            "+-1",
            "nan",
            "infinity",
            "Infinityf",
            "NaNd",
            "inf",
            "Inf",
            "INF",
            "0x1",
            "0x",
            "0xp1",
            "0x.p1",
            "0x1p",
            "0x1p+",
            "0x1p1.0",
            "0x1pf",
            "0x+1p1",
            "0x1.2.3p1",
            "0xgp1",
            "\u{a0}1",
            "٣",
            "1 2",
            "1e+-3",
        ] {
            assert_eq!(parse::<f64>(text), None, "{text}");
            assert_eq!(parse::<f32>(text), None, "{text}");
        }
    }
}
