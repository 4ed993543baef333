//! How far a batch goes in the files of one version. Decides only.

use super::changes::Found;
use super::position::Position;

/// What a batch may still take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Room {
    pub(crate) files: u64,
    pub(crate) bytes: u64,
    /// Whether anything was taken: a batch takes at least one file.
    pub(crate) taken: bool,
}

impl Room {
    /// No limit.
    pub(crate) const ALL: Room = Room { files: u64::MAX, bytes: u64::MAX, taken: false };

    fn take(&mut self, bytes: u64) -> bool {
        if self.taken && (self.files == 0 || self.bytes < bytes) {
            return false;
        }
        self.files = self.files.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes);
        self.taken = true;
        true
    }
}

/// Takes the files of the version at `from` that there is room for. Where the stream stands then:
/// before the next version, if all were taken.
pub(crate) fn take(from: Position, files: &[Found], room: &mut Room) -> Position {
    let mut at = from;
    for file in files.iter().filter(|file| file.index > from.index) {
        if !room.take(file.bytes) {
            return at;
        }
        at.index = file.index;
    }
    Position::at(from.version + 1)
}

/// The files of a version between two places.
pub(crate) fn between(files: Vec<Found>, from: Position, to: Position) -> Vec<Found> {
    let last = if to.version == from.version && to.snapshot == from.snapshot {
        to.index
    } else {
        i64::MAX
    };
    files.into_iter().filter(|file| file.index > from.index && file.index <= last).collect()
}

#[cfg(test)]
mod tests {
    use super::super::position::BEFORE;
    use super::*;

    fn files(sizes: &[u64]) -> Vec<Found> {
        let file =
            |(index, bytes): (i64, &u64)| Found { index, path: index.to_string(), bytes: *bytes };
        (0..).zip(sizes).map(file).collect()
    }

    /// Every way of cutting a version into batches takes each file once and in order.
    #[test]
    fn batches_of_any_size_take_each_file_once() {
        let files = files(&[5, 1, 9, 2, 2]);
        for most in 1..=6 {
            for bytes in [1, 3, 10, u64::MAX] {
                for snapshot in [false, true] {
                    let mut at = Position { version: 4, index: BEFORE, snapshot };
                    let mut taken = Vec::new();
                    while at.version == 4 {
                        let mut room = Room { files: most, bytes, taken: false };
                        let end = take(at, &files, &mut room);
                        let batch = between(files.clone(), at, end);
                        assert!(!batch.is_empty() && batch.len() as u64 <= most);
                        let sum: u64 = batch.iter().map(|file| file.bytes).sum();
                        assert!(batch.len() == 1 || sum <= bytes);
                        taken.extend(batch);
                        at = end;
                    }
                    assert_eq!(taken, files);
                    assert_eq!(at, Position::at(5));
                }
            }
        }
    }

    #[test]
    fn a_version_without_files_is_passed() {
        let mut room = Room { files: 1, bytes: 1, taken: false };
        assert_eq!(take(Position::at(3), &[], &mut room), Position::at(4));
        assert!(!room.taken);
    }
}
