//! Common Spark expressions and what Spark 4 (ANSI mode, session zone UTC) gives for them.

use crate::memory::context;
use arrow::array::{Array, AsArray};
use datafusion::prelude::SessionContext;
use onefold_plan::schema::type_name;
use onefold_plan::sql;

/// The value of an expression as text (through a cast to STRING where it is not one) and its type.
async fn value(context: &SessionContext, text: &str) -> Result<(String, String), String> {
    let plan = sql::query(context, &format!("SELECT {text} AS v")).await;
    let plan = plan.map_err(|error| error.chain())?;
    let kind = type_name(plan.schema().field(0).data_type());
    let frame = context.execute_logical_plan(plan).await.map_err(|error| error.to_string())?;
    let batches = frame.collect().await.map_err(|error| error.to_string())?;
    let column = batches[0].column(0);
    let shown = if column.is_null(0) {
        "NULL".to_owned()
    } else {
        arrow::util::display::array_value_to_string(column, 0).unwrap()
    };
    Ok((shown, kind))
}

/// Expression, value, type.
const CASES: &[(&str, &str, &str)] = &[
    ("any_value(CAST(NULL AS INT), true)", "NULL", "INT"),
    ("avg(CAST('1.25' AS DECIMAL(10, 2)))", "1.250000", "DECIMAL(14,6)"),
    // Arguments that are cast to what a function takes.
    ("date_add('2026-01-31', 1)", "2026-02-01", "DATE"),
    ("last_day('2026-02-01')", "2026-02-28", "DATE"),
    ("next_day('2026-02-01', 'MON')", "2026-02-02", "DATE"),
    ("upper(5)", "5", "STRING"),
    ("substr(12345, 2, 2)", "23", "STRING"),
    ("trim(5)", "5", "STRING"),
    ("lpad(5, 3, 0)", "005", "STRING"),
    ("replace(101, 1, 2)", "202", "STRING"),
    // Operators.
    ("7 / 2", "3.5", "DOUBLE"),
    ("7 div 2 + 1", "4", "BIGINT"),
    ("-7 % 3", "-1", "INT"),
    ("1 == 1", "true", "BOOLEAN"),
    ("NULL <=> NULL", "true", "BOOLEAN"),
    ("1 <=> NULL", "false", "BOOLEAN"),
    ("1 != 2 AND NOT false", "true", "BOOLEAN"),
    ("1 + 1", "2", "INT"),
    ("2147483647L + 1", "2147483648", "BIGINT"),
    ("1.5 + 1", "2.5", "DECIMAL(3,1)"),
    ("1e1", "10.0", "DOUBLE"),
    ("1.5D * 2", "3.0", "DOUBLE"),
    ("3Y", "3", "TINYINT"),
    ("'a' || 'b' || 1", "ab1", "STRING"),
    ("'abc' RLIKE 'b+'", "true", "BOOLEAN"),
    ("'abc' NOT RLIKE '^b'", "true", "BOOLEAN"),
    ("'abc' LIKE 'a%'", "true", "BOOLEAN"),
    ("'10' > 9", "true", "BOOLEAN"),
    ("2 BETWEEN 1 AND 3", "true", "BOOLEAN"),
    ("3 IN (1, 2, 3)", "true", "BOOLEAN"),
    ("CASE WHEN 1 > 2 THEN 1 ELSE 0 END", "0", "INT"),
    ("DATE '2026-01-31' + 1", "2026-02-01", "DATE"),
    // One NaN, above all numbers.
    ("greatest(CAST('Infinity' AS DOUBLE) - CAST('Infinity' AS DOUBLE), 1D)", "NaN", "DOUBLE"),
    ("least(CAST('Infinity' AS DOUBLE) - CAST('Infinity' AS DOUBLE), 1D)", "1.0", "DOUBLE"),
    ("greatest(CAST('NaN' AS DOUBLE), NULL, 1D)", "NaN", "DOUBLE"),
    (
        "array_max(array(CAST('Infinity' AS DOUBLE) - CAST('Infinity' AS DOUBLE), 1D))",
        "NaN",
        "DOUBLE",
    ),
    (
        "array_min(array(CAST('Infinity' AS DOUBLE) - CAST('Infinity' AS DOUBLE), 1D))",
        "1.0",
        "DOUBLE",
    ),
    ("greatest(1, 3, 2)", "3", "INT"),
    ("array_max(array(1, 3, 2))", "3", "INT"),
    // Functions that take functions.
    ("transform(array(1, 2), x -> x + 1)", "[2, 3]", "ARRAY<INT>"),
    ("array_contains(array(1, NULL), 2)", "NULL", "BOOLEAN"),
    ("transform(array(1, 2), (x, i) -> x * i)", "[0, 2]", "ARRAY<INT>"),
    ("filter(array(1, 2, 3), x -> x > 1)", "[2, 3]", "ARRAY<INT>"),
    ("exists(array(1, NULL), x -> x > 1)", "NULL", "BOOLEAN"),
    ("forall(array(2, 4), x -> x % 2 = 0)", "true", "BOOLEAN"),
    ("aggregate(array(1, 2, 3), 0, (acc, x) -> acc + x, acc -> acc * 10)", "60", "INT"),
    ("zip_with(array(1, 2), array(3), (x, y) -> x + y)", "[4, ]", "ARRAY<INT>"),
    ("map_filter(map('a', 1, 'b', 2), (k, v) -> v > 1)", "{b: 2}", "MAP<STRING, INT>"),
    ("transform_values(map('a', 1), (k, v) -> v + 1)", "{a: 2}", "MAP<STRING, INT>"),
    ("array_sort(array(1, 3, 2), (x, y) -> y - x)", "[3, 2, 1]", "ARRAY<INT>"),
    ("transform(array(array(1)), x -> transform(x, y -> y * 2))", "[[2]]", "ARRAY<ARRAY<INT>>"),
    // Collections.
    ("sort_array(array(2, NULL, 1), false)", "[2, 1, ]", "ARRAY<INT>"),
    ("element_at(array(1, 2), -1)", "2", "INT"),
    ("element_at(map('a', 1), 'b')", "NULL", "INT"),
    ("try_element_at(array(1), 5)", "NULL", "INT"),
    ("array_insert(array(1, 2), 4, 9)", "[1, 2, , 9]", "ARRAY<INT>"),
    ("sequence(1, 9, 4)", "[1, 5, 9]", "ARRAY<INT>"),
    ("map_concat(map(1, 'a'), map(2, 'b'))", "{1: a, 2: b}", "MAP<INT, STRING>"),
    ("map_contains_key(map(1, 'a'), 2)", "false", "BOOLEAN"),
    // Other forms.
    ("typeof(array(1.5))", "array<decimal(2,1)>", "STRING"),
    ("decode(2, 1, 'a', 2, 'b')", "b", "STRING"),
    ("zeroifnull(NULL)", "0", "INT"),
    ("conv('ff', 16, 10)", "255", "STRING"),
    ("months_between('2020-02-29', '2020-01-31')", "1.0", "DOUBLE"),
    ("timestampdiff(MONTH, DATE'2020-01-31', DATE'2020-02-28')", "0", "BIGINT"),
    ("hash('Spark')", "228093765", "INT"),
    // Casts.
    ("CAST('12' AS INT)", "12", "INT"),
    ("' 12 '::BIGINT", "12", "BIGINT"),
    ("CAST(1.9 AS INT)", "1", "INT"),
    ("CAST(1 AS STRING)", "1", "STRING"),
    ("CAST(1.0D AS STRING)", "1.0", "STRING"),
    ("CAST(1e10 AS STRING)", "1.0E10", "STRING"),
    ("CAST(true AS STRING)", "true", "STRING"),
    ("CAST('yes' AS BOOLEAN)", "true", "BOOLEAN"),
    ("CAST(TIMESTAMP '2026-01-01 00:00:00.5' AS STRING)", "2026-01-01 00:00:00.5", "STRING"),
    ("CAST(TIMESTAMP '2026-01-01' AS BIGINT)", "1767225600", "BIGINT"),
    ("CAST(1767225600 AS TIMESTAMP)", "2026-01-01T00:00:00Z", "TIMESTAMP"),
    ("CAST('2026-01-01T12:00:00+02:00' AS TIMESTAMP)", "2026-01-01T10:00:00Z", "TIMESTAMP"),
    ("CAST('2026-1-5' AS DATE)", "2026-01-05", "DATE"),
    ("try_cast('x' AS INT)", "NULL", "INT"),
    ("string(5)", "5", "STRING"),
    // Texts.
    ("upper('a')", "A", "STRING"),
    ("concat('a', 'b')", "ab", "STRING"),
    ("concat_ws('-', 'a', NULL, 'b')", "a-b", "STRING"),
    ("substring('Spark SQL', 5)", "k SQL", "STRING"),
    ("substring('Spark SQL', -3)", "SQL", "STRING"),
    ("substr('Spark', 2, 3)", "par", "STRING"),
    ("length('Spark ')", "6", "INT"),
    ("trim('  a ')", "a", "STRING"),
    ("split('a1b2c', '[0-9]')", "[a, b, c]", "ARRAY<STRING>"),
    ("split('a,b', ',')[0]", "a", "STRING"),
    ("regexp_replace('100-200', '(\\\\d+)', 'num')", "num-num", "STRING"),
    ("regexp_extract('100-200', '(\\\\d+)-(\\\\d+)', 2)", "200", "STRING"),
    ("replace('abc', 'b', 'x')", "axc", "STRING"),
    ("instr('SparkSQL', 'SQL')", "6", "INT"),
    ("locate('bar', 'foobarbar', 5)", "7", "INT"),
    ("lpad('hi', 5, '?')", "???hi", "STRING"),
    ("rpad('hi', 1)", "h", "STRING"),
    ("initcap('sPark sql')", "Spark Sql", "STRING"),
    ("reverse('abc')", "cba", "STRING"),
    ("repeat('ab', 2)", "abab", "STRING"),
    ("translate('AaBbCc', 'abc', '123')", "A1B2C3", "STRING"),
    ("startswith('Spark', 'Sp')", "true", "BOOLEAN"),
    ("contains('Spark', 'ar')", "true", "BOOLEAN"),
    ("left('Spark', 3)", "Spa", "STRING"),
    ("ascii('a')", "97", "INT"),
    ("format_string('%d-%s', 5, 'x')", "5-x", "STRING"),
    ("base64('abc')", "YWJj", "STRING"),
    ("md5('Spark')", "8cde774d6f7333752ed72cacddb05126", "STRING"),
    (
        "sha2('Spark', 256)",
        "529bc3b07127ecb7e53a4dcf1991d9152c24537d919178022b2c42657f79a26b",
        "STRING",
    ),
    ("crc32('Spark')", "1557323817", "BIGINT"),
    ("hex('Spark')", "537061726B", "STRING"),
    // Numbers.
    ("round(2.5D, 0)", "3.0", "DOUBLE"),
    ("round(-1.25D, 1)", "-1.3", "DOUBLE"),
    ("floor(-0.1D)", "-1", "BIGINT"),
    ("ceil(-0.1D)", "0", "BIGINT"),
    ("abs(-1)", "1", "INT"),
    ("pow(2, 3)", "8.0", "DOUBLE"),
    ("sqrt(4)", "2.0", "DOUBLE"),
    ("pmod(-7, 3)", "2", "INT"),
    ("greatest(1, 3, 2)", "3", "INT"),
    ("least(1, 3, 2)", "1", "INT"),
    ("sign(-3)", "-1.0", "DOUBLE"),
    ("bin(13)", "1101", "STRING"),
    // NULL and conditions.
    ("coalesce(NULL, 1)", "1", "INT"),
    ("nvl(NULL, 'x')", "x", "STRING"),
    ("nullif(1, 1)", "NULL", "INT"),
    ("if(1 > 2, 'a', 'b')", "b", "STRING"),
    ("isnull(NULL)", "true", "BOOLEAN"),
    ("try_divide(1, 0)", "NULL", "DOUBLE"),
    // Times.
    ("to_date('2026-01-31')", "2026-01-31", "DATE"),
    ("to_timestamp('31/01/2026 10:30', 'dd/MM/yyyy HH:mm')", "2026-01-31T10:30:00Z", "TIMESTAMP"),
    ("date_format(TIMESTAMP '2026-01-31 10:30:00', 'yyyy/MM/dd HH')", "2026/01/31 10", "STRING"),
    ("unix_timestamp('2026-01-01', 'yyyy-MM-dd')", "1767225600", "BIGINT"),
    ("from_unixtime(0)", "1970-01-01 00:00:00", "STRING"),
    ("year(DATE '2026-01-31')", "2026", "INT"),
    ("month(TIMESTAMP '2026-01-31 00:00:00')", "1", "INT"),
    ("day('2026-01-31')", "31", "INT"),
    ("hour(TIMESTAMP '2026-01-31 10:30:00')", "10", "INT"),
    ("dayofweek(DATE '2026-01-04')", "1", "INT"),
    ("date_add(DATE '2026-01-31', 1)", "2026-02-01", "DATE"),
    ("datediff(DATE '2026-02-01', DATE '2026-01-31')", "1", "INT"),
    ("add_months(DATE '2026-01-31', 1)", "2026-02-28", "DATE"),
    ("last_day(DATE '2026-02-01')", "2026-02-28", "DATE"),
    ("date_trunc('HOUR', TIMESTAMP '2026-01-31 10:30:00')", "2026-01-31T10:00:00Z", "TIMESTAMP"),
    ("trunc(DATE '2026-03-15', 'MM')", "2026-03-01", "DATE"),
    ("TIMESTAMP '2026-01-01' + INTERVAL 1 DAY", "2026-01-02T00:00:00Z", "TIMESTAMP"),
    ("TIMESTAMP '2026-01-01' - INTERVAL '2' HOURS", "2025-12-31T22:00:00Z", "TIMESTAMP"),
    ("timestamp_seconds(1)", "1970-01-01T00:00:01Z", "TIMESTAMP"),
    ("extract(YEAR FROM DATE '2026-01-31')", "2026", "INT"),
    // Nested values.
    ("array(1, 2)[1]", "2", "INT"),
    ("size(array(1, 2))", "2", "INT"),
    ("array_contains(array(1, 2), 2)", "true", "BOOLEAN"),
    ("map('a', 1)['a']", "1", "INT"),
    ("named_struct('a', 1).a", "1", "INT"),
    ("get_json_object('{\"a\":{\"b\":[1,\"x\"]}}', '$.a.b[1]')", "x", "STRING"),
    ("from_json('{\"a\":1}', 'a INT, b STRING').a", "1", "INT"),
    ("to_json(named_struct('a', 1, 'b', 'x'))", "{\"a\":1,\"b\":\"x\"}", "STRING"),
    ("concat(array(1), array(2))", "[1, 2]", "ARRAY<INT>"),
];

/// What is known to differ still; each with the reason in the crate's report.
const KNOWN: &[&str] = &[];

#[tokio::test]
async fn common_expressions_give_what_spark_gives() {
    let context = context();
    let mut wrong = Vec::new();
    for (text, wanted, kind) in CASES {
        let found = value(&context, text).await;
        let right = matches!(&found, Ok((value, found)) if value == wanted && found == kind);
        if right == KNOWN.contains(text) {
            wrong.push(format!("{text}: wanted {wanted} ({kind}), found {found:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), CASES.len(), wrong.join("\n"));
}

#[tokio::test]
async fn what_does_not_fit_is_an_error_that_names_the_value() {
    let context = context();
    for (text, wanted) in [
        ("CAST('x' AS INT)", "[CAST_INVALID_INPUT] the value 'x'"),
        ("CAST(3000000000 AS INT)", "[CAST_OVERFLOW] the value 3000000000"),
        ("1 / 0", "[DIVIDE_BY_ZERO]"),
        ("2147483647 + 1", "[ARITHMETIC_OVERFLOW]"),
        ("to_timestamp('x', 'yyyy')", "[CANNOT_PARSE_TIMESTAMP]"),
        ("CAST(DATE '2026-01-01' AS INT)", "cannot cast DATE to INT"),
        ("date_format(TIMESTAMP '2026-01-01', 'ww')", "[INVALID_DATETIME_PATTERN]"),
        ("CAST(1 AS WRONG)", "there is no type `wrong`"),
        ("upper(x -> x)", "`upper` takes no function"),
    ] {
        let error = value(&context, text).await.unwrap_err();
        assert!(error.contains(wanted), "{text}: {error}");
    }
}

#[tokio::test]
async fn columns_without_alias_have_sparks_names() {
    let context = context();
    for (text, wanted) in [
        ("1 + 1", "(1 + 1)"),
        ("upper('a')", "upper(a)"),
        ("CAST(1 AS STRING)", "CAST(1 AS STRING)"),
        ("NOT true", "(NOT true)"),
        ("UPPER('a') || 'b'", "concat(upper(a), b)"),
    ] {
        let plan = sql::query(&context, &format!("SELECT {text}")).await.unwrap();
        assert_eq!(plan.schema().field(0).name(), wanted);
    }
}

#[tokio::test]
async fn lambdas_and_names_that_come_twice_stand_over_other_projections() {
    let context = context();
    let rows = "(VALUES (1, array(1, 2), 'a'), (2, array(3), 'b')) AS t(a, b, c)";
    let text = format!("SELECT transform(b, x -> x + 1) AS v FROM {rows}");
    let plan = sql::query(&context, &text).await.unwrap();
    let lists = context.execute_logical_plan(plan).await.unwrap().collect().await.unwrap();
    let list = lists[0].column(0).as_list::<i32>().value(0);
    assert_eq!(list.as_primitive::<arrow::datatypes::Int32Type>().values(), &[2, 3]);

    let plan = sql::query(&context, &format!("SELECT a, c FROM {rows}")).await.unwrap();
    let items = ["a", "a + 1 AS a", "c AS a"];
    let items = items.map(|item| sql::select_items(&context, plan.schema(), item).unwrap());
    let plan = sql::project(plan, items.into_iter().flatten().collect()).unwrap();
    let columns = context.execute_logical_plan(plan).await.unwrap().collect().await.unwrap();
    assert_eq!((columns[0].num_columns(), columns[0].num_rows()), (3, 2));
}

#[tokio::test]
async fn aggregates_among_items_are_over_all_rows() {
    let context = context();
    let rows = "SELECT * FROM (VALUES (1, 'a'), (2, 'b')) AS t(n, c)";
    let plan = sql::query(&context, rows).await.unwrap();
    let items = ["sum(n) AS s", "count(*) + 1 AS more"];
    let items = items.map(|item| sql::select_items(&context, plan.schema(), item).unwrap());
    let plan = sql::project(plan, items.into_iter().flatten().collect()).unwrap();
    let found = context.execute_logical_plan(plan).await.unwrap().collect().await.unwrap();
    assert_eq!(found.iter().map(|rows| rows.num_rows()).sum::<usize>(), 1);
    let shown = arrow::util::pretty::pretty_format_batches(&found).unwrap().to_string();
    assert!(shown.contains("| 3 | 3    |"), "{shown}");
}
