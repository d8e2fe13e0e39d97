//! The commands on captures: `dynoload capture`, `replay`, `compare-replays`, `statements`.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::{Arg, Args, ValueEnum};
use dyno_capture::{
    is_charset, Assumed, Capture, History, HistoryRow, Selection, Source, DIGEST_COLUMNS, HISTORY_COLUMNS,
};
use dyno_mysql::blocking::Client;
use dyno_mysql::OWN_STATE;

use crate::error::{Error, Exit};
use crate::output::check_apart;
use crate::replay::{compare, ReplayRun};
use crate::spec::ConnectionSpec;
use crate::sql::server::{connect, failed};
use crate::{capture, replay};

const EXAMPLES: &str = "Examples:
  dynoload capture /var/log/mysql/general.log -o monday.capture
      MySQL and MariaDB write it with SET GLOBAL general_log = ON. It has the beginning of each connection.
  dynoload capture slow.log.1 slow.log -o monday.capture
      With SET GLOBAL slow_query_log = ON, long_query_time = 0. It has the duration and rows of each statement.
  dynoload capture monday.pcap -o monday.capture
      Where no log may be switched on: tcpdump -i any -s 0 -w monday.pcap port 3306. Only connections without TLS.
      Behind a proxy or where addresses are translated: one interface in place of any, or statements count twice.
  dynoload capture --history --socket /run/mysqld/mysqld.sock -o last.capture
      The last statements (10,000 by default) from performance_schema.events_statements_history_long.
  dynoload capture general.log --anonymise -o monday.capture
      Literals are replaced by pseudonyms of the same type: for showing to others, not for a replay on real data.

The kind of file is found out from its content. Rotated files are read in the order of their times.
docs/reference/capture.md describes the format of a capture.";

const USER: &str =
    "With log files: capture what these accounts did alone, as in app,report. With --history: account to \
                    connect as [default: root]";

/// Values of `--autocommit`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Autocommit {
    On,
    Off,
}

/// The options of `capture`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
#[command(mut_arg("database", |argument| argument.hide(true)))]
// Its place has --port below, of which a packet capture may have several.
#[command(mut_arg("port", |argument| argument.long("connection-port").hide(true)))]
#[command(mut_arg("user", |argument| argument.default_value("").hide_default_value(true).help(USER)))]
pub struct CaptureArguments {
    /// General logs, slow logs, or packets that tcpdump has written; also compressed by gzip, bzip2, xz or Zstandard
    #[arg(required_unless_present_any = ["history", "digests"], conflicts_with_all = ["history", "digests"])]
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Where the capture goes; - for standard output (the summary then goes to standard error)
    #[arg(long, short, value_name = "CAPTURE")]
    output: PathBuf,
    /// Read the statements history of a running server instead of files
    #[arg(long)]
    history: bool,
    /// Read one statement of each digest from a running MySQL (8.0 or later), with its number of executions: for
    /// `dynoload statements`
    #[arg(long, conflicts_with_all = ["history", "autocommit"])]
    digests: bool,
    /// With packets: ports of the servers, as in 3306,3307. With --history or --digests: the server's TCP port
    #[arg(long = "port", id = "ports", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..),
        default_value = "3306", conflicts_with = "socket", value_name = "PORT")]
    ports: Vec<u16>,
    /// Capture statements with these default schemas alone, or that name one of them; as in shop,crm
    #[arg(long, value_delimiter = ',', conflicts_with_all = ["history", "digests"])]
    schema: Vec<String>,
    /// The autocommit of sessions that do not set it: the server's own value. Default: what the log shows, on where it
    /// shows nothing
    #[arg(long)]
    autocommit: Option<Autocommit>,
    /// The character set of sessions in logs that do not set it, as in latin1: that of their client library. Default:
    /// utf8mb4. Packets have it
    #[arg(long, value_parser = charset, conflicts_with_all = ["history", "digests"])]
    charset: Option<String>,
    /// Replace strings, numbers and users by pseudonyms of the same type and length; leave out comments
    #[arg(long)]
    anonymise: bool,
    /// Dump of the tables (mysqldump --no-data): values of its ENUM and SET columns stay, as do those of tables that the
    /// log creates
    #[arg(long, requires = "anonymise", value_name = "DUMP")]
    definitions: Option<PathBuf>,
    /// File whose first 32 bytes are the key of the pseudonyms: captures made with the same key have the same ones.
    /// Default: random, kept nowhere
    #[arg(long, requires = "anonymise")]
    key_file: Option<PathBuf>,
    #[command(flatten)]
    connection: ConnectionSpec,
}

fn charset(text: &str) -> Result<String, String> {
    let name = text.to_ascii_lowercase();
    if is_charset(&name) {
        return Ok(name);
    }
    Err(format!(
        "'{text}' is no character set that a client can have; use one as latin1, cp1251 or utf8mb4"
    ))
}

fn selection(arguments: &CaptureArguments) -> Selection {
    let users = arguments.connection.user.split(',').filter(|name| !name.is_empty());
    Selection {
        users: users.map(str::to_string).collect(),
        schemas: arguments.schema.clone(),
    }
}

fn connection(arguments: &CaptureArguments) -> ConnectionSpec {
    let mut spec = arguments.connection.clone();
    if spec.user.is_empty() {
        spec.user = "root".into();
    }
    spec.port = arguments.ports.first().copied().unwrap_or(spec.port);
    spec
}

/// Makes a capture.
pub fn run(arguments: &CaptureArguments) -> Result<Exit, Error> {
    let others = [
        ("--definitions", &arguments.definitions),
        ("--key-file", &arguments.key_file),
    ];
    let mut inputs: Vec<(&str, &Path)> = arguments.files.iter().map(|path| ("FILE", path.as_path())).collect();
    inputs.extend(
        others
            .into_iter()
            .filter_map(|(name, path)| Some((name, path.as_deref()?))),
    );
    let output = arguments.output.as_path();
    for path in [output, &capture::unfinished(output)] {
        check_apart(&inputs, &[("--output", Some(path))])?;
    }
    let anonymiser = match arguments.anonymise {
        true => Some(capture::anonymiser(
            arguments.key_file.as_deref(),
            arguments.definitions.as_deref(),
        )?),
        false => None,
    };
    let autocommit = arguments.autocommit.map(|value| value == Autocommit::On);
    let mut captured = match arguments.history {
        _ if arguments.digests => capture_digests(&connection(arguments))?,
        true => capture_history(&connection(arguments), autocommit)?,
        false => {
            let charset = arguments.charset.clone();
            let assumed = Assumed { autocommit, charset };
            capture::capture_files(&arguments.files, &arguments.ports, selection(arguments), assumed)?
        }
    };
    if let Some(mut anonymiser) = anonymiser {
        capture::refuse_ansi_quotes(&captured)?;
        anonymiser.capture(&mut captured);
    }
    let output = arguments.output.display().to_string();
    let table = capture::table(&captured, &output);
    if captured.header.statements == 0 {
        dyno_core::streams::stderr().write_all(dyno_core::streams::visible(&table).as_bytes())?;
        return Err(Error::User(
            "there is no statement to capture; no file was written".into(),
        ));
    }
    capture::write(&captured, &arguments.output)?;
    if arguments.output == Path::new("-") {
        dyno_core::streams::stderr().write_all(dyno_core::streams::visible(&table).as_bytes())?;
    } else {
        dyno_core::streams::stdout().write_all(dyno_core::streams::visible(&table).as_bytes())?;
    }
    Ok(Exit::Done)
}

pub const REPLAY_EXAMPLES: &str = "Examples:
  dynoload replay monday.capture --socket /run/mysqld/mysqld.sock
      Each session connects, sends its statements and ends when it did in the capture.
  dynoload replay monday.capture --host new --read-only --speed 4 --results new.results
      Four times as fast, without statements that write; the result of each statement goes to a file.
  dynoload replay monday.capture --host copy --schema shop=shop_copy --speed max --json result.json
      As fast as each session goes, on a schema of another name.

A replay changes the data unless --read-only is set: use a copy, and restore it before each replay.
The password comes from --password-file or DYNO_PASSWORD. The table is on stdout, progress on stderr.
Exit codes: 0 VALID or SUSPECT, 2 wrong input, 3 cannot be done here, 4 INVALID (such as missing tables), 130 interrupted.";

/// `--database` of a replay.
pub fn default_schema(argument: Arg) -> Arg {
    argument
        .default_value("")
        .hide_default_value(true)
        .help("Default schema of sessions for which the capture has none")
}

/// Replays.
pub fn replay(mut run: ReplayRun) -> Result<Exit, Error> {
    run.selection.default_schema = Some(run.connection.database.clone()).filter(|name| !name.is_empty());
    replay::run(&run)
}

const COMPARE_ABOUT: &str = "Statements are compared one by one: error code, number of rows, a checksum of the rows that does not \
depend on their order, and with ORDER BY their order. Differences that may be on the same data are marked: with NOW(), RAND(), \
@@variables and the like, with LIMIT, ORDER BY or a window that leaves ties, with columns outside GROUP BY.

Exit codes: 0 the results are equal, but for marked ones; 2 wrong input; 4 results differ";

/// The options of `compare-replays`.
#[derive(Debug, Args)]
#[command(after_help = COMPARE_ABOUT)]
pub struct CompareArguments {
    /// Results of one replay, written with `dynoload replay --results`
    a: PathBuf,
    /// Results of another replay of the same capture
    b: PathBuf,
    /// Write the comparison as JSON lines to a file, or - for standard output (the table then goes to standard error)
    #[arg(long)]
    json: Option<PathBuf>,
}

/// Compares.
pub fn compare_replays(arguments: &CompareArguments) -> Result<Exit, Error> {
    compare::run(&arguments.a, &arguments.b, arguments.json.as_deref())
}

pub const STATEMENTS_EXAMPLES: &str = "Examples:
  dynoload statements monday.capture --server \"old --socket=/run/old.sock\" --server \"new --socket=/run/new.sock\"
      Each statement once on both servers for result, counters and plan, then again and again for 60 s.
  dynoload statements monday.capture --read-only --duration 10m --json compared.jsonl \\
      --server \"old --host=db1 --database=shop\" --server \"new --host=db2 --database=shop\"
      Without statements that write.

Options of a server: those of the connection, and --pid, its process on this host: with it the CPU time of each
statement is known. What writes is executed in a transaction that is rolled back; use a copy of the data nevertheless.
The password comes from --password-file or DYNO_PASSWORD.
Exit codes: 0 done, 2 wrong input, 3 cannot be done here, 130 interrupted.";

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
fn capture_history(connection: &ConnectionSpec, autocommit: Option<bool>) -> Result<Capture, Error> {
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
fn capture_digests(connection: &ConnectionSpec) -> Result<Capture, Error> {
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
