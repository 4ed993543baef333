//! Bytes are those of the examples in Avro's specification, or follow from its rules.

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::Int64Type;
use arrow::util::pretty::pretty_format_batches;
use datafusion::prelude::SessionContext;

const RECORD: &str = r#"{"type":"record","name":"test","fields":[{"name":"a","type":"long"},{"name":"b","type":"string"}]}"#;

async fn run(text: &str) -> Result<Vec<RecordBatch>, String> {
    let context = SessionContext::new();
    crate::functions::register(&context).unwrap();
    let plan = crate::sql::query(&context, text).await.map_err(|error| error.chain())?;
    let frame = context.execute_logical_plan(plan).await.map_err(|error| error.to_string())?;
    frame.collect().await.map_err(|error| error.to_string())
}

async fn shown(text: &str) -> String {
    pretty_format_batches(&run(text).await.unwrap()).unwrap().to_string()
}

async fn bytes(value: &str) -> Vec<u8> {
    let batches = run(&format!("SELECT {value} AS v")).await.unwrap();
    batches[0].column(0).as_binary::<i32>().value(0).to_vec()
}

#[tokio::test]
async fn values_are_written_as_the_specification_has_it() {
    assert_eq!(bytes("to_avro(27L, 'long')").await, [0x36]);
    assert_eq!(bytes("to_avro('foo', 'string')").await, [0x06, 0x66, 0x6f, 0x6f]);
    let record = format!("to_avro(named_struct('a', 27L, 'b', 'foo'), '{RECORD}')");
    assert_eq!(bytes(&record).await, [0x36, 0x06, 0x66, 0x6f, 0x6f]);
    // A column that may be NULL is a union whose first branch is the value's, as Spark has it.
    let batches = run("SELECT to_avro(x) FROM (VALUES (1), (NULL)) AS t(x)").await.unwrap();
    let written = batches[0].column(0).as_binary::<i32>();
    assert_eq!((written.value(0), written.is_null(1)), (&[0x00, 0x02][..], true));
    // A struct that is made on the spot is never NULL; its fields may be.
    let batches = "SELECT to_avro(struct(*)) AS v FROM (VALUES (1, 'x'), (NULL, NULL)) AS t(id, s)";
    let batches = run(batches).await.unwrap();
    let written = batches[0].column(0).as_binary::<i32>();
    assert_eq!(written.value(0), [0x00, 0x02, 0x00, 0x02, 0x78]);
    assert_eq!(written.value(1), [0x02, 0x02]);
    // Behind the id of a schema in a registry.
    assert_eq!(bytes("to_avro(1L, 'long', 258)").await, [0, 0, 0, 1, 2, 0x02]);
}

#[tokio::test]
async fn records_read_back_and_null_stays_null() {
    let text = format!(
        "SELECT from_avro(d, '{RECORD}').a AS a, from_avro(d, '{RECORD}').b AS b FROM \
         (VALUES (X'3606666f6f'), (CAST(NULL AS BINARY)), (X'0100')) AS t(d)"
    );
    let expected = "+----+-----+\n| a  | b   |\n+----+-----+\n| 27 | foo |\n|    |     |\n| -1 |     |\n+----+-----+";
    assert_eq!(shown(&text).await, expected);
}

#[tokio::test]
async fn damage_is_an_error_with_its_row_or_null_when_asked() {
    for damaged in ["X'36'", "X'3606666f6f00'", "X''", "X'36ff'"] {
        let rows = format!("(VALUES (X'3606666f6f'), ({damaged}), (X'3806666f6f')) AS t(d)");
        let error = run(&format!("SELECT from_avro(d, '{RECORD}') AS v FROM {rows}")).await;
        let error = error.unwrap_err();
        assert!(error.contains("MALFORMED_AVRO_MESSAGE") && error.contains("row 1"), "{error}");
        let text = format!(
            "SELECT from_avro(d, '{RECORD}', map('mode', 'PERMISSIVE')).a AS v FROM {rows}"
        );
        let values = run(&text).await.unwrap();
        let values = values[0].column(0).as_primitive::<Int64Type>();
        assert_eq!((values.value(0), values.is_null(1), values.value(2)), (27, true, 28));
    }
}

#[tokio::test]
async fn data_of_a_registry_is_read_behind_its_id() {
    let confluent = "map('wireFormat', 'confluent')";
    let text = format!("SELECT from_avro(X'000000010236', 'long', {confluent}) AS v");
    assert_eq!(shown(&text).await, "+----+\n| v  |\n+----+\n| 27 |\n+----+");
    let text = format!("SELECT from_avro(X'010000010236', 'long', {confluent}) AS v");
    assert!(run(&text).await.unwrap_err().contains("id of a schema"));
}

#[tokio::test]
async fn a_newer_schema_reads_older_data() {
    let newer = RECORD.replace("]}", r#",{"name":"c","type":"int","default":7}]}"#);
    let text =
        format!("SELECT from_avro(X'3606666f6f', '{RECORD}', map('avroSchema', '{newer}')).c AS c");
    assert_eq!(shown(&text).await, "+---+\n| c |\n+---+\n| 7 |\n+---+");
}

#[tokio::test]
async fn every_type_comes_back() {
    let value = "named_struct('i', 1, 'd', 2.5D, 't', 'x', 'y', X'00ff', 'day', DATE'2026-01-02', \
                 'at', TIMESTAMP'2026-01-02 03:04:05.678901', 'n', CAST(-12.34 AS DECIMAL(9,2)), \
                 'l', array(1, NULL), 'm', map('k', 1L), 's', named_struct('z', true), \
                 'e', CAST(NULL AS STRING))";
    let schema = r#"{"type":"record","name":"r","fields":[{"name":"i","type":"int"},{"name":"d","type":"double"},
        {"name":"t","type":"string"},{"name":"y","type":"bytes"},{"name":"day","type":{"type":"int","logicalType":"date"}},
        {"name":"at","type":{"type":"long","logicalType":"timestamp-micros"}},
        {"name":"n","type":{"type":"fixed","name":"f","size":4,"logicalType":"decimal","precision":9,"scale":2}},
        {"name":"l","type":{"type":"array","items":["int","null"]}},{"name":"m","type":{"type":"map","values":["long","null"]}},
        {"name":"s","type":{"type":"record","name":"q","fields":[{"name":"z","type":"boolean"}]}},
        {"name":"e","type":["string","null"]}]}"#;
    let plain = shown(&format!("SELECT {value} AS v")).await;
    let again =
        shown(&format!("SELECT from_avro(to_avro({value}, '{schema}'), '{schema}') AS v")).await;
    let trimmed = |text: &str| text.split_whitespace().collect::<String>().replace('-', "");
    assert_eq!(trimmed(&again), trimmed(&plain));
}

#[tokio::test]
async fn what_makes_no_sense_is_refused_when_planned() {
    for (value, why) in [
        ("from_avro(X'00', 'nonsense{')", "no JSON"),
        ("from_avro(X'00', 'long', map('mode', 'MAYBE'))", "mode"),
        ("from_avro(X'00', '[\"int\",\"string\"]')", "union"),
        ("to_avro(map(1, 2))", "keys of a map"),
    ] {
        let error = run(&format!("SELECT {value} AS v")).await.unwrap_err();
        assert!(error.contains(why), "{value}: {error}");
    }
}
