//! What can go wrong, by who must act; and the exit codes.
//!
//! ```text
//! Error
//! ├── User     the command line, the password, the tables
//! ├── Server   the server is away, refuses, or cannot do what is asked
//! ├── Host     this host cannot do it
//! ├── Output   an output that fails, or what should not happen
//! └── Interrupted   by Ctrl-C, before there was a result
//! ```

use std::fmt;

/// The exit codes of `dynoload`. `--help` lists them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// The command did what it was asked; a run's verdict is VALID or SUSPECT.
    Done = 0,
    /// The run failed: the server was lost, or gave an error that is not ignored.
    Failed = 1,
    /// The input is wrong; nothing was sent as load.
    Input = 2,
    /// The server or this host cannot do it; nothing was sent as load.
    Impossible = 3,
    /// The run ended, but its verdict is INVALID.
    Invalid = 4,
    /// Interrupted.
    Interrupted = 130,
}

/// An error with a message (what, where, value) and a hint (what to try).
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Error {
    /// The user's input.
    User(String),
    /// The server, before or during the load.
    Server(String),
    /// The host.
    Host(String),
    /// An output that fails, or what should not happen.
    Output(String),
    /// Interrupted before there was a result.
    Interrupted(String),
}

impl Error {
    /// The exit code that it ends with.
    pub fn exit(&self) -> Exit {
        match self {
            Self::User(_) => Exit::Input,
            Self::Server(_) | Self::Host(_) => Exit::Impossible,
            Self::Output(_) => Exit::Failed,
            Self::Interrupted(_) => Exit::Interrupted,
        }
    }
}

impl Error {
    /// The same error, with who had it before its message.
    pub fn had_by(self, who: &str) -> Self {
        let named = |message: String| format!("{who}: {message}");
        match self {
            Self::User(message) => Self::User(named(message)),
            Self::Server(message) => Self::Server(named(message)),
            Self::Host(message) => Self::Host(named(message)),
            Self::Output(message) => Self::Output(named(message)),
            Self::Interrupted(message) => Self::Interrupted(named(message)),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::User(message)
        | Self::Server(message)
        | Self::Host(message)
        | Self::Output(message)
        | Self::Interrupted(message)) = self;
        formatter.write_str(message)
    }
}

impl std::error::Error for Error {}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        Self::Output(format!("the output failed: {error}"))
    }
}
