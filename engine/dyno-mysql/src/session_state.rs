//! What a session is set to right after its login, so that it does not depend on the server's global values.
//!
//! Every variable exists on all versions of MySQL and MariaDB, or stands in a comment that only those execute that have it,
//! and any account may set it. One statement each: one round trip.

/// For a program's own statements: as [`MEASURED_STATE`], and without the server's limit of a statement's time, which would
/// end the preparation of large tables (`max_statement_time` of MariaDB, `max_execution_time` of MySQL).
pub const OWN_STATE: &str = "SET SESSION autocommit = 1, completion_type = 0, \
     sql_mode = 'STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION', sql_select_limit = 18446744073709551615, \
     wait_timeout = 2147483 /*M!100101 , max_statement_time = 0 */ /*!50708 , max_execution_time = 0 */";

/// For the statements of a built-in load. Each is committed by itself; what the statements mean, and how many rows they
/// return, is not for the server's configuration to decide; and the session may be idle for 24 days.
pub const MEASURED_STATE: &str = "SET SESSION autocommit = 1, completion_type = 0, \
     sql_mode = 'STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION', sql_select_limit = 18446744073709551615, \
     wait_timeout = 2147483";

/// As [`MEASURED_STATE`], for work in which COMMIT and ROLLBACK are the only limits of transactions.
pub const OWN_STATE_IN_TRANSACTIONS: &str = "SET SESSION autocommit = 0, completion_type = 0, \
     sql_mode = 'STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION', sql_select_limit = 18446744073709551615, \
     wait_timeout = 2147483";

/// For the statements of a dump: it sets what else it needs. It was written for the default meaning of quotes and
/// backslashes, or sets another `sql_mode` itself: a server's own modes that change it are taken away, with those that
/// contain them. A server ignores the commas at both ends.
pub const STATE_FOR_A_DUMP: &str = "SET SESSION autocommit = 1, wait_timeout = 2147483, sql_mode = \
     REPLACE(REPLACE(REPLACE(REPLACE(REPLACE(REPLACE(REPLACE(REPLACE(CONCAT(',', @@sql_mode, ','), \
     ',ANSI,', ','), ',ANSI_QUOTES,', ','), ',DB2,', ','), ',MAXDB,', ','), ',MSSQL,', ','), \
     ',NO_BACKSLASH_ESCAPES,', ','), ',ORACLE,', ','), ',POSTGRESQL,', ',') \
     /*M!100101 , max_statement_time = 0 */ /*!50708 , max_execution_time = 0 */";

/// For captured statements: what a server's autocommit was is in the capture.
pub const CAPTURED_STATE: &str = "SET SESSION autocommit = 1, wait_timeout = 2147483";

/// For the user's statements, which run in the state that the server gives each session, however long it is idle.
pub const INHERITED_STATE: &str = "SET SESSION wait_timeout = 2147483";
