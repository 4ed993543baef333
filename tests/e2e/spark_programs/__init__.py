"""Small batch programs, whose results real Spark gave: see `record_spark.py`."""
