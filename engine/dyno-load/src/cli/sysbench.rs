//! `dynoload script`, and sysbench's general options in the place of dynoload's.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::Arc;

use clap::{Args, Command};
use dyno_mysql::INHERITED_STATE;
use Meaning::{Named, Nothing, Refused, RefusedOn, Switch};

use crate::error::{Error, Exit};
use crate::runner::{self, Run};
use crate::spec::{ScriptSpec, SqlSpec};
use crate::sql::script::{check_syntax, run_command, Commands};
use crate::sql::server::{analyze, connect_unbounded};

/// What becomes of an option.
#[derive(Debug, Clone, Copy)]
enum Meaning {
    /// An option of dynoload, and what is added to a value. A value of 0 stands for no option.
    Named(&'static str, &'static str),
    /// A switch: what stands for it when it is on; it is off by default.
    Switch(&'static str),
    /// Nothing: what it asks for is always there, or has no effect on a load of SQL.
    Nothing,
    /// What to do instead.
    Refused(&'static str),
    /// A switch that may be off alone, and what to do instead.
    RefusedOn(&'static str),
}

/// sysbench's options, those of its version 1.0 and later ones, but for those that dynoload has under the same name.
/// Beside these, `--threads` is the number of connections where that is not given.
const OPTIONS: &[(&str, Meaning)] = &[
    ("--mysql-host", Named("--host", "")),
    ("--mysql-port", Named("--port", "")),
    ("--mysql-socket", Named("--socket", "")),
    ("--mysql-user", Named("--user", "")),
    ("--mysql-db", Named("--database", "")),
    ("--mysql-ssl-ca", Named("--ssl-ca", "")),
    ("--mysql-ssl-cert", Named("--ssl-cert", "")),
    ("--mysql-ssl-key", Named("--ssl-key", "")),
    ("--mysql-ssl-cipher", Named("--ssl-ciphers", "")),
    ("--mysql-compression", Switch("--compression=zlib")),
    (
        "--mysql-debug",
        RefusedOn("the server's general log has every statement"),
    ),
    (
        "--mysql-dry-run",
        RefusedOn("`dynoload null` is a server that does no work"),
    ),
    ("--time", Named("--duration", "s")),
    ("--max-time", Named("--duration", "s")),
    ("--max-requests", Named("--events", "")),
    ("--events", Named("--events", "")),
    ("--rate", Named("--rate", "")),
    ("--tx-rate", Named("--rate", "")),
    ("--report-interval", Named("--interval", "s")),
    ("--rand-seed", Named("--seed", "")),
    ("--warmup-time", Named("--warmup", "s")),
    ("--percentile", Nothing),
    ("--histogram", Nothing),
    ("--validate", Nothing),
    ("--thread-stack-size", Nothing),
    ("--thread-init-timeout", Nothing),
    ("--forced-shutdown", Nothing),
    ("--debug", RefusedOn("use --json for all figures")),
    ("--db-debug", RefusedOn("use --json for all figures")),
    (
        "--report-checkpoints",
        Refused("use --json, which has the figures of each --interval"),
    ),
    ("--config-file", Refused("write the options on the command line")),
    ("--luajit-cmd", Refused("dynoload has no options of the Lua compiler")),
];
/// What stands in for no limit of the time.
const LONGEST_S: u32 = 100 * 3600;
/// sysbench's verbosity below which it prints no progress.
const NOTICE: u32 = 3;

/// Turns the script's own options into --script-option, and sysbench's names into dynoload's. Of what is given several
/// times under sysbench's names the last one counts, as there.
///
/// # Errors
/// With an option of sysbench for which dynoload has none, and what to do.
pub fn translate(arguments: Vec<OsString>) -> Result<Vec<OsString>, String> {
    if arguments.get(1).is_none_or(|name| name != "script") {
        return Ok(arguments);
    }
    let known = known_options();
    let mut translated = Vec::new();
    // Places in `translated` of what stands for sysbench's options.
    let mut made_at: Vec<usize> = Vec::new();
    // Worker threads are of interest beside connections alone.
    let is_connections = |text: &str| text.split('=').next() == Some("--connections");
    let has_connections = arguments
        .iter()
        .any(|argument| argument.to_str().is_some_and(is_connections));
    let given = arguments.clone();
    let mut add = |translated: &mut Vec<OsString>, made: String, argument: &OsString| {
        let made = OsString::from(made);
        let same = |place: &&usize| name_of(&translated[**place]) == name_of(&made);
        if let Some(place) = made_at.iter().find(same) {
            translated[*place] = made;
        } else if made == *argument || !given.contains(&made) {
            made_at.push(translated.len());
            translated.push(made);
        }
    };
    for argument in arguments {
        let Some(text) = argument
            .to_str()
            .filter(|text| text.starts_with("--") && text.len() > 2)
        else {
            translated.push(argument);
            continue;
        };
        let (name, value) = text.split_at(text.find('=').unwrap_or(text.len()));
        let meaning = OPTIONS.iter().find(|(other, _)| *other == name);
        if matches!(name, "--threads" | "--num-threads") && !has_connections {
            add(&mut translated, format!("--connections{value}"), &argument);
        } else if let Some((_, meaning)) = meaning {
            if let Some(made) = meant(name, value, *meaning)? {
                add(&mut translated, made, &argument);
            }
        } else if let Some(made) = special(name, value)? {
            if let Some(made) = made {
                add(&mut translated, made, &argument);
            }
        } else if known.contains(&name[2..].to_string()) {
            translated.push(argument);
        } else {
            translated.push(format!("--script-option={}", &text[2..]).into());
        }
    }
    Ok(translated)
}

/// An option without its value.
fn name_of(argument: &OsString) -> Option<&str> {
    argument.to_str()?.split('=').next()
}

/// What stands for an option; none for one without an effect.
fn meant(name: &str, value: &str, meaning: Meaning) -> Result<Option<String>, String> {
    let is_on = !matches!(value, "=off" | "=0" | "=no" | "=false");
    let refused = |hint: &str| Err(format!("sysbench's {name} is not available: {hint}"));
    match meaning {
        Named(..) if value.contains(',') && matches!(name, "--mysql-host" | "--mysql-port" | "--mysql-socket") => {
            refused("it names several servers; give one, and run one dynoload for each")
        }
        // No limit.
        Named("--duration", _) if value == "=0" => Ok(Some(format!("--duration={LONGEST_S}s"))),
        Named("--events" | "--rate" | "--interval" | "--seed", _) if value == "=0" => Ok(None),
        Named(own, unit) => Ok(Some(format!(
            "{own}{value}{}",
            if value.is_empty() { "" } else { unit }
        ))),
        Switch(own) => Ok(is_on.then(|| own.to_string())),
        Nothing => Ok(None),
        Refused(hint) => refused(hint),
        RefusedOn(hint) if is_on => refused(hint),
        RefusedOn(_) => Ok(None),
    }
}

/// Options whose values are other than dynoload's; none for other options.
fn special(name: &str, value: &str) -> Result<Option<Option<String>>, String> {
    let given = value.trim_start_matches('=').to_lowercase();
    match name {
        "--verbosity" => match given.parse::<u32>() {
            Ok(level @ 0..=5) => Ok(Some((level < NOTICE).then(|| "--quiet".into()))),
            _ => Err(format!("--verbosity{value}: allowed is 0 to 5")),
        },
        "--db-driver" if given == "mysql" => Ok(Some(None)),
        "--db-driver" => Err(format!("--db-driver{value}: dynoload has the driver mysql alone")),
        "--mysql-ssl" => {
            let mode = match given.as_str() {
                "" | "on" | "1" | "true" | "yes" => "required",
                "off" | "0" | "false" | "no" => "disabled",
                mode => mode,
            };
            Ok(Some(Some(format!("--ssl-mode={mode}"))))
        }
        name if name.starts_with("--pgsql-") => Err(format!("{name}: dynoload has the driver mysql alone")),
        _ => Ok(None),
    }
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
    let named = OPTIONS.iter().filter_map(|(other, meaning)| match meaning {
        Named(own, _) => Some((*other, *own)),
        _ => None,
    });
    named
        .chain([("--threads", "--connections"), ("--num-threads", "--connections")])
        .filter(|(other, own)| is_given(other) && (!is_given(own) || error.contains("multiple times")))
        .filter(|(_, own)| error.contains(&format!("'{own}")))
        .map(|(other, own)| format!("note: sysbench's {other} is {own} here"))
        .collect()
}

pub const SCRIPT_EXAMPLES: &str = "Examples:
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
fn known_options() -> Vec<String> {
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
pub fn run_script(run: Run<ScriptSpec>) -> Result<Exit, Error> {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn translated(line: &str) -> Vec<String> {
        let arguments = line.split(' ').map(OsString::from).collect();
        translate(arguments)
            .unwrap()
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
        let twice = "error: the argument '--duration <TIME>' cannot be used multiple times";
        let note = ["note: sysbench's --time is --duration here"];
        assert_eq!(
            notes(&given("dynoload script x.lua --duration=9s --time=5"), twice),
            note
        );
        assert!(notes(&given("dynoload oltp run --threads=-1"), error).is_empty());
    }

    #[test]
    fn each_option_of_sysbench_is_accepted_or_refused_with_what_to_do() {
        for (given, expected) in [
            ("--events=0 --rate=50", "--rate=50"),
            ("--rate=0 --report-interval=0 --time=0", "--duration=360000s"),
            ("--report-interval=5", "--interval=5s"),
            (
                "--percentile=99 --histogram --histogram=on --validate=off --validate",
                "",
            ),
            ("--verbosity=0", "--quiet"),
            ("--verbosity=0 --quiet", "--quiet"),
            ("--quiet --verbosity=1 --verbosity=2", "--quiet"),
            ("--time=60 --max-time=30 --time=20", "--duration=20s"),
            ("--threads=4 --num-threads=2", "--connections=2"),
            ("--mysql-compression=on --compression=zlib", "--compression=zlib"),
            (
                "--verbosity=3 --debug=off --db-debug=off --mysql-debug=off --mysql-dry-run=off",
                "",
            ),
            ("--thread-stack-size=64K --forced-shutdown=off", ""),
            (
                "--num-threads=4 --max-requests=0 --max-time=60 --tx-rate=5",
                "--connections=4 --duration=60s --rate=5",
            ),
            (
                "--mysql-ssl=on --mysql-compression=on",
                "--ssl-mode=required --compression=zlib",
            ),
            ("--mysql-ssl=off --mysql-compression=off", "--ssl-mode=disabled"),
            (
                "--mysql-ssl=VERIFY_CA --mysql-ssl-ca=/ca",
                "--ssl-mode=verify_ca --ssl-ca=/ca",
            ),
            (
                "--db-driver=mysql --db-ps-mode=disable --rand-type=pareto",
                "--db-ps-mode=disable --rand-type=pareto",
            ),
        ] {
            let all = translated(&format!("dynoload script x.lua {given} run"));
            let all = all.join(" ");
            let all = all.strip_prefix("dynoload script x.lua ").unwrap();
            assert_eq!(all.strip_suffix("run").unwrap().trim_end(), expected, "{given}");
        }
        for (given, words) in [
            ("--config-file=x", "on the command line"),
            ("--report-checkpoints=10,20", "--interval"),
            ("--mysql-dry-run", "`dynoload null`"),
            ("--debug", "--json"),
            ("--db-driver=pgsql", "the driver mysql alone"),
            ("--pgsql-host=x", "the driver mysql alone"),
            ("--mysql-host=a,b", "several servers"),
            ("--verbosity=9", "0 to 5"),
        ] {
            let given: Vec<OsString> = format!("dynoload script x.lua {given}")
                .split(' ')
                .map(OsString::from)
                .collect();
            let error = translate(given).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
    }
}
