//! The queries of a statement and their clauses, as far as their tokens show them.

use std::ops::Range;

use crate::lexer::{self, tokens, Token};

/// The first words of clauses.
const CLAUSES: &[&str] = &[
    "SELECT",
    "FROM",
    "WHERE",
    "GROUP",
    "HAVING",
    "WINDOW",
    "ORDER",
    "LIMIT",
    "OFFSET",
    "FETCH",
    "FOR",
    "LOCK",
    "INTO",
    "UNION",
    "EXCEPT",
    "INTERSECT",
];
/// Words between SELECT and its first item.
const MODIFIERS: &[&str] = &[
    "ALL",
    "DISTINCT",
    "DISTINCTROW",
    "HIGH_PRIORITY",
    "STRAIGHT_JOIN",
    "SQL_SMALL_RESULT",
    "SQL_BIG_RESULT",
    "SQL_BUFFER_RESULT",
    "SQL_CACHE",
    "SQL_NO_CACHE",
    "SQL_CALC_FOUND_ROWS",
];

/// Where a query stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Within {
    /// It is the statement, or the part of it that is in no brackets.
    Nothing,
    /// It is the operand of EXISTS.
    Exists,
    /// It is another subquery.
    Statement,
}

/// A query.
#[derive(Debug)]
pub struct Query<'a> {
    /// Where it stands.
    pub within: Within,
    /// Its tokens; of each subquery its brackets alone.
    pub tokens: Vec<Token<'a>>,
}

/// The queries of a statement: that in no brackets, which may be none, and each subquery.
pub fn queries(text: &[u8]) -> Vec<Query<'_>> {
    let outermost = Query {
        within: Within::Nothing,
        tokens: Vec::new(),
    };
    let (mut done, mut open, mut depths) = (Vec::new(), vec![outermost], vec![0_u32]);
    let mut all = tokens(text).peekable();
    while let Some(token) = all.next() {
        let last = open.len() - 1;
        if token.is_symbol(b')') && depths[last] == 0 && last > 0 {
            done.extend(open.pop());
            depths.pop();
            open[last - 1].tokens.push(token);
            continue;
        }
        let is_exists = open[last].tokens.last().is_some_and(|before| before.is_word("EXISTS"));
        open[last].tokens.push(token);
        if token.is_symbol(b')') {
            depths[last] = depths[last].saturating_sub(1);
        } else if token.is_symbol(b'(') && all.peek().is_some_and(|next| next.is_any(&["SELECT", "WITH"])) {
            open.push(Query {
                within: if is_exists { Within::Exists } else { Within::Statement },
                tokens: Vec::new(),
            });
            depths.push(0);
        } else if token.is_symbol(b'(') {
            depths[last] += 1;
        }
    }
    done.extend(open.into_iter().rev());
    done.reverse();
    // A statement that is wholly in brackets is the query in them.
    if done.len() > 1 && matches!(&done[0].tokens[..], [_, close] if close.is_symbol(b')')) {
        done.remove(0);
        done[0].within = Within::Nothing;
    }
    done
}

/// A table of FROM.
#[derive(Debug)]
pub struct Table<'b, 'a> {
    /// Its name, in small letters.
    pub name: String,
    /// What its columns have before their point.
    pub alias: String,
    /// The conditions of its ON.
    pub on: Vec<&'b [Token<'a>]>,
    /// LEFT or RIGHT, where it is joined so.
    pub side: Option<Token<'a>>,
}

impl<'a> Query<'a> {
    /// The places of the first words of its clauses.
    fn clauses(&self) -> impl Iterator<Item = usize> + '_ {
        let places = outside_brackets(&self.tokens);
        places.filter(|place| self.tokens[*place].is_any(CLAUSES))
    }

    /// What follows the first word of a clause; none without this clause, or with several of this name.
    pub fn clause(&self, word: &str) -> Option<&[Token<'a>]> {
        let mut found = self.clauses().filter(|place| self.tokens[*place].is_word(word));
        let begin = found.next()? + 1;
        let end = self.clauses().find(|place| *place >= begin);
        found
            .next()
            .is_none()
            .then(|| &self.tokens[begin..end.unwrap_or(self.tokens.len())])
    }

    /// Whether it has a clause of this name.
    pub fn has(&self, word: &str) -> bool {
        self.clauses().any(|place| self.tokens[place].is_word(word))
    }

    /// The items of a list such as that of ORDER BY; none where it has no such clause, or not exactly one.
    pub fn by(&self, word: &str) -> Option<Vec<&[Token<'a>]>> {
        let (by, items) = self.clause(word)?.split_first()?;
        by.is_word("BY").then(|| split(items, |token| token.is_symbol(b',')))
    }

    /// Whether it is made of several.
    pub fn is_compound(&self) -> bool {
        ["UNION", "EXCEPT", "INTERSECT"].iter().any(|word| self.has(word))
    }

    /// Whether it also has rows of several groups together.
    pub fn is_rolled_up(&self) -> bool {
        let is_rollup = |items: &[Token<'_>]| items.iter().any(|token| token.is_any(&["ROLLUP", "CUBE"]));
        self.clause("GROUP").is_some_and(is_rollup)
    }

    /// The items that it returns, and whether equal rows are returned once.
    pub fn items(&self) -> Option<(Vec<&[Token<'a>]>, bool)> {
        let all = self.clause("SELECT")?;
        let begin = all.iter().take_while(|token| token.is_any(MODIFIERS)).count();
        let is_distinct = all[..begin]
            .iter()
            .any(|token| token.is_any(&["DISTINCT", "DISTINCTROW"]));
        Some((split(&all[begin..], |token| token.is_symbol(b',')), is_distinct))
    }
}

/// The places of tokens outside of brackets, those of opening brackets among them.
fn outside_brackets<'b>(tokens: &'b [Token<'_>]) -> impl Iterator<Item = usize> + 'b {
    let mut depth = 0_u32;
    tokens.iter().enumerate().filter_map(move |(place, token)| {
        let is_outside = depth == 0;
        if token.is_symbol(b'(') {
            depth += 1;
        } else if token.is_symbol(b')') {
            depth = depth.saturating_sub(1);
        }
        is_outside.then_some(place)
    })
}

/// The parts between separators outside of brackets.
pub fn split<'b, 'a>(tokens: &'b [Token<'a>], is_separator: impl Fn(&Token<'a>) -> bool) -> Vec<&'b [Token<'a>]> {
    let separators = outside_brackets(tokens).filter(|place| is_separator(&tokens[*place]));
    parts(tokens, separators.map(|place| place..place + 1))
}

/// The conditions that are all true of each row: those between AND outside of brackets, and within brackets around a
/// whole condition.
pub fn conditions<'b, 'a>(tokens: &'b [Token<'a>]) -> Vec<&'b [Token<'a>]> {
    let places: Vec<usize> = outside_brackets(tokens).collect();
    let is_pair = |place: usize, symbol| {
        let pair = tokens.get(place..place + 2);
        pair.is_some_and(|pair| pair.iter().all(|token| token.is_symbol(symbol)))
    };
    let (mut separators, mut between, mut cases) = (Vec::new(), 0_u32, 0_u32);
    for place in places {
        let token = &tokens[place];
        if token.is_any(&["OR", "XOR"]) || is_pair(place, b'|') {
            return Vec::new();
        }
        if token.is_word("BETWEEN") {
            between += 1;
        } else if token.is_word("CASE") {
            cases += 1;
        } else if token.is_word("END") {
            cases = cases.saturating_sub(1);
        } else if token.is_word("AND") && between > 0 {
            between -= 1;
        } else if token.is_word("AND") && cases == 0 {
            separators.push(place..place + 1);
        } else if is_pair(place, b'&') && cases == 0 {
            separators.push(place..place + 2);
        }
    }
    let mut found = Vec::new();
    for part in parts(tokens, separators.into_iter()) {
        match in_brackets(part) {
            Some(inner) => found.extend(conditions(inner)),
            None => found.push(part),
        }
    }
    found
}

/// What is in the brackets, if they are around all of it.
pub fn in_brackets<'b, 'a>(tokens: &'b [Token<'a>]) -> Option<&'b [Token<'a>]> {
    let is_around = tokens.first()?.is_symbol(b'(') && tokens.last()?.is_symbol(b')');
    // Nothing but the opening bracket is outside of them.
    (is_around && tokens.len() > 2 && outside_brackets(tokens).count() == 1).then(|| &tokens[1..tokens.len() - 1])
}

/// The tables of a query; none where it has derived tables, or joins others than with ON.
pub fn tables<'b, 'a>(query: &'b Query<'a>) -> Option<Vec<Table<'b, 'a>>> {
    let is_versioned = query.tokens.iter().any(|token| token.is_word("SYSTEM_TIME"));
    if is_versioned || query.is_compound() {
        return None;
    }
    let is_next = |token: &Token<'_>| token.is_symbol(b',') || token.is_any(&["JOIN", "STRAIGHT_JOIN"]);
    let mut side = None;
    let table = |part: &'b [Token<'a>]| {
        let is_of_next = |token: &Token<'_>| token.is_any(&["LEFT", "RIGHT", "OUTER", "INNER", "CROSS"]);
        let (part, next) = part.split_at(part.iter().rposition(|token| !is_of_next(token))? + 1);
        let is_side = |token: &&Token<'_>| token.is_any(&["LEFT", "RIGHT"]);
        let side = std::mem::replace(&mut side, next.iter().find(is_side).copied());
        let (table, on) = match split(part, |token| token.is_word("ON"))[..] {
            [table] => (table, Vec::new()),
            [table, on] => (table, conditions(on)),
            _ => return None,
        };
        let (mut parts, rest) = qualified(table)?;
        let name = parts.pop()?;
        let hint = rest.iter().position(|token| token.is_any(&["USE", "FORCE", "IGNORE"]));
        let alias = match &rest[..hint.unwrap_or(rest.len())] {
            [first, alias] if first.is_word("AS") => lexer::name(alias)?.to_lowercase(),
            [alias] => lexer::name(alias)?.to_lowercase(),
            [] => name.clone(),
            _ => return None,
        };
        let is_understood = !part.iter().any(|token| token.is_any(&["USING", "NATURAL"]));
        is_understood.then_some(Table { name, alias, on, side })
    };
    split(query.clause("FROM")?, is_next).into_iter().map(table).collect()
}

/// The parts of `a.b.c` in small letters, and what follows.
pub fn qualified<'a, 'b>(tokens: &'a [Token<'b>]) -> Option<(Vec<String>, &'a [Token<'b>])> {
    let mut parts = vec![lexer::name(tokens.first()?)?.to_lowercase()];
    let mut rest = &tokens[1..];
    while let [point, part, after @ ..] = rest {
        if !point.is_symbol(b'.') {
            break;
        }
        parts.push(lexer::name(part)?.to_lowercase());
        rest = after;
    }
    Some((parts, rest))
}

fn parts<'b, 'a>(tokens: &'b [Token<'a>], separators: impl Iterator<Item = Range<usize>>) -> Vec<&'b [Token<'a>]> {
    let mut begin = 0;
    let mut found = Vec::new();
    for separator in separators {
        found.push(&tokens[begin..separator.start]);
        begin = separator.end;
    }
    found.push(&tokens[begin..]);
    found
}
