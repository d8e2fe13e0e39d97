//! Numbers of the protocol, under the names of the MySQL and MariaDB manuals.

/// Capability flags (both sides' handshake packets).
#[allow(missing_docs)] // each is the manual's own CLIENT_ name
pub mod capability {
    /// MySQL calls it LONG_PASSWORD; a MariaDB server leaves it out to say that its extended flags follow.
    pub const MYSQL: u64 = 1;
    pub const CONNECT_WITH_DB: u64 = 1 << 3;
    pub const COMPRESS: u64 = 1 << 5;
    pub const PROTOCOL_41: u64 = 1 << 9;
    pub const SSL: u64 = 1 << 11;
    pub const TRANSACTIONS: u64 = 1 << 13;
    pub const SECURE_CONNECTION: u64 = 1 << 15;
    pub const MULTI_STATEMENTS: u64 = 1 << 16;
    pub const MULTI_RESULTS: u64 = 1 << 17;
    pub const PS_MULTI_RESULTS: u64 = 1 << 18;
    pub const PLUGIN_AUTH: u64 = 1 << 19;
    pub const CONNECT_ATTRS: u64 = 1 << 20;
    pub const PLUGIN_AUTH_LENENC_DATA: u64 = 1 << 21;
    pub const DEPRECATE_EOF: u64 = 1 << 24;
    pub const ZSTD_COMPRESSION: u64 = 1 << 26;
    pub const QUERY_ATTRIBUTES: u64 = 1 << 27;
    /// MariaDB: result sets of prepared statements may leave out metadata that the client already has.
    pub const MARIADB_CACHE_METADATA: u64 = 1 << 36;
}

/// Command bytes.
#[allow(missing_docs)] // each is the manual's own COM_ name
pub mod command {
    pub const QUIT: u8 = 0x01;
    pub const INIT_DB: u8 = 0x02;
    pub const QUERY: u8 = 0x03;
    pub const FIELD_LIST: u8 = 0x04;
    pub const CREATE_DB: u8 = 0x05;
    pub const DROP_DB: u8 = 0x06;
    pub const REFRESH: u8 = 0x07;
    pub const SHUTDOWN: u8 = 0x08;
    pub const STATISTICS: u8 = 0x09;
    pub const PROCESS_INFO: u8 = 0x0a;
    pub const PROCESS_KILL: u8 = 0x0c;
    pub const DEBUG: u8 = 0x0d;
    pub const PING: u8 = 0x0e;
    pub const CHANGE_USER: u8 = 0x11;
    pub const BINLOG_DUMP: u8 = 0x12;
    pub const TABLE_DUMP: u8 = 0x13;
    pub const REGISTER_REPLICA: u8 = 0x15;
    pub const STMT_PREPARE: u8 = 0x16;
    pub const STMT_EXECUTE: u8 = 0x17;
    pub const STMT_SEND_LONG_DATA: u8 = 0x18;
    pub const STMT_CLOSE: u8 = 0x19;
    pub const STMT_RESET: u8 = 0x1a;
    pub const SET_OPTION: u8 = 0x1b;
    pub const STMT_FETCH: u8 = 0x1c;
    pub const BINLOG_DUMP_GTID: u8 = 0x1e;
    pub const RESET_CONNECTION: u8 = 0x1f;
    /// MySQL's CLONE.
    pub const CLONE: u8 = 0x20;
    /// MariaDB's: one statement with many sets of values.
    pub const STMT_BULK_EXECUTE: u8 = 0xfa;
}

/// Bits of the status word in OK and EOF packets.
pub mod status {
    /// Autocommit is on.
    pub const AUTOCOMMIT: u16 = 0x0002;
    /// Another result of the same command follows.
    pub const MORE_RESULTS: u16 = 0x0008;
    /// Rows are kept for COM_STMT_FETCH.
    pub const CURSOR_EXISTS: u16 = 0x0040;
    /// A backslash is a character like any other.
    pub const NO_BACKSLASH_ESCAPES: u16 = 0x0200;
}

/// Column and parameter types (`enum_field_types`).
#[allow(missing_docs)] // each is the manual's own MYSQL_TYPE_ name
pub mod column_type {
    pub const DECIMAL: u8 = 0;
    pub const TINY: u8 = 1;
    pub const SHORT: u8 = 2;
    pub const LONG: u8 = 3;
    pub const FLOAT: u8 = 4;
    pub const DOUBLE: u8 = 5;
    pub const NULL: u8 = 6;
    pub const TIMESTAMP: u8 = 7;
    pub const LONGLONG: u8 = 8;
    pub const INT24: u8 = 9;
    pub const DATE: u8 = 10;
    pub const TIME: u8 = 11;
    pub const DATETIME: u8 = 12;
    pub const YEAR: u8 = 13;
    pub const VAR_STRING: u8 = 253;
    pub const STRING: u8 = 254;
}

/// The largest payload of one packet; a payload of this length or more continues in the next packet.
pub const MAX_PACKET_PAYLOAD: usize = 0xff_ffff;
