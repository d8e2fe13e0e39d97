//! Statements whose result does not depend on the data alone.

use crate::lexer::{name, tokens, Kind, Token};
use crate::query::{queries, split, Query, Within};
use crate::unique::{
    has_key, is_aggregate, is_among, is_constant, is_ordered, most_rows, open_column, without_direction, Extent,
    UniqueKeys,
};

/// Functions whose result depends on the time, the session or chance.
const VARYING_FUNCTIONS: &[&str] = &[
    "NOW",
    "SYSDATE",
    "CURDATE",
    "CURTIME",
    "UNIX_TIMESTAMP",
    "UTC_DATE",
    "UTC_TIME",
    "UTC_TIMESTAMP",
    "LOCALTIME",
    "LOCALTIMESTAMP",
    "CURRENT_TIMESTAMP",
    "CURRENT_DATE",
    "CURRENT_TIME",
    "RAND",
    "UUID",
    "UUID_SHORT",
    "RANDOM_BYTES",
    "SYS_GUID",
    "UUID_V4",
    "UUID_V7",
    "CONNECTION_ID",
    "LAST_INSERT_ID",
    "FOUND_ROWS",
    "ROW_COUNT",
    "USER",
    "CURRENT_USER",
    "CURRENT_ROLE",
    "SESSION_USER",
    "SYSTEM_USER",
    "VERSION",
    "DATABASE",
    "SCHEMA",
    "GET_LOCK",
    "BENCHMARK",
    "NEXTVAL",
    "LASTVAL",
];
/// The functions that are also called without parentheses.
const WITHOUT_PARENTHESES: &[&str] = &[
    "CURRENT_TIMESTAMP",
    "CURRENT_DATE",
    "CURRENT_TIME",
    "LOCALTIME",
    "LOCALTIMESTAMP",
    "CURRENT_USER",
    "CURRENT_ROLE",
    "UTC_DATE",
    "UTC_TIME",
    "UTC_TIMESTAMP",
];
/// The functions that do not vary with an argument.
const OF_AN_ARGUMENT: &[&str] = &["UNIX_TIMESTAMP"];
/// Aggregates that have their values in the order in which a plan finds them.
const IN_ORDER_OF_THE_PLAN: &[&str] = &["GROUP_CONCAT", "JSON_ARRAYAGG", "JSON_OBJECTAGG"];
/// Window functions that depend on the place of a row, also among those that are equal in their window's ORDER BY.
const BY_PLACE: &[&str] = &[
    "ROW_NUMBER",
    "NTILE",
    "LAG",
    "LEAD",
    "FIRST_VALUE",
    "LAST_VALUE",
    "NTH_VALUE",
];
/// Aggregates that add numbers up: of FLOAT and DOUBLE the last digits depend on the order.
const SUMS: &[&str] = &[
    "SUM",
    "AVG",
    "STD",
    "STDDEV",
    "STDDEV_POP",
    "STDDEV_SAMP",
    "VARIANCE",
    "VAR_POP",
    "VAR_SAMP",
];
/// Schemas whose tables describe the server itself.
const OWN_SCHEMAS: &[&str] = &["information_schema", "performance_schema", "sys", "mysql"];

/// In what the results of a statement may differ on the same data; each includes those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Freedom {
    /// The order of rows.
    Order,
    /// Which rows they are.
    Contents,
    /// The number of rows.
    Number,
}

/// Why the same statement may return other rows on the same data. It explains neither an error nor another number of
/// changed rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Varying {
    /// The first reason found, as it stands in the statement.
    pub reason: String,
    /// In what.
    pub freedom: Freedom,
}

/// Why the result of a statement, or of those with this digest, does not depend on the data alone; none where it does.
/// A LIMIT changes nothing where fewer rows were returned, or a query finds no more of them by these unique keys.
pub fn nondeterministic(text: &[u8], keys: &UniqueKeys, extent: &Extent, rows: u64) -> Option<Varying> {
    let all: Vec<Token<'_>> = tokens(text).collect();
    let varying = |reason: String, freedom| Some(Varying { reason, freedom });
    if let Some(reason) = self::varying(&all) {
        return varying(reason, Freedom::Number);
    }
    let of_tables;
    let keys = if all.iter().any(|token| token.is_word("WITH")) {
        of_tables = without_common(keys, &all);
        &of_tables
    } else {
        keys
    };
    let (queries, unknown) = (queries(text), Extent::default());
    let is_unordered = |query: &&Query<'_>| query.within != Within::Exists && !is_ordered(query, keys);
    let cuts = |query: &&Query<'_>| {
        let is_outermost = query.within == Within::Nothing;
        let limit = extent.limit.filter(|_| is_outermost);
        let most = most_rows(query, keys, if is_outermost { extent } else { &unknown });
        let is_whole =
            most == Some(1) || limit.is_some_and(|limit| rows < limit || most.is_some_and(|most| most <= limit));
        (query.has("LIMIT") || query.has("FETCH")) && !is_whole
    };
    let mut cut: Vec<&Query<'_>> = queries.iter().filter(is_unordered).filter(cuts).collect();
    // So many rows as there are, up to the limit; unless the limit is of a subquery.
    cut.sort_by_key(|query| query.within == Within::Nothing);
    if let Some(query) = cut.first() {
        let is_outermost = query.within == Within::Nothing;
        let freedom = if is_outermost {
            Freedom::Contents
        } else {
            Freedom::Number
        };
        let order = if query.has("ORDER") {
            "ORDER BY of a unique key"
        } else {
            "ORDER BY"
        };
        return varying(format!("LIMIT without {order}"), freedom);
    }
    let of_query = |query| {
        let aggregates = unordered_aggregates(query, keys).into_iter();
        aggregates
            .chain(open_windows(query, keys))
            .chain(open_columns(query, keys))
    };
    if let Some(found) = queries.iter().flat_map(of_query).max_by_key(|found| found.freedom) {
        return Some(found);
    }
    let outermost = queries.first().filter(|query| query.has("ORDER")).filter(is_unordered);
    outermost.and_then(|_| varying("ORDER BY without a unique key".into(), Freedom::Order))
}

/// Whether a statement adds numbers up.
pub fn adds_up(text: &[u8]) -> bool {
    let all: Vec<Token<'_>> = tokens(text).collect();
    all.windows(2)
        .any(|pair| pair[0].is_any(SUMS) && pair[1].is_symbol(b'('))
}

/// The aggregates of a query whose values are in no order, or in one that leaves some open.
fn unordered_aggregates(query: &Query<'_>, keys: &UniqueKeys) -> Vec<Varying> {
    let mut found = Vec::new();
    let (mut opened, mut is_listed) = (0, query.within == Within::Nothing);
    for (place, token) in query.tokens.iter().enumerate() {
        opened += step(token);
        is_listed &= !token.is_any(&["WHERE", "HAVING"]);
        let Some(inside) = in_next_brackets(&query.tokens[place + 1..]).filter(|_| token.is_any(IN_ORDER_OF_THE_PLAN))
        else {
            continue;
        };
        let unique = match order_within(query, inside, keys) {
            Some(true) => continue,
            Some(false) => " of a unique key",
            None => "",
        };
        let name = String::from_utf8_lossy(token.text).to_uppercase();
        found.push(Varying {
            reason: format!("{name}() without ORDER BY{unique}"),
            // Elsewhere than in the select list it may decide which rows there are.
            freedom: if is_listed && opened == 0 {
                Freedom::Contents
            } else {
                Freedom::Number
            },
        });
    }
    found
}

/// The window functions of a query whose values depend on an order that it leaves open.
fn open_windows(query: &Query<'_>, keys: &UniqueKeys) -> Vec<Varying> {
    let is_over = |place: &usize| query.tokens[*place].is_word("OVER");
    let found = (0..query.tokens.len()).filter(is_over).filter_map(|place| {
        let function = called(&query.tokens[..place])?;
        let window = window(query, &query.tokens[place + 1..]);
        let count = |word: &str| window.iter().filter(|token| token.is_word(word)).count();
        // ROWS between two ends that are unbounded are all of a partition.
        if !function.is_any(BY_PLACE) && (count("ROWS") == 0 || count("UNBOUNDED") == 2) {
            return None;
        }
        let order = items_of(&window, "ORDER");
        let unique = if order.is_empty() { "" } else { " of a unique key" };
        let by = [order, items_of(&window, "PARTITION")].concat();
        let is_fixed = match query.by("GROUP") {
            Some(groups) => !query.is_rolled_up() && groups.iter().all(|item| is_among(item, &by)),
            None => has_key(query, &by, keys),
        };
        let name = String::from_utf8_lossy(function.text).to_uppercase();
        let reason = format!("{name}() without ORDER BY{unique}");
        let freedom = freedom_of_items(query);
        (!is_fixed).then_some(Varying { reason, freedom })
    });
    found.collect()
}

/// The name of the function whose call ends here, whatever words follow its brackets.
fn called<'b, 'a>(tokens: &'b [Token<'a>]) -> Option<&'b Token<'a>> {
    let end = tokens.iter().rposition(|token| token.is_symbol(b')'))?;
    let mut opened = 0;
    let begin = tokens[..=end].iter().rposition(|token| {
        opened += step(token);
        opened == 0
    })?;
    tokens[..begin].last()
}

/// What defines a window after OVER, with the windows whose names it has.
fn window<'a>(query: &Query<'a>, after: &[Token<'a>]) -> Vec<Token<'a>> {
    let named = query.clause("WINDOW").unwrap_or_default();
    let named = split(named, |token| token.is_symbol(b','));
    let definition = |of: &Token<'a>| {
        let is_its =
            |first: &Token<'a>| name(first).map(|name| name.to_lowercase()) == name(of).map(|name| name.to_lowercase());
        let found = named.iter().find(|one| one.first().is_some_and(is_its))?;
        in_next_brackets(found.get(2..)?)
    };
    let mut window = match in_next_brackets(after) {
        Some(inside) => inside.to_vec(),
        None => after.first().copied().into_iter().collect(),
    };
    for _ in &named {
        let Some(base) = window.first().and_then(definition) else {
            break;
        };
        drop(window.splice(..1, base.iter().copied()));
    }
    window
}

/// The items of PARTITION BY or ORDER BY in a window.
fn items_of<'b, 'a>(window: &'b [Token<'a>], word: &str) -> Vec<&'b [Token<'a>]> {
    let begin = window.iter().position(|token| token.is_word(word));
    let Some(items) = begin.and_then(|begin| window.get(begin + 2..)) else {
        return Vec::new();
    };
    let is_next = |token: &Token<'_>| token.is_any(&["ORDER", "ROWS", "RANGE", "GROUPS"]);
    let end = items.iter().position(is_next).unwrap_or(items.len());
    let items = split(&items[..end], |token| token.is_symbol(b','));
    items.into_iter().map(without_direction).collect()
}

/// The columns beside GROUP BY or an aggregate that may have several values in a group.
fn open_columns(query: &Query<'_>, keys: &UniqueKeys) -> Vec<Varying> {
    let groups = query.by("GROUP").or_else(|| is_aggregate(query).then(Vec::new));
    let (Some(groups), Some((items, _))) = (groups, query.items()) else {
        return Vec::new();
    };
    // Which item a number is, or ? in a digest, is unknown.
    if query.within == Within::Exists || groups.iter().any(|item| is_constant(item)) {
        return Vec::new();
    }
    let by: Vec<&[Token<'_>]> = groups
        .into_iter()
        .map(|item| match item {
            [item @ .., with, rollup] if with.is_word("WITH") && rollup.is_any(&["ROLLUP", "CUBE"]) => item,
            _ => without_direction(item),
        })
        .collect();
    let open = items.into_iter().filter_map(|item| open_column(query, item, &by, keys));
    let varying = |column| Varying {
        reason: format!("{column} outside GROUP BY"),
        freedom: freedom_of_items(query),
    };
    open.map(varying).collect()
}

/// In what results differ where an item of the select list does.
fn freedom_of_items(query: &Query<'_>) -> Freedom {
    match query.items() {
        Some((_, false)) if query.within == Within::Nothing => Freedom::Contents,
        _ => Freedom::Number,
    }
}

/// The keys of the tables that a statement names, but for names of common table expressions.
fn without_common(keys: &UniqueKeys, all: &[Token<'_>]) -> UniqueKeys {
    let lower = |token: &Token<'_>| name(token).map(|name| name.to_lowercase());
    let named = all.iter().filter_map(|token| keys.get_key_value(&lower(token)?));
    let mut found: UniqueKeys = named.map(|(table, keys)| (table.clone(), keys.clone())).collect();
    for (place, token) in all.iter().enumerate() {
        let is_common = match &all[place + 1..] {
            [bracket, ..] if bracket.is_symbol(b'(') => true,
            [word, bracket, ..] => word.is_word("AS") && bracket.is_symbol(b'('),
            _ => false,
        };
        if let Some(name) = lower(token).filter(|_| is_common) {
            found.remove(&name);
        }
    }
    found
}

/// By how much a token changes the number of open brackets.
fn step(token: &Token<'_>) -> i32 {
    i32::from(token.is_symbol(b'(')) - i32::from(token.is_symbol(b')'))
}

/// What is in the brackets that begin here; none where there are none.
fn in_next_brackets<'b, 'a>(tokens: &'b [Token<'a>]) -> Option<&'b [Token<'a>]> {
    let mut opened = 0;
    let end = tokens.iter().position(|token| {
        opened += step(token);
        opened == 0
    })?;
    (end > 0).then(|| &tokens[1..end])
}

/// Whether the ORDER BY in an aggregate leaves no two of its values that differ in any order; none without one.
fn order_within(query: &Query<'_>, inside: &[Token<'_>], keys: &UniqueKeys) -> Option<bool> {
    let is_comma = |token: &Token<'_>| token.is_symbol(b',');
    let parts = split(inside, |token| token.is_word("ORDER"));
    let [values, [_by, order @ ..]] = &parts[..] else {
        return None;
    };
    let end = order.iter().position(|token| token.is_any(&["SEPARATOR", "LIMIT"]));
    let by = split(&order[..end.unwrap_or(order.len())], is_comma);
    let mut by: Vec<&[Token<'_>]> = by.into_iter().map(without_direction).collect();
    let is_distinct = values.first().is_some_and(|first| first.is_word("DISTINCT"));
    let values = split(&values[usize::from(is_distinct)..], is_comma);
    if values.iter().all(|item| is_constant(item) || is_among(item, &by)) {
        return Some(true);
    }
    // All values of a group have the same of these.
    by.extend(query.by("GROUP").filter(|_| !query.is_rolled_up()).unwrap_or_default());
    Some(!is_distinct && has_key(query, &by, keys))
}

/// Whether a statement says in which order it returns its rows.
pub fn has_order(text: &[u8]) -> bool {
    queries(text).first().is_some_and(|query| query.has("ORDER"))
}

/// What in a statement has another value in each execution.
fn varying(all: &[Token<'_>]) -> Option<String> {
    let first = all.first()?;
    if first.is_any(&["SHOW", "EXPLAIN", "ANALYZE", "CHECK", "CHECKSUM"]) {
        return Some(String::from_utf8_lossy(first.text).to_uppercase());
    }
    for (index, token) in all.iter().enumerate() {
        let is_call = all.get(index + 1).is_some_and(|next| next.is_symbol(b'('));
        let follows_point = index > 0 && all[index - 1].is_symbol(b'.');
        let is_bare = token.is_any(WITHOUT_PARENTHESES) && !follows_point;
        let has_argument = is_call && !all.get(index + 2).is_some_and(|next| next.is_symbol(b')'));
        let is_fixed = has_argument && token.is_any(OF_AN_ARGUMENT);
        if token.is_any(VARYING_FUNCTIONS) && (is_call || is_bare) && !is_fixed {
            let name = String::from_utf8_lossy(token.text).to_uppercase();
            return Some(if is_call { format!("{name}()") } else { name });
        }
        let is_qualifier = all.get(index + 1).is_some_and(|next| next.is_symbol(b'.'));
        if let Some(name) = name(token).filter(|_| is_qualifier && !follows_point) {
            if OWN_SCHEMAS.iter().any(|own| name.eq_ignore_ascii_case(own)) {
                return Some(name.to_lowercase());
            }
        }
        if token.kind == Kind::Variable && token.text.starts_with(b"@") {
            return Some(String::from_utf8_lossy(token.text).into_owned());
        }
        let is_skip = token.is_word("SKIP") && all.get(index + 1).is_some_and(|next| next.is_word("LOCKED"));
        if is_skip {
            return Some("SKIP LOCKED".into());
        }
    }
    None
}

#[cfg(test)]
mod tests;
