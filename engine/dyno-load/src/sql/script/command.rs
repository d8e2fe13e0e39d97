//! The commands of a script that are not a load: prepare, cleanup, and its own.

use std::sync::Arc;

use dyno_loop::IgnoredErrors;
use dyno_mysql::Options;

use super::blocking::BlockingConnections;
use super::machine::{Machine, ScriptThread};
use super::program::{Declared, ScriptContext};
use super::request::{Answer, Request};
use crate::error::Error;

/// What a script offers.
#[derive(Debug)]
pub struct Commands {
    /// The names of its commands, each with whether it may run in several threads.
    pub commands: Vec<(String, bool)>,
    /// Its options.
    pub options: Vec<Declared>,
    /// Whether it has event() or thread_run(), so that it can be a load.
    pub has_load: bool,
}

impl Commands {
    /// Loads the script, to see what it offers. Options that it does not declare are refused.
    ///
    /// # Errors
    /// With the file and the line, or the option and the nearest name.
    pub fn of(context: &ScriptContext) -> Result<Self, Error> {
        let machine = Machine::new(context).map_err(Error::User)?;
        let thread = machine.thread(0).map_err(Error::User)?;
        let options = machine.declared(&thread).map_err(Error::User)?;
        for name in context.options.keys() {
            let is_declared = options.iter().any(|option| option.name == *name);
            // A script for sysbench 0.5 declares none: they are its global variables.
            let is_global = options.is_empty() && context.sources.have_word(name);
            if !is_declared && !is_global {
                return Err(Error::User(unknown_option(name, &options, context)));
            }
        }
        Ok(Self {
            commands: machine.commands(&thread).map_err(Error::User)?,
            has_load: machine.has(&thread, "event") || machine.has(&thread, "thread_run"),
            options,
        })
    }
}

fn unknown_option(name: &str, options: &[Declared], context: &ScriptContext) -> String {
    let shown = |name: &str| format!("--{}", name.replace('_', "-"));
    let script = context.program.path.display();
    if options.is_empty() {
        return format!(
            "there is no option {}: neither dynoload nor the script '{script}' has it",
            shown(name)
        );
    }
    let nearest = options
        .iter()
        .min_by_key(|option| crate::sql::oltp::distance(name, &option.name));
    let all: Vec<String> = options.iter().map(|option| shown(&option.name)).collect();
    format!(
        "there is no option {}; the nearest name is {} (the script '{script}' has {})",
        shown(name),
        nearest.map_or_else(String::new, |option| shown(&option.name)),
        all.join(", ")
    )
}

/// Runs a command of the script: in as many threads as there are connections, where the script permits that.
///
/// # Errors
/// When there is no such command, or with the file and the line where it failed.
pub fn run_command(
    context: &ScriptContext,
    options: &Arc<Options>,
    prepared: bool,
    ignored: &IgnoredErrors,
) -> Result<(), Error> {
    let offered = Commands::of(context)?;
    let name = &context.command;
    let Some((_, is_parallel)) = offered.commands.iter().find(|(command, _)| command == name) else {
        let mut names: Vec<&str> = offered.commands.iter().map(|(name, _)| name.as_str()).collect();
        if offered.has_load {
            names.push("run");
        }
        return Err(Error::User(format!(
            "the script '{}' has no command '{name}'; it has {}",
            context.program.path.display(),
            names.join(", ")
        )));
    };
    let threads = if *is_parallel { context.general.threads } else { 1 };
    let results: Vec<Result<(), Error>> = std::thread::scope(|scope| {
        let run = |number| scope.spawn(move || run_in_thread(context, options, prepared, ignored, number));
        let handles: Vec<_> = (0..threads).map(run).collect();
        let join = |handle: std::thread::ScopedJoinHandle<'_, Result<(), Error>>| {
            handle
                .join()
                .unwrap_or_else(|_| Err(Error::Output("a thread of the command panicked".into())))
        };
        handles.into_iter().map(join).collect()
    });
    results.into_iter().collect()
}

fn run_in_thread(
    context: &ScriptContext,
    options: &Arc<Options>,
    prepared: bool,
    ignored: &IgnoredErrors,
    number: u32,
) -> Result<(), Error> {
    let machine = Machine::new(context).map_err(Error::User)?;
    let mut thread = machine.thread(number).map_err(Error::User)?;
    let mut connections = BlockingConnections::new(Arc::clone(options), prepared, 1);
    call(&machine, &mut thread, &context.command, &mut connections, ignored)
        .map(|_| ())
        .map_err(Error::Output)
}

/// Calls a function of the script and does what it requests, until it returns; how many statements it sent.
///
/// # Errors
/// With the file and the line where it failed.
pub fn call(
    machine: &Machine,
    thread: &mut ScriptThread,
    name: &str,
    connections: &mut BlockingConnections,
    ignored: &IgnoredErrors,
) -> Result<u64, String> {
    machine.waited();
    let first = machine.call(thread, name)?;
    follow(machine, thread, first, connections, ignored)
}

/// Does what a script requests, until it returns; how many statements were sent.
///
/// # Errors
/// With the file and the line where it failed.
pub fn follow(
    machine: &Machine,
    thread: &mut ScriptThread,
    first: Request,
    connections: &mut BlockingConnections,
    ignored: &IgnoredErrors,
) -> Result<u64, String> {
    let mut request = first;
    let mut questions = 0;
    loop {
        if matches!(request, Request::Stop) {
            return Ok(questions);
        }
        questions += connections.questions(&request);
        let (answer, _): (Answer, _) = connections.perform(request, &|code| ignored.contains(code));
        machine.waited();
        request = machine.resume(thread, answer)?;
    }
}
