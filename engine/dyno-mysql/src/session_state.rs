//! What a session is set to right after its login, so that it does not depend on the server's global values.
//!
//! Every variable exists on all versions of MySQL and MariaDB, and any account may set it. One statement each: one round
//! trip.

/// For a program's own statements. Each is committed by itself; what the statements mean, and how many rows they return,
/// is not for the server's configuration to decide; and the session may be idle for 24 days.
pub const OWN_STATE: &str = "SET SESSION autocommit = 1, completion_type = 0, \
     sql_mode = 'STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION', sql_select_limit = 18446744073709551615, \
     wait_timeout = 2147483";

/// As [`OWN_STATE`], for work in which COMMIT and ROLLBACK are the only limits of transactions.
pub const OWN_STATE_IN_TRANSACTIONS: &str = "SET SESSION autocommit = 0, completion_type = 0, \
     sql_mode = 'STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION', sql_select_limit = 18446744073709551615, \
     wait_timeout = 2147483";

/// For the statements of a dump: it sets what else it needs.
pub const STATE_FOR_A_DUMP: &str = "SET SESSION autocommit = 1, wait_timeout = 2147483";

/// For the user's statements, which run in the state that the server gives each session, however long it is idle.
pub const INHERITED_STATE: &str = "SET SESSION wait_timeout = 2147483";
