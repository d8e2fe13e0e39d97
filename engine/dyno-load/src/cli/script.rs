//! `dynoload script`: sysbench's Lua scripts.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Command};

use super::agent::AgentArguments;
use super::connection::ConnectionArguments;
use super::events::EventArguments;
use super::load::{LoadArguments, RandomArguments};
use super::output::OutputArguments;
use super::parse::{positive_duration, within};
use super::slices::SliceArguments;
use crate::error::{Error, Exit};
use crate::runner::{self, SqlRun};
use crate::sources::Sources;
use crate::spec::{ScriptSpec, SqlSpec};
use crate::sql::script::{check_syntax, run_command, Commands};
use crate::sql::server::connect_unbounded;
use crate::sql::statistics;
use dyno_mysql::session_state::INHERITED_STATE;

const EXAMPLES: &str = "Examples:
  dynoload script oltp_read_only --tables=4 --table-size=100000 prepare
      A command of the script. A bare name is looked for in /usr/share/sysbench, too.
  dynoload script oltp_read_only --tables=4 --table-size=100000 --connections 64 --duration 60s run
      The load: sysbench's --threads=64 --time=60. Each connection is one thread of sysbench.
  dynoload script ./mine.lua --my-option=7 --connections 64 --rate 500 --arrivals poisson --json result.json
      500 events a second come whether or not the server keeps up.
  dynoload script ./mine.lua help
      The script's commands and options.

The script's own options are written with '=', as for sysbench. sysbench's general options are accepted for dynoload's
names, or refused with what to use. A script is a program: it can read files and
call C functions with this user's rights.
The password comes from --password-file or DYNO_PASSWORD. The table is on stdout, progress on stderr.
Exit codes: 0 VALID or SUSPECT, 1 failed, 2 wrong input, 3 cannot be done here, 4 INVALID, 130 interrupted.";

/// The options of `script`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ScriptArguments {
    /// The script, or the name of one in sysbench's package
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// run, prepare, cleanup, help, or another command that the script defines
    #[arg(value_name = "COMMAND", default_value = "run")]
    command: String,
    /// An option of the script: the same as --NAME=VALUE, also where dynoload has an option of that name. ?NAME=VALUE sets
    /// it only if the script has such an option and it is not set otherwise
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    script_option: Vec<(String, String)>,
    /// How long the script may compute without a statement; then the run ends, with the line where the script is
    #[arg(long, default_value = "5s", value_parser = positive_duration)]
    script_time_limit: Duration,
    /// Memory for the Lua state of each worker thread, in MiB
    #[arg(long, default_value = "1024", value_parser = within::<1, 65_536>)]
    script_memory: u32,
    /// Read the script and find errors of its syntax, without a server; none of it is executed
    #[arg(long)]
    check: bool,
    #[command(flatten)]
    load: LoadArguments,
    #[command(flatten)]
    events: EventArguments,
    #[command(flatten)]
    connection: ConnectionArguments,
    #[command(flatten)]
    random: RandomArguments,
    #[command(flatten)]
    agents: AgentArguments,
    #[command(flatten)]
    slices: SliceArguments,
    #[command(flatten)]
    output: OutputArguments,
}

/// NAME=VALUE; without a value a switch that is on.
fn pair(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').unwrap_or((text, ""));
    if name.is_empty() {
        return Err("an option of the script is NAME=VALUE, as in tables=4".into());
    }
    Ok((name.replace('-', "_"), value.to_string()))
}

/// The long names of dynoload's own options.
pub fn known_options() -> Vec<String> {
    let mut names = vec!["help".to_string(), "version".into()];
    for argument in ScriptArguments::augment_args(Command::new("script")).get_arguments() {
        names.extend(argument.get_long().map(str::to_string));
        names.extend(
            argument
                .get_all_aliases()
                .unwrap_or_default()
                .iter()
                .map(ToString::to_string),
        );
    }
    names
}

/// Runs it.
pub fn run(arguments: &ScriptArguments) -> Result<Exit, Error> {
    let spec = arguments.spec()?;
    if arguments.check {
        return check_syntax(&spec.context()?.program)
            .map_err(Error::User)
            .map(|()| Exit::Done);
    }
    match arguments.command.as_str() {
        "run" => runner::run_sql(&SqlRun {
            spec: SqlSpec::Script(spec),
            any_server: arguments.output.any_server,
            agents: arguments.agents.agent.clone(),
            slices: arguments.slices.spec(),
            outputs: arguments.output.spec(),
        }),
        "help" => help(&spec),
        _ => command(&spec),
    }
}

fn command(spec: &ScriptSpec) -> Result<Exit, Error> {
    let context = spec.context()?;
    let mut options = spec.connection.options(true, Some(INHERITED_STATE))?;
    options.deprecate_eof = false;
    let options = Arc::new(options);
    let ignored = spec.load.ignored_errors()?;
    run_command(&context, &options, spec.load.db_ps_mode == "auto", &ignored)?;
    if context.command == "prepare" {
        statistics::analyze(&mut connect_unbounded(&options)?)?;
    }
    Ok(Exit::Done)
}

/// Prints what the script offers.
fn help(spec: &ScriptSpec) -> Result<Exit, Error> {
    let context = spec.context()?;
    let offered = Commands::of(&context)?;
    let mut names: Vec<&str> = offered.commands.iter().map(|(name, _)| name.as_str()).collect();
    if offered.has_load {
        names.push("run");
    }
    let mut text = format!("{}\nCommands: {}\n", context.program.path.display(), names.join(", "));
    if !offered.options.is_empty() {
        text.push_str("Options:\n");
    }
    for option in &offered.options {
        let name = format!("--{}", option.name.replace('_', "-"));
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  {name:<24} {} [default: {}]", option.summary, option.default);
    }
    dyno_core::streams::stdout().write_all(dyno_core::streams::visible(&text).as_bytes())?;
    Ok(Exit::Done)
}

impl ScriptArguments {
    fn spec(&self) -> Result<ScriptSpec, Error> {
        if let Some((name, _)) = self.script_option.iter().find(|(name, _)| name == "mysql_password") {
            return Err(Error::User(format!(
                "--{} would show the password in `ps`; use --password-file or DYNO_PASSWORD",
                name.replace('_', "-")
            )));
        }
        let mut options: BTreeMap<String, String> = self.script_option.iter().cloned().collect();
        let wanted: Vec<String> = options.keys().filter(|name| name.starts_with('?')).cloned().collect();
        let mut defaults = BTreeMap::new();
        for name in wanted {
            if let Some(value) = options.remove(&name) {
                defaults.insert(name[1..].to_string(), value);
            }
        }
        // There is no other driver; sysbench's scripts are often called with it.
        if options.get("db_driver").is_some_and(|driver| driver == "mysql") {
            options.remove("db_driver");
        }
        Ok(ScriptSpec {
            file: self.file.clone(),
            command: self.command.clone(),
            options,
            defaults,
            time_limit: self.script_time_limit,
            memory_mib: self.script_memory,
            load: self.events.spec(&self.load),
            connection: self.connection.spec(),
            random: self.random.spec(),
            sources: Sources::default(),
        })
    }
}
