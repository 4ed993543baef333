//! `JOIN … USING` and `NATURAL JOIN`: one column for the keys of both sides.

use crate::laterals::rows;

const L: &str = "(VALUES (1, 'a'), (2, 'b')) AS l(k, v)";
const R: &str = "(VALUES (2, 'x'), (3, 'y')) AS r(K, w)";

#[tokio::test]
async fn the_key_of_an_outer_join_is_the_one_that_is_there() {
    for (join, expected) in [
        ("JOIN", &["2,b,x"][..]),
        ("LEFT JOIN", &["1,a,", "2,b,x"]),
        ("RIGHT JOIN", &["2,b,x", "3,,y"]),
        ("FULL JOIN", &["1,a,", "2,b,x", "3,,y"]),
    ] {
        for text in [
            format!("SELECT * FROM {L} {join} {R} USING (k) ORDER BY k"),
            format!("SELECT k, v, w FROM {L} NATURAL {join} {R} ORDER BY k"),
        ] {
            let rows = rows(&text).await.unwrap();
            let (names, rows) = rows.split_first().unwrap();
            assert_eq!(names, "k,v,w", "{text}");
            assert_eq!(rows, expected, "{text}");
        }
    }
}

#[tokio::test]
async fn the_keys_of_each_side_keep_their_names_and_the_common_one_can_be_used_anywhere() {
    let text =
        format!("SELECT k, l.k AS lk, r.k AS rk FROM {L} FULL JOIN {R} USING (k) ORDER BY k");
    assert_eq!(rows(&text).await.unwrap(), ["k,lk,rk", "1,1,", "2,2,2", "3,,3"]);
    let text = format!(
        "SELECT k + 1 AS n, count(*) AS c FROM {L} FULL JOIN {R} USING (k) WHERE k > 1 \
         GROUP BY k HAVING k < 4 ORDER BY k"
    );
    assert_eq!(rows(&text).await.unwrap(), ["n,c", "3,1", "4,1"]);
    let text = format!(
        "SELECT * FROM {L} FULL JOIN {R} USING (k) FULL JOIN (VALUES (4, 'z')) AS s(k, u) USING (k) \
         ORDER BY k"
    );
    assert_eq!(rows(&text).await.unwrap(), ["k,v,w,u", "1,a,,", "2,b,x,", "3,,y,", "4,,,z"]);
    let text = format!("SELECT l.* FROM {L} LEFT SEMI JOIN {R} USING (k)");
    assert_eq!(rows(&text).await.unwrap(), ["k,v", "2,b"]);
    let text = format!("SELECT * EXCEPT (k) FROM {L} FULL JOIN {R} USING (k) ORDER BY v, w");
    assert!(rows(&text).await.unwrap().contains(&"b,x".to_owned()));
    let text = format!(
        "SELECT k, x FROM {L} FULL JOIN {R} USING (k) LATERAL VIEW explode(array(k, 9)) e AS x \
         WHERE k = 3 ORDER BY x"
    );
    assert_eq!(rows(&text).await.unwrap(), ["k,x", "3,3", "3,9"]);
}

#[tokio::test]
async fn a_key_that_a_side_lacks_is_named() {
    let refused = rows(&format!("SELECT * FROM {L} JOIN {R} USING (v)")).await.unwrap_err();
    assert!(refused.contains("`v` cannot be resolved on the right side"), "{refused}");
}
