//! Queries that say in few words what takes others many: PIVOT, ORDER BY ALL, columns of one name,
//! counts of several columns, intervals of several units.

use crate::laterals::rows;

const T: &str = "(VALUES (1, 'a', 10), (1, 'b', 20), (2, 'a', 30), (2, 'a', 5)) AS t(id, k, v)";

#[tokio::test]
async fn pivot_has_a_column_for_each_value_and_aggregate() {
    let text = format!("SELECT * FROM {T} PIVOT (sum(v) FOR k IN ('a', 'b' AS other)) ORDER BY id");
    assert_eq!(rows(&text).await.unwrap(), ["id,a,other", "1,10,20", "2,35,"]);
    let text = format!(
        "SELECT * FROM (SELECT k, v FROM {T}) PIVOT (sum(v) AS s, count(v) AS c FOR k IN ('a', 'z'))"
    );
    assert_eq!(rows(&text).await.unwrap(), ["a_s,a_c,z_s,z_c", "45,3,,"]);
    let no_aggregate = format!("SELECT * FROM {T} PIVOT (abs(v) FOR k IN ('a'))");
    assert!(rows(&no_aggregate).await.is_err());
}

#[tokio::test]
async fn order_by_all_goes_through_the_columns() {
    let text = format!("SELECT k, v FROM {T} ORDER BY ALL DESC");
    assert_eq!(rows(&text).await.unwrap(), ["k,v", "b,20", "a,30", "a,10", "a,5"]);
}

#[tokio::test]
async fn columns_of_one_name_come_as_often_as_they_are_asked_for() {
    let text = format!("SELECT id, id, v + 1 AS id FROM {T} WHERE v = 10");
    assert_eq!(rows(&text).await.unwrap(), ["id,id,id", "1,1,11"]);
    let text = format!("SELECT * FROM (SELECT id, v AS id FROM {T} WHERE v = 10) s");
    assert_eq!(rows(&text).await.unwrap(), ["id,id", "1,10"]);
    let text = format!("SELECT s.a, s.b FROM (SELECT id, id FROM {T} WHERE v = 10) AS s(a, b)");
    assert_eq!(rows(&text).await.unwrap(), ["a,b", "1,1"]);
}

#[tokio::test]
async fn several_columns_count_where_none_is_null() {
    let text = "SELECT count(a, b) AS rows, count(DISTINCT a, b) AS pairs FROM \
                (VALUES (1, 2), (1, 2), (1, 3), (1, NULL)) AS t(a, b)";
    assert_eq!(rows(text).await.unwrap(), ["rows,pairs", "3,2"]);
    let text = format!("SELECT v, monotonically_increasing_id() AS n FROM {T} WHERE id = 1");
    assert_eq!(rows(&text).await.unwrap(), ["v,n", "10,0", "20,1"]);
}

#[tokio::test]
async fn an_interval_can_have_several_units() {
    let text = "SELECT TIMESTAMP'2024-01-31 00:00:00' + INTERVAL '0-1' YEAR TO MONTH AS a, \
                TIMESTAMP'2024-01-31 00:00:00' - INTERVAL '1 02:03:04' DAY TO SECOND AS b";
    let rows = rows(text).await.unwrap();
    let row = rows.last().unwrap();
    assert!(row.contains("2024-02-29") && row.contains("2024-01-29T21:56:56"), "{row}");
}

#[tokio::test]
async fn an_average_moves_with_its_window() {
    let text = "SELECT a, avg(a) OVER (ORDER BY n ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS m, \
                avg(CAST(a AS DECIMAL(5,1))) OVER (ORDER BY n RANGE BETWEEN 1 PRECEDING AND CURRENT \
                ROW) AS d FROM (VALUES (1, 1e16), (2, 1.0), (3, 3.0), (4, NULL), (5, NULL)) AS t(n, b) \
                LATERAL VIEW explode(array(if(b > 100, 2.0, b))) e AS a ORDER BY n";
    let rows = rows(text).await.unwrap();
    assert_eq!(
        rows,
        ["a,m,d", "2.0,2.0,2.00000", "1.0,1.5,1.50000", "3.0,2.0,2.00000", ",3.0,3.00000", ",,"]
    );
    // Nothing is left of a value that has gone.
    let text = "SELECT avg(a) OVER (ORDER BY n ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS m FROM \
                (VALUES (1, 1e16), (2, 1e0), (3, 3e0)) AS t(n, a) ORDER BY n DESC LIMIT 1";
    assert_eq!(crate::laterals::rows(text).await.unwrap(), ["m", "2.0"]);
}
