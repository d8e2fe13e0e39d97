//! Rules for values, as in `uniform(1, 100000)`: in the parameters of transactions, and for the columns of tables.

use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::Arc;

use dyno_core::distribution::{Distribution, Parameters};
use dyno_core::random::RandomStream;
use dyno_mysql::Value;

use crate::sources::Sources;
use crate::sql::definition::Part;

/// A value that a rule has drawn.
#[derive(Debug, Clone, PartialEq)]
pub enum Drawn {
    /// A whole number.
    Integer(i64),
    /// A number.
    Double(f64),
    /// A text.
    Text(Vec<u8>),
}

impl Drawn {
    /// As a parameter of a statement.
    #[inline]
    pub fn value(&self) -> Value<'_> {
        match self {
            Self::Integer(value) => Value::Int(*value),
            Self::Double(value) => Value::Double(*value),
            Self::Text(bytes) => Value::Bytes(bytes),
        }
    }

    /// As a literal of SQL.
    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Integer(value) => out.extend_from_slice(value.to_string().as_bytes()),
            Self::Double(value) => out.extend_from_slice(format!("{value:?}").as_bytes()),
            Self::Text(bytes) => {
                out.push(b'\'');
                for byte in bytes {
                    if matches!(byte, b'\'' | b'\\') {
                        out.push(b'\\');
                    }
                    out.push(*byte);
                }
                out.push(b'\'');
            }
        }
    }
}

/// Where a value comes from.
#[derive(Debug, Clone)]
pub enum Rule {
    /// A whole number of a distribution.
    Range {
        /// The distribution.
        distribution: Distribution,
        /// The smallest value.
        low: i64,
        /// The greatest minus the smallest.
        span: u32,
    },
    /// first, first + step, …: each value once in the whole program.
    Sequence {
        /// The first value.
        first: i64,
        /// From one value to the next.
        step: i64,
        /// How many were drawn.
        drawn: Arc<AtomicI64>,
    },
    /// low, low + 1, … to the highest, and again from low: one after the other.
    Cycle {
        /// The smallest value.
        low: i64,
        /// How many there are.
        count: i64,
        /// How many were drawn.
        drawn: Arc<AtomicI64>,
    },
    /// A number of a normal distribution.
    Normal {
        /// Its mean.
        mean: f64,
        /// Its standard deviation.
        deviation: f64,
    },
    /// Small letters.
    Letters {
        /// The fewest.
        low: u32,
        /// The most.
        high: u32,
    },
    /// One of these, all equally often.
    Choice(Arc<Vec<Drawn>>),
}

/// What may be written, for messages.
pub const ALLOWED: &str =
    "uniform(LOW, HIGH), zipfian(LOW, HIGH[, EXPONENT]), pareto(LOW, HIGH), gaussian(LOW, HIGH), \
                           sequence(FIRST[, STEP]), cycle(LOW, HIGH), normal(MEAN, DEVIATION), \
                           string(LENGTH[, LONGEST]), choice(VALUE, …), csv('FILE', 'COLUMN')";

/// An argument of a rule.
#[derive(Debug, Clone, PartialEq)]
enum Argument {
    Number(f64),
    Text(String),
}

impl Rule {
    /// Reads a rule; files are relative to `folder`.
    ///
    /// # Errors
    /// A sentence on what is wrong and what is allowed.
    pub fn parse(text: &str, folder: &Path, sources: &Sources) -> Result<Self, String> {
        let text = text.trim();
        let is_call = text.ends_with(')') && text.contains('(');
        let open = text.find('(').filter(|_| is_call);
        let Some(open) = open else {
            return Err(format!("'{text}' is no rule; allowed: {ALLOWED}"));
        };
        let name = text[..open].trim();
        let arguments = arguments(&text[open + 1..text.len() - 1])?;
        match name {
            "uniform" | "zipfian" | "pareto" | "gaussian" => range(name, &arguments),
            "sequence" => {
                let (first, step) = (
                    whole(name, &arguments, 0, Some(1.0))?,
                    whole(name, &arguments, 1, Some(1.0))?,
                );
                Ok(Self::Sequence {
                    first,
                    step,
                    drawn: Arc::default(),
                })
            }
            "cycle" => {
                let (low, high) = (whole(name, &arguments, 0, None)?, whole(name, &arguments, 1, None)?);
                if high < low {
                    return Err(format!(
                        "cycle({low}, {high}): the second number must not be below the first"
                    ));
                }
                Ok(Self::Cycle {
                    low,
                    count: high - low + 1,
                    drawn: Arc::default(),
                })
            }
            "normal" => {
                let (mean, deviation) = (number(name, &arguments, 0)?, number(name, &arguments, 1)?);
                if deviation < 0.0 {
                    return Err(format!("normal: the deviation {deviation} is below 0"));
                }
                Ok(Self::Normal { mean, deviation })
            }
            "string" => {
                let low = whole(name, &arguments, 0, None)?;
                let high = whole(name, &arguments, 1, Some(low as f64))?;
                if !(0..=1 << 24).contains(&low) || !(low..=1 << 24).contains(&high) {
                    return Err(format!(
                        "string({low}, {high}): lengths are 0 to 16777216, the shorter one first"
                    ));
                }
                Ok(Self::Letters {
                    low: low as u32,
                    high: high as u32,
                })
            }
            "choice" => {
                if arguments.is_empty() {
                    return Err("choice() needs at least one value, as in choice('a', 'b')".into());
                }
                let drawn = |argument: &Argument| match argument {
                    Argument::Number(value) if value.fract() == 0.0 => Drawn::Integer(*value as i64),
                    Argument::Number(value) => Drawn::Double(*value),
                    Argument::Text(text) => Drawn::Text(text.clone().into_bytes()),
                };
                Ok(Self::Choice(Arc::new(arguments.iter().map(drawn).collect())))
            }
            "csv" => csv(&arguments, folder, sources),
            _ => Err(format!("'{name}' is no rule; allowed: {ALLOWED}")),
        }
    }

    /// Draws the part of one agent: of a sequence every `count`th number, so that all agents draw each number once.
    pub fn divide(&mut self, part: Part) {
        if let Self::Sequence { first, step, .. } = self {
            *first += *step * i64::from(part.index);
            *step *= i64::from(part.count);
        }
    }

    /// A value. `row` is the row's number from 0 where a table is filled, and none in a transaction.
    #[inline]
    pub fn draw(&self, stream: &mut RandomStream, row: Option<u64>) -> Drawn {
        match self {
            Self::Range {
                distribution,
                low,
                span,
            } => Drawn::Integer(low + i64::from(distribution.draw(stream, 0, *span))),
            Self::Sequence { first, step, drawn } => {
                let place = row.map_or_else(|| drawn.fetch_add(1, Ordering::Relaxed), |row| row as i64);
                Drawn::Integer(first + step * place)
            }
            Self::Cycle { low, count, drawn } => {
                let place = row.map_or_else(|| drawn.fetch_add(1, Ordering::Relaxed), |row| row as i64);
                Drawn::Integer(low + place.rem_euclid(*count))
            }
            Self::Normal { mean, deviation } => {
                // Box and Muller's transform of two uniform variates.
                let radius = (-2.0 * (1.0 - stream.next_double()).ln()).sqrt();
                let angle = std::f64::consts::TAU * stream.next_double();
                Drawn::Double(mean + deviation * radius * angle.cos())
            }
            Self::Letters { low, high } => {
                let length = low + (stream.next_u64() % u64::from(high - low + 1)) as u32;
                let letter = |_| b'a' + (stream.next_u64() % 26) as u8;
                Drawn::Text((0..length).map(letter).collect())
            }
            Self::Choice(values) => values[(stream.next_u64() % values.len() as u64) as usize].clone(),
        }
    }
}

fn range(name: &str, arguments: &[Argument]) -> Result<Rule, String> {
    let (low, high) = (whole(name, arguments, 0, None)?, whole(name, arguments, 1, None)?);
    let span = high
        .checked_sub(low)
        .filter(|span| (0..i64::from(u32::MAX)).contains(span));
    let Some(span) = span else {
        return Err(format!(
            "{name}({low}, {high}): the second number must not be below the first, nor more than 2^32 above it"
        ));
    };
    let mut parameters = Parameters::default();
    if name == "zipfian" && arguments.len() > 2 {
        parameters.zipfian_exponent = number(name, arguments, 2)?;
    }
    Ok(Rule::Range {
        distribution: Distribution::named(name, &parameters)?,
        low,
        span: span as u32,
    })
}

/// The values of a column of a file with a header line. Quotes are those of RFC 4180.
fn csv(arguments: &[Argument], folder: &Path, sources: &Sources) -> Result<Rule, String> {
    let [Argument::Text(file), Argument::Text(column)] = arguments else {
        return Err("csv needs a file and a column in quotes, as in csv('cities.csv', 'name')".into());
    };
    let path = folder.join(file);
    let text = sources
        .read(&path)
        .map_err(|error| format!("csv: '{}' cannot be read: {error}", path.display()))?;
    let file = path.display();
    let records = records(&text)
        .map_err(|line| format!("csv: '{file}', line {line}: a field in quotes that begins here has no end"))?;
    let mut records = records.into_iter();
    let (_, header) = records.next().unwrap_or_default();
    let Some(place) = header.iter().position(|name| name == column) else {
        return Err(format!(
            "csv: '{file}' has no column '{column}'; its first line has {}",
            header.join(", ")
        ));
    };
    let value = |(line, fields): (usize, Vec<String>)| {
        if fields.len() != header.len() {
            // As after a blank before a quote, which then is a part of its field.
            return Err(format!(
                "csv: '{file}', line {line} has {} fields, and the first line has {}",
                fields.len(),
                header.len()
            ));
        }
        let value = &fields[place];
        Ok(match value.parse::<i64>() {
            // A number with leading zeros, as a postcode, is a text.
            Ok(number) if number.to_string() == *value => Drawn::Integer(number),
            _ => Drawn::Text(value.clone().into_bytes()),
        })
    };
    let values: Vec<Drawn> = records.map(value).collect::<Result<_, String>>()?;
    if values.is_empty() {
        return Err(format!("csv: '{file}' has no rows"));
    }
    Ok(Rule::Choice(Arc::new(values)))
}

/// The records of a text, each with the line where it begins; empty lines are none.
///
/// # Errors
/// With the line of a quote that is never closed.
fn records(text: &str) -> Result<Vec<(usize, Vec<String>)>, usize> {
    let mut characters = text.strip_prefix('\u{feff}').unwrap_or(text).chars().peekable();
    let (mut records, mut fields, mut field) = (Vec::new(), Vec::new(), String::new());
    let (mut line, mut begin) = (1, 1);
    // Whether the field began with a quote, and the line of one that is open.
    let (mut is_quoted, mut opened) = (false, None);
    loop {
        let next = characters.next();
        match (next, opened) {
            (None, Some(line)) => return Err(line),
            (Some('"'), Some(_)) if characters.next_if_eq(&'"').is_some() => field.push('"'),
            (Some('"'), Some(_)) => opened = None,
            (Some(other), Some(_)) => {
                line += usize::from(other == '\n');
                field.push(other);
            }
            (Some('"'), None) if field.is_empty() && !is_quoted => (is_quoted, opened) = (true, Some(line)),
            (Some(','), None) => {
                fields.push(std::mem::take(&mut field));
                is_quoted = false;
            }
            (Some('\r'), None) if characters.peek() == Some(&'\n') => {}
            (Some('\n') | None, None) => {
                let is_empty = fields.is_empty() && !is_quoted && field.trim().is_empty();
                fields.push(std::mem::take(&mut field));
                let fields = std::mem::take(&mut fields);
                if !is_empty {
                    records.push((begin, fields));
                }
                if next.is_none() {
                    return Ok(records);
                }
                line += 1;
                (begin, is_quoted) = (line, false);
            }
            (Some(other), None) => field.push(other),
        }
    }
}

/// Numbers and texts in single quotes, with commas between.
fn arguments(text: &str) -> Result<Vec<Argument>, String> {
    let mut found = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let (argument, after) = if let Some(quoted) = rest.strip_prefix('\'') {
            let end = quoted
                .find('\'')
                .ok_or_else(|| format!("the text '{quoted} has no end: ' is missing"))?;
            (Argument::Text(quoted[..end].to_string()), &quoted[end + 1..])
        } else {
            let end = rest.find(',').unwrap_or(rest.len());
            let word = rest[..end].trim().replace('_', "");
            let number = word
                .parse()
                .map_err(|_| format!("'{word}' is neither a number nor a text in single quotes"))?;
            (Argument::Number(number), &rest[end..])
        };
        found.push(argument);
        rest = after.trim_start();
        match rest.strip_prefix(',') {
            Some(after) => rest = after.trim_start(),
            None if rest.is_empty() => {}
            None => return Err(format!("a comma is missing before '{rest}'")),
        }
    }
    Ok(found)
}

fn number(name: &str, arguments: &[Argument], place: usize) -> Result<f64, String> {
    match arguments.get(place) {
        Some(Argument::Number(value)) => Ok(*value),
        Some(Argument::Text(text)) => Err(format!("{name}: '{text}' is a text; a number is allowed there")),
        None => Err(format!("{name} needs {} numbers; allowed: {ALLOWED}", place + 1)),
    }
}

fn whole(name: &str, arguments: &[Argument], place: usize, default: Option<f64>) -> Result<i64, String> {
    let value = match (arguments.get(place), default) {
        (None, Some(default)) => default,
        _ => number(name, arguments, place)?,
    };
    if value.fract() != 0.0 || value.abs() > 9e15 {
        return Err(format!("{name}: {value} is no whole number"));
    }
    Ok(value as i64)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::PathBuf;

    use dyno_core::random::Domain;

    use super::*;

    fn rule(text: &str) -> Result<Rule, String> {
        Rule::parse(text, Path::new("."), &Sources::default())
    }

    #[test]
    fn every_rule_draws_what_it_names() {
        let mut stream = RandomStream::of(1, Domain::Operation, 1);
        let mut draw = |text: &str| rule(text).unwrap().draw(&mut stream, None);
        for _ in 0..100 {
            assert!(matches!(draw("uniform(5, 9)"), Drawn::Integer(5..=9)));
            assert!(matches!(draw("zipfian(-3, 3, 0.9)"), Drawn::Integer(-3..=3)));
            assert!(matches!(draw("string(2, 4)"), Drawn::Text(text) if (2..=4).contains(&text.len())));
            assert!(matches!(draw("normal(10, 0)"), Drawn::Double(value) if value == 10.0));
        }
        assert_eq!(draw("choice('a')"), Drawn::Text(b"a".to_vec()));
        let sequence = rule("sequence(10, 5)").unwrap();
        let next = || sequence.draw(&mut RandomStream::of(1, Domain::Row, 1), None);
        assert_eq!((next(), next()), (Drawn::Integer(10), Drawn::Integer(15)));
        assert_eq!(
            sequence.draw(&mut RandomStream::of(1, Domain::Row, 1), Some(3)),
            Drawn::Integer(25)
        );
    }

    #[test]
    fn a_cycle_begins_again_after_its_last_value() {
        let cycle = rule("cycle(3, 5)").unwrap();
        let mut stream = RandomStream::of(1, Domain::Row, 1);
        let mut draw = |row| cycle.draw(&mut stream, row);
        let drawn: Vec<Drawn> = (0..4).map(|_| draw(None)).collect();
        assert_eq!(drawn, [3, 4, 5, 3].map(Drawn::Integer));
        let rows: Vec<Drawn> = [0, 1, 2, 3, 40].into_iter().map(|row| draw(Some(row))).collect();
        assert_eq!(rows, [3, 4, 5, 3, 4].map(Drawn::Integer));
        assert!(rule("cycle(5, 3)").unwrap_err().contains("must not be below"));
    }

    #[test]
    fn a_rule_that_is_none_is_answered_with_what_is_allowed() {
        assert!(rule("unifrom(1, 2)").unwrap_err().contains("allowed: uniform"));
        assert!(rule("uniform(9, 1)").unwrap_err().contains("must not be below"));
        assert!(rule("uniform(1)").unwrap_err().contains("needs 2 numbers"));
        assert!(rule("uniform(1, 'x')").unwrap_err().contains("is a text"));
        assert!(rule("uniform(1 2)").unwrap_err().contains("neither a number"));
        assert!(rule("csv('nowhere.csv', 'x')").unwrap_err().contains("cannot be read"));
        assert!(rule("7").unwrap_err().contains("is no rule"));
    }

    #[test]
    fn fields_of_csv_may_have_commas_quotes_and_line_breaks() {
        let fields = |text: &str| records(text).unwrap().pop().unwrap().1;
        assert_eq!(fields("a,\"b, c\",\"d \"\"e\"\"\""), ["a", "b, c", "d \"e\""]);
        assert_eq!(fields("5\" pipe,\n"), ["5\" pipe", ""]);
        let read = |text: &str| {
            let sources = Sources::from(BTreeMap::from([(PathBuf::from("./x.csv"), text.to_string())]));
            Rule::parse("csv('x.csv', 'name')", Path::new("."), &sources)
        };
        // As spreadsheet programs write it.
        for text in ["\u{feff}name,x\r\n\"a\nb\",1", "x,name\n\n1,\"a\nb\"\n \n"] {
            let rule = read(text).unwrap();
            assert!(
                matches!(&rule, Rule::Choice(values) if values[..] == [Drawn::Text(b"a\nb".to_vec())]),
                "{rule:?}"
            );
        }
        let error = read("x,name\n1,\"a\nb\"\n2\n").unwrap_err();
        assert!(
            error.contains("line 4 has 1 fields, and the first line has 2"),
            "{error}"
        );
        let error = read("id,name\n1, \"x, y\"\n").unwrap_err();
        assert!(
            error.contains("line 2 has 3 fields, and the first line has 2"),
            "{error}"
        );
        let error = read("x,name\n1,a\n2,\"b\n3,c\n").unwrap_err();
        assert!(error.contains("line 3: a field in quotes"), "{error}");
    }

    #[test]
    fn a_text_is_escaped_as_a_literal() {
        let mut out = Vec::new();
        Drawn::Text(b"it's".to_vec()).write(&mut out);
        assert_eq!(out, b"'it\\'s'");
    }
}
