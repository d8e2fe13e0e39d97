//! Captures of the performance_schema of a running server: its last statements, or one of each digest.

use dyno_capture::{Capture, History, HistoryRow, Source, DIGEST_COLUMNS, HISTORY_COLUMNS};
use dyno_mysql::blocking::Client;
use dyno_mysql::session_state::OWN_STATE;

use crate::error::Error;
use crate::spec::ConnectionSpec;
use crate::sql::server::{connect, failed};

/// A history needs the consumer of current statements too.
const CONSUMERS: &str = "SELECT MIN(ENABLED) FROM performance_schema.setup_consumers WHERE NAME IN \
                         ('events_statements_current', 'events_statements_history_long')";
/// Whether digests have samples, and are counted.
const SAMPLES: &str = "SELECT COUNT(*) FROM information_schema.columns WHERE TABLE_SCHEMA = 'performance_schema' AND \
                       TABLE_NAME = 'events_statements_summary_by_digest' AND COLUMN_NAME = 'QUERY_SAMPLE_TEXT' AND \
                       @@performance_schema = 1";
/// Bytes of a text that are kept where the server has no variable for it.
const DEFAULT_LONGEST_TEXT: usize = 1024;

/// Reads all rows of events_statements_history_long but those of its own connection.
///
/// # Errors
/// When the server is away, or keeps no history, with what to set.
pub fn capture_history(connection: &ConnectionSpec, autocommit: Option<bool>) -> Result<Capture, Error> {
    let options = connection.options(false, Some(OWN_STATE))?;
    let mut client = connect(&options)?;
    check_consumer(&mut client)?;
    let mut ask = |question: &str| client.query_text(question).map_err(|error| failed(question, &error));
    let version = ask("SELECT @@version")?.unwrap_or_default();
    let longest = ask("SELECT @@performance_schema_max_sql_text_length").ok().flatten();
    let longest = longest
        .and_then(|text| text.parse().ok())
        .unwrap_or(DEFAULT_LONGEST_TEXT);
    let question = format!(
        "SELECT {HISTORY_COLUMNS} FROM performance_schema.events_statements_history_long WHERE THREAD_ID NOT IN (SELECT \
         THREAD_ID FROM performance_schema.threads WHERE PROCESSLIST_ID = CONNECTION_ID())"
    );
    let result = client.query(&question).map_err(|error| failed(&question, &error))?;
    let mut history = History::new(&version, longest, Source::StatementsHistory);
    history.assume_autocommit(autocommit);
    for row in result.rows {
        history.push(history_row(row));
    }
    Ok(history.finish())
}

/// Reads a statement of each digest, with the number of its executions.
///
/// # Errors
/// When the server is away, or keeps no samples.
pub fn capture_digests(connection: &ConnectionSpec) -> Result<Capture, Error> {
    let mut client = connect(&connection.options(false, Some(OWN_STATE))?)?;
    let mut ask = |question: &str| client.query_text(question).map_err(|error| failed(question, &error));
    let version = ask("SELECT @@version")?.unwrap_or_default();
    let longest = ask("SELECT @@performance_schema_max_sql_text_length").ok().flatten();
    let has_samples = ask(SAMPLES)?.as_deref() == Some("1");
    let Some(longest) = longest.and_then(|text| text.parse().ok()).filter(|_| has_samples) else {
        return Err(Error::User(format!(
            "the server ({version}) keeps no samples of digests: MySQL does from 8.0 on, with performance_schema = ON; \
             use --history, or a log"
        )));
    };
    let question = format!(
        "SELECT {DIGEST_COLUMNS} FROM performance_schema.events_statements_summary_by_digest WHERE COUNT_STAR > 0 AND \
         DIGEST IS NOT NULL"
    );
    let result = client.query(&question).map_err(|error| failed(&question, &error))?;
    let mut digests = History::new(&version, longest, Source::StatementDigests);
    for row in result.rows {
        digests.push(history_row(row));
    }
    Ok(digests.finish())
}

fn check_consumer(client: &mut Client) -> Result<(), Error> {
    let enabled = client
        .query_text(CONSUMERS)
        .map_err(|error| failed(CONSUMERS, &error))?;
    match enabled.as_deref() {
        Some("YES") => Ok(()),
        Some(_) => Err(Error::User(
            "the server keeps no statements history: UPDATE performance_schema.setup_consumers SET ENABLED = 'YES' WHERE \
             NAME IN ('events_statements_current', 'events_statements_history_long')"
                .into(),
        )),
        None => Err(Error::User(
            "the server has no statements history: performance_schema is off, start it with performance_schema = ON"
                .into(),
        )),
    }
}

fn history_row(row: Vec<Option<Vec<u8>>>) -> HistoryRow {
    let mut values = row.into_iter();
    let mut text = || values.next().flatten();
    let string = |bytes: Option<Vec<u8>>| bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let number = |bytes: Option<Vec<u8>>| string(bytes).and_then(|text| text.parse().ok()).unwrap_or(0);
    HistoryRow {
        thread_id: number(text()),
        start_ps: number(text()),
        wait_ps: number(text()),
        schema: string(text()),
        text: text(),
        rows: number(text()),
        is_nested: text().is_some(),
        event_name: string(text()).unwrap_or_default(),
        count: string(text()).and_then(|text| text.parse().ok()),
    }
}
