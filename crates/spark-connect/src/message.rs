//! Messages out of bytes that anyone may have sent.
//!
//! Plans nest, so decoding one calls itself, and so does everything that walks it afterwards: a
//! message that is nested a million times deep must be refused before it is a tree. That takes two
//! steps. A walk over the bytes, which keeps its own list of open fields, finds how deep a whole
//! message is; and because a damaged one can nest deeper than it says, decoding stops when it used
//! more stack than any message of the allowed depth does.

mod depth;

use crate::failure::Failure;
use prost::Message;
use prost::bytes::{Buf, Bytes};
use std::cell::Cell;
use std::marker::PhantomData;
use tonic::Status;
use tonic::codec::{DecodeBuf, Decoder};
use tonic_prost::ProstEncoder;

/// Deepest nesting of a message, as in Spark's server. A relation takes two levels.
const DEPTH_MAX: usize = 1_024;
/// What decoding a message may take of the stack: enough for [`DEPTH_MAX`] in any build.
const STACK_MAX: usize = 12 << 20;
/// Longest text of what is wrong in a damaged message, in bytes.
const TEXT_MAX: usize = 400;
/// The stack that decoding gets if the thread has less left.
const STACK: usize = STACK_MAX + (2 << 20);

/// A message.
///
/// # Errors
/// The bytes are no such message, or it is nested too deeply.
pub(crate) fn decode<M: Message + Default>(bytes: Bytes) -> Result<M, Failure> {
    if depth::is_deeper(&bytes, DEPTH_MAX) {
        return Err(too_deep());
    }
    stacker::maybe_grow(STACK, STACK, || {
        let mut guarded = Guarded { bytes, start: here(), tripped: Cell::new(false) };
        let decoded = M::decode(&mut guarded);
        if guarded.tripped.get() {
            return Err(too_deep());
        }
        decoded.map_err(|error| {
            // It names each field around the place: the innermost ones say most.
            let text = error.to_string();
            let start = text.len().saturating_sub(TEXT_MAX);
            let end = (start..text.len()).find_map(|place| text.get(place..)).unwrap_or_default();
            Failure::invalid(format!("the request is damaged: {end}"))
        })
    })
}

fn too_deep() -> Failure {
    Failure::invalid(format!(
        "the request is nested deeper than {DEPTH_MAX} levels of messages; split the plan with \
         temporary views"
    ))
}

/// About where the stack is now.
#[inline(never)]
fn here() -> usize {
    let marker = 0_u8;
    std::hint::black_box(&raw const marker).addr()
}

/// Bytes that end early when the reader went too deep into its own calls.
struct Guarded {
    bytes: Bytes,
    start: usize,
    tripped: Cell<bool>,
}

impl Buf for Guarded {
    fn remaining(&self) -> usize {
        if self.tripped.get() { 0 } else { self.bytes.len() }
    }

    /// Each level of a message reads its length first, and so comes by here.
    fn chunk(&self) -> &[u8] {
        if self.start.abs_diff(here()) > STACK_MAX {
            self.tripped.set(true);
        }
        if self.tripped.get() { &[] } else { &self.bytes }
    }

    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
    }

    // What was seen to be there is there: these do not look at the stack.

    fn get_u8(&mut self) -> u8 {
        self.bytes.get_u8()
    }

    fn copy_to_slice(&mut self, slice: &mut [u8]) {
        self.bytes.copy_to_slice(slice);
    }

    fn copy_to_bytes(&mut self, count: usize) -> Bytes {
        self.bytes.copy_to_bytes(count)
    }
}

/// How messages of calls become bytes and back.
#[derive(Debug, Clone)]
pub(crate) struct Codec<T, U>(PhantomData<(T, U)>);

impl<T, U> Default for Codec<T, U> {
    fn default() -> Self {
        Codec(PhantomData)
    }
}

impl<T, U> tonic::codec::Codec for Codec<T, U>
where
    T: Message + Send + 'static,
    U: Message + Default + Send + 'static,
{
    type Encode = T;
    type Decode = U;
    type Encoder = ProstEncoder<T>;
    type Decoder = Careful<U>;

    fn encoder(&mut self) -> ProstEncoder<T> {
        ProstEncoder::default()
    }

    fn decoder(&mut self) -> Careful<U> {
        Careful(PhantomData)
    }
}

/// Decodes what a client sent.
#[derive(Debug, Clone)]
pub(crate) struct Careful<U>(PhantomData<U>);

impl<U: Message + Default> Decoder for Careful<U> {
    type Item = U;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<U>, Status> {
        let bytes = buffer.copy_to_bytes(buffer.remaining());
        decode(bytes).map(Some).map_err(|failure| failure.into_status(None))
    }
}

#[cfg(test)]
mod tests;
