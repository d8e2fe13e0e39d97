//! TLS settings, resolved once into a context that connections share: versions, cipher suites, trust, resumption.

mod verification;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::danger::ServerCertVerifier;
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::{ring, CryptoProvider};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};

use self::verification::{AnyCertificate, AnyName};
use crate::endpoint::Endpoint;
use crate::error::{Error, TlsField};

/// How much the client insists, by MySQL's names (`--ssl-mode`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TlsMode {
    /// Never.
    #[default]
    Disabled,
    /// When the server has it, over TCP; any certificate will do.
    Preferred,
    /// Always; any certificate will do.
    Required,
    /// Always; the certificate must come from `ca_file`.
    VerifyCa,
    /// Always; the certificate must come from `ca_file` and name the host.
    VerifyIdentity,
}

impl TlsMode {
    /// Its name, as `from_name` takes it.
    pub fn name(self) -> &'static str {
        match self {
            TlsMode::Disabled => "disabled",
            TlsMode::Preferred => "preferred",
            TlsMode::Required => "required",
            TlsMode::VerifyCa => "verify_ca",
            TlsMode::VerifyIdentity => "verify_identity",
        }
    }

    /// The mode of this name ("verify_ca", "VERIFY-CA", …); an error lists the names.
    pub fn from_name(name: &str) -> Result<TlsMode, Error> {
        match name.to_ascii_lowercase().replace('-', "_").as_str() {
            "disabled" => Ok(TlsMode::Disabled),
            "preferred" => Ok(TlsMode::Preferred),
            "required" => Ok(TlsMode::Required),
            "verify_ca" => Ok(TlsMode::VerifyCa),
            "verify_identity" => Ok(TlsMode::VerifyIdentity),
            _ => Err(Error::tls_option(
                TlsField::Mode,
                format!(
                    "TLS mode '{name}' is not known: use disabled, preferred, required, verify_ca or verify_identity"
                ),
            )),
        }
    }
}

/// What is wished of TLS.
#[derive(Debug, Clone, Default)]
pub struct TlsOptions {
    /// How much the client insists.
    pub mode: TlsMode,
    /// PEM file of the trusted certificate authorities; needed by the verifying modes.
    pub ca_file: Option<PathBuf>,
    /// Content of `ca_file`, where that was read before, on another host maybe; the file is then not opened.
    pub ca_text: Option<String>,
    /// PEM file of the client's own certificate chain, with `key_file`.
    pub certificate_file: Option<PathBuf>,
    /// PEM file of the client's private key.
    pub key_file: Option<PathBuf>,
    /// "1.2" and "1.3"; empty means both.
    pub versions: Vec<String>,
    /// Cipher suites by OpenSSL's or IANA's name, all of both versions in one list; empty means all.
    pub cipher_suites: Vec<String>,
    /// Whether a session may be resumed on the next connection that shares this context.
    pub session_resumption: bool,
}

/// TLS settings ready for use; make one per thread, so that threads share no lock on the resumption store.
#[derive(Debug)]
pub struct TlsContext {
    pub(crate) mode: TlsMode,
    config: Arc<ClientConfig>,
}

/// What a connection's TLS came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsInfo {
    /// "TLSv1.2" or "TLSv1.3", as in the server's Ssl_version.
    pub version: &'static str,
    /// The suite by OpenSSL's name, as in the server's Ssl_cipher.
    pub cipher_suite: &'static str,
    /// Whether an earlier session was resumed.
    pub resumed: bool,
}

/// OpenSSL's name, IANA's name, and rustls' suite.
const SUITES: [(&str, &str, &rustls::SupportedCipherSuite); 9] = {
    use ring::cipher_suite::*;
    [
        (
            "TLS_AES_128_GCM_SHA256",
            "TLS_AES_128_GCM_SHA256",
            &TLS13_AES_128_GCM_SHA256,
        ),
        (
            "TLS_AES_256_GCM_SHA384",
            "TLS_AES_256_GCM_SHA384",
            &TLS13_AES_256_GCM_SHA384,
        ),
        (
            "TLS_CHACHA20_POLY1305_SHA256",
            "TLS_CHACHA20_POLY1305_SHA256",
            &TLS13_CHACHA20_POLY1305_SHA256,
        ),
        (
            "ECDHE-ECDSA-AES128-GCM-SHA256",
            "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
            &TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
        ),
        (
            "ECDHE-ECDSA-AES256-GCM-SHA384",
            "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
            &TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
        ),
        (
            "ECDHE-ECDSA-CHACHA20-POLY1305",
            "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
            &TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
        ),
        (
            "ECDHE-RSA-AES128-GCM-SHA256",
            "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
            &TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
        ),
        (
            "ECDHE-RSA-AES256-GCM-SHA384",
            "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
            &TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
        ),
        (
            "ECDHE-RSA-CHACHA20-POLY1305",
            "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
            &TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
        ),
    ]
};

impl TlsContext {
    /// Resolves the options; `None` for mode "disabled".
    ///
    /// Errors name the file, version or suite that cannot be used. TLS 1.0 and 1.1 (MySQL before 5.7) and suites
    /// without forward secrecy do not exist here. The verifying modes need a certificate of X.509 version 3, and
    /// verify_identity needs the name among its subject alternative names.
    pub fn new(options: &TlsOptions) -> Result<Option<Arc<TlsContext>>, Error> {
        refuse_without_effect(options)?;
        if options.mode == TlsMode::Disabled {
            return Ok(None);
        }
        let provider = Arc::new(provider(&options.cipher_suites)?);
        let versions = versions(&options.versions)?;
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&versions)
            .map_err(|error| {
                let problem = format!("no chosen cipher suite fits the chosen TLS versions: {error}");
                Error::tls_option(TlsField::CipherSuites, problem)
            })?
            .dangerous()
            .with_custom_certificate_verifier(verifier(options, provider)?);
        let mut config = match (&options.certificate_file, &options.key_file) {
            (None, None) => builder.with_no_client_auth(),
            (Some(certificate), Some(key)) => {
                let key_der =
                    PrivateKeyDer::from_pem_file(key).map_err(|error| unreadable(TlsField::Key, key, &error))?;
                builder
                    .with_client_auth_cert(certificates(TlsField::Certificate, certificate, None)?, key_der)
                    .map_err(|error| {
                        Error::tls_option(TlsField::Key, format!("client key {}: {error}", key.display()))
                    })?
            }
            _ => {
                return Err(Error::tls_option(
                    TlsField::OneOfPair,
                    "a client certificate needs both certificate_file and key_file",
                ))
            }
        };
        config.resumption = match options.session_resumption {
            true => Resumption::in_memory_sessions(64),
            false => Resumption::disabled(),
        };
        Ok(Some(Arc::new(TlsContext {
            mode: options.mode,
            config: Arc::new(config),
        })))
    }

    /// How much the client insists.
    pub fn mode(&self) -> TlsMode {
        self.mode
    }

    /// Starts TLS towards this endpoint.
    pub(crate) fn connect(&self, endpoint: &Endpoint) -> Result<ClientConnection, Error> {
        let host = match endpoint {
            Endpoint::Tcp { host, .. } => host.clone(),
            Endpoint::Unix(_) => "localhost".to_owned(),
        };
        let name = ServerName::try_from(host.clone()).map_err(|_| {
            Error::setup(format!(
                "host '{host}' is neither a DNS name nor an address that TLS can use"
            ))
        })?;
        let mut connection = ClientConnection::new(self.config.clone(), name)?;
        // The packets of one command may be larger than rustls' default limit; the caller bounds them.
        connection.set_buffer_limit(None);
        Ok(connection)
    }
}

/// What a connection's TLS came to; `None` before the handshake is over.
pub(crate) fn info(connection: &ClientConnection) -> Option<TlsInfo> {
    let suite = connection.negotiated_cipher_suite()?;
    Some(TlsInfo {
        version: match connection.protocol_version()? {
            rustls::ProtocolVersion::TLSv1_2 => "TLSv1.2",
            _ => "TLSv1.3",
        },
        cipher_suite: SUITES
            .iter()
            .find(|(_, _, known)| **known == suite)
            .map_or("?", |(name, _, _)| name),
        resumed: connection.handshake_kind() == Some(rustls::HandshakeKind::Resumed),
    })
}

/// An option of security that would be ignored is a mistake: its file may be missing, and the server anyone's.
fn refuse_without_effect(options: &TlsOptions) -> Result<(), Error> {
    let off = options.mode == TlsMode::Disabled;
    let verifies = matches!(options.mode, TlsMode::VerifyCa | TlsMode::VerifyIdentity);
    let ignored = [
        (TlsField::Authority, options.ca_file.is_some() && !verifies),
        (TlsField::Certificate, options.certificate_file.is_some() && off),
        (TlsField::Key, options.key_file.is_some() && off),
        (TlsField::Versions, !options.versions.is_empty() && off),
        (TlsField::CipherSuites, !options.cipher_suites.is_empty() && off),
    ];
    let Some((field, _)) = ignored.into_iter().find(|(_, given)| *given) else {
        return Ok(());
    };
    let needed = match field {
        TlsField::Authority => "verify_ca or verify_identity",
        _ => "another mode",
    };
    let mode = options.mode.name();
    Err(Error::tls_option(
        field,
        format!("has no effect with TLS mode {mode}: use {needed}, or omit it"),
    ))
}

fn provider(names: &[String]) -> Result<CryptoProvider, Error> {
    let mut provider = ring::default_provider();
    if names.is_empty() {
        return Ok(provider);
    }
    provider.cipher_suites.clear();
    for name in names {
        let known = SUITES
            .iter()
            .find(|(openssl, iana, _)| name.eq_ignore_ascii_case(openssl) || name.eq_ignore_ascii_case(iana));
        let (_, _, suite) = known.ok_or_else(|| {
            let all: Vec<&str> = SUITES.iter().map(|(openssl, _, _)| *openssl).collect();
            Error::tls_option(
                TlsField::CipherSuites,
                format!("cipher suite '{name}' is not known: use {}", all.join(", ")),
            )
        })?;
        provider.cipher_suites.push(**suite);
    }
    Ok(provider)
}

fn versions(names: &[String]) -> Result<Vec<&'static rustls::SupportedProtocolVersion>, Error> {
    if names.is_empty() {
        return Ok(vec![&rustls::version::TLS13, &rustls::version::TLS12]);
    }
    let version = |name: &String| match name.trim_start_matches("TLSv") {
        "1.2" => Ok(&rustls::version::TLS12),
        "1.3" => Ok(&rustls::version::TLS13),
        _ => Err(Error::tls_option(
            TlsField::Versions,
            format!("TLS version '{name}' is not available: use 1.2 or 1.3"),
        )),
    };
    names.iter().map(version).collect()
}

fn unreadable(field: TlsField, path: &Path, error: &dyn std::fmt::Display) -> Error {
    Error::tls_option(field, format!("PEM file {} cannot be used: {error}", path.display()))
}

fn certificates(field: TlsField, path: &Path, text: Option<&str>) -> Result<Vec<CertificateDer<'static>>, Error> {
    let read = || match text {
        Some(text) => CertificateDer::pem_slice_iter(text.as_bytes()).collect::<Result<Vec<_>, _>>(),
        None => CertificateDer::pem_file_iter(path)?.collect::<Result<Vec<_>, _>>(),
    };
    let found = read().map_err(|error| unreadable(field, path, &error))?;
    match found.is_empty() {
        true => Err(unreadable(field, path, &"it holds no certificate")),
        false => Ok(found),
    }
}

fn verifier(options: &TlsOptions, provider: Arc<CryptoProvider>) -> Result<Arc<dyn ServerCertVerifier>, Error> {
    let check_name = match options.mode {
        TlsMode::VerifyCa => false,
        TlsMode::VerifyIdentity => true,
        _ => return Ok(Arc::new(AnyCertificate(provider))),
    };
    let path = options.ca_file.as_deref().ok_or_else(|| {
        Error::tls_option(
            TlsField::MissingAuthority,
            format!(
                "TLS mode {} needs ca_file, the PEM file of the authority that signed the server's certificate",
                options.mode.name()
            ),
        )
    })?;
    let mut roots = RootCertStore::empty();
    for certificate in certificates(TlsField::Authority, path, options.ca_text.as_deref())? {
        roots
            .add(certificate)
            .map_err(|error| unreadable(TlsField::Authority, path, &error))?;
    }
    let inner = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
        .build()
        .map_err(|error| unreadable(TlsField::Authority, path, &error))?;
    Ok(match check_name {
        true => inner,
        false => Arc::new(AnyName(inner)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_without_effect_is_refused_before_its_file_is_read() {
        let missing = || Some(PathBuf::from("/missing"));
        let of = |mode, options: TlsOptions| {
            let error = TlsContext::new(&TlsOptions { mode, ..options }).unwrap_err();
            let Error::TlsOption { field, problem } = error else {
                panic!("{error}");
            };
            (field, problem)
        };
        let authority = || TlsOptions {
            ca_file: missing(),
            ..TlsOptions::default()
        };
        for mode in [TlsMode::Disabled, TlsMode::Preferred, TlsMode::Required] {
            let (field, problem) = of(mode, authority());
            assert_eq!(field, TlsField::Authority);
            let expected = format!(
                "has no effect with TLS mode {}: use verify_ca or verify_identity, or omit it",
                mode.name()
            );
            assert_eq!(problem, expected);
        }
        assert!(of(TlsMode::VerifyCa, authority()).1.contains("/missing cannot be used"));
        let pair = TlsOptions {
            certificate_file: missing(),
            key_file: missing(),
            ..TlsOptions::default()
        };
        assert_eq!(of(TlsMode::Disabled, pair).0, TlsField::Certificate);
        let key = || TlsOptions {
            key_file: missing(),
            ..TlsOptions::default()
        };
        assert_eq!(of(TlsMode::Disabled, key()).0, TlsField::Key);
        assert_eq!(of(TlsMode::Required, key()).0, TlsField::OneOfPair);
        let versions = TlsOptions {
            versions: vec!["1.2".into()],
            ..TlsOptions::default()
        };
        assert_eq!(of(TlsMode::Disabled, versions).0, TlsField::Versions);
    }
}
