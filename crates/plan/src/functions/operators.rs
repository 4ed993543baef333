//! Spark's meaning of operators.

use super::decimal_division::digits;
use super::{decimal_exact, implicit, list_fields, own};
use crate::sql::coercion::with_typed_branches;
use arrow::datatypes::{DataType, Field};
use datafusion::common::{Column, DFSchema, ScalarValue, TableReference};
use datafusion::error::Result;
use datafusion::functions::core::expr_fn::get_field;
use datafusion::logical_expr::expr::{WindowFunction, WindowFunctionParams};
use datafusion::logical_expr::planner::{
    ExprPlanner, PlannerResult, RawBinaryExpr, RawFieldAccessExpr, RawWindowExpr,
};
use datafusion::logical_expr::{
    BinaryExpr, Expr, ExprSchemable, GetFieldAccess, Operator, binary_expr, cast as plain_cast, lit,
};
use datafusion::sql::sqlparser::ast::BinaryOperator;

/// Whole numbers divide into doubles; whole numbers notice overflow; `DIV` gives `BIGINT`; a date
/// plus a number counts days; `array[0]` is the first element.
#[derive(Debug)]
pub(super) struct SparkOperators;

fn whole(data_type: &DataType) -> bool {
    data_type.is_signed_integer()
}

fn call(name: &str, arguments: Vec<Expr>) -> Option<Expr> {
    Some(own(name)?.call(arguments))
}

fn wider(left: &DataType, right: &DataType) -> DataType {
    let size = |data_type: &DataType| data_type.primitive_width().unwrap_or(8);
    if size(left) >= size(right) { left.clone() } else { right.clone() }
}

fn to(expr: Expr, from: &DataType, data_type: &DataType) -> Expr {
    if from == data_type { expr } else { plain_cast(expr, data_type.clone()) }
}

impl ExprPlanner for SparkOperators {
    fn plan_binary_op(
        &self,
        raw: RawBinaryExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawBinaryExpr>> {
        let raw = RawBinaryExpr {
            op: raw.op,
            left: with_typed_branches(raw.left, schema)?,
            right: with_typed_branches(raw.right, schema)?,
        };
        let (Ok(left_type), Ok(right_type)) =
            (raw.left.get_type(schema), raw.right.get_type(schema))
        else {
            return Ok(PlannerResult::Original(raw));
        };
        let operator = match raw.op {
            BinaryOperator::Plus => Some(Operator::Plus),
            BinaryOperator::Minus => Some(Operator::Minus),
            BinaryOperator::Multiply => Some(Operator::Multiply),
            BinaryOperator::Divide => Some(Operator::Divide),
            BinaryOperator::Modulo => Some(Operator::Modulo),
            _ => None,
        };
        let changed = operator.and_then(|operator| {
            sides(&raw, &left_type, &right_type).map(|(left, right)| (operator, left, right))
        });
        let Some((operator, left, right)) = changed else {
            return Ok(match planned(&raw, &left_type, &right_type) {
                Some(expr) => PlannerResult::Planned(expr),
                None => PlannerResult::Original(raw),
            });
        };
        let (left_type, right_type) = (left.get_type(schema)?, right.get_type(schema)?);
        let raw = RawBinaryExpr { op: raw.op, left, right };
        let expr = planned(&raw, &left_type, &right_type)
            .unwrap_or_else(|| binary_expr(raw.left, operator, raw.right));
        Ok(PlannerResult::Planned(expr))
    }

    fn plan_field_access(
        &self,
        raw: RawFieldAccessExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawFieldAccessExpr>> {
        let key = match &raw.field_access {
            GetFieldAccess::ListIndex { key } => key,
            GetFieldAccess::NamedStructField { name } => {
                let name = name.try_as_str().flatten().unwrap_or_default();
                let list = raw.expr.get_type(schema)?;
                return Ok(match field_of(&raw.expr, &list, name) {
                    Some((field, _)) => PlannerResult::Planned(field),
                    None => PlannerResult::Original(raw),
                });
            }
            GetFieldAccess::ListRange { .. } => return Ok(PlannerResult::Original(raw)),
        };
        let data_type = raw.expr.get_type(schema)?;
        if !matches!(data_type, DataType::List(_) | DataType::LargeList(_)) {
            return Ok(PlannerResult::Original(raw));
        }
        // Spark counts from 0 and refuses what is outside.
        let arguments = vec![raw.expr.clone(), (**key).clone()];
        Ok(match call("spark_item", arguments) {
            Some(item) => PlannerResult::Planned(item),
            None => PlannerResult::Original(raw),
        })
    }

    /// A field of a struct, or of each struct in a list.
    fn plan_compound_identifier(
        &self,
        field: &Field,
        qualifier: Option<&TableReference>,
        nested_names: &[String],
    ) -> Result<PlannerResult<Vec<Expr>>> {
        let mut value = Expr::Column(Column::from((qualifier, field)));
        let mut data_type = field.data_type().clone();
        for name in nested_names {
            (value, data_type) = match field_of(&value, &data_type, name) {
                Some(found) => found,
                None => {
                    let inner = match &data_type {
                        DataType::Struct(fields) => fields.find(name).map(|(_, field)| field),
                        _ => None,
                    };
                    let inner = inner.map_or(DataType::Null, |field| field.data_type().clone());
                    (get_field(value, name.as_str()), inner)
                }
            };
        }
        Ok(PlannerResult::Planned(value))
    }

    fn plan_substring(&self, args: Vec<Expr>) -> Result<PlannerResult<Vec<Expr>>> {
        Ok(PlannerResult::Planned(implicit::substring(args)))
    }

    /// Places in a window are `INT`, and not `BIGINT`.
    fn plan_window(&self, raw: RawWindowExpr) -> Result<PlannerResult<RawWindowExpr>> {
        let places = ["row_number", "rank", "dense_rank", "ntile"];
        if !places.contains(&raw.func_def.name().to_lowercase().as_str()) {
            return Ok(PlannerResult::Original(raw));
        }
        let params = WindowFunctionParams {
            args: raw.args,
            partition_by: raw.partition_by,
            order_by: raw.order_by,
            window_frame: raw.window_frame,
            filter: raw.filter,
            null_treatment: raw.null_treatment,
            distinct: raw.distinct,
        };
        let window = Expr::from(WindowFunction { fun: raw.func_def, params });
        Ok(PlannerResult::Planned(plain_cast(window, DataType::Int32)))
    }
}

/// A field of each struct in a list, and its type.
fn field_of(value: &Expr, list: &DataType, name: &str) -> Option<(Expr, DataType)> {
    let field = list_fields::field_in_list(list, name)?;
    let data_type = DataType::new_list(field.data_type().clone(), true);
    let arguments = vec![value.clone(), lit(field.name().as_str())];
    Some((call(list_fields::NAME, arguments)?, data_type))
}

fn text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

/// The whole number that a literal is, with its cast.
fn literal(expr: &Expr) -> Option<i64> {
    match expr {
        Expr::Literal(ScalarValue::Int32(value), _) => value.map(i64::from),
        Expr::Literal(ScalarValue::Int64(value), _) => *value,
        Expr::Negative(value) => literal(value)?.checked_neg(),
        Expr::ScalarFunction(call) if call.name() == "cast" => match call.args.as_slice() {
            [value, Expr::Literal(to, _)] => {
                let to = to.try_as_str().flatten()?;
                ["INT", "BIGINT", "SMALLINT", "TINYINT"].contains(&to).then(|| literal(value))?
            }
            _ => None,
        },
        _ => None,
    }
}

/// A literal beside a decimal is a decimal of so many digits as it has.
fn as_decimal(value: i64) -> Expr {
    let digits = value.unsigned_abs().checked_ilog10().unwrap_or(0) + 1;
    let digits = u8::try_from(digits).unwrap_or(19);
    Expr::Literal(ScalarValue::Decimal128(Some(i128::from(value)), digits, 0), None)
}

/// The sides of an operation as Spark takes them: texts beside numbers are read as numbers, whole
/// literals beside decimals are decimals. Nothing, where they stay as they are.
fn sides(raw: &RawBinaryExpr, left_type: &DataType, right_type: &DataType) -> Option<(Expr, Expr)> {
    let read = |expr: &Expr, other: &DataType| match other {
        other if whole(other) => call("cast", vec![expr.clone(), lit("BIGINT")]),
        other if other.is_numeric() => call("cast", vec![expr.clone(), lit("DOUBLE")]),
        _ => None,
    };
    if text(left_type) {
        return Some((read(&raw.left, right_type)?, raw.right.clone()));
    }
    if text(right_type) {
        return Some((raw.left.clone(), read(&raw.right, left_type)?));
    }
    if left_type.is_decimal() && whole(right_type) {
        return Some((raw.left.clone(), as_decimal(literal(&raw.right)?)));
    }
    if right_type.is_decimal() && whole(left_type) {
        return Some((as_decimal(literal(&raw.left)?), raw.right.clone()));
    }
    None
}

fn planned(raw: &RawBinaryExpr, left_type: &DataType, right_type: &DataType) -> Option<Expr> {
    let (left, right) = (raw.left.clone(), raw.right.clone());
    let number = |data_type: &DataType| data_type.is_numeric() || data_type == &DataType::Null;
    if let Some(function) = decimal_exact::instead(&raw.op, left_type, right_type) {
        return call(function, vec![left, right]);
    }
    match raw.op {
        BinaryOperator::Divide
            if (number(left_type) || text(left_type))
                && (number(right_type) || text(right_type))
                && (!left_type.is_decimal() || right_type.is_floating())
                && (!right_type.is_decimal() || left_type.is_floating()) =>
        {
            call("spark_divide", vec![double(left, left_type)?, double(right, right_type)?])
        }
        BinaryOperator::Divide
            if (left_type.is_decimal() || right_type.is_decimal())
                && digits(left_type).is_some()
                && digits(right_type).is_some() =>
        {
            call("spark_decimal_divide", vec![left, right])
        }
        BinaryOperator::MyIntegerDivide if number(left_type) && number(right_type) => {
            let exact = whole(left_type) && whole(right_type);
            let long = DataType::Int64;
            Some(if exact {
                binary_expr(
                    to(left, left_type, &long),
                    Operator::Divide,
                    to(right, right_type, &long),
                )
            } else {
                let quotient = binary_expr(left, Operator::Divide, right);
                call("cast", vec![quotient, lit("BIGINT")])?
            })
        }
        BinaryOperator::Plus | BinaryOperator::Minus | BinaryOperator::Multiply
            if whole(left_type) && whole(right_type) =>
        {
            let name = match raw.op {
                BinaryOperator::Plus => "spark_add",
                BinaryOperator::Minus => "spark_subtract",
                _ => "spark_multiply",
            };
            let data_type = wider(left_type, right_type);
            let arguments =
                vec![to(left, left_type, &data_type), to(right, right_type, &data_type)];
            call(name, arguments)
        }
        BinaryOperator::Plus if left_type == &DataType::Date32 && whole(right_type) => {
            Some(days(datafusion_spark::function::datetime::date_add(), left, right))
        }
        BinaryOperator::Plus if right_type == &DataType::Date32 && whole(left_type) => {
            Some(days(datafusion_spark::function::datetime::date_add(), right, left))
        }
        BinaryOperator::Minus if left_type == &DataType::Date32 && whole(right_type) => {
            Some(days(datafusion_spark::function::datetime::date_sub(), left, right))
        }
        // A text beside a number is read as one.
        BinaryOperator::Eq
        | BinaryOperator::NotEq
        | BinaryOperator::Lt
        | BinaryOperator::LtEq
        | BinaryOperator::Gt
        | BinaryOperator::GtEq => compared(raw, left_type, right_type),
        _ => None,
    }
}

fn days(
    function: std::sync::Arc<datafusion::logical_expr::ScalarUDF>,
    date: Expr,
    days: Expr,
) -> Expr {
    function.call(vec![date, plain_cast(days, DataType::Int32)])
}

fn double(expr: Expr, data_type: &DataType) -> Option<Expr> {
    match data_type {
        DataType::Float64 => Some(expr),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
            call("cast", vec![expr, lit("DOUBLE")])
        }
        _ => Some(plain_cast(expr, DataType::Float64)),
    }
}

/// In comparisons Spark reads the text as a value of the other side's type.
fn compared(raw: &RawBinaryExpr, left_type: &DataType, right_type: &DataType) -> Option<Expr> {
    let op = match raw.op {
        BinaryOperator::Eq => Operator::Eq,
        BinaryOperator::NotEq => Operator::NotEq,
        BinaryOperator::Lt => Operator::Lt,
        BinaryOperator::LtEq => Operator::LtEq,
        BinaryOperator::Gt => Operator::Gt,
        _ => Operator::GtEq,
    };
    let wanted = |other: &DataType| match other {
        DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Int64 => Some("BIGINT"),
        DataType::Float32 | DataType::Float64 | DataType::Decimal128(..) => Some("DOUBLE"),
        DataType::Date32 => Some("DATE"),
        DataType::Timestamp(_, Some(_)) => Some("TIMESTAMP"),
        DataType::Timestamp(_, None) => Some("TIMESTAMP_NTZ"),
        DataType::Boolean => Some("BOOLEAN"),
        _ => None,
    };
    let (left, right) = (raw.left.clone(), raw.right.clone());
    let (left, right) = if text(left_type) {
        (call("cast", vec![left, lit(wanted(right_type)?)])?, right)
    } else if text(right_type) {
        (left, call("cast", vec![right, lit(wanted(left_type)?)])?)
    } else if left_type.is_decimal() && right_type.is_floating() {
        // A decimal has no room for every double.
        (plain_cast(left, DataType::Float64), right)
    } else if right_type.is_decimal() && left_type.is_floating() {
        (left, plain_cast(right, DataType::Float64))
    } else {
        return None;
    };
    Some(Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(right))))
}
