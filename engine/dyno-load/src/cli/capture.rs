//! `dynoload capture`: its options.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use dyno_capture::Selection;

use crate::error::{Error, Exit};
use crate::spec::ConnectionSpec;
use crate::{capture, history};

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
    /// General logs, slow logs, or packets that tcpdump has written
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
    let anonymiser = match arguments.anonymise {
        true => Some(capture::anonymiser(
            arguments.key_file.as_deref(),
            arguments.definitions.as_deref(),
        )?),
        false => None,
    };
    let autocommit = arguments.autocommit.map(|value| value == Autocommit::On);
    let mut captured = match arguments.history {
        _ if arguments.digests => history::capture_digests(&connection(arguments))?,
        true => history::capture_history(&connection(arguments), autocommit)?,
        false => capture::capture_files(&arguments.files, &arguments.ports, selection(arguments), autocommit)?,
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
