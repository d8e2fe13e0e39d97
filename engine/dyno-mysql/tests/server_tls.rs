//! TLS against a real server that has the certificates of the example `make_certificates`.
//!
//! DYNO_TEST_SERVER_CERTIFICATES is their directory; the rest of the environment as in tests/server.rs.

mod common;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use common::{by_socket, by_tcp, connect, drop_account, make_account, setting, TIMEOUT};
use dyno_mysql::blocking::Client;
use dyno_mysql::{Compression, Connection, Endpoint, Error, Options, Phase, TlsContext, TlsMode, TlsOptions};

/// Root's client, TCP options for an account of this name that needs no password, and the certificates.
fn setup(test: &str, user: &str, clause: &str) -> Option<(Client, Options, PathBuf)> {
    let directory = setting("DYNO_TEST_SERVER_CERTIFICATES", test)?.into();
    let mut root = connect(&by_socket(test)?);
    let options = by_tcp(test, user)?;
    make_account(&mut root, user, clause);
    Some((root, options, directory))
}

fn with_tls(options: &Options, host: &str, tls: &TlsOptions) -> Options {
    let Endpoint::Tcp { port, .. } = options.endpoint else {
        panic!("TLS is tested over TCP")
    };
    Options {
        endpoint: Endpoint::tcp(host, port),
        tls: TlsContext::new(tls).unwrap(),
        ..options.clone()
    }
}

fn session_value(client: &mut Client, name: &str) -> String {
    let result = client.query(&format!("SHOW SESSION STATUS LIKE '{name}'")).unwrap();
    result.texts()[0][1].clone().unwrap()
}

/// A directory of a test's own with the certificate of an authority that nobody trusts.
fn strange_authority(directory: &Path) -> PathBuf {
    let mut params = rcgen::CertificateParams::new(vec![]).unwrap();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let key = rcgen::KeyPair::generate().unwrap();
    let path = directory.join(format!("strange-{}.pem", std::process::id()));
    std::fs::write(&path, params.self_signed(&key).unwrap().pem()).unwrap();
    path
}

#[test]
fn each_mode_verifies_what_it_says_with_each_version() {
    let test = "each_mode_verifies_what_it_says_with_each_version";
    let Some((mut root, options, directory)) = setup(test, "dyno_tls", "") else {
        return;
    };
    let strange = strange_authority(&directory);
    let (good, strange_ca) = (Some(directory.join("ca.pem")), Some(strange.clone()));
    // The certificate names localhost, not 127.0.0.1.
    let cases = [
        (TlsMode::Preferred, None, "127.0.0.1", true),
        (TlsMode::Required, None, "127.0.0.1", true),
        (TlsMode::VerifyCa, good.clone(), "127.0.0.1", true),
        (TlsMode::VerifyCa, good.clone(), "localhost", true),
        (TlsMode::VerifyCa, strange_ca.clone(), "localhost", false),
        (TlsMode::VerifyIdentity, good.clone(), "localhost", true),
        (TlsMode::VerifyIdentity, good, "127.0.0.1", false),
        (TlsMode::VerifyIdentity, strange_ca, "localhost", false),
    ];
    for version in ["1.2", "1.3"] {
        for (mode, ca_file, host, trusted) in &cases {
            let wish = TlsOptions {
                mode: *mode,
                ca_file: ca_file.clone(),
                versions: vec![version.into()],
                ..TlsOptions::default()
            };
            match Client::connect(&with_tls(&options, host, &wish), TIMEOUT) {
                Ok(mut client) => {
                    assert!(trusted, "{mode:?} believed {host}");
                    let info = client.connection().tls().unwrap();
                    assert_eq!(info.version, format!("TLSv{version}"));
                    assert_eq!(session_value(&mut client, "Ssl_version"), info.version);
                    assert_eq!(session_value(&mut client, "Ssl_cipher"), info.cipher_suite);
                    let counters = client.connection().counters();
                    assert!(counters.wire_bytes_in > counters.compressed_bytes_in);
                    assert_eq!(counters.compressed_bytes_in, counters.raw_bytes_in);
                }
                Err(Error::Tls(_)) => assert!(!trusted, "{mode:?} did not believe {host}"),
                Err(error) => panic!("{mode:?} {host}: {error}"),
            }
        }
    }
    std::fs::remove_file(strange).unwrap();
    drop_account(&mut root, "dyno_tls");
}

#[test]
fn chosen_cipher_suites_are_the_ones_used() {
    let test = "chosen_cipher_suites_are_the_ones_used";
    let Some((mut root, options, _)) = setup(test, "dyno_cipher", "") else {
        return;
    };
    for (name, used) in [
        ("TLS_AES_128_GCM_SHA256", "TLS_AES_128_GCM_SHA256"),
        ("TLS_CHACHA20_POLY1305_SHA256", "TLS_CHACHA20_POLY1305_SHA256"),
        ("ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-ECDSA-AES128-GCM-SHA256"),
        (
            "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
            "ECDHE-ECDSA-AES256-GCM-SHA384",
        ),
    ] {
        // A suite belongs to one version, so the other is left out.
        let version = if name.starts_with("TLS_AES") || name.starts_with("TLS_CHACHA") {
            "1.3"
        } else {
            "1.2"
        };
        let wish = TlsOptions {
            mode: TlsMode::Required,
            cipher_suites: vec![name.into()],
            versions: vec![version.into()],
            ..TlsOptions::default()
        };
        let mut client = connect(&with_tls(&options, "127.0.0.1", &wish));
        assert_eq!(session_value(&mut client, "Ssl_cipher"), used);
    }
    drop_account(&mut root, "dyno_cipher");
}

#[test]
fn sessions_are_resumed_only_when_asked() {
    let test = "sessions_are_resumed_only_when_asked";
    let Some((mut root, options, _)) = setup(test, "dyno_resume", "") else {
        return;
    };
    for version in ["1.2", "1.3"] {
        for session_resumption in [true, false] {
            let wish = TlsOptions {
                mode: TlsMode::Required,
                versions: vec![version.into()],
                session_resumption,
                ..TlsOptions::default()
            };
            let options = with_tls(&options, "127.0.0.1", &wish);
            let resumed: Vec<bool> = (0..3)
                .map(|_| connect(&options).connection().tls().unwrap().resumed)
                .collect();
            assert_eq!(
                resumed,
                [false, session_resumption, session_resumption],
                "TLS {version}"
            );
        }
    }
    drop_account(&mut root, "dyno_resume");
}

/// Drives a connection by hand, reading a few bytes at a time.
#[test]
fn the_phases_come_in_order_and_can_be_timed() {
    let test = "the_phases_come_in_order_and_can_be_timed";
    let Some((mut root, options, _)) = setup(test, "dyno_phases", "") else {
        return;
    };
    let wish = TlsOptions {
        mode: TlsMode::Required,
        ..TlsOptions::default()
    };
    let mut options = with_tls(&options, "127.0.0.1", &wish);
    options.init_statements = vec!["SET @a = 1".into()];
    let Endpoint::Tcp { host, port } = options.endpoint.clone() else {
        panic!()
    };
    let mut socket = TcpStream::connect((host, port)).unwrap();
    let mut connection = Connection::new(Arc::new(options));
    let mut phases = vec![connection.phase()];
    let mut buffer = [0; 13];
    while connection.phase() != Phase::Ready {
        let count = socket.read(&mut buffer).unwrap();
        let mut input = &buffer[..count];
        while connection.advance(&mut input).unwrap().is_some() {}
        if *phases.last().unwrap() != connection.phase() {
            phases.push(connection.phase());
        }
        while !connection.outgoing().is_empty() {
            let count = socket.write(connection.outgoing()).unwrap();
            connection.sent(count);
        }
    }
    assert_eq!(
        phases,
        [
            Phase::Greeting,
            Phase::Tls,
            Phase::Authentication,
            Phase::Initialisation,
            Phase::Ready
        ]
    );
    drop_account(&mut root, "dyno_phases");
}

#[test]
fn compression_works_inside_tls() {
    let test = "compression_works_inside_tls";
    let Some((mut root, options, _)) = setup(test, "dyno_both", "") else {
        return;
    };
    let wish = TlsOptions {
        mode: TlsMode::Required,
        ..TlsOptions::default()
    };
    let mut options = with_tls(&options, "127.0.0.1", &wish);
    options.compression = Compression::Zlib { level: 6 };
    let mut client = connect(&options);
    let before = *client.connection().counters();
    let text = "0123456789".repeat(300_000);
    let result = client.query(&format!("SELECT '{text}'")).unwrap();
    assert!(result.rows[0][0].as_deref() == Some(text.as_bytes()));
    let used = client.connection().counters().since(&before);
    assert!(
        used.raw_bytes_in > used.wire_bytes_in && used.wire_bytes_in > used.compressed_bytes_in,
        "{used:?}"
    );
    assert!(
        used.raw_bytes_out > used.wire_bytes_out && used.wire_bytes_out > used.compressed_bytes_out,
        "{used:?}"
    );
    drop_account(&mut root, "dyno_both");
}

#[test]
fn large_payloads_go_through_tls() {
    let test = "large_payloads_go_through_tls";
    let Some((mut root, options, _)) = setup(test, "dyno_large", "") else {
        return;
    };
    root.exec("SET GLOBAL max_allowed_packet = 67108864").unwrap();
    let wish = TlsOptions {
        mode: TlsMode::Required,
        ..TlsOptions::default()
    };
    let mut client = connect(&with_tls(&options, "127.0.0.1", &wish));
    let text = "0123456789".repeat(1_800_000);
    let result = client.query(&format!("SELECT '{text}'")).unwrap();
    assert!(result.rows[0][0].as_deref() == Some(text.as_bytes()));
    drop_account(&mut root, "dyno_large");
}

#[test]
fn a_client_certificate_opens_an_account_that_requires_one() {
    let test = "a_client_certificate_opens_an_account_that_requires_one";
    let Some((mut root, options, directory)) = setup(test, "dyno_x509", "REQUIRE X509") else {
        return;
    };
    let bare = TlsOptions {
        mode: TlsMode::Required,
        ..TlsOptions::default()
    };
    let denied = Client::connect(&with_tls(&options, "127.0.0.1", &bare), TIMEOUT)
        .err()
        .unwrap();
    assert_eq!(denied.server().map(|error| error.code), Some(1045), "{denied}");
    let wish = TlsOptions {
        certificate_file: Some(directory.join("client-cert.pem")),
        key_file: Some(directory.join("client-key.pem")),
        ..bare
    };
    connect(&with_tls(&options, "127.0.0.1", &wish)).ping().unwrap();
    drop_account(&mut root, "dyno_x509");
}

#[test]
fn unusable_settings_are_refused_before_any_connection() {
    let refused = |wish: TlsOptions, part: &str| match TlsContext::new(&wish) {
        Err(Error::TlsOption { problem, .. }) => assert!(problem.contains(part), "{problem}"),
        other => panic!("{other:?}"),
    };
    let required = TlsOptions {
        mode: TlsMode::Required,
        ..TlsOptions::default()
    };
    refused(
        TlsOptions {
            mode: TlsMode::VerifyCa,
            ..TlsOptions::default()
        },
        "needs ca_file",
    );
    refused(
        TlsOptions {
            cipher_suites: vec!["RC4-MD5".into()],
            ..required.clone()
        },
        "'RC4-MD5' is not known",
    );
    refused(
        TlsOptions {
            versions: vec!["1.1".into()],
            ..required.clone()
        },
        "'1.1' is not available",
    );
    let mismatch = TlsOptions {
        cipher_suites: vec!["TLS_AES_128_GCM_SHA256".into()],
        versions: vec!["1.2".into()],
        ..required.clone()
    };
    refused(mismatch, "no chosen cipher suite fits");
    refused(
        TlsOptions {
            key_file: Some("/no/such".into()),
            ..required.clone()
        },
        "needs both",
    );
    let missing = TlsOptions {
        mode: TlsMode::VerifyCa,
        ca_file: Some("/no/such.pem".into()),
        ..required
    };
    refused(missing.clone(), "/no/such.pem");
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = rcgen::CertificateParams::new(vec![])
        .unwrap()
        .self_signed(&key)
        .unwrap();
    let sent = |text: String| TlsOptions {
        ca_text: Some(text),
        ..missing.clone()
    };
    assert!(TlsContext::new(&sent(certificate.pem())).unwrap().is_some());
    refused(sent("no certificate".into()), "it holds no certificate");
    assert!(TlsContext::new(&TlsOptions::default()).unwrap().is_none());
    assert_eq!(TlsMode::from_name("VERIFY-CA").unwrap(), TlsMode::VerifyCa);
}
