//! What recording one operation costs: the records of a point select, and these with the one reading of the clock that
//! an operation needs, ns of CPU; one JSON line.
//!
//! CPU time of the thread, not the wall clock's: a busy neighbour must not count.

use std::hint::black_box;

use dyno_core::clock::now_ns;
use dyno_core::random::{Domain, RandomStream};
use dyno_load::sql::named::Reply;
use dyno_load::sql::record::record_statement;
use dyno_load::sql::{SqlRecorder, StatementKind};
use dyno_loop::recorder::{Slow, UsageMeter};

const OPERATIONS: u64 = 20_000_000;

/// Nanoseconds of CPU an operation, with the reading of the clock or with a time that is there already.
fn cost_ns(latencies: &[u64], reads_clock: bool) -> f64 {
    let mut recorder = SqlRecorder::new(10);
    let reply = Reply {
        columns: 1,
        rows: 1,
        affected_rows: 0,
    };
    let mut meter = UsageMeter::of_this_thread();
    let before = meter.read();
    for operation in 0..OPERATIONS {
        let latency_ns = black_box(latencies[(operation & 65_535) as usize]);
        let now = black_box(if reads_clock { now_ns() } else { operation });
        record_statement(&mut recorder, StatementKind::PointSelect, latency_ns, reply);
        recorder.counts.transactions += 1;
        recorder.service.record(latency_ns);
        recorder.response.record(latency_ns + 500);
        recorder.slowest.offer(Slow {
            response_ns: latency_ns,
            service_ns: latency_ns,
            ended_ns: now,
            number: operation,
        });
    }
    let total_ns = (meter.read().cpu_us() - before.cpu_us()) * 1000;
    black_box(&recorder);
    total_ns as f64 / OPERATIONS as f64
}

fn main() {
    // Latencies as a server has them: a body about 100 µs and a tail, so that the buckets are spread as in a run.
    let mut stream = RandomStream::of(1, Domain::Operation, 0);
    let latencies: Vec<u64> = (0..65_536)
        .map(|_| (50_000.0 + 60_000.0 * stream.next_exponential()) as u64)
        .collect();
    let records_ns = cost_ns(&latencies, false);
    let ns_per_operation = cost_ns(&latencies, true);
    println!(
        "{{\"ns_per_operation\":{ns_per_operation:.2},\"records_ns\":{records_ns:.2},\"operations\":{OPERATIONS}}}"
    );
}
