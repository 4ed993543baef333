//! Watermarks and deduplication in a query.

use super::event_time::{delay_of, instant_type};
use super::nodes::{Deduplicate, EventTimeWatermark, Identity, extension};
use crate::failure;
use crate::interval::parse_interval;
use crate::schema::type_name;
use crate::sql;
use datafusion::common::{Column, ExprSchema};
use datafusion::logical_expr::{Expr, LogicalPlan};
use onefold_types::{Error, Result};

/// `withWatermark(column, delay)`: the column is the event time of what comes out, and rows that
/// come more than the delay behind the latest time may be dropped.
///
/// The delay is an interval as Spark writes it (`10 minutes`, `interval '5' second`); a month in it
/// counts 31 days, as in Spark.
///
/// # Errors
/// Invalid: there is no such column, it is neither a timestamp nor a window, or the delay is no
/// interval or below zero.
pub fn with_watermark(plan: LogicalPlan, column: &str, delay: &str) -> Result<LogicalPlan> {
    let column = plain_column(&plan, column)?;
    let field = plan.schema().field_from_column(&column).map_err(failure::planning)?;
    if instant_type(field.data_type()).is_none() {
        return Err(Error::invalid(format!(
            "event time must be defined on a window or a timestamp, but `{}` is of type {}",
            column.name,
            type_name(field.data_type())
        )));
    }
    let micros = parse_interval(delay)?.micros_with_months();
    let micros = micros.ok_or_else(|| {
        Error::invalid(format!("the delay threshold '{delay}' of a watermark is too long"))
    })?;
    if micros < 0 {
        return Err(Error::invalid(format!(
            "the delay threshold '{delay}' of a watermark should not be negative"
        )));
    }
    let node = EventTimeWatermark::try_new(plan, Expr::Column(column), micros / 1_000, 0);
    Ok(extension(node.map_err(failure::planning)?))
}

/// `dropDuplicates([columns])`, or `dropDuplicatesWithinWatermark([columns])`. Without columns, all
/// columns are the key.
///
/// # Errors
/// Invalid: there is no such column, or no column has a watermark where one is needed.
pub fn drop_duplicates(
    plan: LogicalPlan,
    columns: Option<&[&str]>,
    within_watermark: bool,
) -> Result<LogicalPlan> {
    let keys: Vec<Expr> = match columns {
        Some(names) => {
            let mut keys: Vec<Expr> = Vec::with_capacity(names.len());
            for name in names {
                let key = Expr::Column(plain_column(&plan, name)?);
                if !keys.contains(&key) {
                    keys.push(key);
                }
            }
            keys
        }
        None => plan
            .schema()
            .iter()
            .filter(|(_, field)| !super::hidden(field))
            .map(|(qualifier, field)| Expr::Column(Column::from((qualifier, field))))
            .collect(),
    };
    let within_ms = if within_watermark { Some(delay(&plan)?) } else { None };
    Ok(extension(Deduplicate {
        identity: Identity::default(),
        input: plan,
        keys,
        event_time: None,
        within_ms,
    }))
}

fn delay(plan: &LogicalPlan) -> Result<i64> {
    let delays = plan.schema().fields().iter().find_map(|field| delay_of(field));
    delays.ok_or_else(|| {
        Error::invalid(
            "dropDuplicatesWithinWatermark is not supported on streaming DataFrames/Datasets \
             without watermark; call withWatermark before it",
        )
    })
}

/// The column of a name, which cannot be a field of a struct.
fn plain_column(plan: &LogicalPlan, name: &str) -> Result<Column> {
    let name = name.trim();
    let bare = name.strip_prefix('`').and_then(|name| name.strip_suffix('`')).unwrap_or(name);
    match sql::column(plan.schema(), bare)? {
        Expr::Column(column) => Ok(column),
        Expr::Alias(alias) => match *alias.expr {
            Expr::Column(column) => Ok(column),
            other => Err(Error::internal(format!("{other} is no column"))),
        },
        other => Err(Error::internal(format!("{other} is no column"))),
    }
}
