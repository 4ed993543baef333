//! `docs/functions.md`: which of Spark's functions there are. The page is made here, from the names
//! that Spark itself lists, and is stale when it says something else. ONEFOLD_WRITE_DOCS writes it.

use crate::memory::context;
use datafusion::prelude::SessionContext;
use onefold_plan::sql;
use std::collections::BTreeMap;
use std::path::Path;

/// Name and group of each built-in function, as `tests/e2e/record_spark_functions.py` found them.
const SPARK: &str = include_str!("spark_functions.tsv");

/// Names that are syntax or take more than plain values, by an expression that uses them.
const SYNTAX: &[(&str, &str)] = &[
    ("!", "! true"),
    ("!=", "1 != 2"),
    ("%", "7 % 2"),
    ("&", "3 & 1"),
    ("*", "2 * 3"),
    ("+", "1 + 1"),
    ("-", "2 - 1"),
    ("/", "1 / 2"),
    ("<", "1 < 2"),
    ("<<", "1 << 2"),
    ("<=", "1 <= 2"),
    ("<=>", "1 <=> NULL"),
    ("<>", "1 <> 2"),
    ("=", "1 = 1"),
    ("==", "1 == 1"),
    (">", "2 > 1"),
    (">=", "2 >= 1"),
    (">>", "4 >> 1"),
    (">>>", "4 >>> 1"),
    ("^", "3 ^ 1"),
    ("|", "1 | 2"),
    ("||", "'a' || 'b'"),
    ("~", "~ 1"),
    ("and", "true AND false"),
    ("between", "2 BETWEEN 1 AND 3"),
    ("case", "CASE WHEN true THEN 1 ELSE 2 END"),
    ("cast", "CAST('1' AS INT)"),
    ("try_cast", "TRY_CAST('1' AS INT)"),
    ("div", "7 DIV 2"),
    ("cume_dist", "cume_dist() OVER (ORDER BY 1)"),
    ("dense_rank", "dense_rank() OVER (ORDER BY 1)"),
    ("lag", "lag(1) OVER (ORDER BY 1)"),
    ("lead", "lead(1) OVER (ORDER BY 1)"),
    ("ntile", "ntile(2) OVER (ORDER BY 1)"),
    ("percent_rank", "percent_rank() OVER (ORDER BY 1)"),
    ("rank", "rank() OVER (ORDER BY 1)"),
    ("row_number", "row_number() OVER (ORDER BY 1)"),
    ("reduce", "reduce(array(1), 0, (a, x) -> a + x)"),
    ("exists", "exists(array(1), x -> x = 1)"),
    ("extract", "EXTRACT(YEAR FROM DATE'2020-01-01')"),
    ("ilike", "'A' ILIKE 'a'"),
    ("in", "1 IN (1, 2)"),
    ("like", "'a' LIKE 'a%'"),
    ("not", "NOT true"),
    ("or", "true OR false"),
    ("position", "position('b' IN 'abc')"),
    ("regexp", "'a' REGEXP 'a'"),
    ("rlike", "'a' RLIKE 'a'"),
    ("when", "CASE WHEN true THEN 1 END"),
    ("current_user", "current_user()"),
    ("session_user", "session_user()"),
    ("user", "user()"),
    ("interval", "INTERVAL '1' DAY"),
];

/// Whether a call of the function is more than an unknown name to the planner.
async fn is_there(context: &SessionContext, name: &str) -> bool {
    if let Some((_, text)) = SYNTAX.iter().find(|(known, _)| *known == name) {
        return sql::query(context, &format!("SELECT {text} AS v")).await.is_ok();
    }
    for count in 0..=3 {
        let arguments = vec!["1"; count].join(", ");
        let text = format!("SELECT {name}({arguments}) AS v");
        let Err(error) = sql::query(context, &text).await else { return true };
        let text = error.chain().to_lowercase();
        let unknown = ["invalid function", "line 1", "no function named", "table function"];
        if !unknown.iter().any(|words| text.contains(words)) {
            return true;
        }
    }
    false
}

async fn page() -> String {
    let context = context();
    let mut groups: BTreeMap<String, [Vec<String>; 2]> = BTreeMap::new();
    let (mut all, mut there) = (0, 0);
    for line in SPARK.lines() {
        let (name, group) = line.split_once('\t').unwrap();
        let group = group.replace('_', " ").replace(" funcs", "");
        let known = is_there(&context, name).await;
        all += 1;
        there += usize::from(known);
        groups.entry(group).or_default()[usize::from(!known)].push(format!("`{name}`"));
    }
    let mut text = format!(
        "# Spark's functions\n\nOf the {all} functions and operators that Spark 4.2 has built in, {there} \
         are there, in SQL and over Spark\nConnect. A test makes this page: it asks the planner for each \
         name. What those that are there give is compared\nwith Spark's results in \
         `tests/e2e/test_spark_programs.py`.\n"
    );
    for (group, [known, missing]) in groups {
        text.push_str(&format!("\n## {group}\n"));
        for (what, names) in [("There", known), ("Not there", missing)] {
            if !names.is_empty() {
                text.push_str(&format!("\n{what}: {}.\n", names.join(", ").replace('|', "\\|")));
            }
        }
    }
    text
}

#[tokio::test]
async fn the_page_of_functions_says_which_are_there() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/functions.md");
    let made = page().await;
    if std::env::var_os("ONEFOLD_WRITE_DOCS").is_some() {
        std::fs::write(&path, &made).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(made == kept, "docs/functions.md is stale: run this test with ONEFOLD_WRITE_DOCS=1");
}
