use super::*;

use Freedom::{Contents, Number, Order};

fn found(text: &str, rows: u64) -> Option<(String, Freedom)> {
    let key = |column: &str| [(column.to_string(), false)].into();
    let keys: UniqueKeys = [("t".into(), [key("id")].into())].into();
    let digest = crate::digest(text.as_bytes());
    let found = nondeterministic(digest.as_bytes(), &keys, &crate::extent(text.as_bytes()), rows);
    found.map(|found| (found.reason, found.freedom))
}

#[test]
fn what_varies_by_itself_is_named() {
    const NO_KEY: &str = "GROUP_CONCAT() without ORDER BY of a unique key";
    for (text, expected) in [
        ("SELECT now()", Some(("NOW()", Number))),
        ("SELECT CURRENT_TIMESTAMP", Some(("CURRENT_TIMESTAMP", Number))),
        ("SELECT utc_date", Some(("UTC_DATE", Number))),
        ("SELECT @@version", Some(("@@version", Number))),
        ("SELECT @i", Some(("@i", Number))),
        ("SHOW TABLES", Some(("SHOW", Number))),
        (
            "SELECT * FROM `information_schema`.`tables`",
            Some(("information_schema", Number)),
        ),
        ("SELECT sys, mysql FROM t", None),
        ("SELECT a FROM t FOR UPDATE SKIP LOCKED", Some(("SKIP LOCKED", Number))),
        (
            "SELECT a FROM t WHERE id = 3 AND b < NOW() LIMIT 1",
            Some(("NOW()", Number)),
        ),
        ("SELECT user, version FROM t", None),
        ("SELECT UNIX_TIMESTAMP()", Some(("UNIX_TIMESTAMP()", Number))),
        ("SELECT id FROM t WHERE b > UNIX_TIMESTAMP('2020-01-01')", None),
        ("SELECT UNIX_TIMESTAMP(now())", Some(("NOW()", Number))),
        ("SELECT uuid_v7()", Some(("UUID_V7()", Number))),
        (
            "SELECT GROUP_CONCAT(a) FROM t GROUP BY b",
            Some(("GROUP_CONCAT() without ORDER BY", Contents)),
        ),
        (
            "SELECT GROUP_CONCAT(a ORDER BY a), JSON_ARRAYAGG((SELECT a FROM t ORDER BY id)) FROM t",
            Some(("JSON_ARRAYAGG() without ORDER BY", Contents)),
        ),
        (
            "SELECT b FROM t GROUP BY b HAVING GROUP_CONCAT(a) = 'x,y'",
            Some(("GROUP_CONCAT() without ORDER BY", Number)),
        ),
        (
            "SELECT a FROM t WHERE b = (SELECT JSON_OBJECTAGG(a, b) FROM t)",
            Some(("JSON_OBJECTAGG() without ORDER BY", Number)),
        ),
        ("SELECT GROUP_CONCAT(DISTINCT a ORDER BY a) FROM t", None),
        (
            "SELECT GROUP_CONCAT(a, ':', b ORDER BY b DESC, a SEPARATOR ';') FROM t, u",
            None,
        ),
        ("SELECT GROUP_CONCAT(a ORDER BY b, id) FROM t", None),
        ("SELECT GROUP_CONCAT(a ORDER BY b) FROM t GROUP BY id, c", None),
        ("SELECT GROUP_CONCAT(a ORDER BY b) FROM t", Some((NO_KEY, Contents))),
        (
            "SELECT UPPER(GROUP_CONCAT(a ORDER BY b)) FROM t",
            Some((NO_KEY, Number)),
        ),
        (
            "SELECT GROUP_CONCAT(DISTINCT a ORDER BY id) FROM t",
            Some((NO_KEY, Contents)),
        ),
        (
            "SELECT GROUP_CONCAT(DISTINCT CONCAT(a, b) ORDER BY a) FROM t",
            Some((NO_KEY, Contents)),
        ),
        (
            "SELECT GROUP_CONCAT(a ORDER BY t.id) FROM t JOIN u",
            Some((NO_KEY, Contents)),
        ),
        (
            "SELECT GROUP_CONCAT(a ORDER BY b) FROM t GROUP BY id, c WITH ROLLUP",
            Some((NO_KEY, Contents)),
        ),
        ("SELECT group_concat FROM t", None),
        (
            "SELECT id, ROW_NUMBER() OVER (ORDER BY a) FROM t",
            Some(("ROW_NUMBER() without ORDER BY of a unique key", Contents)),
        ),
        (
            "SELECT a, NTH_VALUE(b, 2) FROM FIRST RESPECT NULLS OVER () FROM t",
            Some(("NTH_VALUE() without ORDER BY", Contents)),
        ),
        (
            "SELECT a, SUM(b) OVER (PARTITION BY c ORDER BY a ROWS 2 PRECEDING) FROM t",
            Some(("SUM() without ORDER BY of a unique key", Contents)),
        ),
        (
            "SELECT a FROM (SELECT a, ROW_NUMBER() OVER (PARTITION BY b ORDER BY c) n FROM t) x WHERE n = 1",
            Some(("ROW_NUMBER() without ORDER BY of a unique key", Number)),
        ),
        (
            "SELECT DISTINCT LAG(a) OVER w FROM t WINDOW w AS (ORDER BY a)",
            Some(("LAG() without ORDER BY of a unique key", Number)),
        ),
        (
            "SELECT a, ROW_NUMBER() OVER (PARTITION BY b ORDER BY c, id DESC) FROM t",
            None,
        ),
        (
            "SELECT a, LAG(b) OVER (v ROWS 2 PRECEDING) FROM t WINDOW w AS (PARTITION BY c), v AS (w ORDER BY id)",
            None,
        ),
        (
            "SELECT a, RANK() OVER (ORDER BY b), SUM(b) OVER (ORDER BY b) FROM t",
            None,
        ),
        (
            "SELECT SUM(b) OVER (ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) FROM t",
            None,
        ),
        ("SELECT b, ROW_NUMBER() OVER (ORDER BY b) FROM t GROUP BY b", None),
        (
            "WITH x AS (SELECT a, ROW_NUMBER() OVER (ORDER BY id) n FROM t) SELECT a FROM x WHERE n = 1",
            None,
        ),
        ("SELECT a, b FROM t GROUP BY a", Some(("b outside GROUP BY", Contents))),
        ("SELECT * FROM t GROUP BY a", Some(("* outside GROUP BY", Contents))),
        ("SELECT a, MAX(b) FROM t", Some(("a outside GROUP BY", Contents))),
        (
            "SELECT u.b FROM t JOIN u ON u.t = t.id GROUP BY t.id",
            Some(("b outside GROUP BY", Contents)),
        ),
        (
            "SELECT a FROM u WHERE a IN (SELECT b FROM t GROUP BY a)",
            Some(("b outside GROUP BY", Number)),
        ),
        (
            "SELECT t.a AS x, b y, COUNT(*), c + 1 FROM t GROUP BY a, y WITH ROLLUP",
            None,
        ),
        ("SELECT a, b, t.* FROM t GROUP BY id", None),
        ("SELECT a, b FROM t WHERE b = 3 GROUP BY a DESC", None),
        ("SELECT a, b FROM t GROUP BY 1, 2", None),
        (
            "SELECT x.a, b, COUNT(u.c) FROM t AS x LEFT JOIN u ON u.t = x.id GROUP BY x.id",
            None,
        ),
        (
            "SELECT o.id, c.a, COUNT(*) FROM t o JOIN t c ON c.id = o.c GROUP BY o.id",
            None,
        ),
        (
            "SELECT u.c, x.a, COUNT(*) FROM u LEFT OUTER JOIN t AS x ON (u.c = x.id) GROUP BY u.c",
            None,
        ),
        ("SELECT x.a FROM t x, u WHERE x.id = u.c AND u.d = 3 GROUP BY u.c", None),
        (
            "SELECT t.a FROM t LEFT JOIN u ON u.c = t.id GROUP BY u.c",
            Some(("a outside GROUP BY", Contents)),
        ),
        (
            "SELECT t.a FROM u RIGHT JOIN t ON u.c = t.id GROUP BY u.c",
            Some(("a outside GROUP BY", Contents)),
        ),
        ("SELECT x.a, x.b FROM (SELECT a, b FROM t) x GROUP BY x.a", None),
        ("SELECT t.a, u.b FROM t JOIN u USING (c) GROUP BY c", None),
        ("SELECT t.a, u.b FROM t NATURAL LEFT JOIN u GROUP BY t.c", None),
        (
            "SELECT ROW_NUMBER() OVER (PARTITION BY o.c ORDER BY o.id) FROM t o JOIN t c ON c.id = o.c",
            None,
        ),
        (
            "SELECT ROW_NUMBER() OVER (PARTITION BY o.c ORDER BY o.id) FROM t o JOIN t c ON c.b = o.c",
            Some(("ROW_NUMBER() without ORDER BY of a unique key", Contents)),
        ),
        (
            "SELECT NULL AS a, true, FALSE x, DATE '2026-01-01', _utf8mb4'x', COUNT(*) FROM t",
            None,
        ),
        (
            "SELECT b, any_value(a) AS x FROM t GROUP BY b",
            Some(("a outside GROUP BY", Contents)),
        ),
        ("SELECT ANY_VALUE(b), ANY_VALUE(a + 1) FROM t GROUP BY b", None),
        ("SELECT 'now()'", None),
    ] {
        let expected = expected.map(|(reason, freedom)| (reason.to_string(), freedom));
        assert_eq!(found(text, 3), expected, "{text}");
    }
}

#[test]
fn sums_are_found() {
    assert!(adds_up(b"SELECT b, ROUND(avg(a)) FROM t GROUP BY b"));
    assert!(!adds_up(b"SELECT sum, MAX(a) FROM t"));
}

#[test]
fn a_limit_varies_where_it_may_cut_other_rows() {
    const NO_ORDER: &str = "LIMIT without ORDER BY";
    const NO_KEY: &str = "LIMIT without ORDER BY of a unique key";
    for (text, expected) in [
        ("SELECT a FROM t LIMIT 3", Some((NO_ORDER, Contents))),
        ("SELECT a FROM t LIMIT 4", None),
        ("SELECT a FROM t LIMIT 4 OFFSET 1", Some((NO_ORDER, Contents))),
        ("SELECT a FROM t FETCH FIRST 3 ROWS ONLY", Some((NO_ORDER, Contents))),
        ("SELECT a FROM t ORDER BY b LIMIT 3", Some((NO_KEY, Contents))),
        (
            "SELECT a FROM t ORDER BY b LIMIT 4",
            Some(("ORDER BY without a unique key", Order)),
        ),
        (
            "SELECT a FROM t ORDER BY b",
            Some(("ORDER BY without a unique key", Order)),
        ),
        ("SELECT a FROM t ORDER BY b, id LIMIT 3", None),
        ("SELECT a FROM t ORDER BY a LIMIT 3", None),
        ("SELECT a FROM t", None),
        (
            "SELECT a FROM (SELECT a FROM t LIMIT 3) x WHERE a > 3",
            Some((NO_ORDER, Number)),
        ),
        (
            "SELECT a FROM (SELECT a FROM t LIMIT 3) x ORDER BY a",
            Some((NO_ORDER, Number)),
        ),
        (
            "SELECT a FROM (SELECT a FROM t ORDER BY b LIMIT 3) x ORDER BY a",
            Some((NO_KEY, Number)),
        ),
        (
            "SELECT a FROM (SELECT a FROM t WHERE id = 1 LIMIT 3) x ORDER BY a",
            None,
        ),
        ("SELECT EXISTS (SELECT 1 FROM t WHERE b LIMIT 1)", None),
        (
            "SELECT (SELECT COUNT(*) FROM u), a FROM t LIMIT 3",
            Some((NO_ORDER, Contents)),
        ),
        (
            "SELECT GROUP_CONCAT(a ORDER BY a) FROM t GROUP BY b LIMIT 3",
            Some((NO_ORDER, Contents)),
        ),
        (
            "WITH t AS (SELECT 1 id) SELECT a FROM t WHERE id = 1 LIMIT 3",
            Some((NO_ORDER, Contents)),
        ),
        (
            "(SELECT a FROM t LIMIT 3) UNION (SELECT a FROM u)",
            Some((NO_ORDER, Number)),
        ),
    ] {
        let expected = expected.map(|(reason, freedom)| (reason.to_string(), freedom));
        assert_eq!(found(text, 3), expected, "{text}");
    }
}

#[test]
fn a_limit_changes_nothing_of_rows_that_a_unique_key_finds() {
    for text in [
        "SELECT a FROM t WHERE id = 3 LIMIT 1",
        "SELECT a FROM t WHERE id IN (3) LIMIT 1",
        "SELECT a FROM t WHERE id IN (3) LIMIT 1 OFFSET 1",
        "SELECT a FROM t WHERE id <=> 3 LIMIT 1",
        "SELECT a FROM t WHERE id = ? LIMIT ?",
        "SELECT COUNT(*) FROM u LIMIT 1",
    ] {
        assert_eq!(found(text, 1), None, "{text}");
    }
    assert_eq!(found("SELECT a FROM t WHERE id IN (3, 4) LIMIT 2", 2), None);
    assert_eq!(found("SELECT a FROM t WHERE id IN (3, 4)", 2), None);
    for text in [
        "SELECT a FROM t WHERE id IN (3, 4) LIMIT 1",
        "SELECT a FROM t WHERE id IN (?, ?) LIMIT ?",
        "SELECT a FROM t WHERE id != 3 LIMIT 1",
        "SELECT a FROM t WHERE id = 1 OR b LIMIT 1",
    ] {
        assert_eq!(found(text, 1).map(|found| found.1), Some(Contents), "{text}");
    }
}
