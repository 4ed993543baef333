//! Bytes are those of the examples in the documentation of the wire format, or follow from its rules.

use arrow::array::RecordBatch;
use arrow::util::pretty::pretty_format_batches;
use datafusion::prelude::SessionContext;
use prost_reflect::prost::Message;
use prost_reflect::prost_types::field_descriptor_proto::{Label, Type};
use prost_reflect::prost_types::{
    DescriptorProto, EnumDescriptorProto, EnumValueDescriptorProto, FieldDescriptorProto,
    FileDescriptorProto, FileDescriptorSet, MessageOptions,
};

fn field(number: i32, name: &str, kind: Type, of: &str, label: Label) -> FieldDescriptorProto {
    FieldDescriptorProto {
        name: Some(name.to_owned()),
        number: Some(number),
        r#type: Some(kind.into()),
        type_name: (!of.is_empty()).then(|| of.to_owned()),
        label: Some(label.into()),
        ..Default::default()
    }
}

/// `message Order { int32 id = 1; string name = 2; repeated int32 amounts = 3; Kind kind = 4;
/// map<string, int64> tags = 5; Order.Inner inner = 6; uint64 big = 7; bytes raw = 8; }` and a message
/// that holds itself.
fn descriptor_bytes() -> Vec<u8> {
    use Label::{Optional, Repeated};
    let inner = DescriptorProto {
        name: Some("Inner".to_owned()),
        field: vec![field(1, "ok", Type::Bool, "", Optional)],
        ..Default::default()
    };
    let entry = DescriptorProto {
        name: Some("TagsEntry".to_owned()),
        field: vec![
            field(1, "key", Type::String, "", Optional),
            field(2, "value", Type::Int64, "", Optional),
        ],
        options: Some(MessageOptions { map_entry: Some(true), ..Default::default() }),
        ..Default::default()
    };
    let order = DescriptorProto {
        name: Some("Order".to_owned()),
        field: vec![
            field(1, "id", Type::Int32, "", Optional),
            field(2, "name", Type::String, "", Optional),
            field(3, "amounts", Type::Int32, "", Repeated),
            field(4, "kind", Type::Enum, ".shop.Kind", Optional),
            field(5, "tags", Type::Message, ".shop.Order.TagsEntry", Repeated),
            field(6, "inner", Type::Message, ".shop.Order.Inner", Optional),
            field(7, "big", Type::Uint64, "", Optional),
            field(8, "raw", Type::Bytes, "", Optional),
        ],
        nested_type: vec![inner, entry],
        ..Default::default()
    };
    let node = DescriptorProto {
        name: Some("Node".to_owned()),
        field: vec![field(1, "next", Type::Message, ".shop.Node", Optional)],
        ..Default::default()
    };
    let value = |name: &str, number| EnumValueDescriptorProto {
        name: Some(name.to_owned()),
        number: Some(number),
        ..Default::default()
    };
    let kind = EnumDescriptorProto {
        name: Some("Kind".to_owned()),
        value: vec![value("NONE", 0), value("GIFT", 1)],
        ..Default::default()
    };
    let file = FileDescriptorProto {
        name: Some("shop.proto".to_owned()),
        package: Some("shop".to_owned()),
        message_type: vec![order, node],
        enum_type: vec![kind],
        syntax: Some("proto3".to_owned()),
        ..Default::default()
    };
    FileDescriptorSet { file: vec![file] }.encode_to_vec()
}

fn descriptors() -> String {
    let digits: String = descriptor_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("X'{digits}'")
}

async fn run(text: &str) -> Result<Vec<RecordBatch>, String> {
    let context = SessionContext::new();
    crate::functions::register(&context).unwrap();
    let text = text.replace("SET", &descriptors());
    let plan = crate::sql::query(&context, &text).await.map_err(|error| error.chain())?;
    let frame = context.execute_logical_plan(plan).await.map_err(|error| error.to_string())?;
    frame.collect().await.map_err(|error| error.to_string())
}

async fn shown(text: &str) -> String {
    pretty_format_batches(&run(text).await.unwrap()).unwrap().to_string()
}

#[tokio::test]
async fn a_message_reads_as_a_row_and_fields_that_are_not_set_are_null() {
    // id 150 (the example of the documentation), name "testing", amounts 3, 270, 86942 packed, kind 1.
    let data = "089601120774657374696e671a06038e029ea7052001";
    let text = format!(
        "SELECT p.id, p.name, p.amounts, p.kind, p.inner, p.big FROM \
         (SELECT from_protobuf(d, 'shop.Order', SET) AS p FROM \
         (VALUES (X'{data}'), (CAST(NULL AS BINARY)), (X'')) AS t(d))"
    );
    let expected = "\
+-----+---------+-----------------+------+-------+-----+
| id  | name    | amounts         | kind | inner | big |
+-----+---------+-----------------+------+-------+-----+
| 150 | testing | [3, 270, 86942] | GIFT |       |     |
|     |         |                 |      |       |     |
|     |         | []              |      |       |     |
+-----+---------+-----------------+------+-------+-----+";
    assert_eq!(shown(&text).await, expected);
    let options = "map('emit.default.values', 'true', 'enums.as.ints', 'true')";
    let text = format!(
        "SELECT p.id, p.name, p.kind, p.inner FROM \
         (SELECT from_protobuf(X'', 'Order', SET, {options}) AS p)"
    );
    let expected = "\
+----+------+------+-------+
| id | name | kind | inner |
+----+------+------+-------+
| 0  |      | 0    |       |
+----+------+------+-------+";
    assert_eq!(shown(&text).await, expected);
}

#[tokio::test]
async fn a_descriptor_file_is_read_when_the_query_is_planned_and_not_again() {
    let path = std::env::temp_dir().join(format!("onefold-descriptors-{}", std::process::id()));
    std::fs::write(&path, descriptor_bytes()).unwrap();
    let context = SessionContext::new();
    crate::functions::register(&context).unwrap();
    let text = format!(
        "SELECT p.id FROM (SELECT from_protobuf(d, 'Order', '{}') AS p FROM \
         (VALUES (X'089601'), (X'0801')) AS t(d))",
        path.display()
    );
    let plan = crate::sql::query(&context, &text).await.unwrap();
    let plan = context.state().create_physical_plan(&plan).await.unwrap();
    std::fs::remove_file(&path).unwrap();
    let rows = datafusion::physical_plan::collect(plan, context.task_ctx()).await.unwrap();
    assert_eq!(rows.iter().map(RecordBatch::num_rows).sum::<usize>(), 2);
}

#[tokio::test]
async fn rows_come_back_from_what_is_written() {
    let value = "named_struct('id', 7, 'name', 'é', 'amounts', array(1, -2), 'kind', 'GIFT', \
                 'tags', map('b', 2L, 'a', -1L), 'inner', named_struct('ok', true), \
                 'big', -1L, 'raw', X'00ff')";
    let text =
        format!("SELECT from_protobuf(to_protobuf({value}, 'Order', SET), 'Order', SET) AS v");
    let read = shown(&text).await;
    let expected = "{id: 7, name: é, amounts: [1, -2], kind: GIFT, tags: {a: -1, b: 2}, \
                    inner: {ok: true}, big: -1, raw: 00ff}";
    assert!(read.contains(expected), "{read}");
}

#[tokio::test]
async fn damage_is_an_error_with_its_row_or_null_when_asked() {
    for damaged in ["X'08'", "X'1207ff'", "X'0a'"] {
        let rows = format!("(VALUES (X'0801'), ({damaged}), (X'0802')) AS t(d)");
        let text = format!("SELECT from_protobuf(d, 'Order', SET) AS v FROM {rows}");
        let error = run(&text).await.unwrap_err();
        assert!(error.contains("MALFORMED_PROTOBUF_MESSAGE"), "{error}");
        assert!(error.contains("row 1"), "{error}");
        let text = format!(
            "SELECT sum(p.id) AS s, count(p) AS n FROM (SELECT from_protobuf(d, 'Order', SET, \
             map('mode', 'PERMISSIVE')) AS p FROM {rows})"
        );
        let expected = "+---+---+\n| s | n |\n+---+---+\n| 3 | 2 |\n+---+---+";
        assert_eq!(shown(&text).await, expected);
    }
}

#[tokio::test]
async fn data_of_a_registry_is_read_behind_its_id_and_the_place_of_its_message() {
    for before in ["000000000500", "00000000050200", "0000000005040002"] {
        let text = format!(
            "SELECT p.id FROM (SELECT from_protobuf(X'{before}089601', 'Order', SET, \
             map('wireFormat', 'confluent')) AS p)"
        );
        assert_eq!(shown(&text).await, "+-----+\n| id  |\n+-----+\n| 150 |\n+-----+", "{before}");
    }
}

#[tokio::test]
async fn what_makes_no_sense_is_refused_when_planned() {
    for (value, why) in [
        ("from_protobuf(X'', 'Nothing', SET)", "shop.Order"),
        ("from_protobuf(X'', 'Node', SET)", "holds itself"),
        ("from_protobuf(X'', 'Order', X'ffff')", "cannot be read"),
        ("from_protobuf(X'', 'Order', '/nowhere/at.all')", "/nowhere/at.all"),
        ("to_protobuf(named_struct('nope', 1), 'Order', SET)", "no field nope"),
        ("to_protobuf(1, 'Order', SET)", "takes a struct"),
        ("to_protobuf(named_struct('kind', 'RARE'), 'Order', SET)", "no value RARE"),
    ] {
        let error = run(&format!("SELECT {value} AS v")).await.unwrap_err();
        assert!(error.contains(why), "{value}: {error}");
    }
}
