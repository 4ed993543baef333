"""A classic session in a JVM of this process, for Spark's tests that compare one with Connect.

In Spark's own runs the server lives in that JVM, and a table of one session is the other's, too.
Here the server is another process, so each table that a test saves in the JVM is saved through
Connect as well.
"""

import os
import tempfile

# Settings that say that there is no JVM, or that keep it from starting.
HIDDEN = ["SPARK_CONNECT_MODE_ENABLED", "SPARK_TESTING", "SPARK_REMOTE"]


def start() -> None:
    """Starts the classic session and lets builders make remote sessions beside it."""
    import pyspark
    from pyspark.sql.connect.session import SparkSession as Remote
    from pyspark.sql.session import SparkSession as Classic

    hidden = {name: os.environ.pop(name) for name in HIDDEN if name in os.environ}
    os.environ["SPARK_HOME"] = os.path.dirname(pyspark.__file__)
    folder = tempfile.mkdtemp(prefix="classic-")
    classic = (
        Classic.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.warehouse.dir", f"{folder}/warehouse")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.hadoop.javax.jdo.option.ConnectionURL", "jdbc:derby:memory:x;create=true")
        .getOrCreate()
    )
    os.environ.update(hidden)
    original = Classic.Builder.getOrCreate

    def get_or_create(self):
        if "spark.remote" not in self._options:
            return original(self)
        options = {key: it for key, it in self._options.items() if key != "spark.master"}
        return Remote.builder.config(map=options).getOrCreate()

    Classic.Builder.getOrCreate = get_or_create
    Classic._instantiatedSession = classic
    share_tables(Remote)


def share_tables(remote: type) -> None:
    """Saves in the classic session's tables, and drops of them, through Connect, too."""
    from pyspark.sql.readwriter import DataFrameWriter
    from pyspark.sql.session import SparkSession as Classic

    save, run = DataFrameWriter.saveAsTable, Classic.sql

    def save_both(self, name, *args, **kwargs):
        save(self, name, *args, **kwargs)
        session = remote.getActiveSession()
        if session is not None:
            rows = session.createDataFrame(self._df.collect(), self._df.schema)
            rows.write.mode("overwrite").saveAsTable(name)

    def sql_both(self, query, *args, **kwargs):
        session = remote.getActiveSession()
        if session is not None and query.upper().startswith("DROP TABLE"):
            session.sql(query)
        return run(self, query, *args, **kwargs)

    DataFrameWriter.saveAsTable = save_both
    Classic.sql = sql_both
