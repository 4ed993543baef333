//! The yardstick: one plain DataFusion run of the same query over the same files.

use crate::Failure;
use crate::measure::{Report, report};
use datafusion::arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use datafusion::config::TableParquetOptions;
use datafusion::dataframe::DataFrameWriteOptions;
use datafusion::prelude::{JsonReadOptions, SessionConfig, SessionContext, col, lit};
use std::time::Instant;

/// Reads JSON, filters, projects, writes Parquet (snappy), as many threads as cores.
pub fn run(input: &str, output: &str) -> Result<(), Failure> {
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(async {
        let started = Instant::now();
        let context = SessionContext::new_with_config(SessionConfig::new());
        let schema = Schema::new(vec![
            Field::new("id", DataType::Int64, true),
            Field::new("customer", DataType::Utf8, true),
            Field::new("country", DataType::Utf8, true),
            Field::new("amount", DataType::Float64, true),
            Field::new("quantity", DataType::Int32, true),
            Field::new("ts", DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())), true),
        ]);
        let options = JsonReadOptions::default().schema(&schema);
        let frame =
            context.read_json(input, options).await?.filter(col("amount").gt(lit(200.0)))?.select(
                vec![
                    col("id"),
                    col("customer"),
                    col("country"),
                    (col("amount") * lit(1.19)).alias("gross"),
                    col("quantity"),
                    col("ts"),
                ],
            )?;
        let mut parquet = TableParquetOptions::default();
        parquet.global.compression = Some("snappy".to_owned());
        let written =
            frame.write_parquet(output, DataFrameWriteOptions::new(), Some(parquet)).await?;
        let seconds = started.elapsed().as_secs_f64();
        let rows = written
            .iter()
            .filter_map(|batch| {
                let counts = batch.column(0).as_any();
                counts.downcast_ref::<datafusion::arrow::array::UInt64Array>()
            })
            .flat_map(|counts| counts.values().iter().copied())
            .sum();
        report(&Report { seconds, rows, ..Report::with_peak() })
    })
}
