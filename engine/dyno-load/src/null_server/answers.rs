//! The null server's packets. Source: the MySQL manual's source documentation, "Connection Phase" and "COM_QUERY Response".

const PROTOCOL_41: u32 = 0x200;
const TRANSACTIONS: u32 = 0x2000;
const SECURE_CONNECTION: u32 = 0x8000;
const LONG_PASSWORD: u32 = 1;
const CONNECT_WITH_DB: u32 = 8;
const PLUGIN_AUTH: u32 = 0x8_0000;
const DEPRECATE_EOF: u32 = 0x100_0000;
const AUTOCOMMIT: u16 = 2;
const VAR_STRING: u8 = 0xfd;
const VERSION: &str = concat!("8.0.0-dynoload-null-", env!("CARGO_PKG_VERSION"));

/// What an answer looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// OK with this many rows changed.
    Ok {
        /// Rows changed.
        affected_rows: u8,
    },
    /// A result set of one column.
    Rows {
        /// Number of rows.
        rows: u32,
        /// Bytes of each value.
        value_bytes: u8,
    },
}

impl Shape {
    /// The answer's shape for a statement: what the OLTP workloads expect with their defaults.
    pub fn of(sql: &str) -> Self {
        let sql = sql.trim_start();
        let starts = |word: &str| {
            sql.get(..word.len())
                .is_some_and(|start| start.eq_ignore_ascii_case(word))
        };
        if starts("SELECT") {
            let lower = sql.to_ascii_lowercase();
            let aggregate = ["sum(", "count(", "max("].iter().any(|name| lower.contains(name));
            let rows = match (aggregate, lower.contains("between"), lower.contains(" in (")) {
                (true, _, _) => 1,
                (_, true, _) => 100,
                (_, _, true) => 10,
                _ => 1,
            };
            return Self::Rows {
                rows,
                value_bytes: if aggregate { 8 } else { 119 },
            };
        }
        let changes = ["UPDATE", "DELETE", "INSERT"].iter().any(|word| starts(word));
        Self::Ok {
            affected_rows: u8::from(changes),
        }
    }
}

fn packet(out: &mut Vec<u8>, sequence: u8, payload: impl FnOnce(&mut Vec<u8>)) {
    let at = out.len();
    out.extend_from_slice(&[0, 0, 0, sequence]);
    payload(out);
    let length = (out.len() - at - 4) as u32;
    out[at..at + 3].copy_from_slice(&length.to_le_bytes()[..3]);
}

/// The first packet of a connection.
pub fn greeting(out: &mut Vec<u8>, connection: u32) {
    let capabilities =
        LONG_PASSWORD | CONNECT_WITH_DB | PROTOCOL_41 | TRANSACTIONS | SECURE_CONNECTION | PLUGIN_AUTH | DEPRECATE_EOF;
    packet(out, 0, |out| {
        out.push(10);
        out.extend_from_slice(VERSION.as_bytes());
        out.push(0);
        out.extend_from_slice(&connection.to_le_bytes());
        out.extend_from_slice(b"12345678\0");
        out.extend_from_slice(&(capabilities as u16).to_le_bytes());
        out.push(45);
        out.extend_from_slice(&AUTOCOMMIT.to_le_bytes());
        out.extend_from_slice(&((capabilities >> 16) as u16).to_le_bytes());
        out.push(21);
        out.extend_from_slice(&[0; 10]);
        out.extend_from_slice(b"123456789012\0mysql_native_password\0");
    });
}

/// An OK packet.
pub fn ok(out: &mut Vec<u8>, sequence: u8, affected_rows: u8) {
    packet(out, sequence, |out| {
        out.extend_from_slice(&[0, affected_rows, 0, AUTOCOMMIT as u8, 0, 0, 0])
    });
}

fn end_of_rows(out: &mut Vec<u8>, sequence: u8) {
    packet(out, sequence, |out| {
        out.extend_from_slice(&[0xfe, 0, 0, AUTOCOMMIT as u8, 0, 0, 0])
    });
}

fn column(out: &mut Vec<u8>, sequence: u8, name: &str) {
    packet(out, sequence, |out| {
        for text in ["def", "", "", "", name, name] {
            out.push(text.len() as u8);
            out.extend_from_slice(text.as_bytes());
        }
        out.push(0x0c);
        out.extend_from_slice(&45u16.to_le_bytes());
        out.extend_from_slice(&480u32.to_le_bytes());
        out.extend_from_slice(&[VAR_STRING, 0, 0, 0, 0, 0]);
    });
}

/// The answer to COM_STMT_PREPARE.
pub fn prepared(out: &mut Vec<u8>, number: u32, shape: Shape, parameters: u16) {
    let columns = u16::from(matches!(shape, Shape::Rows { .. }));
    packet(out, 1, |out| {
        out.push(0);
        out.extend_from_slice(&number.to_le_bytes());
        out.extend_from_slice(&columns.to_le_bytes());
        out.extend_from_slice(&parameters.to_le_bytes());
        out.extend_from_slice(&[0, 0, 0]);
    });
    let mut sequence = 2u8;
    for _ in 0..parameters {
        column(out, sequence, "?");
        sequence = sequence.wrapping_add(1);
    }
    if columns > 0 {
        column(out, sequence, "c");
    }
}

/// The answer to COM_STMT_EXECUTE.
pub fn binary(out: &mut Vec<u8>, shape: Shape) {
    // A binary row starts with its marker and the bitmap of NULL values.
    answer(out, shape, &[0, 0]);
}

fn answer(out: &mut Vec<u8>, shape: Shape, row_start: &[u8]) {
    match shape {
        Shape::Ok { affected_rows } => ok(out, 1, affected_rows),
        Shape::Rows { rows, value_bytes } => {
            packet(out, 1, |out| out.push(1));
            column(out, 2, "c");
            let mut sequence = 3u8;
            for _ in 0..rows {
                packet(out, sequence, |out| {
                    out.extend_from_slice(row_start);
                    out.push(value_bytes);
                    out.resize(out.len() + usize::from(value_bytes), b'7');
                });
                sequence = sequence.wrapping_add(1);
            }
            end_of_rows(out, sequence);
        }
    }
}

/// The answer to COM_QUERY: known questions of the control connection get a value, all others their shape.
pub fn query(out: &mut Vec<u8>, sql: &str) {
    let lower = sql.to_ascii_lowercase();
    let value = if lower.contains("@@version_comment") {
        Some("dynoload null server, not a database")
    } else if lower.contains("@@version") {
        Some(VERSION)
    } else if lower.contains("@@max_") {
        Some("1000000")
    } else if lower.starts_with("select max(id)") {
        Some("2147483647")
    } else {
        None
    };
    match value {
        Some(value) => {
            packet(out, 1, |out| out.push(1));
            column(out, 2, "v");
            packet(out, 3, |out| {
                out.push(value.len() as u8);
                out.extend_from_slice(value.as_bytes());
            });
            end_of_rows(out, 4);
        }
        None if lower.starts_with("show") => {
            packet(out, 1, |out| out.push(1));
            column(out, 2, "v");
            end_of_rows(out, 3);
        }
        None => answer(out, Shape::of(sql), &[]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_of_the_workloads_get_answers_of_their_shape() {
        assert_eq!(
            Shape::of("SELECT c FROM sbtest1 WHERE id=?"),
            Shape::Rows {
                rows: 1,
                value_bytes: 119
            }
        );
        assert_eq!(
            Shape::of("SELECT c FROM sbtest1 WHERE id BETWEEN ? AND ?"),
            Shape::Rows {
                rows: 100,
                value_bytes: 119
            }
        );
        assert_eq!(
            Shape::of("SELECT SUM(k) FROM sbtest1 WHERE id BETWEEN ? AND ?"),
            Shape::Rows {
                rows: 1,
                value_bytes: 8
            }
        );
        assert_eq!(Shape::of("BEGIN"), Shape::Ok { affected_rows: 0 });
        assert_eq!(
            Shape::of("UPDATE sbtest1 SET k=k+1 WHERE id=?"),
            Shape::Ok { affected_rows: 1 }
        );
    }
}
