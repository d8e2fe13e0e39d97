//! What to run, as the user wrote it: plain types that also travel to agents, and their resolution into settings.

mod connection;
mod kv;
mod kv_data;
mod kv_preset;
mod load;
mod oltp;
mod script;

pub use connection::ConnectionSpec;
pub use kv::{fill, KvPart, KvSpec};
pub use kv_data::{KvData, KvMix, KvServer};
pub use kv_preset::{PresetSpec, Ycsb};
pub use load::{threads_for, trace, trace_path, EventOptions, KvDescription, LoadSpec, RandomSpec, SqlDescription};
pub use oltp::{OltpSpec, TerminalSpec, TpccSpec};
pub use script::{FileSpec, ScriptSpec};

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::sql::SqlSettings;

/// A run of any kind, as it travels to agents.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunSpec {
    /// `oltp run` and `tpcc run`.
    Sql(Box<SqlSpec>),
    /// `kv run`.
    Kv(Box<KvSpec>),
}

impl RunSpec {
    /// How much load, and for how long.
    pub fn load_mut(&mut self) -> &mut LoadSpec {
        match self {
            Self::Sql(spec) => spec.load_mut(),
            Self::Kv(spec) => &mut spec.load,
        }
    }
}

/// A run of SQL.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SqlSpec {
    /// `oltp run`.
    Oltp(OltpSpec),
    /// `tpcc run`.
    Tpcc(TpccSpec),
    /// `script FILE run`.
    Script(ScriptSpec),
    /// `sql run`.
    File(FileSpec),
}

impl SqlSpec {
    /// How much load, and for how long.
    pub fn load_mut(&mut self) -> &mut LoadSpec {
        match self {
            Self::Oltp(spec) => &mut spec.load,
            Self::Tpcc(spec) => &mut spec.load,
            Self::Script(spec) => &mut spec.load,
            Self::File(spec) => &mut spec.load,
        }
    }

    /// Where the server is.
    pub fn connection_mut(&mut self) -> &mut ConnectionSpec {
        match self {
            Self::Oltp(spec) => &mut spec.connection,
            Self::Tpcc(spec) => &mut spec.connection,
            Self::Script(spec) => &mut spec.connection,
            Self::File(spec) => &mut spec.connection,
        }
    }

    /// The files that it was read from.
    pub fn files(&self) -> Vec<PathBuf> {
        let (load, mut files) = match self {
            Self::Oltp(spec) => (&spec.load, Vec::new()),
            Self::Tpcc(spec) => (&spec.load, Vec::new()),
            Self::Script(spec) => (&spec.load, spec.sources.paths()),
            Self::File(spec) => (&spec.load, spec.sources.paths()),
        };
        files.extend(trace_path(load).map(PathBuf::from));
        files
    }

    /// Whether the workload has one table only.
    ///
    /// # Errors
    /// When there is no such workload.
    pub fn is_single_table(&self) -> Result<bool, Error> {
        match self {
            Self::Oltp(spec) => Ok(spec.workload()?.single_table),
            Self::Tpcc(_) | Self::Script(_) | Self::File(_) => Ok(false),
        }
    }

    /// The settings.
    ///
    /// # Errors
    /// With the option, its value and what is allowed.
    pub fn resolve(&self) -> Result<SqlSettings, Error> {
        match self {
            Self::Oltp(spec) => spec.resolve(),
            Self::Tpcc(spec) => spec.resolve(),
            Self::Script(spec) => spec.resolve(),
            Self::File(spec) => spec.resolve(),
        }
    }

    /// The settings in the user's words.
    pub fn description(&self, settings: &SqlSettings) -> SqlDescription {
        match self {
            Self::Oltp(spec) => spec.description(),
            Self::Tpcc(spec) => spec.description(settings.workload.tpcc()),
            Self::Script(spec) => spec.description(),
            Self::File(spec) => spec.description(),
        }
    }
}
