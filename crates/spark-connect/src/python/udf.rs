//! A Python function as a function of the planner.

mod grouped;

use super::calls::Calls;
use super::function::{PythonFunction, eval};
use super::pool::PythonPool;
use super::task::{Task, aside};
use super::wire::write_int;
use crate::rows::{plain_batch, plain_schema};
use arrow::array::{Array, ArrayRef, AsArray, ListArray, StructArray, new_empty_array};
use arrow::buffer::OffsetBuffer;
use arrow::compute::{cast, concat_batches};
use arrow::datatypes::{DataType, Field, Fields, Schema};
use arrow::ipc::writer::StreamWriter;
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::{DataFusionError, Result as PlanResult};
use datafusion::logical_expr::{
    ColumnarValue, Expr, LogicalPlan, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use onefold_plan::schema::schema_json;
use onefold_types::{Error, Result};
use std::hash::{Hash, Hasher};
use std::io::{self, Write};
use std::sync::Arc;

/// Rows that a function gets at once, unless a setting says otherwise.
pub(super) const ROWS_AT_ONCE: usize = 10_000;

/// How rows go in and come out.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Shape {
    /// A value for each row.
    Values {
        /// The names of arguments that are given by name.
        names: Vec<Option<String>>,
    },
    /// Any number of rows for all rows: a list of them in the first row, none in the others.
    Rows {
        /// The columns that go in.
        names: Vec<String>,
    },
    /// The same for each group, which is a list of rows: the function's only argument.
    Groups {
        /// How many columns at the beginning of a group's rows are its key.
        keys: usize,
    },
    /// A value for each group, which is a list of rows of arguments.
    Aggregates,
    /// Any number of rows for each pair of groups, which are two lists of rows.
    Cogroups {
        /// How many columns at the beginning of the rows of either group are its key.
        keys: usize,
    },
}

/// A Python function, with the processes that run it.
#[derive(Debug)]
struct PythonUdf {
    name: String,
    function: Arc<PythonFunction>,
    shape: Shape,
    pool: Arc<PythonPool>,
    signature: Signature,
}

impl PartialEq for PythonUdf {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && self.function == other.function && self.shape == other.shape
    }
}

impl Eq for PythonUdf {}

impl Hash for PythonUdf {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
        self.shape.hash(state);
    }
}

/// The function under a name of the planner.
pub(crate) fn scalar(
    name: String,
    function: Arc<PythonFunction>,
    shape: Shape,
    pool: Arc<PythonPool>,
) -> ScalarUDF {
    // Never computed when planning: a function is called for rows only.
    let signature = Signature::variadic_any(Volatility::Volatile);
    let signature = match &shape {
        Shape::Values { names } if names.is_empty() => Signature::nullary(Volatility::Volatile),
        _ => signature,
    };
    ScalarUDF::new_from_impl(PythonUdf { name, function, shape, pool, signature })
}

/// The plan with the calls of all its functions in Python noted in one place, also of those that are
/// registered or stand in a view.
pub(crate) fn with_calls(plan: LogicalPlan, calls: &Calls) -> PlanResult<LogicalPlan> {
    plan.transform_up_with_subqueries(|node| {
        node.map_expressions(|expr| expr.transform_up(|part| Ok(noted(part, calls))))
    })
    .data()
}

fn noted(part: Expr, calls: &Calls) -> Transformed<Expr> {
    let Expr::ScalarFunction(call) = &part else { return Transformed::no(part) };
    let Some(own) = call.func.inner().downcast_ref::<PythonUdf>() else {
        return Transformed::no(part);
    };
    let function = PythonFunction { calls: calls.clone(), ..own.function.as_ref().clone() };
    let own =
        scalar(own.name.clone(), Arc::new(function), own.shape.clone(), Arc::clone(&own.pool));
    Transformed::yes(own.call(call.args.clone()))
}

impl ScalarUDFImpl for PythonUdf {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> PlanResult<DataType> {
        Ok(match &self.shape {
            Shape::Values { .. } | Shape::Aggregates => self.function.output.clone(),
            _ => {
                DataType::List(Arc::new(Field::new("element", self.function.output.clone(), true)))
            }
        })
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> PlanResult<ColumnarValue> {
        let rows = arguments.number_rows;
        let columns: PlanResult<Vec<ArrayRef>> =
            arguments.args.into_iter().map(|value| value.into_array(rows)).collect();
        let columns = columns?;
        let outer = |error: Error| DataFusionError::External(Box::new(error));
        let result = aside(|| self.compute(&columns, rows));
        result.map(ColumnarValue::Array).map_err(outer)
    }
}

fn broken(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::internal("rows do not take the form that a Python worker wants").because(error)
}

impl PythonUdf {
    fn compute(&self, columns: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        match &self.shape {
            Shape::Values { names } => self.values(columns, names, rows),
            Shape::Rows { names } => self.rows(columns, names, rows),
            Shape::Groups { keys } => self.groups(columns, *keys, rows),
            Shape::Aggregates => self.aggregates(columns, rows),
            Shape::Cogroups { keys } => self.cogroups(columns, *keys, rows),
        }
    }

    fn values(
        &self,
        columns: &[ArrayRef],
        names: &[Option<String>],
        rows: usize,
    ) -> Result<ArrayRef> {
        let output = &self.function.output;
        if rows == 0 {
            return Ok(new_empty_array(output));
        }
        let labels: Vec<String> = (0..columns.len()).map(|place| format!("_{place}")).collect();
        let batch = plain(columns, &labels, rows)?;
        // Those behind the columns are there for calls with more of them.
        let names = names.iter().take(columns.len());
        let arguments = (0_i32..).zip(names).map(|(at, name)| (at, name.clone())).collect();
        let mut eval_conf = Vec::new();
        if self.function.eval_type == eval::ROW_BY_ROW {
            eval_conf.push(("input_type".to_owned(), schema_json(&batch.schema())));
        }
        let batches = self.call(&batch, arguments, eval_conf)?;
        let mut parts = Vec::with_capacity(batches.len());
        for batch in &batches {
            let column = batch.columns().first();
            let column = column.ok_or_else(|| Error::internal("a function gave no column"))?;
            parts.push(fitted(column, output)?);
        }
        let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
        let whole = if parts.is_empty() {
            new_empty_array(output)
        } else {
            arrow::compute::concat(&parts).map_err(broken)?
        };
        if whole.len() != rows {
            return Err(Error::invalid(format!(
                "the function `{}` gave {} values for {rows} rows",
                self.function.name,
                whole.len()
            )));
        }
        Ok(whole)
    }

    fn rows(&self, columns: &[ArrayRef], names: &[String], rows: usize) -> Result<ArrayRef> {
        if rows == 0 {
            return self.listed(&[], 0);
        }
        let batch = structs(&plain(columns, names, rows)?);
        let batches = self.call(&batch, vec![(0, None)], Vec::new())?;
        self.listed(&batches, rows)
    }

    fn groups(&self, columns: &[ArrayRef], keys: usize, rows: usize) -> Result<ArrayRef> {
        let [groups] = columns else {
            return Err(Error::internal("groups are one column"));
        };
        let groups = groups.as_list_opt::<i32>();
        let groups = groups.ok_or_else(|| Error::internal("groups are no lists"))?;
        if rows == 0 {
            return self.listed(&[], 0);
        }
        let mut parts = Vec::with_capacity(rows);
        for row in 0..rows {
            let group = groups.value(row);
            let group = group.as_struct_opt();
            let group = group.ok_or_else(|| Error::internal("a group has no rows"))?;
            let batch = RecordBatch::from(group.clone());
            let batch = plain_batch(&batch, &plain_schema(&batch.schema()))
                .map_err(|failure| Error::internal(failure.message().to_owned()))?;
            parts.push(if self.function.eval_type == eval::GROUPED_PANDAS {
                batch
            } else {
                structs(&batch)
            });
        }
        let width = parts.first().map_or(0, |batch| match batch.column(0).data_type() {
            DataType::Struct(fields) if batch.num_columns() == 1 => fields.len(),
            _ => batch.num_columns(),
        });
        let input = |out: &mut dyn Write| {
            for batch in &parts {
                write_int(&mut &mut *out, 1)?;
                stream(out, std::slice::from_ref(batch))?;
            }
            write_int(&mut &mut *out, 0)
        };
        let batches = self.task(offsets(keys, width), Vec::new()).run(&self.pool, &input)?;
        self.listed(&batches, rows)
    }

    fn task(
        &self,
        arguments: Vec<(i32, Option<String>)>,
        eval_conf: Vec<(String, String)>,
    ) -> Task<'_> {
        let arguments = Some(arguments);
        Task { function: &self.function, partition: 0, batch: None, arguments, eval_conf }
    }

    fn call(
        &self,
        batch: &RecordBatch,
        arguments: Vec<(i32, Option<String>)>,
        eval_conf: Vec<(String, String)>,
    ) -> Result<Vec<RecordBatch>> {
        let at_once = self
            .function
            .settings
            .iter()
            .find(|(name, _)| name.ends_with("maxRecordsPerBatch"))
            .and_then(|(_, value)| value.parse().ok())
            .filter(|&count: &usize| count > 0)
            .unwrap_or(ROWS_AT_ONCE);
        let mut parts = Vec::new();
        let mut from = 0;
        while from < batch.num_rows() {
            let count = at_once.min(batch.num_rows() - from);
            parts.push(batch.slice(from, count));
            from += count;
        }
        let input = |out: &mut dyn Write| stream(out, &parts);
        self.task(arguments, eval_conf).run(&self.pool, &input)
    }

    /// All rows that came as the list of the first row.
    fn listed(&self, batches: &[RecordBatch], rows: usize) -> Result<ArrayRef> {
        let DataType::Struct(fields) = &self.function.output else {
            return Err(Error::invalid(format!(
                "the function `{}` gives rows, and its return type is no list of columns",
                self.function.name
            )));
        };
        let mut parts = Vec::with_capacity(batches.len());
        for batch in batches {
            parts.push(taken(batch, fields)?);
        }
        let schema = Arc::new(Schema::new(fields.clone()));
        let whole = concat_batches(&schema, &parts).map_err(broken)?;
        let count = whole.num_rows();
        let lengths = (0..rows).map(|row| if row == 0 { count } else { 0 });
        let element = Arc::new(Field::new("element", self.function.output.clone(), true));
        let offsets = OffsetBuffer::from_lengths(lengths);
        let list = ListArray::try_new(element, offsets, Arc::new(StructArray::from(whole)), None);
        Ok(Arc::new(list.map_err(broken)?))
    }
}

/// Columns as a batch of plain types.
fn plain(columns: &[ArrayRef], names: &[String], rows: usize) -> Result<RecordBatch> {
    let fields: Vec<Field> = columns
        .iter()
        .zip(names)
        .map(|(column, name)| Field::new(name, column.data_type().clone(), true))
        .collect();
    let schema = Arc::new(Schema::new(fields));
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    let batch = RecordBatch::try_new_with_options(Arc::clone(&schema), columns.to_vec(), &options)
        .map_err(broken)?;
    plain_batch(&batch, &plain_schema(&schema))
        .map_err(|failure| Error::internal(failure.message().to_owned()))
}

/// The columns of a batch as one column of structs.
pub(super) fn structs(batch: &RecordBatch) -> RecordBatch {
    let column: ArrayRef = Arc::new(StructArray::from(batch.clone()));
    let field = Field::new("_0", column.data_type().clone(), false);
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let schema = Arc::new(Schema::new(vec![field]));
    RecordBatch::try_new_with_options(schema, vec![column], &options)
        .unwrap_or_else(|_| batch.clone())
}

/// Where a group's key and its values are, as the worker wants it: how many numbers follow, how
/// many of them are keys, the keys, then all columns.
pub(super) fn offsets(keys: usize, width: usize) -> Vec<(i32, Option<String>)> {
    let number = |it: usize| i32::try_from(it).unwrap_or(i32::MAX);
    let values = keys..width;
    let mut all = vec![number(1 + keys + values.len()), number(keys)];
    all.extend((0..keys).map(number));
    all.extend(values.map(number));
    all.into_iter().map(|at| (at, None)).collect()
}

pub(super) fn stream(out: &mut dyn Write, batches: &[RecordBatch]) -> io::Result<()> {
    let Some(first) = batches.first() else { return Ok(()) };
    let written = StreamWriter::try_new(out, &first.schema()).and_then(|mut writer| {
        for batch in batches {
            writer.write(batch)?;
        }
        writer.finish()
    });
    written.map_err(io::Error::other)
}

/// The rows in what a function gave: one column of structs, or the columns themselves.
pub(super) fn taken(batch: &RecordBatch, wanted: &Fields) -> Result<RecordBatch> {
    let inner = match batch.columns() {
        [only] => only.as_struct_opt().map(|it| RecordBatch::from(it.clone())),
        _ => None,
    };
    let batch = inner.unwrap_or_else(|| batch.clone());
    let mut columns = Vec::with_capacity(wanted.len());
    for (place, field) in wanted.iter().enumerate() {
        let schema = batch.schema();
        let named = schema.column_with_name(field.name()).map(|(at, _)| at);
        let column = batch.columns().get(named.unwrap_or(place));
        let column = column.ok_or_else(|| {
            Error::invalid(format!("a function gave rows without the column `{}`", field.name()))
        })?;
        columns.push(fitted(column, field.data_type())?);
    }
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let schema = Arc::new(Schema::new(wanted.clone()));
    RecordBatch::try_new_with_options(schema, columns, &options).map_err(broken)
}

fn fitted(column: &ArrayRef, wanted: &DataType) -> Result<ArrayRef> {
    if column.data_type() == wanted {
        return Ok(Arc::clone(column));
    }
    cast(column, wanted).map_err(|error| {
        Error::invalid("what a function gave does not have the type that it promised")
            .because(error)
    })
}
