//! The options that say where the server is and how to connect to it.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::parse::positive_duration;
use crate::spec::ConnectionSpec;

/// Server, account, TLS and compression.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Connection")]
pub struct ConnectionArguments {
    /// Name or address of the server
    #[arg(long, default_value = "127.0.0.1", conflicts_with = "socket")]
    pub host: String,
    /// Its TCP port
    #[arg(long, default_value_t = 3306, value_parser = clap::value_parser!(u16).range(1..), conflicts_with = "socket")]
    pub port: u16,
    /// Path of its Unix socket, instead of host and port
    #[arg(long)]
    pub socket: Option<PathBuf>,
    /// Account. Its password is read from --password-file or the environment variable DYNO_PASSWORD, never from an
    /// option
    #[arg(long, default_value = "root")]
    pub user: String,
    /// File whose first line is the password
    #[arg(long)]
    pub password_file: Option<PathBuf>,
    /// Database of the tables
    #[arg(long, default_value = "sbtest")]
    pub database: String,
    /// disabled, preferred, required, verify_ca or verify_identity
    #[arg(long, default_value = "disabled")]
    pub ssl_mode: String,
    /// PEM file of the trusted certificate authorities
    #[arg(long)]
    pub ssl_ca: Option<PathBuf>,
    /// PEM file of the client's certificate
    #[arg(long)]
    pub ssl_cert: Option<PathBuf>,
    /// PEM file of the client's key
    #[arg(long)]
    pub ssl_key: Option<PathBuf>,
    /// Protocol versions to allow, as in 1.2,1.3
    #[arg(long, value_delimiter = ',')]
    pub tls_versions: Vec<String>,
    /// Cipher suites to allow, by OpenSSL's or IANA's names
    #[arg(long, value_delimiter = ',')]
    pub ssl_ciphers: Vec<String>,
    /// Resume TLS sessions on later connections
    #[arg(long, default_value = "on", value_parser = super::parse::switch, action = clap::ArgAction::Set)]
    pub tls_resumption: bool,
    /// Compression of the protocol: off, zlib or zstd, with a level as in zlib:6
    #[arg(long, default_value = "off")]
    pub compression: String,
    /// Trust the RSA key that a server sends over an unencrypted connection (caching_sha2_password without TLS)
    #[arg(long)]
    pub get_server_public_key: bool,
    /// Time for a connection to be made: name resolution, TCP, greeting, TLS and authentication together. Also the time
    /// that an agent has to start
    #[arg(long, default_value = "10s", value_parser = positive_duration)]
    pub connect_timeout: Duration,
}

impl ConnectionArguments {
    /// The same without the command line.
    pub fn spec(&self) -> ConnectionSpec {
        ConnectionSpec {
            host: self.host.clone(),
            port: self.port,
            socket: self.socket.clone(),
            user: self.user.clone(),
            password_file: self.password_file.clone(),
            database: self.database.clone(),
            ssl_mode: self.ssl_mode.clone(),
            ssl_ca: self.ssl_ca.clone(),
            ssl_cert: self.ssl_cert.clone(),
            ssl_key: self.ssl_key.clone(),
            tls_versions: self.tls_versions.clone(),
            ssl_ciphers: self.ssl_ciphers.clone(),
            tls_resumption: self.tls_resumption,
            compression: self.compression.clone(),
            get_server_public_key: self.get_server_public_key,
            connect_timeout: self.connect_timeout,
            password: None,
            ssl_ca_text: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::{Command, FromArgMatches as _};

    use super::*;

    #[test]
    fn a_connection_has_ten_seconds_by_default() {
        let matches = ConnectionArguments::augment_args(Command::new("dynoload")).get_matches_from(["dynoload"]);
        let arguments = ConnectionArguments::from_arg_matches(&matches).unwrap();
        assert_eq!(arguments.spec().connect_timeout, Duration::from_secs(10));
    }
}
