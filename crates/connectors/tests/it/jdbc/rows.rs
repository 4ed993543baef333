//! What becomes of rows: brought together by keys, refused, put aside.

use super::rig::{Kind, Rig};
use crate::on_each_database;
use crate::sink::rig::rows;
use arrow::array::{ArrayRef, BooleanArray, Int64Array, RecordBatch, StringArray};
use onefold_connector::OutputMode;
use onefold_connectors::jdbc::Cell;
use onefold_types::ErrorKind;
use std::sync::Arc;

fn keyed(rows: &[(Option<i64>, i64, &str, Option<bool>)]) -> RecordBatch {
    let id: ArrayRef = Arc::new(Int64Array::from_iter(rows.iter().map(|row| row.0)));
    let n: ArrayRef = Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.1)));
    let v: ArrayRef = Arc::new(StringArray::from_iter_values(rows.iter().map(|row| row.2)));
    let gone: ArrayRef = Arc::new(BooleanArray::from_iter(rows.iter().map(|row| row.3)));
    let columns = [("id", id), ("n", n), ("v", v), ("gone", gone)];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, it)| (name, it, true))).unwrap()
}

fn named(text: &str) -> RecordBatch {
    let id: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3]));
    let k: ArrayRef = Arc::new(StringArray::from(vec!["a", text, "c"]));
    let columns = [("id", id), ("k", k)].map(|(name, it)| (name, it, true));
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

async fn seen(rig: &Rig) -> Vec<(i64, i64, String)> {
    let rows = rig.query(&format!("SELECT id, n, v FROM {} ORDER BY id", rig.table)).await;
    rows.iter()
        .map(|row| {
            let text = row[2].as_text().unwrap().to_owned();
            (row[0].as_int().unwrap(), row[1].as_int().unwrap(), text)
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_latest_row_of_a_key_counts_and_marked_ones_go() {
    on_each_database!(rig, {
        let mut rig =
            rig.with("upsertKeys", "ID").with("upsertOrderBy", "n").with("deleteWhen", "gone");
        rig.output_mode = OutputMode::Update;
        let first = keyed(&[
            (Some(1), 5, "new", None),
            (Some(1), 4, "old", Some(true)),
            (Some(2), 1, "two", Some(false)),
            (Some(3), 1, "three", None),
        ]);
        rig.schema = first.schema();
        let sink = rig.open(1, None, None).await.unwrap();
        rig.run(&*sink, 1, 0, vec![first, keyed(&[(Some(2), 1, "last", None)])]).await.unwrap();
        let text = |text: &str| text.to_owned();
        assert_eq!(
            seen(&rig).await,
            [(1, 5, text("new")), (2, 1, text("last")), (3, 1, text("three"))]
        );
        let second = keyed(&[(Some(3), 9, "", Some(true)), (Some(1), 6, "newer", None)]);
        rig.run(&*sink, 1, 1, vec![second]).await.unwrap();
        assert_eq!(seen(&rig).await, [(1, 6, text("newer")), (2, 1, text("last"))]);
        let error =
            rig.run(&*sink, 1, 2, vec![keyed(&[(Some(4), 1, "", None), (None, 1, "", None)])]);
        let error = error.await.unwrap_err();
        assert!(error.to_string().contains("row 1, column `id`"), "{error}");
        // Without rows the mark is written as well.
        rig.run(&*sink, 1, 3, vec![]).await.unwrap();
        assert_eq!(sink.last_mark().await.unwrap().unwrap().mark.batch.0, 3);
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_of_keys_alone_takes_rows_that_it_has() {
    on_each_database!(rig, {
        let mut rig = rig.with("upsertKeys", "id, k");
        rig.output_mode = OutputMode::Update;
        let sink = rig.open(1, None, None).await.unwrap();
        rig.run(&*sink, 1, 0, vec![rows(&[1])]).await.unwrap();
        rig.run(&*sink, 1, 1, vec![rows(&[1, 2])]).await.unwrap();
        assert_eq!(rig.ids().await, [1, 2]);
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_complete_result_takes_the_place_of_the_last_one() {
    on_each_database!(rig, {
        let mut rig = rig.with("truncate", "true");
        rig.output_mode = OutputMode::Complete;
        let sink = rig.open(1, None, None).await.unwrap();
        rig.run(&*sink, 1, 0, vec![rows(&[1, 2, 3])]).await.unwrap();
        rig.run(&*sink, 1, 1, vec![rows(&[4]), rows(&[5])]).await.unwrap();
        assert_eq!(rig.ids().await, [4, 5]);
        rig.run(&*sink, 1, 2, vec![]).await.unwrap();
        assert_eq!(rig.ids().await, [0_i64; 0]);
    });
}

fn strict(kind: Kind) -> &'static str {
    match kind {
        Kind::Sqlite => "id BIGINT NOT NULL, k TEXT CHECK (length(k) < 4)",
        Kind::Postgres => "id BIGINT NOT NULL, k VARCHAR(3)",
        Kind::MariaDb => "id BIGINT NOT NULL, k VARCHAR(3)",
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_is_refused_is_named_and_nothing_of_its_batch_is_written() {
    on_each_database!(rig, {
        rig.execute(&format!("CREATE TABLE {} ({})", rig.table, strict(rig.kind))).await;
        let sink = rig.open(1, None, None).await.unwrap();
        let error = rig.run(&*sink, 1, 0, vec![named("too long")]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{}", error.chain());
        assert!(error.to_string().contains("row 1"), "{error}");
        assert_eq!(rig.ids().await, [0_i64; 0]);
        // The session is not left in a transaction, and the batch can be made good.
        rig.run(&*sink, 1, 0, vec![named("b")]).await.unwrap();
        assert_eq!(rig.ids().await, [1, 2, 3]);
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_rows_go_to_their_table_with_the_others() {
    on_each_database!(rig, {
        let dead = super::rig::unique("dead");
        let rig = rig.with("onefold.jdbc.deadLetterTable", &dead);
        let unique = format!("CREATE TABLE {} ({}, UNIQUE (id))", rig.table, strict(rig.kind));
        rig.execute(&unique).await;
        let sink = rig.open(1, None, None).await.unwrap();
        rig.run(&*sink, 1, 0, vec![named("too long"), named("b")]).await.unwrap();
        assert_eq!(rig.ids().await, [1, 2, 3]);
        let sql = format!("SELECT partition_id, row_nr, row_json FROM {dead} ORDER BY 1, 2");
        let sql =
            if rig.kind == Kind::MariaDb { sql.replace("row_number", "`row_number`") } else { sql };
        let refused = rig.query(&sql).await;
        let places: Vec<(i64, i64)> = refused
            .iter()
            .map(|row| (row[0].as_int().unwrap(), row[1].as_int().unwrap()))
            .collect();
        // The long one, and the two of the second partition that are there already.
        assert_eq!(places, [(0, 1), (1, 0), (1, 2)]);
        assert!(refused[0][2].as_text().unwrap().contains("too long"));
        // Once, whatever runs again.
        let sink = rig.open(2, None, Some(0)).await.unwrap();
        rig.run(&*sink, 2, 0, vec![named("too long"), named("b")]).await.unwrap();
        assert_eq!(rig.query(&sql).await.len(), 3);
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_by_key_that_break_a_constraint_go_to_their_table_and_the_others_are_brought_in() {
    on_each_database!(rig, {
        let dead = super::rig::unique("dead");
        let mut rig = rig.with("upsertKeys", "id").with("deleteWhen", "gone");
        rig.output_mode = OutputMode::Update;
        let child = super::rig::unique("child");
        rig.execute(&format!(
            "CREATE TABLE {} (id BIGINT PRIMARY KEY, n BIGINT CHECK (n < 100), v VARCHAR(20) UNIQUE)",
            rig.table
        ))
        .await;
        let row = |id, n, v, gone| (Some(id), n, v, gone);
        let batch = keyed(&[
            row(1, 1, "a", None),
            row(2, 500, "older and refused too, but it does not count", None),
            row(2, 700, "b", None),
            row(3, 3, "c", None),
        ]);
        rig.schema = batch.schema();
        let without = rig.open(1, None, None).await.unwrap();
        let error = rig.run(&*without, 1, 0, vec![batch.clone()]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{}", error.chain());
        let rig = rig.with("onefold.jdbc.deadLetterTable", &dead);
        let sink = rig.open(2, None, Some(0)).await.unwrap();
        // The last one would have the value of another row.
        let second = keyed(&[row(4, 4, "d", None), row(5, 5, "a", None)]);
        let short = keyed(&[row(1, 1, "a", None), row(2, 700, "b", None), row(3, 3, "c", None)]);
        rig.run(&*sink, 2, 0, vec![short, second]).await.unwrap();
        let ids = |rows: Vec<(i64, i64, String)>| rows.iter().map(|it| it.0).collect::<Vec<_>>();
        assert_eq!(ids(seen(&rig).await), [1, 3, 4]);
        let sql = format!("SELECT partition_id, row_nr, row_json FROM {dead} ORDER BY 1, 2");
        let refused = rig.query(&sql).await;
        let place = |row: &Vec<Cell>| (row[0].as_int().unwrap(), row[1].as_int().unwrap());
        assert_eq!(refused.iter().map(place).collect::<Vec<_>>(), [(0, 1), (1, 1)]);
        assert!(refused[0][2].as_text().unwrap().contains("700"));
        // A row that another table needs does not go, and is put aside as well.
        if rig.kind != Kind::Sqlite {
            rig.execute(&format!(
                "CREATE TABLE {child} (id BIGINT, FOREIGN KEY (id) REFERENCES {} (id))",
                rig.table
            ))
            .await;
            rig.execute(&format!("INSERT INTO {child} VALUES (3)")).await;
            let third = keyed(&[row(3, 3, "", Some(true)), row(4, 4, "", Some(true))]);
            rig.run(&*sink, 2, 1, vec![third]).await.unwrap();
            assert_eq!(ids(seen(&rig).await), [1, 3]);
            assert_eq!(rig.query(&sql).await.len(), 3);
        }
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn columns_are_found_by_name_and_a_missing_one_is_named() {
    on_each_database!(rig, {
        rig.execute(&format!("CREATE TABLE {} (extra INT, k VARCHAR(20), id BIGINT)", rig.table))
            .await;
        let sink = rig.open(1, None, None).await.unwrap();
        rig.run(&*sink, 1, 0, vec![rows(&[7])]).await.unwrap();
        let sql = format!("SELECT id, k, extra FROM {}", rig.table);
        let text = Cell::text("k 1/x");
        assert_eq!(rig.query(&sql).await, [vec![Cell::Int(7), text, Cell::Null]]);
        let other = rig.other().with("onefold.jdbc.sharedTable", "true");
        let id: ArrayRef = Arc::new(Int64Array::from(vec![1]));
        let strange = RecordBatch::try_from_iter([("id", Arc::clone(&id)), ("zz", id)]).unwrap();
        let other = Rig { schema: strange.schema(), ..other };
        let error = other.open(1, None, None).await.unwrap_err();
        assert!(error.to_string().contains("no column `zz`"), "{error}");
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_without_transactions_is_refused_by_the_name_of_its_engine() {
    let folder = tempfile::tempdir().unwrap();
    let Some(rig) = Rig::new(Kind::MariaDb, folder.path()) else { return };
    rig.execute(&format!("CREATE TABLE {} (id BIGINT, k TEXT) ENGINE=MyISAM", rig.table)).await;
    let error = rig.open(1, None, None).await.unwrap_err();
    assert!(error.to_string().contains("MyISAM"), "{error}");
}
