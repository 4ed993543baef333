//! The plan of a read: one statement a partition.

use super::Definition;
use super::filters;
use super::split::{self, Condition};
use crate::jdbc::cell::Cell;
use crate::jdbc::database::{Column, Database};
use crate::jdbc::failure::Failure;
use crate::jdbc::names::quoted;
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::DataFusionError;
use datafusion::execution::TaskContext;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use datafusion::physical_plan::{ExecutionPlan, SendableRecordBatchStream};
use datafusion::prelude::Expr;
use futures::{StreamExt, TryStreamExt};
use onefold_types::{Error, Result};
use std::sync::Arc;

/// One partition.
#[derive(Debug)]
struct Part {
    database: Arc<dyn Database>,
    what: String,
    sql: String,
    values: Vec<Cell>,
    columns: Arc<Vec<Column>>,
    /// The columns that are read.
    read: SchemaRef,
    /// The columns that are wanted: none where only rows are counted.
    schema: SchemaRef,
    fetch: usize,
}

/// A plan that reads columns of the rows that filters let through, and maybe others; of a range only,
/// if it is given.
///
/// # Errors
/// Invalid: the rows cannot be cut as the options say.
pub(super) fn plan(
    definition: &Definition,
    projection: Option<&Vec<usize>>,
    filters: &[Expr],
    only: Option<Condition>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let dialect = definition.database.dialect();
    let internal = |error| Error::internal("a read has no plan").because(error);
    let wanted: Vec<usize> = match projection {
        Some(wanted) => wanted.clone(),
        None => (0..definition.columns.len()).collect(),
    };
    // A statement gives one column at least.
    let taken = if wanted.is_empty() { vec![0] } else { wanted.clone() };
    let columns: Vec<Column> =
        taken.iter().filter_map(|at| definition.columns.get(*at).cloned()).collect();
    let read = Arc::new(definition.schema.project(&taken).map_err(|e| internal(e.to_string()))?);
    let schema = Arc::new(definition.schema.project(&wanted).map_err(|e| internal(e.to_string()))?);
    let names: Vec<String> = columns
        .iter()
        .map(|column| {
            let name = quoted(dialect, &column.name);
            if column.by_text { format!("{} AS {name}", dialect.as_text(&name)) } else { name }
        })
        .collect();
    let select = format!("SELECT {} FROM {}", names.join(", "), definition.from);
    let mut checked = match definition.options.filters {
        true => filters::conditions(dialect, &definition.columns, filters),
        false => Vec::new(),
    };
    checked.extend(only);
    let columns = Arc::new(columns);
    let options = &definition.options;
    let parts: Vec<Condition> = if options.predicates.is_empty() {
        split::conditions(dialect, &definition.columns, options.split.as_ref())?
    } else {
        let given = options.predicates.iter();
        given.map(|text| Condition { text: format!("({text})"), values: Vec::new() }).collect()
    };
    let parts = parts.into_iter().map(|part| {
        let (sql, values) = statement(&select, &checked, part, |at| dialect.placeholder(at));
        let part = Part {
            database: Arc::clone(&definition.database),
            what: definition.what(),
            sql,
            values,
            columns: Arc::clone(&columns),
            read: Arc::clone(&read),
            schema: Arc::clone(&schema),
            fetch: definition.options.fetch,
        };
        Arc::new(part) as Arc<dyn PartitionStream>
    });
    let plan = StreamingTableExec::try_new(
        Arc::clone(&schema),
        parts.collect(),
        None,
        Vec::new(),
        false,
        None,
    );
    Ok(Arc::new(plan.map_err(|error| internal(error.to_string()))?))
}

/// A statement with its conditions, and its values in their order.
pub(super) fn statement(
    select: &str,
    checked: &[Condition],
    part: Condition,
    placeholder: impl Fn(usize) -> String,
) -> (String, Vec<Cell>) {
    let mut values = Vec::new();
    let mut texts = Vec::new();
    for condition in checked.iter().chain([&part]).filter(|it| !it.text.is_empty()) {
        if condition.values.is_empty() {
            texts.push(condition.text.clone());
            continue;
        }
        // A name may have a `?` as well: it stands within quotes.
        let mut text = String::new();
        let mut quote = None;
        let mut own = condition.values.iter();
        for c in condition.text.chars() {
            match (c, quote) {
                ('?', None) => {
                    values.extend(own.next().cloned());
                    text.push_str(&placeholder(values.len()));
                }
                ('"' | '`', None) => {
                    quote = Some(c);
                    text.push(c);
                }
                (c, Some(open)) if c == open => {
                    quote = None;
                    text.push(c);
                }
                (c, _) => text.push(c),
            }
        }
        texts.push(text);
    }
    match texts.is_empty() {
        true => (select.to_owned(), values),
        false => (format!("{select} WHERE {}", texts.join(" AND ")), values),
    }
}

impl PartitionStream for Part {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let (database, sql, values) =
            (Arc::clone(&self.database), self.sql.clone(), self.values.clone());
        let (columns, read) = (Arc::clone(&self.columns), Arc::clone(&self.read));
        let (fetch, what) = (self.fetch, self.what.clone());
        let counted = self.schema.fields().is_empty();
        let outer = move |failure: Failure| {
            let error = failure.nothing_done(format!("{what} was not read"));
            DataFusionError::External(Box::new(error))
        };
        let rows = async move {
            let session = database.connect().await?;
            Ok::<_, Failure>(session.read(sql, values, columns, read, fetch))
        };
        let rows = futures::stream::once(rows).try_flatten().map(move |batch| {
            let batch = batch.map_err(&outer)?;
            if counted {
                return batch.project(&[]).map_err(DataFusionError::from);
            }
            Ok::<RecordBatch, DataFusionError>(batch)
        });
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), rows))
    }
}
