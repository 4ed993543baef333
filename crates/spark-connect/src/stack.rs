//! Room for work that calls itself for each level of a plan.

/// What one level, with all that it calls, may take.
const LEVEL: usize = 1 << 20;
/// What is added when there is less left.
const MORE: usize = 8 << 20;

/// Does the work with enough stack for one more level.
pub(crate) fn enough<T>(work: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(LEVEL, MORE, work)
}
