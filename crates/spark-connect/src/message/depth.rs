//! How deep a message is, without knowing what it means, in one walk and without recursion.

/// Whether the message is nested deeper than `most`.
///
/// Bytes do not say which of their fields with a length are messages. Each is taken for one until
/// something in it cannot be; the walk then goes on behind it. So every byte is looked at once, and
/// a message that is whole is never deeper than what is found. Texts and numbers hardly ever look
/// like messages in messages a thousand times.
pub(super) fn is_deeper(bytes: &[u8], most: usize) -> bool {
    // Where each field that is being walked ends, the whole first.
    let mut ends = vec![bytes.len()];
    let mut place = 0;
    while let Some(&end) = ends.last() {
        if place >= end {
            ends.pop();
            continue;
        }
        if ends.len() > most.saturating_add(1) {
            return true;
        }
        match step(bytes, &mut place, end) {
            Some(None) => {}
            Some(Some(inner)) => ends.push(inner),
            None => {
                // Not a message: go on behind it.
                place = end;
            }
        }
    }
    false
}

/// Walks over one tag and what it announces: the end of a field with a length, which is then to be
/// walked. `None` when that does not fit before `end`.
fn step(bytes: &[u8], place: &mut usize, end: usize) -> Option<Option<usize>> {
    let tag = varint(bytes, place, end)?;
    if tag >> 3 == 0 || tag > u64::from(u32::MAX) {
        return None;
    }
    match tag & 7 {
        0 => {
            varint(bytes, place, end)?;
        }
        1 => *place = inside(*place, 8, end)?,
        5 => *place = inside(*place, 4, end)?,
        2 => {
            let length = usize::try_from(varint(bytes, place, end)?).ok()?;
            return inside(*place, length, end).map(Some);
        }
        // The beginning and the end of a group, which no message of Spark has: decoding skips it
        // with all that is in it.
        3 | 4 => {}
        _ => return None,
    }
    Some(None)
}

fn inside(place: usize, count: usize, end: usize) -> Option<usize> {
    place.checked_add(count).filter(|after| *after <= end)
}

fn varint(bytes: &[u8], place: &mut usize, end: usize) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..70).step_by(7) {
        let byte = *bytes.get(..end)?.get(*place)?;
        *place += 1;
        value |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}
