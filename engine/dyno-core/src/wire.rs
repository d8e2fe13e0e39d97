//! The wire format of the engine's programs: versioned JSON lines.
//!
//! The first line is the header (`"record":"header"`, with `format`, `format_version`, `program`, `version`); every
//! further line is one record, named by its `record` key. A reader refuses a `format_version` it does not know and
//! ignores keys it does not know. Numbers carry their unit in their key; what is not available is absent, never 0.

use std::io::{self, Write};

use serde::Serialize;

/// Who writes the stream, and in which version of its format.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Format {
    /// Name of the format, such as `dynoload` or `dynoprobe`.
    pub format: &'static str,
    /// Version of the format; raised when a key changes its meaning or goes away.
    pub format_version: u32,
    /// Name of the program that writes.
    pub program: &'static str,
    /// Version of the program that writes.
    pub version: &'static str,
}

#[derive(Serialize)]
struct HeaderLine<'a, H: Serialize> {
    record: &'static str,
    #[serde(flatten)]
    format: Format,
    #[serde(flatten)]
    header: &'a H,
}

#[derive(Serialize)]
struct RecordLine<'a, R: Serialize> {
    record: &'a str,
    #[serde(flatten)]
    body: &'a R,
}

/// Writes a header, then one record a line; each line is flushed when it is complete, so a reader can follow a live run.
#[derive(Debug)]
pub struct LineWriter<W: Write> {
    writer: W,
    line: Vec<u8>,
}

impl<W: Write> LineWriter<W> {
    /// Starts a stream with its header line. `header` must serialize as a map (a struct), without the keys of [`Format`].
    ///
    /// # Errors
    /// When the header is not a map, or the writer fails.
    pub fn start<H: Serialize>(writer: W, format: Format, header: &H) -> io::Result<Self> {
        let mut lines = Self {
            writer,
            line: Vec::with_capacity(1024),
        };
        lines.write_line(&HeaderLine {
            record: "header",
            format,
            header,
        })?;
        Ok(lines)
    }

    /// Writes one record under its name. `body` must serialize as a map (a struct), without the key `record`.
    ///
    /// # Errors
    /// When the body is not a map, or the writer fails.
    pub fn record<R: Serialize>(&mut self, name: &str, body: &R) -> io::Result<()> {
        self.write_line(&RecordLine { record: name, body })
    }

    /// Gives the writer back.
    pub fn into_inner(self) -> W {
        self.writer
    }

    fn write_line<T: Serialize>(&mut self, value: &T) -> io::Result<()> {
        self.line.clear();
        serde_json::to_writer(&mut self.line, value)?;
        self.line.push(b'\n');
        self.writer.write_all(&self.line)?;
        self.writer.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize)]
    struct Sample {
        t_s: f64,
        #[serde(skip_serializing_if = "Option::is_none")]
        rss_bytes: Option<u64>,
    }

    const FORMAT: Format = Format {
        format: "test",
        format_version: 1,
        program: "tester",
        version: "0.0.1",
    };

    #[test]
    fn each_record_is_one_line_after_the_header_and_the_absent_stays_absent() {
        let mut lines = LineWriter::start(Vec::new(), FORMAT, &serde_json::json!({"host": "a"})).unwrap();
        lines
            .record(
                "sample",
                &Sample {
                    t_s: 1.5,
                    rss_bytes: None,
                },
            )
            .unwrap();
        let text = String::from_utf8(lines.into_inner()).unwrap();
        assert_eq!(
            text,
            "{\"record\":\"header\",\"format\":\"test\",\"format_version\":1,\"program\":\"tester\",\
             \"version\":\"0.0.1\",\"host\":\"a\"}\n{\"record\":\"sample\",\"t_s\":1.5}\n"
        );
    }

    #[test]
    fn a_header_that_is_not_a_map_is_an_error() {
        assert!(LineWriter::start(Vec::new(), FORMAT, &3).is_err());
    }
}
