"""What Spark refuses to start."""

from pyspark.sql import Window
from pyspark.sql import functions as F

from pairs.joins import joined
from pairs.program import left, program, refused, right
from pairs.runs import running_total


@refused()
def refused_append_without_watermark(spark, inputs):
    return inputs.stream().groupBy("k").count()


@refused()
def refused_append_by_key_under_a_watermark(spark, inputs):
    return inputs.events().groupBy("k").count()


@refused("complete")
def refused_complete_without_aggregation(spark, inputs):
    return inputs.stream()


@refused("complete")
def refused_duplicates_in_complete(spark, inputs):
    return inputs.stream().dropDuplicates(["k"])


@refused()
def refused_sort(spark, inputs):
    return inputs.stream().orderBy("v")


@refused("update")
def refused_sort_in_update(spark, inputs):
    return inputs.stream().groupBy("k").count().orderBy("k")


@refused("update")
def refused_limit_in_update(spark, inputs):
    return inputs.stream().limit(3)


@refused("update")
def refused_offset(spark, inputs):
    return inputs.stream().offset(3)


@refused("update")
def refused_count_of_distinct(spark, inputs):
    return inputs.stream().groupBy("k").agg(F.count_distinct("v"))


@refused("update")
def refused_session_in_update(spark, inputs):
    return inputs.events().groupBy(F.session_window("ts", "1 minute"), "k").count()


@refused()
def refused_session_without_key(spark, inputs):
    return inputs.events().groupBy(F.session_window("ts", "1 minute")).count()


@refused()
def refused_function_over_rows(spark, inputs):
    ranked = F.row_number().over(Window.partitionBy("k").orderBy("v"))
    return inputs.stream().select("k", ranked)


@refused("update")
def refused_two_aggregations_in_update(spark, inputs):
    counts = inputs.stream().groupBy("k").agg(F.count("*").alias("n"))
    return counts.groupBy("n").count()


@refused("complete")
def refused_two_aggregations_in_complete(spark, inputs):
    counts = inputs.stream().groupBy("k").agg(F.count("*").alias("n"))
    return counts.groupBy("n").count()


@refused()
def refused_except(spark, inputs):
    return inputs.stream().subtract(inputs.stream(name="other"))


@refused()
def refused_intersect(spark, inputs):
    return inputs.stream().intersect(inputs.stream(name="other"))


@refused()
def refused_union_with_a_static_table(spark, inputs):
    return inputs.stream().select("k").union(inputs.static("k STRING", {"k": "a"}))


@refused()
def refused_left_join_without_watermark(spark, inputs):
    return joined(inputs, "left", "lk = rk", (None, None))


@refused()
def refused_left_join_without_bound(spark, inputs):
    return joined(inputs, "left", "lk = rk")


@refused()
def refused_full_join_without_watermark(spark, inputs):
    return joined(inputs, "full", "lk = rk", (None, None))


@refused()
def refused_anti_join(spark, inputs):
    return joined(inputs, "left_anti")


@refused("update")
def refused_left_join_in_update(spark, inputs):
    return joined(inputs, "left")


@refused("complete")
def refused_join_in_complete(spark, inputs):
    return joined(inputs, "inner")


@program(left("0:10 a 1"), right("0:10 a 2"))
def refused_join_without_equality(spark, inputs):
    return joined(inputs, "inner", "lv < rv")


@refused()
def refused_static_on_the_kept_side(spark, inputs):
    static = inputs.static("k STRING, name STRING", {"k": "a", "name": "ann"})
    return inputs.stream().join(static, "k", "right")


@refused()
def refused_full_join_with_static(spark, inputs):
    static = inputs.static("k STRING, name STRING", {"k": "a", "name": "ann"})
    return inputs.stream().join(static, "k", "full")


@refused()
def refused_second_watermark(spark, inputs):
    return inputs.events().withWatermark("ts", "20 seconds").dropDuplicates(["ts"])


@refused()
def refused_watermark_of_a_number(spark, inputs):
    return inputs.stream().withWatermark("v", "20 seconds")


@refused()
def refused_watermark_of_an_unknown_column(spark, inputs):
    return inputs.stream().withWatermark("nope", "20 seconds")


@refused()
def refused_negative_delay(spark, inputs):
    return inputs.stream().withWatermark("ts", "-20 seconds")


@refused()
def refused_delay_that_is_none(spark, inputs):
    return inputs.stream().withWatermark("ts", "soon")


@refused()
def refused_duplicates_within_no_watermark(spark, inputs):
    return inputs.stream().dropDuplicatesWithinWatermark(["k"])


@refused("update")
def refused_two_windows(spark, inputs):
    return inputs.stream().groupBy(F.window("ts", "1 minute"), F.window("ts", "1 hour")).count()


@refused("update")
def refused_slide_above_the_length(spark, inputs):
    return inputs.stream().groupBy(F.window("ts", "1 minute", "2 minutes")).count()


@refused("update", sink="parquet")
def refused_update_to_files(spark, inputs):
    return inputs.stream().groupBy("k").count()


@refused()
def refused_static_query(spark, inputs):
    return inputs.static("k STRING", {"k": "a"})


@refused("append")
def refused_own_state_of_another_mode(spark, inputs):
    return running_total(inputs, "update", "NoTimeout")


@refused("complete")
def refused_own_state_in_complete(spark, inputs):
    return running_total(inputs, "update", "NoTimeout")


@refused()
def refused_subquery_of_a_stream(spark, inputs):
    inputs.stream().createOrReplaceTempView("a_stream")
    inputs.stream(name="other").createOrReplaceTempView("another_stream")
    return spark.sql("SELECT * FROM a_stream WHERE k IN (SELECT k FROM another_stream)")
