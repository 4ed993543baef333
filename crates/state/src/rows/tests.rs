//! Maps against a plain one.

use super::Rows;
use crate::Access;
use crate::overlay::{Act, Cell};
use std::collections::BTreeMap;
use std::ops::Bound;

type Model = BTreeMap<Vec<u8>, (u32, Vec<u8>)>;

/// A tag that says a number.
fn cell(number: u32) -> Cell {
    Cell::new(Act::Put, Some(number as usize))
}

fn number(cell: Cell) -> u32 {
    u32::try_from(cell.base().unwrap()).unwrap()
}

fn owned<'a>(
    rows: impl Iterator<Item = (&'a [u8], Cell, &'a [u8])>,
) -> Vec<(Vec<u8>, u32, Vec<u8>)> {
    rows.map(|(key, tag, value)| (key.to_vec(), number(tag), value.to_vec())).collect()
}

fn expected(model: &Model, from: Bound<&[u8]>, to: Bound<&[u8]>) -> Vec<(Vec<u8>, u32, Vec<u8>)> {
    let rows = model.range::<[u8], _>((from, to));
    rows.map(|(key, (tag, value))| (key.clone(), *tag, value.clone())).collect()
}

fn random(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed;
    move |below| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) % below
    }
}

fn rows_are_those_of_a_plain_map(access: Access) {
    let mut map = Rows::new(access);
    let mut model = Model::new();
    let mut random = random(7);
    for step in 0..60_000_u32 {
        let key = format!("key {}", random(900)).into_bytes();
        let length = match random(1_000) {
            0 => 70_000 + random(9),
            1..500 => 24,
            _ => random(40),
        };
        let value = vec![step as u8; usize::try_from(length).unwrap()];
        if random(4) == 0 {
            let old = model.remove(&key).map(|(_, value)| value.len());
            assert_eq!(map.remove(&key).unwrap(), old);
        } else {
            let old = model.insert(key.clone(), (step, value.clone()));
            let held = map.insert(&key, cell(step), &value).unwrap();
            let held = held.map(|(tag, length)| (number(tag), length));
            assert_eq!(held, old.map(|(tag, value)| (tag, value.len())));
        }
        let held = map.get(&key).map(|(tag, value)| (number(tag), value.to_vec()));
        assert_eq!(held, model.get(&key).cloned());
        assert_eq!(map.len(), model.len());
    }
    let mut found = owned(map.iter());
    found.sort();
    assert_eq!(found, expected(&model, Bound::Unbounded, Bound::Unbounded));
    // Holes were closed on the way, and what is left is not held for ever.
    let bytes: usize = model.iter().map(|(key, (_, value))| key.len() + value.len()).sum();
    assert!(map.memory() < 3 * bytes + 200_000, "{} of {bytes}", map.memory());
    for key in model.keys() {
        map.remove(key).unwrap();
    }
    map.settle();
    assert!(map.iter().next().is_none());
    assert!(map.memory() < 50_000, "{}", map.memory());
    assert!(map.insert(b"", cell(1), b"").unwrap().is_none());
    assert_eq!(map.get(b"").map(|(tag, value)| (number(tag), value)), Some((1, &b""[..])));
}

#[test]
fn rows_are_those_of_a_plain_map_through_growth_holes_and_long_values() {
    rows_are_those_of_a_plain_map(Access::Point);
    rows_are_those_of_a_plain_map(Access::Ordered);
}

#[test]
fn ranges_are_those_of_a_plain_map_after_any_writes() {
    let mut map = Rows::new(Access::Ordered);
    let mut model = Model::new();
    let mut random = random(11);
    for step in 0..200_u32 {
        // Few or many writes between two looks, now and then in order and far apart.
        let writes = [1, 3, 40, 1_200][usize::try_from(random(4)).unwrap()] >> (step % 3);
        let first = random(3_000);
        for write in 0..writes {
            let key = if step % 5 == 0 { first + write } else { random(3_000) };
            let key = format!("{key:06}").into_bytes();
            if random(3) == 0 {
                map.remove(&key).unwrap();
                model.remove(&key);
            } else {
                let value = vec![1; usize::try_from(random(3)).unwrap()];
                map.insert(&key, cell(step), &value).unwrap();
                model.insert(key, (step, value));
            }
        }
        map.settle();
        let bound = |kind: u64, key: &'static str| match kind {
            0 => Bound::Unbounded,
            1 => Bound::Included(key.as_bytes()),
            _ => Bound::Excluded(key.as_bytes()),
        };
        let keys = ["000000", "000500", "001499x", "001500", "002999", "a"];
        let mut any = || keys[usize::try_from(random(6)).unwrap()];
        let (low, high) = (any(), any());
        let (from, to) = (bound(random(3), low.min(high)), bound(random(3), low.max(high)));
        if super::is_empty(from, to) {
            assert!(map.range(from, to).next().is_none());
        } else {
            assert_eq!(owned(map.range(from, to)), expected(&model, from, to));
        }
    }
}
