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
