//! Why a run, or one connection, cannot go on: a message for people and a code for the record.

/// The end of a run before its time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, serde::Serialize, serde::Deserialize)]
#[error("{message}")]
pub struct Failure {
    /// The server's or the client library's error number; absent for what has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<u16>,
    /// What happened, where, and what to try.
    pub message: String,
}

impl Failure {
    /// A failure without a number.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            code: None,
            message: message.into(),
        }
    }

    /// A failure with the server's or the client library's number.
    pub fn with_code(code: u16, message: impl Into<String>) -> Self {
        Self {
            code: Some(code),
            message: message.into(),
        }
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::new(format!("the kernel refused to wait for connections: {error}"))
    }
}

/// The loss of one connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loss {
    /// The code under which it is counted: the server's, or one of [`crate::recorder::client_code`].
    pub code: u16,
    /// What happened.
    pub message: String,
    /// Whether connecting again could help; false where the server's data are wrong.
    pub can_reconnect: bool,
}

impl Loss {
    /// A loss after which connecting again may help.
    pub fn new(code: u16, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            can_reconnect: true,
        }
    }
}

impl From<std::io::Error> for Loss {
    fn from(error: std::io::Error) -> Self {
        Self::new(
            crate::recorder::client_code::SERVER_LOST,
            format!("the connection failed: {error}"),
        )
    }
}

/// Why a session cannot go on.
#[derive(Debug)]
pub enum Stop {
    /// Its connection is lost.
    Lost(Loss),
    /// The whole run ends.
    Failed(Failure),
}

impl From<Loss> for Stop {
    fn from(loss: Loss) -> Self {
        Self::Lost(loss)
    }
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}
