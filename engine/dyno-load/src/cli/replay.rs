//! `dynoload replay`: its options.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::connection::ConnectionArguments;
use super::parse::{connections, positive_duration, speed, threads, within};
use crate::error::{Error, Exit};
use crate::replay::{self, Pace, ReplayRun, Selection};

const EXAMPLES: &str = "Examples:
  dynoload replay monday.capture --socket /run/mysqld/mysqld.sock
      Each session connects, sends its statements and ends when it did in the capture.
  dynoload replay monday.capture --host new --read-only --speed 4 --results new.results
      Four times as fast, without statements that write; the result of each statement goes to a file.
  dynoload replay monday.capture --host copy --schema shop=shop_copy --speed max --json result.json
      As fast as each session goes, on a schema of another name.

A replay changes the data unless --read-only is set: use a copy, and restore it before each replay.
The password comes from --password-file or DYNO_PASSWORD. The table is on stdout, progress on stderr.
Exit codes: 0 VALID or SUSPECT, 2 wrong input, 3 cannot be done here, 4 INVALID (such as missing tables), 130 interrupted.";

/// The options of `replay`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
#[command(mut_arg("database", |argument| argument
    .default_value("")
    .hide_default_value(true)
    .help("Default schema of sessions for which the capture has none")))]
pub struct ReplayArguments {
    /// Capture, made with `dynoload capture`
    capture: PathBuf,
    /// original, a factor as in 2 or 0.5, or max: each session as fast as it goes, not more sessions at a time than were
    /// captured
    #[arg(long, default_value = "original", value_parser = speed)]
    speed: Pace,
    /// Send only SELECT, SHOW, SET of session variables, and transaction statements
    #[arg(long)]
    read_only: bool,
    /// Another name for a default schema, as in shop=shop_copy; repeatable. Names within statements stay
    #[arg(long, value_name = "FROM=TO", value_parser = schema)]
    schema: Vec<(String, String)>,
    /// The first sessions only
    #[arg(long, value_parser = within::<1, { u32::MAX }>)]
    limit_sessions: Option<u32>,
    /// Only what began within this time of the capture's begin, as in 10m
    #[arg(long, value_parser = positive_duration)]
    limit_time: Option<Duration>,
    /// Most connections at a time; further sessions wait, which is counted as lag
    #[arg(long, value_parser = connections)]
    connections: Option<u32>,
    /// Worker threads; default: one for each 64 sessions at a time, at most one for each CPU
    #[arg(long, value_parser = threads)]
    threads: Option<u32>,
    /// After the last statement was due, end when no statement has ended for this time
    #[arg(long, default_value = "60s", value_parser = positive_duration)]
    grace: Duration,
    /// Error codes that do not make the result SUSPECT or INVALID, as in 1146,1062: those that the captured load had too
    #[arg(long, value_delimiter = ',')]
    ignore_errors: Vec<u16>,
    /// Write rows, error and checksum of each statement, for `dynoload compare-replays`
    #[arg(long, value_name = "FILE")]
    results: Option<PathBuf>,
    /// Write the result as JSON lines to a file, or - for standard output (the table then goes to standard error)
    #[arg(long)]
    json: Option<PathBuf>,
    /// Print no progress
    #[arg(long)]
    quiet: bool,
    /// Permit a server that is neither MySQL nor MariaDB
    #[arg(long)]
    any_server: bool,
    #[command(flatten)]
    connection: ConnectionArguments,
}

fn schema(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((from, to)) if !from.is_empty() && !to.is_empty() => Ok((from.to_string(), to.to_string())),
        _ => Err(format!("'{text}' is not FROM=TO, as in shop=shop_copy")),
    }
}

/// Replays.
pub fn run(arguments: &ReplayArguments) -> Result<Exit, Error> {
    replay::run(&ReplayRun {
        capture: arguments.capture.clone(),
        connection: arguments.connection.spec(),
        selection: Selection {
            read_only: arguments.read_only,
            schemas: arguments.schema.iter().cloned().collect(),
            default_schema: Some(arguments.connection.database.clone()).filter(|name| !name.is_empty()),
            limit_sessions: arguments.limit_sessions,
            limit_us: arguments.limit_time.map(|limit| limit.as_micros() as u64),
        },
        pace: arguments.speed,
        connections: arguments.connections,
        threads: arguments.threads,
        grace: arguments.grace,
        ignored_errors: arguments.ignore_errors.iter().copied().collect::<BTreeSet<u16>>(),
        results: arguments.results.clone(),
        json: arguments.json.clone(),
        quiet: arguments.quiet,
        any_server: arguments.any_server,
    })
}
