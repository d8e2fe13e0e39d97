//! What one operation costs in this crate alone, in nanoseconds: encoding an execute, and parsing its reply with
//! `Detail::Skip`. No socket, no server: the reply is the same recorded bytes each time. `cargo bench -p dyno-mysql`.

#[path = "../tests/common/mod.rs"]
mod common;

use std::hint::black_box;
use std::time::Instant;

use common::{column, logged_in, packet, result_set, BASE, OK};
use dyno_mysql::constants::capability::DEPRECATE_EOF;
use dyno_mysql::{Connection, Detail, Event, Statement, Value};

const ROUNDS: u32 = 200_000;
const REPEATS: usize = 7;

/// The median over repeats of the mean time of one call.
fn measure(name: &str, mut operation: impl FnMut(u32)) {
    let mut means_ns: Vec<f64> = (0..REPEATS)
        .map(|_| {
            let start = Instant::now();
            (0..ROUNDS).for_each(&mut operation);
            start.elapsed().as_nanos() as f64 / ROUNDS as f64
        })
        .collect();
    means_ns.sort_by(f64::total_cmp);
    println!(
        "{name:<58} {:>8.1} ns (range {:.1} to {:.1})",
        means_ns[REPEATS / 2],
        means_ns[0],
        means_ns[REPEATS - 1]
    );
}

fn prepare(connection: &mut Connection) -> Statement {
    connection
        .prepare(b"SELECT c FROM sbtest1 WHERE id BETWEEN ? AND ?", Detail::Skip)
        .expect("ready");
    connection.sent(connection.outgoing().len());
    let mut reply = packet(1, &[0, 1, 0, 0, 0, 1, 0, 2, 0, 0, 0, 0]);
    for sequence in 2..5 {
        reply.extend_from_slice(&packet(sequence, &column("c", 253)));
    }
    let mut input = reply.as_slice();
    match connection.advance(&mut input) {
        Ok(Some(Event::Prepared(statement))) => statement,
        other => panic!("{other:?}"),
    }
}

fn reply(rows: usize) -> Vec<u8> {
    let row = [&[0, 0, 120][..], &[b'x'; 120]].concat();
    let mut out = Vec::new();
    result_set(&mut out, &mut 1, true, 1, &vec![row; rows], false);
    out
}

fn main() {
    let mut connection = logged_in(BASE | DEPRECATE_EOF);
    let mut statement = prepare(&mut connection);
    let ok = packet(1, OK);
    for (name, bytes) in [
        ("execute, 2 integers, and an OK", ok.clone()),
        ("execute, 2 integers, and 1 row of 120 bytes", reply(1)),
        ("execute, 2 integers, and 100 rows of 120 bytes", reply(100)),
    ] {
        measure(name, |round| {
            let values = [Value::Int(round as i64), Value::Int(round as i64 + 99)];
            connection
                .execute(&mut statement, &values, Detail::Skip)
                .expect("ready");
            exchange(&mut connection, &bytes);
        });
    }
    let sql = b"SELECT c FROM sbtest1 WHERE id=500000";
    for (name, bytes) in [
        ("query, 37 bytes, and 1 row of 120 bytes", reply(1)),
        ("query, 37 bytes, and an OK", ok),
    ] {
        measure(name, |_| {
            connection.query(black_box(sql), Detail::Skip).expect("ready");
            exchange(&mut connection, &bytes);
        });
    }
}

fn exchange(connection: &mut Connection, bytes: &[u8]) {
    let length = black_box(connection.outgoing()).len();
    connection.sent(length);
    let mut input = black_box(bytes);
    while let Some(event) = connection.advance(&mut input).expect("a good reply") {
        black_box(&event);
    }
    assert_eq!(connection.outstanding(), 0);
}
