//! Tables that are written and read once, and the types of their values.

use super::rig::{Kind, Rig};
use crate::on_each_database;
use crate::sink::rig::{ManualClock, rows};
use arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, BooleanArray, Date32Array, Decimal128Array,
    Float32Array, Float64Array, Int8Array, Int16Array, Int32Array, Int64Array, RecordBatch,
    StringArray, TimestampMicrosecondArray,
};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Int64Type};
use datafusion::physical_plan::collect;
use datafusion::prelude::{Expr, SessionContext, col, lit};
use onefold_connector::{Options, ReadLimit, ScanRequest, SourceContext, SourceRequest};
use onefold_connectors::jdbc::{Cell, source};
use onefold_storage::LocalStore;
use onefold_types::{OffsetRange, OptionMap, QueryId, Result};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;

/// Reads a table or a query, as `DataFrame.read`; how many partitions there were.
pub(crate) async fn read(
    rig: &Rig,
    options: OptionMap,
    projection: Option<Vec<usize>>,
    filters: &[Expr],
) -> Result<(RecordBatch, usize)> {
    let mut options = options;
    options.set("url", rig.options.get("url").unwrap());
    if options.get("query").is_none() {
        options.set("dbtable", rig.table.as_str());
    }
    let request = SourceRequest {
        options: Options::check("jdbc", source::SPEC.options, options)?,
        schema: None,
        paths: Vec::new(),
        conf: BTreeMap::new(),
        whole: true,
    };
    let definition = (source::SPEC.define)(request).await?;
    let folder = tempfile::tempdir().unwrap();
    let context = SourceContext {
        query: QueryId(uuid::Uuid::new_v4()),
        checkpoint: Arc::new(LocalStore::new(folder.path()).unwrap()),
        log_folder: "sources/0".to_owned(),
        history: Vec::new(),
        clock: Arc::new(ManualClock(AtomicI64::new(0))),
        conf: BTreeMap::new(),
    };
    let source = definition.open(context).await?;
    let end = source.latest_offset(None, ReadLimit::All).await?.end;
    let range = OffsetRange { start: None, end, note: None };
    let session = SessionContext::new();
    let state = session.state();
    let scan = ScanRequest { projection: projection.as_ref(), filters, session: &state };
    let plan = source.read(&range, scan).await?;
    let parts = datafusion::physical_plan::ExecutionPlanProperties::output_partitioning(&plan)
        .partition_count();
    let schema = plan.schema();
    let batches =
        collect(plan, session.task_ctx()).await.map_err(|error| match error.find_root() {
            datafusion::common::DataFusionError::External(error) => {
                onefold_types::Error::invalid(error.to_string())
            }
            other => onefold_types::Error::invalid(other.to_string()),
        })?;
    Ok((concat_batches(&schema, &batches).unwrap(), parts))
}

pub(crate) fn ids(batch: &RecordBatch) -> Vec<i64> {
    let mut ids = batch.column_by_name("id").unwrap().as_primitive::<Int64Type>().values().to_vec();
    ids.sort_unstable();
    ids
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_does_what_its_mode_says() {
    on_each_database!(rig, {
        rig.write("errorifexists", rows(&[1])).await.unwrap();
        let error = rig.write("errorifexists", rows(&[1])).await.unwrap_err();
        assert!(error.to_string().contains("already exists"), "{error}");
        rig.write("append", rows(&[2])).await.unwrap();
        assert_eq!(rig.ids().await, [1, 2]);
        rig.write("ignore", rows(&[3])).await.unwrap();
        assert_eq!(rig.ids().await, [1, 2]);
        rig.write("overwrite", rows(&[4])).await.unwrap();
        assert_eq!(rig.ids().await, [4]);
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn overwriting_makes_a_table_anew_and_truncate_keeps_it() {
    on_each_database!(rig, {
        let number = |name: &str| {
            let id: ArrayRef = Arc::new(Int64Array::from(vec![7]));
            RecordBatch::try_from_iter([("id", Arc::clone(&id)), (name, id)]).unwrap()
        };
        rig.execute(&format!("CREATE TABLE {} (id BIGINT, k TEXT, more BIGINT)", rig.table)).await;
        rig.write("append", rows(&[1, 2])).await.unwrap();
        // Columns that the old table does not have.
        rig.write("overwrite", number("other")).await.unwrap();
        let sql = format!("SELECT * FROM {}", rig.table);
        assert_eq!(rig.query(&sql).await, [vec![Cell::Int(7), Cell::Int(7)]]);
        let keeping = rig.clone().with("truncate", "true");
        let error = keeping.write("overwrite", number("third")).await.unwrap_err();
        assert!(error.to_string().contains("no column `third`"), "{error}");
        keeping.write("overwrite", number("OTHER")).await.unwrap();
        assert_eq!(rig.query(&sql).await.len(), 1);
        // What fails leaves the old one, and nothing beside it.
        let strict = rig.clone().with("createTableColumnTypes", "k VARCHAR(3)");
        if rig.kind != Kind::Sqlite {
            strict.write_as("overwrite", rows(&[1_000])).await.unwrap_err();
            assert_eq!(rig.query(&sql).await, [vec![Cell::Int(7), Cell::Int(7)]]);
        }
        rig.write_as("overwrite", rows(&[1])).await.unwrap();
        assert_eq!(rig.ids().await, [1]);
        assert_eq!(rig.staging_tables().await, 0);
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_is_read_in_parts_with_columns_and_conditions() {
    on_each_database!(rig, {
        let all: Vec<i64> = (0..100).collect();
        rig.write("append", rows(&all)).await.unwrap();
        rig.execute(&format!("INSERT INTO {} VALUES (NULL, 'none')", rig.table)).await;
        let split = OptionMap::new()
            .with("partitionColumn", "id")
            .with("lowerBound", "0")
            .with("upperBound", "100")
            .with("numPartitions", "4")
            .with("fetchsize", "7");
        let (batch, parts) = read(&rig, split, None, &[]).await.unwrap();
        assert_eq!((batch.num_rows(), parts), (101, 4));
        assert_eq!(batch.column_by_name("id").unwrap().null_count(), 1);
        let filters = [col("id").gt_eq(lit(98_i64))];
        let (batch, _) = read(&rig, OptionMap::new(), Some(vec![0]), &filters).await.unwrap();
        assert_eq!((ids(&batch), batch.num_columns()), (vec![98, 99], 1));
        let (batch, _) = read(&rig, OptionMap::new(), Some(vec![]), &[]).await.unwrap();
        assert_eq!((batch.num_rows(), batch.num_columns()), (101, 0));
        let query = format!("SELECT id, id + 1 AS next FROM {} WHERE id < 3", rig.table);
        let (batch, _) =
            read(&rig, OptionMap::new().with("query", query), None, &[]).await.unwrap();
        assert_eq!(ids(&batch), [0, 1, 2]);
        assert_eq!(batch.column_by_name("next").unwrap().data_type(), &DataType::Int64);
    });
}

/// A value of each type, and NULL.
fn values(kind: Kind) -> RecordBatch {
    let zone = |values: Vec<Option<i64>>| TimestampMicrosecondArray::from(values);
    let mut columns: Vec<(&str, ArrayRef)> = vec![
        ("b", Arc::new(BooleanArray::from(vec![Some(true), None]))),
        ("i16", Arc::new(Int16Array::from(vec![Some(i16::MIN), None]))),
        ("i32", Arc::new(Int32Array::from(vec![Some(i32::MIN), None]))),
        ("i64", Arc::new(Int64Array::from(vec![Some(i64::MIN), None]))),
        ("f64", Arc::new(Float64Array::from(vec![Some(-0.1), None]))),
        (
            "d",
            Arc::new(
                Decimal128Array::from(vec![
                    Some(-99_999_999_999_999_999_999_999_999_999_i128),
                    None,
                ])
                .with_precision_and_scale(38, 10)
                .unwrap(),
            ),
        ),
        ("s", Arc::new(StringArray::from(vec![Some("é'\\\"☃𝄞"), None]))),
        ("y", Arc::new(BinaryArray::from_opt_vec(vec![Some(&[0, 255, 39]), None]))),
        ("day", Arc::new(Date32Array::from(vec![Some(-25_567), None]))),
        ("t", Arc::new(zone(vec![Some(-1_000_001), None]))),
        ("z", Arc::new(zone(vec![Some(1_767_225_600_000_001), None]).with_timezone("UTC"))),
    ];
    if kind != Kind::Sqlite {
        columns.push(("f32", Arc::new(Float32Array::from(vec![Some(1.5), None]))));
        columns.push(("i16b", Arc::new(Int16Array::from(vec![Some(7), None]))));
    }
    if kind == Kind::MariaDb {
        columns.push(("i8", Arc::new(Int8Array::from(vec![Some(-128), None]))));
    }
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, a)| (n, a, true)))
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_value_comes_back_as_it_was_written() {
    on_each_database!(rig, {
        let written = values(rig.kind);
        rig.write("append", written.clone()).await.unwrap();
        let (batch, _) = read(&rig, OptionMap::new(), None, &[]).await.unwrap();
        for (field, column) in written.schema().fields().iter().zip(written.columns()) {
            let found = batch.column_by_name(field.name()).unwrap();
            // SQLite knows one width of whole numbers.
            let found = match rig.kind {
                Kind::Sqlite => arrow::compute::cast(found, field.data_type()).unwrap(),
                _ => Arc::clone(found),
            };
            assert_eq!(found.as_ref(), column.as_ref(), "{:?} {}", rig.kind, field.name());
        }
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_that_are_none_are_kept_or_refused_by_row_and_column() {
    on_each_database!(rig, {
        let odd: ArrayRef =
            Arc::new(Float64Array::from(vec![1.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN]));
        let odd = RecordBatch::try_from_iter([("x", odd)]).unwrap();
        let outcome = rig.write("append", odd.clone()).await;
        match rig.kind {
            Kind::Postgres => {
                outcome.unwrap();
                let (batch, _) = read(&rig, OptionMap::new(), None, &[]).await.unwrap();
                assert_eq!(batch.column(0).as_ref(), odd.column(0).as_ref());
            }
            Kind::Sqlite => {
                let error = outcome.unwrap_err().to_string();
                assert!(error.contains("row 3, column `x`"), "{error}");
            }
            Kind::MariaDb => {
                let error = outcome.unwrap_err().to_string();
                assert!(error.contains("row 1, column `x`"), "{error}");
            }
        }
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_has_more_types_and_each_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let Some(rig) = Rig::new(Kind::Postgres, folder.path()) else { return };
    let mood = super::rig::unique("mood");
    rig.execute(&format!("CREATE TYPE {mood} AS ENUM ('sad', 'it''s ok')")).await;
    rig.execute(&format!(
        "CREATE TABLE {} (u uuid, j jsonb, e {mood}, a int[][], s text[], n numeric[], ip inet, \
         iv interval, x numeric, o oid, tm time, v varchar(5))",
        rig.table
    ))
    .await;
    rig.execute(&format!(
        "INSERT INTO {} VALUES ('6fa0ab59-0d2c-4b1e-9d5c-1f2d3c4b5a69', '{{\"a\": 1}}', 'it''s ok', \
         '{{{{1,2}},{{3,NULL}}}}', '{{\"a,b\",NULL}}', '{{1.5}}', '10.0.0.1/8', \
         '1 year 2 days 00:00:03', 1.25, 7, '12:30', 'abc'), \
         (NULL, NULL, NULL, '{{}}', '{{}}', NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
        rig.table
    ))
    .await;
    let (batch, _) = read(&rig, OptionMap::new(), None, &[]).await.unwrap();
    // What was read goes into another table of the same columns, and is the same there.
    let copy = Rig { table: super::rig::unique("copy"), ..rig.clone() }.with("dbtable", "");
    rig.execute(&format!("CREATE TABLE {} (LIKE {})", copy.table, rig.table)).await;
    let copy = Rig { table: copy.table.clone(), ..copy.clone() }.with("dbtable", &copy.table);
    copy.write("append", batch.clone()).await.unwrap();
    let differ = format!(
        "SELECT count(*) FROM (SELECT * FROM {0} EXCEPT SELECT * FROM {1}) AS d",
        rig.table, copy.table
    );
    assert_eq!(rig.query(&differ).await[0][0].as_int(), Some(0));
    assert_eq!(
        copy.query(&format!("SELECT count(*) FROM {}", copy.table)).await[0][0].as_int(),
        Some(2)
    );
    let text = batch.column_by_name("ip").unwrap().as_string::<i32>().value(0).to_owned();
    assert_eq!(text, "10.0.0.1/8");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_value_without_a_place_here_is_named_by_row_and_column() {
    let folder = tempfile::tempdir().unwrap();
    let Some(rig) = Rig::new(Kind::Postgres, folder.path()) else { return };
    for (of, value) in [
        ("timestamptz", "infinity"),
        ("numeric", "NaN"),
        ("numeric", "Infinity"),
        ("date", "-infinity"),
    ] {
        let rig = Rig { table: super::rig::unique("odd"), ..rig.clone() };
        rig.execute(&format!("CREATE TABLE {} (ok int, x {of})", rig.table)).await;
        rig.execute(&format!("INSERT INTO {} VALUES (1, NULL), (2, '{value}')", rig.table)).await;
        let error = read(&rig, OptionMap::new(), None, &[]).await.unwrap_err().to_string();
        assert!(error.contains("row 1, column `x`"), "{of} {value}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn text_with_a_nul_is_refused_by_postgres_and_bytes_are_not() {
    let folder = tempfile::tempdir().unwrap();
    let Some(rig) = Rig::new(Kind::Postgres, folder.path()) else { return };
    rig.execute(&format!("CREATE TABLE {} (s text, j jsonb, y bytea)", rig.table)).await;
    let batch = |s: &str, j: &str, y: &[u8]| {
        let s: ArrayRef = Arc::new(StringArray::from(vec!["fine", s]));
        let j: ArrayRef = Arc::new(StringArray::from(vec!["{}", j]));
        let y: ArrayRef = Arc::new(BinaryArray::from_vec(vec![b"", y]));
        RecordBatch::try_from_iter([("s", s), ("j", j), ("y", y)]).unwrap()
    };
    let error = rig.write("append", batch("a\0b", "{}", b"")).await.unwrap_err().to_string();
    assert!(error.contains("row 1, column `s`") && error.contains("NUL"), "{error}");
    let error = rig.write("append", batch("", "{\"k\":\"\\u0000\"}", b"")).await.unwrap_err();
    assert!(error.to_string().contains("row 1, column `j`"), "{error}");
    rig.write("append", batch("", "{}", b"a\0b")).await.unwrap();
    assert_eq!(
        rig.query(&format!("SELECT count(*) FROM {}", rig.table)).await[0][0].as_int(),
        Some(2)
    );
}
