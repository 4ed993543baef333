//! Schemas taken from the files that are there.

use super::rig::{Rig, texts};
use onefold_connectors::file_source;

fn inferring(spec: &'static onefold_connector::SourceSpec) -> Rig {
    Rig::new(spec).schema(None).conf("spark.sql.streaming.schemaInference", "true")
}

async fn columns(rig: &Rig) -> Vec<String> {
    let schema = rig.define().await.unwrap().schema();
    let shown = schema.fields().iter().filter(|field| field.name() != "_metadata");
    shown.map(|field| format!("{} {}", field.name(), field.data_type())).collect()
}

#[tokio::test]
async fn json_columns_are_joined_over_all_files() {
    let rig = inferring(&file_source::JSON);
    rig.file("a.json", "{\"b\":1,\"a\":\"x\",\"n\":null,\"l\":[1,2.5]}\n\n{\"b\":2.5,\"e\":{}}\n");
    rig.file("b.json", "[{\"b\":3,\"s\":{\"y\":true}},{\"s\":{\"z\":1}}]\n{\"a\":7}\n");
    rig.file("c.json", "");
    let found = columns(&rig).await;
    assert_eq!(found[..3], ["a Utf8", "b Float64", "l List(Float64, field: 'element')"]);
    assert_eq!(found[3], "n Utf8");
    assert!(found[4].starts_with("s Struct(") && found[4].contains("y"), "{}", found[4]);
    assert_eq!(found.len(), 5);
    let rig = rig.with("primitivesAsString", "true");
    assert_eq!(columns(&rig).await[1], "b Utf8");
    rig.file("d.json", "{\"a\n");
    assert_eq!(columns(&rig).await.last().unwrap(), "_corrupt_record Utf8");
    let strict = rig.with("mode", "FAILFAST");
    assert!(strict.define().await.unwrap_err().to_string().contains("malformed"));
}

#[tokio::test]
async fn csv_columns_have_the_names_of_the_header_and_types_if_asked() {
    let mut rig = inferring(&file_source::CSV).with("header", "true");
    rig.file("a.csv", "id,when,x\n1,2026-01-01,a\n2,2026-01-02,\n");
    assert_eq!(columns(&rig).await, ["id Utf8", "when Utf8", "x Utf8"]);
    assert_eq!(texts(&rig.rows(&[2]).await.unwrap(), 0), [Some("a".to_owned()), None]);
    let rig = rig.with("inferSchema", "true");
    assert_eq!(columns(&rig).await, ["id Int32", "when Date32", "x Utf8"]);
    let rig = inferring(&file_source::CSV);
    rig.file("a.csv", "1,b\n");
    assert_eq!(columns(&rig).await, ["_c0 Utf8", "_c1 Utf8"]);
}

#[tokio::test]
async fn without_a_schema_or_a_file_to_take_it_from_the_way_out_is_said() {
    let plain = Rig::new(&file_source::JSON).schema(None);
    let error = plain.define().await.unwrap_err().to_string();
    assert!(error.contains("schemaInference") && error.contains("schema =>"), "{error}");
    for spec in [&file_source::JSON, &file_source::PARQUET, &file_source::CSV] {
        let error = inferring(spec).define().await.unwrap_err().to_string();
        assert!(error.contains("no file yet"), "{error}");
    }
    let rig = inferring(&file_source::PARQUET);
    rig.file("a.parquet", "nonsense");
    let error = rig.define().await.unwrap_err().to_string();
    assert!(error.contains("a.parquet"), "{error}");
}
