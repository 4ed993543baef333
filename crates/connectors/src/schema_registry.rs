//! A registry of schemas with Confluent's HTTP API.
//!
//! # Invariants
//! - What an id stands for is asked once in the life of a session: it never changes.
//! - Credentials go to the address of the session's setting, and nowhere else.
//!
//! *Where to start:* `http` asks, `references` brings what a schema refers to, `descriptors` puts
//! files of Protocol Buffers together.

mod descriptors;
mod http;
mod references;

use http::{Ask, Door};
use onefold_connector::{RegisteredSchema, SchemaContent, SchemaRegistry, Settings};
use onefold_types::{Error, Result, Secret};
use serde::Deserialize;
use serde_json::json;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

const URL: &str = "onefold.schemaRegistry.url";
const USER: &str = "onefold.schemaRegistry.basic.auth.user.info";
const TOKEN: &str = "onefold.schemaRegistry.bearer.auth.token";
const CERTIFICATES: &str = "onefold.schemaRegistry.ssl.truststore.certificates";

/// Codes of the API: there is no such subject, version or schema.
const ABSENT: [i64; 3] = [40_401, 40_402, 40_403];

/// What asks the registries that a session's settings and queries name.
#[must_use]
pub fn open(settings: Settings) -> Arc<dyn SchemaRegistry> {
    Arc::new(Registry { settings, known: Mutex::default() })
}

struct Registry {
    settings: Settings,
    /// By address and id.
    known: Mutex<HashMap<(String, u32), Arc<RegisteredSchema>>>,
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry").finish_non_exhaustive()
    }
}

/// A schema as the API gives it.
#[derive(Debug, Deserialize)]
struct Given {
    #[serde(default)]
    id: Option<u32>,
    schema: String,
    #[serde(default, rename = "schemaType")]
    kind: Option<String>,
    #[serde(default)]
    references: Vec<Reference>,
}

/// A schema that another one needs.
#[derive(Debug, Clone, Deserialize)]
struct Reference {
    /// By which the other one calls it.
    name: String,
    subject: String,
    version: u64,
}

impl Given {
    fn is_protobuf(&self) -> bool {
        self.kind.as_deref() == Some("PROTOBUF")
    }
}

impl Registry {
    fn setting(&self, name: &str) -> Option<String> {
        (self.settings)(name).map(|it| it.trim().to_owned()).filter(|it| !it.is_empty())
    }

    fn door(&self, address: Option<&str>) -> Result<Door> {
        let own = self.setting(URL).map(|it| it.trim_end_matches('/').to_owned());
        let address = address.map(|it| it.trim().trim_end_matches('/').to_owned());
        let Some(address) = address.filter(|it| !it.is_empty()).or_else(|| own.clone()) else {
            return Err(Error::invalid(format!(
                "no schema registry is named; set {URL}, or the option schema.registry.address"
            )));
        };
        let trusted = own.as_deref() == Some(address.as_str());
        let secret = |name| self.setting(name).filter(|_| trusted).map(Secret::new);
        Door::new(address, secret(USER), secret(TOKEN), self.setting(CERTIFICATES))
    }

    /// A schema with all that it refers to.
    fn whole(&self, door: &Door, id: u32, given: Given) -> Result<RegisteredSchema> {
        let content = if given.is_protobuf() {
            let (set, first) = references::descriptor_set(door, id, &given.references)?;
            SchemaContent::Protobuf { set, first }
        } else if given.kind.as_deref().is_none_or(|kind| kind == "AVRO") {
            SchemaContent::Avro(references::whole_avro(door, &given.schema, &given.references)?)
        } else {
            return Err(Error::invalid(format!(
                "schema {id} of {} is of type {}; Avro and Protobuf are read",
                door.address(),
                given.kind.unwrap_or_default()
            )));
        };
        Ok(RegisteredSchema { id, content })
    }

    fn known(&self, door: &Door, id: u32) -> Option<Arc<RegisteredSchema>> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(&(door.address().to_owned(), id)).cloned()
    }

    fn keep(&self, door: &Door, schema: RegisteredSchema) -> Arc<RegisteredSchema> {
        let place = (door.address().to_owned(), schema.id);
        let schema = Arc::new(schema);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(place, Arc::clone(&schema));
        schema
    }
}

impl SchemaRegistry for Registry {
    fn newest(&self, address: Option<&str>, subject: &str) -> Result<Arc<RegisteredSchema>> {
        let door = self.door(address)?;
        let given: Option<Given> = door.get(&["subjects", subject, "versions", "latest"], None)?;
        let Some(given) = given else {
            return Err(Error::invalid(format!(
                "the schema registry at {} has no subject {subject}; register a schema, or correct \
                 the option schema.registry.subject",
                door.address()
            )));
        };
        let id = given.id.ok_or_else(|| door.nonsense("a schema without an id"))?;
        match self.known(&door, id) {
            Some(known) => Ok(known),
            None => Ok(self.keep(&door, self.whole(&door, id, given)?)),
        }
    }

    fn by_id(&self, address: Option<&str>, id: u32) -> Result<Option<Arc<RegisteredSchema>>> {
        let door = self.door(address)?;
        if let Some(known) = self.known(&door, id) {
            return Ok(Some(known));
        }
        let given: Option<Given> = door.get(&["schemas", "ids", &id.to_string()], None)?;
        let Some(given) = given else { return Ok(None) };
        Ok(Some(self.keep(&door, self.whole(&door, id, given)?)))
    }

    fn id_of(
        &self,
        address: Option<&str>,
        subject: &str,
        schema: &str,
        register: bool,
    ) -> Result<Option<u32>> {
        #[derive(Deserialize)]
        struct Id {
            id: u32,
        }
        let door = self.door(address)?;
        let body = json!({"schema": schema}).to_string();
        let found: Option<Id> = door.ask(Ask::Post(&body), &["subjects", subject], None)?;
        if found.is_some() || !register {
            return Ok(found.map(|it| it.id));
        }
        let put: Option<Id> =
            door.ask(Ask::Post(&body), &["subjects", subject, "versions"], None)?;
        put.map(|it| Some(it.id)).ok_or_else(|| door.nonsense("no id for a new schema"))
    }
}

#[cfg(test)]
mod tests;
