//! What an operator declares of its state.

use arrow::datatypes::SchemaRef;

/// Number of a stateful operator in its query, parent first as in Spark: the operator nearest to
/// the sink is 0.
pub type OperatorId = u32;

/// How a family is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// By key, or all rows in any order.
    Point,
    /// By key, and in key order within a key group.
    Ordered,
}

/// One family of rows of an operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FamilySpec {
    /// Its name, unique in the operator; Spark's store or column family name where there is one.
    pub name: String,
    /// The columns that its keys encode, in the order of the encoding.
    pub key: SchemaRef,
    /// The columns that its values encode.
    pub value: SchemaRef,
    /// How it is read.
    pub access: Access,
    /// Whether its rows count as rows of state (`numRowsTotal`); indexes and counters do not.
    pub counted: bool,
}

/// The state of one operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperatorSpec {
    /// Its number in the query.
    pub id: OperatorId,
    /// Spark's name for its kind: `stateStoreSave`, `dedupe`, `symmetricHashJoin` …
    pub kind: String,
    /// A name that stays when the query changes elsewhere: given by the user, or made from the
    /// operator's meaning.
    pub label: String,
    /// Its families; a family is addressed by its place here.
    pub families: Vec<FamilySpec>,
    /// Whether all rows live in one key group, as for a global aggregate or limit.
    pub single: bool,
}
