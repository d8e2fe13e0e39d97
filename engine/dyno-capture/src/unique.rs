//! Statements that find one row at most: equality on all columns of a unique key.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use crate::lexer::{name, tokens, Kind, Token};

/// The unique keys of tables: the columns of each key, by the table's name; all in small letters.
pub type UniqueKeys = BTreeMap<String, BTreeSet<BTreeSet<String>>>;

/// Words with which the conditions of WHERE are not all true of each row.
const NOT_ALL_TRUE: &[&str] = &["OR", "XOR", "BETWEEN", "JOIN", "UNION", "EXCEPT", "INTERSECT"];
const END_OF_CONDITIONS: &[&str] = &[
    "GROUP", "HAVING", "WINDOW", "ORDER", "LIMIT", "OFFSET", "FETCH", "FOR", "LOCK", "INTO",
];

/// Whether the statement is a query of one table with equality on all columns of one of its unique keys, by values: such a
/// query returns the same whatever its LIMIT. What is not clear from the text is none.
pub fn finds_one_row(text: &[u8], keys: &UniqueKeys) -> bool {
    let Some(all) = outermost(text) else {
        return false;
    };
    let count = |word: &str| all.iter().filter(|token| token.is_word(word)).count();
    let is_or = |pair: &[Token<'_>]| pair[0].is_symbol(b'|') && pair[1].is_symbol(b'|');
    if (count("SELECT"), count("FROM"), count("WHERE")) != (1, 1, 1)
        || all.iter().any(|token| token.is_any(NOT_ALL_TRUE))
        || all.windows(2).any(is_or)
    {
        return false;
    }
    let place = |word: &str| all.iter().position(|token| token.is_word(word)).unwrap_or(all.len());
    let (from, to) = (place("FROM") + 1, place("WHERE"));
    let Some(table) = all.get(from..to).and_then(table) else {
        return false;
    };
    let Some(keys) = keys.get(&table.to_lowercase()) else {
        return false;
    };
    let conditions = &all[to + 1..];
    let end = conditions.iter().position(|token| token.is_any(END_OF_CONDITIONS));
    let compared: HashSet<String> = conditions[..end.unwrap_or(conditions.len())]
        .split(|token| token.is_word("AND"))
        .filter_map(compared)
        .collect();
    keys.iter()
        .any(|key| key.iter().all(|column| compared.contains(column)))
}

/// The tokens without brackets, and without subqueries, for each of which its opening bracket stands. None where a
/// subquery has a LIMIT: its value may be another each time.
fn outermost(text: &[u8]) -> Option<Vec<Token<'_>>> {
    let mut all = tokens(text).peekable();
    let mut found = Vec::new();
    while let Some(token) = all.next() {
        let opens = token.is_symbol(b'(');
        if opens && !found.is_empty() && all.peek().is_some_and(|next| next.is_any(&["SELECT", "WITH"])) {
            found.push(token);
            let mut depth = 1;
            while depth > 0 {
                let within = all.next()?;
                depth += i32::from(within.is_symbol(b'(')) - i32::from(within.is_symbol(b')'));
                if within.is_word("LIMIT") {
                    return None;
                }
            }
        } else if !opens && !token.is_symbol(b')') {
            found.push(token);
        }
    }
    Some(found)
}

/// The table of `schema.table AS alias USE INDEX (name)`.
fn table(tokens: &[Token<'_>]) -> Option<String> {
    let (table, rest) = qualified(tokens)?;
    let has_more = rest.iter().any(|token| token.is_symbol(b',') || token.is_symbol(b'('));
    let hint = rest.iter().position(|token| token.is_any(&["USE", "FORCE", "IGNORE"]));
    let alias = match &rest[..hint.unwrap_or(rest.len())] {
        _ if has_more => return None,
        [first, alias] if first.is_word("AS") => alias,
        [alias] => alias,
        [] => return Some(table),
        _ => return None,
    };
    name(alias).map(|_| table)
}

/// The column of `alias.column = value`, or of the value first.
fn compared(tokens: &[Token<'_>]) -> Option<String> {
    let is_literal = |token: &Token<'_>| matches!(token.kind, Kind::Placeholder | Kind::Number | Kind::String);
    let is_value = |token: &Token<'_>| is_literal(token) || token.is_symbol(b'(');
    if let [value, equal, column @ ..] = tokens {
        if is_value(value) && equal.is_symbol(b'=') {
            let (column, rest) = qualified(column)?;
            return rest.is_empty().then(|| column.to_lowercase());
        }
    }
    let (column, rest) = qualified(tokens)?;
    let is_equal = match rest {
        [equal, value] => equal.is_symbol(b'=') && is_value(value),
        [equal, sign, value] => equal.is_symbol(b'=') && sign.is_symbol(b'-') && is_literal(value),
        _ => false,
    };
    is_equal.then(|| column.to_lowercase())
}

/// The last part of `a.b.c`, and what follows.
fn qualified<'a, 'b>(tokens: &'a [Token<'b>]) -> Option<(String, &'a [Token<'b>])> {
    let mut last = name(tokens.first()?)?;
    let mut rest = &tokens[1..];
    while let [point, part, after @ ..] = rest {
        if !point.is_symbol(b'.') {
            break;
        }
        last = name(part)?;
        rest = after;
    }
    Some((last, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equality_on_a_whole_unique_key_is_recognised() {
        let key = |columns: &[&str]| columns.iter().map(ToString::to_string).collect::<BTreeSet<String>>();
        let keys: UniqueKeys = [("item".to_string(), [key(&["id"]), key(&["shop", "sku"])].into())].into();
        for text in [
            "SELECT * FROM item WHERE id = ? LIMIT ?",
            "SELECT `item`.* FROM `item` WHERE `item`.`id` = 1 LIMIT 1",
            "select i.id, i.note from shop.item AS i where ((i.sku = 'x') and (i.shop = -3) and deleted is null) limit 1 for update",
            "SELECT a FROM Item WHERE 5 = ID AND note LIKE '%x' LIMIT 1",
            "SELECT a COLLATE utf8mb4_bin FROM item FORCE INDEX (`PRIMARY`) WHERE id = 1 AND a = 'x' COLLATE utf8mb4_bin LIMIT 1",
            "SELECT a FROM item i USE INDEX (PRIMARY) WHERE i.id = 1 LIMIT 1",
            "SELECT a, (SELECT COUNT(*) FROM sale WHERE item = 3 OR (b)) n FROM item WHERE id = 3 LIMIT 1",
            "SELECT * FROM item WHERE id = (SELECT MAX(id) FROM item) LIMIT 1",
            "SELECT * FROM item WHERE id = 1 AND EXISTS (SELECT 1 FROM sale JOIN b ON c) LIMIT 1",
        ] {
            assert!(finds_one_row(text.as_bytes(), &keys), "{text}");
        }
        for text in [
            "SELECT * FROM item WHERE sku = ? LIMIT ?",
            "SELECT * FROM item WHERE id = ? OR note = ? LIMIT ?",
            "SELECT * FROM item WHERE id > ? LIMIT 1",
            "SELECT * FROM item WHERE id IN (?, ?) LIMIT 1",
            "SELECT * FROM item WHERE id = note LIMIT 1",
            "SELECT * FROM item, sale WHERE id = ? LIMIT 1",
            "SELECT * FROM item JOIN sale ON item = id WHERE id = ? LIMIT 1",
            "SELECT * FROM item WHERE ABS(id) = 1 LIMIT 1",
            "SELECT * FROM item WHERE NOT id = 1 LIMIT 1",
            "SELECT * FROM item WHERE a BETWEEN 1 AND id = 1 LIMIT 1",
            "SELECT * FROM sale WHERE id = 1 LIMIT 1",
            "SELECT * FROM item WHERE id IN (SELECT item FROM sale) LIMIT 1",
            "SELECT * FROM item WHERE id = ANY (SELECT item FROM sale) LIMIT 1",
            "SELECT * FROM item WHERE id = (SELECT item FROM sale LIMIT 1) LIMIT 1",
            "SELECT * FROM (SELECT * FROM item WHERE id = 1) x LIMIT 1",
            "SELECT * FROM item WHERE id <=> ? LIMIT ?",
            "SELECT * FROM item WHERE id IN (?+) LIMIT ?",
            "SELECT * FROM item WHERE sku = 'x' COLLATE utf8mb4_general_ci AND shop = 1 LIMIT 1",
            "SELECT * FROM item FORCE INDEX (id), sale WHERE id = 1 LIMIT 1",
            "SELECT * FROM item, (SELECT 1 UNION SELECT 2) x WHERE id = 1 LIMIT 1",
            "SELECT 1 LIMIT 1",
        ] {
            assert!(!finds_one_row(text.as_bytes(), &keys), "{text}");
        }
    }
}
