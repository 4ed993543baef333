//! Random functions whose values can be made again.
//!
//! The generator is Spark's: a xorshift whose seed is hashed with MurmurHash3, one for each
//! partition with the seed `seed + partition`, so that `rand(42)` gives Spark's own numbers.
//! A call without a seed takes one from (query, batch, node, call).

use arrow::array::{ArrayRef, Float64Array, StringArray};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};
use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

/// Which values a function gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum RandomKind {
    /// Doubles in `0..1`.
    Uniform,
    /// Doubles of the normal distribution.
    Normal,
    /// UUIDs of version 4 as text.
    Uuid,
}

impl RandomKind {
    /// The kind of a function by its name in lower case.
    pub(crate) fn of(name: &str) -> Option<Self> {
        match name {
            "rand" | "random" => Some(RandomKind::Uniform),
            "randn" => Some(RandomKind::Normal),
            "uuid" => Some(RandomKind::Uuid),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            RandomKind::Uniform => "rand",
            RandomKind::Normal => "randn",
            RandomKind::Uuid => "uuid",
        }
    }
}

/// One random function: as it is registered, or one call of it in a streaming plan.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct RandomFunction {
    kind: RandomKind,
    /// The number of the call; `None` outside streaming plans.
    site: Option<u32>,
    seed: Option<i64>,
    signature: Signature,
}

impl RandomFunction {
    /// The function as users call it.
    pub(crate) fn registered(kind: RandomKind) -> Self {
        let signature = Signature::one_of(
            vec![
                datafusion::logical_expr::TypeSignature::Nullary,
                datafusion::logical_expr::TypeSignature::Any(1),
            ],
            Volatility::Volatile,
        );
        RandomFunction { kind, site: None, seed: None, signature }
    }

    /// One call in a streaming plan.
    pub(super) fn site(kind: RandomKind, site: u32, seed: Option<i64>) -> Self {
        let signature = Signature::nullary(Volatility::Volatile);
        RandomFunction { kind, site: Some(site), seed, signature }
    }

    fn values(&self, generator: &mut Generator, rows: usize) -> ArrayRef {
        match self.kind {
            RandomKind::Uniform => {
                Arc::new(Float64Array::from_iter_values((0..rows).map(|_| generator.uniform())))
            }
            RandomKind::Normal => {
                Arc::new(Float64Array::from_iter_values((0..rows).map(|_| generator.normal())))
            }
            RandomKind::Uuid => {
                Arc::new(StringArray::from_iter_values((0..rows).map(|_| generator.uuid())))
            }
        }
    }
}

impl ScalarUDFImpl for RandomFunction {
    fn name(&self) -> &str {
        self.kind.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arguments: &[DataType]) -> Result<DataType> {
        Ok(match self.kind {
            RandomKind::Uniform | RandomKind::Normal => DataType::Float64,
            RandomKind::Uuid => DataType::Utf8,
        })
    }

    fn return_field_from_args(&self, _arguments: ReturnFieldArgs) -> Result<FieldRef> {
        Ok(Arc::new(Field::new(self.name(), self.return_type(&[])?, false)))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = arguments.number_rows;
        let values = match self.site {
            Some(site) => FRAME.with_borrow_mut(|frame| {
                let frame = frame.as_mut().ok_or_else(|| {
                    DataFusionError::Internal(format!(
                        "{} is evaluated by an operator that does not seed it",
                        self.name()
                    ))
                })?;
                Ok::<_, DataFusionError>(self.values(frame.generator(site, self.seed), rows))
            })?,
            None => {
                let seed = match arguments.args.first() {
                    None => i64::from_ne_bytes(RandomState::new().hash_one(rows).to_ne_bytes()),
                    Some(ColumnarValue::Scalar(seed)) => match seed.cast_to(&DataType::Int64)? {
                        datafusion::common::ScalarValue::Int64(seed) => seed.unwrap_or(0),
                        _ => 0,
                    },
                    Some(ColumnarValue::Array(_)) => {
                        return Err(DataFusionError::Plan(format!(
                            "the seed of {} must be a literal number",
                            self.name()
                        )));
                    }
                };
                self.values(&mut Generator::new(seed), rows)
            }
        };
        Ok(ColumnarValue::Array(values))
    }
}

/// The random values of one node and partition while it is polled.
#[derive(Debug)]
pub(super) struct Frame {
    seed: u64,
    partition: usize,
    generators: HashMap<u32, Generator>,
}

thread_local! {
    static FRAME: RefCell<Option<Frame>> = const { RefCell::new(None) };
}

impl Frame {
    pub(super) fn new(seed: u64, partition: usize) -> Self {
        Frame { seed, partition, generators: HashMap::new() }
    }

    fn generator(&mut self, site: u32, seed: Option<i64>) -> &mut Generator {
        let own = mix(self.seed, u64::from(site));
        let partition = i64::try_from(self.partition).unwrap_or(i64::MAX);
        self.generators.entry(site).or_insert_with(|| {
            let seed = seed.unwrap_or_else(|| i64::from_ne_bytes(own.to_ne_bytes()));
            Generator::new(seed.wrapping_add(partition))
        })
    }
}

/// Runs a step with this frame as the current one, and puts the one before back.
pub(super) fn with_frame<T>(frame: &mut Option<Frame>, step: impl FnOnce() -> T) -> T {
    struct Restore<'a>(&'a mut Option<Frame>);
    impl Drop for Restore<'_> {
        fn drop(&mut self) {
            FRAME.with_borrow_mut(|current| std::mem::swap(current, self.0));
        }
    }
    FRAME.with_borrow_mut(|current| std::mem::swap(current, frame));
    let _restore = Restore(frame);
    step()
}

/// Mixes two numbers into one (the finaliser of SplitMix64).
pub(super) fn mix(left: u64, right: u64) -> u64 {
    let mut mixed = left.rotate_left(32) ^ right.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Spark's `XORShiftRandom`, with the methods of `java.util.Random` on top of it.
#[derive(Debug)]
struct Generator {
    state: i64,
    next_normal: Option<f64>,
}

impl Generator {
    fn new(seed: i64) -> Self {
        // MurmurHash3.arraySeed of Scala's library.
        let low = murmur3(seed.to_be_bytes(), 0x3c07_4a61);
        let high = murmur3(seed.to_be_bytes(), low);
        let state = (u64::from(high) << 32) | u64::from(low);
        Generator { state: i64::from_ne_bytes(state.to_ne_bytes()), next_normal: None }
    }

    /// The low `bits` of the next state.
    fn next(&mut self, bits: u32) -> u64 {
        let mut next = self.state ^ (self.state << 21);
        let shifted = u64::from_ne_bytes(next.to_ne_bytes()) >> 35;
        next ^= i64::from_ne_bytes(shifted.to_ne_bytes());
        next ^= next << 4;
        self.state = next;
        u64::from_ne_bytes(next.to_ne_bytes()) & ((1 << bits) - 1)
    }

    fn uniform(&mut self) -> f64 {
        let high = self.next(26) << 27;
        let value = high + self.next(27);
        // Below 2^53, so the conversion is exact.
        let value = value as f64;
        value / 9_007_199_254_740_992.0
    }

    /// The polar method of Marsaglia, as in `java.util.Random.nextGaussian`.
    fn normal(&mut self) -> f64 {
        if let Some(value) = self.next_normal.take() {
            return value;
        }
        loop {
            let first = 2.0 * self.uniform() - 1.0;
            let second = 2.0 * self.uniform() - 1.0;
            let square = first * first + second * second;
            if square < 1.0 && square != 0.0 {
                let factor = (-2.0 * square.ln() / square).sqrt();
                self.next_normal = Some(second * factor);
                return first * factor;
            }
        }
    }

    fn uuid(&mut self) -> String {
        let mut word = || (self.next(32) << 32) | self.next(32);
        let high = (word() & 0xffff_ffff_ffff_0fff) | 0x4000;
        let low = (word() & 0x3fff_ffff_ffff_ffff) | 0x8000_0000_0000_0000;
        format!(
            "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
            high >> 32,
            (high >> 16) & 0xffff,
            high & 0xffff,
            low >> 48,
            low & 0xffff_ffff_ffff
        )
    }
}

/// MurmurHash3 (x86, 32 bits) of eight bytes.
fn murmur3(bytes: [u8; 8], seed: u32) -> u32 {
    let [a, b, c, d, e, f, g, h] = bytes;
    let mut hash = seed;
    for block in [u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h])] {
        let block = block.wrapping_mul(0xcc9e_2d51).rotate_left(15).wrapping_mul(0x1b87_3593);
        hash = (hash ^ block).rotate_left(13).wrapping_mul(5).wrapping_add(0xe654_6b64);
    }
    hash ^= 8;
    hash = (hash ^ (hash >> 16)).wrapping_mul(0x85eb_ca6b);
    hash = (hash ^ (hash >> 13)).wrapping_mul(0xc2b2_ae35);
    hash ^ (hash >> 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeded_values_are_sparks_own() {
        assert_eq!(Generator::new(0).uniform(), 0.760_495_375_828_591_5);
        assert_eq!(Generator::new(0).normal(), 1.603_499_160_927_843_3);
    }

    #[test]
    fn uuids_are_of_version_four() {
        let mut generator = Generator::new(7);
        let (first, second) = (generator.uuid(), generator.uuid());
        assert_ne!(first, second);
        assert_eq!(first.len(), 36);
        assert_eq!(&first[14..15], "4");
        assert!("89ab".contains(&first[19..20]));
    }

    #[test]
    fn frames_nest_and_come_back() {
        let mut outer = Some(Frame::new(1, 0));
        let mut inner = Some(Frame::new(2, 1));
        with_frame(&mut outer, || {
            with_frame(&mut inner, || {
                FRAME.with_borrow(|frame| assert_eq!(frame.as_ref().unwrap().seed, 2));
            });
            FRAME.with_borrow(|frame| assert_eq!(frame.as_ref().unwrap().seed, 1));
        });
        FRAME.with_borrow(|frame| assert!(frame.is_none()));
        assert_eq!(inner.unwrap().partition, 1);
    }
}
