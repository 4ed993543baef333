//! Texts of SQL, types and names that are long, deep, or no texts.

use crate::server::{Server, field, of, range, raw_request};
use prost::Message;
use spark_connect_proto::expression::{ExprType, ExpressionString, UnresolvedAttribute};
use spark_connect_proto::relation::RelType;
use spark_connect_proto::{Expression, Project, Sql, ToSchema};

const MANY: usize = 100_000;

fn deep_texts() -> Vec<String> {
    vec![
        format!("{}1{}", "(".repeat(MANY), ")".repeat(MANY)),
        "(".repeat(MANY),
        format!("{}1", "-".repeat(MANY)),
        format!("{}1", "- ".repeat(MANY)),
        format!("{}true", "NOT ".repeat(MANY)),
        format!("1{}", " + 1".repeat(MANY)),
        format!("id{}", "[0]".repeat(MANY)),
        format!("id{}", ".a".repeat(MANY)),
        "CASE WHEN ".repeat(MANY),
        format!("{}1{}", "array(".repeat(MANY), ")".repeat(MANY)),
        format!("CAST(NULL AS {}INT{})", "ARRAY<".repeat(MANY), ">".repeat(MANY)),
        "'".to_owned(),
        "`".repeat(MANY + 1),
        "/*".repeat(MANY),
        "\u{0}".repeat(MANY),
        "ß".repeat(MANY),
    ]
}

fn projected(expression: ExprType) -> spark_connect_proto::Relation {
    of(RelType::Project(Box::new(Project {
        input: Some(Box::new(range(1))),
        expressions: vec![Expression { common: None, expr_type: Some(expression) }],
    })))
}

#[test]
fn texts_of_sql_with_100_000_brackets_get_an_answer() {
    let server = Server::new();
    for text in deep_texts() {
        let query = format!("SELECT {text} FROM VALUES (1) AS t(id)");
        let _ = server.rows(of(RelType::Sql(Sql { query, ..Sql::default() })));
        let _ = server.rows(projected(ExprType::ExpressionString(ExpressionString {
            expression: text.clone(),
        })));
        server.assert_alive();
    }
    let selects = "SELECT * FROM (".repeat(10_000);
    assert!(server.rows(of(RelType::Sql(Sql { query: selects, ..Sql::default() }))).is_err());
    server.assert_alive();
}

#[test]
fn names_and_schemas_may_be_anything() {
    let server = Server::new();
    for text in deep_texts() {
        let name = UnresolvedAttribute { unparsed_identifier: text.clone(), ..Default::default() };
        assert!(server.rows(projected(ExprType::UnresolvedAttribute(name))).is_err());
        let unparsed = spark_connect_proto::data_type::Unparsed { data_type_string: text };
        let schema = spark_connect_proto::DataType {
            kind: Some(spark_connect_proto::data_type::Kind::Unparsed(unparsed)),
        };
        let to = ToSchema { input: Some(Box::new(range(1))), schema: Some(schema) };
        assert!(server.rows(of(RelType::ToSchema(Box::new(to)))).is_err());
    }
    server.assert_alive();
}

#[test]
fn a_text_that_is_not_utf_8_is_an_error() {
    let server = Server::new();
    let channel = server.channel();
    // SubqueryAlias with an alias of bytes.
    let alias = [field(1, &range(1).encode_to_vec()), field(2, &[0xff, 0xfe])].concat();
    let error = server.call(&channel, "ExecutePlan", raw_request(&field(16, &alias))).unwrap_err();
    assert!(error.message().contains("the request is damaged"), "{error}");
    server.assert_alive();
}
