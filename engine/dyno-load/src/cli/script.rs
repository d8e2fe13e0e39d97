//! `dynoload script`: sysbench's Lua scripts.

use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::Arc;

use clap::{Args, Command};
use dyno_mysql::session_state::INHERITED_STATE;

use crate::error::{Error, Exit};
use crate::runner::{self, Run};
use crate::spec::{ScriptSpec, SqlSpec};
use crate::sql::script::{check_syntax, run_command, Commands};
use crate::sql::server::{analyze, connect_unbounded};

pub const EXAMPLES: &str = "Examples:
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

/// The long names of dynoload's own options.
pub fn known_options() -> Vec<String> {
    let mut names = vec!["help".to_string(), "version".into()];
    for argument in Run::<ScriptSpec>::augment_args(Command::new("script")).get_arguments() {
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
pub fn run(run: Run<ScriptSpec>) -> Result<Exit, Error> {
    let mut spec = run.spec;
    spec.take_options()?;
    if spec.check {
        return check_syntax(&spec.context()?.program)
            .map_err(Error::User)
            .map(|()| Exit::Done);
    }
    match spec.command.as_str() {
        "run" => runner::run_sql(SqlSpec::Script(spec), &run.options),
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
        analyze(&mut connect_unbounded(&options)?)?;
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
