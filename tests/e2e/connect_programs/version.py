"""The smallest program: one question."""

from pyspark.sql import SparkSession

print(SparkSession.builder.getOrCreate().version)
