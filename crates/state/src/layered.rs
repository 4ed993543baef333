//! Rows in key order out of two places, one over the other.

use crate::StateRow;
use onefold_types::Result;
use std::ops::Bound;

/// Takes a key and its value, `None` if the row is removed; tells whether to go on.
pub(crate) type KeyVisitor<'a> = dyn FnMut(&[u8], Option<&[u8]>) -> bool + 'a;

/// At most `limit` rows of a range in key order. `below` gives at most so many rows from a bound on
/// to the end of the range; `over` visits, in order, what lies over them between two bounds.
pub(crate) fn scan(
    (from, to): (Bound<&[u8]>, Bound<&[u8]>),
    limit: usize,
    mut below: impl FnMut(Bound<&[u8]>, usize) -> Result<Vec<StateRow>>,
    over: impl Fn(Bound<&[u8]>, Bound<&[u8]>, &mut KeyVisitor<'_>) -> Result<()>,
) -> Result<Vec<StateRow>> {
    let mut rows = Vec::new();
    let mut from: Bound<Box<[u8]>> = from.map(Into::into);
    while rows.len() < limit {
        let start = from.as_ref().map(|key| &**key);
        let wanted = limit - rows.len();
        let found = below(start, wanted)?;
        // Past the last row that was asked for, more rows may follow.
        let last =
            if found.len() < wanted { None } else { found.last().map(|row| row.key.clone()) };
        let end = last.as_deref().map_or(to, Bound::Included);
        let mut found = found.into_iter().peekable();
        over(start, end, &mut |key, value| {
            while rows.len() < limit
                && let Some(row) = found.next_if(|row| *row.key < *key)
            {
                rows.push(row);
            }
            if rows.len() == limit {
                return false;
            }
            found.next_if(|row| *row.key == *key);
            rows.extend(value.map(|value| StateRow { key: key.into(), value: value.into() }));
            true
        })?;
        let room = limit - rows.len();
        rows.extend(found.take(room));
        let Some(last) = last else { break };
        from = Bound::Excluded(last);
    }
    Ok(rows)
}
