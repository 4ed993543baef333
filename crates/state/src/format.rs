//! The bytes of a state file; `docs/state.md` describes them.
//!
//! A file is a header, blocks of rows, an index and a footer. Rows of one block belong to one
//! family of one operator and are sorted by key group and key, as are the blocks of a family. Every
//! block has a checksum in the index, the index has one in the footer and another in the
//! [`StateRef`](crate::StateRef) that names the file, so that every byte read is checked.

mod block;
mod bytes;
mod index;
mod writer;

pub(crate) use block::{BlockBuilder, BlockRows, EncodedBlock};
pub(crate) use bytes::{Input, number_length, put_number};
pub(crate) use index::{BlockEntry, FOOTER_LENGTH, Footer, Index, OperatorEntry};
pub(crate) use writer::{FileWriter, Finished};

/// First bytes of a file; the last one is the version of the format.
pub(crate) const HEADER: [u8; 8] = *b"OFSTATE\x01";

/// Last bytes of a file.
pub(crate) const TRAILER: [u8; 8] = *b"OFSTEND\x01";
