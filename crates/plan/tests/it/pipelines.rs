use crate::memory::{Memory, batch, context, instantiate, pretty, run, users, users_with_metadata};
use datafusion::catalog::{MemTable, TableProvider};
use datafusion::prelude::SessionContext;
use futures::FutureExt;
use futures::future::BoxFuture;
use onefold_connector::OutputMode;
use onefold_plan::pipeline::{
    Pipeline, Statement, StreamRead, StreamReference, StreamResolver, parse, plan_table,
};
use onefold_plan::schema::schema_ddl;
use onefold_plan::stream::{StreamTable, StreamingPlan};
use onefold_types::Result;
use proptest::prelude::*;
use std::sync::{Arc, Mutex};

const FILE: &str = "\
-- Orders, paid and unpaid.
SET spark.sql.shuffle.partitions = 4;
SET 'a.b' = 'x;y';

/* A view /* nested */ over a stream. */
CREATE OR REPLACE TEMPORARY VIEW paid COMMENT 'only paid' AS
SELECT * FROM STREAM read_files('/in', format => 'JSON',
  schema => 'id BIGINT, userName STRING', name => 'alpha', maxFilesPerTrigger => 1,
  pathGlobFilter => '*.json') AS f
WHERE f.ID > 0;

CREATE OR REFRESH STREAMING TABLE IF NOT EXISTS orders (id BIGINT COMMENT 'the id', who STRING)
USING Parquet
PARTITIONED BY (who)
LOCATION '/out/orders'
OPTIONS ('compression' = 'zstd', maxRecordsPerFile 10, a.b = true, 'x' '1')
TBLPROPERTIES ('owner' = 'me')
COMMENT 'orders'
AS SELECT id, username AS who FROM STREAM(paid);

CREATE STREAMING TABLE copy USING console AS SELECT orders.id FROM STREAM orders;
CREATE STREAMING TABLE ticks USING noop AS SELECT * FROM STREAM rate(rowsPerSecond => 10) r";

fn file() -> Pipeline {
    parse(FILE).unwrap()
}

#[test]
fn a_whole_file_reads_into_its_statements() {
    let pipeline = file();
    assert_eq!(pipeline.statements.len(), 6);
    let Statement::Set { key, value, .. } = &pipeline.statements[0] else { panic!() };
    assert_eq!((key.as_str(), value.as_str()), ("spark.sql.shuffle.partitions", "4"));
    let Statement::View(view) = &pipeline.statements[2] else { panic!() };
    assert_eq!(view.comment.as_deref(), Some("only paid"));
    let StreamReference::Read(read) = &view.query.streams[0] else { panic!() };
    assert_eq!(read.format.as_deref(), Some("json"));
    assert_eq!(read.paths, ["/in"]);
    assert_eq!(read.name.as_deref(), Some("alpha"));
    assert_eq!(schema_ddl(read.schema.as_ref().unwrap()), "id BIGINT, userName STRING");
    let options: Vec<_> = read.options.iter().collect();
    assert_eq!(options, [("maxFilesPerTrigger", "1"), ("pathGlobFilter", "*.json")]);
    let tables: Vec<_> = pipeline.tables().collect();
    let orders = tables[0];
    assert!(orders.or_refresh && orders.if_not_exists);
    assert_eq!(orders.name, "orders");
    assert_eq!(orders.format, "parquet");
    assert_eq!(orders.partition_by, ["who"]);
    assert_eq!(orders.location.as_deref(), Some("/out/orders"));
    let options: Vec<_> = orders.options.iter().collect();
    assert_eq!(
        options,
        [("a.b", "true"), ("compression", "zstd"), ("maxRecordsPerFile", "10"), ("x", "1")]
    );
    assert_eq!(orders.properties.get("OWNER"), Some("me"));
    assert_eq!(orders.comment.as_deref(), Some("orders"));
    assert_eq!(
        schema_ddl(orders.columns.as_ref().unwrap()),
        "id BIGINT COMMENT 'the id', who STRING"
    );
    assert_eq!((orders.place.line, orders.place.column), (12, 1));
    assert_eq!(pipeline.settings(orders).get("a.b").map(String::as_str), Some("x;y"));
    assert!(
        matches!(&tables[1].query.streams[0], StreamReference::Table { name, .. } if name == "orders")
    );
    let StreamReference::Read(read) = &tables[2].query.streams[0] else { panic!() };
    assert_eq!(read.format.as_deref(), Some("rate"));
    assert_eq!(read.options.get("rowspersecond"), Some("10"));
}

struct Resolver {
    source: Arc<Memory>,
    asked: Mutex<Vec<StreamReference>>,
}

impl Resolver {
    fn new(source: Arc<Memory>) -> Self {
        Resolver { source, asked: Mutex::default() }
    }
}

impl StreamResolver for Resolver {
    fn stream<'a>(
        &'a self,
        reference: &'a StreamReference,
    ) -> BoxFuture<'a, Result<Arc<StreamTable>>> {
        self.asked.lock().unwrap().push(reference.clone());
        let name = match reference {
            StreamReference::Read(read) => read.name.clone(),
            StreamReference::Table { name, .. } => Some(name.clone()),
        };
        async move { Ok(self.source.table(name.as_deref())) }.boxed()
    }

    fn whole<'a>(&'a self, read: &'a StreamRead) -> BoxFuture<'a, Result<Arc<dyn TableProvider>>> {
        async move {
            let schema = read.schema.clone().unwrap();
            Ok(Arc::new(MemTable::try_new(schema, vec![vec![]]).unwrap()) as Arc<_>)
        }
        .boxed()
    }
}

async fn planned(
    context: &SessionContext,
    pipeline: &Pipeline,
    resolver: &Resolver,
    table: usize,
) -> Result<StreamingPlan> {
    let table = pipeline.tables().nth(table).unwrap();
    let plan = plan_table(context, pipeline, table, resolver).await?;
    StreamingPlan::new(plan, OutputMode::Append)
}

#[test]
fn flows_write_as_their_sink_says_wherever_it_stands() {
    let text = "\
CREATE FLOW one AS INSERT INTO Out BY NAME SELECT * FROM STREAM(a);
CREATE SINK out USING Kafka OPTIONS ('topic' 't', outputMode 'update', 'a' '1') COMMENT 'both';
CREATE FLOW IF NOT EXISTS two COMMENT 'x' OPTIONS (outputMode 'complete', 'A' '2')
AS INSERT INTO TABLE out SELECT * FROM STREAM(a);
CREATE SINK files USING json LOCATION '/out' PARTITIONED BY (k);
CREATE FLOW three AS INSERT INTO files SELECT * FROM STREAM(a)";
    let pipeline = parse(text).unwrap();
    let flows: Vec<_> = pipeline.tables().collect();
    let seen: Vec<_> = flows
        .iter()
        .map(|flow| {
            let options: Vec<_> = flow.options.iter().collect();
            (
                flow.name.as_str(),
                flow.output_name(),
                flow.format.as_str(),
                flow.output_mode,
                options,
            )
        })
        .collect();
    assert_eq!(
        seen,
        [
            ("one", "out", "kafka", Some(OutputMode::Update), vec![("a", "1"), ("topic", "t")]),
            ("two", "out", "kafka", Some(OutputMode::Complete), vec![("A", "2"), ("topic", "t")]),
            ("three", "files", "json", None, vec![]),
        ]
    );
    let both =
        format!("{text}; CREATE FLOW four AS INSERT INTO files, OUT SELECT * FROM STREAM(a)");
    let pipeline_of_both = parse(&both).unwrap();
    let four = pipeline_of_both.tables().last().unwrap();
    let sinks: Vec<&str> = four.sinks.iter().map(|sink| sink.name.as_str()).collect();
    assert_eq!((sinks, four.format.as_str()), (vec!["files", "out"], "json"));
    assert_eq!(flows[2].location.as_deref(), Some("/out"));
    assert_eq!(flows[2].partition_by, ["k"]);
    assert!(flows.iter().all(|flow| flow.kind() == "flow"));
}

#[tokio::test]
async fn tables_plan_through_views_and_run() {
    let context = context();
    let source = Memory::new(vec![vec![users_with_metadata(0, 3)]]);
    let resolver = Resolver::new(Arc::clone(&source));
    let plan = planned(&context, &file(), &resolver, 0).await.unwrap();
    assert_eq!(plan.sources()[0].id, "alpha");
    assert_eq!(schema_ddl(&plan.schema()), "id BIGINT COMMENT 'the id', who STRING");
    let instance = instantiate(&plan, &context.state(), &[&source], &batch(0)).await;
    assert_eq!(
        pretty(&run(&context, &instance).await),
        "+----+-----+\n| id | who |\n+----+-----+\n| 1  | u1  |\n| 2  | u2  |\n+----+-----+"
    );
    let copy = planned(&context, &file(), &resolver, 1).await.unwrap();
    assert_eq!(schema_ddl(&copy.schema()), "id BIGINT");
    let ticks = planned(&context, &file(), &resolver, 2).await.unwrap();
    assert_eq!(schema_ddl(&ticks.schema()), "id BIGINT, userName STRING");
    assert_eq!(resolver.asked.lock().unwrap().len(), 3);
}

#[tokio::test]
async fn a_view_used_twice_reads_its_source_once() {
    let text = "CREATE TEMP VIEW v AS SELECT id FROM STREAM read_files('/in', format => 'text');\n\
                CREATE STREAMING TABLE t USING noop AS \
                SELECT * FROM v UNION ALL SELECT a.id FROM STREAM(V) a";
    let context = context();
    let resolver = Resolver::new(Memory::new(vec![vec![users(0, 1)]]));
    let plan = planned(&context, &parse(text).unwrap(), &resolver, 0).await.unwrap();
    assert_eq!(plan.sources().len(), 1);
    assert_eq!(resolver.asked.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn errors_of_planning_name_the_statement() {
    let context = context();
    let select = "FROM STREAM read_files('/in', format => 'json')";
    for (head, query, wanted) in [
        ("", format!("SELECT nope {select}"), "table `t` (line 2): "),
        ("", "SELECT id FROM nothing".to_owned(), "there is no table or view `nothing`"),
        ("", "SELECT id FROM STREAM(t)".to_owned(), "reads itself"),
        ("", "SELECT id FROM other".to_owned(), "read it as STREAM(other)"),
        ("(id INT)", format!("SELECT id {select}"), "is declared INT but the query gives BIGINT"),
        ("(x INT)", format!("SELECT id {select}"), "`x` is declared but the query does not give"),
        ("(id BIGINT)", format!("SELECT * {select}"), "`userName`, which is not declared"),
        ("(id BIGINT NOT NULL)", format!("SELECT nullif(id, 1) AS id {select}"), "may give NULL"),
        ("PARTITIONED BY (z)", format!("SELECT id {select}"), "PARTITIONED BY names `z`"),
        ("", format!("SELECT id, v.id {select} JOIN w v ON true"), "view `w` (line 3)"),
    ] {
        let text = format!(
            "\nCREATE STREAMING TABLE t {head} AS {query};\n\
             CREATE TEMPORARY VIEW w AS SELECT * FROM w;\n\
             CREATE STREAMING TABLE other AS SELECT 1 AS one {select}"
        );
        let resolver = Resolver::new(Memory::new(vec![vec![users(0, 1)]]));
        let pipeline = parse(&text).unwrap();
        let error = planned(&context, &pipeline, &resolver, 0).await.unwrap_err().to_string();
        assert!(error.contains(wanted) && error.contains("(line "), "{query}: {error}");
    }
}

#[test]
fn errors_of_parsing_show_the_line_with_a_caret() {
    let error =
        parse("SET a = 1;\nCREATE STREAMING TABLE t AS\n  SELECT id FRUM x WHERE").unwrap_err();
    assert_eq!(
        error.to_string(),
        "line 3, column 18: expected the end, found: x\n3 |   SELECT id FRUM x WHERE\n  |                  ^"
    );
    for (text, wanted) in [
        ("DROP TABLE x", "line 1, column 1: DROP is not a statement of pipelines; these are:"),
        ("CREATE TABLE x AS SELECT 1", "column 8: expected tables of a pipeline are STREAMING;"),
        ("CREATE MATERIALIZED VIEW v AS SELECT 1", "column 8: materialized views, which are"),
        ("CREATE VIEW v AS SELECT 1", "views of a pipeline are TEMPORARY"),
        ("CREATE STREAMING TABLE t USING x USING y AS SELECT 1", "USING stands twice"),
        ("CREATE STREAMING TABLE t CLUSTER BY (a) AS SELECT 1", "found `CLUSTER`"),
        ("CREATE STREAMING TABLE t", "found the end"),
        ("CREATE STREAMING TABLE t AS", "expected a query, found the end"),
        ("CREATE STREAMING TABLE t AS SELECT", "line 1, column 35"),
        ("CREATE STREAMING TABLE t (id WRONG) AS SELECT 1", "line 1, column 30: there is no type"),
        ("CREATE STREAMING TABLE t AS SELECT 1; CREATE STREAMING TABLE T AS SELECT 1", "is taken"),
        (
            "CREATE STREAMING TABLE t AS SELECT * FROM STREAM read_files('/in', schema => 'a X')",
            "column 78: schema, line 1, column 3",
        ),
        (
            "CREATE STREAMING TABLE t AS SELECT * FROM STREAM read_files('/in', a => 1, A => 2)",
            "`A` is given twice",
        ),
        ("CREATE STREAMING TABLE t OPTIONS (a = ) AS SELECT 1", "expected a value, found `)`"),
        ("CREATE SINK s", "expected USING and the sink's format"),
        ("CREATE SINK s USING kafka AS SELECT 1", "OPTIONS, COMMENT or `;`, found `AS`"),
        ("CREATE SINK s USING noop", "nothing writes into the sink `s`; add CREATE FLOW"),
        ("CREATE FLOW f AS SELECT 1", "expected INSERT INTO, found `SELECT`"),
        ("CREATE FLOW f USING x AS INSERT INTO s SELECT 1", "expected OPTIONS, COMMENT or AS"),
        ("CREATE FLOW f AS INSERT INTO s SELECT 1", "the file has no CREATE SINK s USING"),
        (
            "CREATE SINK s USING noop; CREATE FLOW f AS INSERT INTO r SELECT 1",
            "line 1, column 27: the flow `f` writes into `r`, which the file has no CREATE SINK \
             for; its sinks are `s`",
        ),
        (
            "CREATE SINK s USING noop; CREATE FLOW f AS INSERT INTO s, S SELECT 1",
            "writes into `S` twice",
        ),
        (
            "CREATE STREAMING TABLE t AS SELECT 1; CREATE FLOW f AS INSERT INTO t SELECT 1",
            "`t`, a streaming table, which has a query of its own",
        ),
        (
            "CREATE SINK s USING noop; CREATE FLOW s AS INSERT INTO s SELECT 1",
            "the name `s` is taken by the statement in line 1",
        ),
        ("SET a", "expected `=`, found the end"),
        ("CREATE STREAMING TABLE t AS SELECT 'abc", "line 1, column 36: Unterminated string"),
        ("SELECT 1", "SELECT is not a statement"),
    ] {
        let error = parse(text).unwrap_err().to_string();
        assert!(error.contains(wanted), "{text}: {error}");
        assert!(error.contains('^'), "{text}: {error}");
    }
}

#[tokio::test]
async fn files_without_stream_are_a_table_and_never_the_only_one() {
    let context = context();
    let resolver = Resolver::new(Memory::new(vec![vec![users_with_metadata(0, 3)]]));
    let files = "read_files('/d', format => 'json', schema => 'id BIGINT, n STRING')";
    let join = format!(
        "CREATE STREAMING TABLE t AS SELECT u.id, d.n FROM STREAM(users) u JOIN {files} d USING (id)"
    );
    let plan = planned(&context, &parse(&join).unwrap(), &resolver, 0).await.unwrap();
    assert_eq!(schema_ddl(&plan.schema()), "id BIGINT, n STRING");
    assert_eq!(plan.sources().len(), 1);
    let alone = format!("CREATE STREAMING TABLE t AS\n SELECT * FROM {files}");
    let error = planned(&context, &parse(&alone).unwrap(), &resolver, 0).await.err().unwrap();
    let wanted =
        "line 2, column 16: a streaming table reads a stream: write STREAM before read_files";
    assert!(error.to_string().contains(wanted), "{error}");
}

#[test]
fn topics_are_read_as_a_stream_or_as_a_table() {
    let read = "read_kafka(bootstrapServers => 'a:1', subscribe => 'clicks', \
                kafka.security.protocol => 'SSL')";
    let text = format!(
        "CREATE STREAMING TABLE t AS SELECT s.value FROM STREAM {read} s JOIN {read} n USING (key)"
    );
    let pipeline = parse(&text).unwrap();
    let query = &pipeline.tables().next().unwrap().query;
    let StreamReference::Read(stream) = &query.streams[0] else { panic!() };
    for read in [stream, &query.wholes[0]] {
        assert_eq!(read.format.as_deref(), Some("kafka"));
        let options: Vec<_> = read.options.iter().collect();
        assert_eq!(
            options,
            [
                ("bootstrapServers", "a:1"),
                ("kafka.security.protocol", "SSL"),
                ("subscribe", "clicks")
            ]
        );
    }
}

#[test]
fn a_table_or_column_may_be_named_stream() {
    for query in [
        "SELECT stream, stream.a FROM stream",
        "SELECT a, stream AS b FROM stream AS s JOIN stream ON s.a = stream.b",
        "SELECT a FROM stream WHERE a > 1",
    ] {
        let text = format!("CREATE STREAMING TABLE t AS {query}");
        let pipeline = parse(&text).unwrap();
        assert!(pipeline.tables().next().unwrap().query.streams.is_empty(), "{query}");
    }
    let text = "CREATE STREAMING TABLE t AS SELECT * FROM a, STREAM b JOIN STREAM(c) ON true, \
                (SELECT * FROM STREAM `d`) x";
    let pipeline = parse(text).unwrap();
    assert_eq!(pipeline.tables().next().unwrap().query.streams.len(), 3);
}

#[test]
fn length_and_depth_have_limits() {
    let long = format!("SET a = '{}'", "x".repeat(1 << 20));
    assert!(parse(&long).unwrap_err().to_string().contains("more than the limit"));
    for part in [
        format!("{}1{}", "(".repeat(5_000), ")".repeat(5_000)),
        format!("1{}", " + 1".repeat(50_000)),
        "NOT ".repeat(50_000) + "true",
        "- ".repeat(50_000) + "1",
        format!("{}1{}", "CASE WHEN true THEN ".repeat(20_000), " END".repeat(20_000)),
        format!("a{}", "[1]".repeat(50_000)),
        format!("a{}", "::INT".repeat(50_000)),
        format!("1 {}", "UNION ALL SELECT 1 ".repeat(20_000)),
        format!("1 FROM a {}", "JOIN a ".repeat(50_000)),
        format!("{}1{}", "abs(".repeat(5_000), ")".repeat(5_000)),
        format!("CAST(1 AS {}INT{})", "ARRAY<".repeat(5_000), ">".repeat(5_000)),
        format!("a{}", ".b".repeat(50_000)),
        format!("1 {}", "IS NULL ".repeat(50_000)),
    ] {
        let text = format!("CREATE STREAMING TABLE t AS SELECT {part}");
        // An error or not, but neither a panic nor a stack overflow.
        let _ = parse(&text);
    }
    let wide = (0..5_000).map(|n| format!("a + {n} AS c{n}")).collect::<Vec<_>>().join(", ");
    parse(&format!("CREATE STREAMING TABLE t AS SELECT {wide} FROM x")).unwrap();
}

proptest! {
    #[test]
    fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = parse(&String::from_utf8_lossy(&bytes));
        let _ = onefold_plan::schema::parse_schema(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn random_words_never_panic(words in proptest::collection::vec(proptest::sample::select(vec![
        "CREATE", "STREAMING", "TABLE", "SINK", "FLOW", "INSERT", "INTO", "t", "AS", "SELECT", "*", "FROM", "STREAM", "read_files",
        "(", ")", ",", "'x'", "=>", "=", "format", ";", "WHERE", "JOIN", "ON", "1", "1.5D", "`",
        "'", "/*", "*/", "--", "\n", "é", "OPTIONS", "PARTITIONED", "BY", "LOCATION", "USING",
        "SET", "a.b", "[", "]", "<", ">", "STRUCT", "ARRAY", "DIV", "RLIKE", "CAST", "CASE",
        "END", "WITH", "VALUES", "::", "INTERVAL", "x", "->", "\\", "$1", "{", "}",
    ]), 0..40)) {
        let text = words.join(" ");
        let _ = parse(&text);
        let query = format!("CREATE STREAMING TABLE t AS SELECT {text}");
        let _ = parse(&query);
        let _ = onefold_plan::schema::parse_schema(&text);
    }
}
