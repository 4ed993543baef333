//! Exact numbers of up to 38 digits.

use std::fmt;

/// `digits` × 10^-`scale`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decimal {
    /// The digits, with the sign.
    pub digits: i128,
    /// How many of them stand behind the point.
    pub scale: i8,
}

impl Decimal {
    /// A number.
    #[must_use]
    pub fn new(digits: i128, scale: i8) -> Decimal {
        Decimal { digits, scale }
    }

    /// Reads `-12.50`. `None` where it is no number, or has more digits than fit.
    #[must_use]
    pub fn parse(text: &str) -> Option<Decimal> {
        let text = text.trim();
        let (mantissa, exponent) = match text.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
            None => (text, 0),
        };
        let (negative, digits) = match mantissa.strip_prefix('-') {
            Some(digits) => (true, digits),
            None => (false, mantissa.strip_prefix('+').unwrap_or(mantissa)),
        };
        let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
        if whole.is_empty() && part.is_empty() {
            return None;
        }
        let mut value: i128 = 0;
        for digit in whole.bytes().chain(part.bytes()) {
            if !digit.is_ascii_digit() {
                return None;
            }
            value = value.checked_mul(10)?.checked_add(i128::from(digit - b'0'))?;
        }
        let scale = i32::try_from(part.len()).ok()?.checked_sub(exponent)?;
        let value = if negative { -value } else { value };
        if scale < 0 {
            let factor = 10_i128.checked_pow(scale.unsigned_abs())?;
            return Some(Decimal::new(value.checked_mul(factor)?, 0));
        }
        Some(Decimal::new(value, i8::try_from(scale).ok()?))
    }

    /// The digits at another scale, rounded half up as Spark does. `None` where they do not fit.
    #[must_use]
    pub fn rescaled(self, scale: i8, precision: u8) -> Option<i128> {
        let by = i32::from(scale) - i32::from(self.scale);
        let digits = if by >= 0 {
            self.digits.checked_mul(10_i128.checked_pow(by.unsigned_abs())?)?
        } else {
            match 10_i128.checked_pow(by.unsigned_abs()) {
                None => 0,
                Some(factor) => {
                    let (whole, rest) = (self.digits / factor, self.digits % factor);
                    let up = rest.unsigned_abs() >= factor.unsigned_abs().div_ceil(2);
                    whole + if up { self.digits.signum() } else { 0 }
                }
            }
        };
        let limit = 10_i128.checked_pow(u32::from(precision))?;
        (digits.abs() < limit).then_some(digits)
    }

    /// The digits before and behind the point, without sign.
    pub(crate) fn parts(self) -> (String, String) {
        let mut digits = self.digits.unsigned_abs().to_string();
        let scale = usize::from(self.scale.max(0).unsigned_abs());
        if self.scale < 0 {
            digits.extend(std::iter::repeat_n('0', self.scale.unsigned_abs().into()));
        }
        if digits.len() <= scale {
            digits = format!("{}{digits}", "0".repeat(scale + 1 - digits.len()));
        }
        let part = digits.split_off(digits.len() - scale);
        (digits, part)
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, part) = self.parts();
        let sign = if self.digits < 0 { "-" } else { "" };
        match part.is_empty() {
            true => write!(f, "{sign}{whole}"),
            false => write!(f, "{sign}{whole}.{part}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Decimal;

    #[test]
    fn numbers_come_back_from_their_text() {
        for text in ["0", "-12.50", "0.001", "99999999999999999999999999999999999999", "-0.5"] {
            assert_eq!(Decimal::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(Decimal::parse("1.5e3").unwrap().to_string(), "1500");
        assert_eq!(Decimal::parse("1e-3").unwrap().to_string(), "0.001");
        assert_eq!(Decimal::new(12, -2).to_string(), "1200");
        for text in ["", ".", "NaN", "1.2.3", "1000000000000000000000000000000000000000"] {
            assert_eq!(Decimal::parse(text), None, "{text}");
        }
    }

    #[test]
    fn digits_that_go_are_rounded_half_up_and_digits_that_do_not_fit_are_none() {
        let at = |text: &str, scale| Decimal::parse(text).unwrap().rescaled(scale, 5);
        assert_eq!(at("1.245", 2), Some(125));
        assert_eq!(at("-1.245", 2), Some(-125));
        assert_eq!(at("1.244", 2), Some(124));
        assert_eq!(at("1", 2), Some(100));
        assert_eq!(at("1000", 2), None);
        assert_eq!(at("0.5", 0), Some(1));
    }
}
