//! Values that Python pickled, read without Python: what processors keep as state.
//!
//! The opcodes of `pickletools` that plain values of any protocol up to 5 need. Nothing is run: a
//! class is a name, and what is made from it a call that was not done.

use onefold_types::{Error, Result};

/// Deepest nesting of values.
const DEPTH_MAX: usize = 100;

/// A value. Those inside of others are numbers of values.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    None,
    Bool(bool),
    Int(i128),
    Float(f64),
    Text(String),
    Bytes(Vec<u8>),
    /// A list or a tuple.
    List(Vec<usize>),
    Dict(Vec<(usize, usize)>),
    /// `module name` of a class or function.
    Global(String),
    /// A class or function, and what it is called with.
    Call(String, Vec<usize>),
}

/// A pickled value with all that is in it.
#[derive(Debug)]
pub(super) struct Pickle {
    values: Vec<Value>,
    root: usize,
}

impl Pickle {
    /// Reads the bytes of one value.
    ///
    /// # Errors
    /// Invalid: a value of a class that state cannot keep, or bytes that are no pickle.
    pub(super) fn read(bytes: &[u8]) -> Result<Pickle> {
        let mut reader = Reader { bytes, values: Vec::new(), stack: Vec::new(), memo: Vec::new() };
        let root = reader.run()?;
        Ok(Pickle { values: reader.values, root })
    }

    /// The outermost value.
    #[cfg(test)]
    fn root(&self) -> &Value {
        self.at(self.root)
    }

    /// A value by its number.
    pub(super) fn at(&self, number: usize) -> &Value {
        self.values.get(number).unwrap_or(&Value::None)
    }

    /// The number of the outermost value.
    pub(super) fn root_number(&self) -> usize {
        self.root
    }

    /// Whether the values are nested deeper than anybody needs, or in each other.
    pub(super) fn check_depth(depth: usize) -> Result<()> {
        if depth > DEPTH_MAX {
            return Err(Error::invalid(format!("a value is nested deeper than {DEPTH_MAX}")));
        }
        Ok(())
    }
}

fn broken() -> Error {
    Error::invalid("a Python worker sent a value that is no pickle")
}

struct Reader<'a> {
    bytes: &'a [u8],
    values: Vec<Value>,
    /// Numbers of values; `None` is a mark.
    stack: Vec<Option<usize>>,
    memo: Vec<(usize, usize)>,
}

impl Reader<'_> {
    fn take(&mut self, count: usize) -> Result<&[u8]> {
        let (taken, rest) = self.bytes.split_at_checked(count).ok_or_else(broken)?;
        self.bytes = rest;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8> {
        self.take(1)?.first().copied().ok_or_else(broken)
    }

    /// A length of some bytes, little-endian.
    fn length(&mut self, bytes: usize) -> Result<usize> {
        let taken = self.take(bytes)?;
        let value = taken.iter().rev().fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte));
        usize::try_from(value).map_err(|_| broken())
    }

    fn line(&mut self) -> Result<String> {
        let end = self.bytes.iter().position(|byte| *byte == b'\n').ok_or_else(broken)?;
        let line = self.take(end + 1)?;
        let line = line.split_last().map_or(&[][..], |(_, line)| line);
        String::from_utf8(line.to_vec()).map_err(|_| broken())
    }

    fn text(&mut self, length: usize) -> Result<()> {
        let bytes = self.take(length)?.to_vec();
        // Python's lone surrogates have no other form.
        let text = String::from_utf8(bytes)
            .map_err(|_| Error::invalid("a text has characters that UTF-8 does not have"))?;
        self.push(Value::Text(text));
        Ok(())
    }

    /// A whole number in two's complement, little-endian.
    fn long(&mut self, length: usize) -> Result<()> {
        let bytes = self.take(length)?;
        if bytes.len() > 16 {
            return Err(Error::invalid("a whole number is too large"));
        }
        let negative = bytes.last().is_some_and(|last| *last & 0x80 != 0);
        let mut whole = if negative { [0xff; 16] } else { [0; 16] };
        for (to, from) in whole.iter_mut().zip(bytes) {
            *to = *from;
        }
        self.push(Value::Int(i128::from_le_bytes(whole)));
        Ok(())
    }

    fn push(&mut self, value: Value) {
        self.stack.push(Some(self.values.len()));
        self.values.push(value);
    }

    fn pop(&mut self) -> Result<usize> {
        self.stack.pop().flatten().ok_or_else(broken)
    }

    fn top(&self) -> Result<usize> {
        self.stack.last().copied().flatten().ok_or_else(broken)
    }

    /// What was put on the stack since the last mark.
    fn marked(&mut self) -> Result<Vec<usize>> {
        let mark = self.stack.iter().rposition(Option::is_none).ok_or_else(broken)?;
        let taken: Option<Vec<usize>> = self.stack.split_off(mark).into_iter().skip(1).collect();
        taken.ok_or_else(broken)
    }

    fn remember(&mut self, place: usize) -> Result<()> {
        let top = self.top()?;
        self.memo.retain(|(known, _)| *known != place);
        self.memo.push((place, top));
        Ok(())
    }

    fn recall(&mut self, place: usize) -> Result<()> {
        let found = self.memo.iter().find(|(known, _)| *known == place);
        self.stack.push(Some(found.ok_or_else(broken)?.1));
        Ok(())
    }

    fn add(&mut self, elements: Vec<usize>) -> Result<()> {
        let top = self.top()?;
        match self.values.get_mut(top) {
            Some(Value::List(list)) => list.extend(elements),
            _ => return Err(broken()),
        }
        Ok(())
    }

    fn set(&mut self, items: &[usize]) -> Result<()> {
        let top = self.top()?;
        match self.values.get_mut(top) {
            Some(Value::Dict(entries)) => {
                for pair in items.chunks(2) {
                    let [key, value] = pair else { return Err(broken()) };
                    entries.push((*key, *value));
                }
            }
            _ => return Err(broken()),
        }
        Ok(())
    }

    fn tuple(&mut self, count: usize) -> Result<()> {
        let mut parts = Vec::with_capacity(count);
        for _ in 0..count {
            parts.push(self.pop()?);
        }
        parts.reverse();
        self.push(Value::List(parts));
        Ok(())
    }

    fn call(&mut self) -> Result<()> {
        let (arguments, function) = (self.pop()?, self.pop()?);
        let function = self.values.get(function);
        let (Some(Value::Global(name)), Some(Value::List(arguments))) =
            (function, self.values.get(arguments))
        else {
            return Err(broken());
        };
        let called = Value::Call(name.clone(), arguments.clone());
        self.push(called);
        Ok(())
    }

    fn run(&mut self) -> Result<usize> {
        loop {
            match self.byte()? {
                // PROTO, FRAME
                0x80 => drop(self.take(1)?),
                0x95 => drop(self.take(8)?),
                b'.' => return self.pop(),
                b'(' => self.stack.push(None),
                b'0' => drop(self.stack.pop()),
                b'N' => self.push(Value::None),
                0x88 => self.push(Value::Bool(true)),
                0x89 => self.push(Value::Bool(false)),
                code => self.value(code)?,
            }
        }
    }

    fn value(&mut self, code: u8) -> Result<()> {
        match code {
            b'K' | b'M' | b'J' => {
                let bytes = match code {
                    b'K' => 1,
                    b'M' => 2,
                    _ => 4,
                };
                let taken = self.take(bytes)?;
                let value = match <[u8; 4]>::try_from(taken) {
                    Ok(four) => i128::from(i32::from_le_bytes(four)),
                    Err(_) => taken.iter().rev().fold(0, |sum, it| sum << 8 | i128::from(*it)),
                };
                self.push(Value::Int(value));
            }
            0x8a => {
                let length = self.length(1)?;
                self.long(length)?;
            }
            0x8b => {
                let length = self.length(4)?;
                self.long(length)?;
            }
            b'G' => {
                let bytes = <[u8; 8]>::try_from(self.take(8)?).map_err(|_| broken())?;
                self.push(Value::Float(f64::from_be_bytes(bytes)));
            }
            0x8c | b'X' | 0x8d => {
                let length = self.length(match code {
                    0x8c => 1,
                    b'X' => 4,
                    _ => 8,
                })?;
                self.text(length)?;
            }
            b'C' | b'B' | 0x8e | 0x96 => {
                let length = self.length(match code {
                    b'C' => 1,
                    b'B' => 4,
                    _ => 8,
                })?;
                let bytes = self.take(length)?.to_vec();
                self.push(Value::Bytes(bytes));
            }
            _ => self.collection(code)?,
        }
        Ok(())
    }

    fn collection(&mut self, code: u8) -> Result<()> {
        match code {
            b']' | b')' => self.push(Value::List(Vec::new())),
            b'}' => self.push(Value::Dict(Vec::new())),
            b'a' => {
                let element = self.pop()?;
                self.add(vec![element])?;
            }
            b'e' => {
                let elements = self.marked()?;
                self.add(elements)?;
            }
            b's' => {
                let (value, key) = (self.pop()?, self.pop()?);
                self.set(&[key, value])?;
            }
            b'u' => {
                let items = self.marked()?;
                self.set(&items)?;
            }
            b't' => {
                let parts = self.marked()?;
                self.push(Value::List(parts));
            }
            0x85 => self.tuple(1)?,
            0x86 => self.tuple(2)?,
            0x87 => self.tuple(3)?,
            0x94 => {
                let place = self.memo.len();
                self.remember(place)?;
            }
            b'q' | b'r' => {
                let place = self.length(if code == b'q' { 1 } else { 4 })?;
                self.remember(place)?;
            }
            b'h' | b'j' => {
                let place = self.length(if code == b'h' { 1 } else { 4 })?;
                self.recall(place)?;
            }
            b'c' => {
                let (module, name) = (self.line()?, self.line()?);
                self.push(Value::Global(format!("{module} {name}")));
            }
            0x93 => {
                let (name, module) = (self.pop()?, self.pop()?);
                let global = match (self.values.get(module), self.values.get(name)) {
                    (Some(Value::Text(module)), Some(Value::Text(name))) => {
                        Value::Global(format!("{module} {name}"))
                    }
                    _ => return Err(broken()),
                };
                self.push(global);
            }
            // REDUCE, NEWOBJ
            b'R' | 0x81 => self.call()?,
            _ => {
                return Err(Error::invalid(
                    "a value is an object of a class that state cannot keep: use numbers, texts, \
                     bytes, dates, lists, dicts and rows of them",
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Pickle, Value};

    fn texts(pickle: &Pickle, value: &Value) -> String {
        match value {
            Value::List(parts) => {
                let parts = parts.iter().map(|part| texts(pickle, pickle.at(*part)));
                format!("[{}]", parts.collect::<Vec<_>>().join(", "))
            }
            Value::Dict(parts) => {
                let parts = parts.iter().map(|(key, value)| {
                    let [key, value] = [key, value].map(|it| texts(pickle, pickle.at(*it)));
                    format!("{key}: {value}")
                });
                format!("{{{}}}", parts.collect::<Vec<_>>().join(", "))
            }
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn what_python_pickles_is_read() {
        // pickle.dumps((1, -2, 2**40, "é", None, 1.5, [True], {"a": b"x"}, "é"), 5)
        let bytes = b"\x80\x05\x95\x33\0\0\0\0\0\0\0(K\x01J\xfe\xff\xff\xff\x8a\x06\0\0\0\0\0\x01\
            \x8c\x02\xc3\xa9\x94NG\x3f\xf8\0\0\0\0\0\0]\x94\x88a}\x94\x8c\x01a\x94C\x01x\x94sh\0t\
            \x94.";
        let pickle = Pickle::read(bytes).unwrap();
        let wanted = "[Int(1), Int(-2), Int(1099511627776), Text(\"é\"), None, Float(1.5), \
             [Bool(true)], {Text(\"a\"): Bytes([120])}, Text(\"é\")]";
        assert_eq!(texts(&pickle, pickle.root()), wanted);
    }

    #[test]
    fn a_call_is_not_done() {
        // pickle.dumps(decimal.Decimal("1.20"), 3)
        let bytes = b"\x80\x03cdecimal\nDecimal\nq\0X\x04\0\0\x001.20q\x01\x85q\x02Rq\x03.";
        let pickle = Pickle::read(bytes).unwrap();
        let Value::Call(name, arguments) = pickle.root() else { panic!("no call") };
        assert_eq!(name, "decimal Decimal");
        assert_eq!(pickle.at(arguments[0]), &Value::Text("1.20".to_owned()));
    }

    #[test]
    fn no_bytes_make_it_panic() {
        for bytes in [&b""[..], b"\x80", b"]e.", b"h\0.", b"(.", b"X\xff\xff\xff\xff.", b"R."] {
            assert!(Pickle::read(bytes).is_err(), "{bytes:?}");
        }
    }
}
