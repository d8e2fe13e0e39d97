//! Which part of a load is one agent's.

/// One of the agents that generate a load together; by default the load is whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// Its number, from 0.
    pub index: u32,
    /// How many agents there are.
    pub count: u32,
}

impl Default for Part {
    fn default() -> Self {
        Self { index: 0, count: 1 }
    }
}
