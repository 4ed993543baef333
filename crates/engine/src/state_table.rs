//! The state in a checkpoint as a table: `format("statestore")` and `format("state-metadata")`, with
//! Spark's options and columns.

mod variables;

use crate::checkpoint_tools::{Contents, Depth, OperatorState, open_state, state_overview};
use crate::fault::from_datafusion;
use crate::session::{Session, SessionInner};
use arrow::array::{ArrayRef, Int32Array, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::streaming::StreamingTable;
use datafusion::catalog::{MemTable, SchemaProvider, TableProvider};
use datafusion::error::{DataFusionError, Result as PlanResult};
use datafusion::execution::TaskContext;
use datafusion::physical_plan::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::PartitionStream;
use futures::{StreamExt, TryStreamExt, stream};
use onefold_connector::{OptionKind, OptionSpec, Options};
use onefold_state::{StateReader, StateRows};
use onefold_storage::Store;
use onefold_types::{BatchId, Error, OptionMap, Result};
use serde_json::json;
use std::fmt;
use std::sync::{Arc, Weak};
use variables::{Shape, Variable};

const BATCHES: OptionKind = OptionKind::Count { min: 0, max: i64::MAX as u64 };

static STATE_OPTIONS: &[OptionSpec] = &[
    OptionSpec::new("path", OptionKind::Text, "the checkpoint"),
    OptionSpec::new("batchId", BATCHES, "state as this batch left it; default the newest commit"),
    OptionSpec::new("operatorId", BATCHES, "the operator's number").default("0"),
    OptionSpec::new("storeName", OptionKind::Text, "the family of rows"),
    OptionSpec::new("stateVarName", OptionKind::Text, "a variable of one's own: its family"),
    OptionSpec::new("joinSide", OptionKind::Text, "left or right: rows that a join keeps"),
    OptionSpec::new("readChangeFeed", OptionKind::Bool, "what batches changed").default("false"),
    OptionSpec::new("changeStartBatchId", BATCHES, "the first of these batches"),
    OptionSpec::new(
        "flattenCollectionTypes",
        OptionKind::Bool,
        "a row for each element of lists and maps",
    )
    .default("true"),
    OptionSpec::new("snapshotPartitionId", BATCHES, "this partition only"),
    OptionSpec::new("snapshotStartBatchId", BATCHES, "goes with it; no other state comes of it"),
    OptionSpec::new("changeEndBatchId", BATCHES, "the last of them; default the newest commit"),
];

static STATE_TABLE: &[&[OptionSpec]] = &[STATE_OPTIONS];

/// Which of the two tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StateFormat {
    Rows,
    Metadata,
}

impl StateFormat {
    /// By the name of a format.
    pub(crate) fn of(format: &str) -> Option<Self> {
        match format.to_lowercase().as_str() {
            "statestore" => Some(StateFormat::Rows),
            "state-metadata" => Some(StateFormat::Metadata),
            _ => None,
        }
    }
}

/// The table, as the checkpoint stands now.
///
/// # Errors
/// Invalid: an option, or what the checkpoint does not hold; as opening and reading the checkpoint.
pub(crate) async fn table(
    session: &Session,
    format: StateFormat,
    mut options: OptionMap,
    mut paths: Vec<String>,
) -> Result<Arc<dyn TableProvider>> {
    paths.extend(options.remove("path"));
    let [path] = paths.as_slice() else {
        return Err(Error::invalid("state is read from one checkpoint: give one path"));
    };
    let store = (session.inner.stores)(path.clone(), session.inner.conf.all()).await?;
    let contents = Contents::gather(store.as_ref(), Depth::All).await?;
    let what = match format {
        StateFormat::Rows => "source `statestore`",
        StateFormat::Metadata => "source `state-metadata`",
    };
    let options = Options::check(what, STATE_TABLE, options)?;
    match format {
        StateFormat::Rows => rows(&store, &contents, &options).await,
        StateFormat::Metadata => metadata(&store, &contents, &options).await,
    }
}

async fn rows(
    store: &Arc<dyn Store>,
    contents: &Contents,
    options: &Options,
) -> Result<Arc<dyn TableProvider>> {
    let feed = options.flag("readChangeFeed");
    let changes = ["changeStartBatchId", "changeEndBatchId"].iter().any(|it| options.given(it));
    if changes != feed || (feed && !options.given("changeStartBatchId")) {
        return Err(Error::invalid(
            "readChangeFeed and changeStartBatchId go together: give both, and changeEndBatchId \
             if need be",
        ));
    }
    let batch = options.count("batchId").map(BatchId);
    let version = batch.filter(|_| !feed).map(|batch| batch.next().0);
    let newest = open_state(store, contents, version).await?;
    let (operator, family) = chosen(&newest, options)?;
    let shape = shape(&newest, operator, family, options, feed)?;
    let parts = if feed {
        let last = BatchId(newest.version().saturating_sub(1));
        let from = options.count("changeStartBatchId").unwrap_or_default();
        let to = options.count("changeEndBatchId").unwrap_or(last.0);
        if from > to || to > last.0 {
            return Err(Error::invalid(format!(
                "changes of batches {from} to {to} were asked for; the newest batch is {last}"
            )));
        }
        let mut parts = Vec::new();
        for batch in from..=to {
            // Its own version tells the batch's changes apart from others'.
            let reader = open_state(store, contents, Some(batch + 1)).await?;
            let (reader, changes) = (Arc::new(reader), Some(BatchId(batch)));
            parts.push(Part { reader, operator, family, changes });
        }
        parts
    } else {
        vec![Part { reader: Arc::new(newest), operator, family, changes: None }]
    };
    let Some(first) = parts.first() else { return Err(Error::internal("no part of state")) };
    let schema = shape.schema(&first.rows()?.schema())?;
    let parts = parts.into_iter().map(|part| {
        Arc::new(PartRows { part, shape, schema: Arc::clone(&schema) }) as Arc<dyn PartitionStream>
    });
    let table = StreamingTable::try_new(Arc::clone(&schema), parts.collect());
    shape.together(Arc::new(table.map_err(from_datafusion)?))
}

/// How the family is shown.
fn shape(
    reader: &StateReader,
    operator: u32,
    family: usize,
    options: &Options,
    feed: bool,
) -> Result<Shape> {
    let operator = reader.operators().iter().find(|spec| spec.id == operator);
    let named = operator.and_then(|spec| Some((spec, spec.families.get(family)?)));
    let variable = named.and_then(|(spec, family)| Variable::of(spec, family));
    let flat = options.flag("flattenCollectionTypes");
    if feed && !flat {
        return Err(Error::invalid(
            "readChangeFeed shows each element that changed; leave flattenCollectionTypes away",
        ));
    }
    let one = options.count("snapshotPartitionId");
    // State is the same from whichever snapshot it is read.
    if one.is_some() != options.given("snapshotStartBatchId") || (one.is_some() && feed) {
        return Err(Error::invalid(
            "snapshotPartitionId and snapshotStartBatchId go together, and without readChangeFeed",
        ));
    }
    let partition = one.map(|one| i32::try_from(one).unwrap_or(i32::MAX));
    let flat = flat || matches!(variable, None | Some(Variable::Value));
    Ok(Shape { variable, flat, partition })
}

/// The operator and family that were asked for.
fn chosen(reader: &StateReader, options: &Options) -> Result<(u32, usize)> {
    let operators = reader.operators();
    let wanted = options.count("operatorId").unwrap_or_default();
    let spec = operators.iter().find(|spec| u64::from(spec.id) == wanted).ok_or_else(|| {
        let all: Vec<String> =
            operators.iter().map(|spec| format!("{} ({})", spec.id, spec.label)).collect();
        Error::invalid(format!("there is no operator {wanted}; there are {}", all.join(", ")))
    })?;
    let side = options.text("joinSide").map(|side| format!("{side}-keyWithIndexToValue"));
    let name = side.as_deref().or(options.text("stateVarName")).or(options.text("storeName"));
    let place = match name {
        Some(name) => spec.families.iter().position(|it| it.name.eq_ignore_ascii_case(name)),
        None => spec.families.iter().position(|it| it.counted),
    };
    let place = place.ok_or_else(|| {
        let all: Vec<&str> = spec.families.iter().map(|it| it.name.as_str()).collect();
        Error::invalid(format!(
            "the operator `{}` has no such family of rows; it has {}",
            spec.label,
            all.join(", ")
        ))
    })?;
    Ok((spec.id, place))
}

/// Rows of one family at one version, or what one batch changed in it.
#[derive(Debug, Clone)]
struct Part {
    reader: Arc<StateReader>,
    operator: u32,
    family: usize,
    changes: Option<BatchId>,
}

impl Part {
    fn rows(&self) -> Result<StateRows> {
        match self.changes {
            Some(batch) => self.reader.changes(self.operator, self.family, batch),
            None => self.reader.rows(self.operator, self.family),
        }
    }
}

#[derive(Debug)]
struct PartRows {
    part: Part,
    shape: Shape,
    schema: SchemaRef,
}

impl PartitionStream for PartRows {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _task: Arc<TaskContext>) -> SendableRecordBatchStream {
        let outer = |error: Error| DataFusionError::External(Box::new(error));
        let schema = Arc::clone(&self.schema);
        let rows = self.part.rows().map_err(outer).map(|rows| (rows, 0));
        let shape = self.shape;
        let rows = stream::once(async move { rows }).map_ok(move |rows| {
            stream::try_unfold(rows, move |(mut rows, first)| async move {
                let Some(batch) = rows.next().await.map_err(outer)? else { return Ok(None) };
                let behind = first + i64::try_from(batch.num_rows()).unwrap_or(0);
                let shaped = shape.rows(&batch, first)?;
                Ok::<_, DataFusionError>(Some((shaped, (rows, behind))))
            })
        });
        let rows = rows.try_flatten().boxed();
        Box::pin(RecordBatchStreamAdapter::new(schema, rows))
    }
}

/// Spark's table of operators and their stores.
async fn metadata(
    store: &Arc<dyn Store>,
    contents: &Contents,
    options: &Options,
) -> Result<Arc<dyn TableProvider>> {
    let version = options.count("batchId").map(|batch| batch + 1);
    let reader = open_state(store, contents, version).await?;
    let overview = state_overview(contents, &reader);
    let bound = |version: Option<&u64>| {
        version.map_or(0, |version| i64::try_from(version.saturating_sub(1)).unwrap_or(i64::MAX))
    };
    let (min, max) = (bound(overview.versions.first()), bound(overview.versions.last()));
    let specs = reader.operators();
    let processor = |id| specs.iter().find(|it| it.id == id && variables::is_processor(it));
    // The store of a processor has one name, whatever variables are in it.
    let rows: Vec<(&OperatorState, &str)> = overview
        .operators
        .iter()
        .flat_map(|operator| {
            let names = operator.families.iter().map(|family| family.name.as_str());
            let names: Vec<&str> = match processor(operator.id) {
                Some(_) => vec!["default"],
                None => names.collect(),
            };
            names.into_iter().map(move |name| (operator, name))
        })
        .collect();
    let texts = |of: &dyn Fn(usize) -> String| -> ArrayRef {
        Arc::new(StringArray::from_iter_values((0..rows.len()).map(of)))
    };
    let at = |row: usize| rows.get(row).copied();
    let number = |value: u32| i32::try_from(value).unwrap_or(i32::MAX);
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(rows.iter().map(|(it, _)| i64::from(it.id)))),
        texts(&|row| at(row).map(|(it, _)| it.kind.clone()).unwrap_or_default()),
        texts(&|row| at(row).map(|(_, name)| name.to_owned()).unwrap_or_default()),
        Arc::new(Int32Array::from_iter_values(rows.iter().map(|(it, _)| number(it.partitions)))),
        Arc::new(Int64Array::from(vec![min; rows.len()])),
        Arc::new(Int64Array::from(vec![max; rows.len()])),
        texts(&|row| {
            let Some((it, _)) = at(row) else { return String::new() };
            match processor(it.id) {
                Some(spec) => json!({ "name": it.name, "stateVariables": variables::listed(spec) }),
                None => json!({ "name": it.name }),
            }
            .to_string()
        }),
    ];
    let field = |name: &str, data_type| Field::new(name, data_type, false);
    let schema = Arc::new(Schema::new(vec![
        field("operatorId", DataType::Int64),
        field("operatorName", DataType::Utf8),
        field("stateStoreName", DataType::Utf8),
        field("numPartitions", DataType::Int32),
        field("minBatchId", DataType::Int64),
        field("maxBatchId", DataType::Int64),
        field("operatorProperties", DataType::Utf8),
    ]));
    let batch = RecordBatch::try_new(Arc::clone(&schema), columns);
    let batch = batch.map_err(|error| from_datafusion(error.into()))?;
    Ok(Arc::new(MemTable::try_new(schema, vec![vec![batch]]).map_err(from_datafusion)?))
}

/// State in SQL: the tables of the schemas `statestore` and `state-metadata` are checkpoints, by
/// their paths.
pub(crate) struct StateTables {
    format: StateFormat,
    session: Weak<SessionInner>,
}

impl StateTables {
    pub(crate) fn new(format: StateFormat, session: Weak<SessionInner>) -> Self {
        StateTables { format, session }
    }
}

impl fmt::Debug for StateTables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StateTables").field("format", &self.format).finish_non_exhaustive()
    }
}

#[async_trait]
impl SchemaProvider for StateTables {
    fn table_names(&self) -> Vec<String> {
        Vec::new()
    }

    async fn table(&self, name: &str) -> PlanResult<Option<Arc<dyn TableProvider>>> {
        let Some(inner) = self.session.upgrade() else { return Ok(None) };
        let (session, path) = (Session { inner }, vec![name.to_owned()]);
        let table = table(&session, self.format, OptionMap::new(), path).await;
        table.map(Some).map_err(|error| DataFusionError::External(Box::new(error)))
    }

    fn table_exist(&self, _name: &str) -> bool {
        true
    }
}
