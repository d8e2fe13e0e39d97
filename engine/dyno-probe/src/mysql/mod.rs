//! The status of MySQL and MariaDB servers: what is asked, by which statement on which version, and how it becomes
//! metrics.

pub mod dump;
pub mod engine_status;
pub mod live;
pub mod reader;
pub mod redo;
pub mod session;
pub mod status_family;
pub mod version;

/// A result set: column names and rows of texts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Table {
    /// Names of the columns.
    pub columns: Vec<String>,
    /// Rows; SQL's NULL is `None`.
    pub rows: Vec<Vec<Option<Vec<u8>>>>,
}

impl Table {
    /// Place of a column, in whatever case the server gives it.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.eq_ignore_ascii_case(name))
    }

    /// The first row's value in that column.
    pub fn first(&self, column: usize) -> Option<&[u8]> {
        self.rows.first()?.get(column)?.as_deref()
    }
}

/// Something that answers SQL: a live server, or saved answers.
pub trait Server: Send {
    /// Runs one statement.
    ///
    /// # Errors
    /// The server's message, or what happened to the connection.
    fn query(&mut self, statement: &str) -> Result<Table, String>;
}
