//! The TOML file beside an SQL file: tables, and rules for their rows.
//!
//! ```toml
//! [[tables]]
//! name = "item"
//! rows = 5000
//! primary_key = "id"
//! indexes = ["title"]
//! [tables.columns]
//! id = { type = "INT NOT NULL", values = "sequence(1)" }
//! title = { type = "VARCHAR(60) NOT NULL", values = "string(10, 60)" }
//! maker_id = { type = "INT NOT NULL", references = "maker.id" }
//! ```

use std::path::Path;

use serde::Deserialize;
use toml::Spanned;

use super::rules::Rule;
use crate::sources::Sources;
use crate::sql::server::quoted;

/// The most rows of a table: its number and a row's share 64 bits.
const MOST_ROWS: u64 = 1 << 40;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileForm {
    scale: Option<Spanned<Scales>>,
    tables: Vec<TableForm>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct TableForm {
    name: Spanned<String>,
    rows: Option<Spanned<u64>>,
    rows_at_scale_1: Option<Spanned<u64>>,
    primary_key: Option<Spanned<String>>,
    #[serde(default)]
    indexes: Vec<Spanned<String>>,
    #[serde(default)]
    options: String,
    columns: toml::Table,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ColumnForm {
    #[serde(rename = "type")]
    kind: String,
    values: Option<String>,
    references: Option<String>,
    null_pct: Option<f64>,
}

/// All tables, in the order in which they are made.
#[derive(Debug)]
pub struct Schema {
    /// The tables.
    pub tables: Vec<Table>,
}

/// One table.
#[derive(Debug)]
pub struct Table {
    /// Its name.
    pub name: String,
    /// Its rows.
    pub rows: u64,
    /// The columns of its primary key, as SQL has them.
    pub primary_key: Option<String>,
    /// The columns of each index, as SQL has them.
    pub indexes: Vec<String>,
    /// What follows the columns, as in ENGINE = InnoDB.
    pub options: String,
    /// Its columns.
    pub columns: Vec<Column>,
}

/// One column.
#[derive(Debug)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Its type, as SQL has it.
    pub kind: String,
    /// Where its values come from; none where the server makes them (AUTO_INCREMENT, a default, generated).
    pub rule: Option<Rule>,
    /// Share of NULL, in percent.
    pub null_pct: f64,
    /// The table and the column that it refers to.
    pub references: Option<(String, String)>,
}

/// A mistake, with its place in the text.
struct Mistake {
    at: usize,
    message: String,
}

impl Schema {
    /// Reads the text of the file at `path`; without a scale, the file's own.
    ///
    /// # Errors
    /// With file, line, column, what is wrong and what is allowed.
    pub fn parse(path: &Path, text: &str, scale: Option<f64>) -> Result<Self, String> {
        let form: FileForm = toml::from_str(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            place(path, text, at, error.message())
        })?;
        let folder = path.parent().unwrap_or(Path::new("."));
        let chosen = match &form.scale {
            None if scale.is_some() => return Err(format!(
                "--scale: {} has no scale; a line scale = {{ default = …, lowest = …, highest = … }} at its top gives it one",
                path.display()
            )),
            None => None,
            Some(scales) => {
                let (at, scales) = (scales.span().start, *scales.get_ref());
                scales.check().map_err(|message| place(path, text, at, &message))?;
                Some(
                    scales
                        .choose(scale)
                        .map_err(|message| format!("{}: {message}", path.display()))?,
                )
            }
        };
        read(form, text, folder, chosen).map_err(|mistake| place(path, text, mistake.at, &mistake.message))
    }
}

fn place(path: &Path, text: &str, at: usize, message: &str) -> String {
    let before = &text[..at.min(text.len())];
    let line = before.matches('\n').count() + 1;
    let column = before.chars().rev().take_while(|character| *character != '\n').count() + 1;
    format!("{}:{line}:{column}: {message}", path.display())
}

fn read(form: FileForm, text: &str, folder: &Path, scale: Option<Scale>) -> Result<Schema, Mistake> {
    let mut tables: Vec<Table> = Vec::new();
    for form in form.tables {
        let at = form.name.span().start;
        let name = form.name.into_inner();
        if name.is_empty() || tables.iter().any(|table| table.name == name) {
            return Err(Mistake {
                at,
                message: format!("there are two tables '{name}', or one has no name"),
            });
        }
        let (at_rows, rows) = match (&form.rows, &form.rows_at_scale_1, scale) {
            (Some(rows), None, _) => (rows.span().start, *rows.get_ref()),
            (None, Some(rows), Some(scale)) => (rows.span().start, scale.rows(*rows.get_ref())),
            (None, Some(rows), None) => {
                return Err(Mistake {
                    at: rows.span().start,
                    message: "rows_at_scale_1 needs a line scale = { default = …, lowest = …, highest = … } at the top"
                        .into(),
                })
            }
            _ => {
                return Err(Mistake {
                    at,
                    message: format!("the table {name} needs rows, or rows_at_scale_1"),
                })
            }
        };
        if rows > MOST_ROWS {
            return Err(Mistake {
                at: at_rows,
                message: format!("rows = {rows} is more than {MOST_ROWS}"),
            });
        }
        let mut columns = Vec::new();
        for (column, value) in form.columns {
            // The place of a column's name after that of its table.
            let at = at + find_key(&text[at..], &column);
            let read = column_of(&column, value, folder, &tables);
            columns.push(read.map_err(|message| Mistake { at, message })?);
        }
        let known = |key: &Spanned<String>| {
            key_of(key.get_ref(), &name, &columns).map_err(|message| Mistake {
                at: key.span().start,
                message,
            })
        };
        let primary_key = form.primary_key.as_ref().map(known).transpose()?;
        let indexes = form.indexes.iter().map(known).collect::<Result<_, _>>()?;
        tables.push(Table {
            rows,
            name,
            primary_key,
            indexes,
            options: form.options,
            columns,
        });
    }
    Ok(Schema { tables })
}

/// The columns and expressions of a key of this table, as SQL has them.
fn key_of(key: &str, table: &str, columns: &[Column]) -> Result<String, String> {
    let mut quoted_parts = Vec::new();
    for part in parts_of(key).map(str::trim) {
        if part.starts_with('(') {
            quoted_parts.push(part.to_string());
            continue;
        }
        let (word, rest) = part.split_at(part.find([' ', '(']).unwrap_or(part.len()));
        let word = word.trim_matches('`');
        if columns.iter().any(|column| column.name == word) {
            quoted_parts.push(quoted(word) + rest);
            continue;
        }
        let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
        let allowed = names.join(", ");
        let is_length = |text: &str| {
            text.trim_start()
                .starts_with(|character: char| character.is_ascii_digit())
        };
        return Err(match rest.strip_prefix('(') {
            _ if word.is_empty() => format!("'{key}' has a part without a column; allowed: {allowed}"),
            Some(argument) if !is_length(argument) => {
                format!("'{word}' is no column of {table}; an expression is in parentheses of its own: ({part})")
            }
            _ => format!("'{word}' is no column of {table}; allowed: {allowed}"),
        });
    }
    Ok(quoted_parts.join(", "))
}

/// The parts of a key: columns, and expressions in parentheses, which may have commas of their own.
fn parts_of(key: &str) -> impl Iterator<Item = &str> {
    let mut quote = None;
    let mut depth = 0;
    key.split(move |character| {
        match (quote, character) {
            (Some(open), _) if open == character => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"' | '`') => quote = Some(character),
            (None, '(') => depth += 1,
            (None, ')') => depth -= 1,
            _ => {}
        }
        character == ',' && quote.is_none() && depth == 0
    })
}

/// Where a key is written, from the start of `text`; 0 where it cannot be told.
fn find_key(text: &str, key: &str) -> usize {
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let trimmed = line.trim_start();
        let rest = trimmed
            .strip_prefix(key)
            .or_else(|| trimmed.strip_prefix(&format!("\"{key}\"")));
        if rest.is_some_and(|rest| rest.trim_start().starts_with(['=', '.'])) {
            return at + line.len() - trimmed.len();
        }
        at += line.len();
    }
    0
}

fn column_of(name: &str, value: toml::Value, folder: &Path, tables: &[Table]) -> Result<Column, String> {
    let form: ColumnForm = value.try_into().map_err(|error: toml::de::Error| {
        format!("column {name}: {}; allowed: {{ type = \"INT NOT NULL\", values = \"RULE\" }}, with references and null_pct", error.message())
    })?;
    let null_pct = form.null_pct.unwrap_or(0.0);
    if !(0.0..=100.0).contains(&null_pct) {
        return Err(format!("column {name}: null_pct = {null_pct} is not between 0 and 100"));
    }
    let rows: Vec<_> = tables.iter().map(|table| (table.name.as_str(), table.rows)).collect();
    let counted = |text: &str| with_rows(text, &rows).map_err(|message| format!("column {name}: {message}"));
    let values = form.values.as_deref().map(counted).transpose()?;
    let mut rule = values.as_deref();
    let mut written = String::new();
    let mut references = None;
    if let Some(target) = &form.references {
        let (table, column) = target
            .split_once('.')
            .ok_or_else(|| format!("column {name}: references = '{target}' is not TABLE.COLUMN"))?;
        let Some(target) = tables.iter().find(|one| one.name == table) else {
            let names: Vec<&str> = tables.iter().map(|one| one.name.as_str()).collect();
            return Err(format!(
                "column {name}: there is no table '{table}' before this one; allowed: {}",
                names.join(", ")
            ));
        };
        let Some(referred) = target.columns.iter().find(|one| one.name == column) else {
            return Err(format!("column {name}: the table {table} has no column '{column}'"));
        };
        references = Some((table.to_string(), column.to_string()));
        // Without a rule, or with the name of a distribution alone, the values are those of the other column.
        if !rule.is_some_and(|rule| rule.contains('(')) {
            let Some(Rule::Sequence { first, step: 1, .. }) = referred.rule else {
                return Err(format!(
                    "column {name}: {table}.{column} is no sequence with step 1; set values to a rule of its own"
                ));
            };
            let last = first + target.rows as i64 - 1;
            written = format!("{}({first}, {last})", rule.unwrap_or("uniform"));
            rule = Some(&written);
        }
    }
    let rule = rule
        .map(|rule| Rule::parse(rule, folder, &Sources::default()))
        .transpose();
    let _ = &written;
    Ok(Column {
        rule: rule.map_err(|message| format!("column {name}: {message}"))?,
        name: name.to_string(),
        kind: counted(&form.kind)?,
        null_pct,
        references,
    })
}

const ROWS: &str = "{rows(";

/// `scale = { default = 0.01, lowest = 0.01, highest = 1 }` of a file; scales are multiples of the lowest one.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Scales {
    default: f64,
    lowest: f64,
    highest: f64,
}

/// A scale factor that a file allows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scale(f64);

impl Scales {
    /// Whether the numbers make sense.
    ///
    /// # Errors
    /// When they do not.
    pub fn check(self) -> Result<(), String> {
        let in_order = self.lowest > 0.0 && self.lowest <= self.highest && self.highest <= 1e6;
        match in_order && self.choose(Some(self.default)).is_ok() {
            true => Ok(()),
            false => {
                Err("scale: 0 < lowest <= default <= highest is required, and default is a multiple of lowest".into())
            }
        }
    }

    /// The scale that was asked for, or the default.
    ///
    /// # Errors
    /// When it is outside the range, or no multiple of the lowest.
    pub fn choose(self, wanted: Option<f64>) -> Result<Scale, String> {
        let scale = wanted.unwrap_or(self.default);
        let steps = scale / self.lowest;
        if !(self.lowest..=self.highest).contains(&scale) || (steps - steps.round()).abs() > 1e-6 {
            return Err(format!(
                "the scale {scale} is not possible; allowed: {} to {}, in steps of {}",
                self.lowest, self.highest, self.lowest
            ));
        }
        Ok(Scale(steps.round() * self.lowest))
    }
}

impl Scale {
    /// Rows of a table with so many at a scale of 1.
    pub fn rows(self, at_one: u64) -> u64 {
        (self.0 * at_one as f64).round() as u64
    }
}

/// The text with each `{rows(TABLE)}`, `{rows(TABLE) * 2 / 3}` replaced by a whole number; `tables` are the names and rows of those before.
///
/// # Errors
/// When there is no such table before this one, or what follows it is no whole numbers.
pub fn with_rows(text: &str, tables: &[(&str, u64)]) -> Result<String, String> {
    let mut rest = text;
    let mut out = String::new();
    while let Some((before, after)) = rest.split_once(ROWS) {
        out.push_str(before);
        let wrong = || {
            format!(
                "'{ROWS}{}' is not {{rows(TABLE)}} or {{rows(TABLE) * 2 / 3}}",
                first_of(after)
            )
        };
        let (inside, remaining) = after.split_once('}').ok_or_else(wrong)?;
        let (name, factors) = inside.split_once(')').ok_or_else(wrong)?;
        let (_, rows) = tables.iter().find(|(table, _)| *table == name).ok_or_else(|| {
            let names: Vec<&str> = tables.iter().map(|(table, _)| *table).collect();
            let allowed = match names.is_empty() {
                true => "this is the first table".to_string(),
                false => format!("allowed: {}", names.join(", ")),
            };
            format!("there is no table '{name}' before this one; {allowed}")
        })?;
        let mut words = factors.split_whitespace();
        let mut value = *rows;
        while let Some(operator) = words.next() {
            let number: u64 = words.next().and_then(|word| word.parse().ok()).ok_or_else(wrong)?;
            value = match operator {
                "*" => value.checked_mul(number),
                "/" => value.checked_div(number),
                _ => None,
            }
            .ok_or_else(wrong)?;
        }
        out.push_str(&value.to_string());
        rest = remaining;
    }
    out.push_str(rest);
    Ok(out)
}

fn first_of(text: &str) -> String {
    text.chars().take(30).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::Schema;
    use super::*;

    const FILE: &str = "scale = { default = 0.1, lowest = 0.1, highest = 2 }\n[[tables]]\nname = \"a\"\n\
                        rows_at_scale_1 = 300\n[tables.columns]\nid = { type = \"INT\", values = \"sequence(1)\" }\n\n\
                        [[tables]]\nname = \"b\"\nrows = 7\n[tables.columns]\n\
                        n = { type = \"INT AS (id MOD {rows(a)}) STORED\", values = \"uniform(1, {rows(a) * 2 / 3})\" }\n";

    #[test]
    fn rows_and_what_refers_to_them_follow_the_scale() {
        let schema = |scale| Schema::parse(Path::new("f.toml"), FILE, scale).unwrap();
        let (usual, larger) = (schema(None), schema(Some(1.5)));
        assert_eq!([usual.tables[0].rows, usual.tables[1].rows], [30, 7]);
        assert_eq!([larger.tables[0].rows, larger.tables[1].rows], [450, 7]);
        assert_eq!(larger.tables[1].columns[0].kind, "INT AS (id MOD 450) STORED");
        let rule = format!("{:?}", larger.tables[1].columns[0].rule);
        assert!(rule.contains("span: 299"), "{rule}");
    }

    #[test]
    fn a_scale_that_is_not_possible_and_a_wrong_reference_are_refused() {
        let refused = |text: &str, scale| Schema::parse(Path::new("f.toml"), text, scale).unwrap_err();
        for scale in [0.0, -1.0, 0.05, 0.25, 2.1, f64::NAN, f64::INFINITY] {
            let error = refused(FILE, Some(scale));
            assert!(error.contains("allowed: 0.1 to 2, in steps of 0.1"), "{error}");
        }
        let fixed = FILE.replace("scale = { default = 0.1, lowest = 0.1, highest = 2 }\n", "");
        for (text, scale, expected) in [
            (
                fixed.replace("rows_at_scale_1", "rows"),
                Some(1.0),
                "f.toml has no scale",
            ),
            (fixed, None, "rows_at_scale_1 needs a line scale"),
            (
                FILE.replace("rows = 7\n", ""),
                None,
                "the table b needs rows, or rows_at_scale_1",
            ),
            (
                FILE.replace("rows = 7", "rows = 7\nrows_at_scale_1 = 7"),
                None,
                "rows, or rows_at_scale_1",
            ),
            (
                FILE.replace("default = 0.1", "default = 3"),
                None,
                "default is a multiple of lowest",
            ),
            (
                FILE.replace("rows(a) * 2 / 3", "rows(c)"),
                None,
                "no table 'c' before this one; allowed: a",
            ),
            (FILE.replace("* 2 / 3", "/ 0"), None, "is not {rows(TABLE)}"),
        ] {
            let error = refused(&text, scale);
            assert!(error.contains(expected), "{error}");
        }
    }

    const SHOP: &str = "[[tables]]\nname = \"maker\"\nrows = 10\nprimary_key = \"id\"\n[tables.columns]\n\
                        id = { type = \"INT\", values = \"sequence(1)\" }\n\n[[tables]]\nname = \"item\"\nrows = 100\n\
                        [tables.columns]\nid = { type = \"INT\", values = \"sequence(1)\" }\n\
                        maker_id = { type = \"INT\", references = \"maker.id\" }\n";

    fn parsed(text: &str) -> Result<Schema, String> {
        Schema::parse(Path::new("shop.toml"), text, None)
    }

    #[test]
    fn tables_keep_the_order_of_their_columns_and_know_what_they_refer_to() {
        let schema = parsed(SHOP).unwrap();
        let names: Vec<&str> = schema.tables[1]
            .columns
            .iter()
            .map(|column| column.name.as_str())
            .collect();
        assert_eq!(names, ["id", "maker_id"]);
        let referring = &schema.tables[1].columns[1];
        assert_eq!(referring.references, Some(("maker".into(), "id".into())));
        assert!(matches!(referring.rule, Some(Rule::Range { low: 1, span: 9, .. })));
    }

    #[test]
    fn a_mistake_is_named_with_its_line() {
        for (from, to, expected) in [
            (
                "maker.id",
                "makr.id",
                "shop.toml:13:1: column maker_id: there is no table 'makr'",
            ),
            (
                "maker.id",
                "maker.no",
                "shop.toml:13:1: column maker_id: the table maker has no column 'no'",
            ),
            (
                "primary_key = \"id\"",
                "primary_key = \"key\"",
                "shop.toml:4:15: 'key' is no column of maker; allowed: id",
            ),
            (
                "sequence(1)\" }\n\n",
                "sequenz(1)\" }\n\n",
                "shop.toml:6:1: column id: 'sequenz' is no rule",
            ),
            ("rows = 10\n", "row = 10\n", "shop.toml:3:1: unknown field `row`"),
            ("rows = 100", "rows = -1", "shop.toml:10:8: invalid value"),
        ] {
            let error = parsed(&SHOP.replacen(from, to, 1)).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        }
    }

    #[test]
    fn reserved_words_are_names_of_columns_and_of_parts_of_keys() {
        let text = SHOP
            .replace("id = ", "key = ")
            .replace("maker.id", "maker.key")
            .replace(
                "primary_key = \"id\"",
                "primary_key = \"`key`\"\nindexes = [\"key DESC, key(5)\"]",
            );
        let schema = parsed(&text).unwrap();
        assert_eq!(schema.tables[0].primary_key.as_deref(), Some("`key`"));
        assert_eq!(schema.tables[0].indexes, ["`key` DESC, `key`(5)"]);
    }

    #[test]
    fn expressions_are_parts_of_indexes() {
        let key = "(lower(name), concat(a, ',)')) DESC, id";
        let indexes = |key: &str| {
            SHOP.replacen(
                "[tables.columns]",
                &format!("indexes = [\"{key}\"]\n[tables.columns]"),
                1,
            )
        };
        let schema = parsed(&indexes(key)).unwrap();
        assert_eq!(schema.tables[0].indexes, ["(lower(name), concat(a, ',)')) DESC, `id`"]);
        for (key, words) in [
            ("id,", "a part without a column; allowed: id"),
            (
                "lower(id)",
                "'lower' is no column of maker; an expression is in parentheses of its own: (lower(id))",
            ),
        ] {
            let error = parsed(&indexes(key)).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
    }
}
