//! A Lua state with sysbench's interface: the connections of one worker share it, and each has an environment of its own.

use std::cell::{Cell, RefCell};
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

use dyno_core::clock::now_ns;
use dyno_core::random::{Domain, RandomStream};
use mlua::{Function, HookTriggers, Lua, LuaOptions, StdLib, Table, Thread, ThreadStatus, VmState};

use super::random::{self, Stream};
use super::request::{Answer, Request};
use super::{
    find_module, package_path, with_line, without_first_line_of_unix, Declared, Program, ScriptContext, CHUNK,
};

/// The interface, in Lua.
const SYSBENCH: &str = include_str!("sysbench.lua");

/// A Lua state.
#[derive(Debug)]
pub struct Machine {
    lua: Lua,
    context: ScriptContext,
    new_environment: Function,
    stream: Stream,
    watch: Watch,
    /// See [`Machine::take_held_ns`].
    held_ns: Cell<u64>,
}

/// The environment of one connection.
#[derive(Debug)]
pub struct ScriptThread {
    table: Table,
    coroutine: Option<Thread>,
    stream: RandomStream,
}

/// The state itself. FFI can reach all memory, as in sysbench: a script is a program that its user runs.
#[allow(unsafe_code)]
fn new_state() -> Lua {
    // SAFETY: nothing of dynoload relies on scripts being unable to corrupt memory; --help says that they are programs.
    unsafe { Lua::unsafe_new_with(StdLib::ALL, LuaOptions::new()) }
}

/// Compiles a script; nothing of it is executed.
///
/// # Errors
/// With the file and the line.
pub fn check_syntax(program: &Program) -> Result<(), String> {
    let chunk = format!("@{}", program.path.display());
    let compiled = new_state().load(&program.source).set_name(chunk).into_function();
    compiled.map(|_| ()).map_err(|error| match error {
        mlua::Error::SyntaxError { message, .. } => syntax_error(&message),
        other => other.to_string(),
    })
}

fn syntax_error(message: &str) -> String {
    format!("the script has a syntax error: {message}")
}

impl Machine {
    /// A state with the script's limits; the script is not loaded yet.
    ///
    /// # Errors
    /// When there is no memory, or a parameter of a distribution is outside its range.
    pub fn new(context: &ScriptContext) -> Result<Self, String> {
        let lua = new_state();
        let stream: Stream = Rc::new(RefCell::new(RandomStream::of(context.seed, Domain::Row, 0)));
        let watch = Watch::new(context.limits.time);
        let new_environment = prelude(&lua, context, &stream, &watch)?;
        lua.set_memory_limit(context.limits.memory_bytes)
            .map_err(|error| error.to_string())?;
        watch.begin(&lua).map_err(|error| error.to_string())?;
        Ok(Self {
            lua,
            context: context.clone(),
            new_environment,
            stream,
            watch,
            held_ns: Cell::new(0),
        })
    }

    /// Loads the script for connection `number` of the run, with the options that are set.
    ///
    /// # Errors
    /// With the file and the line, or the option and its value.
    pub fn thread(&self, number: u32) -> Result<ScriptThread, String> {
        self.try_thread(number).map_err(|error| self.explain(&error))
    }

    fn try_thread(&self, number: u32) -> mlua::Result<ScriptThread> {
        self.watch.waited();
        let context = &self.context;
        let path = context.program.path.to_string_lossy();
        let general = self.general()?;
        let given = self.lua.create_table()?;
        // Options that the script does not declare are not read; those that were set are checked by Commands::of.
        for (name, value) in context.defaults.iter().chain(&context.options) {
            given.set(name.as_str(), value.as_str())?;
        }
        let arguments = (number, context.command.as_str(), &*path, general, &given);
        let table: Table = self.new_environment.call(arguments)?;
        let environment: Table = table.get("env")?;
        self.lua
            .load(&context.program.source)
            .set_name(format!("@{path}"))
            .set_environment(environment)
            .exec()?;
        table.get::<Function>("loaded")?.call::<()>(())?;
        let wrong = |_: &Lua, (name, text, allowed): (String, String, String)| -> mlua::Result<()> {
            let name = name.replace('_', "-");
            Err(mlua::Error::runtime(format!(
                "--{name}={text}: the script takes {allowed}"
            )))
        };
        table
            .get::<Function>("read_options")?
            .call::<Table>((given, self.lua.create_function(wrong)?))?;
        Ok(ScriptThread {
            table,
            coroutine: None,
            stream: RandomStream::of(context.seed, Domain::Row, u64::from(number)),
        })
    }

    fn general(&self) -> mlua::Result<Table> {
        let general = &self.context.general;
        let table = self.lua.create_table()?;
        table.set("threads", general.threads)?;
        table.set("events", general.events)?;
        table.set("time", general.time_s)?;
        table.set("rate", general.rate)?;
        table.set("percentile", 95)?;
        table.set("report_interval", general.report_interval_s)?;
        table.set("verbosity", 3)?;
        table.set("debug", false)?;
        table.set("db_driver", "mysql")?;
        table.set("db_ps_mode", general.ps_mode.as_str())?;
        table.set("rand_type", general.rand_type.as_str())?;
        table.set("rand_seed", self.context.seed)?;
        table.set("rand_spec_iter", self.context.parameters.special_iterations)?;
        table.set("rand_spec_pct", self.context.parameters.special_percent)?;
        table.set("rand_spec_res", self.context.parameters.special_values_percent)?;
        table.set("rand_pareto_h", self.context.parameters.pareto_h)?;
        table.set("mysql_host", general.host.as_str())?;
        table.set("mysql_port", general.port)?;
        table.set("mysql_socket", general.socket.as_str())?;
        table.set("mysql_user", general.user.as_str())?;
        table.set("mysql_db", general.database.as_str())?;
        table.set("mysql_ignore_errors", general.ignore_errors.as_str())?;
        Ok(table)
    }

    /// The options that the script declares.
    ///
    /// # Errors
    /// When its table of options is none.
    pub fn declared(&self, thread: &ScriptThread) -> Result<Vec<Declared>, String> {
        let read = || -> mlua::Result<Vec<Declared>> {
            let ignore = self.lua.create_function(|_, _: mlua::MultiValue| Ok(()))?;
            let list: Table = thread
                .table
                .get::<Function>("read_options")?
                .call((self.lua.create_table()?, ignore))?;
            let one = |row: mlua::Result<Table>| {
                let row = row?;
                Ok(Declared {
                    name: row.get(1)?,
                    summary: row.get(2)?,
                    default: row.get(3)?,
                })
            };
            list.sequence_values::<Table>().map(one).collect()
        };
        read().map_err(|error| self.explain(&error))
    }

    /// The script's commands, each with whether it may run in several threads.
    ///
    /// # Errors
    /// When its table of commands is none.
    pub fn commands(&self, thread: &ScriptThread) -> Result<Vec<(String, bool)>, String> {
        let read = || -> mlua::Result<Vec<(String, bool)>> {
            let table: Table = thread.table.get::<Function>("commands")?.call(())?;
            let mut commands = table.pairs().collect::<mlua::Result<Vec<(String, bool)>>>()?;
            commands.sort();
            Ok(commands)
        };
        read().map_err(|error| self.explain(&error))
    }

    /// Whether the script has a function of that name.
    pub fn has(&self, thread: &ScriptThread, name: &str) -> bool {
        let has = thread.table.get::<Function>("has");
        has.and_then(|has| has.call::<bool>(name)).unwrap_or(false)
    }

    /// Whether the script has set a hook of that name.
    pub fn has_hook(&self, thread: &ScriptThread, name: &str) -> bool {
        let has = thread.table.get::<Function>("has_hook");
        has.and_then(|has| has.call::<bool>(name)).unwrap_or(false)
    }

    /// Begins a report hook with figures by sysbench's names.
    ///
    /// # Errors
    /// As [`Machine::resume`].
    pub fn report(&self, thread: &mut ScriptThread, name: &str, figures: &[(&str, f64)]) -> Result<Request, String> {
        let reporter = || -> mlua::Result<Function> {
            let stat = self.lua.create_table_from(figures.iter().copied())?;
            thread.table.get::<Function>("reporter")?.call((name, stat))
        };
        let reporter = reporter();
        self.start(thread, reporter)
    }

    /// Ends the output of the report hooks, after the last report.
    ///
    /// # Errors
    /// With the file and the line where it failed.
    pub fn reported(&self, thread: &ScriptThread) -> Result<(), String> {
        let end = || -> mlua::Result<()> { thread.table.get::<Function>("reported")?.call(()) };
        end().map_err(|error| self.explain(&error))
    }

    /// Begins the life of a connection: thread_init(), then events.
    ///
    /// # Errors
    /// As [`Machine::resume`].
    pub fn begin(&self, thread: &mut ScriptThread) -> Result<Request, String> {
        let main = thread.table.get::<Function>("main");
        self.start(thread, main)
    }

    /// Begins a function of the script, or one of its commands; the request is `Stop` where it did not wait.
    ///
    /// # Errors
    /// As [`Machine::resume`].
    pub fn call(&self, thread: &mut ScriptThread, name: &str) -> Result<Request, String> {
        let caller = thread.table.get::<Function>("caller");
        self.start(thread, caller.and_then(|caller| caller.call(name)))
    }

    fn start(&self, thread: &mut ScriptThread, function: mlua::Result<Function>) -> Result<Request, String> {
        let coroutine = function.and_then(|function| self.lua.create_thread(function));
        thread.coroutine = Some(coroutine.map_err(|error| self.explain(&error))?);
        self.resume(thread, Answer::Nothing)
    }

    /// Begins event `number`: its random numbers are its own.
    pub fn begin_event(&self, thread: &mut ScriptThread, number: u64) {
        thread.stream = RandomStream::of(self.context.seed, Domain::Operation, number);
    }

    /// The script may compute for the limit's time from now on: it just waited.
    #[inline]
    pub fn waited(&self) {
        self.watch.waited();
    }

    /// The script has held the thread since `began_ns`.
    pub fn hold(&self, began_ns: u64) {
        self.held_ns.set(self.held_ns.get() + now_ns().saturating_sub(began_ns));
    }

    /// How long scripts have held the thread since the last call.
    pub fn take_held_ns(&self) -> u64 {
        self.held_ns.take()
    }

    /// Hands an answer to the coroutine, and returns its next request; `Stop` at its end.
    ///
    /// # Errors
    /// With the file and the line of the script, and what happened.
    #[inline]
    pub fn resume(&self, thread: &mut ScriptThread, answer: Answer) -> Result<Request, String> {
        let Some(coroutine) = &thread.coroutine else {
            return Ok(Request::Stop);
        };
        std::mem::swap(&mut *self.stream.borrow_mut(), &mut thread.stream);
        let began_ns = now_ns();
        let result = coroutine.resume::<Request>(answer);
        self.hold(began_ns);
        std::mem::swap(&mut *self.stream.borrow_mut(), &mut thread.stream);
        match result {
            Ok(request) => Ok(request),
            // It returned: there is nothing to convert into a request.
            Err(_) if coroutine.status() == ThreadStatus::Finished => Ok(Request::Stop),
            Err(error) => Err(self.explain(&error)),
        }
    }
}

impl Machine {
    /// An error of Lua, in one line where it is one, with file and line.
    fn explain(&self, error: &mlua::Error) -> String {
        match error {
            mlua::Error::SyntaxError { message, .. } => syntax_error(message),
            mlua::Error::MemoryError(_) => self.too_much_memory(),
            mlua::Error::CallbackError { cause, traceback } => with_line(self.explain(cause), traceback),
            mlua::Error::RuntimeError(message) => {
                let (message, traceback) = message.split_once("\nstack traceback:").unwrap_or((message, ""));
                let message = message.trim_start_matches("runtime error: ");
                // Of these two LuaJIT does not say where they happened.
                if message.ends_with("not enough memory") {
                    return self.too_much_memory();
                }
                if message == "stack overflow" {
                    return format!("{} has used up Lua's stack: an endless recursion?", self.script_seen());
                }
                with_line(message.to_string(), traceback)
            }
            other => other.to_string(),
        }
    }

    fn too_much_memory(&self) -> String {
        format!(
            "{} needs more memory than {} MiB for the connections of a worker; --script-memory allows more",
            self.script_seen(),
            self.context.limits.memory_bytes >> 20
        )
    }

    /// The script, and where it was at the last look.
    fn script_seen(&self) -> String {
        let place = self.watch.seen().map(|place| format!(", last seen at {place},"));
        let path = self.context.program.path.display();
        format!("the script '{path}'{}", place.unwrap_or_default())
    }
}

/// Loads sysbench.lua with what it needs of dynoload.
fn prelude(lua: &Lua, context: &ScriptContext, stream: &Stream, watch: &Watch) -> Result<Function, String> {
    let native = lua.create_table().map_err(|error| error.to_string())?;
    let general = &context.general;
    random::register(
        lua,
        &native,
        stream,
        &general.rand_type,
        &context.parameters,
        (context.seed, context.part),
    )?;
    let fill = || -> mlua::Result<Function> {
        // Hooks that look at the clock are called by the interpreter alone, and events are too short to be worth compiling.
        lua.load("require('jit').off()").exec()?;
        let sources = context.sources.clone();
        let find = move |_: &Lua, (name, script, path): (String, String, String)| {
            Ok(find_module(&sources, &name, &script, &path))
        };
        native.set("find_module", lua.create_function(find)?)?;
        let watch = watch.clone();
        native.set("is_overdue", lua.create_function(move |_, ()| Ok(watch.is_overdue()))?)?;
        native.set("package_path", lua.create_function(|_, ()| Ok(package_path()))?)?;
        let sources = context.sources.clone();
        let read = move |_: &Lua, file: String| {
            let source = sources
                .read(Path::new(&file))
                .map_err(|error| mlua::Error::runtime(format!("'{file}' cannot be read: {error}")))?;
            Ok(without_first_line_of_unix(source))
        };
        native.set("read_file", lua.create_function(read)?)?;
        lua.load(SYSBENCH).set_name(format!("={CHUNK}")).call(&native)
    };
    fill().map_err(|error| error.to_string())
}

/// Instructions between two looks at the clock.
const INSTRUCTIONS: u32 = 100_000;

/// What is known of the script that computes.
#[derive(Debug, Clone)]
pub struct Watch {
    /// Since when it computes without a statement.
    since: Rc<Cell<Instant>>,
    /// Where it was at the last look, as FILE:LINE.
    seen: Rc<RefCell<Option<String>>>,
    limit: Duration,
}

impl Watch {
    /// From now on.
    pub fn new(limit: Duration) -> Self {
        Self {
            since: Rc::new(Cell::new(Instant::now())),
            seen: Rc::default(),
            limit,
        }
    }

    /// It waited: it may compute for the limit's time from now on.
    #[inline]
    pub fn waited(&self) {
        self.since.set(Instant::now());
    }

    /// Where it was at the last look, as FILE:LINE; none before the first one.
    pub fn seen(&self) -> Option<String> {
        self.seen.borrow().clone()
    }

    /// Whether its time is up.
    pub fn is_overdue(&self) -> bool {
        self.since.get().elapsed() > self.limit
    }

    /// Ends a script that computes for longer than the limit without a statement.
    ///
    /// # Errors
    /// When there is no memory.
    pub fn begin(&self, lua: &Lua) -> mlua::Result<()> {
        let watch = self.clone();
        let triggers = HookTriggers::new().every_nth_instruction(INSTRUCTIONS);
        lua.set_global_hook(triggers, move |_, debug| {
            let file = debug.source().short_src.unwrap_or_default().into_owned();
            let place = format!("{file}:{}", debug.current_line().unwrap_or(0));
            if !watch.is_overdue() {
                *watch.seen.borrow_mut() = Some(place);
                return Ok(VmState::Continue);
            }
            Err(mlua::Error::runtime(format!(
                "{place}: the script has computed for {} s without a statement: an endless loop? --script-time-limit \
                 allows more",
                watch.limit.as_secs_f64()
            )))
        })
    }
}
