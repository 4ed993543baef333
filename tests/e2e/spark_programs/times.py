"""Dates and times; the zone of the session is UTC."""

import datetime

from pyspark.sql import functions as F

from .frames import each, over


def _events(spark):
    utc = datetime.timezone.utc
    return spark.createDataFrame(
        [
            (1, datetime.date(2024, 2, 29), datetime.datetime(2024, 2, 29, 13, 4, 5, 678901, utc)),
            (2, datetime.date(1969, 12, 31), datetime.datetime(1969, 12, 31, 23, 59, 59, 1, utc)),
            (3, None, None),
        ],
        "id INT, d DATE, ts TIMESTAMP",
    )


def parts(spark):
    rows = _events(spark)
    return over(
        rows,
        F.year("d"),
        F.quarter("d"),
        F.month("d"),
        F.day("d"),
        F.dayofmonth("d"),
        F.dayofweek("d"),
        F.dayofyear("d"),
        F.weekday("d"),
        F.weekofyear("d"),
        F.hour("ts"),
        F.minute("ts"),
        F.second("ts"),
        F.dayname("d"),
        F.monthname("d"),
        F.last_day("d"),
        F.next_day("d", "Mon"),
        F.to_date("ts"),
        F.unix_date("d"),
        F.unix_micros("ts"),
        F.unix_millis("ts"),
        F.unix_seconds("ts"),
        F.unix_timestamp("ts"),
        F.trunc("d", "year"),
        F.date_trunc("hour", "ts"),
    )


def extracting(spark):
    fields = ["YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "DOW", "DAYOFWEEK_ISO", "DOY", "YEAROFWEEK"]
    times = ["HOUR", "MINUTE", "SECOND"]
    return each(
        spark,
        *[f"EXTRACT({field} FROM DATE'2024-12-30')" for field in fields],
        *[f"EXTRACT({field} FROM TIMESTAMP'2024-12-30 10:20:30.456')" for field in times],
        "date_part('YEAR', TIMESTAMP'2019-08-12 01:00:00.123456')",
        "date_part('seconds', TIMESTAMP'2019-08-12 01:00:00.123456')",
        "datepart('doy', DATE'2019-08-12')",
    )


def adding(spark):
    return each(
        spark,
        "date_add(DATE'2016-07-30', 1)",
        "date_sub(DATE'2016-07-30', 40)",
        "dateadd(DATE'2016-07-30', 5)",
        "DATE'2016-07-30' + 3",
        "DATE'2016-07-30' - 3",
        "add_months(DATE'2016-08-31', 1)",
        "add_months('2016-01-31', -2)",
        "months_between('1997-02-28 10:30:00', '1996-10-30')",
        "months_between('1997-02-28 10:30:00', '1996-10-30', false)",
        "datediff('2009-07-31', '2009-07-30')",
        "date_diff(DATE'2009-07-30', DATE'2009-07-31')",
        "timestampadd(HOUR, 8, TIMESTAMP'2022-02-11 20:30:00')",
        "timestampadd(MONTH, 1, TIMESTAMP'2022-01-31 00:00:00')",
        "timestampdiff(DAY, TIMESTAMP'2022-02-11 20:30:00', TIMESTAMP'2022-02-12 10:00:00')",
        "timestampdiff(MONTH, DATE'2021-02-11', DATE'2022-02-10')",
        "dateadd(MONTH, 1, DATE'2022-01-31')",
        "datediff(WEEK, DATE'2022-01-01', DATE'2022-02-01')",
        "DATE'2020-03-01' - DATE'2020-02-01'",
        "TIMESTAMP'2020-03-01 12:00:00' - TIMESTAMP'2020-02-29 00:00:00'",
    )


def truncating(spark):
    units = ["YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND", "MILLISECOND"]
    return each(
        spark,
        *[f"date_trunc('{unit}', TIMESTAMP'2015-11-19 09:32:05.359')" for unit in units],
        *[f"trunc(DATE'2019-08-14', '{unit}')" for unit in ["week", "quarter", "MM", "yy", "nope"]],
        "last_day('2009-01-12')",
        "next_day('2015-01-14', 'TU')",
        "next_day('2015-01-14', 'xx')",
    )


def reading_times(spark):
    return each(
        spark,
        "to_date('2016-12-31')",
        "to_date('31/12/2016', 'dd/MM/yyyy')",
        "to_date('2016-12-31 12:00:00')",
        "to_timestamp('2016-12-31 00:12:00')",
        "to_timestamp('2016-12-31', 'yyyy-MM-dd')",
        "to_timestamp('20161231 121314', 'yyyyMMdd HHmmss')",
        "to_timestamp('2016-12-31T00:12:00+02:00')",
        "to_timestamp_ntz('2016-12-31 00:12:00')",
        "to_timestamp_ltz('2016-12-31 00:12:00')",
        "to_unix_timestamp('2016-04-08', 'yyyy-MM-dd')",
        "unix_timestamp('2016-04-08 01:02:03')",
        "to_date('nope')",
        "to_timestamp('2016-13-01')",
        "to_date('2016-12-31', 'dd/MM/yyyy')",
        "try_to_timestamp('foo')",
        "try_to_timestamp('2016-12-31 00:12:00')",
        "try_to_date('foo')",
        "DATE'2024-02-29'",
        "DATE'2024-2-9'",
        "TIMESTAMP'2024-02-29 01:02'",
        "TIMESTAMP_NTZ'2024-02-29 01:02:03.5'",
        "TIMESTAMP'2024-02-29 01:02:03+01:00'",
        "CAST('2024' AS DATE)",
        "CAST('12:30' AS TIMESTAMP) IS NOT NULL",
    )


def writing_times(spark):
    return each(
        spark,
        "date_format(DATE'2016-04-08', 'y')",
        "date_format(TIMESTAMP'2016-04-08 13:04:05.678', 'yyyy-MM-dd HH:mm:ss.SSS')",
        "date_format(TIMESTAMP'2016-04-08 13:04:05', 'EEE, d MMM yyyy h:mm a')",
        "date_format(TIMESTAMP'2016-04-08 13:04:05', 'EEEE MMMM D Q')",
        "date_format(TIMESTAMP'2016-04-08 13:04:05', 'yyyy-MM-dd\\'T\\'HH:mm:ssXXX')",
        "from_unixtime(0)",
        "from_unixtime(1700000000, 'yyyy/MM/dd')",
        "CAST(TIMESTAMP'2016-04-08 13:04:05.600' AS STRING)",
        "CAST(DATE'0001-01-01' AS STRING)",
        "CAST(TIMESTAMP_NTZ'2016-04-08 13:04:05' AS STRING)",
        "date_format(NULL, 'y')",
    )


def making(spark):
    return each(
        spark,
        "make_date(2013, 7, 15)",
        "make_date(2019, 2, 30)",
        "make_timestamp(2014, 12, 28, 6, 30, 45.887)",
        "make_timestamp(2019, 6, 30, 23, 59, 60)",
        "make_timestamp(2014, 12, 28, 6, 30, 45.887, 'CET')",
        "make_timestamp_ntz(2014, 12, 28, 6, 30, 45.887)",
        "make_timestamp_ltz(2014, 12, 28, 6, 30, 45.887)",
        "try_make_timestamp(2014, 13, 28, 6, 30, 45)",
        "date_from_unix_date(1)",
        "timestamp_seconds(1230219000)",
        "timestamp_seconds(1.5)",
        "timestamp_millis(1230219000123)",
        "timestamp_micros(1230219000123123)",
        "unix_date(DATE'1970-01-02')",
        "unix_micros(TIMESTAMP'1970-01-01 00:00:01Z')",
        "timestamp('2020-01-01')",
        "date('2020-01-01')",
    )


def zones(spark):
    return each(
        spark,
        "from_utc_timestamp('2016-08-31', 'Asia/Seoul')",
        "to_utc_timestamp('2016-08-31', 'Asia/Seoul')",
        "from_utc_timestamp(TIMESTAMP'2016-03-27 01:30:00', 'Europe/Paris')",
        "convert_timezone('Europe/Brussels', 'America/Los_Angeles', TIMESTAMP_NTZ'2021-12-06 00:00:00')",
        "convert_timezone('America/Los_Angeles', TIMESTAMP_NTZ'2021-12-06 00:00:00')",
        "current_timezone()",
        "CAST(TIMESTAMP_NTZ'2021-01-01 00:00:00' AS TIMESTAMP)",
        "CAST(TIMESTAMP'2021-01-01 00:00:00' AS DATE)",
        "current_date() = to_date(current_timestamp())",
        "now() = current_timestamp()",
        "typeof(localtimestamp())",
    )


def comparing(spark):
    return each(
        spark,
        "DATE'2020-01-01' < TIMESTAMP'2020-01-01 00:00:01'",
        "DATE'2020-01-01' = '2020-01-01'",
        "TIMESTAMP'2020-01-01' = DATE'2020-01-01'",
        "TIMESTAMP'2020-01-01' > '2019-12-31 23:59:59'",
        "DATE'2020-01-01' IN ('2020-01-01', '2021-01-01')",
        "DATE'2020-01-01' BETWEEN '2019-01-01' AND '2020-06-01'",
        "greatest(DATE'2020-01-01', DATE'2021-01-01')",
    )


def windows_of_time(spark):
    rows = _events(spark).where("ts IS NOT NULL")
    return [
        lambda: rows.select(F.window("ts", "10 minutes").alias("w")).select("w.start", "w.end"),
        lambda: rows.select(F.window("ts", "1 hour", "30 minutes")),
        lambda: rows.groupBy(F.window("ts", "1 day")).count(),
        lambda: rows.groupBy(F.window("ts", "1 hour", "1 hour", "15 minutes")).agg(F.sum("id").alias("s")),
        lambda: rows.groupBy(F.session_window("ts", "5 minutes")).count(),
        lambda: rows.groupBy(F.window("ts", "1 hour")).count().select(F.window_time("window")),
    ]


def intervals(spark):
    return each(
        spark,
        "INTERVAL '1' DAY + INTERVAL '2' HOUR",
        "INTERVAL '1 02:03:04.5' DAY TO SECOND",
        "INTERVAL 3 DAYS",
        "INTERVAL '10:20' MINUTE TO SECOND",
        "CAST(INTERVAL '1-2' YEAR TO MONTH AS STRING)",
        "CAST(INTERVAL '25' HOUR AS STRING)",
        "CAST(INTERVAL '1 02:03:04.5' DAY TO SECOND AS STRING)",
        "CAST(make_interval(1, 2, 3, 4, 5, 6, 7.5) AS STRING)",
        "make_dt_interval(1, 12, 30, 1.001001)",
        "CAST(make_ym_interval(1, 2) AS STRING)",
        "DATE'2020-01-31' + INTERVAL '1' MONTH",
        "DATE'2020-01-31' - INTERVAL '1' YEAR",
        "TIMESTAMP'2020-01-31 00:00:00' + INTERVAL '1 12' DAY TO HOUR",
        "TIMESTAMP'2020-01-31 00:00:00' + INTERVAL 1 MONTH 2 DAYS",
        "INTERVAL '2' DAY * 3",
        "INTERVAL '6' DAY / 4",
        "-INTERVAL '1' DAY",
        "abs(INTERVAL '-1' DAY)",
        "INTERVAL '1' DAY > INTERVAL '23' HOUR",
        "EXTRACT(DAY FROM INTERVAL '3 04:05:06' DAY TO SECOND)",
        "EXTRACT(HOUR FROM INTERVAL '3 04:05:06' DAY TO SECOND)",
        "EXTRACT(SECOND FROM INTERVAL '3 04:05:06.5' DAY TO SECOND)",
        "sum(a) FROM VALUES (INTERVAL '1' DAY), (INTERVAL '2' DAY) AS t(a)",
        "CAST('1 2:03:04' AS INTERVAL DAY TO SECOND)",
        "CAST(INTERVAL '1' DAY AS BIGINT)",
    )


def intervals_over_columns(spark):
    rows = _events(spark)
    return over(
        rows,
        F.col("ts") + F.expr("INTERVAL '1' DAY"),
        F.col("d") + F.expr("INTERVAL '1' MONTH"),
        F.col("ts") - F.lit(datetime.timedelta(hours=1, seconds=1)),
        F.date_add("d", "id"),
        F.add_months("d", "id"),
        F.datediff(F.lit(datetime.date(2024, 3, 1)), "d"),
        F.months_between("ts", F.lit(datetime.datetime(2024, 1, 1))),
        F.make_date(F.lit(2020), "id", F.lit(1)),
        F.timestamp_seconds("id"),
        F.from_unixtime("id"),
        F.date_format("ts", "yyyy-MM"),
        F.to_char("ts", F.lit("yyyy")),
        F.timestamp_add("DAY", F.col("id"), F.col("ts")),
        F.timestamp_diff("DAY", F.col("d"), F.col("ts")),
    )
