//! The hot path allocates nothing: execute, query and skip with warm buffers, counted by the allocator itself.

mod common;

use std::io::Write;
use std::sync::Arc;

use common::{logged_in, packet, result_set, BASE, OK};
use dyno_allocations::{of_this_thread, CountingAllocator};
use dyno_mysql::constants::capability::{COMPRESS, DEPRECATE_EOF};
use dyno_mysql::{Compression, Connection, Detail, Endpoint, Event, Options, Statement, Value};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

fn prepare(connection: &mut Connection) -> Statement {
    connection
        .prepare(b"SELECT c FROM sbtest1 WHERE id BETWEEN ? AND ?", Detail::Skip)
        .unwrap();
    connection.sent(connection.outgoing().len());
    let reply = packet(1, &[0, 1, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0]);
    let mut reply_with_parameters = reply;
    for sequence in 2..4 {
        reply_with_parameters.extend_from_slice(&packet(sequence, &common::column("?", 253)));
    }
    let mut input = reply_with_parameters.as_slice();
    match connection.advance(&mut input).unwrap() {
        Some(Event::Prepared(statement)) => statement,
        other => panic!("{other:?}"),
    }
}

/// One round: a command out, its reply in, in pieces of at most `cut` bytes.
fn round(connection: &mut Connection, reply: &[u8], cut: usize) -> u64 {
    connection.sent(connection.outgoing().len());
    let mut rows = 0;
    for mut input in reply.chunks(cut) {
        while let Some(event) = connection.advance(&mut input).unwrap() {
            match event {
                Event::Done(done) => rows += done.rows,
                other => panic!("{other:?}"),
            }
        }
    }
    rows
}

#[test]
fn executing_and_querying_with_skip_allocates_nothing() {
    let mut connection = logged_in(BASE | DEPRECATE_EOF);
    let mut statement = prepare(&mut connection);
    let row = [&[0, 0, 120][..], &[b'x'; 120]].concat();
    let mut reply = Vec::new();
    result_set(&mut reply, &mut 1, true, 1, &vec![row; 100], false);
    let ok = packet(1, OK);

    let mut rounds = |count: u64| {
        for number in 0..count {
            let values = [Value::Int(number as i64), Value::Int(number as i64 + 99)];
            connection.execute(&mut statement, &values, Detail::Skip).unwrap();
            // Whole, as one segment would bring it, and small odd cuts through headers and rows.
            assert_eq!(round(&mut connection, &reply, 1 << 16), 100);
            connection.execute(&mut statement, &values, Detail::Skip).unwrap();
            assert_eq!(round(&mut connection, &reply, 7), 100);
            connection.query(b"COMMIT", Detail::Skip).unwrap();
            assert_eq!(round(&mut connection, &ok, 3), 0);
        }
    };
    rounds(3);
    let before = of_this_thread();
    rounds(1000);
    let made = of_this_thread() - before;
    assert_eq!(made, 0, "{made} allocations in 3,000 operations");
}

/// Compression works in contexts and buffers that the thread keeps.
#[test]
fn compression_allocates_nothing_either() {
    let mut options = Options::new(Endpoint::tcp("127.0.0.1", 1), "user");
    options.compression = Compression::Zlib { level: 6 };
    let mut connection = Connection::new(Arc::new(options));
    let bytes = [common::greeting(BASE | DEPRECATE_EOF | COMPRESS), packet(2, OK)].concat();
    let mut input = bytes.as_slice();
    assert!(matches!(connection.advance(&mut input).unwrap(), Some(Event::Ready)));
    connection.sent(connection.outgoing().len());

    let mut raw = Vec::new();
    let row = [&[120][..], &[b'x'; 120]].concat();
    result_set(&mut raw, &mut 1, true, 1, &vec![row; 100], false);
    let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::new(6));
    zlib.write_all(&raw).unwrap();
    let zlib = zlib.finish().unwrap();
    let mut reply = (zlib.len() as u32).to_le_bytes().to_vec();
    reply.extend_from_slice(&(raw.len() as u32).to_le_bytes()[..3]);
    reply.extend_from_slice(&zlib);

    let sql = format!("SELECT c FROM sbtest1 WHERE id IN ({})", vec!["500000"; 20].join(", "));
    let mut rounds = |count| {
        for _ in 0..count {
            connection.query(sql.as_bytes(), Detail::Skip).unwrap();
            assert!(
                connection.outgoing().len() < sql.len() / 2,
                "the command went out compressed"
            );
            assert_eq!(round(&mut connection, &reply, 1 << 16), 100);
        }
    };
    rounds(3);
    let before = of_this_thread();
    rounds(100);
    assert_eq!(of_this_thread() - before, 0);
}
