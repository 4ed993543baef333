"""What the programs of this folder are made with.

A program is a function of `spark`. It gives a frame, a plain value, a function without arguments
that gives one of these (for what may fail), or a list of them.
"""

from typing import Any, Callable


class InOrder:
    """A frame whose rows have an order."""

    def __init__(self, frame):
        self.frame = frame


def in_order(frame) -> InOrder:
    return InOrder(frame)


def each(spark, *expressions: str) -> list[Callable[[], Any]]:
    """A frame for each expression of SQL, which may say behind FROM what it is over."""

    def made(expression: str) -> Callable[[], Any]:
        value, *rest = expression.split(" FROM VALUES")
        return lambda: spark.sql(" FROM VALUES".join([f"SELECT {value} AS v", *rest]))

    return [made(expression) for expression in expressions]


def named(spark, *expressions: str) -> list[Callable[[], Any]]:
    """The same under the names that Spark gives."""

    def made(expression: str) -> Callable[[], Any]:
        return lambda: spark.sql(f"SELECT {expression}")

    return [made(expression) for expression in expressions]


def over(frame, *columns) -> list[Callable[[], Any]]:
    """A frame for each column, over the same rows."""

    def made(column) -> Callable[[], Any]:
        return lambda: frame.select(column.alias("v"))

    return [made(column) for column in columns]
