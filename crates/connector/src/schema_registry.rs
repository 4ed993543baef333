//! Registries of schemas, as functions on data in a binary form see them.

use onefold_types::Result;
use std::fmt::Debug;
use std::sync::Arc;

/// A schema that a registry holds. Under its id it never changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegisteredSchema {
    /// Its id, which stands before data that was written with it.
    pub id: u32,
    /// The schema itself.
    pub content: SchemaContent,
}

/// A schema in the form of its kind, with all that it refers to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SchemaContent {
    /// Avro's, as JSON.
    Avro(String),
    /// A descriptor set of Protocol Buffers.
    Protobuf {
        /// The set, as `protoc --include_imports --descriptor_set_out` writes it.
        set: Vec<u8>,
        /// The full name of the first message of the schema's own file.
        first: String,
    },
}

/// Asks registries of schemas. Calls block.
///
/// An address is that of the session's setting where none is given; credentials go to that one only.
pub trait SchemaRegistry: Debug + Send + Sync {
    /// The newest schema of a subject.
    ///
    /// # Errors
    /// Invalid: no address, no such subject, or it does not let us ask. Unavailable: no answer.
    fn newest(&self, address: Option<&str>, subject: &str) -> Result<Arc<RegisteredSchema>>;

    /// The schema of an id; `None` when the registry has none.
    ///
    /// # Errors
    /// As [`SchemaRegistry::newest`].
    fn by_id(&self, address: Option<&str>, id: u32) -> Result<Option<Arc<RegisteredSchema>>>;

    /// The id of an Avro schema in a subject, where it is put if asked for; `None` where it is not.
    ///
    /// # Errors
    /// As [`SchemaRegistry::newest`]; Invalid, when the subject takes no such schema.
    fn id_of(
        &self,
        address: Option<&str>,
        subject: &str,
        schema: &str,
        register: bool,
    ) -> Result<Option<u32>>;
}

/// Gives the value of a setting of a session as it is now.
pub type Settings = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;
