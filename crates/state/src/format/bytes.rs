//! Variable-length numbers and a reader that never reads past the end.

#[cfg(feature = "rocksdb")]
use crate::counts::Count;

/// Appends a number, seven bits a byte, least significant first.
#[inline]
pub(crate) fn put_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        // The low seven bits and the sign that more follow.
        out.push((number as u8 & 0x7f) | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// How many bytes [`put_number`] appends.
pub(crate) fn number_length(number: u64) -> usize {
    (64 - (number | 1).leading_zeros() as usize).div_ceil(7)
}

/// Appends a text with its length.
pub(crate) fn put_text(out: &mut Vec<u8>, text: &str) {
    put_number(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

/// Reads from a slice. `None` means: the bytes end too early or mean nothing.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Input<'a> {
    rest: &'a [u8],
}

impl<'a> Input<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Input { rest: bytes }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// How many bytes are left.
    pub(crate) fn left(&self) -> usize {
        self.rest.len()
    }

    #[inline]
    pub(crate) fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(taken)
    }

    #[inline]
    pub(crate) fn byte(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    #[inline]
    pub(crate) fn number(&mut self) -> Option<u64> {
        // Most numbers are small.
        if let Some((first, rest)) = self.rest.split_first()
            && *first < 0x80
        {
            self.rest = rest;
            return Some(u64::from(*first));
        }
        self.long_number()
    }

    fn long_number(&mut self) -> Option<u64> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return None;
            }
            number |= bits << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    /// A number that is a length of something in memory.
    #[inline]
    pub(crate) fn length(&mut self) -> Option<usize> {
        usize::try_from(self.number()?).ok()
    }

    pub(crate) fn text(&mut self) -> Option<String> {
        let length = self.length()?;
        String::from_utf8(self.take(length)?.to_vec()).ok()
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    pub(crate) fn u128(&mut self) -> Option<u128> {
        Some(u128::from_le_bytes(self.take(16)?.try_into().ok()?))
    }

    /// Rows and bytes as two numbers.
    #[cfg(feature = "rocksdb")]
    pub(crate) fn count(&mut self) -> Option<Count> {
        Some(Count { rows: self.number()?, bytes: self.number()? })
    }
}

#[cfg(test)]
mod tests {
    use super::{Input, number_length, put_number, put_text};

    #[test]
    fn numbers_and_texts_come_back_and_short_input_is_none() {
        for number in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX] {
            let mut out = Vec::new();
            put_number(&mut out, number);
            assert_eq!(out.len(), number_length(number));
            assert_eq!(Input::new(&out).number(), Some(number));
            assert_eq!(Input::new(&out[..out.len() - 1]).number(), None);
        }
        let mut out = Vec::new();
        put_text(&mut out, "größe");
        assert_eq!(Input::new(&out).text().as_deref(), Some("größe"));
        assert_eq!(Input::new(&out[..3]).text(), None);
        assert_eq!(Input::new(&[0xff; 11]).number(), None);
        assert_eq!(Input::new(&[1, 0xff]).text(), None);
    }
}
