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

/// Words that follow a table, and are not its alias.
const AFTER_A_TABLE: &[&str] = &[
    "ON",
    "USING",
    "LEFT",
    "RIGHT",
    "INNER",
    "CROSS",
    "NATURAL",
    "FULL",
    "USE",
    "FORCE",
    "IGNORE",
    "PARTITION",
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
    let names = names(query)?;
    let bound = bound(query, &names);
    let count = |(column, may_be_null): (&String, &bool)| match bound.get(column)? {
        Comparison::Equal => Some(1),
        Comparison::EqualOrNull => (!may_be_null).then_some(1),
        Comparison::Listed => extent.values.get(column).copied(),
    };
    let of_key = |key: &BTreeMap<String, bool>| {
        let mut counts = key.iter().map(count);
        counts.try_fold(1_u64, |product, count| Some(product.saturating_mul(count?)))
    };
    keys.get(&names.0)?.iter().filter_map(of_key).min()
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
    names(query).is_some_and(|names| has_key_of(query, &names, by, keys))
}

/// The same of one of its tables.
fn has_key_of(query: &Query<'_>, names: &(String, String), by: &[&[Token<'_>]], keys: &UniqueKeys) -> bool {
    let bound = bound(query, names);
    let columns: BTreeSet<String> = by.iter().filter_map(|item| column(item, names)).collect();
    let is_certain = |(column, may_be_null): (&String, &bool)| match bound.get(column) {
        Some(Comparison::Equal) => true,
        Some(Comparison::EqualOrNull) if !may_be_null => true,
        _ => !may_be_null && columns.contains(column),
    };
    keys.get(&names.0)
        .is_some_and(|keys| keys.iter().any(|key| key.iter().all(is_certain)))
}

/// The column of an item of the select list, or *, that may have several values in a group of rows with the same values
/// of these; none where it is an expression, one of these, compared with a value, or of a table with a unique key among
/// these.
pub fn open_column(query: &Query<'_>, item: &[Token<'_>], by: &[&[Token<'_>]], keys: &UniqueKeys) -> Option<String> {
    let (mut parts, alias) = match item {
        [all] if all.is_symbol(b'*') => (Vec::new(), None),
        [table @ .., point, all] if point.is_symbol(b'.') && all.is_symbol(b'*') => (qualified(table)?.0, None),
        [word, _, ..] if word.is_any(&["BINARY", "NOT"]) => return None,
        _ => {
            let (parts, rest) = qualified(item)?;
            match rest {
                [] => (parts, None),
                [alias] => (parts, Some(alias)),
                [first, alias] if first.is_word("AS") => (parts, Some(alias)),
                _ => return None,
            }
        }
    };
    let is_all = item.last()?.is_symbol(b'*');
    let column = if is_all { "*".into() } else { parts.pop()? };
    let table = parts.pop();
    let is_listed = |group: Column| {
        let is_named_so = alias.is_some_and(|alias| group.qualifier.is_none() && is_name(alias, &group.name));
        let is_of_another = group.qualifier.is_some() && table.is_some() && group.qualifier != table;
        is_named_so || group.name == column && !is_of_another
    };
    if by.iter().filter_map(|item| columns(item)).flatten().any(is_listed) {
        return None;
    }
    let mut tables = tables(query);
    tables.retain(|(_, name)| table.as_ref().is_none_or(|table| table == name));
    let is_fixed = |names: &(String, String)| {
        let is_equal = bound(query, names).get(&column) == Some(&Comparison::Equal);
        is_equal || has_key_of(query, names, by, keys)
    };
    let is_determined = if is_all {
        !tables.is_empty() && tables.iter().all(is_fixed)
    } else {
        tables.iter().any(is_fixed)
    };
    (!is_determined).then_some(column)
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
pub fn is_aggregate(query: &Query<'_>) -> bool {
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

fn is_name(token: &Token<'_>, lower: &str) -> bool {
    name(token).is_some_and(|name| name.to_lowercase() == lower)
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

/// How a query compares columns of a table with values.
fn bound(query: &Query<'_>, names: &(String, String)) -> BTreeMap<String, Comparison> {
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
    bound
}

/// The tables of a query, those in brackets excepted, each with the name that its columns have before their point.
fn tables(query: &Query<'_>) -> Vec<(String, String)> {
    let is_versioned = query.tokens.iter().any(|token| token.is_word("SYSTEM_TIME"));
    let from = query.clause("FROM").filter(|_| !is_versioned).unwrap_or_default();
    let is_next = |token: &Token<'_>| token.is_symbol(b',') || token.is_any(&["JOIN", "STRAIGHT_JOIN"]);
    let table = |part: &[Token<'_>]| {
        let (mut parts, rest) = qualified(part)?;
        let table = parts.pop()?;
        let alias = match rest {
            [first, alias, ..] if first.is_word("AS") => name(alias)?.to_lowercase(),
            [alias, ..] if !alias.is_any(AFTER_A_TABLE) => name(alias)?.to_lowercase(),
            _ => table.clone(),
        };
        Some((table, alias))
    };
    split(from, is_next).into_iter().filter_map(table).collect()
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
mod tests;
