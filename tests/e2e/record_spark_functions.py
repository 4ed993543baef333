"""Writes the names of Spark's built-in functions, with their groups, as real Spark tells them.

    record_spark_functions.py ../../crates/plan/tests/it/spark_functions.tsv
"""

import sys
from pathlib import Path

from pyspark.sql import SparkSession


def main(file: Path) -> None:
    spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    known = spark._jvm.org.apache.spark.sql.catalyst.analysis.FunctionRegistry.expressions()
    lines = []
    for name in sorted(row.function for row in spark.sql("SHOW ALL FUNCTIONS").collect()):
        found = known.get(name)
        group = found.get()._1().getGroup() if found.isDefined() else ""
        lines.append(f"{name}\t{group or 'other'}\n")
    file.write_text("".join(lines))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
