//! What literals are for: data, or what a statement needs as it is.

use crate::lexer::{Kind, Token};
use crate::reach::object;

/// Functions and types whose numbers are no data: lengths, digits, formats.
const WITH_NUMBERS: &[&str] = &[
    "BINARY",
    "BIT",
    "CHAR",
    "CONV",
    "CURRENT_TIME",
    "CURRENT_TIMESTAMP",
    "CURTIME",
    "DATETIME",
    "DEC",
    "DECIMAL",
    "DOUBLE",
    "FLOAT",
    "FORMAT",
    "LAG",
    "LEAD",
    "LEFT",
    "LOCALTIME",
    "LOCALTIMESTAMP",
    "LPAD",
    "MID",
    "NCHAR",
    "NOW",
    "NTH_VALUE",
    "NTILE",
    "NUMERIC",
    "REPEAT",
    "RIGHT",
    "ROUND",
    "RPAD",
    "SHA2",
    "SLEEP",
    "SPACE",
    "ST_GEOMFROMTEXT",
    "ST_GEOMETRYFROMTEXT",
    "ST_SRID",
    "SUBSTR",
    "SUBSTRING",
    "SUBSTRING_INDEX",
    "SYSDATE",
    "TIME",
    "TRUNCATE",
    "UTC_TIME",
    "UTC_TIMESTAMP",
    "VARBINARY",
    "VARCHAR",
    "WEEK",
    "YEAR",
    "YEARWEEK",
];
/// Functions with formats and time zones.
const WITH_FORMATS: &[&str] = &[
    "CONVERT_TZ",
    "DATE_FORMAT",
    "FROM_UNIXTIME",
    "GET_FORMAT",
    "STR_TO_DATE",
    "TIME_FORMAT",
    "TO_CHAR",
];

/// What the literals of a statement are for, from left to right.
#[derive(Debug, Default)]
pub(super) struct Context {
    /// The word before each open parenthesis.
    pub calls: Vec<Vec<u8>>,
    /// The depth of an ORDER BY, GROUP BY or LIMIT.
    ordered: Option<usize>,
    /// Whether the statement is a SET, and the assignment one of a variable of the server.
    is_set: bool,
    is_server_variable: bool,
    /// Whether it defines a table, schema or index, up to a SELECT.
    pub is_definition: bool,
}

impl Context {
    pub(super) fn of(all: &[Token<'_>]) -> Self {
        let first = all.first();
        let is_set = first.is_some_and(|first| first.is_word("SET"));
        let defines = first.is_some_and(|first| first.is_any(&["CREATE", "ALTER"]));
        let kinds = ["DATABASE", "SCHEMA", "TABLE", "INDEX", "SEQUENCE"];
        Self {
            is_set,
            is_definition: defines && object(all).is_some_and(|(kind, _)| kind.is_any(&kinds)),
            ..Self::default()
        }
    }

    /// Takes the token at a place, after its literal was replaced.
    pub(super) fn take(&mut self, all: &[Token<'_>], place: usize) {
        let token = &all[place];
        let before = place.checked_sub(1).map(|before| &all[before]);
        if token.is_symbol(b'(') {
            self.calls
                .push(before.map_or(Vec::new(), |word| word.text.to_ascii_uppercase()));
        } else if token.is_symbol(b')') {
            self.calls.pop();
            self.ordered = self.ordered.filter(|depth| *depth <= self.calls.len());
        } else if token.is_any(&["ORDER", "GROUP", "LIMIT"]) {
            self.ordered = Some(self.calls.len());
        } else if token.is_any(&["SELECT", "VALUES", "WHERE", "SET", "UNION"]) || token.is_symbol(b';') {
            self.ordered = None;
        }
        if self.is_set && self.calls.is_empty() {
            let begins = place == 0 || token.is_symbol(b',');
            let is_user_variable = |next: &Token<'_>| next.kind == Kind::Variable && !next.text.starts_with(b"@@");
            if begins {
                self.is_server_variable = !all.get(place + 1).is_some_and(is_user_variable);
            }
            // SET STATEMENT … FOR: what follows is a statement.
            if token.is_word("FOR") {
                (self.is_set, self.is_server_variable) = (false, false);
            }
        }
        self.is_definition &= !token.is_word("SELECT");
    }

    pub(super) fn is_call(&self, names: &[&str]) -> bool {
        self.calls
            .last()
            .is_some_and(|call| names.iter().any(|name| name.as_bytes() == call))
    }

    pub(super) fn keeps(&self, all: &[Token<'_>], place: usize) -> bool {
        let token = &all[place];
        let before = |words: &[&str]| place > 0 && all[place - 1].is_any(words);
        if self.is_server_variable || before(&["INTERVAL", "ZONE", "SRID"]) {
            return true;
        }
        if token.kind == Kind::Number {
            let is_ordered = self.ordered == Some(self.calls.len());
            let is_in_list = before(&["BY", "LIMIT", "OFFSET"]) || is_ordered && all[place - 1].is_symbol(b',');
            let is_of_a_frame = all
                .get(place + 1)
                .is_some_and(|next| next.is_any(&["PRECEDING", "FOLLOWING"]));
            return self.is_definition || is_in_list || is_of_a_frame || self.is_call(WITH_NUMBERS);
        }
        let is_format = || {
            let is_specifier = |pair: &[u8]| pair[0] == b'%' && pair[1].is_ascii_alphabetic();
            token.text.windows(2).any(is_specifier)
                || self.is_call(&["CONVERT_TZ", "GET_FORMAT"]) && !is_dated(token.text)
        };
        // Comments and passwords of tables are texts, the rest of a definition is no data.
        let named = all[..place].iter().rev().find(|token| !token.is_symbol(b'='));
        let is_text = || named.is_some_and(|name| name.is_any(&["COMMENT", "CONNECTION", "PASSWORD"]));
        self.is_definition && !is_text() || self.is_call(WITH_FORMATS) && is_format()
    }
}

fn is_dated(literal: &[u8]) -> bool {
    literal
        .get(1..5)
        .is_some_and(|year| year.iter().all(u8::is_ascii_digit))
}
