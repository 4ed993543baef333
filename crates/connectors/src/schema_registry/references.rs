//! What a schema refers to, brought and put where it belongs.

use super::http::Door;
use super::{Given, Reference, descriptors};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use onefold_types::{Error, Result};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Schemas that one may bring with it, directly or by way of others.
const MOST: usize = 256;

/// Files of Protocol Buffers in the registry's own form.
const SERIALIZED: Option<&str> = Some("serialized");

/// All references of references, each before those that need it.
fn all(
    door: &Door,
    direct: &[Reference],
    format: Option<&str>,
    found: &mut Vec<(String, String)>,
    seen: &mut BTreeSet<String>,
) -> Result<()> {
    for reference in direct {
        if !seen.insert(reference.name.clone()) {
            continue;
        }
        if seen.len() > MOST {
            return Err(Error::invalid(format!("a schema refers to more than {MOST} others")));
        }
        let version = reference.version.to_string();
        let path = ["subjects", reference.subject.as_str(), "versions", version.as_str()];
        let given: Option<Given> = door.get(&path, format)?;
        let given = given.ok_or_else(|| {
            Error::invalid(format!(
                "the schema registry at {} has no version {version} of subject {}, which another \
                 schema refers to",
                door.address(),
                reference.subject
            ))
        })?;
        all(door, &given.references, format, found, seen)?;
        found.push((reference.name.clone(), given.schema));
    }
    Ok(())
}

/// An Avro schema with the types that it refers to in their places.
pub(super) fn whole_avro(door: &Door, schema: &str, references: &[Reference]) -> Result<String> {
    if references.is_empty() {
        return Ok(schema.to_owned());
    }
    let mut found = Vec::new();
    all(door, references, None, &mut found, &mut BTreeSet::new())?;
    let mut open = BTreeMap::new();
    for (name, text) in found {
        open.insert(name, parsed(&text)?);
    }
    let mut whole = parsed(schema)?;
    define(&mut whole, "", &mut open);
    Ok(whole.to_string())
}

fn parsed(text: &str) -> Result<Value> {
    serde_json::from_str(text)
        .map_err(|e| Error::invalid("a schema of the registry is no JSON").because(e))
}

/// Puts each type where its name is used first; later it is known by its name.
fn define(schema: &mut Value, space: &str, open: &mut BTreeMap<String, Value>) {
    match schema {
        Value::String(name) => {
            let full = format!("{space}.{name}");
            let Some(known) = open.remove(&full).or_else(|| open.remove(name.as_str())) else {
                return;
            };
            *schema = known;
            define(schema, "", open);
        }
        Value::Array(branches) => branches.iter_mut().for_each(|it| define(it, space, open)),
        Value::Object(parts) => {
            let own = parts.get("namespace").and_then(Value::as_str).map(str::to_owned);
            let of_name = parts.get("name").and_then(Value::as_str);
            let of_name = of_name.and_then(|it| it.rsplit_once('.')).map(|it| it.0.to_owned());
            let space = of_name.or(own).unwrap_or_else(|| space.to_owned());
            for part in ["type", "items", "values"] {
                if let Some(part) = parts.get_mut(part) {
                    define(part, &space, open);
                }
            }
            for field in parts.get_mut("fields").and_then(Value::as_array_mut).into_iter().flatten()
            {
                if let Some(of_field) = field.get_mut("type") {
                    define(of_field, &space, open);
                }
            }
        }
        _ => {}
    }
}

/// The descriptor set of a schema of Protocol Buffers, and the first message of its own file.
pub(super) fn descriptor_set(
    door: &Door,
    id: u32,
    references: &[Reference],
) -> Result<(Vec<u8>, String)> {
    let mut found = Vec::new();
    all(door, references, SERIALIZED, &mut found, &mut BTreeSet::new())?;
    let given: Option<Given> = door.get(&["schemas", "ids", &id.to_string()], SERIALIZED)?;
    let given = given.ok_or_else(|| door.nonsense("no schema for an id that it gave"))?;
    found.push((format!("onefold-schema-{id}.proto"), given.schema));
    let mut files = Vec::with_capacity(found.len());
    for (name, text) in found {
        let bytes = STANDARD.decode(text.trim()).map_err(|_| {
            door.nonsense("a schema of Protocol Buffers that is not in its serialized form")
        })?;
        files.push((name, bytes));
    }
    descriptors::set(&files).ok_or_else(|| door.nonsense("a damaged descriptor"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_that_is_referred_to_is_defined_at_its_first_use_alone() {
        let mut open = BTreeMap::new();
        open.insert(
            "shop.Place".to_owned(),
            parsed(r#"{"type":"record","name":"Place","namespace":"shop","fields":[{"name":"kind","type":"other.Kind"}]}"#)
                .unwrap(),
        );
        open.insert(
            "other.Kind".to_owned(),
            parsed(r#"{"type":"enum","name":"Kind","namespace":"other","symbols":["A"]}"#).unwrap(),
        );
        let mut whole = parsed(
            r#"{"type":"record","name":"Order","namespace":"shop","fields":[
                {"name":"from","type":["null","Place"]},{"name":"to","type":"shop.Place"}]}"#,
        )
        .unwrap();
        define(&mut whole, "", &mut open);
        assert!(open.is_empty());
        let from = &whole["fields"][0]["type"][1];
        assert_eq!(from["name"], "Place");
        assert_eq!(from["fields"][0]["type"]["symbols"][0], "A");
        assert_eq!(whole["fields"][1]["type"], "shop.Place");
    }
}
