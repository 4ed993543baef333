//! How deep the tree of a text of SQL may be, seen before there is one: trees of plans are walked,
//! compared and freed by calls of calls, and a text of 100,000 brackets or pluses would end the stack.

use crate::failure::{Failure, Outcome};

/// Longest text, in bytes.
const LENGTH_MAX: usize = 4 << 20;
/// Deepest tree.
const DEPTH_MAX: usize = 2_000;

/// Words that put what is around them one level deeper in a tree.
const OPERATORS: [&str; 11] =
    ["and", "or", "not", "is", "like", "ilike", "rlike", "in", "between", "case", "collate"];
/// Words that put the queries or tables around them one level deeper, whatever is in these.
const SETS: [&str; 5] = ["union", "except", "intersect", "minus", "join"];
/// Words after which another expression begins.
const CLAUSES: [&str; 7] = ["select", "from", "where", "group", "having", "order", "limit"];

/// Refuses a text that is too long or whose tree may be too deep.
///
/// # Errors
/// Either of the two, with what is allowed.
pub(crate) fn check(text: &str) -> Outcome<()> {
    if text.len() > LENGTH_MAX {
        return Err(Failure::syntax(format!(
            "the text has {} bytes, and may have {LENGTH_MAX}",
            text.len()
        )));
    }
    if deepest(text) > DEPTH_MAX {
        return Err(Failure::syntax(format!(
            "the text is nested deeper than {DEPTH_MAX} brackets and operators; split it with \
             temporary views"
        )));
    }
    Ok(())
}

/// The most brackets that are open at once with the operators beside them.
fn deepest(text: &str) -> usize {
    let mut open = vec![Level::default()];
    let (mut depth, mut most) = (0_usize, 0_usize);
    let bytes = text.as_bytes();
    let mut place = 0;
    while let Some(&byte) = bytes.get(place) {
        let start = place;
        place += 1;
        match byte {
            b'\'' | b'"' | b'`' => place = behind(bytes, place, byte),
            b'-' if bytes.get(place) == Some(&b'-') => {
                while bytes.get(place).is_some_and(|byte| *byte != b'\n') {
                    place += 1;
                }
            }
            b'(' | b'[' => {
                open.push(Level::default());
                depth += 1;
            }
            b')' | b']' => {
                if open.len() > 1
                    && let Some(level) = open.pop()
                {
                    depth = depth.saturating_sub(level.operators + level.sets + 1);
                }
                if byte == b']' {
                    // An access to an element is around what is accessed.
                    deeper(&mut open, &mut depth);
                }
            }
            b',' | b';' => start_over(&mut open, &mut depth),
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => {
                while bytes.get(place).is_some_and(|it| it.is_ascii_alphanumeric() || *it == b'_') {
                    place += 1;
                }
                let word = text.get(start..place).unwrap_or_default();
                if OPERATORS.iter().any(|known| known.eq_ignore_ascii_case(word)) {
                    deeper(&mut open, &mut depth);
                } else if SETS.iter().any(|known| known.eq_ignore_ascii_case(word)) {
                    if let Some(last) = open.last_mut() {
                        last.sets += 1;
                        depth += 1;
                    }
                } else if CLAUSES.iter().any(|known| known.eq_ignore_ascii_case(word)) {
                    start_over(&mut open, &mut depth);
                }
            }
            b'0'..=b'9' => {
                // A point in a number is no access to a field.
                while bytes.get(place).is_some_and(|it| it.is_ascii_alphanumeric() || *it == b'.') {
                    place += 1;
                }
            }
            byte if byte.is_ascii_punctuation() => deeper(&mut open, &mut depth),
            _ => {}
        }
        most = most.max(depth);
    }
    most
}

/// What is counted inside an open bracket, or outside all.
#[derive(Debug, Default)]
struct Level {
    /// Operators since the last comma or clause.
    operators: usize,
    /// Unions, joins and their like.
    sets: usize,
}

fn deeper(open: &mut [Level], depth: &mut usize) {
    if let Some(last) = open.last_mut() {
        last.operators += 1;
        *depth += 1;
    }
}

fn start_over(open: &mut [Level], depth: &mut usize) {
    if let Some(last) = open.last_mut() {
        *depth = depth.saturating_sub(last.operators);
        last.operators = 0;
    }
}

/// The place behind the end of a quoted part.
fn behind(bytes: &[u8], mut place: usize, quote: u8) -> usize {
    while let Some(&byte) = bytes.get(place) {
        place += 1;
        if byte == b'\\' && quote != b'`' {
            place += 1;
        } else if byte == quote {
            break;
        }
    }
    place
}

#[cfg(test)]
mod tests {
    use super::{check, deepest};

    #[test]
    fn brackets_and_operators_count_and_lists_do_not() {
        assert_eq!(deepest("((1))"), 2);
        assert_eq!(deepest("1 + 2 + 3"), 2);
        assert_eq!(deepest("f(1 + 2, 3 + 4, a OR b OR c)"), 3);
        assert_eq!(deepest("a[0][1]"), 2);
        assert_eq!(deepest("'((((' \"((((\" `((((` -- (((("), 0);
        assert_eq!(deepest("'it\\'s (' || x"), 2);
        assert_eq!(deepest(")))"), 0);
    }

    #[test]
    fn long_lists_are_fine_and_deep_trees_are_not() {
        let list = vec!["1.5"; 100_000].join(", ");
        check(&format!("SELECT * FROM t WHERE a IN ({list})")).unwrap();
        let selects = vec!["SELECT a + 1, b.c FROM t WHERE x > 2"; 500].join(" UNION ALL ");
        check(&selects).unwrap();
        for text in ["(", "- ", "NOT ", "1 + ", "a.", "CASE WHEN ", "x[1]", "SELECT 1 UNION "] {
            let error = check(&text.repeat(100_000)).unwrap_err();
            assert!(error.message().contains("nested deeper than 2000"), "{text}");
        }
        assert!(check(&"x".repeat(5 << 20)).is_err());
    }
}
