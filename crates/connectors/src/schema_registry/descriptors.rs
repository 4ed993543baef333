//! Files of Protocol Buffers as one descriptor set.
//!
//! A registry gives each file by itself, under a name that need not be the one by which others import
//! it. So the name is set here; of all else in a file only what is needed is looked at. The forms are
//! those of `google/protobuf/descriptor.proto`.

/// Field numbers of `FileDescriptorProto`, and of a message's name in it.
const NAME: u64 = 1;
const PACKAGE: u64 = 2;
const MESSAGE: u64 = 4;

/// How a field is encoded.
const VARINT: u64 = 0;
const EIGHT: u64 = 1;
const LENGTH: u64 = 2;
const FOUR: u64 = 5;

/// The set of these files, each with the name given, and the full name of the first message of the
/// last one; `None` when a file is damaged or the last one has no message.
pub(super) fn set(files: &[(String, Vec<u8>)]) -> Option<(Vec<u8>, String)> {
    let mut set = Vec::new();
    let mut first = None;
    for (name, file) in files {
        let mut renamed = Vec::with_capacity(file.len() + name.len() + 8);
        put(&mut renamed, NAME, name.as_bytes());
        let (mut package, mut message) = (None, None);
        for field in Fields(file) {
            let (number, whole, content) = field?;
            match number {
                NAME => continue,
                PACKAGE => package = std::str::from_utf8(content).ok(),
                MESSAGE if message.is_none() => message = name_of(content),
                _ => {}
            }
            renamed.extend_from_slice(whole);
        }
        first = message.map(|message| match package.filter(|it| !it.is_empty()) {
            Some(package) => format!("{package}.{message}"),
            None => message,
        });
        put(&mut set, 1, &renamed);
    }
    Some((set, first?))
}

fn name_of(message: &[u8]) -> Option<String> {
    Fields(message)
        .flatten()
        .find(|(number, ..)| *number == NAME)
        .and_then(|(_, _, name)| String::from_utf8(name.to_vec()).ok())
}

fn put(to: &mut Vec<u8>, number: u64, content: &[u8]) {
    for mut value in [(number << 3) | LENGTH, content.len() as u64] {
        while value >= 0x80 {
            to.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        to.push(value as u8);
    }
    to.extend_from_slice(content);
}

/// The fields of a message: number, the whole field, and its content where that has a length.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn step(&mut self) -> Option<(u64, &'a [u8], &'a [u8])> {
        let all = self.0;
        let key = varint(&mut self.0)?;
        let length = match key & 7 {
            VARINT => varint(&mut self.0).map(|_| 0)?,
            EIGHT => 8,
            FOUR => 4,
            LENGTH => usize::try_from(varint(&mut self.0)?).ok()?,
            _ => return None,
        };
        let (content, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some((key >> 3, all.get(..all.len() - rest.len())?, content))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Option<(u64, &'a [u8], &'a [u8])>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.step();
        if field.is_none() {
            self.0 = &[];
        }
        Some(field)
    }
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file `old.proto` of package `shop` with a dependency and the message `Order`.
    fn file() -> Vec<u8> {
        let (mut file, mut message) = (Vec::new(), Vec::new());
        put(&mut message, NAME, b"Order");
        put(&mut file, NAME, b"old.proto");
        put(&mut file, PACKAGE, b"shop");
        put(&mut file, 3, b"other.proto");
        put(&mut file, MESSAGE, &message);
        file
    }

    #[test]
    fn files_get_the_names_by_which_others_import_them() {
        let (set, first) = set(&[("new.proto".to_owned(), file())]).unwrap();
        assert_eq!(first, "shop.Order");
        let (number, _, renamed) = Fields(&set).next().unwrap().unwrap();
        let fields: Vec<_> = Fields(renamed).map(Option::unwrap).collect();
        assert_eq!((number, fields[0].2), (1, &b"new.proto"[..]));
        let numbers: Vec<u64> = fields.iter().map(|field| field.0).collect();
        assert_eq!(numbers, [NAME, PACKAGE, 3, MESSAGE]);
    }

    #[test]
    fn damage_is_noticed_wherever_a_file_ends() {
        let whole = file();
        let ends = (1..whole.len())
            .filter(|end| set(&[("new.proto".to_owned(), whole[..*end].to_vec())]).is_some());
        assert_eq!(ends.count(), 0);
    }
}
