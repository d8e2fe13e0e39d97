//! Accounts of each authentication plugin against a real server; environment as in tests/server.rs.

mod common;

use common::{by_socket, by_tcp, connect, drop_account, make_account, not_run, TIMEOUT};
use dyno_mysql::blocking::Client;
use dyno_mysql::{Error, Options, Secret, TlsContext, TlsMode, TlsOptions};

const PASSWORD: &str = "pässword with 'quotes'";

fn with_password(options: &Options, password: &str) -> Options {
    Options {
        password: Secret::new(password),
        ..options.clone()
    }
}

fn logs_in(options: &Options, user: &str) {
    let mut client = connect(options);
    let who = client.query_text("SELECT USER()").unwrap().unwrap();
    assert!(who.starts_with(&format!("{user}@")), "{who}");
    client.quit().unwrap();
}

fn is_denied(options: &Options) {
    match Client::connect(options, TIMEOUT) {
        Err(Error::Server(error)) => assert_eq!(error.code, 1045, "{error}"),
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("let in with a wrong password"),
    }
}

/// Both ways in, with the right password, a wrong one and none.
fn is_sound(root: &mut Client, test: &str, user: &str, clause: &str) {
    make_account(root, user, clause);
    let mut socket = by_socket(test).unwrap();
    socket.user = user.into();
    let tcp = by_tcp(test, user);
    for options in [Some(socket), tcp].into_iter().flatten() {
        logs_in(&with_password(&options, PASSWORD), user);
        is_denied(&with_password(&options, "wrong"));
        is_denied(&with_password(&options, ""));
        logs_in(&with_password(&options, PASSWORD), user);
    }
    drop_account(root, user);
}

fn quoted() -> String {
    PASSWORD.replace('\'', "''")
}

#[test]
fn native_passwords_work() {
    let test = "native_passwords_work";
    let Some(options) = by_socket(test) else { return };
    let mut root = connect(&options);
    let server = root.connection().server().unwrap().clone();
    if !server.is_mariadb && root.query("SELECT 1 FROM information_schema.plugins WHERE plugin_name = 'mysql_native_password' AND plugin_status = 'ACTIVE'").unwrap().rows.is_empty() {
        return common::aloud(&format!("NOT RUN: {test}: server {} has no mysql_native_password", server.version));
    }
    is_sound(&mut root, test, "dyno_native", &format!("IDENTIFIED BY '{}'", quoted()));
}

#[test]
fn accounts_without_password_work() {
    let test = "accounts_without_password_work";
    let Some(mut options) = by_socket(test) else { return };
    let mut root = connect(&options);
    make_account(&mut root, "dyno_empty", "");
    options.user = "dyno_empty".into();
    logs_in(&options, "dyno_empty");
    is_denied(&with_password(&options, "something"));
    drop_account(&mut root, "dyno_empty");
}

#[test]
fn ed25519_accounts_of_mariadb_work() {
    let test = "ed25519_accounts_of_mariadb_work";
    let Some(options) = by_socket(test) else { return };
    let mut root = connect(&options);
    if !root.connection().server().unwrap().is_mariadb {
        return not_run(test, &root, "is no MariaDB");
    }
    // 1126: the shared library is not there.
    match root.exec("INSTALL SONAME 'auth_ed25519'") {
        Err(Error::Server(error)) if error.code == 1126 => {
            return not_run(test, &root, &format!("says: {error} (Debian has it in mariadb-server)"));
        }
        other => other.unwrap(),
    };
    is_sound(
        &mut root,
        test,
        "dyno_ed25519",
        &format!("IDENTIFIED VIA ed25519 USING PASSWORD('{}')", quoted()),
    );
    root.exec("UNINSTALL SONAME 'auth_ed25519'").unwrap();
}

/// Each way twice: the first proves the password in full, the second hits the server's cache.
#[test]
fn caching_sha2_accounts_work_over_every_path() {
    let test = "caching_sha2_accounts_work_over_every_path";
    let Some(socket) = by_socket(test) else { return };
    let mut root = connect(&socket);
    let plugins = "SELECT 1 FROM information_schema.plugins WHERE plugin_name = 'caching_sha2_password'";
    if root.query(plugins).unwrap().rows.is_empty() {
        return not_run(test, &root, "has no caching_sha2_password");
    }
    let user = "dyno_sha2";
    let Some(tcp) = by_tcp(test, user) else { return };
    make_account(
        &mut root,
        user,
        &format!("IDENTIFIED WITH caching_sha2_password BY '{}'", quoted()),
    );
    let tls = TlsContext::new(&TlsOptions {
        mode: TlsMode::Required,
        ..TlsOptions::default()
    })
    .unwrap();
    let socket = Options {
        user: user.into(),
        ..socket
    };
    let paths = [
        ("socket", socket),
        ("RSA", tcp.clone()),
        ("TLS", Options { tls, ..tcp }),
    ];
    for (path, options) in paths {
        // FLUSH PRIVILEGES empties the cache of proved passwords.
        root.exec("FLUSH PRIVILEGES").unwrap();
        is_denied(&with_password(&options, "wrong"));
        let packets = |options: &Options| connect(options).connection().counters().packets_in;
        let right = with_password(&options, PASSWORD);
        let full = packets(&right);
        let fast = packets(&right);
        let expected_full = if path == "RSA" { 4 } else { 3 };
        assert_eq!(
            (full, fast),
            (expected_full, 3),
            "{path}: greeting, 'full' or 'fast', the key, OK"
        );
        is_denied(&with_password(&options, "wrong"));
        is_denied(&with_password(&options, ""));
    }
    drop_account(&mut root, user);
}
