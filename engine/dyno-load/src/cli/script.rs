//! `dynoload script`: sysbench's Lua scripts.

use std::collections::BTreeMap;
use std::ffi::OsString;
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
use crate::sql::script::{run_command, Commands};
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

The script's own options are written with '=', as for sysbench. --mysql-host, --mysql-port, --mysql-socket, --mysql-user,
--mysql-db, --time and --report-interval are accepted for dynoload's names. A script is a program: it can read files and
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

/// sysbench's options, with dynoload's names for them, and what is added to their values. Beside these, `--threads` is the
/// number of connections where that is not given.
const NAMES_OF_SYSBENCH: [(&str, &str, &str); 9] = [
    ("--mysql-host", "--host", ""),
    ("--mysql-port", "--port", ""),
    ("--mysql-socket", "--socket", ""),
    ("--mysql-user", "--user", ""),
    ("--mysql-db", "--database", ""),
    ("--time", "--duration", "s"),
    ("--report-interval", "--interval", "s"),
    ("--rand-seed", "--seed", ""),
    ("--warmup-time", "--warmup", "s"),
];

/// What stands in for no limit of the time.
const LONGEST_S: u32 = 100 * 3600;

/// Turns the script's own options into --script-option, and sysbench's names into dynoload's.
pub fn translate(arguments: Vec<OsString>) -> Vec<OsString> {
    if arguments.get(1).is_none_or(|name| name != "script") {
        return arguments;
    }
    let known = known_options();
    let mut translated = Vec::new();
    // Worker threads are of interest beside connections alone.
    let is_connections = |text: &str| text.split('=').next() == Some("--connections");
    let has_connections = arguments
        .iter()
        .any(|argument| argument.to_str().is_some_and(is_connections));
    for argument in arguments {
        let Some(text) = argument
            .to_str()
            .filter(|text| text.starts_with("--") && text.len() > 2)
        else {
            translated.push(argument);
            continue;
        };
        let (name, value) = text.split_at(text.find('=').unwrap_or(text.len()));
        if text == "--time=0" {
            // No limit.
            translated.push(format!("--duration={LONGEST_S}s").into());
        } else if name == "--threads" && !has_connections {
            translated.push(format!("--connections{value}").into());
        } else if let Some((_, own, unit)) = NAMES_OF_SYSBENCH.iter().find(|(other, ..)| *other == name) {
            translated.push(format!("{own}{value}{}", if value.is_empty() { "" } else { unit }).into());
        } else if known.contains(&name[2..].to_string()) {
            translated.push(argument);
        } else {
            translated.push(format!("--script-option={}", &text[2..]).into());
        }
    }
    translated
}

/// What to add to an error of the command line: which of sysbench's names that were given stand behind the options that
/// it names. One line each.
pub fn notes(arguments: &[OsString], error: &str) -> Vec<String> {
    let is_given = |name: &str| {
        let names = arguments.iter().filter_map(|argument| argument.to_str());
        names
            .map(|text| text.split('=').next())
            .any(|given| given == Some(name))
    };
    if arguments.get(1).is_none_or(|name| name != "script") {
        return Vec::new();
    }
    let named = NAMES_OF_SYSBENCH.iter().map(|(other, own, _)| (*other, *own));
    named
        .chain([("--threads", "--connections")])
        .filter(|(other, own)| is_given(other) && !is_given(own) && error.contains(&format!("'{own}")))
        .map(|(other, own)| format!("note: sysbench's {other} is {own} here"))
        .collect()
}

/// The long names of dynoload's own options.
fn known_options() -> Vec<String> {
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
    let options = Arc::new(spec.connection.options(true, Some(INHERITED_STATE))?);
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
    dyno_core::streams::stdout().write_all(text.as_bytes())?;
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

#[cfg(test)]
mod tests {
    use super::*;

    fn translated(line: &str) -> Vec<String> {
        let arguments = line.split(' ').map(OsString::from).collect();
        translate(arguments)
            .into_iter()
            .map(|argument| argument.to_string_lossy().into_owned())
            .collect()
    }

    #[test]
    fn options_that_dynoload_has_not_are_the_scripts() {
        let all = translated("dynoload script x.lua --tables=4 --connections 8 --skip-trx --rate=5 run");
        let expected =
            "dynoload script x.lua --script-option=tables=4 --connections 8 --script-option=skip-trx --rate=5 run";
        assert_eq!(all.join(" "), expected);
        let others = "dynoload oltp run --tables=4";
        assert_eq!(translated(others).join(" "), others);
    }

    #[test]
    fn options_of_sysbench_get_the_names_of_dynoload() {
        let all = translated("dynoload script x.lua --mysql-host=db1 --time=60 --mysql-ignore-errors=all");
        assert_eq!(
            all.join(" "),
            "dynoload script x.lua --host=db1 --duration=60s --mysql-ignore-errors=all"
        );
        let threads = translated("dynoload script x.lua --threads=4 --rand-seed=7 --warmup-time=2 run");
        assert_eq!(
            threads.join(" "),
            "dynoload script x.lua --connections=4 --seed=7 --warmup=2s run"
        );
        let both = "dynoload script x.lua --threads 2 --connections 8 run";
        assert_eq!(translated(both).join(" "), both);
        let alike = translated("dynoload script x.lua --threads=2 --connections-kept=8 run");
        assert_eq!(
            alike.join(" "),
            "dynoload script x.lua --connections=2 --script-option=connections-kept=8 run"
        );
        let endless = translated("dynoload script x.lua --time=0 --events=7");
        assert_eq!(endless.join(" "), "dynoload script x.lua --duration=360000s --events=7");
    }

    #[test]
    fn errors_in_options_of_sysbench_say_their_names() {
        let given = |line: &str| -> Vec<OsString> { line.split(' ').map(OsString::from).collect() };
        let error = "error: invalid value '-1' for '--connections <N>': -1 is not a number";
        let note = ["note: sysbench's --threads is --connections here"];
        assert_eq!(notes(&given("dynoload script x.lua --threads=-1"), error), note);
        assert_eq!(notes(&given("dynoload script x.lua --threads -1"), error), note);
        assert!(notes(&given("dynoload script x.lua --threads=4 --connections=-1"), error).is_empty());
        assert!(notes(&given("dynoload script x.lua --time=x --threads=4"), "for '--rate <N>'").is_empty());
        assert!(notes(&given("dynoload oltp run --threads=-1"), error).is_empty());
    }
}
