//! The connection phase's packets: the server's greeting, the TLS request, the client's answer.
//! Source: the MySQL manual's "Connection Phase Packets" and MariaDB's "Connecting"; protocol version 10 only.

use crate::auth::Plugin;
use crate::constants::{capability, MAX_PACKET_PAYLOAD};
use crate::error::Error;
use crate::options::{Compression, Options};
use crate::packet::{put_bytes, put_length, text, Reader, MOST_NAME_BYTES};

/// Length of the random bytes that mysql_native_password and caching_sha2_password work on.
pub(crate) const NONCE: usize = 20;

/// What the server said of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerInfo {
    /// The version as reported, without the "5.5.5-" that MariaDB puts before it for old replicas.
    pub version: String,
    /// Whether it is MariaDB.
    pub is_mariadb: bool,
    /// The server's number for this connection, as in SHOW PROCESSLIST and KILL.
    pub connection_id: u32,
    /// All that the server offers (MariaDB's extended flags from bit 32 on).
    pub capabilities: u64,
    /// What both sides use.
    pub agreed: u64,
}

/// The greeting, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Greeting {
    /// The server.
    pub server: ServerInfo,
    pub(crate) nonce: Vec<u8>,
    pub(crate) plugin: Vec<u8>,
}

impl Greeting {
    /// Takes a greeting apart.
    ///
    /// # Errors
    /// When it is none, or of a server before 4.1.
    pub fn parse(payload: &[u8]) -> Result<Greeting, Error> {
        let mut reader = Reader::new(payload);
        let protocol = reader.u8("protocol version")?;
        if protocol != 10 {
            return Err(Error::protocol(format!(
                "greeting has protocol version {protocol}, only 10 is known"
            )));
        }
        let text = text(reader.until_zero(), MOST_NAME_BYTES);
        let connection_id = reader.u32("connection id")?;
        let mut nonce = reader.bytes(8, "random bytes, first part")?.to_vec();
        reader.u8("filler")?;
        let low = reader.u16("capabilities, lower half")? as u64;
        if reader.is_empty() {
            return Err(Error::protocol(
                "the greeting ends before the authentication plugin: a server before 4.1?",
            ));
        }
        reader.bytes(3, "character set and status")?;
        let high = reader.u16("capabilities, upper half")? as u64;
        let nonce_length = reader.u8("length of random bytes")? as usize;
        reader.bytes(6, "reserved")?;
        let extended = reader.u32("extended capabilities")? as u64;
        let mut capabilities = low | high << 16;
        if capabilities & capability::MYSQL == 0 {
            capabilities |= extended << 32;
        }
        if capabilities & capability::PROTOCOL_41 == 0 || capabilities & capability::SECURE_CONNECTION == 0 {
            return Err(Error::protocol(
                "the server does not speak the protocol of MySQL 4.1 and later",
            ));
        }
        nonce.extend_from_slice(reader.bytes(nonce_length.saturating_sub(8).max(13), "random bytes, second part")?);
        nonce.truncate(NONCE);
        let plugin = match capabilities & capability::PLUGIN_AUTH {
            0 => Plugin::Native.name().into(),
            _ => reader.until_zero().to_vec(),
        };
        let replica_prefix = text.strip_prefix("5.5.5-");
        let is_mariadb = replica_prefix.is_some() || text.contains("MariaDB");
        let version = replica_prefix.unwrap_or(&text).to_owned();
        Ok(Greeting {
            server: ServerInfo {
                version,
                is_mariadb,
                connection_id,
                capabilities,
                agreed: 0,
            },
            nonce,
            plugin,
        })
    }
}

/// The flags to use: what these options want and this server has; an error when a wish cannot be met.
pub(crate) fn agree(options: &Options, server: &ServerInfo, tls: bool) -> Result<u64, Error> {
    use capability as c;
    let offered = server.capabilities;
    let mut flags = c::PROTOCOL_41 | c::SECURE_CONNECTION;
    flags |= offered
        & (c::TRANSACTIONS
            | c::MULTI_RESULTS
            | c::PS_MULTI_RESULTS
            | c::PLUGIN_AUTH
            | c::PLUGIN_AUTH_LENENC_DATA
            | c::CONNECT_ATTRS);
    if offered & c::MYSQL != 0 {
        flags |= c::MYSQL;
    } else if options.cache_metadata {
        flags |= offered & c::MARIADB_CACHE_METADATA;
    }
    if options.multi_statements {
        flags |= offered & c::MULTI_STATEMENTS;
    }
    if options.deprecate_eof {
        flags |= offered & c::DEPRECATE_EOF;
    }
    if options.database.is_some() {
        flags |= c::CONNECT_WITH_DB;
    }
    if tls {
        flags |= c::SSL;
    }
    let wanted = match options.compression {
        Compression::Off => 0,
        Compression::Zlib { .. } => c::COMPRESS,
        Compression::Zstd { .. } => c::ZSTD_COMPRESSION,
    };
    if wanted & !offered != 0 || (wanted == c::ZSTD_COMPRESSION && offered & c::MYSQL == 0) {
        return Err(Error::setup(format!(
            "server {} at {} does not offer the requested compression ({:?}): use another, or none",
            server.version, options.endpoint, options.compression
        )));
    }
    Ok(flags | wanted)
}

/// The 32 bytes that open both the TLS request and the answer.
fn put_preamble(out: &mut Vec<u8>, options: &Options, agreed: u64) {
    out.extend_from_slice(&(agreed as u32).to_le_bytes());
    out.extend_from_slice(&(MAX_PACKET_PAYLOAD as u32 + 1).to_le_bytes());
    out.push(options.charset.collation());
    out.extend_from_slice(&[0; 19]);
    out.extend_from_slice(&((agreed >> 32) as u32).to_le_bytes());
}

/// The payload that asks the server to start TLS.
pub(crate) fn tls_request(options: &Options, agreed: u64) -> Vec<u8> {
    let mut out = Vec::with_capacity(32);
    put_preamble(&mut out, options, agreed);
    out
}

/// The client's answer: who, with which proof, which database, what attributes.
pub(crate) fn response(options: &Options, agreed: u64, plugin: Plugin, proof: &[u8]) -> Result<Vec<u8>, Error> {
    let mut out = Vec::with_capacity(256);
    put_preamble(&mut out, options, agreed);
    put_text(&mut out, options.user.as_bytes(), "user name")?;
    if agreed & capability::PLUGIN_AUTH_LENENC_DATA != 0 {
        put_bytes(&mut out, proof);
    } else {
        out.push(proof.len() as u8);
        out.extend_from_slice(proof);
    }
    if let Some(database) = &options.database {
        put_text(&mut out, database.as_bytes(), "database name")?;
    }
    if agreed & capability::PLUGIN_AUTH != 0 {
        put_text(&mut out, plugin.name().as_bytes(), "plugin name")?;
    }
    if agreed & capability::CONNECT_ATTRS != 0 {
        let mut attributes = Vec::new();
        for (name, value) in [("_client_name", "mydyno"), ("program_name", &options.program_name)] {
            put_bytes(&mut attributes, name.as_bytes());
            put_bytes(&mut attributes, value.as_bytes());
        }
        put_length(&mut out, attributes.len() as u64);
        out.extend_from_slice(&attributes);
    }
    if let Compression::Zstd { level } = options.compression {
        out.push(level as u8);
    }
    Ok(out)
}

fn put_text(out: &mut Vec<u8>, text: &[u8], what: &str) -> Result<(), Error> {
    if text.contains(&0) {
        return Err(Error::setup(format!(
            "{what} holds a zero byte, which the protocol cannot carry"
        )));
    }
    out.extend_from_slice(text);
    out.push(0);
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::endpoint::Endpoint;

    /// The greeting of a MariaDB 10.11 server, as recorded, with the random bytes replaced.
    pub(crate) const MARIADB_GREETING: &[u8] = b"\x0a5.5.5-10.11.19-MariaDB-0+deb12u1\0\x05\0\0\0abcdefgh\0\
        \xfe\xff\x08\x02\0\xff\x81\x15\0\0\0\0\0\0\x1d\0\0\0ijklmnopqrst\0mysql_native_password\0";

    #[test]
    fn a_mariadb_greeting_loses_its_replica_prefix_and_shows_its_extended_flags() {
        let greeting = Greeting::parse(MARIADB_GREETING).unwrap();
        assert_eq!(greeting.server.version, "10.11.19-MariaDB-0+deb12u1");
        assert!(greeting.server.is_mariadb);
        assert_eq!(greeting.server.connection_id, 5);
        assert_eq!(greeting.nonce, b"abcdefghijklmnopqrst");
        assert_eq!(greeting.plugin, b"mysql_native_password");
        assert_ne!(greeting.server.capabilities & capability::MARIADB_CACHE_METADATA, 0);
    }

    #[test]
    fn a_greeting_cut_anywhere_before_its_plugin_is_an_error() {
        let end = MARIADB_GREETING.len() - b"mysql_native_password\0".len();
        for length in 0..end {
            assert!(Greeting::parse(&MARIADB_GREETING[..length]).is_err(), "cut at {length}");
        }
    }

    #[test]
    fn compression_that_the_server_lacks_is_refused() {
        let mut options = Options::new(Endpoint::tcp("h", 1), "u");
        options.compression = Compression::Zstd { level: 3 };
        let mut server = Greeting::parse(MARIADB_GREETING).unwrap().server;
        assert!(agree(&options, &server, false).is_err());
        options.compression = Compression::Zlib { level: 6 };
        assert_ne!(agree(&options, &server, false).unwrap() & capability::COMPRESS, 0);
        server.capabilities &= !capability::COMPRESS;
        assert!(agree(&options, &server, false).is_err());
    }

    #[test]
    fn a_zero_byte_in_the_user_name_is_refused() {
        let options = Options::new(Endpoint::tcp("h", 1), "a\0b");
        assert!(response(&options, 0, Plugin::Native, b"").is_err());
    }
}
