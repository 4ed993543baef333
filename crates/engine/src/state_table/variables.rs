//! Variables of one's own in Spark's columns: a value, the elements of a list, the entries of a map.

use crate::fault::from_datafusion;
use arrow::array::{Array, ArrayRef, AsArray, Int32Array, Int64Array, RecordBatch, StructArray};
use arrow::buffer::NullBuffer;
use arrow::compute::filter_record_batch;
use arrow::compute::kernels::cmp::eq;
use arrow::datatypes::{DataType, Field, SchemaRef};
use arrow::error::ArrowError;
use datafusion::catalog::TableProvider;
use datafusion::catalog::view::ViewTable;
use datafusion::common::Column;
use datafusion::datasource::provider_as_source;
use datafusion::error::Result as PlanResult;
use datafusion::functions_aggregate::array_agg::array_agg_udaf;
use datafusion::functions_nested::map::map_udf;
use datafusion::logical_expr::{
    Expr, ExprFunctionExt, LogicalPlanBuilder, SortExpr, UNNAMED_TABLE,
};
use onefold_state::{Access, FamilySpec, OperatorSpec};
use onefold_types::Result;
use serde_json::{Value, json};
use std::sync::Arc;

/// Of a variable with a TTL, when a value expires.
const EXPIRY: &str = "ttlExpirationMs";
/// The column that has the order of rows, where they are put together afterwards.
const ORDER: &str = "#order";

/// The kind of a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Variable {
    Value,
    List,
    Map,
}

impl Variable {
    /// What a family is, if it holds a variable of a processor.
    pub(super) fn of(operator: &OperatorSpec, family: &FamilySpec) -> Option<Self> {
        if !is_processor(operator) || family.name.starts_with('$') {
            return None;
        }
        let sizes = format!("$rowCounter_{}", family.name);
        Some(match family.access {
            Access::Point => Variable::Value,
            Access::Ordered if operator.families.iter().any(|it| it.name == sizes) => {
                Variable::List
            }
            Access::Ordered => Variable::Map,
        })
    }

    /// Spark's name.
    fn name(self) -> &'static str {
        match self {
            Variable::Value => "ValueState",
            Variable::List => "ListState",
            Variable::Map => "MapState",
        }
    }
}

/// Whether an operator is a processor with variables, whose store has one name in Spark.
pub(super) fn is_processor(operator: &OperatorSpec) -> bool {
    operator.kind.starts_with("transformWithState")
}

/// The variables of a processor as Spark lists them, timers among them.
pub(super) fn listed(operator: &OperatorSpec) -> Value {
    let one = |family: &FamilySpec| {
        let kind = match Variable::of(operator, family) {
            Some(kind) => kind.name(),
            None if family.name.ends_with("Timers_keyToTimestamp") => "TimerState",
            None => return None,
        };
        let ttl = kind != "TimerState" && family.value.field_with_name(EXPIRY).is_ok();
        Some(json!({ "stateName": family.name, "stateVariableType": kind, "ttlEnabled": ttl }))
    };
    operator.families.iter().filter_map(one).collect()
}

/// What to show of a family.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    /// The variable, of a processor.
    pub(super) variable: Option<Variable>,
    /// Whether each element of a list or map is a row.
    pub(super) flat: bool,
    /// One partition only.
    pub(super) partition: Option<i32>,
}

impl Shape {
    /// The columns of rows in this shape, of a family with these.
    pub(super) fn schema(self, rows: &SchemaRef) -> Result<SchemaRef> {
        let none = self.rows(&RecordBatch::new_empty(Arc::clone(rows)), 0);
        none.map(|none| none.schema()).map_err(|error| from_datafusion(error.into()))
    }

    /// Rows in this shape; `first` is the place of the first of them among all.
    pub(super) fn rows(
        self,
        batch: &RecordBatch,
        first: i64,
    ) -> std::result::Result<RecordBatch, ArrowError> {
        let missing = || ArrowError::SchemaError("rows of state lack a column".to_owned());
        let column = |name: &str| batch.column_by_name(name).cloned().ok_or_else(missing);
        let mut columns = Vec::new();
        for name in ["batch_id", "change_type"] {
            if let Some(column) = batch.column_by_name(name) {
                columns.push((name, Arc::clone(column)));
            }
        }
        let (key, value) = (column("key")?, column("value")?);
        match self.variable {
            None => columns.extend([("key", key), ("value", value)]),
            Some(Variable::Value) => columns.extend([("key", key), ("value", cell(value))]),
            Some(Variable::List) => {
                let (key, _) = apart(&key).ok_or_else(missing)?;
                columns.extend([("key", key), ("list_element", cell(value))]);
            }
            Some(Variable::Map) => {
                let (key, user) = apart(&key).ok_or_else(missing)?;
                let entry = [("user_map_key", user), ("user_map_value", cell(value))];
                columns.push(("key", key));
                columns.extend(entry);
            }
        }
        columns.push(("partition_id", column("partition_id")?));
        if !self.flat {
            let count = i64::try_from(batch.num_rows()).unwrap_or(i64::MAX);
            columns.push((ORDER, Arc::new(Int64Array::from_iter_values(first..first + count))));
        }
        let columns = columns.into_iter().map(|(name, column)| {
            let nullable = !["batch_id", "change_type", "key", "partition_id"].contains(&name);
            (name, column, nullable)
        });
        let rows = RecordBatch::try_from_iter_with_nullable(columns)?;
        match self.partition {
            None => Ok(rows),
            Some(partition) => {
                let of = eq(&column("partition_id")?, &Int32Array::new_scalar(partition))?;
                filter_record_batch(&rows, &of)
            }
        }
    }

    /// A table of such rows with the elements of each key together, if they are to be.
    pub(super) fn together(self, table: Arc<dyn TableProvider>) -> Result<Arc<dyn TableProvider>> {
        if self.flat {
            return Ok(table);
        }
        self.view(table).map_err(from_datafusion)
    }

    fn view(self, table: Arc<dyn TableProvider>) -> PlanResult<Arc<dyn TableProvider>> {
        let rows = LogicalPlanBuilder::scan(UNNAMED_TABLE, provider_as_source(table), None)?;
        let all = |name: &str| -> PlanResult<Expr> {
            let order = vec![SortExpr::new(column(ORDER), true, true)];
            let all = array_agg_udaf().call(vec![column(name)]).order_by(order).build()?;
            Ok(all.alias(name))
        };
        let (parts, whole) = match self.variable {
            Some(Variable::Map) => {
                let entries =
                    map_udf().call(vec![column("user_map_key"), column("user_map_value")]);
                (vec![all("user_map_key")?, all("user_map_value")?], entries.alias("map_value"))
            }
            _ => (vec![all("list_element")?], column("list_element").alias("list_value")),
        };
        let rows = rows.aggregate([column("key"), column("partition_id")], parts)?;
        let rows = rows.project([column("key"), whole, column("partition_id")])?;
        Ok(Arc::new(ViewTable::new(rows.build()?, None)))
    }
}

fn column(name: &str) -> Expr {
    Expr::Column(Column::new_unqualified(name))
}

/// The grouping key, and what follows it: a position, or the user's key of a map as a struct.
fn apart(key: &ArrayRef) -> Option<(ArrayRef, ArrayRef)> {
    let key = key.as_struct_opt()?;
    let ((last, columns), (_, fields)) = (key.columns().split_last()?, key.fields().split_last()?);
    let grouping = StructArray::try_new(
        fields.iter().cloned().collect(),
        columns.to_vec(),
        key.nulls().cloned(),
    );
    let user: ArrayRef = match last.data_type() {
        DataType::Struct(_) => Arc::clone(last),
        other => {
            let field = Arc::new(Field::new("value", other.clone(), true));
            Arc::new(StructArray::from(vec![(field, Arc::clone(last))]))
        }
    };
    Some((Arc::new(grouping.ok()?), user))
}

/// The value as Spark has it: a struct is not in another one, unless its expiry is with it.
fn cell(value: ArrayRef) -> ArrayRef {
    let inner = value.as_struct_opt().and_then(|value| match value.columns() {
        [only] => Some((value, only.as_struct_opt()?)),
        _ => None,
    });
    let Some((outer, inner)) = inner else { return value };
    let nulls = NullBuffer::union(outer.nulls(), inner.nulls());
    let columns = inner.columns().to_vec();
    match StructArray::try_new(inner.fields().clone(), columns, nulls) {
        Ok(cell) => Arc::new(cell),
        Err(_) => value,
    }
}
