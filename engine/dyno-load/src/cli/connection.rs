//! The options that say where the server is, who asks, and how.

use std::net::ToSocketAddrs;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use dyno_mysql::{Compression, Endpoint, Options, Secret, TlsContext, TlsMode, TlsOptions};

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::host::PASSWORD_VARIABLE;
use crate::run::socket::Address;

/// Where the server is, who asks, and how.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
#[command(next_help_heading = "Connection")]
pub struct ConnectionArguments {
    /// Name or address of the server
    #[arg(long, default_value = "127.0.0.1", conflicts_with = "socket")]
    pub host: String,
    /// Its TCP port
    #[arg(long, default_value_t = 3306, conflicts_with = "socket")]
    pub port: u16,
    /// Path of its Unix socket, instead of host and port
    #[arg(long)]
    pub socket: Option<PathBuf>,
    /// Account. Its password comes from --password-file or the environment variable DYNO_PASSWORD, never from an option
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
    /// PEM file of the authorities to trust
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
    /// Believe the RSA key that a server sends over an open network (caching_sha2_password without TLS)
    #[arg(long)]
    pub get_server_public_key: bool,
    /// The password, where the coordinator of a run has sent it; never written with the options.
    #[arg(skip)]
    #[serde(skip)]
    pub password: Option<Secret>,
}

impl ConnectionArguments {
    /// The options of every connection, with or without the database.
    ///
    /// # Errors
    /// When a file cannot be read, or a name is not known.
    pub fn options(&self, with_database: bool) -> Result<Options, Error> {
        let endpoint = match &self.socket {
            Some(path) => Endpoint::unix(path),
            None => Endpoint::tcp(self.host.clone(), self.port),
        };
        let mut options = Options::new(endpoint, self.user.clone());
        options.password = self.password()?;
        options.database = with_database.then(|| self.database.clone());
        options.tls = self.tls()?;
        options.compression = compression(&self.compression).map_err(Error::User)?;
        options.allow_public_key_retrieval = self.get_server_public_key;
        options.program_name = "dynoload".into();
        Ok(options)
    }

    /// Where to connect, with the host's name resolved once.
    ///
    /// # Errors
    /// When the name has no address.
    pub fn address(&self) -> Result<Address, Error> {
        if let Some(path) = &self.socket {
            return Ok(Address::Unix(path.clone()));
        }
        let unknown = |cause: String| {
            Error::User(format!(
                "--host '{}' has no address: {cause}; check the name",
                self.host
            ))
        };
        (self.host.as_str(), self.port)
            .to_socket_addrs()
            .map_err(|error| unknown(error.to_string()))?
            .next()
            .map(Address::Tcp)
            .ok_or_else(|| unknown("none is known".into()))
    }

    fn password(&self) -> Result<Secret, Error> {
        if let Some(password) = &self.password {
            return Ok(password.clone());
        }
        let Some(path) = &self.password_file else {
            return Ok(Secret::new(std::env::var(PASSWORD_VARIABLE).unwrap_or_default()));
        };
        let text = std::fs::read_to_string(path)
            .map_err(|error| Error::User(format!("--password-file '{}' cannot be read: {error}", path.display())))?;
        Ok(Secret::new(text.lines().next().unwrap_or_default()))
    }

    fn tls(&self) -> Result<Option<Arc<TlsContext>>, Error> {
        let wrong = |error: dyno_mysql::Error| Error::User(error.to_string());
        let mode = TlsMode::from_name(&self.ssl_mode).map_err(wrong)?;
        if mode == TlsMode::Disabled {
            return Ok(None);
        }
        let options = TlsOptions {
            mode,
            ca_file: self.ssl_ca.clone(),
            certificate_file: self.ssl_cert.clone(),
            key_file: self.ssl_key.clone(),
            versions: self.tls_versions.clone(),
            cipher_suites: self.ssl_ciphers.clone(),
            session_resumption: self.tls_resumption,
        };
        TlsContext::new(&options).map_err(wrong)
    }
}

fn compression(text: &str) -> Result<Compression, String> {
    let (name, level) = match text.split_once(':') {
        Some((name, level)) => (name, Some(level)),
        None => (text, None),
    };
    let level = |default: u32, highest: u32| match level.map_or(Ok(default), str::parse::<u32>) {
        Ok(level) if level <= highest => Ok(level),
        _ => Err(format!(
            "--compression '{text}' has no level from 0 to {highest}; write {name}:{default}"
        )),
    };
    match name {
        "off" => Ok(Compression::Off),
        "zlib" => Ok(Compression::Zlib { level: level(6, 9)? }),
        "zstd" => Ok(Compression::Zstd { level: level(3, 22)? }),
        _ => Err(format!(
            "--compression '{text}' is not known; use off, zlib, zstd, zlib:1 … zlib:9, zstd:1 … zstd:22"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compression_is_read_with_its_level() {
        assert!(matches!(compression("off"), Ok(Compression::Off)));
        assert!(matches!(compression("zlib"), Ok(Compression::Zlib { level: 6 })));
        assert!(matches!(compression("zstd:9"), Ok(Compression::Zstd { level: 9 })));
        for wrong in ["gzip", "zlib:10", "zstd:x"] {
            assert!(compression(wrong).unwrap_err().contains(wrong));
        }
    }
}
