//! Figures of a whole frame: `describe`, `summary`, and `df.stat`.
//!
//! They are computed when the relation is planned: what comes out are a few rows in an order.

use super::{Planner, of_batches};
use crate::expression::quoted;
use crate::failure::{Failure, Outcome};
use arrow::array::{Array, ArrayRef, AsArray, Float64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::LogicalPlan;
use onefold_plan::sql;
use spark_connect_proto::{
    Relation, StatApproxQuantile, StatCorr, StatCov, StatCrosstab, StatDescribe, StatFreqItems,
    StatSampleBy, StatSummary,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What `describe` gives.
const DESCRIBED: [&str; 5] = ["count", "mean", "stddev", "min", "max"];
/// What `summary` gives when nothing is named.
const SUMMARY: [&str; 8] = ["count", "mean", "stddev", "min", "25%", "50%", "75%", "max"];
/// Most columns of a `crosstab`.
const CROSSTAB_COLUMNS_MAX: usize = 10_000;

fn text(kind: &DataType) -> bool {
    matches!(kind, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

/// A figure of a column, as SQL that gives a text.
fn figure(name: &str, column: &str, kind: &DataType) -> Outcome<String> {
    let number = if text(kind) { format!("try_cast({column} AS DOUBLE)") } else { column.into() };
    let of = match name {
        "count" => format!("count({column})"),
        "count_distinct" => format!("count(DISTINCT {column})"),
        "approx_count_distinct" => format!("approx_count_distinct({column})"),
        "mean" => format!("avg({number})"),
        "stddev" => format!("stddev({number})"),
        "min" => format!("min({column})"),
        "max" => format!("max({column})"),
        share => {
            let share = share.strip_suffix('%').and_then(|share| share.parse::<f64>().ok());
            let share = share
                .filter(|share| (0.0..=100.0).contains(share))
                .ok_or_else(|| Failure::invalid(format!("{name} is not a recognised statistic")))?;
            format!("percentile_approx({number}, {}D)", share / 100.0)
        }
    };
    Ok(format!("CAST({of} AS STRING)"))
}

/// A column, where NULL counts as 0.
fn counted(column: &str) -> String {
    format!("coalesce(CAST({} AS DOUBLE), 0D)", quoted(column))
}

impl Planner<'_> {
    /// One row of aggregates over the input.
    fn figures(&self, input: &LogicalPlan, texts: &[String]) -> Outcome<Vec<ScalarValue>> {
        let context = self.session.engine.context();
        let mut items = Vec::with_capacity(texts.len());
        for (place, text) in texts.iter().enumerate() {
            let item = sql::expression(context, input.schema(), text)?;
            items.push(item.alias(format!("#{place}")));
        }
        let plan = sql::aggregate(input.clone(), Vec::new(), items)?;
        let batches = self.session.engine.frame(plan).collect()?;
        let row = batches.iter().find(|batch| batch.num_rows() > 0);
        let row = row.ok_or_else(|| Failure::invalid("an aggregate gave no row"))?;
        let values = row.columns().iter().map(|column| ScalarValue::try_from_array(column, 0));
        Ok(values.collect::<Result<_, _>>()?)
    }

    pub(super) fn describe(&mut self, describe: &StatDescribe) -> Outcome<LogicalPlan> {
        self.summarised(describe.input.as_deref(), &DESCRIBED, &describe.cols)
    }

    pub(super) fn summary(&mut self, summary: &StatSummary) -> Outcome<LogicalPlan> {
        let named: Vec<&str> = summary.statistics.iter().map(String::as_str).collect();
        let names = if named.is_empty() { &SUMMARY[..] } else { &named };
        self.summarised(summary.input.as_deref(), names, &[])
    }

    fn summarised(
        &mut self,
        input: Option<&Relation>,
        names: &[&str],
        columns: &[String],
    ) -> Outcome<LogicalPlan> {
        let input = self.input(input)?;
        let fields = input.schema().fields();
        let mut kept: Vec<(String, DataType)> = Vec::new();
        for name in columns {
            let field = fields.iter().find(|field| field.name().eq_ignore_ascii_case(name));
            let field = field.ok_or_else(|| Failure::no_column(name, ""))?;
            kept.push((field.name().clone(), field.data_type().clone()));
        }
        if columns.is_empty() {
            let all = fields
                .iter()
                .filter(|field| field.data_type().is_numeric() || text(field.data_type()));
            kept.extend(all.map(|field| (field.name().clone(), field.data_type().clone())));
        }
        let mut texts = Vec::new();
        for name in names {
            for (column, kind) in &kept {
                texts.push(figure(name, &quoted(column).to_string(), kind)?);
            }
        }
        let values = if texts.is_empty() { Vec::new() } else { self.figures(&input, &texts)? };
        let mut fields = vec![Field::new("summary", DataType::Utf8, true)];
        let mut arrays: Vec<ArrayRef> = vec![Arc::new(StringArray::from(names.to_vec()))];
        for (place, (column, _)) in kept.iter().enumerate() {
            let cells = values.iter().skip(place).step_by(kept.len());
            let cells = cells.map(|cell| cell.try_as_str().flatten().map(str::to_owned));
            arrays.push(Arc::new(cells.collect::<StringArray>()));
            fields.push(Field::new(column, DataType::Utf8, true));
        }
        made(fields, arrays)
    }

    fn one_number(
        &mut self,
        input: Option<&Relation>,
        name: &str,
        of: &str,
    ) -> Outcome<LogicalPlan> {
        let input = self.input(input)?;
        let values = self.figures(&input, &[format!("CAST({of} AS DOUBLE)")])?;
        let value = match values.first() {
            Some(ScalarValue::Float64(value)) => *value,
            _ => None,
        };
        let column: ArrayRef = Arc::new(Float64Array::from(vec![value]));
        made(vec![Field::new(name, DataType::Float64, true)], vec![column])
    }

    pub(super) fn covariance(&mut self, cov: &StatCov) -> Outcome<LogicalPlan> {
        let of = format!("covar_samp({}, {})", counted(&cov.col1), counted(&cov.col2));
        self.one_number(cov.input.as_deref(), "cov", &of)
    }

    pub(super) fn correlation(&mut self, corr: &StatCorr) -> Outcome<LogicalPlan> {
        if corr.method.as_deref().is_some_and(|method| method != "pearson") {
            return Err(Failure::unsupported("another correlation than that of Pearson"));
        }
        let of = format!("corr({}, {})", counted(&corr.col1), counted(&corr.col2));
        self.one_number(corr.input.as_deref(), "corr", &of)
    }

    /// One row of a list for each column, which holds the value at each share of its ranks.
    pub(super) fn quantiles(&mut self, wanted: &StatApproxQuantile) -> Outcome<LogicalPlan> {
        let input = self.input(wanted.input.as_deref())?;
        let shares: Vec<String> =
            wanted.probabilities.iter().map(|share| format!("{share}D")).collect();
        let texts: Vec<String> = wanted
            .cols
            .iter()
            .map(|column| {
                let column = quoted(column);
                let shares = shares.join(", ");
                format!("percentile_approx(CAST({column} AS DOUBLE), array({shares}))")
            })
            .collect();
        let values = self.figures(&input, &texts)?;
        let inner = Arc::new(Field::new("element", DataType::Float64, true));
        let mut lists = Vec::new();
        for value in values {
            let array = value.to_array()?;
            lists.push(match array.as_list_opt::<i32>() {
                Some(list) if list.is_valid(0) => list.value(0),
                _ => Arc::new(Float64Array::from(Vec::<f64>::new())),
            });
        }
        let lengths: Vec<usize> = lists.iter().map(|list| list.len()).collect();
        let parts: Vec<&dyn Array> = lists.iter().map(AsRef::as_ref).collect();
        let all = match parts.is_empty() {
            true => Arc::new(Float64Array::from(Vec::<f64>::new())) as ArrayRef,
            false => arrow::compute::concat(&parts).map_err(broken)?,
        };
        let of = |field: Arc<Field>, lengths: Vec<usize>, values: ArrayRef| {
            let offsets = arrow::buffer::OffsetBuffer::from_lengths(lengths);
            arrow::array::ListArray::try_new(field, offsets, values, None).map_err(broken)
        };
        let columns = of(inner, lengths, all)?;
        let outer = Arc::new(Field::new("element", columns.data_type().clone(), true));
        let row = of(outer, vec![columns.len()], Arc::new(columns))?;
        let field = Field::new("approx_quantile", row.data_type().clone(), true);
        made(vec![field], vec![Arc::new(row)])
    }

    /// How often two values are together: a row for each of the first, a column for each of the
    /// second.
    pub(super) fn crosstab(&mut self, wanted: &StatCrosstab) -> Outcome<LogicalPlan> {
        let input = self.input(wanted.input.as_deref())?;
        let context = self.session.engine.context();
        let column = |name: &str| {
            let text = format!("coalesce(CAST({} AS STRING), 'null')", quoted(name));
            sql::expression(context, input.schema(), &text)
        };
        let groups = vec![column(&wanted.col1)?.alias("#1"), column(&wanted.col2)?.alias("#2")];
        let count = sql::expression(context, input.schema(), "count(*)")?.alias("#n");
        let plan = sql::aggregate(input.clone(), groups, vec![count])?;
        let mut counts: BTreeMap<String, BTreeMap<String, i64>> = BTreeMap::new();
        let mut names = std::collections::BTreeSet::new();
        for batch in self.session.engine.frame(plan).collect()? {
            let [first, second, n] = batch.columns() else { continue };
            let (first, second) = (first.as_string::<i32>(), second.as_string::<i32>());
            let n = n.as_primitive::<arrow::datatypes::Int64Type>();
            for row in 0..batch.num_rows() {
                names.insert(second.value(row).to_owned());
                let of = counts.entry(first.value(row).to_owned()).or_default();
                of.insert(second.value(row).to_owned(), n.value(row));
            }
        }
        if names.len() > CROSSTAB_COLUMNS_MAX {
            return Err(Failure::invalid(format!(
                "`{}` has more than {CROSSTAB_COLUMNS_MAX} values, each of which would be a column",
                wanted.col2
            )));
        }
        let first = format!("{}_{}", wanted.col1, wanted.col2);
        let mut fields = vec![Field::new(first, DataType::Utf8, true)];
        let keys = counts.keys().map(|key| Some(key.as_str()));
        let mut arrays: Vec<ArrayRef> = vec![Arc::new(keys.collect::<StringArray>())];
        for name in &names {
            fields.push(Field::new(name, DataType::Int64, true));
            let cells = counts.values().map(|of| of.get(name).copied().unwrap_or(0));
            arrays.push(Arc::new(arrow::array::Int64Array::from_iter_values(cells)));
        }
        made(fields, arrays)
    }

    /// The values that make up more than a share of the rows, as lists.
    pub(super) fn frequent_items(&mut self, wanted: &StatFreqItems) -> Outcome<LogicalPlan> {
        let input = self.input(wanted.input.as_deref())?;
        let support = wanted.support.unwrap_or(0.01);
        let context = self.session.engine.context();
        let total = match self.figures(&input, &["count(*)".to_owned()])?.first() {
            Some(ScalarValue::Int64(Some(total))) => *total as f64,
            _ => 0.0,
        };
        let (mut fields, mut arrays): (Vec<Field>, Vec<ArrayRef>) = (Vec::new(), Vec::new());
        for name in &wanted.cols {
            let group = sql::column(input.schema(), name)?;
            let count = sql::expression(context, input.schema(), "count(*)")?.alias("#n");
            let plan = sql::aggregate(input.clone(), vec![group.alias("#v")], vec![count])?;
            let mut kept: Vec<ArrayRef> = Vec::new();
            let mut kind = plan.schema().field(0).data_type().clone();
            for batch in self.session.engine.frame(plan).collect()? {
                let [values, n] = batch.columns() else { continue };
                kind = values.data_type().clone();
                let n = n.as_primitive::<arrow::datatypes::Int64Type>();
                let often: arrow::array::BooleanArray =
                    n.iter().map(|n| n.map(|n| n as f64 > support * total)).collect();
                kept.push(arrow::compute::filter(values, &often).map_err(broken)?);
            }
            let parts: Vec<&dyn Array> = kept.iter().map(AsRef::as_ref).collect();
            let all = match parts.is_empty() {
                true => arrow::array::new_empty_array(&kind),
                false => arrow::compute::concat(&parts).map_err(broken)?,
            };
            let field = Arc::new(Field::new("element", kind, true));
            let offsets = arrow::buffer::OffsetBuffer::from_lengths([all.len()]);
            let list = arrow::array::ListArray::try_new(field, offsets, all, None);
            let list = list.map_err(broken)?;
            fields.push(Field::new(format!("{name}_freqItems"), list.data_type().clone(), true));
            arrays.push(Arc::new(list));
        }
        made(fields, arrays)
    }

    /// A share of the rows of each value of a column.
    pub(super) fn sample_by(&mut self, sample: &StatSampleBy) -> Outcome<LogicalPlan> {
        let input = self.input(sample.input.as_deref())?;
        let column = sample.col.as_ref().ok_or_else(|| Failure::missing("col"))?;
        let column = self.expression(&input, column)?;
        let context = self.session.engine.context();
        let seed = sample.seed.unwrap_or_default();
        let draw = sql::expression(context, input.schema(), &format!("rand({seed})"))?;
        let mut kept = datafusion::logical_expr::lit(false);
        for part in &sample.fractions {
            let stratum = part.stratum.as_ref().ok_or_else(|| Failure::missing("stratum"))?;
            let stratum = crate::expression::literal(stratum)?;
            let stratum = sql::expression_of(context, input.schema(), stratum)?;
            let drawn = draw.clone().lt(datafusion::logical_expr::lit(part.fraction));
            kept = kept.or(column.clone().eq(stratum).and(drawn));
        }
        super::built(datafusion::logical_expr::LogicalPlanBuilder::from(input).filter(kept))
    }
}

fn broken(error: arrow::error::ArrowError) -> Failure {
    Failure::invalid(error.to_string())
}

fn made(fields: Vec<Field>, columns: Vec<ArrayRef>) -> Outcome<LogicalPlan> {
    let schema = Arc::new(Schema::new(fields));
    let batch = RecordBatch::try_new(Arc::clone(&schema), columns).map_err(broken)?;
    of_batches(schema, vec![batch])
}
