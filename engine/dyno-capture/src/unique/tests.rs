use super::*;

fn keys() -> UniqueKeys {
    let key = |columns: &[(&str, bool)]| columns.iter().map(|(name, null)| (name.to_string(), *null)).collect();
    let of_item = [
        key(&[("id", false)]),
        key(&[("shop", false), ("sku", false)]),
        key(&[("code", true)]),
    ];
    [("item".to_string(), of_item.into())].into()
}

/// The most rows by the digest, with the values of the text.
fn most(text: &str) -> Option<u64> {
    let digest = crate::digest(text.as_bytes());
    most_rows(&queries(digest.as_bytes())[0], &keys(), &extent(text.as_bytes()))
}

#[test]
fn comparison_with_values_on_a_whole_unique_key_bounds_the_rows() {
    for (conditions, expected) in [
        ("id = ?", 1),
        ("`item`.`id` = 1", 1),
        ("shop.item.id = 1", 1),
        ("((item.sku = 'x') and (item.shop = -3) and deleted is null)", 1),
        ("5 = ID AND note LIKE '%x'", 1),
        ("id = 1 AND a = 'x' COLLATE utf8mb4_bin", 1),
        ("id = (SELECT MAX(id) FROM item)", 1),
        ("id = 1 AND EXISTS (SELECT 1 FROM sale JOIN b ON c OR d)", 1),
        ("id <=> 1", 1),
        ("1 <=> id", 1),
        ("code = 'x'", 1),
        ("id = 1 && x > 2", 1),
        ("id = 1 AND (a = 1 OR b = 2)", 1),
        ("id = 1 AND a BETWEEN 1 AND 5", 1),
        ("a BETWEEN 1 AND 5 AND id = 1", 1),
        (
            "a NOT BETWEEN 1 AND 5 AND id = 1 AND CASE WHEN a AND b THEN c ELSE d END",
            1,
        ),
        ("id IN (1)", 1),
        ("id IN (1, 2)", 2),
        ("id IN ('a', 'b', 'c') AND status IN (1, 2)", 3),
        ("id BETWEEN 4 AND 4", 1),
        ("(shop, sku) = (1, 'x')", 1),
        ("ROW(shop, sku) = ROW(1, 'x')", 1),
        ("shop = 1 AND sku IN ('x', 'y')", 2),
        ("(shop, sku) IN ((1, 'x'))", 1),
    ] {
        let text = format!("SELECT * FROM item WHERE {conditions} LIMIT 1");
        assert_eq!(most(&text), Some(expected), "{text}");
    }
    for text in [
        "select i.id, i.note from shop.item AS i where i.id = 1 limit 1 for update",
        "(SELECT a FROM Item WHERE id = 1 LIMIT 1)",
        "SELECT a FROM item FORCE INDEX (`PRIMARY`) WHERE id = 1 LIMIT 1",
        "SELECT a FROM item i USE INDEX (PRIMARY) WHERE i.id = 1 LIMIT 1",
        "SELECT a, (SELECT COUNT(*) FROM sale WHERE item = 3 OR (b)) n FROM item WHERE id = 3 LIMIT 1",
        "SELECT COUNT(*) FROM sale JOIN item WHERE a > 1 LIMIT 1",
    ] {
        assert_eq!(most(text), Some(1), "{text}");
    }
}

#[test]
fn other_conditions_bound_no_rows() {
    for conditions in [
        "sku = ?",
        "id = 1 OR note = 2",
        "id = 1 || note = 2",
        "(id = 1 OR a) AND b",
        "id > 1",
        "id != 1",
        "id <> 1",
        "id >= 1",
        "id NOT IN (1)",
        "id NOT BETWEEN 1 AND 1",
        "id = note",
        "ABS(id) = 1",
        "NOT id = 1",
        "NOT (a = 1 AND id = 1)",
        "!(a = 1 AND id = 1)",
        "(a = 1 AND id = 1) = 0",
        "(a AND id = 1) IS NULL",
        "IF(a AND id = 1, 0, 1)",
        "CASE WHEN a AND id = 1 THEN 0 ELSE 1 END",
        "a BETWEEN 1 AND id = 1",
        "id BETWEEN 1 AND 2",
        "id BETWEEN ? AND ?",
        "id IN (SELECT item FROM sale)",
        "id = ANY (SELECT item FROM sale)",
        "code <=> NULL",
        "code IS NULL",
        "sku = 'x' COLLATE utf8mb4_general_ci AND shop = 1",
        "other.id = 1",
    ] {
        let text = format!("SELECT * FROM item WHERE {conditions} LIMIT 1");
        assert_eq!(most(&text), None, "{text}");
    }
    for text in [
        "SELECT * FROM item, sale WHERE id = ? LIMIT 1",
        "SELECT * FROM item JOIN sale ON item = id WHERE id = ? LIMIT 1",
        "SELECT * FROM item i JOIN sale s ON s.item = i.id AND i.id = 1 LIMIT 1",
        "SELECT * FROM sale WHERE id = 1 LIMIT 1",
        "SELECT * FROM (SELECT * FROM item WHERE id = 1) x LIMIT 1",
        "SELECT * FROM item FORCE INDEX (id), sale WHERE id = 1 LIMIT 1",
        "SELECT * FROM item, (SELECT 1 UNION SELECT 2) x WHERE id = 1 LIMIT 1",
        "SELECT * FROM item WHERE id = 1 UNION VALUES (1) LIMIT 1",
        "SELECT * FROM item FOR SYSTEM_TIME ALL WHERE id = 1 LIMIT 1",
        "SELECT COUNT(*) FROM sale GROUP BY a LIMIT 1",
        "SELECT COUNT(*) OVER () FROM sale LIMIT 1",
        "SELECT 1 LIMIT 1",
    ] {
        assert_eq!(most(text), None, "{text}");
    }
}

#[test]
fn a_limit_counts_where_it_skips_no_row() {
    for (text, expected) in [
        ("SELECT a FROM t LIMIT 5", Some(5)),
        ("SELECT a FROM t LIMIT 0, 5", Some(5)),
        ("SELECT a FROM t LIMIT 5 OFFSET 0 FOR UPDATE", Some(5)),
        ("SELECT a FROM t LIMIT 2, 5", None),
        ("SELECT a FROM t LIMIT 5 OFFSET 2", None),
        ("SELECT a FROM t LIMIT ?", None),
        ("SELECT a FROM (SELECT a FROM t LIMIT 5) x", None),
    ] {
        assert_eq!(extent(text.as_bytes()).limit, expected, "{text}");
    }
}

#[test]
fn rows_are_ordered_by_a_whole_unique_key_or_by_all_that_they_have() {
    let is_ordered = |text: &str| is_ordered(&queries(crate::digest(text.as_bytes()).as_bytes())[0], &keys());
    for text in [
        "SELECT * FROM item ORDER BY id",
        "SELECT * FROM item i ORDER BY note DESC, i.`id` DESC LIMIT 3",
        "SELECT note, id FROM item WHERE a OR b ORDER BY sku ASC, shop",
        "SELECT * FROM item WHERE shop = 3 ORDER BY sku LIMIT 10",
        "SELECT * FROM item WHERE code = 3 ORDER BY note LIMIT 10",
        "SELECT DISTINCT c FROM sbtest1 WHERE id BETWEEN 1 AND 2 ORDER BY c",
        "SELECT a.x, COUNT(*) FROM a JOIN b ON c GROUP BY a.x ORDER BY COUNT(*), a.x",
        "SELECT a FROM t ORDER BY a LIMIT 3",
    ] {
        assert!(is_ordered(text), "{text}");
    }
    for text in [
        "SELECT * FROM item",
        "SELECT * FROM item ORDER BY note",
        "SELECT * FROM item ORDER BY sku LIMIT 3",
        "SELECT * FROM item ORDER BY code",
        "SELECT * FROM item ORDER BY ABS(id)",
        "SELECT * FROM item ORDER BY -id, 1",
        "SELECT * FROM item ORDER BY id DIV 10",
        "SELECT *, note AS id FROM item ORDER BY id",
        "SELECT *, note id FROM item ORDER BY id",
        "SELECT DISTINCT note, a FROM item ORDER BY id",
        "SELECT * FROM item JOIN sale ON item = id ORDER BY id",
        "SELECT note, COUNT(*) FROM item GROUP BY note ORDER BY COUNT(*) LIMIT 3",
        "SELECT note, COUNT(*) FROM item GROUP BY note WITH ROLLUP ORDER BY note LIMIT 3",
        "SELECT note, id FROM item UNION SELECT a, b FROM c ORDER BY id",
        "SELECT * FROM item ORDER BY RIGHT(note, id), FIELD(id, 3)",
        "SELECT * FROM item WHERE a IN (SELECT b FROM c ORDER BY id)",
    ] {
        assert!(!is_ordered(text), "{text}");
    }
}
