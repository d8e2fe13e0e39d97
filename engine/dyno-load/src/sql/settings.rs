//! What a run of SQL is to do: resolved once, then frozen.

use std::path::PathBuf;
use std::sync::Arc;

use dyno_loop::LoadSettings;

use super::definition::Definition;
use super::oltp;
use super::tpcc::{self, TpccConfig};

/// The statements, and where their values come from.
#[derive(Debug, Clone)]
pub enum SqlWorkload {
    /// One of sysbench's OLTP family, or `connect`.
    Oltp(oltp::Context),
    /// TPC-C.
    Tpcc(tpcc::Context),
}

impl SqlWorkload {
    /// Its statements.
    pub fn definition(&self) -> &Definition {
        match self {
            Self::Oltp(context) => &context.definition,
            Self::Tpcc(context) => &context.definition,
        }
    }

    /// Tables that each statement of a kind exists for.
    pub fn tables(&self) -> u32 {
        match self {
            Self::Oltp(context) => context.options.tables,
            Self::Tpcc(_) => 1,
        }
    }

    /// The configuration of TPC-C; none for another workload.
    pub fn tpcc(&self) -> Option<&TpccConfig> {
        match self {
            Self::Oltp(_) => None,
            Self::Tpcc(context) => Some(&context.config),
        }
    }
}

/// One run.
#[derive(Debug)]
pub struct SqlSettings {
    /// How the load runs.
    pub load: LoadSettings,
    /// How to log in.
    pub options: Arc<dyno_mysql::Options>,
    /// The workload.
    pub workload: SqlWorkload,
    /// Prepared statements, or text.
    pub prepared: bool,
    /// File for the New-Orders that the server has acknowledged (TPC-C).
    pub acknowledged: Option<PathBuf>,
}

impl SqlSettings {
    /// Connections of the whole run.
    pub fn connections(&self) -> u32 {
        self.load.shape.connections
    }

    /// Whether every transaction is a new connection.
    pub fn connects_each_time(&self) -> bool {
        self.workload.definition().name == "connect"
    }
}
