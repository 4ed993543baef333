//! The program of a tutorial, in Rust with Spark's own client. It ends with what it saw, for the
//! test that runs it.

use spark_connect::session::SparkSession;
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let remote = std::env::var("SPARK_REMOTE")?;
    let spark = SparkSession::builder().remote(&remote).get_or_create()?;
    let stream = spark.read_stream().format("rate").load(None);
    let query = stream
        .write_stream()
        .format("parquet")
        .option("checkpointLocation", "checkpoints")
        .start("table")?;
    // The first batch makes the folder.
    while spark.read().parquet("table").count().unwrap_or(0) < 3 && query.is_active()? {
        query.await_termination(Some(0.5))?;
    }
    query.stop()?;
    let rows = spark.read().parquet("table").collect()?;
    let mut values: Vec<i64> =
        rows.iter().filter_map(|row| row.get_by_name("value")?.as_i64()).collect();
    values.sort_unstable();
    let (active, range) = (query.is_active()?, spark.range(10)?.count()?);
    println!("{{\"active\": {active}, \"range\": {range}, \"values\": {values:?}}}");
    spark.stop()?;
    Ok(())
}
