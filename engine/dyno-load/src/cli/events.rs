//! `--events` of the runs whose transactions are the user's.

use clap::Args;

use super::load::LoadArguments;
use crate::spec::LoadSpec;

/// When the load ends.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Load")]
pub struct EventArguments {
    /// Closed loop: end after this many transactions in all, if --duration has not passed before; 0: by time alone
    #[arg(long, default_value_t = 0, conflicts_with_all = ["rate", "warmup", "slices", "agent"])]
    events: u64,
}

impl EventArguments {
    /// The load with its end.
    pub fn spec(&self, load: &LoadArguments) -> LoadSpec {
        LoadSpec {
            events: (self.events > 0).then_some(self.events),
            ..load.spec()
        }
    }
}
