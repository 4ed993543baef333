"""Where the engines may differ, by program: which fields, and why. `docs/time.md` has the reasons."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Known:
    """Fields that differ; others must not."""

    fields: frozenset[str]
    reason: str
    # What is missing is on its way: the difference may be gone before it is taken off the list.
    passing: bool = False


DIFFERENCES: dict[str, Known] = {}


def known(reason: str, fields: str, *programs: str, passing: bool = False) -> None:
    for program in programs:
        assert program not in DIFFERENCES, program
        DIFFERENCES[program] = Known(frozenset(fields.split()), reason, passing)


ANSI = "only ANSI mode is there: an overflow is an error"
known(ANSI, "error steps batches", "sum_of_decimals_over_its_width", "sum_over_its_width")
known(
    "approx_count_distinct takes no doubles",
    "error steps batches",
    "approximate_count_of_distinct_doubles",
)
known(
    "count(DISTINCT) works, where Spark refuses it",
    "error steps batches",
    "refused_count_of_distinct",
)
known(
    "an event time without zone works, where Spark refuses it",
    "error steps batches",
    "windows_of_times_without_zone",
)
FIRST_BATCH = "refused at the start, where Spark's query fails in its first batch"
known(FIRST_BATCH, "error", "refused_session_without_key", "refused_join_without_equality")
known(FIRST_BATCH, "error batches", "refused_second_watermark")
known(
    "Spark takes a NULL time for 1970 in the least and the average",
    "eventTime",
    "rows_without_a_time",
    "watermark_of_a_derived_column",
    "watermark_of_a_field_of_a_struct",
)
known(
    "Spark reads a window's place in memory as its time",
    "rows batches eventTime numOutputRows numRowsTotal numRowsRemoved numInputRows sources "
    "numRowsUpdated numRowsDroppedByWatermark",
    "watermark_of_a_window_column",
)
known(
    "Spark does not run LIMIT 0",
    "numInputRows sources operators",
    "limit_of_nothing",
)
known(
    "a stream that a client names twice is read twice, as by Spark's own Connect server",
    "sources",
    "one_stream_twice",
)
known(
    "the files of a static table are listed for each batch, in Spark once",
    "rows numOutputRows",
    "static_that_has_got_a_file_since",
)
REMOVED = "Spark does not count rows that it removes from the side of an outer join which comes out"
known(
    REMOVED,
    "numRowsRemoved",
    "streams_left",
    "streams_right",
    "streams_left_by_the_latest_watermark",
    "streams_left_on_a_window",
    "left_join_then_windows",
)
NULLS = "NULL is equal to NULL in the state of Spark's joins of streams"
known(
    f"{NULLS}; {REMOVED}",
    "rows numOutputRows numRowsRemoved",
    "streams_full",
    "streams_full_on_a_window",
    "both_sides_in_each_batch",
)
known(NULLS, "rows numOutputRows numRowsTotal numRowsUpdated", "join_of_odd_doubles")
known(
    "Spark never lets the unmatched rows out when a condition is on the right side alone",
    "rows numOutputRows numRowsTotal numRowsRemoved",
    "streams_left_with_a_condition_of_one_side",
)
known(
    "rows that the batch itself lets go are not stored",
    "numRowsRemoved numRowsUpdated",
    "windows_of_both_sides_joined",
)
known("collect_set keeps the sign of a zero", "rows", "aggregates_of_odd_doubles", passing=True)
known(
    "functions that are missing over Connect",
    "error steps batches",
    "percentiles",
    "exploded_rows",
    passing=True,
)
