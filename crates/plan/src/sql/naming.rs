//! Spark's names for columns without an alias.

mod windows;

use super::rewrite::field_name;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CaseWhen, CastKind, CeilFloorKind, DateTimeField, DuplicateTreatment, Expr,
    Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, LambdaFunction,
    UnaryOperator, Value, WindowType, visit_expressions_mut,
};
use std::ops::ControlFlow;

/// The name as Spark makes it: `(a + 1)`, `upper(name)`, `CAST(a AS STRING)`; close to Spark's for
/// what is not listed here.
pub(super) fn name_of(expr: &Expr) -> String {
    match expr {
        Expr::Identifier(name) => name.value.clone(),
        Expr::CompoundIdentifier(names) => {
            names.last().map(|name| name.value.clone()).unwrap_or_default()
        }
        Expr::Nested(inner) => name_of(inner),
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) | Value::DoubleQuotedString(text) => text.clone(),
            Value::Null => "NULL".to_owned(),
            Value::Boolean(value) => value.to_string(),
            Value::Number(digits, _) => digits.clone(),
            other => other.to_string(),
        },
        Expr::BinaryOp { left, op, right } => {
            let (left, right) = (inner_name(left), inner_name(right));
            match op {
                BinaryOperator::StringConcat => format!("concat({left}, {right})"),
                BinaryOperator::Eq => format!("({left} = {right})"),
                BinaryOperator::MyIntegerDivide => format!("({left} div {right})"),
                op => format!("({left} {op} {right})"),
            }
        }
        Expr::UnaryOp { op: UnaryOperator::Not | UnaryOperator::BangNot, expr } => {
            format!("(NOT {})", inner_name(expr))
        }
        Expr::UnaryOp { op: UnaryOperator::BitwiseNot, expr } => format!("~{}", inner_name(expr)),
        Expr::UnaryOp { op, expr } => match expr.as_ref() {
            Expr::Value(_) => format!("{op}{}", inner_name(expr)),
            _ => format!("({op} {})", inner_name(expr)),
        },
        // A column keeps its name.
        Expr::Cast { expr, .. }
            if matches!(**expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_)) =>
        {
            name_of(expr)
        }
        // A literal with its type, and no cast that somebody wrote: `1.5D`.
        Expr::Cast { kind: CastKind::DoubleColon, expr, .. } if is_literal(expr) => name_of(expr),
        Expr::Cast { kind: CastKind::TryCast, expr, data_type, .. } => {
            format!("TRY_CAST({} AS {data_type})", inner_name(expr))
        }
        Expr::IsNotDistinctFrom(left, right) => {
            format!("({} <=> {})", inner_name(left), inner_name(right))
        }
        Expr::InList { expr, list, negated } => {
            let list: Vec<String> = list.iter().map(inner_name).collect();
            let within = format!("({} IN ({}))", inner_name(expr), list.join(", "));
            if *negated { format!("(NOT {within})") } else { within }
        }
        Expr::Like { negated, expr, pattern, .. } => {
            let like = format!("{} LIKE {}", inner_name(expr), inner_name(pattern));
            if *negated { format!("(NOT {like})") } else { like }
        }
        Expr::ILike { negated, expr, pattern, .. } => {
            let like = format!("ilike({}, {})", inner_name(expr), inner_name(pattern));
            if *negated { format!("(NOT {like})") } else { like }
        }
        Expr::RLike { negated, expr, pattern, .. } => {
            let like = format!("RLIKE({}, {})", inner_name(expr), inner_name(pattern));
            if *negated { format!("(NOT {like})") } else { like }
        }
        Expr::Between { expr, negated, low, high } => {
            let value = inner_name(expr);
            let (low, high) = (inner_name(low), inner_name(high));
            match negated {
                false => format!("between({value}, {low}, {high})"),
                true => format!("(NOT between({value}, {low}, {high}))"),
            }
        }
        Expr::Case { operand, conditions, else_result, .. } => {
            case_name(operand.as_deref(), conditions, else_result.as_deref())
        }
        Expr::Cast { expr, data_type, .. } => {
            format!("CAST({} AS {data_type})", inner_name(expr))
        }
        Expr::IsNull(inner) => format!("({} IS NULL)", inner_name(inner)),
        Expr::IsNotNull(inner) => format!("({} IS NOT NULL)", inner_name(inner)),
        Expr::Function(function) => {
            let mut name = function.name.to_string().to_lowercase();
            // A function that came with an expression has a number behind its own name.
            let own = function.name.0.last().and_then(|part| part.as_ident());
            if let Some((shown, _)) = own.and_then(|ident| ident.value.rsplit_once('#')) {
                shown.clone_into(&mut name);
            }
            match name.as_str() {
                "explode" | "explode_outer" => return "col".to_owned(),
                // Spark calls windows so however they are made.
                "window" | "session_window" => return name,
                _ => {}
            }
            function_name(function, &name)
        }
        Expr::Substring { expr, substring_from, substring_for, .. } => {
            let from = substring_from.as_deref().map_or_else(|| "1".to_owned(), inner_name);
            let length =
                substring_for.as_deref().map_or_else(|| "2147483647".to_owned(), inner_name);
            format!("substring({}, {from}, {length})", inner_name(expr))
        }
        Expr::Trim { trim_where: None, trim_what: None, expr, trim_characters: None } => {
            format!("trim({})", inner_name(expr))
        }
        Expr::Ceil { expr, field: CeilFloorKind::DateTimeField(DateTimeField::NoDateTime) } => {
            format!("CEIL({})", inner_name(expr))
        }
        Expr::Floor { expr, field: CeilFloorKind::DateTimeField(DateTimeField::NoDateTime) } => {
            format!("FLOOR({})", inner_name(expr))
        }
        Expr::Lambda(lambda) => lambda_name(lambda),
        Expr::Extract { field, expr, .. } => {
            format!("extract({field} FROM {})", inner_name(expr))
        }
        Expr::Struct { values, .. } => {
            let fields: Vec<String> = values.iter().map(inner_name).collect();
            format!("struct({})", fields.join(", "))
        }
        // An instant has no zone in its name.
        Expr::TypedString(_) => {
            let text = expr.to_string();
            text.strip_suffix("Z'").map(|text| format!("{text}'")).unwrap_or(text)
        }
        Expr::Named { expr, name } => format!("{} AS {}", inner_name(expr), name.value),
        Expr::CompoundFieldAccess { root, access_chain } => {
            let dotted = gives_struct(root);
            let chain = access_chain.iter().map(|access| match field_name(access) {
                Some(name) if dotted => format!(".{name}"),
                _ => access.to_string(),
            });
            format!("{}{}", inner_name(root), chain.collect::<String>())
        }
        other => other.to_string(),
    }
}

/// Whether a call gives a struct, whose fields Spark shows behind a point.
fn gives_struct(root: &Expr) -> bool {
    let Expr::Function(call) = root else { return false };
    ["from_json", "from_csv", "named_struct", "struct"]
        .contains(&call.name.to_string().to_lowercase().as_str())
}

fn function_name(function: &Function, name: &str) -> String {
    let (distinct, mut arguments) = match &function.args {
        FunctionArguments::List(list) => (
            list.duplicate_treatment == Some(DuplicateTreatment::Distinct),
            list.args.iter().map(argument_name).collect::<Vec<_>>(),
        ),
        _ => (false, Vec::new()),
    };
    if name == "count" && arguments == ["*"] {
        arguments = vec!["1".to_owned()];
    }
    let spec = match &function.over {
        Some(WindowType::WindowSpec(spec)) => Some(spec),
        _ => None,
    };
    let shifted = spec.and_then(|_| windows::shifted(name, &mut arguments));
    let shown = match name {
        known if UPPER.contains(&known) => name.to_uppercase(),
        other => other.to_owned(),
    };
    let distinct = if distinct { "DISTINCT " } else { "" };
    let count = arguments.len();
    let gives_map = arguments.get(1).is_some_and(|schema| is_map(schema));
    let shown_first = arguments.first().cloned().unwrap_or_default();
    let arguments = arguments.join(", ");
    let call = match name {
        "isnull" => format!("({arguments} IS NULL)"),
        "isnotnull" => format!("({arguments} IS NOT NULL)"),
        "array_sort" if count == 1 => format!("array_sort({arguments}, {NULLS_LAST})"),
        "first" | "last" | "first_value" | "last_value" | "any_value" | "mode" if count == 2 => {
            format!("{shown}({shown_first})")
        }
        "if" => format!("(IF({arguments}))"),
        "bitwise_not" => format!("~{arguments}"),
        "aggregate" | "reduce" if count == 3 => format!("{shown}({arguments}, {SAME})"),
        "approx_count_distinct" => format!("{shown}({shown_first})"),
        "from_json" if gives_map => "entries".to_owned(),
        // Neither schema nor options are shown.
        "from_json" | "from_csv" | "to_json" | "to_csv" | "schema_of_json" | "schema_of_csv" => {
            format!("{name}({})", shown_first)
        }
        "listagg" if count == 1 => format!("{shown}({distinct}{arguments}, NULL)"),
        _ => format!("{shown}({distinct}{arguments})"),
    };
    let over = spec.map(|spec| windows::over(name, spec)).unwrap_or_default();
    match shifted {
        Some(frame) => call + &windows::with_frame(&over, &frame),
        None => call + &over,
    }
}

/// The end of a fold, where none is given.
const SAME: &str = "lambdafunction(namedlambdavariable(), namedlambdavariable())";

/// Whether a text is the type of a map, in either form.
fn is_map(schema: &str) -> bool {
    if let Ok(json) = serde_json::from_str::<serde_json::Value>(schema) {
        return json.get("type").is_some_and(|it| it == "map");
    }
    schema.trim_start().to_uppercase().replace(' ', "").starts_with("MAP<")
}

/// Functions that Spark shows in capitals.
const UPPER: [&str; 37] = [
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "cbrt",
    "ceil",
    "cos",
    "cosh",
    "cot",
    "csc",
    "degrees",
    "dense_rank",
    "e",
    "exp",
    "expm1",
    "floor",
    "hypot",
    "log",
    "log10",
    "log1p",
    "log2",
    "percent_rank",
    "pi",
    "power",
    "radians",
    "rank",
    "sec",
    "signum",
    "sin",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
    "rlike",
];

/// How Spark shows the order of `array_sort`, when none is given.
const NULLS_LAST: &str = "lambdafunction((IF(((namedlambdavariable() IS NULL) AND \
     (namedlambdavariable() IS NULL)), 0, (IF((namedlambdavariable() IS NULL), 1, \
     (IF((namedlambdavariable() IS NULL), -1, (IF((namedlambdavariable() < namedlambdavariable()), \
     -1, (IF((namedlambdavariable() > namedlambdavariable()), 1, 0)))))))))), \
     namedlambdavariable(), namedlambdavariable())";

/// A lambda as Spark shows it: its parameters have no names.
fn lambda_name(lambda: &LambdaFunction) -> String {
    const VARIABLE: &str = "namedlambdavariable()";
    let known: Vec<String> =
        lambda.params.iter().map(|parameter| parameter.name.value.to_lowercase()).collect();
    let mut body = lambda.body.as_ref().clone();
    let _: ControlFlow<()> = visit_expressions_mut(&mut body, |expr| {
        let first = match expr {
            Expr::Identifier(name) => Some(name),
            Expr::CompoundIdentifier(path) => path.first_mut(),
            _ => None,
        };
        if let Some(name) = first.filter(|name| known.contains(&name.value.to_lowercase())) {
            *name = Ident::new(VARIABLE);
        }
        ControlFlow::Continue(())
    });
    let variables = vec![VARIABLE; known.len()].join(", ");
    format!("lambdafunction({}, {variables})", inner_name(&body))
}

fn is_literal(expr: &Expr) -> bool {
    match expr {
        Expr::Value(_) => true,
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => matches!(**expr, Expr::Value(_)),
        _ => false,
    }
}

fn case_name(operand: Option<&Expr>, conditions: &[CaseWhen], otherwise: Option<&Expr>) -> String {
    let mut name = "CASE".to_owned();
    for when in conditions {
        let condition = match operand {
            Some(operand) => {
                format!("({} = {})", inner_name(operand), inner_name(&when.condition))
            }
            None => inner_name(&when.condition),
        };
        name.push_str(&format!(" WHEN {condition} THEN {}", inner_name(&when.result)));
    }
    if let Some(otherwise) = otherwise {
        name.push_str(&format!(" ELSE {}", inner_name(otherwise)));
    }
    name + " END"
}

/// Inside an expression a path keeps its parts.
fn inner_name(expr: &Expr) -> String {
    match expr {
        Expr::Cast { kind: CastKind::Cast, expr, data_type, .. }
            if matches!(**expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_)) =>
        {
            format!("CAST({} AS {data_type})", inner_name(expr))
        }
        Expr::CompoundIdentifier(names) => {
            names.iter().map(|name| name.value.as_str()).collect::<Vec<_>>().join(".")
        }
        Expr::Nested(inner) => inner_name(inner),
        other => name_of(other),
    }
}

fn argument_name(argument: &FunctionArg) -> String {
    match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => inner_name(expr),
        other => other.to_string(),
    }
}
