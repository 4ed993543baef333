//! `LATERAL VIEW`, and aliases that later items of a SELECT use.

use crate::memory::context;
use arrow::util::pretty::pretty_format_batches;
use onefold_plan::sql;

pub(crate) async fn rows(text: &str) -> Result<Vec<String>, String> {
    let context = context();
    let plan = sql::query(&context, text).await.map_err(|error| error.chain())?;
    let frame = context.execute_logical_plan(plan).await.map_err(|error| error.to_string())?;
    let batches = frame.collect().await.map_err(|error| error.to_string())?;
    let table = pretty_format_batches(&batches).unwrap().to_string();
    let cells =
        |line: &str| line.trim_matches('|').split('|').map(str::trim).collect::<Vec<_>>().join(",");
    Ok(table.lines().filter(|line| line.starts_with('|')).map(cells).collect())
}

const T: &str = "(VALUES (1, array('a', 'b')), (2, array())) AS t(id, xs)";

#[tokio::test]
async fn a_lateral_view_has_a_row_for_each_element() {
    let text = format!("SELECT id, x FROM {T} LATERAL VIEW explode(xs) v AS x ORDER BY x");
    assert_eq!(rows(&text).await.unwrap(), ["id,x", "1,a", "1,b"]);
    let text =
        format!("SELECT * FROM {T} LATERAL VIEW OUTER posexplode(t.xs) v AS p, x ORDER BY id, p");
    assert_eq!(rows(&text).await.unwrap(), ["id,xs,p,x", "1,[a, b],0,a", "1,[a, b],1,b", "2,[],,"]);
}

#[tokio::test]
async fn names_mean_in_a_lateral_view_what_they_meant_before() {
    let text = format!(
        "SELECT t.id, u.id AS u, v.x, count(*) AS n FROM {T} JOIN (VALUES (1), (2)) AS u(id) \
         ON t.id = u.id LATERAL VIEW explode(t.xs) v AS x WHERE u.id = 1 AND v.x <> 'b' \
         GROUP BY t.id, u.id, v.x"
    );
    assert_eq!(rows(&text).await.unwrap(), ["id,u,x,n", "1,1,a,1"]);
    let text = format!(
        "SELECT v.* FROM {T} LATERAL VIEW explode(map('k', id)) v WHERE id > 0 ORDER BY value"
    );
    assert_eq!(rows(&text).await.unwrap(), ["key,value", "k,1", "k,2"]);
    let two = format!(
        "SELECT x, y FROM {T} LATERAL VIEW explode(xs) a AS x LATERAL VIEW explode(array(x, 'c')) b \
         AS y WHERE id = 1 ORDER BY x, y"
    );
    assert_eq!(rows(&two).await.unwrap(), ["x,y", "a,a", "a,c", "b,b", "b,c"]);
    // A name that the table has as well.
    let same =
        format!("SELECT t.id, v.id AS x FROM {T} LATERAL VIEW explode(xs) v AS id ORDER BY x");
    assert_eq!(rows(&same).await.unwrap(), ["id,x", "1,a", "1,b"]);
}

#[tokio::test]
async fn an_item_can_use_the_aliases_before_it() {
    let text = "SELECT a + 1 AS b, b * 2 AS c, c + b FROM (VALUES (1), (2)) AS t(a) ORDER BY b";
    assert_eq!(rows(text).await.unwrap(), ["b,c,(c + b)", "2,4,6", "3,6,9"]);
    // A column goes before an alias.
    let text = "SELECT a + 1 AS a, a + 0 AS b FROM (VALUES (1)) AS t(a)";
    assert!(rows(text).await.is_ok_and(|rows| rows.last().is_some_and(|row| row == "2,1")));
    let text = "SELECT sum(a) AS s, s / 2 AS half FROM (VALUES (1), (2)) AS t(a)";
    assert_eq!(rows(text).await.unwrap(), ["s,half", "3,1.5"]);
    let text = "SELECT named_struct('x', a) AS s, s.x + 1 AS y, transform(array(1), s -> s + 1) AS z \
                FROM (VALUES (1)) AS t(a)";
    assert_eq!(rows(text).await.unwrap(), ["s,y,z", "{x: 1},2,[2]"]);
    let text = "SELECT row_number() OVER (ORDER BY a) AS n, n + 1 AS m FROM (VALUES (5)) AS t(a)";
    assert_eq!(rows(text).await.unwrap(), ["n,m", "1,2"]);
}

#[tokio::test]
async fn aliases_that_grow_without_end_are_refused() {
    let mut text = "SELECT 1 AS a0".to_owned();
    for place in 1..40 {
        text += &format!(", a{} + a{} AS a{place}", place - 1, place - 1);
    }
    assert!(rows(&text).await.unwrap_err().contains("written out"));
}
