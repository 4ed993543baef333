//! Schemas that a query takes from a registry: found when the query is planned, and written into it.
//!
//! *Why here:* what a function gives depends on its schema, so that it must be known before there is a
//! plan, and may not be another one while the plan lives. What data was written with is found by its id
//! when it is read: an id never changes its meaning.

use crate::functions::registry::{ADDRESS, FOUND, Handle, MESSAGE, REGISTER, SUBJECT};
use datafusion::execution::session_state::SessionState;
use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Value, VisitMut,
    visit_expressions_mut,
};
use onefold_connector::{RegisteredSchema, SchemaContent};
use onefold_types::{Error, Result};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::ControlFlow;
use std::sync::Arc;

type Options = BTreeMap<String, String>;

/// Writes the schemas into what was parsed, where functions name a registry's subject.
///
/// # Errors
/// Those of the registry; Invalid, when a subject holds schemas of another kind.
pub(super) fn pin(state: &SessionState, parsed: &mut impl VisitMut) -> Result<()> {
    let pinned = visit_expressions_mut(parsed, |expr| {
        let Expr::Function(call) = expr else { return ControlFlow::Continue(()) };
        match function(state, call) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(error),
        }
    });
    match pinned {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

fn function(state: &SessionState, call: &mut Function) -> Result<()> {
    let name = call.name.to_string().to_lowercase();
    let name = name.trim_matches('`');
    let FunctionArguments::List(list) = &mut call.args else { return Ok(()) };
    if matches!(name, "from_avro" | "to_avro") {
        subject_and_address(name, &mut list.args)?;
    }
    let place = match name {
        "from_avro" | "to_avro" => 2,
        // The descriptors may be left out.
        "from_protobuf" | "to_protobuf" => list.args.len().saturating_sub(1).max(2),
        _ => return Ok(()),
    };
    let Some(mut options) = list.args.get(place).and_then(options) else { return Ok(()) };
    if options.contains_key(FOUND) || !options.keys().any(|key| key.starts_with("schema.registry."))
    {
        return Ok(());
    }
    let asked = Asked::of(state, name, &options)?;
    let second = list.args.get(1).and_then(text);
    match name {
        "from_avro" => {
            let found = asked.newest()?;
            let own = second.filter(|it| !it.trim().is_empty());
            let schema = own.or(options.remove("avroSchema")).map_or_else(|| avro(&found), Ok)?;
            set(&mut list.args, 1, quoted(schema));
            options.insert(FOUND.to_owned(), found.id.to_string());
        }
        "to_avro" => {
            let (id, schema) = asked.avro_to_write(second, &options)?;
            set(&mut list.args, 1, quoted(schema));
            let id = Value::Number(id.to_string(), false);
            set(&mut list.args, 2, Expr::Value(id.into()));
            return Ok(());
        }
        _ => {
            let found = asked.newest()?;
            let (descriptors, first) = protobuf(&found)?;
            let named = options.remove(MESSAGE).or(second).filter(|it| !it.trim().is_empty());
            set(&mut list.args, 1, quoted(named.unwrap_or(first)));
            options.insert("wireFormat".to_owned(), "confluent".to_owned());
            options.insert(FOUND.to_owned(), found.id.to_string());
            list.args.truncate(2);
            list.args.push(argument(Expr::Value(
                Value::HexStringLiteral(hexadecimal(&descriptors)).into(),
            )));
            list.args.push(argument(quoted(json(&options)?)));
            return Ok(());
        }
    }
    set(&mut list.args, place, quoted(json(&options)?));
    Ok(())
}

/// Databricks' way to name a registry, `from_avro(data, subject, address[, options])` and
/// `to_avro(value, subject, address[, schema])`, as options.
fn subject_and_address(name: &str, arguments: &mut Vec<FunctionArg>) -> Result<()> {
    let (Some(subject), Some(address)) =
        (arguments.get(1).and_then(text), arguments.get(2).and_then(text))
    else {
        return Ok(());
    };
    if !address.starts_with("http://") && !address.starts_with("https://") {
        return Ok(());
    }
    let further = arguments.get(3).and_then(text);
    if further.is_some() {
        arguments.remove(3);
    }
    let own = further.as_deref().filter(|_| name == "from_avro").map(serde_json::from_str);
    let own = own
        .transpose()
        .map_err(|_| Error::invalid("the options of from_avro are a map of literal texts"))?;
    let mut options: Options = own.unwrap_or_default();
    options.insert(SUBJECT.to_owned(), subject);
    options.insert(ADDRESS.to_owned(), address);
    let schema = further.filter(|_| name == "to_avro").unwrap_or_default();
    set(arguments, 1, quoted(schema));
    set(arguments, 2, quoted(json(&options)?));
    Ok(())
}

/// A question to a registry.
struct Asked {
    registry: Arc<Handle>,
    address: Option<String>,
    subject: String,
}

impl Asked {
    fn of(state: &SessionState, function: &str, options: &Options) -> Result<Asked> {
        let subject = options.get(SUBJECT).cloned().ok_or_else(|| {
            Error::invalid(format!(
                "{function} with a schema registry needs the option {SUBJECT}, such as TOPIC-value"
            ))
        })?;
        Ok(Asked { registry: Handle::of(state)?, address: options.get(ADDRESS).cloned(), subject })
    }

    fn newest(&self) -> Result<Arc<RegisteredSchema>> {
        self.registry.0.newest(self.address.as_deref(), &self.subject)
    }

    /// The schema to write in, and its id: one that is given is to be in the subject.
    fn avro_to_write(&self, given: Option<String>, options: &Options) -> Result<(u32, String)> {
        let Some(schema) = given.filter(|it| !it.trim().is_empty()) else {
            let found = self.newest()?;
            return Ok((found.id, avro(&found)?));
        };
        let register = options.get(REGISTER).is_some_and(|it| it.eq_ignore_ascii_case("true"));
        let address = self.address.as_deref();
        let id = self.registry.0.id_of(address, &self.subject, &schema, register)?;
        let id = id.ok_or_else(|| {
            Error::invalid(format!(
                "the subject {} does not have the schema that to_avro is given; register it, or set \
                 the option {REGISTER} to true",
                self.subject
            ))
        })?;
        Ok((id, schema))
    }
}

fn avro(found: &RegisteredSchema) -> Result<String> {
    match &found.content {
        SchemaContent::Avro(text) => Ok(text.clone()),
        SchemaContent::Protobuf { .. } => Err(Error::invalid(format!(
            "schema {} of the registry is of Protocol Buffers: use from_protobuf or to_protobuf",
            found.id
        ))),
    }
}

fn protobuf(found: &RegisteredSchema) -> Result<(Vec<u8>, String)> {
    match &found.content {
        SchemaContent::Protobuf { set, first } => Ok((set.clone(), first.clone())),
        SchemaContent::Avro(_) => Err(Error::invalid(format!(
            "schema {} of the registry is Avro's: use from_avro or to_avro",
            found.id
        ))),
    }
}

/// The options that were rewritten to JSON before.
fn options(argument: &FunctionArg) -> Option<Options> {
    serde_json::from_str(&text(argument)?).ok()
}

fn text(argument: &FunctionArg) -> Option<String> {
    let FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(value))) = argument else {
        return None;
    };
    match &value.value {
        Value::SingleQuotedString(text) => Some(text.clone()),
        _ => None,
    }
}

fn json(options: &Options) -> Result<String> {
    serde_json::to_string(options).map_err(|e| Error::internal("options have no JSON").because(e))
}

fn quoted(text: String) -> Expr {
    Expr::Value(Value::SingleQuotedString(text).into())
}

fn argument(expr: Expr) -> FunctionArg {
    FunctionArg::Unnamed(FunctionArgExpr::Expr(expr))
}

fn set(arguments: &mut [FunctionArg], place: usize, expr: Expr) {
    if let Some(slot) = arguments.get_mut(place) {
        *slot = argument(expr);
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // A text takes all that is written.
        let _ = write!(text, "{byte:02X}");
        text
    })
}

#[cfg(test)]
mod tests;
