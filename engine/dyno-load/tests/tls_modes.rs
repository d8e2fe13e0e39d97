//! What `--ssl-mode` and its companions say when they cannot be met, and when they are not.

mod common;

use common::{plain, run, NullServer, PrivateServer};

fn load(port: &str, more: &str) -> String {
    format!("oltp run --any-server --workload oltp_point_select --duration 300ms --port {port} {more}")
}

#[test]
fn a_server_without_tls_is_reported_where_tls_was_preferred() {
    let server = NullServer::start();
    let result = run(&load(server.port(), "--quiet --ssl-mode preferred"));
    let warning = format!(
        "warning: --ssl-mode preferred, and the server at {} offers no TLS",
        server.place
    );
    assert!(result.stderr.contains(&warning), "{}", result.stderr);
    assert!(
        result.stderr.contains("TLS                   none"),
        "{}",
        result.stderr
    );
    for record in [&result.records[0], result.last()] {
        assert_eq!(record["settings"]["tls_mode"], "preferred");
        assert_eq!(record["settings"]["tls_in_use"], "none");
    }
    let plain_text = run(&load(server.port(), "--quiet"));
    assert!(!plain_text.stderr.contains("TLS"), "{}", plain_text.stderr);
    assert_eq!(plain_text.last()["settings"]["tls_in_use"], "none");
}

#[test]
fn tls_options_that_cannot_be_met_are_named_as_they_were_given() {
    let folder = std::env::temp_dir().join(format!("dynoload-tls-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let empty = folder.join("empty.pem");
    std::fs::write(&empty, "no certificate").unwrap();
    let empty = empty.display();
    let cases = [
        ("--ssl-mode verify".into(), "--ssl-mode: TLS mode 'verify' is not known"),
        ("--ssl-mode verify_ca".into(), "--ssl-mode verify_ca needs --ssl-ca"),
        (
            "--ssl-mode verify_identity".into(),
            "--ssl-mode verify_identity needs --ssl-ca",
        ),
        (format!("--ssl-mode verify_ca --ssl-ca {empty}"), "--ssl-ca: PEM file"),
        (
            format!("--ssl-mode required --ssl-cert {empty}"),
            "--ssl-cert and --ssl-key belong together",
        ),
        (
            format!("--ssl-mode required --ssl-key {empty}"),
            "--ssl-cert and --ssl-key belong together",
        ),
        (
            format!("--ssl-mode required --ssl-key {empty} --ssl-cert {empty}"),
            "--ssl-key: PEM file",
        ),
        (
            "--ssl-mode required --tls-versions 1.1".into(),
            "--tls-versions: TLS version '1.1'",
        ),
        (
            "--ssl-mode required --ssl-ciphers RC4".into(),
            "--ssl-ciphers: cipher suite 'RC4'",
        ),
    ];
    for (options, expected) in cases {
        let run = plain(&load("1", &options));
        assert_eq!(run.code, 2, "{options}: {}", run.stderr);
        assert!(run.stderr.contains(expected), "{options}: {}", run.stderr);
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_server_that_requires_tls_is_not_taken_for_a_wrong_password() {
    let test = "a_server_that_requires_tls_is_not_taken_for_a_wrong_password";
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let options = [&format!("--port={port}")[..], "--require-secure-transport=ON"];
    let Some(_server) = PrivateServer::start_with("secure", test, &options) else {
        return;
    };
    for command in [
        "oltp cleanup",
        "oltp prepare",
        "tpcc check",
        "oltp run --workload oltp_point_select",
    ] {
        let run = plain(&format!("{command} --port {port}"));
        assert_eq!(run.code, 2, "{command}: {}", run.stderr);
        for words in ["require_secure_transport", "--ssl-mode required"] {
            assert!(run.stderr.contains(words), "{command}: {}", run.stderr);
        }
    }
}
