//! Numbers at and beyond their bounds, and files that cannot be written: refused before any load, by name.

mod common;

use common::{parse, plain, run, NullServer, PROGRAM};

const SQL: &str = "oltp run --any-server --quiet --workload oltp_point_select --duration 300ms";
const KV: &str = "kv run --quiet --duration 300ms";
const TPCC: &str = "tpcc run --quiet --duration 300ms";

/// Too little, too much, and no number at all.
const BEYOND: [(&str, &str, &[&str]); 33] = [
    (
        SQL,
        "connections",
        &["0", "-1", "1000001", "99999999999", "1e300", "NaN"],
    ),
    (SQL, "threads", &["0", "1025", "99999999999"]),
    (SQL, "slowest", &["-1", "100001", "99999999999", "18446744073709551615"]),
    (SQL, "interval", &["0", "1ns", "999us", "1e300s", "-1s"]),
    (SQL, "duration", &["0s", "1ns", "1e300s", "inf"]),
    (SQL, "warmup", &["-1s", "1e300s", "NaN"]),
    (SQL, "grace", &["-1s", "1e10s"]),
    (SQL, "connect-timeout", &["0s", "-1s", "1e10s"]),
    (SQL, "port", &["0", "65536", "99999999999"]),
    (SQL, "seed", &["-1", "18446744073709551616"]),
    (SQL, "tables", &["0", "100001", "4294967295"]),
    (SQL, "table-size", &["0", "2147483648", "99999999999"]),
    (SQL, "range-size", &["0", "4294967295"]),
    (SQL, "point-selects", &["10001", "4294967295"]),
    (SQL, "delete-inserts", &["-1", "10001"]),
    (SQL, "random-points", &["0", "10001"]),
    (SQL, "delta", &["2147483648"]),
    (SQL, "rand-spec-iter", &["0", "1001", "4294967295"]),
    (SQL, "rand-spec-pct", &["101"]),
    (SQL, "rand-spec-res", &["100"]),
    (SQL, "ignore-errors", &["65536", "-1"]),
    (SQL, "think-time", &["1e300s", "-1ms"]),
    (KV, "connections", &["0", "1000001"]),
    (KV, "keys", &["0", "4294967296"]),
    (KV, "counters", &["0", "10000001"]),
    (KV, "ttl", &["-1", "2592001", "99999999999"]),
    (KV, "depth", &["0", "10001", "4294967295"]),
    (KV, "multi-get-keys", &["0", "10001"]),
    (KV, "operations", &["0", "99999999999"]),
    (TPCC, "warehouses", &["0", "32768"]),
    (TPCC, "terminals", &["0", "327671", "4294967295"]),
    ("tpcc prepare", "threads", &["0", "1025", "4294967295"]),
    ("calibrate", "connections", &["0", "4294967295"]),
];

#[test]
fn a_number_beyond_its_bounds_is_refused_by_name() {
    for (load, option, values) in BEYOND {
        for value in values {
            let run = plain(&format!("{load} --{option}={value}"));
            assert_eq!(run.code, 2, "{load} --{option}={value}: {}", run.stderr);
            assert!(
                run.stderr.contains(&format!("--{option}")),
                "--{option}={value}: {}",
                run.stderr
            );
        }
    }
}

#[test]
fn numbers_that_depend_on_others_are_refused_by_name() {
    for (arguments, option) in [
        (format!("{SQL} --rate 100 --catch-up 1"), "--catch-up"),
        (format!("{SQL} --rate 100 --catch-up 1e300"), "--catch-up"),
        (
            format!("{SQL} --rate 100 --late-limit 0s --overload abort"),
            "--late-limit",
        ),
        (format!("{SQL} --rand-type pareto --rand-pareto-h 1e300"), "--rand-type"),
        (
            format!("{SQL} --rand-type zipfian --rand-zipfian-exp=-1"),
            "--rand-type",
        ),
        (format!("{KV} --connections 900000 --depth 10000"), "--depth"),
        (format!("{KV} --value-size 99999999999"), "--value-size"),
    ] {
        let run = plain(&arguments);
        assert_eq!(run.code, 2, "{arguments}: {}", run.stderr);
        assert!(run.stderr.contains(option), "{arguments}: {}", run.stderr);
    }
}

#[test]
fn the_greatest_values_run() {
    let server = NullServer::start();
    let load = format!("{SQL} --port {}", server.port());
    for more in [
        "--slowest 100000 --threads 1024 --connections 3",
        "--point-selects 10000 --tables 3 --table-size 2147483647 --range-size 2147483647",
        "--rand-spec-iter 1000 --seed 18446744073709551615 --grace 1000000000s --warmup 1ms",
    ] {
        let run = run(&format!("{load} {more}"));
        assert!(matches!(run.code, 0 | 4), "{more}: {} {}", run.code, run.stderr);
        assert!(run.count("/counts/transactions") > 0, "{more}: {}", run.stderr);
    }
}

#[test]
fn a_worker_never_uses_more_than_its_cpu() {
    let server = NullServer::start();
    for (interval, threads) in [("1ms", 1), ("7ms", 2), ("250ms", 1), ("301ms", 2)] {
        let more = format!(
            "--interval {interval} --connections 16 --threads {threads} --port {}",
            server.port()
        );
        let run = run(&format!("{SQL} {more}"));
        let busiest_pct = run.number("/cpu/busiest_worker_pct");
        assert!(busiest_pct > 1.0 && busiest_pct <= 100.0, "{more}: {busiest_pct} %");
    }
}

#[test]
fn a_file_that_cannot_be_written_is_refused_before_any_load() {
    let server = NullServer::start();
    for (load, option) in [(SQL, "--json"), (SQL, "--hdr"), (SQL, "--openmetrics")] {
        let path = "/nonexistent-folder/result";
        let output = std::process::Command::new(PROGRAM)
            .args(load.split(' '))
            .args(["--port", server.port(), option, path])
            .output()
            .unwrap();
        let run = parse(output);
        assert_eq!(run.code, 2, "{option}: {}", run.stderr);
        assert!(
            run.stderr.contains(&format!("{option} '{path}'")),
            "{option}: {}",
            run.stderr
        );
        assert!(run.stdout.is_empty(), "{option}: {}", run.stdout);
    }
}
