use super::*;

#[test]
fn every_type_name_and_synonym_reads_and_is_written_again_as_spark_writes_it() {
    let ddl = "a boolean, b tinyint, b2 BYTE, c smallint, c2 short, d int, d2 integer, e bigint, \
               e2 long, f float, f2 real, g double, h string, i binary, j date, k timestamp, \
               k2 timestamp_ltz, l timestamp_ntz, m decimal, m2 dec(5), m3 NUMERIC(38, 18), \
               n void, o interval year to month, o2 interval month, p interval day to second, \
               p2 interval hour, q interval, r char(3), s varchar(10)";
    assert_eq!(
        schema_ddl(&parse_schema(ddl).unwrap()),
        "a BOOLEAN, b TINYINT, b2 TINYINT, c SMALLINT, c2 SMALLINT, d INT, d2 INT, e BIGINT, \
         e2 BIGINT, f FLOAT, f2 FLOAT, g DOUBLE, h STRING, i BINARY, j DATE, k TIMESTAMP, \
         k2 TIMESTAMP, l TIMESTAMP_NTZ, m DECIMAL(10,0), m2 DECIMAL(5,0), m3 DECIMAL(38,18), \
         n VOID, o INTERVAL YEAR TO MONTH, o2 INTERVAL YEAR TO MONTH, \
         p INTERVAL DAY TO SECOND, p2 INTERVAL DAY TO SECOND, q INTERVAL, r CHAR(3), \
         s VARCHAR(10)"
    );
}

#[test]
fn nesting_names_in_backquotes_comments_and_the_colon_form_are_read() {
    let ddl = "id BIGINT NOT NULL, ts TIMESTAMP COMMENT 'it''s \\'x\\'',\n `a b` : \
               STRUCT<a: INT NOT NULL COMMENT 'c', `b``c` ARRAY<STRING>>, m MAP<STRING, DOUBLE>";
    let schema = parse_schema(ddl).unwrap();
    let written = schema_ddl(&schema);
    assert_eq!(
        written,
        "id BIGINT NOT NULL, ts TIMESTAMP COMMENT 'it\\'s \\'x\\'', `a b` STRUCT<a: INT NOT NULL \
         COMMENT 'c', `b``c`: ARRAY<STRING>>, m MAP<STRING, DOUBLE>"
    );
    assert_eq!(parse_schema(&written).unwrap(), schema);
    assert_eq!(
        parse_schema("struct<a: int, b: string>").unwrap(),
        parse_schema("a int, b string").unwrap()
    );
}

#[test]
fn arrow_types_are_those_of_sparks_own_mapping() {
    let schema = parse_schema("t TIMESTAMP, n TIMESTAMP_NTZ, a ARRAY<INT>, m MAP<STRING,INT>");
    let schema = schema.unwrap();
    assert_eq!(
        schema.field(0).data_type(),
        &DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
    );
    assert_eq!(schema.field(1).data_type(), &DataType::Timestamp(TimeUnit::Microsecond, None));
    assert_eq!(
        schema.field(2).data_type(),
        &DataType::List(Arc::new(Field::new("element", DataType::Int32, true)))
    );
    let DataType::Map(entries, false) = schema.field(3).data_type() else { panic!("no map") };
    assert_eq!(entries.name(), "entries");
}

#[test]
fn sparks_json_form_reads_and_writes() {
    let json = r#"{"type":"struct","fields":[{"name":"id","type":"long","nullable":false,"metadata":{}},{"name":"a","type":{"type":"array","elementType":"string","containsNull":true},"nullable":true,"metadata":{"comment":"c"}},{"name":"m","type":{"type":"map","keyType":"string","valueType":{"type":"struct","fields":[{"name":"x","type":"decimal(10,2)","nullable":true,"metadata":{}}]},"valueContainsNull":false},"nullable":true,"metadata":{}}]}"#;
    let schema = parse_schema(json).unwrap();
    assert_eq!(schema_json(&schema), json);
    assert_eq!(
        schema_ddl(&schema),
        "id BIGINT NOT NULL, a ARRAY<STRING> COMMENT 'c', m MAP<STRING, STRUCT<x: DECIMAL(10,2)>>"
    );
}

#[test]
fn errors_tell_line_column_and_what_was_wanted() {
    let cases = [
        ("id BIGINT,\n x WRONG", "line 2, column 4: there is no type `wrong`"),
        ("id", "line 1, column 3: expected a type, found the end"),
        ("id BIGINT x", "line 1, column 11: expected `,` or the end, found `x`"),
        ("a ARRAY<INT", "line 1, column 12: expected `>`, found the end"),
        ("a DECIMAL(39,2)", "line 1, column 3: DECIMAL(39,2) is out of range"),
        ("a INT, A STRING", "line 1, column 8: the column `A` stands twice"),
        ("a INT COMMENT x", "line 1, column 15: expected the comment in quotes"),
        ("`a INT", "line 1, column 1: the ` that begins here is never closed"),
        ("a-b INT", "line 1, column 2: unexpected character `-`"),
        ("a INTERVAL DAY TO YEAR", "there is no type INTERVAL day TO year"),
        ("a VARIANT", "the type VARIANT is not supported"),
        ("a INT, ", "line 1, column 8: expected a column name, found the end"),
        (r#"{"type":"struct","fields":[{"name":"x","type":"lang"}]}"#, "field `x`"),
        (r#"{"type":"struct","#, "line 1, column 17: the text is not JSON"),
    ];
    for (text, wanted) in cases {
        let error = parse_schema(text).unwrap_err().to_string();
        assert!(error.contains(wanted), "{text}: {error}");
    }
}

#[test]
fn nesting_and_length_have_limits() {
    let deep = format!("a {}INT{}", "ARRAY<".repeat(65), ">".repeat(65));
    assert!(parse_schema(&deep).unwrap_err().to_string().contains("nested deeper than 64"));
    let allowed = format!("a {}INT{}", "ARRAY<".repeat(64), ">".repeat(64));
    assert!(parse_schema(&allowed).is_ok());
    let long = "x".repeat(SCHEMA_BYTES_MAX + 1);
    assert!(parse_schema(&long).unwrap_err().to_string().contains("bytes"));
    let mut json = r#"{"type":"array","elementType":"#.repeat(100);
    json.push_str("\"int\"");
    json.push_str(&"}".repeat(100));
    assert!(parse_schema(&json).is_err());
}
