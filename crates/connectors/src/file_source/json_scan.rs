//! Finds the values of one JSON text without converting them, and says where it is malformed.

/// What a value is, and where its text lies (without quotes for a string).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slot {
    pub(crate) kind: Kind,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

/// The kind of a JSON value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Text {
        escaped: bool,
    },
    Int,
    Float,
    /// `NaN`, `Infinity` and their like.
    NonNumber,
    True,
    False,
    Null,
    Object,
    Array,
}

/// What is allowed beyond the standard, by Spark's options.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Leniency {
    pub(crate) comments: bool,
    pub(crate) unquoted_names: bool,
    pub(crate) single_quotes: bool,
    pub(crate) leading_zeros: bool,
    pub(crate) escape_any: bool,
    pub(crate) control_chars: bool,
    pub(crate) non_numbers: bool,
}

/// The text is not JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed;

/// Values nested deeper than this are refused, as Spark's parser does.
const DEPTH_MAX: u32 = 1_000;

/// Reads one text.
pub(crate) struct Scanner<'a> {
    bytes: &'a [u8],
    pub(crate) position: usize,
    leniency: Leniency,
}

type Scan<T> = Result<T, Malformed>;

impl<'a> Scanner<'a> {
    pub(crate) fn new(text: &'a str, position: usize, leniency: Leniency) -> Self {
        Scanner { bytes: text.as_bytes(), position, leniency }
    }

    #[inline]
    pub(crate) fn peek(&self) -> Option<u8> {
        self.bytes.get(self.position).copied()
    }

    /// Skips white space, and comments where they are allowed.
    #[inline]
    pub(crate) fn skip_space(&mut self) -> Scan<()> {
        loop {
            match self.peek() {
                Some(b' ' | b'\t' | b'\n' | b'\r') => self.position += 1,
                Some(b'/') if self.leniency.comments => self.skip_comment()?,
                _ => return Ok(()),
            }
        }
    }

    fn skip_comment(&mut self) -> Scan<()> {
        let rest = self.bytes.get(self.position..).unwrap_or_default();
        let length = match rest.get(1) {
            Some(b'/') => memchr::memchr(b'\n', rest).unwrap_or(rest.len()),
            Some(b'*') => memchr::memmem::find(rest, b"*/").ok_or(Malformed)? + 2,
            _ => return Err(Malformed),
        };
        self.position += length;
        Ok(())
    }

    /// One value from here on.
    pub(crate) fn value(&mut self, depth: u32) -> Scan<Slot> {
        if depth > DEPTH_MAX {
            return Err(Malformed);
        }
        self.skip_space()?;
        let start = self.position;
        match self.peek().ok_or(Malformed)? {
            b'"' => self.string(b'"'),
            b'\'' if self.leniency.single_quotes => self.string(b'\''),
            b'{' => {
                self.object(depth, |_, _| ())?;
                Ok(Slot { kind: Kind::Object, start, end: self.position })
            }
            b'[' => {
                self.array(depth, |_| ())?;
                Ok(Slot { kind: Kind::Array, start, end: self.position })
            }
            b't' => self.word("true", Kind::True),
            b'f' => self.word("false", Kind::False),
            b'n' => self.word("null", Kind::Null),
            b'-' | b'0'..=b'9' => self.number(),
            b'N' | b'I' | b'+' if self.leniency.non_numbers => self.non_number(),
            _ => Err(Malformed),
        }
    }

    /// An object from `{` on; gives each name and value.
    pub(crate) fn object(&mut self, depth: u32, mut field: impl FnMut(Slot, Slot)) -> Scan<()> {
        self.position += 1;
        self.skip_space()?;
        if self.peek() == Some(b'}') {
            self.position += 1;
            return Ok(());
        }
        loop {
            self.skip_space()?;
            let name = match self.peek() {
                Some(b'"') => self.string(b'"')?,
                Some(b'\'') if self.leniency.single_quotes => self.string(b'\'')?,
                Some(_) if self.leniency.unquoted_names => self.bare_name()?,
                _ => return Err(Malformed),
            };
            self.skip_space()?;
            if self.peek() != Some(b':') {
                return Err(Malformed);
            }
            self.position += 1;
            let value = self.value(depth + 1)?;
            field(name, value);
            self.skip_space()?;
            match self.peek() {
                Some(b',') => self.position += 1,
                Some(b'}') => {
                    self.position += 1;
                    return Ok(());
                }
                _ => return Err(Malformed),
            }
        }
    }

    /// An array from `[` on; gives each value.
    pub(crate) fn array(&mut self, depth: u32, mut element: impl FnMut(Slot)) -> Scan<()> {
        self.position += 1;
        self.skip_space()?;
        if self.peek() == Some(b']') {
            self.position += 1;
            return Ok(());
        }
        loop {
            let value = self.value(depth + 1)?;
            element(value);
            self.skip_space()?;
            match self.peek() {
                Some(b',') => self.position += 1,
                Some(b']') => {
                    self.position += 1;
                    return Ok(());
                }
                _ => return Err(Malformed),
            }
        }
    }

    #[inline]
    fn string(&mut self, quote: u8) -> Scan<Slot> {
        self.position += 1;
        let start = self.position;
        let mut escaped = false;
        let rest = self.bytes.get(start..).unwrap_or_default();
        let mut bytes = rest.iter().enumerate();
        while let Some((at, byte)) = bytes.next() {
            if *byte == quote {
                self.position = start + at + 1;
                return Ok(Slot { kind: Kind::Text { escaped }, start, end: start + at });
            }
            if *byte == b'\\' {
                escaped = true;
                match bytes.next() {
                    Some((_, b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't')) => (),
                    Some((at, b'u')) => {
                        let digits = rest.get(at + 1..at + 5).ok_or(Malformed)?;
                        if !digits.iter().all(u8::is_ascii_hexdigit) {
                            return Err(Malformed);
                        }
                    }
                    Some((_, b'\'')) if self.leniency.single_quotes => (),
                    Some(_) if self.leniency.escape_any => (),
                    _ => return Err(Malformed),
                }
            } else if *byte < 0x20 && !self.leniency.control_chars {
                return Err(Malformed);
            }
        }
        Err(Malformed)
    }

    fn bare_name(&mut self) -> Scan<Slot> {
        let start = self.position;
        while let Some(byte) = self.peek()
            && (byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'-') || byte >= 0x80)
        {
            self.position += 1;
        }
        if start == self.position {
            return Err(Malformed);
        }
        Ok(Slot { kind: Kind::Text { escaped: false }, start, end: self.position })
    }

    fn word(&mut self, word: &str, kind: Kind) -> Scan<Slot> {
        let start = self.position;
        let end = start + word.len();
        if self.bytes.get(start..end) != Some(word.as_bytes()) {
            return Err(Malformed);
        }
        self.position = end;
        self.ended(Slot { kind, start, end })
    }

    fn ended(&self, slot: Slot) -> Scan<Slot> {
        match self.peek() {
            Some(byte) if byte.is_ascii_alphanumeric() || byte == b'_' => Err(Malformed),
            _ => Ok(slot),
        }
    }

    fn non_number(&mut self) -> Scan<Slot> {
        for word in ["NaN", "Infinity", "INF", "-Infinity", "-INF", "+Infinity", "+INF"] {
            if let Ok(slot) = self.word(word, Kind::NonNumber) {
                return Ok(slot);
            }
        }
        Err(Malformed)
    }

    fn digits(&mut self) -> usize {
        let start = self.position;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.position += 1;
        }
        self.position - start
    }

    fn number(&mut self) -> Scan<Slot> {
        let start = self.position;
        if self.peek() == Some(b'-') {
            self.position += 1;
            if matches!(self.peek(), Some(b'I')) && self.leniency.non_numbers {
                self.position = start;
                return self.non_number();
            }
        }
        let zero = self.peek() == Some(b'0');
        let whole = self.digits();
        if whole == 0 || (zero && whole > 1 && !self.leniency.leading_zeros) {
            return Err(Malformed);
        }
        let mut kind = Kind::Int;
        if self.peek() == Some(b'.') {
            self.position += 1;
            kind = Kind::Float;
            if self.digits() == 0 {
                return Err(Malformed);
            }
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.position += 1;
            kind = Kind::Float;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.position += 1;
            }
            if self.digits() == 0 {
                return Err(Malformed);
            }
        }
        self.ended(Slot { kind, start, end: self.position })
    }
}

/// Takes the escapes out of a JSON string. Halves of a pair of `\u` that stand alone become U+FFFD.
pub(crate) fn unescape(text: &str, out: &mut String) {
    out.clear();
    let mut rest = text;
    while let Some((plain, tail)) = rest.split_once('\\') {
        out.push_str(plain);
        let mut letters = tail.chars();
        match letters.next() {
            Some('b') => out.push('\u{8}'),
            Some('f') => out.push('\u{c}'),
            Some('n') => out.push('\n'),
            Some('r') => out.push('\r'),
            Some('t') => out.push('\t'),
            Some('u') => {
                rest = unescape_unicode(tail, out);
                continue;
            }
            Some(other) => out.push(other),
            None => (),
        }
        rest = letters.as_str();
    }
    out.push_str(rest);
}

fn unescape_unicode<'a>(tail: &'a str, out: &mut String) -> &'a str {
    let unit = |text: &str| text.get(1..5).and_then(|hex| u16::from_str_radix(hex, 16).ok());
    let Some(first) = unit(tail) else { return "" };
    let rest = tail.get(5..).unwrap_or_default();
    if (0xD800..0xDC00).contains(&first)
        && let Some(second) = rest.strip_prefix('\\').filter(|next| next.starts_with('u'))
        && let Some(low) = unit(second)
        && (0xDC00..0xE000).contains(&low)
    {
        out.extend(char::decode_utf16([first, low]).map(|c| c.unwrap_or('\u{fffd}')));
        return second.get(5..).unwrap_or_default();
    }
    out.extend(char::decode_utf16([first]).map(|c| c.unwrap_or('\u{fffd}')));
    rest
}
