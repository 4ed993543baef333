//! How the operators of a version encode their rows, as a file of the checkpoint.
//!
//! The file's name is the hash of its bytes. Nullability and metadata of columns are no part of it:
//! neither changes the bytes of a row, and both may depend on what a source happened to hold.

mod compare;
mod convert;

use crate::state_ref::{Hash, schema_path};
use crate::{Access, FamilySpec, OperatorSpec};
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use onefold_storage::Store;
use onefold_types::{Error, Result};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_128;

pub use compare::{Change, OperatorChange, compare};
pub(crate) use convert::{Codec, Convert};

/// Version of the schema file.
const FORMAT: u32 = 1;

#[derive(Debug, Serialize, Deserialize)]
struct SchemaFile {
    format: u32,
    operators: Vec<OperatorText>,
}

#[derive(Debug, Serialize, Deserialize)]
struct OperatorText {
    id: u32,
    kind: String,
    label: String,
    single: bool,
    families: Vec<FamilyText>,
}

#[derive(Debug, Serialize, Deserialize)]
struct FamilyText {
    name: String,
    ordered: bool,
    counted: bool,
    key: Columns,
    value: Columns,
}

/// Columns: as text for people, and as Arrow's own encoding of a schema for the program.
#[derive(Debug, Serialize, Deserialize)]
struct Columns {
    columns: Vec<String>,
    arrow: String,
}

/// A schema file's bytes and their hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StateSchema {
    pub(crate) bytes: Bytes,
    pub(crate) hash: Hash,
}

impl StateSchema {
    pub(crate) fn of(operators: &[OperatorSpec]) -> Result<Self> {
        let file = SchemaFile {
            format: FORMAT,
            operators: operators.iter().map(OperatorText::of).collect(),
        };
        let bytes = serde_json::to_vec(&file).map_err(|error| {
            Error::internal("the schema of the state cannot be written as JSON").because(error)
        })?;
        let hash = Hash(xxh3_128(&bytes));
        Ok(StateSchema { bytes: bytes.into(), hash })
    }
}

/// A name for what these operators keep and how, 32 hexadecimal digits: that of their schema file.
///
/// # Errors
/// Internal only.
pub fn layout_name(operators: &[OperatorSpec]) -> Result<String> {
    Ok(StateSchema::of(operators)?.hash.to_string())
}

/// Reads the schema file with this hash.
///
/// # Errors
/// Corrupt, when it is missing, damaged, or of a newer version.
pub(crate) async fn read_schema(store: &dyn Store, hash: Hash) -> Result<Vec<OperatorSpec>> {
    let path = schema_path(hash);
    let wrong = |what: &str| {
        let url = store.url();
        Error::corrupt(format!("state schema {url}/{path} {what}; put it back from a copy"))
    };
    let bytes = store.read(&path).await?.ok_or_else(|| wrong("is missing"))?;
    if xxh3_128(&bytes) != hash.0 {
        return Err(wrong("is damaged"));
    }
    let file: SchemaFile =
        serde_json::from_slice(&bytes).map_err(|error| wrong("cannot be read").because(error))?;
    if file.format != FORMAT {
        return Err(wrong("is of a newer version of Onefold"));
    }
    let specs = file.operators.into_iter().map(OperatorText::spec).collect::<Option<_>>();
    specs.ok_or_else(|| wrong("holds columns that cannot be read"))
}

impl OperatorText {
    fn of(spec: &OperatorSpec) -> Self {
        OperatorText {
            id: spec.id,
            kind: spec.kind.clone(),
            label: spec.label.clone(),
            single: spec.single,
            families: spec.families.iter().map(FamilyText::of).collect(),
        }
    }

    fn spec(self) -> Option<OperatorSpec> {
        let OperatorText { id, kind, label, single, families } = self;
        let families = families.into_iter().map(FamilyText::spec).collect::<Option<_>>()?;
        Some(OperatorSpec { id, kind, label, families, single })
    }
}

impl FamilyText {
    fn of(spec: &FamilySpec) -> Self {
        FamilyText {
            name: spec.name.clone(),
            ordered: spec.access == Access::Ordered,
            counted: spec.counted,
            key: Columns::of(&spec.key),
            value: Columns::of(&spec.value),
        }
    }

    fn spec(self) -> Option<FamilySpec> {
        let FamilyText { name, ordered, counted, key, value } = self;
        let access = if ordered { Access::Ordered } else { Access::Point };
        Some(FamilySpec { name, key: key.schema()?, value: value.schema()?, access, counted })
    }
}

impl Columns {
    fn of(schema: &Schema) -> Self {
        let fields: Vec<FieldRef> = schema.fields().iter().map(plain_field).collect();
        let text = |field: &FieldRef| format!("{} {}", field.name(), field.data_type());
        let columns = fields.iter().map(text).collect();
        let mut encoder = arrow::ipc::convert::IpcSchemaEncoder::new();
        let encoded = encoder.schema_to_fb(&Schema::new(fields));
        Columns { columns, arrow: BASE64.encode(encoded.finished_data()) }
    }

    fn schema(&self) -> Option<SchemaRef> {
        let bytes = BASE64.decode(&self.arrow).ok()?;
        let encoded = arrow::ipc::root_as_schema(&bytes).ok()?;
        Some(Arc::new(arrow::ipc::convert::fb_to_schema(encoded)))
    }
}

/// The field without what does not change the bytes of a row.
fn plain_field(field: &FieldRef) -> FieldRef {
    Arc::new(Field::new(field.name(), plain_type(field.data_type()), true))
}

/// The type without nullability, metadata, and names that Arrow leaves to whoever makes the type.
pub(crate) fn plain_type(data_type: &DataType) -> DataType {
    let item = |field: &FieldRef| Arc::new(Field::new("item", plain_type(field.data_type()), true));
    match data_type {
        DataType::List(field) => DataType::List(item(field)),
        DataType::LargeList(field) => DataType::LargeList(item(field)),
        DataType::FixedSizeList(field, length) => DataType::FixedSizeList(item(field), *length),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(plain_field).collect()),
        DataType::Map(entries, sorted) => DataType::Map(plain_entries(entries), *sorted),
        other => other.clone(),
    }
}

/// A map's entries under Arrow's usual names. Keys of maps are never null and stay so.
fn plain_entries(entries: &FieldRef) -> FieldRef {
    let DataType::Struct(fields) = entries.data_type() else { return Arc::clone(entries) };
    let names = ["keys", "values"].into_iter().enumerate();
    let fields = names.zip(fields).map(|((index, name), field)| {
        Arc::new(Field::new(name, plain_type(field.data_type()), index > 0))
    });
    Arc::new(Field::new("entries", DataType::Struct(fields.collect()), false))
}

#[cfg(test)]
mod tests {
    use super::{StateSchema, plain_type, read_schema};
    use crate::{Access, FamilySpec, OperatorSpec};
    use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
    use onefold_storage::{Durability, Store};
    use onefold_testkit::MemoryStore;
    use std::sync::Arc;

    fn spec(nullable: bool) -> OperatorSpec {
        let stamp = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
        let window = DataType::Struct(vec![Field::new("start", stamp, nullable)].into());
        let list = DataType::List(Arc::new(Field::new("element", DataType::Int64, nullable)));
        let family = FamilySpec {
            name: "default".into(),
            key: Arc::new(Schema::new(vec![Field::new("window", window, nullable)])),
            value: Arc::new(Schema::new(vec![Field::new("items", list, nullable)])),
            access: Access::Ordered,
            counted: true,
        };
        let (kind, label) = ("stateStoreSave".into(), "count".into());
        OperatorSpec { id: 0, kind, label, families: vec![family], single: false }
    }

    #[tokio::test]
    async fn a_schema_comes_back_and_does_not_depend_on_nullability() {
        let schema = StateSchema::of(&[spec(false)]).unwrap();
        assert_eq!(schema, StateSchema::of(&[spec(true)]).unwrap());
        let store = MemoryStore::default();
        let path = super::schema_path(schema.hash);
        store.create(&path, schema.bytes.clone(), Durability::Now).await.unwrap();
        let read = read_schema(&store, schema.hash).await.unwrap();
        let (read, written) = (&read[0].families[0], &spec(true).families[0]);
        assert_eq!(read.key.field(0), written.key.field(0));
        let types = |schema: &Schema| plain_type(schema.field(0).data_type());
        assert_eq!(types(&read.value), types(&written.value));
    }

    #[tokio::test]
    async fn a_damaged_or_missing_schema_is_named() {
        let schema = StateSchema::of(&[spec(false)]).unwrap();
        let store = MemoryStore::default();
        let path = super::schema_path(schema.hash);
        let missing = read_schema(&store, schema.hash).await.unwrap_err().to_string();
        assert!(missing.contains(&path) && missing.contains("missing"), "{missing}");
        store.create(&path, schema.bytes.slice(1..), Durability::Now).await.unwrap();
        let damaged = read_schema(&store, schema.hash).await.unwrap_err().to_string();
        assert!(damaged.contains("damaged"), "{damaged}");
    }
}
