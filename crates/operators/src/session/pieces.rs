//! Which sessions of a key become one.

use std::ops::Range;

/// A session of a key: kept from before, or opened by a row of this batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) start: i64,
    pub(super) end: i64,
    pub(super) origin: Origin,
}

/// Where a piece comes from. Kept sorts before new.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Origin {
    /// The number of a kept session.
    Kept(usize),
    /// A row of this batch.
    New(usize),
}

/// Pieces that are one session, by their places in the sorted list, and its bounds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Merged {
    pub(super) pieces: Range<usize>,
    pub(super) start: i64,
    pub(super) end: i64,
}

/// Sorts the pieces of one key by start and merges those that overlap or touch.
pub(super) fn merge(pieces: &mut [Piece]) -> Vec<Merged> {
    pieces.sort_unstable_by_key(|piece| (piece.start, piece.origin));
    let mut merged: Vec<Merged> = Vec::new();
    for (place, piece) in pieces.iter().enumerate() {
        match merged.last_mut() {
            Some(open) if piece.start <= open.end => {
                open.pieces.end = place + 1;
                open.end = open.end.max(piece.end);
            }
            _ => {
                merged.push(Merged { pieces: place..place + 1, start: piece.start, end: piece.end })
            }
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::{Merged, Origin, Piece, merge};

    fn merged(sessions: &[(i64, i64)]) -> Vec<(i64, i64)> {
        let mut pieces: Vec<Piece> = sessions
            .iter()
            .enumerate()
            .map(|(row, (start, end))| Piece { start: *start, end: *end, origin: Origin::New(row) })
            .collect();
        merge(&mut pieces).iter().map(|Merged { start, end, .. }| (*start, *end)).collect()
    }

    #[test]
    fn sessions_that_overlap_or_touch_are_one() {
        assert_eq!(merged(&[(0, 5), (5, 10), (11, 16)]), [(0, 10), (11, 16)]);
        assert_eq!(merged(&[(12, 17), (0, 5), (4, 9)]), [(0, 9), (12, 17)]);
    }

    #[test]
    fn a_long_gap_holds_what_comes_inside_it() {
        assert_eq!(merged(&[(0, 100), (10, 15), (50, 60), (99, 120)]), [(0, 120)]);
    }

    #[test]
    fn a_row_between_two_sessions_joins_them() {
        assert_eq!(merged(&[(0, 5), (8, 13), (4, 9)]), [(0, 13)]);
    }

    #[test]
    fn sessions_before_1970_merge_like_others() {
        assert_eq!(merged(&[(-5, 0), (0, 5), (-20, -15)]), [(-20, -15), (-5, 5)]);
    }
}
