//! What a run of SQL is to do: resolved once, then frozen.

use std::path::PathBuf;
use std::sync::Arc;

use dyno_loop::{LoadSettings, Totals};
use dyno_mysql::{Options, OWN_STATE};

use super::captured::CapturedContext;
use super::definition::{Definition, Part};
use super::file::FileContext;
use super::oltp;
use super::record::SqlRecord;
use super::script::ScriptContext;
use super::tpcc::{self, TpccConfig};

/// The statements, and where their values come from.
#[derive(Debug, Clone)]
pub enum SqlWorkload {
    /// One of sysbench's OLTP family, or `connect`.
    Oltp(oltp::Context),
    /// TPC-C.
    Tpcc(tpcc::Context),
    /// A script of sysbench.
    Script(Box<ScriptContext>),
    /// A file of SQL transactions.
    File(FileContext),
    /// The transactions of a capture.
    Captured(CapturedContext),
}

impl SqlWorkload {
    /// Its statements.
    pub fn definition(&self) -> &Definition {
        match self {
            Self::Oltp(context) => &context.definition,
            Self::Tpcc(context) => &context.definition,
            Self::Script(context) => &context.definition,
            Self::File(context) => &context.definition,
            Self::Captured(context) => context.definition(),
        }
    }

    /// Tables that each statement of a kind exists for.
    pub fn tables(&self) -> u32 {
        match self {
            Self::Oltp(context) => context.options.table.tables,
            Self::Tpcc(_) | Self::Script(_) | Self::File(_) | Self::Captured(_) => 1,
        }
    }

    /// The part of one agent: what may come once in a load only is divided among them.
    pub fn divide(&mut self, part: Part) {
        match self {
            Self::Oltp(_) | Self::Tpcc(_) => {}
            Self::Script(context) => context.part = part,
            Self::File(context) => context.divide(part),
            Self::Captured(context) => context.part = part,
        }
    }

    /// The configuration of TPC-C; none for another workload.
    pub fn tpcc(&self) -> Option<&TpccConfig> {
        match self {
            Self::Oltp(_) | Self::Script(_) | Self::File(_) | Self::Captured(_) => None,
            Self::Tpcc(context) => Some(&context.config),
        }
    }
}

/// One run.
#[derive(Debug, Clone)]
pub struct SqlSettings {
    /// How the load runs.
    pub load: LoadSettings,
    /// How to log in.
    pub options: Arc<Options>,
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

    /// The options of the connection for questions, whose statements are this program's whatever the workload.
    pub fn control_options(&self) -> Options {
        Options {
            init_statements: vec![OWN_STATE.into()],
            ..Options::clone(&self.options)
        }
    }

    /// How many questions the server may have counted for making lost connections again.
    pub fn questions_of_reconnecting(&self, totals: &Totals<SqlRecord>) -> u64 {
        (totals.all.reconnects + totals.all.new_sessions) * (self.options.init_statements.len() as u64 + 1)
    }

    /// Whether every transaction is a new connection.
    pub fn connects_each_time(&self) -> bool {
        self.workload.definition().name == "connect"
    }
}
