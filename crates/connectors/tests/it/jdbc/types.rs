//! Types that one database has and the others do not.

use super::rig::{Kind, Rig, unique};
use super::tables::read;
use crate::on_each_database;
use crate::sink::rig::rows;
use arrow::array::{
    Array, ArrayRef, AsArray, DurationMicrosecondArray, Int64Array, IntervalYearMonthArray,
    ListArray, RecordBatch, StringArray,
};
use arrow::datatypes::{DataType, Int64Type};
use onefold_connectors::jdbc::Cell;
use onefold_types::{ErrorKind, OptionMap};
use std::sync::Arc;

fn list() -> ArrayRef {
    let items = [Some(vec![Some(1), None]), Some(vec![]), None];
    Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(items))
}

#[tokio::test(flavor = "multi_thread")]
async fn whole_numbers_without_a_sign_bits_and_words_of_mariadb_come_back() {
    let folder = tempfile::tempdir().unwrap();
    let Some(rig) = Rig::new(Kind::MariaDb, folder.path()) else { return };
    rig.execute(&format!(
        "CREATE TABLE {} (u8 tinyint unsigned, u16 smallint unsigned, u32 int unsigned, \
         u64 bigint unsigned, one bit(1), many bit(12), e enum('sad', 'it''s ok'), s set('a', 'b'), \
         j json, tm time)",
        rig.table
    ))
    .await;
    rig.execute(&format!(
        "INSERT INTO {} VALUES (255, 65535, 4294967295, 18446744073709551615, b'1', \
         b'101010101010', 'it''s ok', 'a,b', '{{\"a\": 1}}', '12:30:01'), \
         (NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
        rig.table
    ))
    .await;
    let (batch, _) = read(&rig, OptionMap::new(), None, &[]).await.unwrap();
    let of = |name: &str| batch.column_by_name(name).unwrap().data_type().clone();
    assert_eq!(
        [of("u8"), of("u16"), of("u32")],
        [DataType::Int16, DataType::Int32, DataType::Int64]
    );
    assert_eq!([of("u64"), of("one")], [DataType::Decimal128(20, 0), DataType::Boolean]);
    assert_eq!([of("many"), of("e"), of("tm")], [DataType::Binary, DataType::Utf8, DataType::Utf8]);
    let copy = unique("copy");
    rig.execute(&format!("CREATE TABLE {copy} LIKE {}", rig.table)).await;
    let copy = Rig { table: copy.clone(), ..rig.clone() }.with("dbtable", &copy);
    copy.write("append", batch).await.unwrap();
    let same: Vec<String> = ["u8", "u16", "u32", "u64", "one", "many", "e", "s", "j", "tm"]
        .iter()
        .map(|name| format!("a.{name} <=> b.{name}"))
        .collect();
    let same = same.join(" AND ");
    let sql = format!("SELECT count(*) FROM {} AS a JOIN {} AS b ON {same}", rig.table, copy.table);
    assert_eq!(rig.query(&sql).await[0][0].as_int(), Some(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_day_of_mariadb_that_is_none_is_named_by_row_and_column() {
    let folder = tempfile::tempdir().unwrap();
    let Some(rig) = Rig::new(Kind::MariaDb, folder.path()) else { return };
    rig.execute(&format!("CREATE TABLE {} (ok int, x date)", rig.table)).await;
    let mut session = rig.database().connect().await.unwrap();
    session.execute("SET SESSION sql_mode = ''", &[]).await.unwrap();
    let sql = format!("INSERT INTO {} VALUES (1, NULL), (2, '0000-00-00')", rig.table);
    session.execute(&sql, &[]).await.unwrap();
    let error = read(&rig, OptionMap::new(), None, &[]).await.unwrap_err().to_string();
    assert!(error.contains("row 1, column `x`"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn arrays_go_into_postgres_and_are_refused_by_name_where_there_are_none() {
    on_each_database!(rig, {
        let batch = RecordBatch::try_from_iter([("a", list())]).unwrap();
        let outcome = rig.write("append", batch.clone()).await;
        if rig.kind != Kind::Postgres {
            let error = outcome.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid);
            let text = error.to_string();
            assert!(text.contains("column `a`") && text.contains("to_json"), "{text}");
            continue;
        }
        outcome.unwrap();
        rig.write("append", batch.slice(0, 1)).await.unwrap();
        let sql = format!("SELECT a::text FROM {} ORDER BY 1", rig.table);
        let texts: Vec<_> =
            rig.query(&sql).await.iter().map(|row| row[0].as_text().map(str::to_owned)).collect();
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(texts, [text("{1,NULL}"), text("{1,NULL}"), text("{}"), None]);
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn arrays_of_any_depth_come_back_from_postgres() {
    let folder = tempfile::tempdir().unwrap();
    let Some(rig) = Rig::new(Kind::Postgres, folder.path()) else { return };
    rig.execute(&format!("CREATE TABLE {} (id bigint, a int[][][], n numeric(6,2)[])", rig.table))
        .await;
    rig.execute(&format!(
        "INSERT INTO {} VALUES (1, '{{{{{{1,2}},{{3,4}}}},{{{{5,6}},{{7,NULL}}}}}}', '{{1.50,NULL}}'), \
         (2, '{{}}', '{{}}'), (3, NULL, NULL)",
        rig.table
    ))
    .await;
    let (batch, _) = read(&rig, OptionMap::new(), None, &[]).await.unwrap();
    let mut depth = 0;
    let mut of = batch.column_by_name("a").unwrap().data_type().clone();
    while let DataType::List(item) = of {
        (depth, of) = (depth + 1, item.data_type().clone());
    }
    assert_eq!((depth, of), (3, DataType::Int32));
    let copy = unique("copy");
    // A table whose columns are made for the rows, and one row at a time.
    let copy = Rig { table: copy.clone(), ..rig.clone() }.with("dbtable", &copy);
    for row in 0..3 {
        copy.write("append", batch.slice(row, 1)).await.unwrap();
    }
    copy.write("append", batch).await.unwrap();
    let sql = |table: &str| format!("SELECT DISTINCT id, a::text, n::text FROM {table} ORDER BY 1");
    assert_eq!(rig.query(&sql(&copy.table)).await, rig.query(&sql(&rig.table)).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn spans_of_time_are_intervals_of_postgres_and_refused_elsewhere() {
    on_each_database!(rig, {
        let months: ArrayRef = Arc::new(IntervalYearMonthArray::from(vec![Some(-14), None]));
        let micros: ArrayRef =
            Arc::new(DurationMicrosecondArray::from(vec![Some(-90_061_000_001), None]));
        let batch = [("m", months), ("d", micros)].map(|(name, it)| (name, it, true));
        let batch = RecordBatch::try_from_iter_with_nullable(batch).unwrap();
        let outcome = rig.write("append", batch).await;
        if rig.kind != Kind::Postgres {
            assert!(outcome.unwrap_err().to_string().contains("column `m`"));
            continue;
        }
        outcome.unwrap();
        let sql = format!(
            "SELECT m = interval '-14 months', d = interval '-25:01:01.000001' FROM {} \
             WHERE m IS NOT NULL",
            rig.table
        );
        assert_eq!(rig.query(&sql).await, [[Cell::Bool(true), Cell::Bool(true)]]);
        let (batch, _) = read(&rig, OptionMap::new(), None, &[]).await.unwrap();
        let text = batch.column_by_name("m").unwrap().as_string::<i32>();
        assert_eq!((text.value(0), text.is_null(1)), ("-1 years -2 mons", true));
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_nul_in_a_text_is_kept_where_the_database_takes_it_and_put_aside_where_not() {
    on_each_database!(rig, {
        let dead = unique("dead");
        let rig = rig.with("onefold.jdbc.deadLetterTable", &dead);
        let id: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
        let k: ArrayRef = Arc::new(StringArray::from(vec!["a", "a\0b", "c"]));
        let batch = RecordBatch::try_from_iter([("id", id), ("k", k)]).unwrap();
        let rig = Rig { schema: batch.schema(), ..rig };
        let sink = rig.open(1, None, None).await.unwrap();
        rig.run(&*sink, 1, 0, vec![batch]).await.unwrap();
        let count = format!("SELECT count(*) FROM {dead}");
        let refused = rig.query(&count).await[0][0].as_int().unwrap();
        match rig.kind {
            Kind::Postgres => assert_eq!((rig.ids().await, refused), (vec![1, 3], 1)),
            _ => {
                assert_eq!((rig.ids().await, refused), (vec![1, 2, 3], 0));
                let sql = format!("SELECT k FROM {} WHERE id = 2", rig.table);
                assert_eq!(rig.query(&sql).await, [[Cell::text("a\0b")]]);
            }
        }
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_that_failed_leaves_no_transaction_open() {
    let folder = tempfile::tempdir().unwrap();
    let Some(rig) = Rig::new(Kind::Postgres, folder.path()) else { return };
    rig.execute(&format!("CREATE TABLE {} (id bigint CHECK (id < 5), k text)", rig.table)).await;
    let rig = rig
        .clone()
        .with("sessionInitStatement", &format!("SET application_name = '{}'", rig.table));
    let sink = rig.open(1, None, None).await.unwrap();
    rig.run(&*sink, 1, 0, vec![rows(&[1, 7])]).await.unwrap_err();
    let sql = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE application_name = '{}' \
         AND state LIKE 'idle in transaction%'",
        rig.table
    );
    assert_eq!(rig.query(&sql).await[0][0].as_int(), Some(0));
    rig.run(&*sink, 1, 0, vec![rows(&[1, 2])]).await.unwrap();
    assert_eq!(rig.ids().await, [1, 2]);
}
