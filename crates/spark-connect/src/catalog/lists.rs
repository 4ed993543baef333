//! What there is, as rows in the columns that Spark's clients look for.

use super::table_names;
use crate::client_session::ClientSession;
use crate::conf;
use crate::failure::{Failure, Outcome};
use crate::relation;
use arrow::array::{ArrayRef, BooleanArray, ListBuilder, StringArray, StringBuilder};
use arrow::datatypes::{DataType, Field, Schema};
use arrow::record_batch::RecordBatch;
use datafusion::logical_expr::LogicalPlan;
use onefold_plan::schema::type_name;
use std::sync::Arc;

pub(super) const CATALOG: &str = "spark_catalog";
pub(super) const DATABASE: &str = "default";

fn batch(fields: Vec<Field>, columns: Vec<ArrayRef>) -> Outcome<LogicalPlan> {
    let schema = Arc::new(Schema::new(fields));
    let batch = RecordBatch::try_new(Arc::clone(&schema), columns)
        .map_err(|error| Failure::invalid(error.to_string()))?;
    relation::of_batches(schema, vec![batch])
}

fn text(name: &str) -> Field {
    Field::new(name, DataType::Utf8, true)
}

fn flag(name: &str) -> Field {
    Field::new(name, DataType::Boolean, false)
}

pub(super) fn texts(name: &str, values: Vec<String>) -> Outcome<LogicalPlan> {
    batch(vec![text(name)], vec![Arc::new(StringArray::from(values))])
}

pub(super) fn one_text(value: &str) -> Outcome<LogicalPlan> {
    texts("value", vec![value.to_owned()])
}

pub(super) fn one_flag(value: bool) -> Outcome<LogicalPlan> {
    batch(vec![flag("value")], vec![Arc::new(BooleanArray::from(vec![value]))])
}

fn same(value: Option<&str>, count: usize) -> ArrayRef {
    Arc::new(std::iter::repeat_n(value, count).collect::<StringArray>())
}

/// A column of namespaces: `default` for what is kept.
fn namespaces(kept: &[bool]) -> (Field, ArrayRef) {
    let mut namespaces = ListBuilder::new(StringBuilder::new());
    for kept in kept {
        namespaces.append_option(kept.then_some([Some(DATABASE)]));
    }
    let element = Arc::new(Field::new("element", DataType::Utf8, true));
    let field = Field::new("namespace", DataType::List(Arc::clone(&element)), true);
    (field, Arc::new(namespaces.with_field(element).finish()))
}

/// The one catalog, or none.
pub(super) fn catalogs(there: bool) -> Outcome<LogicalPlan> {
    let count = usize::from(there);
    let columns = vec![same(Some(CATALOG), count), same(None, count)];
    batch(vec![text("name"), text("description")], columns)
}

/// The one database, or none.
pub(super) fn databases(session: &ClientSession, there: bool) -> Outcome<LogicalPlan> {
    let count = usize::from(there);
    let location = conf::value(&session.engine, "spark.sql.warehouse.dir");
    let columns = vec![
        same(Some(DATABASE), count),
        same(Some(CATALOG), count),
        same(Some("default database"), count),
        same(location.as_deref(), count),
    ];
    let fields = vec![text("name"), text("catalog"), text("description"), text("locationUri")];
    batch(fields, columns)
}

/// Views of the session and tables of the warehouse.
pub(super) fn tables(
    session: &ClientSession,
    wanted: impl Fn(&str) -> bool,
) -> Outcome<LogicalPlan> {
    let mut names = table_names(session);
    names.retain(|name| wanted(name));
    let kept = session.engine.warehouse_tables();
    let is_kept: Vec<bool> = names.iter().map(|name| kept.contains(name)).collect();
    let told = |yes: &'static str, no: Option<&'static str>| {
        let cells = is_kept.iter().map(|kept| if *kept { Some(yes) } else { no });
        Arc::new(cells.collect::<StringArray>()) as ArrayRef
    };
    let (namespace, namespaces) = namespaces(&is_kept);
    let columns: Vec<ArrayRef> = vec![
        Arc::new(StringArray::from(names.clone())),
        told(CATALOG, None),
        namespaces,
        same(None, names.len()),
        told("MANAGED", Some("TEMPORARY")),
        Arc::new(is_kept.iter().map(|kept| Some(!kept)).collect::<BooleanArray>()),
    ];
    let fields = vec![
        text("name"),
        text("catalog"),
        namespace,
        text("description"),
        text("tableType"),
        flag("isTemporary"),
    ];
    batch(fields, columns)
}

pub(super) fn functions(names: Vec<String>) -> Outcome<LogicalPlan> {
    let count = names.len();
    let (namespace, namespaces) = namespaces(&vec![false; count]);
    let columns: Vec<ArrayRef> = vec![
        Arc::new(StringArray::from(names)),
        same(None, count),
        namespaces,
        same(None, count),
        same(Some(""), count),
        Arc::new(BooleanArray::from(vec![true; count])),
    ];
    let fields = vec![
        text("name"),
        text("catalog"),
        namespace,
        text("description"),
        text("className"),
        flag("isTemporary"),
    ];
    batch(fields, columns)
}

/// The columns of a table or view.
pub(super) fn columns(session: &ClientSession, name: &str) -> Outcome<LogicalPlan> {
    let frame = session.engine.table_by(relation::table_reference(name)?)?;
    let schema = frame.schema();
    let definition = session.engine.table_definition(name)?.unwrap_or_default();
    let fields = schema.fields();
    let among = |columns: &[String]| -> ArrayRef {
        let there = fields.iter().map(|it| Some(columns.iter().any(|own| own == it.name())));
        Arc::new(there.collect::<BooleanArray>())
    };
    let kinds = fields.iter().map(|it| type_name(it.data_type()).to_lowercase());
    let columns: Vec<ArrayRef> = vec![
        Arc::new(StringArray::from_iter_values(fields.iter().map(|it| it.name()))),
        same(None, fields.len()),
        Arc::new(StringArray::from_iter_values(kinds)),
        Arc::new(fields.iter().map(|it| Some(it.is_nullable())).collect::<BooleanArray>()),
        among(&definition.partition_by),
        among(&[]),
        among(&definition.cluster_by),
    ];
    let fields = vec![
        text("name"),
        text("description"),
        text("dataType"),
        flag("nullable"),
        flag("isPartition"),
        flag("isBucket"),
        flag("isCluster"),
    ];
    batch(fields, columns)
}
