"""Numbers."""

from pyspark.sql import functions as F

from .frames import each, over


def rounding(spark):
    return each(
        spark,
        "round(2.5)",
        "round(2.5D)",
        "round(-2.5D)",
        "round(1234.567, -2)",
        "round(1234.567D, 2)",
        "round(25, -1)",
        "bround(2.5)",
        "bround(3.5D)",
        "bround(25, -1)",
        "ceil(-0.1)",
        "ceil(5.4D)",
        "ceil(3.1411, 3)",
        "ceiling(5)",
        "floor(-0.1)",
        "floor(5.6D)",
        "floor(3.1411, 3)",
        "rint(12.5)",
        "truncate(1.239, 2)",
    )


def powers_and_logarithms(spark):
    return each(
        spark,
        "sqrt(16)",
        "cbrt(27.0)",
        "pow(2, 10)",
        "power(2.5D, 2)",
        "exp(0)",
        "expm1(0)",
        "ln(1)",
        "log(10, 100)",
        "log(2.718281828459045D)",
        "log2(8)",
        "log10(1000)",
        "log1p(0)",
        "ln(0)",
        "ln(-1)",
        "sqrt(-1)",
        "hypot(3, 4)",
        "factorial(5)",
        "factorial(25)",
    )


def trigonometry(spark):
    return each(
        spark,
        "sin(0)",
        "cos(0)",
        "tan(0)",
        "cot(1)",
        "sec(0)",
        "csc(1)",
        "asin(1)",
        "acos(1)",
        "acos(2)",
        "atan(1)",
        "atan2(1, 1)",
        "sinh(0)",
        "cosh(0)",
        "tanh(0)",
        "asinh(0)",
        "acosh(1)",
        "atanh(0)",
        "degrees(3.141592653589793D)",
        "radians(180)",
        "pi()",
        "e()",
    )


def signs_and_remainders(spark):
    return each(
        spark,
        "abs(-5)",
        "abs(-1.5)",
        "abs(CAST(-128 AS TINYINT))",
        "sign(-3)",
        "signum(2.5D)",
        "negative(5)",
        "positive(5)",
        "-7 % 3",
        "mod(7, -3)",
        "pmod(-7, 3)",
        "pmod(-7.5D, 3)",
        "7.5 % 2",
        "7 DIV 2",
        "-7 DIV 2",
        "div(7.5, 2)",
        "7 / 2",
        "1 / 3.0",
        "uniform(1, 1, 0)",
    )


def division_by_zero(spark):
    return each(
        spark,
        "1 / 0",
        "1 % 0",
        "1 DIV 0",
        "1.0 / 0",
        "1D / 0",
        "pmod(1, 0)",
        "mod(1.5D, 0)",
        "try_divide(1, 0)",
        "try_divide(1.0, 0)",
        "try_mod(5, 0)",
    )


def overflow(spark):
    return each(
        spark,
        "2147483647 + 1",
        "9223372036854775807 + 1",
        "-2147483648 - 1",
        "2147483647 * 2",
        "CAST(127 AS TINYINT) + CAST(1 AS TINYINT)",
        "CAST(100 AS SMALLINT) + CAST(100 AS TINYINT)",
        "abs(-2147483648)",
        "-(-2147483648)",
        "try_add(2147483647, 1)",
        "try_subtract(-2147483648, 1)",
        "try_multiply(2147483647, 2)",
        "try_add(1, 2)",
        "try_add(1.5, 2)",
        "try_sum(a) FROM VALUES (9223372036854775807L), (1L) AS t(a)",
        "sum(a) FROM VALUES (9223372036854775807L), (1L) AS t(a)",
        "try_avg(a) FROM VALUES (1), (2) AS t(a)",
        "9223372036854775807L DIV -1",
    )


def types_of_results(spark):
    return each(
        spark,
        "typeof(1 + 1L)",
        "typeof(1 + 1.5)",
        "typeof(1S + 1Y)",
        "typeof(1.5F + 1)",
        "typeof(1.5F * 1.5D)",
        "typeof(1 / 2)",
        "typeof(1L * 1.5)",
        "typeof('1' + 1)",
        "typeof(1 + NULL)",
        "typeof(5 % 2L)",
        "typeof(sum(1))",
        "typeof(avg(1))",
        "typeof(count(1))",
        "typeof(sum(1.5))",
        "typeof(avg(1.55))",
        "typeof(coalesce(1, 2.5, 3L))",
        "typeof(if(true, 1, 2.5D))",
        "typeof(array(1, 2.5))",
        "typeof(map('a', 1, 'b', 2.5D))",
        "typeof(named_struct('a', 1, 'b', 'x'))",
        "typeof(DATE'2020-01-01' - DATE'2019-01-01')",
        "typeof(TIMESTAMP'2020-01-01' - TIMESTAMP'2019-01-01')",
        "typeof(DATE'2020-01-01' + INTERVAL 1 DAY)",
        "typeof(INTERVAL '1-2' YEAR TO MONTH)",
        "typeof(NULL)",
        "typeof(X'00')",
        "typeof(round(1.55, 1))",
        "typeof(ceil(1.5))",
        "typeof(-5)",
        "typeof(3000000000)",
        "typeof(1e3)",
    )


def bits(spark):
    return each(
        spark,
        "3 & 5",
        "3 | 5",
        "3 ^ 5",
        "~5",
        "shiftleft(2, 1)",
        "shiftright(-4, 1)",
        "shiftrightunsigned(-4, 1)",
        "1 << 3",
        "-16 >> 2",
        "-16 >>> 28",
        "bit_count(7)",
        "bit_count(true)",
        "bit_get(11, 0)",
        "getbit(11, 2)",
        "bit_and(a) FROM VALUES (3), (5) AS t(a)",
        "bit_or(a) FROM VALUES (3), (5) AS t(a)",
        "bit_xor(a) FROM VALUES (3), (5) AS t(a)",
    )


def special_floats(spark):
    return each(
        spark,
        "double('NaN') = double('NaN')",
        "double('NaN') > double('Infinity')",
        "isnan(double('NaN'))",
        "isnan(NULL)",
        "nanvl(double('NaN'), 5D)",
        "-0D = 0D",
        "0D / -1",
        "double('Infinity') - double('Infinity')",
        "greatest(1D, double('NaN'))",
        "least(1D, double('NaN'))",
        "max(a) FROM VALUES (1D), (double('NaN')) AS t(a)",
        "min(a) FROM VALUES (1D), (double('NaN')) AS t(a)",
        "CAST(1e20D AS STRING)",
        "CAST(0.0001D AS STRING)",
        "CAST(1.0F AS STRING)",
        "CAST(123456789.0D AS STRING)",
        "float(0.1) + double(0.1)",
    )


def over_columns(spark):
    rows = spark.createDataFrame(
        [(1, 2.5, 7), (2, -1.25, None), (3, None, 0)], "id INT, d DOUBLE, l LONG"
    )
    return over(
        rows,
        F.col("d") * F.col("l"),
        F.col("l") + F.col("id"),
        F.col("id") - F.col("d"),
        F.round("d", 1),
        F.ceil("d"),
        F.floor("d"),
        F.abs("d"),
        F.pow("id", "l"),
        F.greatest("id", "l"),
        F.least("id", "d"),
        F.when(F.col("d") > 0, F.sqrt("d")),
        F.width_bucket("d", F.lit(0.0), F.lit(10.0), F.lit(5)),
        F.hash("id", "d", "l"),
        F.xxhash64("id", "d", "l"),
        F.negate("d"),
        F.col("id").bitwiseOR(4),
        F.shiftleft("id", 2),
        F.try_divide("id", "l"),
        F.expr("id DIV 2"),
    )


def buckets_and_greatest(spark):
    return each(
        spark,
        "width_bucket(5.3, 0.2, 10.6, 5)",
        "width_bucket(-2.1, 1.3, 3.4, 3)",
        "greatest(10, 9, 2, 4, 3)",
        "greatest(1, NULL, 2.5)",
        "least('b', 'a', NULL)",
        "nullifzero(0)",
        "zeroifnull(NULL)",
        "equal_null(1, NULL)",
        "between(1, 0, 2)",
        "try_remainder(7, 0)",
    )
