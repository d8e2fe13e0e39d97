//! sysbench's Lua scripts, unchanged: one Lua state for the connections of a worker, one coroutine for each of them.
//!
//! To a script every call blocks. Below, a call that needs the server yields a [`Request`] to the session of the load
//! loop, and the coroutine is resumed with the answer; no thread waits. Commands (prepare, cleanup) run the same way over
//! [`blocking`] connections.

mod blocking;
mod machine;
mod main_thread;
mod program;
mod random;
mod request;
mod rows;
mod session;
mod template;
mod watch;

pub use machine::{check_syntax, Machine, ScriptThread};
pub use main_thread::{run_command, Commands};
pub use main_thread::{MainThread, Reporting};
pub use program::{Declared, General, Limits, Program, ScriptContext};
pub use session::ScriptSession;
