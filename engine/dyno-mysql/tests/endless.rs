//! Hostile servers that send without end: what a connection keeps of it is bounded, and the error names the bound.

mod common;

use std::io::{Read, Write};
use std::os::unix::net::UnixListener;
use std::time::Duration;

use common::{column, end, greeting, packet, BASE};
use dyno_mysql::blocking::Client;
use dyno_mysql::{Endpoint, Error, Options};

/// Answers one client: the pieces one after the other, the last one until the client leaves.
fn connect(name: &str, greeting: Vec<u8>, answers: Vec<Vec<u8>>) -> Result<Client, Error> {
    let path = std::env::temp_dir().join(format!("dyno-endless-{}-{name}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    let listener = UnixListener::bind(&path).unwrap();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut read = vec![0; 1 << 16];
        let mut wait = |stream: &mut std::os::unix::net::UnixStream| stream.read(&mut read).is_ok();
        if answers.is_empty() {
            while stream.write_all(&greeting).is_ok() {}
            return;
        }
        stream.write_all(&greeting).unwrap();
        for answer in &answers[..answers.len() - 1] {
            wait(&mut stream);
            stream.write_all(answer).unwrap();
        }
        while stream.write_all(&answers[answers.len() - 1]).is_ok() {}
    });
    let options = Options::new(Endpoint::unix(&path), "dyno");
    let client = Client::connect(&options, Duration::from_secs(60));
    std::fs::remove_file(&path).unwrap();
    client
}

#[test]
fn a_greeting_is_bounded() {
    let huge = [vec![0xff, 0xff, 0xff, 0, 10], vec![b'x'; 1 << 20]].concat();
    let error = connect("greeting", huge, vec![]).err().unwrap().to_string();
    assert!(error.contains("where 64 kB are the limit"), "{error}");
}

#[test]
fn rows_without_end_are_an_error() {
    let mut head = packet(1, b"\x01");
    head.extend(packet(2, &column("a", 253)));
    head.extend(packet(3, &end(false, false)));
    // Sequence numbers go round after 256 packets.
    let row = [&b"\xfd\x00\x10\x00"[..], &[b'x'; 4096]].concat();
    let rows: Vec<u8> = (0..=255u8)
        .flat_map(|number| packet(number.wrapping_add(4), &row))
        .collect();
    let mut client = connect(
        "rows",
        greeting(BASE),
        vec![packet(2, &[0, 0, 0, 2, 0, 0, 0]), head, rows],
    )
    .unwrap();
    let error = client.query("SHOW STATUS").unwrap_err().to_string();
    assert!(
        error.contains("the result of a control query has more than 64 MiB"),
        "{error}"
    );
}
