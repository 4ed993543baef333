"""JSON, CSV and URLs."""

from pyspark.sql import functions as F

from .frames import each, over


def _documents(spark):
    return spark.createDataFrame(
        [
            (1, '{"a": 1, "b": {"c": [1, 2, {"d": "x"}]}, "t": "2024-01-02T03:04:05Z"}'),
            (2, '{"a": "2", "b": null}'),
            (3, "not json"),
            (4, None),
            (5, "{}"),
        ],
        "id INT, j STRING",
    )


def parsing(spark):
    rows = _documents(spark)
    return over(
        rows,
        F.from_json("j", "a INT"),
        F.from_json("j", "a STRING, b STRUCT<c: ARRAY<STRING>>"),
        F.from_json("j", "t TIMESTAMP, a DOUBLE"),
        F.from_json("j", "a INT, _corrupt STRING", {"columnNameOfCorruptRecord": "_corrupt"}),
        F.from_json("j", "map<string, string>"),
        F.from_json(F.lit("[1, 2, 3]"), "array<int>"),
        F.from_json(F.lit('[{"a": 1}, {"a": 2}]'), "array<struct<a: int>>"),
        F.from_json(F.lit('{"a": 1}'), F.schema_of_json(F.lit('{"a": 1}'))),
    )


def parsing_types(spark):
    return each(
        spark,
        "from_json('{\"d\":\"26/08/2015\"}', 'd DATE', map('dateFormat', 'dd/MM/yyyy'))",
        "from_json('{\"t\":\"26/08/2015 10\"}', 't TIMESTAMP', map('timestampFormat', 'dd/MM/yyyy HH'))",
        "from_json('{\"a\":1.5,\"b\":true,\"c\":12345678901}', 'a DECIMAL(5,2), b BOOLEAN, c BIGINT')",
        "from_json('{\"a\":1.5}', 'a INT')",
        "from_json('{\"a\":{\"b\":1}}', 'a STRING')",
        "from_json('{\"a\":[1,2]}', 'a ARRAY<BIGINT>')",
        "from_json('{\"A\":1}', 'a INT')",
        "from_json('{\"a\":1}', 'a INT', map('mode', 'FAILFAST'))",
        "from_json('{\"a\":', 'a INT', map('mode', 'FAILFAST'))",
        "from_json('{\"a\":\"NaN\"}', 'a DOUBLE')",
        "from_json('', 'a INT')",
    )


def writing(spark):
    return each(
        spark,
        "to_json(named_struct('a', 1, 'b', 2.5, 'c', NULL, 'd', 'x\"y'))",
        "to_json(array(named_struct('a', 1), named_struct('a', NULL)))",
        "to_json(map('a', 1, 'b', NULL))",
        "to_json(named_struct('t', TIMESTAMP'2015-08-26 10:00:00.5', 'd', DATE'2015-08-26'))",
        "to_json(named_struct('t', TIMESTAMP'2015-08-26 10:00:00'), map('timestampFormat', 'dd/MM/yyyy'))",
        "to_json(named_struct('a', CAST(NULL AS INT)), map('ignoreNullFields', 'false'))",
        "to_json(named_struct('a', array(1, NULL), 'm', map('k', 1.5D)))",
        "to_json(named_struct('b', X'0102', 'dec', 1.50))",
        "to_json(named_struct('a', double('NaN')))",
    )


def paths(spark):
    rows = _documents(spark)
    return [
        *over(
            rows,
            F.get_json_object("j", "$.a"),
            F.get_json_object("j", "$.b.c[2].d"),
            F.get_json_object("j", "$.b"),
            F.get_json_object("j", "$.zz"),
            F.json_array_length("j"),
            F.json_object_keys("j"),
        ),
        lambda: rows.select("id", F.json_tuple("j", "a", "b")),
        *each(
            spark,
            "get_json_object('{\"a\":[{\"b\":1},{\"b\":2}]}', '$.a[*].b')",
            "get_json_object('[1,2]', '$[1]')",
            "json_array_length('[1,2,3]')",
            "json_object_keys('{\"a\":1,\"b\":2}')",
            "get_json_object('{\"a\":\"x\"}', 'a')",
        ),
    ]


def schemas(spark):
    return each(
        spark,
        "schema_of_json('{\"a\":1,\"b\":[1.5],\"c\":{\"d\":\"x\"}}')",
        "schema_of_json('[{\"a\":1},{\"b\":true}]')",
        "schema_of_json('{\"a\":01}', map('allowNumericLeadingZeros', 'true'))",
        "schema_of_csv('1,abc,2.5')",
        "schema_of_csv('1|abc', map('delimiter', '|'))",
    )


def comma_separated(spark):
    return each(
        spark,
        "from_csv('1,abc,2.5', 'a INT, b STRING, c DOUBLE')",
        "from_csv('1;abc', 'a INT, b STRING', map('sep', ';'))",
        "from_csv('x', 'a INT')",
        "from_csv('26/08/2015', 'd DATE', map('dateFormat', 'dd/MM/yyyy'))",
        "from_csv(NULL, 'a INT')",
        "to_csv(named_struct('a', 1, 'b', 'x,y', 'c', NULL))",
        "to_csv(named_struct('a', 1, 'b', 2), map('sep', '|'))",
        "to_csv(named_struct('d', DATE'2015-08-26'))",
    )


def addresses(spark):
    url = "'http://user:pw@spark.apache.org:80/path/p.php?query=1&b=2#frag'"
    parts = ["HOST", "PATH", "QUERY", "REF", "PROTOCOL", "FILE", "AUTHORITY", "USERINFO"]
    return each(
        spark,
        *[f"parse_url({url}, '{part}')" for part in parts],
        f"parse_url({url}, 'QUERY', 'query')",
        f"parse_url({url}, 'QUERY', 'none')",
        "try_parse_url('inva lid://x', 'HOST')",
    )


def frames_of_texts(spark):
    rows = _documents(spark).where("id < 3")
    return [
        lambda: rows.select(F.to_json(F.struct("*"))),
        lambda: spark.read.json(rows.select("j")),
        lambda: rows.select(F.from_json("j", "a INT").a),
    ]


def variants(spark):
    return each(
        spark,
        "to_json(parse_json('{\"a\": 1}'))",
        "variant_get(parse_json('{\"a\": 1}'), '$.a', 'int')",
        "try_parse_json('{') IS NULL",
    )
