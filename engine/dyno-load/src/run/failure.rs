//! Why a run cannot go on, in words for the person and with the code for the record.

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
