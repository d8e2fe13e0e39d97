use dyno_loop::{End, Failure, Priority, Totals};

use super::*;
use crate::agents::{AgentFacts, AgentUsage};
use crate::host::TcpSegments;
use crate::kv::KvRecord;
use crate::server::CounterCheck;

fn totals() -> Totals<KvRecord> {
    let mut totals = Totals::new(0);
    totals.measured.counts.transactions = 1000;
    totals.measured.response.record_many(1_000_000, 1000);
    totals.busiest_worker_cpu_pct = 40.0;
    totals.intervals = 10;
    totals
}

fn inputs(totals: &Totals<KvRecord>) -> QualityInputs<'_> {
    QualityInputs {
        measured: Measurement::of(totals),
        end: End {
            planned: 1000,
            ..End::default()
        },
        duration_s: 10.0,
        failure: None,
        threads: 1,
        open_loop: true,
        counters: &[],
        counters_read: true,
        agents: &[],
        tcp: Some(TcpSegments {
            sent: 100_000,
            retransmitted: 0,
        }),
        kv: Some(KvInputs {
            measured: &totals.measured.extra.counts,
            all: &totals.sums,
            expected_hit_share: None,
        }),
        own_sql: None,
        trace_s: None,
        warehouses: None,
    }
}

fn quality_of<'a>(
    totals: &'a Totals<KvRecord>,
    change: impl FnOnce(&mut QualityInputs<'a>),
) -> (RunQuality, Vec<&'static str>) {
    let mut inputs = inputs(totals);
    change(&mut inputs);
    let (quality, findings) = judge(&inputs);
    (quality, findings.iter().map(|finding| finding.rule).collect())
}

/// Changes the share of hits that was requested.
fn with_hits<'a>(share: f64) -> impl FnOnce(&mut QualityInputs<'a>) {
    move |inputs| inputs.kv.as_mut().unwrap().expected_hit_share = Some(share)
}

#[test]
fn a_run_without_findings_is_valid() {
    assert_eq!(quality_of(&totals(), |_| ()), (RunQuality::Valid, vec![]));
}

#[test]
fn writes_without_a_row_are_counted_in_a_valid_run() {
    let mut gone = totals();
    (gone.measured.counts.writes, gone.measured.counts.unchanged) = (100, 900);
    let (quality, findings) = judge(&inputs(&gone));
    assert_eq!(quality, RunQuality::Valid);
    assert_eq!(
        (findings[0].rule, findings[0].level),
        ("absent_rows", RunQuality::Valid)
    );
    assert!(findings[0].reason.starts_with("900 of 1000 writes changed no row"));
}

#[test]
fn each_rule_speaks_at_its_limits_and_the_worst_counts() {
    let mut empty = totals();
    empty.measured.counts.transactions = 0;
    assert_eq!(quality_of(&empty, |_| ()), (RunQuality::Invalid, vec!["empty"]));

    let mut away = totals();
    away.unavailable_s = 0.1;
    assert_eq!(quality_of(&away, |_| ()), (RunQuality::Suspect, vec!["unavailable"]));
    away.unavailable_s = 2.0;
    assert_eq!(quality_of(&away, |_| ()), (RunQuality::Invalid, vec!["unavailable"]));

    let mut late = totals();
    late.measured.lag.record_many(300_000, 1000);
    assert_eq!(quality_of(&late, |_| ()), (RunQuality::Suspect, vec!["lag"]));
    late.measured.lag.record_many(2_000_000, 100_000);
    assert_eq!(quality_of(&late, |_| ()), (RunQuality::Invalid, vec!["lag"]));
    let mut few = totals();
    few.measured.lag.record_many(2_000_000, 6);
    assert_eq!(quality_of(&few, |_| ()), (RunQuality::Suspect, vec!["lag"]));

    let mut busy = totals();
    busy.busiest_worker_cpu_pct = 85.0;
    assert_eq!(quality_of(&busy, |_| ()), (RunQuality::Suspect, vec!["cpu"]));
    busy.busiest_worker_cpu_pct = 99.0;
    busy.measured.usage.cpu_wait_us = 5_000_000;
    assert_eq!(
        quality_of(&busy, |_| ()),
        (RunQuality::Invalid, vec!["cpu", "cpu_wait"])
    );

    let mut dropping = totals();
    dropping.measured.counts.dropped_late = 20;
    assert_eq!(quality_of(&dropping, |_| ()), (RunQuality::Suspect, vec!["dropped"]));

    let mut clipped = totals();
    clipped.measured.response.record(u64::MAX);
    assert_eq!(
        quality_of(&clipped, |_| ()),
        (RunQuality::Suspect, vec!["stalled", "clipped"])
    );
}

#[test]
fn what_was_dropped_is_never_more_than_the_plan() {
    let mut dropping = totals();
    dropping.measured.counts.dropped_late = 20;
    let mut inputs = inputs(&dropping);
    // An agent that is lost has no account of its plan.
    inputs.end.planned = 0;
    let (_, findings) = judge(&inputs);
    let reason = &findings[0].reason;
    assert!(
        reason.starts_with("20 of 20 planned transactions (100.00 %) were dropped"),
        "{reason}"
    );
}

#[test]
fn errors_that_are_ignored_are_named_with_the_most_frequent_one() {
    for (ignored, quality, restarted) in [
        (10, RunQuality::Valid, RunQuality::Valid),
        (11, RunQuality::Suspect, RunQuality::Valid),
        (101, RunQuality::Invalid, RunQuality::Suspect),
    ] {
        let mut failing = totals();
        failing.measured.counts.ignored_errors = ignored;
        failing.measured.errors.record(1205, "Lock wait timeout");
        for _ in 1..ignored {
            failing.measured.errors.record(1062, "Duplicate entry '1'");
        }
        let (judged, findings) = judge(&inputs(&failing));
        assert_eq!(judged, quality, "{ignored}");
        if let Some(finding) = findings.first() {
            assert_eq!(finding.rule, "ignored_errors");
            assert!(finding.reason.ends_with("most of them: Duplicate entry '1'"));
        }
        let of = |counts_failed, handles_errors| {
            let own_sql = OwnSql {
                counts_failed,
                handles_errors,
                ..OwnSql::default()
            };
            quality_of(&failing, |inputs| (inputs.kv, inputs.own_sql) = (None, Some(own_sql))).0
        };
        assert_eq!(of(true, false), quality, "of a capture: {ignored}");
        assert_eq!(of(false, false), restarted, "of a file: {ignored}");
        assert_eq!(of(false, true), RunQuality::Valid, "a script may have handled them");
    }
}

#[test]
fn a_trace_of_another_length_and_warehouses_without_a_terminal_are_named() {
    let fine = totals();
    for (trace_s, quality, words) in [
        (9.4, RunQuality::Suspect, "the trace lasts 9.4 s of the 10.0 s"),
        (9.6, RunQuality::Valid, ""),
        (
            3600.0,
            RunQuality::Valid,
            "the first 10.0 s of the trace's 3600.0 s were played",
        ),
    ] {
        let mut inputs = inputs(&fine);
        inputs.trace_s = Some(trace_s);
        let (judged, findings) = judge(&inputs);
        assert_eq!(judged, quality, "{trace_s}");
        let reason = findings.first().map_or("", |finding| finding.reason.as_str());
        assert!(reason.starts_with(words), "{reason}");
        assert_eq!(reason.is_empty(), words.is_empty(), "{reason}");
    }
    let mut inputs = inputs(&fine);
    inputs.warehouses = Some((16, 100));
    let (quality, findings) = judge(&inputs);
    assert_eq!((quality, findings[0].rule), (RunQuality::Suspect, "warehouses"));
    assert!(findings[0]
        .reason
        .starts_with("16 terminals at fixed homes use 16 of 100 warehouses"));
    inputs.warehouses = Some((100, 100));
    assert_eq!(judge(&inputs).0, RunQuality::Valid);
}

#[test]
fn what_surrounds_the_run_counts_too() {
    let fine = totals();
    assert_eq!(quality_of(&fine, |e| e.end.refused = 500), (RunQuality::Valid, vec![]));
    assert_eq!(
        quality_of(&fine, |e| e.end.not_started = 5),
        (RunQuality::Suspect, vec!["unfinished"])
    );
    assert_eq!(
        quality_of(&fine, |e| e.end.unfinished = 50),
        (RunQuality::Invalid, vec!["unfinished"])
    );
    let lossy = |e: &mut QualityInputs<'_>| {
        e.tcp = Some(TcpSegments {
            sent: 1000,
            retransmitted: 1,
        })
    };
    assert_eq!(quality_of(&fine, lossy), (RunQuality::Suspect, vec!["network"]));
    let failure = Failure::new("connection 3: the server went away");
    let failed = quality_of(&fine, |inputs| inputs.failure = Some(&failure));
    assert_eq!(failed, (RunQuality::Invalid, vec!["failed"]));
    let checks = [CounterCheck {
        counter: "Questions",
        server: 1002,
        client: 1000,
        difference_pct: 0.2,
    }];
    let mut inputs = inputs(&fine);
    (inputs.counters, inputs.tcp) = (&checks, None);
    assert_eq!(judge(&inputs).0, RunQuality::Suspect);
    inputs.counters = &[];
    assert_eq!(judge(&inputs).0, RunQuality::Valid);
}

#[test]
fn values_sets_and_hits_of_memcached_are_judged() {
    let fine = totals();
    let mut wrong = totals();
    wrong.sums.wrong_values = 1;
    assert_eq!(quality_of(&wrong, |_| ()), (RunQuality::Invalid, vec!["wrong_values"]));
    let mut refused = totals();
    (refused.sums.cmd_set, refused.sums.not_stored) = (1000, 1);
    assert_eq!(quality_of(&refused, |_| ()), (RunQuality::Suspect, vec!["not_stored"]));
    let mut cold = totals();
    (
        cold.measured.extra.counts.cmd_get,
        cold.measured.extra.counts.get_misses,
    ) = (1000, 230);
    assert_eq!(quality_of(&cold, with_hits(0.8)), (RunQuality::Valid, vec![]));
    (
        cold.measured.extra.counts.cmd_get,
        cold.measured.extra.counts.get_misses,
    ) = (100_000, 23_000);
    assert_eq!(quality_of(&cold, |_| ()), (RunQuality::Valid, vec!["hit_ratio"]));
    assert_eq!(
        quality_of(&cold, with_hits(0.8)),
        (RunQuality::Suspect, vec!["hit_ratio"])
    );
    assert_eq!(
        quality_of(&cold, with_hits(1.0)),
        (RunQuality::Invalid, vec!["hit_ratio"])
    );
    assert_eq!(quality_of(&fine, with_hits(1.0)), (RunQuality::Valid, vec![]));
}

#[test]
fn a_server_that_answers_nobody_and_a_connection_that_waits_for_most_of_the_run_are_named() {
    for (wait_s, silence_s, is_found) in [
        (1, 0.0, false),
        (6, 0.0, true),
        (3, 2.0, true),
        (3, 1.9, false),
        (1, 4.0, false),
    ] {
        let mut locked = totals();
        locked.measured.response.record(wait_s * 1_000_000_000);
        locked.longest_silence_s = silence_s;
        let (quality, rules) = quality_of(&locked, |_| ());
        assert_eq!(quality == RunQuality::Suspect, is_found, "{wait_s} s, {silence_s} s");
        assert_eq!(rules == vec!["stalled"], is_found);
    }
    // Before its first byte is sent, a transaction waits for a connection; after that, for the server.
    for (served_s, silence_s, words) in [
        (6, 0.0, "a transaction waited 6.0 s: look for locks"),
        (6, 3.0, "one waited 6.0 s: look at the server's log, and for locks"),
        (
            1,
            0.0,
            "waited 6.0 s for a connection, and none took more than 1.0 s on one: look for lost connections",
        ),
        (1, 3.0, "and for lost connections, and for a --rate"),
    ] {
        let mut waiting = totals();
        waiting.measured.response.record(6_000_000_000);
        waiting.measured.service.record(served_s * 1_000_000_000);
        waiting.longest_silence_s = silence_s;
        let reason = judge(&inputs(&waiting)).1.remove(0).reason;
        assert!(reason.contains(words), "{reason}");
    }
    // A load of long transactions is none that waits.
    let mut long = Totals::new(0);
    long.measured.counts.transactions = 3;
    long.measured.response.record_many(6_000_000_000, 3);
    long.longest_silence_s = 5.0;
    assert_eq!(quality_of(&long, |_| ()), (RunQuality::Valid, vec![]));
}

#[test]
fn a_program_that_was_stopped_and_a_script_that_sleeps_on_others_time_are_named() {
    let fine = totals();
    for (pause_ms, quality) in [
        (1_000, RunQuality::Valid),
        (1_001, RunQuality::Invalid),
        (30_000, RunQuality::Invalid),
    ] {
        let judged = quality_of(&fine, |e| e.end.longest_pause_ns = pause_ms * 1_000_000);
        assert_eq!(judged.0, quality, "{pause_ms}");
    }
    let long =
        |inputs: &mut QualityInputs<'_>| (inputs.duration_s, inputs.end.longest_pause_ns) = (60.0, 2_000_000_000);
    assert_eq!(quality_of(&fine, long), (RunQuality::Suspect, vec!["paused"]));
    let script = |held_s, threads_are_shared| {
        let mut busy = totals();
        busy.measured.usage.user_us = 1_000_000;
        busy.busiest_worker_cpu_pct = 10.0;
        let mut inputs = inputs(&busy);
        inputs.own_sql = Some(OwnSql {
            held_s,
            threads_are_shared,
            ..OwnSql::default()
        });
        inputs.end.longest_pause_ns = 1_500_000_000;
        judge(&inputs)
            .1
            .into_iter()
            .map(|finding| finding.rule)
            .collect::<Vec<_>>()
    };
    // Of 10 s; 1 s was CPU time.
    assert_eq!(script(9.0, true), ["script_held"]);
    assert!(script(9.0, false).is_empty());
    assert_eq!(script(1.4, true), ["paused"], "the pause was not the script's");
}

#[test]
fn a_load_without_a_stated_share_expects_every_key_that_it_reads() {
    let mut evicted = totals();
    (
        evicted.measured.extra.counts.cmd_get,
        evicted.measured.extra.counts.get_misses,
    ) = (100_000, 84_400);
    let (_, findings) = judge(&inputs(&evicted));
    assert_eq!(
        (findings[0].level, findings[0].reason.as_str()),
        (RunQuality::Valid, "84400 of 100000 keys read (84.4 %) were not found"),
        "any share is allowed"
    );
    assert_eq!(
        quality_of(&evicted, with_hits(1.0)),
        (RunQuality::Invalid, vec!["hit_ratio"])
    );
    let mut counters = totals();
    (
        counters.measured.extra.counts.incr_hits,
        counters.measured.extra.counts.incr_misses,
    ) = (0, 500);
    assert_eq!(
        quality_of(&counters, with_hits(0.9)),
        (RunQuality::Invalid, vec!["hit_ratio"])
    );
}

#[test]
fn reads_that_find_nothing_are_counted_and_judged_by_whose_rows_they_are() {
    let mut shifted = totals();
    (shifted.measured.counts.reads, shifted.measured.counts.missing_rows) = (10_000, 1);
    assert_eq!(quality_of(&shifted, |_| ()), (RunQuality::Valid, vec![]));
    shifted.measured.counts.missing_rows = 2;
    assert_eq!(
        quality_of(&shifted, |_| ()),
        (RunQuality::Suspect, vec!["missing_rows"])
    );
    shifted.measured.counts.missing_rows = 101;
    assert_eq!(
        quality_of(&shifted, |_| ()),
        (RunQuality::Invalid, vec!["missing_rows"])
    );
    let mut own = totals();
    (own.measured.counts.reads, own.measured.counts.empty_reads) = (100, 40);
    let judged = |every_statement_counts, never: &[&str]| {
        let mut inputs = inputs(&own);
        inputs.own_sql = Some(OwnSql {
            never_found: never.iter().map(ToString::to_string).collect(),
            every_statement_counts,
            ..OwnSql::default()
        });
        let finding = judge(&inputs).1.pop().unwrap();
        (finding.level, finding.reason)
    };
    assert_eq!(
        judged(true, &[]),
        (RunQuality::Valid, "40 of 100 reads found no row".to_string())
    );
    let (level, words) = judged(true, &["orders.1"]);
    assert_eq!(level, RunQuality::Suspect);
    assert!(words.contains("never a row: orders.1"), "{words}");
    assert_eq!(judged(false, &["SELECT ?"]).0, RunQuality::Valid);
    own.measured.counts.empty_reads = 100;
    let mut inputs = inputs(&own);
    inputs.own_sql = Some(OwnSql::default());
    assert_eq!(judge(&inputs).0, RunQuality::Suspect, "a script that finds nothing");
}

#[test]
fn a_clock_that_is_hardly_known_makes_the_run_suspect() {
    let fine = totals();
    let agent = |clock_error_us| AgentFacts {
        cpus: 4,
        usage: AgentUsage::default(),
        command: "ssh far dynoload agent".into(),
        host: "far".into(),
        threads: 1,
        priority: Priority::Normal,
        niceness: 0,
        clock_offset_us: 1e12,
        clock_error_us,
        clock_drift_us: None,
    };
    // Of a measurement of 10 s the bound is 0.1 %.
    let (near, far) = ([agent(3.0), agent(10_000.0)], [agent(3.0), agent(10_000.1)]);
    assert_eq!(quality_of(&fine, |e| e.agents = &near), (RunQuality::Valid, vec![]));
    assert_eq!(
        quality_of(&fine, |e| e.agents = &far),
        (RunQuality::Suspect, vec!["clock"])
    );
    let (near, far) = ([agent(1000.0)], [agent(1000.1)]);
    let short = |inputs: &mut QualityInputs<'_>| inputs.duration_s = 0.5;
    assert_eq!(
        quality_of(&fine, |e| (short(e), e.agents = &near).1),
        (RunQuality::Valid, vec![])
    );
    assert_eq!(
        quality_of(&fine, |e| (short(e), e.agents = &far).1),
        (RunQuality::Suspect, vec!["clock"])
    );
}
