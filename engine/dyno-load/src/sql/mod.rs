//! MySQL and MariaDB: the workloads in SQL, their tables, the control connection, and the session of the load loop.

pub mod captured;
pub mod data;
pub mod definition;
pub mod file;
pub mod named;
pub mod oltp;
pub mod preflight;
pub mod reconciliation;
pub mod record;
pub mod script;
pub mod server;
mod session;
pub mod settings;
pub mod tpcc;

pub use definition::{Definition, StatementKind};
pub use record::{SqlRecord, SqlRecorder, SqlSums};
pub use session::SqlSession;
pub use settings::{SqlSettings, SqlWorkload};
