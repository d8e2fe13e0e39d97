//! How many rows a query finds, and in which order it returns them, as far as unique keys show it.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::lexer::{name, Kind, Token};
use crate::query::{conditions, in_brackets, queries, split, Query};

/// The unique keys of tables by the table's name; of each key its columns, and whether they may be NULL. All in small
/// letters.
pub type UniqueKeys = BTreeMap<String, BTreeSet<BTreeMap<String, bool>>>;

/// Functions that make one row of all.
const AGGREGATES: &[&str] = &[
    "AVG",
    "BIT_AND",
    "BIT_OR",
    "BIT_XOR",
    "COUNT",
    "GROUP_CONCAT",
    "MAX",
    "MIN",
    "STD",
    "STDDEV",
    "SUM",
    "VARIANCE",
];

/// What the values of a statement show of the rows that it returns; its digest does not have them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extent {
    /// The most rows, by a LIMIT that skips none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// By column, the number of values that it is compared with by IN or BETWEEN.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub values: BTreeMap<String, u64>,
}

/// The extent of a statement with a LIMIT; of others nothing.
pub fn extent(text: &[u8]) -> Extent {
    let all = queries(text);
    let Some(query) = all.first().filter(|query| query.has("LIMIT")) else {
        return Extent::default();
    };
    let number = |token: &Token<'_>| std::str::from_utf8(token.text).ok()?.parse::<u64>().ok();
    let offset = query.clause("OFFSET").map_or(Some(0), |offset| number(offset.first()?));
    let limit = match query.clause("LIMIT") {
        Some([rows]) if offset == Some(0) => number(rows),
        Some([skipped, _, rows]) if number(skipped) == Some(0) => number(rows),
        _ => None,
    };
    let found = query.clause("WHERE").map(conditions).unwrap_or_default();
    let lists = found.into_iter().filter_map(compared).filter_map(|compared| {
        let count = compared.values?;
        Some(compared.columns.into_iter().map(move |column| (column.name, count)))
    });
    Extent {
        limit,
        values: lists.flatten().collect(),
    }
}

/// The most rows that a query finds by comparing all columns of a unique key with values, or by making one of all; none
/// where its text does not show it.
pub fn most_rows(query: &Query<'_>, keys: &UniqueKeys, extent: &Extent) -> Option<u64> {
    if is_aggregate(query) {
        return Some(1);
    }
    let (table, bound) = bound(query)?;
    let count = |(column, may_be_null): (&String, &bool)| match bound.get(column)? {
        Comparison::Equal => Some(1),
        Comparison::EqualOrNull => (!may_be_null).then_some(1),
        Comparison::Listed => extent.values.get(column).copied(),
    };
    let of_key = |key: &BTreeMap<String, bool>| {
        let mut counts = key.iter().map(count);
        counts.try_fold(1_u64, |product, count| Some(product.saturating_mul(count?)))
    };
    keys.get(&table)?.iter().filter_map(of_key).min()
}

/// Whether the ORDER BY of a query leaves no two rows that differ in any order.
pub fn is_ordered(query: &Query<'_>, keys: &UniqueKeys) -> bool {
    let Some(order) = query.by("ORDER") else {
        return false;
    };
    let mut by: Vec<&[Token<'_>]> = order.into_iter().map(without_direction).collect();
    let is_by = |item: &&[Token<'_>]| is_among(item, &by);
    if is_compound(query) || query.is_rolled_up() {
        return false;
    }
    let Some((items, is_distinct)) = query.items() else {
        return false;
    };
    if items.iter().all(is_by) {
        return true;
    }
    if query.has("GROUP") {
        return query.by("GROUP").is_some_and(|items| items.iter().all(is_by));
    }
    by.retain(|item| item.len() > 1 || !is_alias(item, &items));
    !is_distinct && has_key(query, &by, keys)
}

/// Whether these columns of the only table, with those that are compared with values, have a whole unique key.
pub fn has_key(query: &Query<'_>, by: &[&[Token<'_>]], keys: &UniqueKeys) -> bool {
    let Some((table, bound)) = bound(query) else {
        return false;
    };
    let names = names(query).unwrap_or_default();
    let columns: BTreeSet<String> = by.iter().filter_map(|item| column(item, &names)).collect();
    let is_certain = |(column, may_be_null): (&String, &bool)| match bound.get(column) {
        Some(Comparison::Equal) => true,
        Some(Comparison::EqualOrNull) if !may_be_null => true,
        _ => !may_be_null && columns.contains(column),
    };
    keys.get(&table)
        .is_some_and(|keys| keys.iter().any(|key| key.iter().all(is_certain)))
}

/// Whether an item is a column, and one of these.
pub fn is_among(item: &[Token<'_>], by: &[&[Token<'_>]]) -> bool {
    let is_column = qualified(item).is_some_and(|(_, rest)| rest.is_empty());
    is_column && by.iter().any(|other| is_same(item, other))
}

fn is_compound(query: &Query<'_>) -> bool {
    ["UNION", "EXCEPT", "INTERSECT"].iter().any(|word| query.has(word))
}

/// Whether the query makes one row of all that it finds.
fn is_aggregate(query: &Query<'_>) -> bool {
    let is_call = |pair: &[Token<'_>]| pair[0].is_any(AGGREGATES) && pair[1].is_symbol(b'(');
    let items = query.clause("SELECT").unwrap_or_default();
    items.windows(2).any(is_call)
        && !items.iter().any(|token| token.is_word("OVER"))
        && !query.has("GROUP")
        && !is_compound(query)
}

/// Whether an item of ORDER BY is the name of another item than the column that is called so.
fn is_alias(item: &[Token<'_>], items: &[&[Token<'_>]]) -> bool {
    items.iter().any(|other| {
        let is_column = qualified(other).is_some_and(|(_, rest)| rest.is_empty());
        !is_column && other.len() > 1 && is_same(item, &other[other.len() - 1..])
    })
}

fn is_same(left: &[Token<'_>], right: &[Token<'_>]) -> bool {
    let word = |token: &Token<'_>| {
        let bare = name(token).unwrap_or_else(|| String::from_utf8_lossy(token.text).into_owned());
        bare.to_lowercase()
    };
    left.len() == right.len() && left.iter().map(word).eq(right.iter().map(word))
}

/// An item of ORDER BY without its direction.
pub fn without_direction<'b, 'a>(item: &'b [Token<'a>]) -> &'b [Token<'a>] {
    match item {
        [column @ .., direction] if direction.is_any(&["ASC", "DESC"]) => column,
        _ => item,
    }
}

/// How a column is compared with values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comparison {
    Equal,
    /// Equal, or NULL as the value is.
    EqualOrNull,
    /// One of several.
    Listed,
}

struct Column {
    /// What precedes the point before it.
    qualifier: Option<String>,
    name: String,
}

/// Columns that one condition compares with values.
struct Compared {
    columns: Vec<Column>,
    how: Comparison,
    /// How many values, where there may be several and the text has them.
    values: Option<u64>,
}

/// The table of a query that reads one, and how it compares its columns with values.
fn bound(query: &Query<'_>) -> Option<(String, BTreeMap<String, Comparison>)> {
    let names = names(query)?;
    let mut bound = BTreeMap::new();
    for compared in conditions(query.clause("WHERE").unwrap_or_default())
        .into_iter()
        .filter_map(compared)
    {
        let own = |column: &Column| column.qualifier.as_ref().is_none_or(|qualifier| *qualifier == names.1);
        for column in compared.columns.into_iter().filter(own) {
            let how = bound.entry(column.name).or_insert(compared.how);
            if compared.how == Comparison::Equal {
                *how = compared.how;
            }
        }
    }
    Some((names.0, bound))
}

/// The name of the only table, and the one that its columns have before their point.
fn names(query: &Query<'_>) -> Option<(String, String)> {
    let is_versioned = query.tokens.iter().any(|token| token.is_word("SYSTEM_TIME"));
    if is_versioned || is_compound(query) {
        return None;
    }
    let (mut parts, rest) = qualified(query.clause("FROM")?)?;
    let table = parts.pop()?;
    let hint = rest.iter().position(|token| token.is_any(&["USE", "FORCE", "IGNORE"]));
    let alias = match &rest[..hint.unwrap_or(rest.len())] {
        [first, alias] if first.is_word("AS") => name(alias)?.to_lowercase(),
        [alias] => name(alias)?.to_lowercase(),
        [] => table.clone(),
        _ => return None,
    };
    let after_hint = &rest[hint.unwrap_or(rest.len())..];
    (split(after_hint, |token| token.is_symbol(b',') || token.is_word("JOIN")).len() == 1).then_some((table, alias))
}

/// The column of `alias.column`.
fn column(tokens: &[Token<'_>], names: &(String, String)) -> Option<String> {
    let (mut parts, rest) = qualified(tokens)?;
    let column = parts.pop()?;
    (rest.is_empty() && parts.pop().is_none_or(|qualifier| qualifier == names.1)).then_some(column)
}

/// The columns of `alias.column = value`, of `(a, b) IN ((1, 2))`, of the value first, and the like.
fn compared(tokens: &[Token<'_>]) -> Option<Compared> {
    let mut depth = 0_i32;
    let place = tokens.iter().position(|token| {
        depth += i32::from(token.is_symbol(b'(')) - i32::from(token.is_symbol(b')'));
        let is_operator = token.kind == Kind::Symbol && b"=<>!:".contains(&token.text[0]);
        depth == 0 && (is_operator || token.is_any(&["IN", "BETWEEN"]))
    })?;
    let (left, right) = tokens.split_at(place);
    let listed = |values| {
        let columns = columns(left)?;
        let how = Comparison::Listed;
        Some(Compared { columns, how, values })
    };
    let equal = |right, how| {
        let of = |column, value| is_value(value).then(|| columns(column)).flatten();
        let columns = of(left, right).or_else(|| of(right, left))?;
        let values = None;
        Some(Compared { columns, how, values })
    };
    match right {
        [word, list @ ..] if word.is_word("IN") && is_constant(list) => {
            let is_of_digest = list.iter().any(|token| token.is_symbol(b'+'));
            let count = split(in_brackets(list)?, |token| token.is_symbol(b',')).len() as u64;
            listed((!is_of_digest).then_some(count))
        }
        [word, low, _, high] if word.is_word("BETWEEN") && is_literal(low) && is_literal(high) => {
            let is_one = low.kind != Kind::Placeholder && low.text == high.text;
            listed(is_one.then_some(1))
        }
        [less, equals, greater, other @ ..]
            if [less, equals, greater].map(|token| token.text) == [b"<", b"=", b">"] =>
        {
            equal(other, Comparison::EqualOrNull)
        }
        [equals, other @ ..] if equals.is_symbol(b'=') => equal(other, Comparison::Equal),
        _ => None,
    }
}

fn is_literal(token: &Token<'_>) -> bool {
    matches!(token.kind, Kind::Placeholder | Kind::Number | Kind::String)
}

/// Whether it is made of literals.
pub fn is_constant(tokens: &[Token<'_>]) -> bool {
    let is_part =
        |token: &Token<'_>| is_literal(token) || token.kind == Kind::Symbol && b"(),+-".contains(&token.text[0]);
    tokens.iter().any(is_literal) && tokens.iter().all(is_part)
}

/// Whether it is one value, or a row of values.
fn is_value(tokens: &[Token<'_>]) -> bool {
    let is_subquery = matches!(tokens, [_, close] if close.is_symbol(b')'));
    is_subquery || is_constant(without_row(tokens))
}

/// One column, or a row of columns.
fn columns(tokens: &[Token<'_>]) -> Option<Vec<Column>> {
    let row = in_brackets(without_row(tokens)).unwrap_or(tokens);
    let column = |tokens: &[Token<'_>]| {
        let (mut parts, rest) = qualified(tokens)?;
        let name = parts.pop()?;
        let qualifier = parts.pop();
        rest.is_empty().then_some(Column { qualifier, name })
    };
    split(row, |token| token.is_symbol(b','))
        .into_iter()
        .map(column)
        .collect()
}

fn without_row<'b, 'a>(tokens: &'b [Token<'a>]) -> &'b [Token<'a>] {
    match tokens {
        [row, rest @ ..] if row.is_word("ROW") => rest,
        _ => tokens,
    }
}

/// The parts of `a.b.c` in small letters, and what follows.
fn qualified<'a, 'b>(tokens: &'a [Token<'b>]) -> Option<(Vec<String>, &'a [Token<'b>])> {
    let mut parts = vec![name(tokens.first()?)?.to_lowercase()];
    let mut rest = &tokens[1..];
    while let [point, part, after @ ..] = rest {
        if !point.is_symbol(b'.') {
            break;
        }
        parts.push(name(part)?.to_lowercase());
        rest = after;
    }
    Some((parts, rest))
}

#[cfg(test)]
mod tests {
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
}
