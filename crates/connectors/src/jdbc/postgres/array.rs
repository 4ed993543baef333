//! PostgreSQL's arrays in binary: how many dimensions, whether there are NULLs, the type of the items,
//! length and first index of each dimension, and then the items with their lengths.

use super::binary;
use crate::jdbc::cell::Cell;
use bytes::{Buf, BufMut, BytesMut};
use tokio_postgres::types::Type;

/// What a list that is nested deeper cannot be: PostgreSQL's own limit.
const DEPTH: usize = 6;

/// The lengths of a list and the lists in it, which must agree.
fn lengths(cell: &Cell, depth: usize, found: &mut Vec<usize>) -> Result<(), String> {
    let Cell::List(items) = cell else {
        return match found.len() > depth && *cell != Cell::Null {
            true => Err("an array holds values beside arrays".to_owned()),
            false => Ok(()),
        };
    };
    if depth >= DEPTH {
        return Err(format!("an array has more than {DEPTH} dimensions"));
    }
    match found.get(depth) {
        None => found.push(items.len()),
        Some(length) if *length == items.len() => {}
        Some(length) => {
            return Err(format!(
                "an array holds arrays of {length} and of {} values; in PostgreSQL all have the \
                 same length",
                items.len()
            ));
        }
    }
    items.iter().try_for_each(|item| lengths(item, depth + 1, found))
}

fn write_leaves(cell: &Cell, depth: usize, item: &Type, out: &mut BytesMut) -> Result<(), String> {
    match cell {
        Cell::List(items) if depth > 0 => {
            items.iter().try_for_each(|cell| write_leaves(cell, depth - 1, item, out))
        }
        Cell::Null if depth > 0 => {
            Err("an array is NULL within an array, which PostgreSQL does not have".to_owned())
        }
        _ => binary::write_field(cell, item, out),
    }
}

/// Writes a list.
///
/// # Errors
/// Text: the lists in it differ in length or depth, or a value does not fit.
pub(super) fn write(cell: &Cell, item: &Type, ty: &Type, out: &mut BytesMut) -> Result<(), String> {
    if !matches!(cell, Cell::List(_)) {
        return Err(binary::unfit(cell, ty));
    }
    let mut found = Vec::new();
    lengths(cell, 0, &mut found)?;
    let empty = found.contains(&0);
    let dimensions = if empty { 0 } else { found.len() };
    out.put_i32(i32::try_from(dimensions).unwrap_or_default());
    out.put_i32(1);
    out.put_u32(item.oid());
    if empty {
        return Ok(());
    }
    for length in &found {
        out.put_i32(i32::try_from(*length).map_err(|_| "the array is too long".to_owned())?);
        out.put_i32(1);
    }
    write_leaves(cell, found.len(), item, out)
}

/// Reads a list.
///
/// # Errors
/// Text: the bytes are no array.
pub(super) fn read(item: &Type, mut bytes: &[u8]) -> Result<Cell, String> {
    let bad = || "the bytes are no array".to_owned();
    if bytes.len() < 12 {
        return Err(bad());
    }
    let dimensions = usize::try_from(bytes.get_i32()).map_err(|_| bad())?;
    bytes.advance(8);
    if dimensions == 0 {
        return Ok(Cell::List(Vec::new()));
    }
    let mut lengths = Vec::new();
    for _ in 0..dimensions.min(DEPTH) {
        if bytes.len() < 8 {
            return Err(bad());
        }
        lengths.push(usize::try_from(bytes.get_i32()).map_err(|_| bad())?);
        bytes.advance(4);
    }
    let mut items = Vec::new();
    while !bytes.is_empty() {
        if bytes.len() < 4 {
            return Err(bad());
        }
        match usize::try_from(bytes.get_i32()) {
            Err(_) => items.push(Cell::Null),
            Ok(length) => {
                let value = bytes.get(..length).ok_or_else(bad)?;
                items.push(binary::read(item, value)?);
                bytes.advance(length);
            }
        }
    }
    // From the innermost lists outwards.
    for length in lengths.iter().skip(1).rev() {
        if *length == 0 || !items.len().is_multiple_of(*length) {
            return Err(bad());
        }
        items = items.chunks(*length).map(|items| Cell::List(items.to_vec())).collect();
    }
    Ok(Cell::List(items))
}
