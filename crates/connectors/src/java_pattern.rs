//! What reading and writing of dates and times by Java's patterns (`yyyy-MM-dd`) have in common.

use std::iter::Peekable;
use std::str::Chars;

/// Names of months, as letter `M` has them.
pub(crate) const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// The text up to the closing quote, the opening one being taken; two quotes are one. `None` when it
/// is not closed.
pub(crate) fn quoted(letters: &mut Peekable<Chars<'_>>) -> Option<String> {
    let mut text = String::new();
    if letters.next_if_eq(&'\'').is_some() {
        return Some("'".to_owned());
    }
    loop {
        match letters.next()? {
            '\'' if letters.next_if_eq(&'\'').is_some() => text.push('\''),
            '\'' => return Some(text),
            letter => text.push(letter),
        }
    }
}
