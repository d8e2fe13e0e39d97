//! sysbench's Lua scripts, unchanged: one Lua state for the connections of a worker, one coroutine for each of them.
//!
//! To a script every call blocks. Below, a call that needs the server yields a [`Request`] to the session of the load
//! loop, and the coroutine is resumed with the answer; no thread waits. Commands (prepare, cleanup) run the same way over
//! [`blocking`] connections.

mod blocking;
mod machine;
mod main_thread;
mod random;
mod request;
mod rows;
mod session;
mod template;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use dyno_core::distribution::Parameters;
use serde::{Serialize, Serializer};

pub use machine::{check_syntax, Machine, ScriptThread};
pub use main_thread::{run_command, Commands, MainThread, Reporting};
pub use session::ScriptSession;

use super::definition::{Definition, Part};
use crate::error::Error;
use crate::sources::Sources;

/// What bounds a script.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Limits {
    /// How long it may compute without a statement.
    #[serde(rename = "time_s", serialize_with = "seconds")]
    pub time: Duration,
    /// Memory of one worker's Lua state.
    pub memory_bytes: usize,
}

/// A script as it was read.
#[derive(Debug)]
pub struct Program {
    /// Its file.
    pub path: PathBuf,
    /// Its text; a first line `#!…` is emptied.
    pub source: String,
}

impl Program {
    /// Reads it.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn read(path: &Path, sources: &Sources) -> Result<Self, Error> {
        let found = find(path, sources);
        let source = sources
            .read(&found)
            .map_err(|error| Error::User(format!("the script '{}' cannot be read: {error}", path.display())))?;
        Ok(Self {
            path: found,
            source: without_first_line_of_unix(source),
        })
    }

    /// The name of its file without folder and ending.
    pub fn name(&self) -> String {
        self.path
            .file_stem()
            .map_or_else(|| "script".into(), |stem| stem.to_string_lossy().into_owned())
    }
}

/// Folders of sysbench's own scripts.
const SYSBENCH_FOLDERS: [&str; 2] = ["/usr/share/sysbench", "/usr/local/share/sysbench"];

/// The file, or, for a bare name as in `sysbench oltp_read_only`, that of sysbench's package.
fn find(path: &Path, sources: &Sources) -> PathBuf {
    let mut candidates = vec![path.to_path_buf()];
    if path.components().count() == 1 {
        let with_ending = path.with_extension("lua");
        candidates.extend(SYSBENCH_FOLDERS.map(|folder| Path::new(folder).join(&with_ending)));
    }
    sources.find(&candidates).unwrap_or_else(|| path.to_path_buf())
}

/// The line stays, so that the numbers of the others do.
pub fn without_first_line_of_unix(source: String) -> String {
    if !source.starts_with("#!") {
        return source;
    }
    let end = source.find('\n').unwrap_or(source.len());
    source[end..].to_string()
}

/// An option that a script declares.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Declared {
    /// Its name, as the script writes it.
    pub name: String,
    /// What it is for.
    pub summary: String,
    /// Its value unless set.
    pub default: String,
}

/// A script, ready to run.
#[derive(Debug, Clone, Serialize)]
pub struct ScriptContext {
    /// The script.
    #[serde(serialize_with = "path_of", rename = "script")]
    pub program: Arc<Program>,
    /// The command, as in sysbench.cmdline.command.
    #[serde(skip)]
    pub command: String,
    /// The options that were set: names with underscores, and texts.
    pub options: BTreeMap<String, String>,
    /// The same, for where the script has such an option and it is not set.
    pub defaults: BTreeMap<String, String>,
    /// The script's file, and the modules that it has loaded.
    #[serde(skip)]
    pub sources: Sources,
    /// Which part of the load this program has.
    #[serde(skip)]
    pub part: Part,
    /// What sysbench.opt has of dynoload's own options.
    #[serde(skip)]
    pub general: General,
    /// What bounds it.
    pub limits: Limits,
    /// Parameters of the distributions.
    #[serde(skip)]
    pub parameters: Parameters,
    /// Seed of all random numbers.
    #[serde(skip)]
    pub seed: u64,
    /// Its name; its statements are not known before they are sent.
    #[serde(skip)]
    pub definition: Definition,
}

fn path_of<S: Serializer>(program: &Arc<Program>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&program.path.display())
}

fn seconds<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(time.as_secs_f64())
}

/// dynoload's options under the names that sysbench.opt has for them.
#[derive(Debug, Clone)]
pub struct General {
    /// Connections, which are sysbench's threads.
    pub threads: u32,
    /// Events that end the load; 0: time does.
    pub events: u64,
    /// Length of the load.
    pub time_s: f64,
    /// Planned events a second; 0 without a plan.
    pub rate: f64,
    /// Length of an interval.
    pub report_interval_s: f64,
    /// The distribution that sysbench.rand.default draws from.
    pub rand_type: String,
    /// The server.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// Its socket; empty for TCP.
    pub socket: String,
    /// The account.
    pub user: String,
    /// The database.
    pub database: String,
    /// auto or disable.
    pub ps_mode: String,
    /// As set.
    pub ignore_errors: String,
}

/// Where modules of Lua are looked for, as in package.path.
pub fn package_path() -> String {
    let mut path = String::from("./?.lua;./?/init.lua");
    if let Some(own) = std::env::var_os("LUA_PATH") {
        path = own.to_string_lossy().replace(";;", &format!(";{path};"));
    }
    for folder in SYSBENCH_FOLDERS {
        let _ = write!(path, ";{folder}/?.lua");
    }
    path
}

/// The file and the text of a module: beside the script, then along `path`. Without one the places that were looked at.
pub fn find_module(sources: &Sources, name: &str, script: &str, path: &str) -> (Option<String>, String, String) {
    let relative = name.replace('.', "/");
    let beside = Path::new(script).parent().map(|folder| folder.join("?.lua"));
    let beside = beside.map(|pattern| pattern.to_string_lossy().into_owned());
    let patterns = beside.iter().map(String::as_str).chain(path.split(';'));
    let candidates: Vec<PathBuf> = patterns
        .filter(|pattern| !pattern.is_empty())
        .map(|pattern| PathBuf::from(pattern.replace('?', &relative)))
        .collect();
    let mut tried = String::new();
    if let Some(found) = sources.find(&candidates) {
        match sources.read(&found) {
            Ok(source) => {
                let file = found.to_string_lossy().into_owned();
                return (Some(file), without_first_line_of_unix(source), tried);
            }
            Err(error) => {
                let _ = write!(tried, "\n  '{}' cannot be read: {error}", found.display());
                return (None, String::new(), tried);
            }
        }
    }
    for candidate in candidates {
        let _ = write!(tried, "\n  no file '{}'", candidate.display());
    }
    (None, String::new(), tried)
}

/// The name of the interface in Lua (`sysbench.lua`) in tracebacks.
pub const CHUNK: &str = "sysbench";

/// A message with the script's line in the traceback, as FILE:LINE, where it has none of its own.
pub fn with_line(message: String, traceback: &str) -> String {
    let is_line = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    let mut head = message.splitn(3, ':');
    if head.next().is_some_and(|file| !file.contains('\n')) && head.next().is_some_and(is_line) {
        return message;
    }
    let places = traceback
        .lines()
        .map(str::trim)
        .filter_map(|line| line.split_once(": in "));
    let mut of_script = places.map(|(place, _)| place).filter(|place| {
        let (file, line) = place.rsplit_once(':').unwrap_or((place, ""));
        is_line(line) && file != CHUNK
    });
    match of_script.next() {
        Some(place) => format!("{place}: {message}"),
        None => message,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_first_line_for_the_shell_is_emptied_and_the_others_keep_their_numbers() {
        assert_eq!(
            without_first_line_of_unix("#!/usr/bin/sysbench\nx = 1\n".into()),
            "\nx = 1\n"
        );
        assert_eq!(without_first_line_of_unix("x = 1".into()), "x = 1");
        assert_eq!(without_first_line_of_unix("#!".into()), "");
    }

    #[test]
    fn a_message_without_a_line_gets_the_first_one_of_the_script() {
        let traceback = "\n\t[C]: in function 'sb_rand'\n\tsysbench:12: in function 'x'\n\tmine:4: in function <mine:3>\n\tmine:9: in y";
        assert_eq!(with_line("bad argument".into(), traceback), "mine:4: bad argument");
        assert_eq!(with_line("mine:2: bad".into(), traceback), "mine:2: bad");
        assert_eq!(with_line("bad".into(), ""), "bad");
    }
}
