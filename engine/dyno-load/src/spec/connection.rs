//! Where the server is and how to connect to it: which of a host's addresses the load is sent to.

use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use dyno_loop::Address;
use dyno_mysql::{Compression, Endpoint, Options, Secret, TlsContext, TlsField, TlsMode, TlsOptions};
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::host::PASSWORD_VARIABLE;
use crate::parse::{positive_duration, switch};

/// Where the server is and how to connect to it.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
#[command(next_help_heading = "Connection")]
pub struct ConnectionSpec {
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
    #[arg(long, default_value = "on", value_parser = switch, action = clap::ArgAction::Set)]
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
    /// The password, where the coordinator of a run has sent it; never written with the options.
    #[arg(skip)]
    #[serde(skip)]
    pub password: Option<Secret>,
    /// The content of ssl_ca, where the coordinator of a run has sent it: the file is on the coordinator's host.
    #[arg(skip)]
    #[serde(skip)]
    pub ssl_ca_text: Option<String>,
}

impl ConnectionSpec {
    /// The options of every connection, with or without the database. `state` (dyno_mysql::session_state) is what the
    /// session is set to after the login; none: as the server gives it.
    ///
    /// # Errors
    /// When a file cannot be read, or a name is not known.
    pub fn options(&self, with_database: bool, state: Option<&str>) -> Result<Options, Error> {
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
        options.connect_timeout = self.connect_timeout;
        options.init_statements.extend(state.map(String::from));
        Ok(options)
    }

    /// Where to connect, with the host's name resolved once.
    ///
    /// # Errors
    /// When the name has no address.
    pub fn address(&self) -> Result<Address, Error> {
        resolve(self.socket.as_deref(), &self.host, self.port, self.connect_timeout)
    }

    /// The content of --ssl-ca, for hosts that do not have the file; None without one, or where it is not used.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn read_ssl_ca(&self) -> Result<Option<String>, Error> {
        let Some(path) = self.ssl_ca.as_ref().filter(|_| self.ssl_mode.starts_with("verify")) else {
            return Ok(None);
        };
        std::fs::read_to_string(path)
            .map(Some)
            .map_err(|error| Error::User(format!("--ssl-ca '{}' cannot be read: {error}", path.display())))
    }

    fn password(&self) -> Result<Secret, Error> {
        if let Some(password) = &self.password {
            return Ok(password.clone());
        }
        let Some(path) = &self.password_file else {
            let password = std::env::var_os(PASSWORD_VARIABLE).unwrap_or_default();
            return Ok(Secret::new(password.into_vec()));
        };
        Secret::first_line(path)
            .map_err(|error| Error::User(format!("--password-file '{}' cannot be read: {error}", path.display())))
    }

    fn tls(&self) -> Result<Option<Arc<TlsContext>>, Error> {
        let wrong = |error: dyno_mysql::Error| tls_option(&self.ssl_mode, &error);
        let mode = TlsMode::from_name(&self.ssl_mode).map_err(wrong)?;
        let options = TlsOptions {
            mode,
            ca_file: self.ssl_ca.clone(),
            ca_text: self.ssl_ca_text.clone(),
            certificate_file: self.ssl_cert.clone(),
            key_file: self.ssl_key.clone(),
            versions: self.tls_versions.clone(),
            cipher_suites: self.ssl_ciphers.clone(),
            session_resumption: self.tls_resumption,
        };
        TlsContext::new(&options).map_err(wrong)
    }
}

/// An error about TLS options, with the names that they have on the command line.
fn tls_option(ssl_mode: &str, error: &dyno_mysql::Error) -> Error {
    let dyno_mysql::Error::TlsOption { field, problem } = error else {
        return Error::User(error.to_string());
    };
    Error::User(match field {
        TlsField::Mode => format!("--ssl-mode: {problem}"),
        TlsField::MissingAuthority => format!(
            "--ssl-mode {ssl_mode} needs --ssl-ca, the PEM file of the authority that signed the server's certificate"
        ),
        TlsField::Authority => format!("--ssl-ca: {problem}"),
        TlsField::Certificate => format!("--ssl-cert: {problem}"),
        TlsField::Key => format!("--ssl-key: {problem}"),
        TlsField::OneOfPair => {
            "--ssl-cert and --ssl-key belong together: a client certificate is two PEM files, the certificate and its key"
                .into()
        }
        TlsField::Versions => format!("--tls-versions: {problem}"),
        TlsField::CipherSuites => format!("--ssl-ciphers: {problem}"),
    })
}

fn compression(text: &str) -> Result<Compression, String> {
    let (name, level) = match text.split_once(':') {
        Some((name, level)) => (name, Some(level)),
        None => (text, None),
    };
    let level = |default: u32, highest: u32| match level.map_or(Ok(default), str::parse::<u32>) {
        Ok(level) if level <= highest => Ok(level),
        _ => Err(format!(
            "--compression '{text}' has no level from 0 to {highest}; use {name}:{default}"
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

/// The socket; without one the address of --host at which something listens, as the control connection chooses it; the first if none does.
///
/// # Errors
/// When the name has no address.
pub fn resolve(socket: Option<&Path>, host: &str, port: u16, timeout: Duration) -> Result<Address, Error> {
    if let Some(path) = socket {
        return Ok(Address::Unix(path.to_path_buf()));
    }
    let unknown = |cause: String| Error::User(format!("--host '{host}' has no address: {cause}; check the name"));
    let found = (host, port)
        .to_socket_addrs()
        .map_err(|error| unknown(error.to_string()))?;
    choose(&found.collect::<Vec<_>>(), timeout)
        .map(Address::Tcp)
        .ok_or_else(|| unknown("the name has no address".into()))
}

fn choose(addresses: &[SocketAddr], timeout: Duration) -> Option<SocketAddr> {
    let answers = |address: &&SocketAddr| TcpStream::connect_timeout(address, timeout).is_ok();
    let several = (addresses.len() > 1).then(|| addresses.iter().find(answers)).flatten();
    several.or(addresses.first()).copied()
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use clap::{Command, FromArgMatches as _};

    use super::*;

    #[test]
    fn a_connection_has_ten_seconds_by_default_and_travels_without_its_secrets() {
        let matches = ConnectionSpec::augment_args(Command::new("dynoload")).get_matches_from(["dynoload"]);
        let mut spec = ConnectionSpec::from_arg_matches(&matches).unwrap();
        assert_eq!(spec.connect_timeout, Duration::from_secs(10));
        spec.password = Some(Secret::new(b"hunter2".to_vec()));
        let sent = serde_json::to_string(&spec).unwrap();
        assert!(!sent.contains("hunter2") && !sent.contains("\"password\""), "{sent}");
    }

    #[test]
    fn compression_is_read_with_its_level() {
        assert!(matches!(compression("off"), Ok(Compression::Off)));
        assert!(matches!(compression("zlib"), Ok(Compression::Zlib { level: 6 })));
        assert!(matches!(compression("zstd:9"), Ok(Compression::Zstd { level: 9 })));
        for wrong in ["gzip", "zlib:10", "zstd:x"] {
            assert!(compression(wrong).unwrap_err().contains(wrong));
        }
    }

    #[test]
    fn the_load_goes_to_the_address_that_answers() {
        let timeout = Duration::from_secs(5);
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let open = server.local_addr().unwrap();
        let refusing: SocketAddr = ("127.0.0.2".parse::<std::net::IpAddr>().unwrap(), open.port()).into();
        assert_eq!(choose(&[refusing, open], timeout), Some(open));
        assert_eq!(choose(&[open, refusing], timeout), Some(open));
        assert_eq!(
            choose(&[refusing], timeout),
            Some(refusing),
            "its error is the connection's"
        );
        assert_eq!(choose(&[], timeout), None);
    }
}
