//! Dates and times in sessions whose zone is not UTC, as Spark 4.2 gives them.

use crate::memory::context;
use arrow::array::AsArray;
use datafusion::prelude::SessionContext;
use onefold_plan::sql;

/// An expression, and its text in Berlin and in New York.
const CASES: &[(&str, &str, &str)] = &[
    ("CAST('2024-03-31 02:30:00' AS TIMESTAMP)", "2024-03-31 03:30:00", "2024-03-31 02:30:00"),
    ("CAST('2024-10-27 02:30:00' AS TIMESTAMP)", "2024-10-27 02:30:00", "2024-10-27 02:30:00"),
    ("CAST('2024-07-01 12:00:00' AS TIMESTAMP)", "2024-07-01 12:00:00", "2024-07-01 12:00:00"),
    ("CAST('2024-07-01' AS TIMESTAMP)", "2024-07-01 00:00:00", "2024-07-01 00:00:00"),
    ("CAST('2024-07-01 12:00:00Z' AS TIMESTAMP)", "2024-07-01 14:00:00", "2024-07-01 08:00:00"),
    (
        "CAST('2024-07-01 12:00:00 Asia/Tokyo' AS TIMESTAMP)",
        "2024-07-01 05:00:00",
        "2024-06-30 23:00:00",
    ),
    ("CAST('2024-07-01 12:00:00+05' AS TIMESTAMP)", "2024-07-01 09:00:00", "2024-07-01 03:00:00"),
    ("CAST('1900-01-01 00:00:00' AS TIMESTAMP)", "1900-01-01 00:00:00", "1900-01-01 00:00:00"),
    ("TIMESTAMP '2024-07-01 12:00:00'", "2024-07-01 12:00:00", "2024-07-01 12:00:00"),
    (
        "CAST(TIMESTAMP_NTZ '2024-03-31 02:30:00' AS TIMESTAMP)",
        "2024-03-31 03:30:00",
        "2024-03-31 02:30:00",
    ),
    (
        "CAST(timestamp_seconds(1719835200) AS TIMESTAMP_NTZ)",
        "2024-07-01 14:00:00",
        "2024-07-01 08:00:00",
    ),
    ("CAST(timestamp_seconds(1711846800) AS STRING)", "2024-03-31 03:00:00", "2024-03-30 21:00:00"),
    ("CAST(timestamp_seconds(1711848600) AS STRING)", "2024-03-31 03:30:00", "2024-03-30 21:30:00"),
    ("CAST(timestamp_seconds(1729987200) AS STRING)", "2024-10-27 02:00:00", "2024-10-26 20:00:00"),
    ("CAST(timestamp_seconds(1729990800) AS STRING)", "2024-10-27 02:00:00", "2024-10-26 21:00:00"),
    (
        "CAST(timestamp_seconds(-5000000000) AS STRING)",
        "1811-07-23 16:00:08",
        "1811-07-23 10:10:38",
    ),
    ("CAST(timestamp_millis(-1) AS STRING)", "1970-01-01 00:59:59.999", "1969-12-31 18:59:59.999"),
    ("CAST(timestamp_seconds(1719876600) AS DATE)", "2024-07-02", "2024-07-01"),
    ("CAST(DATE '2024-03-31' AS TIMESTAMP)", "2024-03-31 00:00:00", "2024-03-31 00:00:00"),
    ("CAST(DATE '2024-07-01' AS TIMESTAMP)", "2024-07-01 00:00:00", "2024-07-01 00:00:00"),
    ("year(timestamp_seconds(1735687800))", "2025", "2024"),
    ("day(timestamp_seconds(1719876600))", "2", "1"),
    ("dayofweek(timestamp_seconds(1719876600))", "3", "2"),
    ("dayofyear(timestamp_seconds(1719876600))", "184", "183"),
    ("hour(timestamp_seconds(1719876600))", "1", "19"),
    ("second(timestamp_seconds(1719876600))", "0", "0"),
    ("EXTRACT(HOUR FROM timestamp_seconds(1719876600))", "1", "19"),
    ("EXTRACT(DAY FROM timestamp_seconds(1719876600))", "2", "1"),
    ("date_part('hour', timestamp_seconds(1719876600))", "1", "19"),
    (
        "date_trunc('DAY', timestamp_seconds(1719876600))",
        "2024-07-02 00:00:00",
        "2024-07-01 00:00:00",
    ),
    (
        "date_trunc('HOUR', timestamp_seconds(1719876600))",
        "2024-07-02 01:00:00",
        "2024-07-01 19:00:00",
    ),
    (
        "date_trunc('MONTH', timestamp_seconds(1719876600))",
        "2024-07-01 00:00:00",
        "2024-07-01 00:00:00",
    ),
    (
        "date_trunc('WEEK', timestamp_seconds(1719876600))",
        "2024-07-01 00:00:00",
        "2024-07-01 00:00:00",
    ),
    (
        "date_trunc('HOUR', timestamp_seconds(1729990800))",
        "2024-10-27 02:00:00",
        "2024-10-26 21:00:00",
    ),
    (
        "date_trunc('HOUR', timestamp_seconds(1729992600))",
        "2024-10-27 02:00:00",
        "2024-10-26 21:00:00",
    ),
    (
        "date_trunc('DAY', timestamp_seconds(1729990800))",
        "2024-10-27 00:00:00",
        "2024-10-26 00:00:00",
    ),
    ("trunc(timestamp_seconds(1719876600), 'MONTH')", "2024-07-01", "2024-07-01"),
    (
        "date_format(timestamp_seconds(1719876600), 'yyyy-MM-dd HH:mm:ss')",
        "2024-07-02 01:30:00",
        "2024-07-01 19:30:00",
    ),
    (
        "date_format(timestamp_seconds(1719876600), 'HH:mm Z O')",
        "01:30 +0200 GMT+2",
        "19:30 -0400 GMT-4",
    ),
    ("to_timestamp('2024-07-01 12:00')", "2024-07-01 12:00:00", "2024-07-01 12:00:00"),
    (
        "to_timestamp('2024/07/01 12:00', 'yyyy/MM/dd HH:mm')",
        "2024-07-01 12:00:00",
        "2024-07-01 12:00:00",
    ),
    (
        "to_timestamp('2024/03/31 02:30', 'yyyy/MM/dd HH:mm')",
        "2024-03-31 03:30:00",
        "2024-03-31 02:30:00",
    ),
    (
        "to_timestamp('2024-07-01 12:00 +0530', 'yyyy-MM-dd HH:mm Z')",
        "2024-07-01 08:30:00",
        "2024-07-01 02:30:00",
    ),
    ("to_date('2024/07/01', 'yyyy/MM/dd')", "2024-07-01", "2024-07-01"),
    ("to_date(timestamp_seconds(1719876600))", "2024-07-02", "2024-07-01"),
    ("unix_timestamp('2024-07-01 12:00:00')", "1719828000", "1719849600"),
    ("unix_timestamp('2024/07/01', 'yyyy/MM/dd')", "1719784800", "1719806400"),
    ("unix_timestamp(DATE '2024-07-01')", "1719784800", "1719806400"),
    ("from_unixtime(1719876600)", "2024-07-02 01:30:00", "2024-07-01 19:30:00"),
    ("from_unixtime(1719876600, 'yyyy-MM-dd')", "2024-07-02", "2024-07-01"),
    ("current_timezone()", "Europe/Berlin", "America/New_York"),
    (
        "timestamp_seconds(1711839600) + INTERVAL 1 DAY",
        "2024-04-01 00:00:00",
        "2024-03-31 19:00:00",
    ),
    (
        "timestamp_seconds(1711753200) + INTERVAL 1 DAY",
        "2024-03-31 00:00:00",
        "2024-03-30 19:00:00",
    ),
    (
        "timestamp_seconds(1711839600) + INTERVAL 24 HOURS",
        "2024-04-01 00:00:00",
        "2024-03-31 19:00:00",
    ),
    (
        "timestamp_seconds(1709247600) + INTERVAL 1 MONTH",
        "2024-04-01 00:00:00",
        "2024-03-29 18:00:00",
    ),
    (
        "timestamp_seconds(1711839600) - INTERVAL 1 DAY",
        "2024-03-30 00:00:00",
        "2024-03-29 19:00:00",
    ),
    ("timestamp_seconds(1719876600) > '2024-07-02'", "true", "false"),
    ("timestamp_seconds(1719876600) > DATE '2024-07-02'", "true", "false"),
    ("timestamp_seconds(1719876600) = '2024-07-02 01:30:00'", "true", "false"),
    ("datediff(timestamp_seconds(1719876600), DATE '2024-07-01')", "1", "0"),
    ("date_add(timestamp_seconds(1719876600), 1)", "2024-07-03", "2024-07-02"),
    ("add_months(timestamp_seconds(1719876600), 1)", "2024-08-02", "2024-08-01"),
    ("last_day(timestamp_seconds(1719876600))", "2024-07-31", "2024-07-31"),
    (
        "to_utc_timestamp(timestamp_seconds(1719876600), 'Europe/Berlin')",
        "2024-07-01 23:30:00",
        "2024-07-01 17:30:00",
    ),
    (
        "from_utc_timestamp(timestamp_seconds(1719876600), 'Europe/Berlin')",
        "2024-07-02 03:30:00",
        "2024-07-01 21:30:00",
    ),
    (
        "to_json(named_struct('t', timestamp_seconds(1719876600)))",
        "{\"t\":\"2024-07-02T01:30:00.000+02:00\"}",
        "{\"t\":\"2024-07-01T19:30:00.000-04:00\"}",
    ),
    (
        "from_json('{\"t\":\"2024-07-01 12:00:00\"}', 't TIMESTAMP').t",
        "2024-07-01 12:00:00",
        "2024-07-01 12:00:00",
    ),
    ("concat('a', timestamp_seconds(1719876600))", "a2024-07-02 01:30:00", "a2024-07-01 19:30:00"),
    (
        "window(timestamp_seconds(1719876600), '1 day').start",
        "2024-07-01 02:00:00",
        "2024-06-30 20:00:00",
    ),
    (
        "window(timestamp_seconds(1719876600), '1 day', '1 day', '3 hours').start",
        "2024-07-01 05:00:00",
        "2024-06-30 23:00:00",
    ),
    ("unix_seconds(TIMESTAMP '2024-07-01 12:00:00')", "1719828000", "1719849600"),
    ("next_day(timestamp_seconds(1719876600), 'Mon')", "2024-07-08", "2024-07-08"),
    ("CAST('2024-07-01 12:00:00' AS TIMESTAMP_NTZ)", "2024-07-01 12:00:00", "2024-07-01 12:00:00"),
    (
        "CAST(TIMESTAMP_NTZ '2024-03-31 02:30:00' AS TIMESTAMP)",
        "2024-03-31 03:30:00",
        "2024-03-31 02:30:00",
    ),
    (
        "date_format(timestamp_seconds(1719876600), 'HH:mm VV XXX')",
        "01:30 Europe/Berlin +02:00",
        "19:30 America/New_York -04:00",
    ),
];

async fn value(context: &SessionContext, text: &str) -> Result<String, String> {
    let plan = sql::query(context, &format!("SELECT CAST({text} AS STRING) AS v")).await;
    let plan = plan.map_err(|error| error.chain())?;
    let frame = context.execute_logical_plan(plan).await.map_err(|error| error.to_string())?;
    let batches = frame.collect().await.map_err(|error| error.to_string())?;
    Ok(batches[0].column(0).as_string::<i32>().value(0).to_owned())
}

fn in_zone(zone: &str) -> SessionContext {
    let context = context();
    let state = context.state_ref();
    state.write().config_mut().options_mut().execution.time_zone = Some(zone.to_owned());
    context
}

#[tokio::test]
async fn dates_and_times_in_other_zones_are_sparks() {
    let zones = [in_zone("Europe/Berlin"), in_zone("America/New_York")];
    let mut wrong = Vec::new();
    for (text, berlin, new_york) in CASES {
        for (context, wanted) in zones.iter().zip([berlin, new_york]) {
            let found = value(context, text).await.unwrap_or_else(|error| error);
            if found != *wanted {
                wrong.push(format!("{text}: {found}, not {wanted}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn columns_are_computed_as_literals_are() {
    let context = in_zone("Europe/Berlin");
    let text = "concat_ws('|', CAST(hour(t) AS STRING), CAST(date_trunc('DAY', t) AS STRING), \
                CAST(CAST(t AS DATE) AS STRING), CAST(t + INTERVAL 1 DAY AS STRING), \
                CAST(t > '2024-03-31' AS STRING), date_format(t, 'HH:mm'))";
    let query = format!(
        "SELECT {text} AS v FROM (SELECT timestamp_seconds(1711836000) AS t UNION ALL \
         SELECT timestamp_seconds(1711846800)) ORDER BY v"
    );
    let plan = sql::query(&context, &query).await.unwrap();
    let frame = context.execute_logical_plan(plan).await.unwrap();
    let batches = frame.collect().await.unwrap();
    let found: Vec<String> = batches
        .iter()
        .flat_map(|batch| batch.column(0).as_string::<i32>().iter().flatten())
        .map(str::to_owned)
        .collect();
    let wanted = [
        "23|2024-03-30 00:00:00|2024-03-30|2024-03-31 23:00:00|false|23:00",
        "3|2024-03-31 00:00:00|2024-03-31|2024-04-01 03:00:00|true|03:00",
    ];
    assert_eq!(found, wanted);
}
