//! How many rows a query finds, and in which order it returns them, as far as unique keys show it.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::lexer::{name, Kind, Token};
use crate::query::{conditions, in_brackets, qualified, queries, split, tables, Query, Table};

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
    let tables = tables(query)?;
    let [table] = &tables[..] else {
        return None;
    };
    let bound = bound(query, table);
    let count = |(column, may_be_null): (&String, &bool)| match bound.get(column)? {
        Comparison::Equal => Some(1),
        Comparison::EqualOrNull => (!may_be_null).then_some(1),
        Comparison::Listed => extent.values.get(column).copied(),
    };
    let of_key = |key: &BTreeMap<String, bool>| {
        let mut counts = key.iter().map(count);
        counts.try_fold(1_u64, |product, count| Some(product.saturating_mul(count?)))
    };
    keys.get(&table.name)?.iter().filter_map(of_key).min()
}

/// Whether the ORDER BY of a query leaves no two rows that differ in any order.
pub fn is_ordered(query: &Query<'_>, keys: &UniqueKeys) -> bool {
    let Some(order) = query.by("ORDER") else {
        return false;
    };
    let mut by: Vec<&[Token<'_>]> = order.into_iter().map(without_direction).collect();
    let is_by = |item: &&[Token<'_>]| is_among(item, &by);
    if query.is_compound() || query.is_rolled_up() {
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

/// Whether no two rows have the same values of these columns.
pub fn has_key(query: &Query<'_>, by: &[&[Token<'_>]], keys: &UniqueKeys) -> bool {
    tables(query).is_some_and(|tables| Fixed::by(query, &tables, by, keys).tables.len() == tables.len())
}

/// The column of an item of the select list, or *, that may have several values in a group of rows with the same values
/// of these, or of which ANY_VALUE() takes one; none where it is an expression, depends on these and on values that
/// columns are compared with, or where its tables are not understood.
pub fn open_column(query: &Query<'_>, item: &[Token<'_>], by: &[&[Token<'_>]], keys: &UniqueKeys) -> Option<String> {
    let end = item.iter().rposition(|token| token.is_symbol(b')'));
    let item = match end.map(|end| &item[..end]) {
        Some([function, open, inside @ ..]) if function.is_word("ANY_VALUE") && open.is_symbol(b'(') => inside,
        _ => item,
    };
    let (mut parts, alias) = match item {
        [all] if all.is_symbol(b'*') => (Vec::new(), None),
        [table @ .., point, all] if point.is_symbol(b'.') && all.is_symbol(b'*') => (qualified(table)?.0, None),
        [word, _, ..] if word.is_any(&["BINARY", "NOT"]) => return None,
        [word, ..] if word.is_any(&["NULL", "TRUE", "FALSE"]) => return None,
        _ => {
            let (parts, rest) = qualified(item)?;
            match rest {
                [] => (parts, None),
                // A string there makes a literal of the word, as in DATE '2026-01-01'.
                [alias] if name(alias).is_some() => (parts, Some(alias)),
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
    let tables = tables(query)?;
    let fixed = Fixed::by(query, &tables, by, keys);
    let qualifier = table;
    let mut of_item = tables
        .iter()
        .filter(|table| qualifier.as_ref().is_none_or(|name| *name == table.alias))
        .map(|table| fixed.tables.contains(&table.alias.as_str()));
    let is_open = if is_all {
        of_item.any(|is_fixed| !is_fixed)
    } else {
        let name = column.clone();
        of_item.all(|is_fixed| !is_fixed) && !fixed.has(&Column { qualifier, name })
    };
    is_open.then_some(column)
}

/// Whether an item is a column, and one of these.
pub fn is_among(item: &[Token<'_>], by: &[&[Token<'_>]]) -> bool {
    let is_column = qualified(item).is_some_and(|(_, rest)| rest.is_empty());
    is_column && by.iter().any(|other| is_same(item, other))
}

/// Whether the query makes one row of all that it finds.
pub fn is_aggregate(query: &Query<'_>) -> bool {
    let is_call = |pair: &[Token<'_>]| pair[0].is_any(AGGREGATES) && pair[1].is_symbol(b'(');
    let items = query.clause("SELECT").unwrap_or_default();
    items.windows(2).any(is_call)
        && !items.iter().any(|token| token.is_word("OVER"))
        && !query.has("GROUP")
        && !query.is_compound()
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

#[derive(Clone)]
struct Column {
    /// What precedes the point before it.
    qualifier: Option<String>,
    name: String,
}

impl Column {
    fn is_of(&self, alias: &str) -> bool {
        self.qualifier.as_ref().is_none_or(|qualifier| qualifier == alias)
    }

    /// A name without its table is of one table alone.
    fn is_same(&self, other: &Self) -> bool {
        self.name == other.name && other.qualifier.as_ref().is_none_or(|alias| self.is_of(alias))
    }
}

impl Table<'_, '_> {
    /// Whether its ON can give this column its value: it leaves the rows of an outer join's other side as they are.
    fn may_fix(&self, column: &Column) -> bool {
        let is_own = |alias: &String| *alias == self.alias;
        match (self.side, &column.qualifier) {
            (Some(side), Some(alias)) => is_own(alias) == side.is_word("LEFT"),
            _ => true,
        }
    }
}

/// What is the same in all rows that have the same values of some columns.
struct Fixed<'b> {
    /// Columns, and whether they are not NULL.
    columns: Vec<(Column, bool)>,
    /// The tables that have one row there.
    tables: Vec<&'b str>,
}

impl<'b> Fixed<'b> {
    fn by(query: &Query<'_>, tables: &'b [Table<'_, '_>], by: &[&[Token<'_>]], keys: &UniqueKeys) -> Self {
        let columns_of_by = by.iter().filter_map(|item| columns(item)).flatten();
        let mut fixed = Self {
            columns: columns_of_by.map(|column| (column, false)).collect(),
            tables: Vec::new(),
        };
        let of_where = conditions(query.clause("WHERE").unwrap_or_default()).into_iter();
        let of_where = of_where.map(|condition| (condition, None));
        let of_on = tables
            .iter()
            .flat_map(|table| table.on.iter().map(move |condition| (*condition, Some(table))));
        let mut equal = Vec::new();
        for (condition, table) in of_where.chain(of_on) {
            let may_fix = |column: &Column| table.is_none_or(|table| table.may_fix(column));
            if let Some(compared) = compared(condition).filter(|compared| compared.how != Comparison::Listed) {
                let is_certain = compared.how == Comparison::Equal;
                let columns = compared.columns.into_iter().filter(may_fix);
                fixed.columns.extend(columns.map(|column| (column, is_certain)));
            } else if let [left, right] = split(condition, |token| token.is_symbol(b'='))[..] {
                let (left, right) = (columns(left).unwrap_or_default(), columns(right).unwrap_or_default());
                let both = left.into_iter().zip(right);
                let both = both.flat_map(|(left, right)| [(left.clone(), right.clone()), (right, left)]);
                equal.extend(both.filter(|(_, column)| may_fix(column)));
            }
        }
        loop {
            let before = (fixed.tables.len(), equal.len());
            equal.retain(|(one, other)| {
                let is_fixed = fixed.has(one);
                fixed.columns.extend(is_fixed.then(|| (other.clone(), true)));
                !is_fixed
            });
            let found = tables.iter().filter(|table| fixed.has_key_of(table, keys));
            fixed.tables = found.map(|table| table.alias.as_str()).collect();
            if before == (fixed.tables.len(), equal.len()) {
                return fixed;
            }
        }
    }

    fn has(&self, column: &Column) -> bool {
        self.tables.iter().any(|alias| column.is_of(alias)) || self.columns.iter().any(|(one, _)| one.is_same(column))
    }

    fn has_key_of(&self, table: &Table<'_, '_>, keys: &UniqueKeys) -> bool {
        let is_fixed = |(name, may_be_null): (&String, &bool)| {
            self.columns.iter().any(|(column, is_certain)| {
                column.name == *name && column.is_of(&table.alias) && (*is_certain || !may_be_null)
            })
        };
        keys.get(&table.name)
            .is_some_and(|keys| keys.iter().any(|key| key.iter().all(is_fixed)))
    }
}

/// Columns that one condition compares with values.
struct Compared {
    columns: Vec<Column>,
    how: Comparison,
    /// How many values, where there may be several and the text has them.
    values: Option<u64>,
}

/// How a query compares columns of a table with values.
fn bound(query: &Query<'_>, table: &Table<'_, '_>) -> BTreeMap<String, Comparison> {
    let mut bound = BTreeMap::new();
    for compared in conditions(query.clause("WHERE").unwrap_or_default())
        .into_iter()
        .filter_map(compared)
    {
        let own = |column: &Column| column.is_of(&table.alias);
        for column in compared.columns.into_iter().filter(own) {
            let how = bound.entry(column.name).or_insert(compared.how);
            if compared.how == Comparison::Equal {
                *how = compared.how;
            }
        }
    }
    bound
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

#[cfg(test)]
mod tests;
