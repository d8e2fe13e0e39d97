//! Large payloads, compression and the counts of bytes against a real server; environment as in tests/server.rs.

mod common;

use common::{by_socket, by_tcp, connect, drop_account, make_account, status};
use dyno_mysql::blocking::Client;
use dyno_mysql::constants::capability;
use dyno_mysql::{Compression, Error, Options, Value};

#[test]
fn the_wire_counters_agree_with_the_servers_own() {
    let Some(options) = by_socket("the_wire_counters_agree_with_the_servers_own") else {
        return;
    };
    for compression in [Compression::Off, Compression::Zlib { level: 6 }] {
        let mut client = connect(&Options {
            compression,
            ..options.clone()
        });
        let sent_before = client.connection().counters().wire_bytes_out;
        let server_before = status(&mut client, "Bytes_received");
        client.exec(&format!("SELECT '{}'", "a".repeat(100_000))).unwrap();
        let server_after = status(&mut client, "Bytes_received");
        // Each reading happens after the reading statement itself was received, so one of them falls in between.
        let sent = client.connection().counters().wire_bytes_out - sent_before;
        let reading = "\x03SHOW SESSION STATUS LIKE 'Bytes_received'".len() as u64 + 4;
        let frame = if compression == Compression::Off { 0 } else { 7 };
        assert_eq!(server_after - server_before, sent - reading - frame, "{compression:?}");
    }
}

#[test]
fn payloads_over_16_mebibytes_go_both_ways() {
    let test = "payloads_over_16_mebibytes_go_both_ways";
    let Some(socket) = by_socket(test) else { return };
    let Some(mut tcp) = by_tcp(test, "dyno_big") else {
        return;
    };
    let mut root = connect(&socket);
    root.exec("SET GLOBAL max_allowed_packet = 67108864").unwrap();
    make_account(&mut root, "dyno_big", "");
    let length = (1 << 24) + 12_345;
    let text = "0123456789abcde\n".repeat(length / 16 + 1);
    for compression in [Compression::Off, Compression::Zlib { level: 1 }] {
        tcp.compression = compression;
        // Under compression one size will do: the packets inside are the same.
        let sizes = [0xff_ffff - 20, (1 << 24) - 1, 1 << 24, length];
        for &size in if compression == Compression::Off {
            &sizes[..]
        } else {
            &sizes[3..]
        } {
            let mut client = connect(&tcp);
            let sql = format!("SELECT LENGTH('{0}'), '{0}'", &text[..size / 2]);
            let result = client.query(&sql).unwrap();
            assert_eq!(result.texts()[0][0].as_deref(), Some((size / 2).to_string().as_str()));
            assert!(result.rows[0][1].as_deref() == Some(&text.as_bytes()[..size / 2]));
            // One value alone is longer than a packet; and so is one parameter.
            let skipped = client.exec(&format!("SELECT REPEAT('x', {size}); SELECT 1")).unwrap();
            assert_eq!(skipped.rows, 1);
            let result = client.query(&format!("SELECT REPEAT('x', {size})")).unwrap();
            assert_eq!(result.rows[0][0].as_ref().unwrap().len(), size);
            let mut statement = client.prepare("SELECT LENGTH(?), ?").unwrap();
            let parameter = &text.as_bytes()[..size];
            let values = [Value::Bytes(parameter), Value::Bytes(parameter)];
            client
                .execute(&mut statement, &values, |row| {
                    assert_eq!(row[0], Value::Int(size as i64));
                    assert!(row[1] == Value::Bytes(parameter));
                })
                .unwrap();
            client.ping().unwrap();
        }
    }
    drop_account(&mut root, "dyno_big");
}

#[test]
fn zlib_is_in_force_and_saves_bytes() {
    let Some(mut options) = by_socket("zlib_is_in_force_and_saves_bytes") else {
        return;
    };
    options.compression = Compression::Zlib { level: 6 };
    let mut client = connect(&options);
    let on = client.query("SHOW SESSION STATUS LIKE 'Compression'").unwrap();
    assert_eq!(on.texts()[0][1].as_deref(), Some("ON"));
    let before = *client.connection().counters();
    let sql = format!("SELECT '{}'", "abc".repeat(100_000));
    client.exec(&sql).unwrap();
    let used = client.connection().counters().since(&before);
    assert_eq!(used.raw_bytes_out, sql.len() as u64 + 5);
    assert!(used.raw_bytes_in > 300_000);
    assert!(used.wire_bytes_in < 20_000 && used.wire_bytes_out < 20_000, "{used:?}");
    assert_eq!(
        (used.wire_bytes_in, used.wire_bytes_out),
        (used.compressed_bytes_in, used.compressed_bytes_out)
    );
}

#[test]
fn zstd_is_in_force_where_offered_and_refused_elsewhere() {
    let Some(options) = by_socket("zstd_is_in_force_where_offered_and_refused_elsewhere") else {
        return;
    };
    let server = connect(&options).connection().server().unwrap().clone();
    // On MariaDB the bit, if ever set, would mean something else.
    let has_zstd = !server.is_mariadb && server.capabilities & capability::ZSTD_COMPRESSION != 0;
    for level in [1, 3, 22] {
        let result = Client::connect(
            &Options {
                compression: Compression::Zstd { level },
                ..options.clone()
            },
            common::TIMEOUT,
        );
        if !has_zstd {
            assert!(
                matches!(result.err(), Some(Error::Setup(text)) if text.contains("does not offer the requested compression"))
            );
            continue;
        }
        let mut client = result.unwrap();
        let algorithm = client
            .query("SHOW SESSION STATUS LIKE 'Compression_algorithm'")
            .unwrap();
        assert_eq!(algorithm.texts()[0][1].as_deref(), Some("zstd"));
        assert_eq!(status(&mut client, "Compression_level"), level as u64);
        let before = *client.connection().counters();
        client.exec(&format!("SELECT '{}'", "abc".repeat(100_000))).unwrap();
        let used = client.connection().counters().since(&before);
        assert!(used.wire_bytes_in < 20_000 && used.wire_bytes_out < 20_000, "{used:?}");
    }
}
