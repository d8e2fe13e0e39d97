//! Where the first statement of a text ends: at the first semicolon that is not within a block of a compound statement,
//! or within the body of a routine, trigger or event.
//!
//! Words that open and close blocks are names elsewhere (`IF(a, b, c)`, a column `end`): they count where a statement
//! begins alone. Source: MariaDB's and MySQL's manuals, "Programmatic and Compound Statements".

use crate::lexer::{tokens, Kind, Token};
use crate::reach::{is_program, object};

/// What begins between the parameters of a procedure and its body.
const CHARACTERISTICS: &[&str] = &[
    "LANGUAGE",
    "SQL",
    "NOT",
    "DETERMINISTIC",
    "CONTAINS",
    "NO",
    "READS",
    "MODIFIES",
    "DATA",
    "SECURITY",
    "DEFINER",
    "INVOKER",
    "COMMENT",
];
/// What the body of a function begins with: one statement at least returns.
const OF_FUNCTIONS: &[&str] = &[
    "BEGIN", "RETURN", "IF", "CASE", "LOOP", "REPEAT", "WHILE", "FOR", "IS", "AS",
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Open {
    /// BEGIN, LOOP, or the body of a WHILE or FOR.
    Block,
    /// Oracle's declarations before BEGIN.
    Declarations,
    /// IF or CASE, whose statements follow THEN.
    Branches,
    /// CASE within an expression.
    Expression,
    Repeat,
    /// The condition of REPEAT.
    Until,
    /// WHILE or FOR, up to DO or LOOP.
    Head,
}

/// The text's length up to the semicolon after its first statement; all of it where that is not found.
pub fn first_end(text: &[u8]) -> usize {
    let all: Vec<Token<'_>> = tokens(text).collect();
    let mut blocks = Blocks {
        all: &all,
        at: 0,
        open: Vec::new(),
        begins: true,
    };
    if is_program(&all) {
        match body(&all) {
            Some(place) => blocks.at = place,
            None if object(&all).is_some_and(|(kind, _)| kind.is_word("PACKAGE")) => return text.len(),
            None => blocks.begins = false,
        }
    }
    blocks.end().map_or(text.len(), |place| all[place].start)
}

/// Where the body of a routine, trigger or event begins, if it has one.
fn body(all: &[Token<'_>]) -> Option<usize> {
    let (kind, place) = object(all)?;
    let after = |words: &[&str]| {
        let mut pairs = all.windows(words.len());
        let found = pairs.position(|part| part.iter().zip(words).all(|(token, word)| token.is_word(word)))?;
        Some(found + words.len())
    };
    if kind.is_word("TRIGGER") {
        let row = after(&["EACH", "ROW"])?;
        let is_ordered = all.get(row)?.is_any(&["FOLLOWS", "PRECEDES"]);
        return Some(if is_ordered { row + 2 } else { row });
    }
    if kind.is_word("EVENT") {
        return after(&["DO"]);
    }
    let mut depth = 0;
    let mut is_parameters = true;
    for (place, token) in all.iter().enumerate().skip(place) {
        depth += i32::from(token.is_symbol(b'(')) - i32::from(token.is_symbol(b')'));
        if depth > 0 || is_parameters && !token.is_any(&["IS", "AS"]) {
            is_parameters &= !(token.is_symbol(b')') && depth == 0);
            continue;
        }
        is_parameters = false;
        let is_label = all.get(place + 1).is_some_and(|next| next.is_symbol(b':'));
        let is_body = if kind.is_word("FUNCTION") {
            token.is_any(OF_FUNCTIONS) || is_label
        } else {
            !token.is_any(CHARACTERISTICS) && token.kind == Kind::Word || is_label
        };
        if is_body {
            return Some(place);
        }
    }
    None
}

struct Blocks<'a, 't> {
    all: &'a [Token<'t>],
    at: usize,
    open: Vec<Open>,
    /// Whether a statement begins here.
    begins: bool,
}

impl Blocks<'_, '_> {
    /// The place of the semicolon after the statement.
    fn end(mut self) -> Option<usize> {
        while let Some(token) = self.all.get(self.at) {
            self.at += 1;
            if token.is_symbol(b';') {
                if self.open.is_empty() {
                    return Some(self.at - 1);
                }
                self.begins = true;
            } else if self.is_next(|next| next.is_symbol(b':')) && self.begins {
                self.at += 1;
            } else if self.begins {
                self.begin(token);
            } else {
                self.within(token);
            }
        }
        None
    }

    fn is_next(&self, is: impl Fn(&Token<'_>) -> bool) -> bool {
        self.all.get(self.at).is_some_and(is)
    }

    fn replace(&mut self, open: Open) {
        self.open.pop();
        self.open.push(open);
    }

    /// The first word of a statement.
    fn begin(&mut self, token: &Token<'_>) {
        let is_atomic = self.is_next(|next| next.is_word("NOT"));
        self.begins = false;
        if token.is_word("BEGIN") && (is_atomic || !self.open.is_empty() || self.is_body()) {
            if self.open.last() == Some(&Open::Declarations) {
                self.open.pop();
            }
            self.open.push(Open::Block);
            self.at += if is_atomic { 2 } else { 0 };
            self.begins = true;
        } else if token.is_any(&["IF", "CASE"]) {
            self.open.push(Open::Branches);
        } else if token.is_any(&["LOOP", "REPEAT"]) {
            let is_repeat = token.is_word("REPEAT");
            self.open.push(if is_repeat { Open::Repeat } else { Open::Block });
            self.begins = true;
        } else if token.is_any(&["WHILE", "FOR"]) {
            self.open.push(Open::Head);
        } else if token.is_any(&["ELSE", "EXCEPTION"]) {
            self.begins = true;
        } else if token.is_word("UNTIL") {
            self.replace(Open::Until);
        } else if token.is_word("END") {
            self.open.pop();
            self.at += usize::from(self.is_next(|next| next.is_word("CASE")));
        } else if token.is_any(&["IS", "AS"]) || token.is_word("DECLARE") && self.open.is_empty() {
            self.open.push(Open::Declarations);
            self.begins = true;
        } else if token.is_word("DECLARE") && self.all.get(self.at + 1).is_some_and(|next| next.is_word("HANDLER")) {
            self.skip_conditions();
        }
    }

    /// Whether what came before is the head of a routine, trigger or event.
    fn is_body(&self) -> bool {
        self.at > 1
    }

    /// A later word of a statement.
    fn within(&mut self, token: &Token<'_>) {
        let last = self.open.last().copied();
        match last {
            _ if token.is_word("CASE") => self.open.push(Open::Expression),
            Some(Open::Expression | Open::Until) if token.is_word("END") => {
                self.open.pop();
            }
            Some(Open::Branches | Open::Block) if token.is_word("THEN") => self.begins = true,
            Some(Open::Head) if token.is_any(&["DO", "LOOP"]) => {
                self.replace(Open::Block);
                self.begins = true;
            }
            _ => {}
        }
    }

    /// `CONTINUE HANDLER FOR SQLSTATE '23000', NOT FOUND`; a statement follows.
    fn skip_conditions(&mut self) {
        self.at += 2;
        loop {
            // FOR or a comma, and a condition: its last word is what no SQLSTATE, VALUE or NOT is.
            self.at += 1;
            while self.is_next(|next| next.is_any(&["SQLSTATE", "VALUE", "NOT"])) {
                self.at += 1;
            }
            self.at += 1;
            if !self.is_next(|next| next.is_symbol(b',')) {
                break;
            }
        }
        self.begins = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_after_a_compound_one_are_no_part_of_it() {
        for statement in [
            "BEGIN",
            "BEGIN WORK",
            "START TRANSACTION",
            "INSERT INTO t VALUES (';', 1)",
            "SELECT IF(a, 1, 2), CASE WHEN a THEN 1 ELSE 2 END, REPEAT('a', 3) FROM t FOR UPDATE",
            "DROP TABLE IF EXISTS t",
            "XA END 'a'",
            "DO SLEEP(0)",
            "BEGIN NOT ATOMIC INSERT INTO t VALUES (1); INSERT INTO t VALUES (2); END",
            "l1: BEGIN NOT ATOMIC SELECT 1; LEAVE l1; END l1",
            "BEGIN NOT ATOMIC DECLARE i INT DEFAULT CASE 1 WHEN 1 THEN 2 END; BEGIN SELECT end FROM t; END; END",
            "BEGIN NOT ATOMIC DECLARE CONTINUE HANDLER FOR NOT FOUND, SQLSTATE VALUE '23000' SET @a = IF(1, 2, 3); \
             DECLARE EXIT HANDLER FOR 1062 BEGIN SELECT 1; ROLLBACK; END; SELECT 2; END",
            "IF (1) THEN SELECT 1; ELSEIF 2 THEN SELECT 2; ELSE BEGIN SELECT 3; END; END IF",
            "CASE a WHEN 1 THEN SELECT 1; WHEN 2 THEN IF b THEN SELECT 2; END IF; ELSE SELECT 3; END CASE",
            "LOOP SELECT 1; LEAVE; END LOOP",
            "`my loop`: LOOP SET @a = @a + 1; IF @a > 3 THEN LEAVE `my loop`; END IF; END LOOP `my loop`",
            "REPEAT SELECT REPEAT('a', 2); UNTIL CASE WHEN @a THEN 1 ELSE 0 END END REPEAT",
            "WHILE @a < 3 DO SET @a = @a + 1; DO SLEEP(0); END WHILE",
            "FOR i IN 1..3 DO INSERT INTO t VALUES (i); END FOR",
            "FOR i IN (SELECT a FROM t) DO SELECT i.a; END FOR",
            "CREATE PROCEDURE p() BEGIN SELECT 1; SELECT 2; END",
            "CREATE PROCEDURE p(a INT, b DECIMAL(5, 2)) COMMENT 'begin;' SQL SECURITY INVOKER SELECT IF(a, 1, 2) FOR UPDATE",
            "CREATE PROCEDURE IF NOT EXISTS p() IF @a THEN SELECT 1; END IF",
            "CREATE FUNCTION f(a INT) RETURNS SET('a', 'b') CHARACTER SET utf8 DETERMINISTIC RETURN REPEAT(IF(a, 1, 2), 3)",
            "CREATE FUNCTION f() RETURNS INT x: BEGIN RETURN 1; END x",
            "CREATE FUNCTION f RETURNS STRING SONAME 'f.so'",
            "CREATE OR REPLACE DEFINER = a@b TRIGGER x BEFORE UPDATE ON t FOR EACH ROW FOLLOWS y BEGIN SET @a = 1; END",
            "CREATE TRIGGER x AFTER DELETE ON t FOR EACH ROW DELETE FROM b WHERE IF(a, 1, 2)",
            "CREATE EVENT e ON SCHEDULE EVERY 1 DAY DO BEGIN SELECT 1; END",
            "ALTER EVENT e DISABLE",
            "CREATE PROCEDURE p AS x INT; BEGIN SELECT 1; END",
            "DECLARE x INT; BEGIN SELECT 1; EXCEPTION WHEN others THEN SELECT 2; END",
        ] {
            for (rest, length) in [("", statement.len()), (" ;\nselect 2; select 3", statement.len() + 1)] {
                let text = format!("{statement}{rest}");
                let end = first_end(text.as_bytes());
                assert_eq!(&text[..end], &text[..length], "{text}");
            }
        }
        let whole = "BEGIN NOT ATOMIC SELECT 1; SELECT 2";
        assert_eq!(first_end(whole.as_bytes()), whole.len());
    }
}
