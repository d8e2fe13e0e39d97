//! What a replay is to do.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use super::{Pace, ReplayPlan, Selection};
use crate::spec::ConnectionSpec;

/// What to replay, and how.
#[derive(Debug)]
pub struct ReplayRun {
    /// The capture.
    pub capture: PathBuf,
    /// The server.
    pub connection: ConnectionSpec,
    /// The part of it.
    pub selection: Selection,
    /// How fast.
    pub pace: Pace,
    /// Most connections at a time.
    pub connections: Option<u32>,
    /// Worker threads.
    pub threads: Option<u32>,
    /// How long nothing may end once all is due.
    pub grace: Duration,
    /// Errors that the verdict does not count.
    pub ignored_errors: BTreeSet<u16>,
    /// Where each statement's result goes.
    pub results: Option<PathBuf>,
    /// Where the summary goes as JSON lines.
    pub json: Option<PathBuf>,
    /// No progress.
    pub quiet: bool,
    /// Whether a server that is neither MySQL nor MariaDB will do.
    pub any_server: bool,
}

impl ReplayRun {
    /// Most connections at a time: as fast as possible not more than the capture had.
    pub fn most_open(&self, plan: &ReplayPlan) -> u32 {
        let most = self.connections.unwrap_or(match self.pace {
            Pace::Max => plan.peak_sessions,
            Pace::Times(_) => plan.sessions.len() as u32,
        });
        most.clamp(1, plan.sessions.len() as u32)
    }
}
