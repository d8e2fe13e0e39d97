//! Redo: where each server says how far its log and its last checkpoint are.
//!
//! What a server has is tried, not looked up by version, in this order (reference: the servers' log0log.cc and
//! ha_innodb.cc):
//! 1. `Innodb_redo_log_current_lsn`, `_checkpoint_lsn`: MySQL from 8.0.30;
//! 2. `Innodb_checkpoint_age`: MariaDB from 10.5, Percona Server 5.5 to 5.7;
//! 3. INNODB_METRICS `log_lsn_current`, `log_lsn_last_checkpoint`: MySQL 5.6 to 8.0.29, when enabled (a disabled one reads 0);
//! 4. the text of SHOW ENGINE INNODB STATUS: all, from 5.5 on; needs the privilege PROCESS.

use super::Version;
use crate::mysql::{Server, Table};
use crate::text::{labelled, lines, lossy, number};

/// Status variables that hold redo positions on some server.
pub const VARIABLES: [&str; 8] = [
    "Innodb_checkpoint_age",
    "Innodb_checkpoint_max_age",
    "Innodb_history_list_length",
    "Innodb_lsn_current",
    "Innodb_lsn_last_checkpoint",
    "Innodb_redo_log_capacity_resized",
    "Innodb_redo_log_checkpoint_lsn",
    "Innodb_redo_log_current_lsn",
];

/// Which source is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RedoSource {
    /// `Innodb_redo_log_*`.
    RedoLogVariables,
    /// `Innodb_checkpoint_age`, `Innodb_lsn_current`.
    CheckpointAgeVariables,
    /// INFORMATION_SCHEMA.INNODB_METRICS.
    InnodbMetrics,
    /// SHOW ENGINE INNODB STATUS.
    EngineStatus,
}

impl RedoSource {
    /// Words for the header.
    pub fn name(self) -> &'static str {
        match self {
            Self::RedoLogVariables => "SHOW GLOBAL STATUS: Innodb_redo_log_current_lsn, Innodb_redo_log_checkpoint_lsn",
            Self::CheckpointAgeVariables => "SHOW GLOBAL STATUS: Innodb_checkpoint_age, Innodb_lsn_current",
            Self::InnodbMetrics => "INFORMATION_SCHEMA.INNODB_METRICS: log_lsn_current, log_lsn_last_checkpoint",
            Self::EngineStatus => "SHOW ENGINE INNODB STATUS",
        }
    }
}

/// Redo at one moment.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Redo {
    /// Log sequence number.
    pub lsn_current: Option<u64>,
    /// Bytes from the last checkpoint to the log sequence number.
    pub checkpoint_age: Option<u64>,
    /// The age at which writes wait for a checkpoint.
    pub checkpoint_max_age: Option<u64>,
    /// Size of the redo log.
    pub capacity: Option<u64>,
    /// Length of the history list, where the source has it.
    pub history_list_length: Option<u64>,
}

/// Reads redo from the source that a server has.
#[derive(Debug)]
pub struct RedoReader {
    /// The source; none when the server shows its redo nowhere, with the reason.
    pub source: Result<RedoSource, String>,
    max_age: Option<u64>,
    capacity: Option<u64>,
    /// What the two above were read for: the log's size can change while the server runs.
    sized_for: Option<u64>,
}

const METRICS: &str = "SELECT * FROM INFORMATION_SCHEMA.INNODB_METRICS WHERE NAME IN \
                       ('log_lsn_current', 'log_lsn_last_checkpoint')";
const MAXIMUM: &str = "SELECT * FROM INFORMATION_SCHEMA.INNODB_METRICS WHERE NAME = 'log_max_modified_age_sync'";
const ENGINE_STATUS: &str = "SHOW ENGINE INNODB STATUS";
const SETTINGS: &str = "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('innodb_log_file_size', \
                        'innodb_log_files_in_group', 'innodb_page_size', 'innodb_thread_concurrency')";

impl RedoReader {
    /// Tries the sources. `status` gives a status variable of the first reading.
    pub fn choose(server: &mut dyn Server, version: &Version, status: &dyn Fn(&str) -> Option<u64>) -> Self {
        let source = choose_source(server, status);
        let mut reader = Self {
            source,
            max_age: None,
            capacity: None,
            sized_for: None,
        };
        reader.read_size(server, version, status);
        reader
    }

    /// Redo now.
    ///
    /// # Errors
    /// What the server answers to the statement that the source needs.
    pub fn read(
        &mut self,
        server: &mut dyn Server,
        version: &Version,
        status: &dyn Fn(&str) -> Option<u64>,
    ) -> Result<Redo, String> {
        if size_key(status) != self.sized_for {
            self.read_size(server, version, status);
        }
        let history_list_length = status("Innodb_history_list_length");
        let sized = Redo {
            checkpoint_max_age: self.max_age,
            capacity: self.capacity,
            history_list_length,
            ..Redo::default()
        };
        let Ok(source) = &self.source else {
            return Ok(sized);
        };
        Ok(match source {
            RedoSource::RedoLogVariables => sized.at(
                status("Innodb_redo_log_current_lsn"),
                status("Innodb_redo_log_checkpoint_lsn"),
            ),
            RedoSource::CheckpointAgeVariables => Redo {
                lsn_current: status("Innodb_lsn_current"),
                checkpoint_age: status("Innodb_checkpoint_age"),
                ..sized
            },
            RedoSource::InnodbMetrics => {
                let metrics = server.query(METRICS)?;
                sized.at(
                    enabled(&metrics, "log_lsn_current"),
                    enabled(&metrics, "log_lsn_last_checkpoint"),
                )
            }
            RedoSource::EngineStatus => {
                let text = parse_status(&engine_text(&server.query(ENGINE_STATUS)?));
                let history_list_length = history_list_length.or(text.history_list_length);
                Redo {
                    history_list_length,
                    ..sized.at(text.lsn_current, text.lsn_checkpoint)
                }
            }
        })
    }

    /// The log's size and the greatest age. A server that does not report them leaves them absent.
    fn read_size(&mut self, server: &mut dyn Server, version: &Version, status: &dyn Fn(&str) -> Option<u64>) {
        self.sized_for = size_key(status);
        let capacity_now = status("Innodb_redo_log_capacity_resized");
        if capacity_now.is_some() {
            self.capacity = capacity_now;
            self.max_age = server
                .query(MAXIMUM)
                .ok()
                .and_then(|table| enabled(&table, "log_max_modified_age_sync"));
            return;
        }
        let settings = Settings::read(server);
        self.capacity = settings.as_ref().map(Settings::capacity);
        self.max_age = status("Innodb_checkpoint_max_age").or_else(|| {
            let old = version.is_mysql_before((8, 0, 0));
            settings
                .filter(|_| old)
                .and_then(|settings| settings.max_checkpoint_age())
        });
    }
}

impl Redo {
    fn at(self, current: Option<u64>, checkpoint: Option<u64>) -> Self {
        // Two numbers read one after the other: a checkpoint just made may be ahead of the position read before it.
        let age = current
            .zip(checkpoint)
            .map(|(current, checkpoint)| current.saturating_sub(checkpoint));
        Self {
            lsn_current: current,
            checkpoint_age: age,
            ..self
        }
    }
}

fn size_key(status: &dyn Fn(&str) -> Option<u64>) -> Option<u64> {
    status("Innodb_redo_log_capacity_resized").or_else(|| status("Innodb_checkpoint_max_age"))
}

fn choose_source(server: &mut dyn Server, status: &dyn Fn(&str) -> Option<u64>) -> Result<RedoSource, String> {
    if status("Innodb_redo_log_current_lsn").is_some() && status("Innodb_redo_log_checkpoint_lsn").is_some() {
        return Ok(RedoSource::RedoLogVariables);
    }
    if status("Innodb_checkpoint_age").is_some() {
        return Ok(RedoSource::CheckpointAgeVariables);
    }
    // MySQL 5.5 has no such table, which is an error and not the end.
    if let Ok(metrics) = server.query(METRICS) {
        if enabled(&metrics, "log_lsn_current").is_some() && enabled(&metrics, "log_lsn_last_checkpoint").is_some() {
            return Ok(RedoSource::InnodbMetrics);
        }
    }
    let text = server.query(ENGINE_STATUS)?;
    let status = parse_status(&engine_text(&text));
    match (status.lsn_current, status.lsn_checkpoint) {
        (Some(_), Some(_)) => Ok(RedoSource::EngineStatus),
        _ => Err("SHOW ENGINE INNODB STATUS has no log sequence numbers; is InnoDB disabled?".into()),
    }
}

/// COUNT of an enabled metric. MySQL has a column STATUS, MariaDB from 10.5 on ENABLED; a disabled metric's COUNT is 0,
/// which is not its value.
fn enabled(metrics: &Table, name: &str) -> Option<u64> {
    let row = metrics
        .rows
        .iter()
        .find(|row| row.iter().flatten().any(|value| value == name.as_bytes()))?;
    let value = |column: &str| row.get(metrics.column(column)?)?.as_deref();
    let on = value("STATUS") == Some(b"enabled") || value("ENABLED") == Some(b"1");
    number(value("COUNT")?).filter(|_| on)
}

fn engine_text(table: &Table) -> Vec<u8> {
    let column = table.column("Status").unwrap_or(2);
    table.first(column).unwrap_or_default().to_vec()
}

struct Settings {
    log_file_bytes: u64,
    log_files: u64,
    page_bytes: u64,
    thread_concurrency: u64,
}

impl Settings {
    fn read(server: &mut dyn Server) -> Option<Self> {
        let table = server.query(SETTINGS).ok()?;
        let setting = |name: &str| {
            let row = table
                .rows
                .iter()
                .find(|row| row.first().is_some_and(|cell| is(cell.as_deref(), name)))?;
            number(row.get(1)?.as_deref()?)
        };
        Some(Self {
            log_file_bytes: setting("innodb_log_file_size")?,
            // MariaDB has one file and no longer the variable.
            log_files: setting("innodb_log_files_in_group").unwrap_or(1),
            // MySQL 5.5 has 16 KiB pages and no variable for it.
            page_bytes: setting("innodb_page_size").unwrap_or(16384),
            thread_concurrency: setting("innodb_thread_concurrency").unwrap_or(0),
        })
    }

    fn capacity(&self) -> u64 {
        self.log_file_bytes.saturating_mul(self.log_files)
    }

    /// `log_calc_max_ages()` of MySQL 5.5 to 5.7 (log0log.c, log0log.cc): two tenths and a reserve for running threads
    /// are kept.
    fn max_checkpoint_age(&self) -> Option<u64> {
        const FILE_HEADER_BYTES: u64 = 2048;
        let room = self
            .log_file_bytes
            .checked_sub(FILE_HEADER_BYTES)?
            .checked_mul(self.log_files)?;
        let room = room - room / 10;
        let threads = self.thread_concurrency.checked_add(10)?;
        let reserve = self.page_bytes.checked_mul(threads.checked_mul(4)?.checked_add(8)?)?;
        let margin = room.checked_sub(reserve)?;
        Some(margin - margin / 10)
    }
}

fn is(cell: Option<&[u8]>, name: &str) -> bool {
    cell.is_some_and(|cell| lossy(cell).eq_ignore_ascii_case(name))
}

// The text of `SHOW ENGINE INNODB STATUS`, parsed by labels: columns and the number of lines differ from version to
// version.
//
// MySQL 5.5 has three LSN lines, 5.6 to 5.7 and MariaDB four, 8.0 eight and more, some builds with capacity lines
// first.

/// What is taken from the text.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct EngineStatus {
    /// `Log sequence number`.
    pub lsn_current: Option<u64>,
    /// `Last checkpoint at`.
    pub lsn_checkpoint: Option<u64>,
    /// `History list length`.
    pub history_list_length: Option<u64>,
}

/// Parses the text.
pub fn parse_status(text: &[u8]) -> EngineStatus {
    // Statements of clients stand in the sections before LOG and may hold anything, so the last LOG heading is the true
    // one.
    let log = last_section(text, b"---\nLOG\n---\n");
    let transactions = last_section(text, b"------------\nTRANSACTIONS\n------------\n");
    EngineStatus {
        lsn_current: find(log, b"Log sequence number"),
        lsn_checkpoint: find(log, b"Last checkpoint at"),
        history_list_length: find(transactions, b"History list length"),
    }
}

fn last_section<'t>(text: &'t [u8], heading: &[u8]) -> &'t [u8] {
    let start = text.windows(heading.len()).rposition(|window| window == heading);
    start.map_or(&[], |start| &text[start + heading.len()..])
}

fn find(section: &[u8], label: &[u8]) -> Option<u64> {
    lines(section).find_map(|line| labelled(line, label))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_greatest_age_of_old_servers_is_about_four_fifths_of_the_log() {
        // 2 × 48 MiB, 16 KiB pages, no limit on concurrency: MySQL 5.6's defaults.
        let settings = Settings {
            log_file_bytes: 50_331_648,
            log_files: 2,
            page_bytes: 16384,
            thread_concurrency: 0,
        };
        assert_eq!(settings.capacity(), 100_663_296);
        assert_eq!(settings.max_checkpoint_age(), Some(80_826_164));
    }

    #[test]
    fn a_log_smaller_than_the_reserve_has_no_greatest_age() {
        let settings = Settings {
            log_file_bytes: 4096,
            log_files: 1,
            page_bytes: 16384,
            thread_concurrency: 900,
        };
        assert_eq!(settings.max_checkpoint_age(), None);
    }

    fn text(transactions: &str, log: &str) -> String {
        format!(
            "=====\n------------\nTRANSACTIONS\n------------\nTrx id counter 15\nHistory list length 7\n{transactions}\
             --------\nFILE I/O\n--------\nx\n---\nLOG\n---\n{log}----------------------\nBUFFER POOL AND MEMORY\n"
        )
    }

    fn check(log: &str, current: u64, checkpoint: u64) {
        let status = parse_status(text("", log).as_bytes());
        assert_eq!(
            (status.lsn_current, status.lsn_checkpoint),
            (Some(current), Some(checkpoint))
        );
        assert_eq!(status.history_list_length, Some(7));
    }

    #[test]
    fn the_log_section_of_each_version_is_understood() {
        // MySQL 5.5 (log0log.c)
        check("Log sequence number 1595675\nLog flushed up to   1595675\nLast checkpoint at  1595600\n0 pending log writes\n", 1_595_675, 1_595_600);
        // MySQL 5.6, 5.7, MariaDB 10.11
        check("Log sequence number 44760\nLog flushed up to   44760\nPages flushed up to 44404\nLast checkpoint at  44404\n", 44_760, 44_404);
        // MySQL 8.0.30 and later (log0log.cc)
        let modern = "Log sequence number          30009887\nLog buffer assigned up to    30009887\nLog buffer completed up to   30009887\n\
                      Log written up to            30009887\nLog flushed up to            30009887\nAdded dirty pages up to      30009887\n\
                      Pages flushed up to          30009880\nLast checkpoint at           30009880\nLog minimum file id is       8\n\
                      Log maximum file id is       8\n";
        check(modern, 30_009_887, 30_009_880);
        // Builds that begin the section with the capacity
        check(
            &format!("Log capacity                 104857600\nLog capacity used            7\n{modern}"),
            30_009_887,
            30_009_880,
        );
    }

    #[test]
    fn a_statement_that_looks_like_the_log_section_is_not_taken_for_it() {
        let fake = "SELECT '\n---\nLOG\n---\nLog sequence number 1\nLast checkpoint at 1\n'\n";
        let status = parse_status(text(fake, "Log sequence number 9\nLast checkpoint at 5\n").as_bytes());
        assert_eq!((status.lsn_current, status.lsn_checkpoint), (Some(9), Some(5)));
    }

    #[test]
    fn other_text_gives_nothing() {
        assert_eq!(parse_status(b"Log sequence number 5\n"), EngineStatus::default());
        assert_eq!(parse_status(b""), EngineStatus::default());
    }
}
