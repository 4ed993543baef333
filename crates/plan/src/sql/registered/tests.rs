//! Over a registry in memory. Bytes follow from the rules of Avro and of Protocol Buffers.

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::util::pretty::pretty_format_batches;
use datafusion::prelude::SessionContext;
use onefold_connector::{RegisteredSchema, SchemaContent, SchemaRegistry};
use onefold_types::{Error, Result};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

const OLD: &str = r#"{"type":"record","name":"r","fields":[{"name":"a","type":"long"}]}"#;
const NEW: &str = r#"{"type":"record","name":"r","fields":[{"name":"a","type":"long"},{"name":"b","type":"string","default":"-"}]}"#;

/// A file `m.proto` with the messages `First` and `Second`, each with the field `n`, an int64.
const FILE: &str = "0A3A0A076D2E70726F746F22120A05466972737412090A016E18012001280322130A06\
                    5365636F6E6412090A016E180120012803620670726F746F33";

#[derive(Debug, Default)]
struct InMemory {
    /// By subject, the oldest first.
    subjects: Mutex<BTreeMap<String, Vec<Arc<RegisteredSchema>>>>,
    asked: Mutex<Vec<String>>,
}

impl InMemory {
    fn put(&self, subject: &str, id: u32, content: SchemaContent) {
        let schema = Arc::new(RegisteredSchema { id, content });
        self.subjects.lock().unwrap().entry(subject.to_owned()).or_default().push(schema);
    }

    fn avro(&self, subject: &str, id: u32, text: &str) {
        self.put(subject, id, SchemaContent::Avro(text.to_owned()));
    }

    fn asked(&self, what: String) {
        self.asked.lock().unwrap().push(what);
    }
}

impl SchemaRegistry for InMemory {
    fn newest(&self, address: Option<&str>, subject: &str) -> Result<Arc<RegisteredSchema>> {
        self.asked(format!("newest {subject} at {}", address.unwrap_or("home")));
        let subjects = self.subjects.lock().unwrap();
        let newest = subjects.get(subject).and_then(|all| all.last()).cloned();
        newest.ok_or_else(|| Error::invalid(format!("no subject {subject}")))
    }

    fn by_id(&self, _: Option<&str>, id: u32) -> Result<Option<Arc<RegisteredSchema>>> {
        self.asked(format!("id {id}"));
        if id == 500 {
            return Err(Error::unavailable("no answer"));
        }
        let subjects = self.subjects.lock().unwrap();
        Ok(subjects.values().flatten().find(|schema| schema.id == id).cloned())
    }

    fn id_of(
        &self,
        _: Option<&str>,
        subject: &str,
        schema: &str,
        register: bool,
    ) -> Result<Option<u32>> {
        let content = SchemaContent::Avro(schema.to_owned());
        let known = |it: &&Arc<RegisteredSchema>| it.content == content;
        let found = self.subjects.lock().unwrap()[subject].iter().find(known).map(|it| it.id);
        if found.is_none() && register {
            self.put(subject, 77, content);
            return Ok(Some(77));
        }
        Ok(found)
    }
}

fn context() -> (SessionContext, Arc<InMemory>) {
    let (context, registry) = (SessionContext::new(), Arc::new(InMemory::default()));
    registry.avro("t-value", 1, OLD);
    registry.avro("t-value", 2, NEW);
    let set =
        (0..FILE.len()).step_by(2).map(|at| u8::from_str_radix(&FILE[at..at + 2], 16).unwrap());
    let content = SchemaContent::Protobuf { set: set.collect(), first: "First".to_owned() };
    registry.put("p-value", 9, content);
    crate::functions::register(&context).unwrap();
    let given = Arc::clone(&registry) as Arc<dyn SchemaRegistry>;
    crate::functions::use_registry(&context, given).unwrap();
    (context, registry)
}

async fn run(
    context: &SessionContext,
    text: &str,
) -> std::result::Result<Vec<RecordBatch>, String> {
    let plan = crate::sql::query(context, text).await.map_err(|error| error.chain())?;
    let frame = context.execute_logical_plan(plan).await.map_err(|error| error.to_string())?;
    frame.collect().await.map_err(|error| format!("{error:?}"))
}

async fn bytes(value: &str) -> Vec<u8> {
    let batches = run(&context().0, &format!("SELECT {value} AS v")).await.unwrap();
    batches[0].column(0).as_binary::<i32>().value(0).to_vec()
}

#[tokio::test]
async fn rows_of_several_schemas_are_read_by_theirs_and_have_the_newest_one() {
    let (context, registry) = context();
    // 27 by the old schema, 28 and `x` by the new one, no data, 29 by the old one.
    let rows = "(VALUES (X'000000000136'), (X'0000000002380278'), (CAST(NULL AS BINARY)), \
                (X'00000000013A')) AS t(d)";
    let text = format!(
        "SELECT r.a AS a, r.b AS b FROM (SELECT from_avro(d, '', map('schema.registry.subject', \
         't-value')) AS r FROM {rows})"
    );
    let shown = pretty_format_batches(&run(&context, &text).await.unwrap()).unwrap().to_string();
    let expected = "+----+---+\n| a  | b |\n+----+---+\n| 27 | - |\n| 28 | x |\n|    |   |\n| 29 | - |\n+----+---+";
    assert_eq!(shown, expected);
    let asked = registry.asked.lock().unwrap().clone();
    assert_eq!(asked.iter().filter(|it| it.starts_with("newest")).count(), 1, "{asked:?}");
}

#[tokio::test]
async fn a_plan_keeps_its_schema_when_the_subject_gets_a_newer_one() {
    let (context, registry) = context();
    let text = "SELECT from_avro(X'0000000002380278', 't-value', 'http://other:8081').b AS b";
    let plan = crate::sql::query(&context, text).await.unwrap();
    registry.avro("t-value", 3, "\"long\"");
    let frame = context.execute_logical_plan(plan).await.unwrap();
    let batches = frame.collect().await.unwrap();
    assert_eq!(batches[0].column(0).as_string::<i32>().value(0), "x");
    assert_eq!(registry.asked.lock().unwrap()[0], "newest t-value at http://other:8081");
}

#[tokio::test]
async fn an_id_that_is_not_known_is_damage_and_a_registry_that_is_away_is_not() {
    let (context, _) = context();
    let options = |more: &str| format!("map('schema.registry.subject', 't-value'{more})");
    let read = |bytes: &str, more: &str| {
        format!("SELECT from_avro(X'{bytes}', NULL, {}) AS v", options(more))
    };
    let permissive = ", 'mode', 'PERMISSIVE'";
    for bytes in ["000000006336", "36", ""] {
        let error = run(&context, &read(bytes, "")).await.unwrap_err();
        assert!(error.contains("MALFORMED_AVRO_MESSAGE"), "{error}");
        let values = run(&context, &read(bytes, permissive)).await.unwrap();
        assert!(values[0].column(0).is_null(0), "{bytes}");
    }
    for more in ["", permissive] {
        let error = run(&context, &read("00000001F436", more)).await.unwrap_err();
        assert!(error.contains("Unavailable") && error.contains("no answer"), "{error}");
    }
}

#[tokio::test]
async fn values_are_written_behind_the_id_of_their_schema() {
    let subject = "map('schema.registry.subject', 't-value')";
    let value = "named_struct('a', 27L, 'b', 'x')";
    let newest = bytes(&format!("to_avro({value}, NULL, {subject})")).await;
    assert_eq!(newest, [0, 0, 0, 0, 2, 0x36, 0x02, 0x78]);
    let given = bytes(&format!("to_avro(named_struct('a', 27L), '{OLD}', {subject})")).await;
    assert_eq!(given, [0, 0, 0, 0, 1, 0x36]);
    let text = format!("SELECT to_avro(27L, 'long', {subject}) AS v");
    let error = run(&context().0, &text).await.unwrap_err();
    assert!(error.contains("auto.register.schemas"), "{error}");
    let register = subject.replace(')', ", 'auto.register.schemas', 'true')");
    assert_eq!(bytes(&format!("to_avro(27L, 'long', {register})")).await, [0, 0, 0, 0, 77, 0x36]);
}

#[tokio::test]
async fn messages_are_read_and_written_by_the_descriptors_of_a_subject() {
    let subject = "map('schema.registry.subject', 'p-value')";
    let first = bytes(&format!("to_protobuf(named_struct('n', 3L), '', {subject})")).await;
    assert_eq!(first, [0, 0, 0, 0, 9, 0, 0x08, 3]);
    let second = bytes(&format!("to_protobuf(named_struct('n', 3L), 'Second', {subject})")).await;
    assert_eq!(second, [0, 0, 0, 0, 9, 2, 2, 0x08, 3]);
    let text = format!("SELECT from_protobuf(X'0000000009000803', NULL, {subject}).n AS n");
    let shown = pretty_format_batches(&run(&context().0, &text).await.unwrap()).unwrap();
    assert_eq!(shown.to_string(), "+---+\n| n |\n+---+\n| 3 |\n+---+");
}

#[tokio::test]
async fn what_makes_no_sense_is_refused_when_planned() {
    for (value, why) in [
        (
            "from_avro(X'00', '', map('schema.registry.address', 'http://a'))",
            "schema.registry.subject",
        ),
        ("from_avro(X'00', '', map('schema.registry.subject', 'p-value'))", "from_protobuf"),
        ("from_protobuf(X'00', '', map('schema.registry.subject', 't-value'))", "from_avro"),
        ("from_avro(X'00', '', map('schema.registry.subject', 'none'))", "no subject none"),
        (
            "from_avro(X'00', '', map('schema.registry.subject', 't-value', \
             'confluent.schema.registry.basic.auth.user.info', 'a:hunter2'))",
            "credentials are not given in expressions",
        ),
    ] {
        let error = run(&context().0, &format!("SELECT {value} AS v")).await.unwrap_err();
        assert!(error.contains(why) && !error.contains("hunter2"), "{value}: {error}");
    }
}
