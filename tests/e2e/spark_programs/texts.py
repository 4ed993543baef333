"""Texts."""

from pyspark.sql import functions as F

from .frames import each, named, over


def _words(spark):
    return spark.createDataFrame(
        [(1, "Spark SQL", "a,b,,c"), (2, "", "x"), (3, None, None), (4, "Ünïcödé ß", ",")],
        "id INT, t STRING, l STRING",
    )


def case_and_length(spark):
    rows = _words(spark)
    return rows.select(
        "id",
        F.upper("t"),
        F.lower("t"),
        F.initcap("t"),
        F.length("t"),
        F.char_length("t"),
        F.octet_length("t"),
        F.bit_length("t"),
        F.reverse("t"),
        F.ascii("t"),
    )


def trimming(spark):
    return each(
        spark,
        "trim('  a b  ')",
        "ltrim('  a')",
        "rtrim('a  ')",
        "btrim('xxaxx', 'x')",
        "trim(BOTH 'x' FROM 'xxaxx')",
        "trim(LEADING 'x' FROM 'xxaxx')",
        "trim(TRAILING 'x' FROM 'xxaxx')",
        "ltrim('ab', 'abba')",
        "concat('[', trim('\\t a '), ']')",
    )


def padding_and_repeating(spark):
    return each(
        spark,
        "lpad('hi', 5, '?!')",
        "rpad('hi', 5, '?!')",
        "lpad('hi', 1, '?')",
        "lpad('hi', 4)",
        "repeat('ab', 3)",
        "repeat('ab', -1)",
        "concat('a', 1, true, 2.5)",
        "concat_ws('-', 'a', NULL, 'b', array('c', NULL, 'd'))",
        "space(3)",
    )


def substrings(spark):
    return each(
        spark,
        "substring('Spark SQL', 5)",
        "substring('Spark SQL', -3)",
        "substring('Spark SQL', 5, 1)",
        "substring('Spark SQL', 0, 2)",
        "substr('Spark SQL', -20, 13)",
        "substring('Spark SQL' FROM 5 FOR 2)",
        "left('Spark', 3)",
        "right('Spark', 2)",
        "left('Spark', 0)",
        "substring_index('www.apache.org', '.', 2)",
        "substring_index('www.apache.org', '.', -2)",
        "'Spark' || 'SQL'",
        "overlay('Spark SQL' PLACING '_' FROM 6)",
        "overlay('Spark SQL', 'CORE', 7)",
        "overlay('Spark SQL', 'ANSI ', 7, 0)",
    )


def searching(spark):
    return each(
        spark,
        "instr('SparkSQL', 'SQL')",
        "locate('bar', 'foobarbar')",
        "locate('bar', 'foobarbar', 5)",
        "position('bar' IN 'foobarbar')",
        "position('bar', 'foobarbar')",
        "contains('Spark SQL', 'Spark')",
        "startswith('Spark SQL', 'Spark')",
        "endswith('Spark SQL', 'SQL')",
        "find_in_set('ab', 'abc,b,ab,c,def')",
        "charindex('b', 'abcb')",
        "levenshtein('kitten', 'sitting')",
        "levenshtein('kitten', 'sitting', 2)",
        "soundex('Miller')",
    )


def column_methods(spark):
    rows = _words(spark)
    return rows.select(
        "id",
        rows.t.startswith("Sp"),
        rows.t.endswith("QL"),
        rows.t.contains("ark"),
        rows.t.like("S%L"),
        rows.t.ilike("s%l"),
        rows.t.rlike("[A-Z]{3}"),
        rows.t.substr(1, 3),
        rows.t.isin("x", "Spark SQL"),
        rows.t.between("A", "T"),
        rows.t.isNull(),
        rows.t.isNotNull(),
        rows.t.eqNullSafe(None),
    )


def like_and_escape(spark):
    return each(
        spark,
        "'a_c' LIKE 'a\\\\_c'",
        "'abc' LIKE 'a\\\\_c'",
        "'a%c' LIKE 'a#%c' ESCAPE '#'",
        "'abc' LIKE '_b_'",
        "'ABC' ILIKE '_b%'",
        "'abc' LIKE ANY ('x%', 'a%')",
        "'abc' LIKE ALL ('%c', 'a%')",
        "'abc' NOT LIKE 'b%'",
        "NULL LIKE 'a'",
    )


def splitting(spark):
    return [
        lambda: _words(spark).select("id", F.split("l", ","), F.split("l", ",", 2)),
        *each(
            spark,
            "split('oneAtwoBthreeC', '[ABC]')",
            "split('oneAtwoBthreeC', '[ABC]', 2)",
            "split('oneAtwoBthreeC', '[ABC]', -1)",
            "split_part('11.12.13', '.', 3)",
            "split_part('11.12.13', '.', -1)",
            "split_part('11.12.13', '.', 9)",
            "sentences('Hi there! Good morning.')",
        ),
    ]


def replacing(spark):
    return each(
        spark,
        "replace('ABCabc', 'abc', 'DEF')",
        "replace('ABCabc', 'abc')",
        "translate('AaBbCc', 'abc', '123')",
        "translate('AaBbCc', 'abc', '1')",
        "regexp_replace('100-200', '(\\\\d+)', 'num')",
        "regexp_replace('a1b22', '(\\\\d)', '<$1>')",
        "regexp_replace('100-200', '(\\\\d+)', 'num', 4)",
        "mask('abcd-EFGH-8765')",
        "mask('abcd-EFGH-8765', 'Q', 'q', 'd', 'o')",
    )


def regular_expressions(spark):
    return each(
        spark,
        "regexp_extract('100-200', '(\\\\d+)-(\\\\d+)', 1)",
        "regexp_extract('100-200', '(\\\\d+)-(\\\\d+)')",
        "regexp_extract('foo', '(\\\\d+)', 1)",
        "regexp_extract('100-200', '(\\\\d+)', 5)",
        "regexp_extract_all('100-200, 300-400', '(\\\\d+)-(\\\\d+)', 1)",
        "regexp_count('Steven Jones and Stephen Smith', 'Ste(v|ph)en')",
        "regexp_instr('user@spark.org', '@[^.]*')",
        "regexp_substr('Steven Jones', 'J.n')",
        "regexp_substr('Steven', 'x')",
        "'Spark' RLIKE 'a.k'",
        "regexp_like('Spark', '^sp')",
        "regexp('Spark', 'park$')",
        "'abc' RLIKE '('",
    )


def encodings(spark):
    return each(
        spark,
        "base64('Spark SQL')",
        "CAST(unbase64('U3BhcmsgU1FM') AS STRING)",
        "hex('Spark')",
        "hex(17)",
        "hex(-1)",
        "CAST(unhex('537061726B') AS STRING)",
        "unhex('zz')",
        "encode('abc', 'utf-8')",
        "decode(X'616263', 'utf-8')",
        "char(65)",
        "chr(65)",
        "char(256 + 65)",
        "ascii('')",
        "url_encode('https://a.b/c d?e=f')",
        "url_decode('https%3A%2F%2Fa.b')",
        "bin(13)",
        "bin(-1)",
        "conv('100', 2, 10)",
        "conv('ff', 16, 10)",
        "conv(-10, 16, -10)",
    )


def hashes(spark):
    return each(
        spark,
        "md5('Spark')",
        "sha1('Spark')",
        "sha('Spark')",
        "sha2('Spark', 256)",
        "sha2('Spark', 0)",
        "sha2('Spark', 512)",
        "crc32('Spark')",
        "hash('Spark', array(123), 2)",
        "hash(1)",
        "hash(1L)",
        "hash(NULL)",
        "hash(1.5D, true, DATE'2020-01-01')",
        "xxhash64('Spark', array(123), 2)",
        "xxhash64(1)",
    )


def numbers_as_texts(spark):
    return each(
        spark,
        "format_number(12332.123456, 4)",
        "format_number(12332.123456, 0)",
        "format_number(12332.5, '##,###.00')",
        "format_string('Hello %s %d %.2f', 'World', 100, 1.5D)",
        "printf('%05d|%-5s|', 42, 'ab')",
        "to_number('454', '999')",
        "to_number('$78.12', '$99.99')",
        "try_to_number('x', '999')",
        "to_char(454, '999')",
        "to_char(78.12, '$99.99')",
        "to_varchar(DATE'2016-04-08', 'y')",
    )


def characters(spark):
    return each(
        spark,
        "length('\\u00e9\\ud83d\\ude00')",
        "octet_length('é')",
        "char_length('日本語 ')",
        "upper('straße')",
        "initcap('sPark sql hello-world')",
        "reverse('añb')",
        "substring('日本語', 2, 1)",
        "luhn_check('8112189876')",
        "is_valid_utf8('a')",
        "validate_utf8('a')",
        "quote('Don\\'t')",
        "collate('a', 'UTF8_LCASE') = 'A'",
        "randstr(5, 0) IS NOT NULL",
    )


def names_of_columns(spark):
    return named(
        spark,
        "upper('a')",
        "1 + 2 * 3",
        "'a' || 'b'",
        "CAST(1 AS STRING)",
        "1 = 1 AND NOT false",
        "CASE WHEN true THEN 1 ELSE 2 END",
        "a.b FROM (SELECT named_struct('b', 1) AS a)",
        "a[0] FROM (SELECT array(1) AS a)",
        "count(*), count(1), sum(DISTINCT 1)",
        "1 IN (1, 2), NULL IS NULL, 1 BETWEEN 0 AND 2",
        "'x' LIKE 'x%', -1, -(1), 1.50, 2.5D, 10L, DATE'2020-01-01', TIMESTAMP'2020-01-01 00:00:00'",
        "if(true, 1, 2), coalesce(NULL, 1), nvl(NULL, 1)",
        "substring('abc', 2, 1), trim(' a '), array(1, 2), map('a', 1), named_struct('a', 1)",
        "EXTRACT(YEAR FROM DATE'2020-01-01')",
        "interval '1' day, X'1F', true, NULL",
        "avg(1), max(2), min(3), first(1), collect_list(1), approx_count_distinct(1)",
        "(SELECT 1), EXISTS (SELECT 1)",
        "pi(), e(), current_database()",
        "1 / 2, 5 % 3, 5 DIV 2, 3 & 1, 3 | 4, 3 ^ 1, ~1",
        "row_number() OVER (ORDER BY 1)",
    )


def names_over_the_api(spark):
    rows = _words(spark)
    return rows.select(
        F.col("id") + 1,
        -F.col("id"),
        ~(F.col("id") == 1),
        F.lit("a"),
        F.lit(1.5),
        F.lit(True),
        F.lit(None),
        F.col("id").cast("string"),
        F.when(F.col("id") > 1, "x").otherwise("y"),
        F.col("id").alias("other"),
        F.array("id", F.lit(1)),
        F.struct("id", "t"),
        F.concat_ws("-", "t", "l"),
        F.coalesce("t", F.lit("z")),
        F.col("id").isin(1, 2),
        F.substring("t", 1, 2),
        F.expr("id * 2"),
        F.col("id") / 2,
        F.col("id") % 2,
        F.col("id").bitwiseAND(1),
        F.round(F.col("id") / 3, 2),
    )


def concatenation_with_null(spark):
    rows = _words(spark)
    return over(
        rows,
        F.concat("t", "l"),
        F.concat_ws("/", "t", "l"),
        F.concat(F.array("t"), F.array("l")),
        F.format_string("%s:%s", "t", "id"),
        F.elt(F.lit(2), "t", "l"),
        F.nullif("t", F.lit("")),
    )
