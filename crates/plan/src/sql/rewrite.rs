//! Spark's expressions in the forms that DataFusion's planner takes.

use super::text::parse_expression;
use super::{counted, forms, intervals};
use crate::functions::{higher_order, inferred};
use datafusion::sql::sqlparser::ast::{
    AccessExpr, ArrayElemTypeDef, BinaryOperator, CastKind, CeilFloorKind, DataType, DateTimeField,
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentList, FunctionArguments, Ident,
    NullTreatment, ObjectName, Subscript, UnaryOperator, Value,
};
use onefold_types::{Error, Result};

/// Functions that cast to the type of their name.
const CASTS: [&str; 13] = [
    "string",
    "boolean",
    "tinyint",
    "smallint",
    "int",
    "bigint",
    "float",
    "double",
    "decimal",
    "date",
    "timestamp",
    "binary",
    "timestamp_ntz",
];

/// Rewrites one node before its children: `f(x).a` is `f(x)['a']`, and `a` no column.
pub(super) fn field_access(expr: &mut Expr) {
    let Expr::CompoundFieldAccess { access_chain, .. } = expr else { return };
    for access in access_chain {
        if let AccessExpr::Dot(Expr::Identifier(name)) = access {
            let index = Expr::Value(Value::SingleQuotedString(name.value.clone()).into());
            *access = AccessExpr::Subscript(Subscript::Index { index });
        }
    }
}

/// `root.a.b`, where the root is no column.
pub(super) fn fields_of(root: Expr, path: &[Ident]) -> Expr {
    let access_chain = path
        .iter()
        .map(|name| {
            let index = Expr::Value(Value::SingleQuotedString(name.value.clone()).into());
            AccessExpr::Subscript(Subscript::Index { index })
        })
        .collect();
    Expr::CompoundFieldAccess { root: Box::new(root), access_chain }
}

/// Rewrites one node whose children are done.
pub(super) fn expression(expr: &mut Expr) -> Result<()> {
    match expr {
        Expr::RLike { .. }
        | Expr::Cast { .. }
        | Expr::TypedString(_)
        | Expr::Ceil { .. }
        | Expr::Floor { .. }
        | Expr::Struct { .. }
        | Expr::Interval(_)
        | Expr::Nested(_) => replace(expr),
        Expr::Value(value) => match &value.value {
            // An exponent makes a double; other fractions are decimals.
            Value::Number(text, _) if text.contains(['e', 'E']) => {
                let text = Expr::Value(Value::SingleQuotedString(text.clone()).into());
                *expr = cast("cast", text, "DOUBLE");
                Ok(())
            }
            Value::SingleQuotedRawStringLiteral(text)
            | Value::DoubleQuotedRawStringLiteral(text) => {
                *expr = Expr::Value(Value::SingleQuotedString(text.clone()).into());
                Ok(())
            }
            _ => Ok(()),
        },
        Expr::UnaryOp { op: UnaryOperator::BitwiseNot, expr: value } => {
            int(value);
            *expr = call("bitwise_not", vec![(**value).clone()]);
            Ok(())
        }
        Expr::UnaryOp { op, .. } if *op == UnaryOperator::BangNot => {
            *op = UnaryOperator::Not;
            Ok(())
        }
        Expr::BinaryOp { left, op, right } => {
            if !matches!(op, BinaryOperator::And | BinaryOperator::Or) {
                int(left);
                int(right);
            }
            Ok(())
        }
        Expr::Case { conditions, else_result, .. } => {
            for when in conditions {
                int(&mut when.result);
            }
            if let Some(result) = else_result {
                int(result);
            }
            Ok(())
        }
        Expr::Function(_) => function(expr),
        Expr::Lambda(lambda) => {
            int(&mut lambda.body);
            Ok(())
        }
        _ => Ok(()),
    }
}

/// A number that stands alone as an item is an `INT` if it fits.
pub(super) fn top_level(expr: &mut Expr) {
    int(expr);
}

fn replace(expr: &mut Expr) -> Result<()> {
    let placeholder = Expr::Value(Value::Null.into());
    *expr = match std::mem::replace(expr, placeholder) {
        Expr::Nested(inner) => *inner,
        Expr::Struct { values, fields } if fields.is_empty() => structure(values),
        Expr::RLike { negated, expr, pattern, .. } => {
            let like = call("regexp_like", vec![*expr, *pattern]);
            if negated {
                Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(like) }
            } else {
                like
            }
        }
        Expr::Cast { kind, expr, data_type, format: None, .. } => {
            let function = match kind {
                CastKind::TryCast | CastKind::SafeCast => "try_cast",
                CastKind::Cast | CastKind::DoubleColon => "cast",
            };
            cast(function, *expr, &type_text(&data_type))
        }
        Expr::TypedString(typed) => {
            cast("cast", Expr::Value(typed.value), &type_text(&typed.data_type))
        }
        Expr::Interval(interval) => match intervals::of_several_units(&interval) {
            Some(value) => value?,
            None => Expr::Interval(interval),
        },
        Expr::Ceil { expr, field } => rounded("ceil", expr, field),
        Expr::Floor { expr, field } => rounded("floor", expr, field),
        other => other,
    };
    Ok(())
}

fn rounded(name: &str, expr: Box<Expr>, field: CeilFloorKind) -> Expr {
    match (name, field) {
        (_, CeilFloorKind::DateTimeField(DateTimeField::NoDateTime)) => call(name, vec![*expr]),
        (_, CeilFloorKind::Scale(scale)) => call(name, vec![*expr, Expr::Value(scale)]),
        ("ceil", field) => Expr::Ceil { expr, field },
        (_, field) => Expr::Floor { expr, field },
    }
}

fn plain(argument: &FunctionArg) -> Option<Expr> {
    match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
        _ => None,
    }
}

fn function(expr: &mut Expr) -> Result<()> {
    let Expr::Function(function) = expr else { return Ok(()) };
    let name = function.name.to_string().to_lowercase();
    let FunctionArguments::List(list) = &mut function.args else { return Ok(()) };
    let lambda = |argument: &FunctionArg| {
        matches!(argument, FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Lambda(_))))
    };
    if list.args.iter().any(lambda) {
        ints(&mut list.args);
        let known = higher_order::known_as(name.trim_matches('`'))
            .ok_or_else(|| Error::invalid(format!("`{name}` takes no function (`x -> …`)")))?;
        function.name = ObjectName::from(vec![Ident::new(known)]);
        return Ok(());
    }
    let arguments: Option<Vec<Expr>> = list.args.iter().map(plain).collect();
    if let Some(other) = arguments.and_then(|arguments| forms::other(&name, arguments)) {
        *expr = other;
        return Ok(());
    }
    match name.as_str() {
        "isnull" | "isnotnull" => {
            if let [FunctionArg::Unnamed(FunctionArgExpr::Expr(argument))] = list.args.as_slice() {
                let argument = Box::new(argument.clone());
                *expr = match name.as_str() {
                    "isnull" => Expr::IsNull(argument),
                    _ => Expr::IsNotNull(argument),
                };
            }
        }
        "first" | "last" | "first_value" | "last_value" | "any_value" => {
            // Over a window of rows the planner looks for these by one name only.
            if function.over.is_some() {
                let known = if name.starts_with("last") { "last_value" } else { "first_value" };
                function.name = ObjectName::from(vec![Ident::new(known)]);
            }
            if let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(ignore)))) =
                list.args.get(1)
                && let Value::Boolean(ignore) = ignore.value
            {
                list.args.pop();
                function.null_treatment = ignore.then_some(NullTreatment::IgnoreNulls);
                // DataFusion's `any_value` cannot be told what to do with NULL.
                if name == "any_value" {
                    function.name = ObjectName::from(vec![Ident::new("first_value")]);
                }
            }
            ints(&mut list.args);
        }
        "struct" => {
            if let Some(fields) = list.args.iter().map(plain).collect() {
                *expr = structure(fields);
            }
        }
        "count_if" => counted::rows_where(function),
        // A struct that is made here is never NULL, and Avro writes what may be NULL otherwise.
        "to_avro" => {
            options_as_text(&mut list.args);
            let made = list.args.first().and_then(plain);
            if let Some(Expr::Function(made)) = made
                && made.name.to_string() == "named_struct"
            {
                let null = || Expr::Value(Value::Null.into());
                let argument = |expr| FunctionArg::Unnamed(FunctionArgExpr::Expr(expr));
                while list.args.len() < 3 {
                    list.args.push(argument(null()));
                }
                list.args.push(argument(Expr::Value(Value::Boolean(true).into())));
            }
            ints(&mut list.args);
        }
        // What a schema is read with must be known when the query is planned.
        "from_avro" | "from_protobuf" | "to_protobuf" => {
            options_as_text(&mut list.args);
            ints(&mut list.args);
        }
        // A length of -1 is that of the replacement.
        "overlay" if list.args.get(3).is_some_and(|length| length.to_string() == "-1") => {
            list.args.truncate(3);
            ints(&mut list.args);
        }
        "schema_of_json" | "schema_of_csv" => {
            // A schema must be known before any row is read.
            if let [FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(sample)))] =
                list.args.as_slice()
                && let Value::SingleQuotedString(sample) = &sample.value
                && let Some(schema) = inferred::schema_of(&name, sample)
            {
                *expr = Expr::Value(Value::SingleQuotedString(schema).into());
            }
        }
        "unix_timestamp" if list.args.is_empty() => {
            *expr = call("unix_timestamp", vec![call("now", Vec::new())]);
        }
        _ if CASTS.contains(&name.as_str()) => {
            if let [FunctionArg::Unnamed(FunctionArgExpr::Expr(argument))] = list.args.as_slice() {
                *expr = cast("cast", argument.clone(), &name);
            }
        }
        // Any number does to be counted, and DataFusion knows `count(1)`.
        "count" => counted::rows_of_several(function),
        // A number that grows from row to row, as it may in Spark from partition to partition.
        "monotonically_increasing_id" if list.args.is_empty() && function.over.is_none() => {
            *expr = parse_expression(
                "count(1) OVER (ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) - CAST(1 AS BIGINT)",
            )?;
        }
        // A seed is a number as it stands.
        "rand" | "random" | "randn" => {}
        // So many rows: the type depends on it.
        "stack" => ints(list.args.get_mut(1..).unwrap_or_default()),
        _ => ints(&mut list.args),
    }
    Ok(())
}

/// The map of options of a function on data in a binary form as JSON.
fn options_as_text(arguments: &mut [FunctionArg]) {
    if let Some((place, text)) = arguments.iter_mut().skip(2).find_map(|it| literal_map(it)) {
        *place = Expr::Value(Value::SingleQuotedString(text).into());
    }
}

/// An argument that is a map of literal texts, and the map as JSON.
fn literal_map(argument: &mut FunctionArg) -> Option<(&mut Expr, String)> {
    let FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) = argument else { return None };
    let Expr::Function(call) = &*expr else { return None };
    let FunctionArguments::List(list) = &call.args else { return None };
    if !call.name.to_string().eq_ignore_ascii_case("map") {
        return None;
    }
    let text = |argument: &FunctionArg| match plain(argument)? {
        Expr::Value(value) => match value.value {
            Value::SingleQuotedString(text) => Some(serde_json::Value::String(text)),
            _ => None,
        },
        _ => None,
    };
    let texts = list.args.iter().map(text).collect::<Option<Vec<_>>>()?;
    let mut map = serde_json::Map::new();
    for pair in texts.chunks(2) {
        let [serde_json::Value::String(name), value] = pair else { return None };
        map.insert(name.clone(), value.clone());
    }
    let json = serde_json::Value::Object(map).to_string();
    Some((expr, json))
}

/// Bare whole numbers are `INT`, as in Spark, and not `BIGINT`, as in DataFusion.
fn ints(arguments: &mut [FunctionArg]) {
    for argument in arguments {
        if let FunctionArg::Unnamed(FunctionArgExpr::Expr(argument)) = argument {
            int(argument);
        }
    }
}

/// `struct(a, b.c, 1, 2 AS two)` has the fields `a`, `c`, by its place `col3`, and `two`.
fn structure(fields: Vec<Expr>) -> Expr {
    let mut named = Vec::with_capacity(fields.len() * 2);
    for (place, field) in fields.into_iter().enumerate() {
        let (name, mut value) = match field {
            Expr::Named { expr, name } => (Some(name.value), *expr),
            Expr::Identifier(name) => (Some(name.value.clone()), Expr::Identifier(name)),
            Expr::CompoundIdentifier(path) => {
                (path.last().map(|name| name.value.clone()), Expr::CompoundIdentifier(path))
            }
            Expr::CompoundFieldAccess { root, access_chain } => {
                let name = access_chain.last().and_then(field_name);
                (name, Expr::CompoundFieldAccess { root, access_chain })
            }
            other => (None, other),
        };
        int(&mut value);
        let name = name.unwrap_or_else(|| format!("col{}", place + 1));
        named.push(Expr::Value(Value::SingleQuotedString(name).into()));
        named.push(value);
    }
    call("named_struct", named)
}

/// The field that an access names.
pub(super) fn field_name(access: &AccessExpr) -> Option<String> {
    let AccessExpr::Subscript(Subscript::Index { index: Expr::Value(value) }) = access else {
        return None;
    };
    match &value.value {
        Value::SingleQuotedString(name) => Some(name.clone()),
        _ => None,
    }
}

/// Makes a bare whole number an `INT`, if it fits.
fn int(expr: &mut Expr) {
    let (sign, number) = match &*expr {
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => ("-", expr.as_ref()),
        other => ("", other),
    };
    let Expr::Value(value) = number else { return };
    let Value::Number(text, false) = &value.value else { return };
    if format!("{sign}{text}").parse::<i32>().is_err() {
        return;
    }
    let placeholder = Expr::Value(Value::Null.into());
    *expr = cast("cast", std::mem::replace(expr, placeholder), "INT");
}

pub(super) fn cast(function: &str, expr: Expr, to: &str) -> Expr {
    call(function, vec![expr, Expr::Value(Value::SingleQuotedString(to.to_owned()).into())])
}

pub(super) fn call(name: &str, arguments: Vec<Expr>) -> Expr {
    let args = arguments
        .into_iter()
        .map(|argument| FunctionArg::Unnamed(FunctionArgExpr::Expr(argument)))
        .collect();
    Expr::Function(Function {
        name: ObjectName::from(vec![Ident::new(name)]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args,
            clauses: Vec::new(),
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    })
}

/// A type as Spark's DDL writes it.
fn type_text(data_type: &DataType) -> String {
    match data_type {
        DataType::Map(key, value) => format!("MAP<{}, {}>", type_text(key), type_text(value)),
        DataType::Array(
            ArrayElemTypeDef::AngleBracket(element) | ArrayElemTypeDef::Parenthesis(element),
        ) => format!("ARRAY<{}>", type_text(element)),
        DataType::Struct(fields, _) => {
            let fields: Vec<String> = fields
                .iter()
                .map(|field| match &field.field_name {
                    Some(name) => format!("{name}: {}", type_text(&field.field_type)),
                    None => type_text(&field.field_type),
                })
                .collect();
            format!("STRUCT<{}>", fields.join(", "))
        }
        other => other.to_string(),
    }
}
