//! The scale factor of a file's tables: rows in proportion to it, and `{rows(TABLE)}` in types and rules.

use serde::Deserialize;

const ROWS: &str = "{rows(";

/// `scale = { default = 0.01, lowest = 0.01, highest = 1 }` of a file; scales are multiples of the lowest one.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scales {
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
}
