//! What a workload of the catalogue is.

use super::OltpOptions;
use crate::sql::definition::Definition;

/// One workload of the catalogue.
#[derive(Clone, Copy)]
pub struct Workload {
    /// Its name on the command line; sysbench's where sysbench has it.
    pub name: &'static str,
    /// One sentence for `dynoload oltp list`.
    pub summary: &'static str,
    /// Whether it works on sbtest1 alone.
    pub single_table: bool,
    /// Makes the definition for some options.
    pub define: fn(&OltpOptions) -> Definition,
}

impl std::fmt::Debug for Workload {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Workload").field("name", &self.name).finish()
    }
}
