use super::*;
use crate::recorder::Recorder;

fn totals() -> Totals {
    let mut measured = Recorder::new(0);
    measured.counts.transactions = 1000;
    measured.response.record_many(1_000_000, 1000);
    Totals {
        measured,
        all: Default::default(),
        all_by_kind: Default::default(),
        all_kv: Default::default(),
        all_handshakes: Default::default(),
        ended_after_stop: 0,
        busiest_worker_cpu_pct: 40.0,
        intervals: 10,
    }
}

fn verdict_of<'a>(totals: &'a Totals, change: impl FnOnce(&mut Evidence<'a>)) -> (Verdict, Vec<&'static str>) {
    let mut evidence = Evidence {
        totals,
        end: End {
            planned: 1000,
            ..End::default()
        },
        duration_s: 10.0,
        failure: None,
        threads: 1,
        open_loop: true,
        counters: &[],
        agents: &[],
        tcp: Some(TcpSegments {
            sent: 100_000,
            retransmitted: 0,
        }),
        asked_hit_share: None,
    };
    change(&mut evidence);
    let (verdict, findings) = judge(&evidence);
    (verdict, findings.iter().map(|finding| finding.rule).collect())
}

#[test]
fn a_run_without_findings_is_valid() {
    assert_eq!(verdict_of(&totals(), |_| ()), (Verdict::Valid, vec![]));
}

#[test]
fn each_rule_speaks_at_its_limits_and_the_worst_counts() {
    let mut empty = totals();
    empty.measured.counts.transactions = 0;
    assert_eq!(verdict_of(&empty, |_| ()), (Verdict::Invalid, vec!["empty"]));

    let mut late = totals();
    late.measured.lag.record_many(300_000, 1000);
    assert_eq!(verdict_of(&late, |_| ()), (Verdict::Suspect, vec!["lag"]));
    late.measured.lag.record_many(2_000_000, 100_000);
    assert_eq!(verdict_of(&late, |_| ()), (Verdict::Invalid, vec!["lag"]));

    let mut busy = totals();
    busy.busiest_worker_cpu_pct = 85.0;
    assert_eq!(verdict_of(&busy, |_| ()), (Verdict::Suspect, vec!["cpu"]));
    busy.busiest_worker_cpu_pct = 99.0;
    busy.measured.usage.cpu_wait_us = 5_000_000;
    assert_eq!(verdict_of(&busy, |_| ()), (Verdict::Invalid, vec!["cpu", "cpu_wait"]));

    let mut dropping = totals();
    dropping.measured.counts.dropped_late = 20;
    assert_eq!(verdict_of(&dropping, |_| ()), (Verdict::Suspect, vec!["dropped"]));

    let mut clipped = totals();
    clipped.measured.response.record(u64::MAX);
    assert_eq!(verdict_of(&clipped, |_| ()), (Verdict::Suspect, vec!["clipped"]));
}

#[test]
fn what_surrounds_the_run_counts_too() {
    let fine = totals();
    assert_eq!(
        verdict_of(&fine, |e| e.end.not_started = 5),
        (Verdict::Suspect, vec!["unfinished"])
    );
    assert_eq!(
        verdict_of(&fine, |e| e.end.unfinished = 50),
        (Verdict::Invalid, vec!["unfinished"])
    );
    let lossy = |e: &mut Evidence<'_>| {
        e.tcp = Some(TcpSegments {
            sent: 1000,
            retransmitted: 1,
        })
    };
    assert_eq!(verdict_of(&fine, lossy), (Verdict::Suspect, vec!["network"]));
    let failure = Failure::new("connection 3: the server went away");
    let failed = verdict_of(&fine, |evidence| evidence.failure = Some(&failure));
    assert_eq!(failed, (Verdict::Invalid, vec!["failed"]));
    let checks = [CounterCheck {
        counter: "Questions",
        server: 1002,
        client: 1000,
        difference_pct: 0.2,
    }];
    let mut evidence = Evidence {
        totals: &fine,
        end: End {
            planned: 1000,
            ..End::default()
        },
        duration_s: 10.0,
        failure: None,
        threads: 1,
        open_loop: true,
        counters: &checks,
        agents: &[],
        tcp: None,
        asked_hit_share: None,
    };
    assert_eq!(judge(&evidence).0, Verdict::Suspect);
    evidence.counters = &[];
    assert_eq!(judge(&evidence).0, Verdict::Valid);
}

#[test]
fn values_sets_and_hits_of_memcached_are_judged() {
    let fine = totals();
    let mut wrong = totals();
    wrong.all_kv.wrong_values = 1;
    assert_eq!(verdict_of(&wrong, |_| ()), (Verdict::Invalid, vec!["wrong_values"]));
    let mut refused = totals();
    (refused.all_kv.cmd_set, refused.all_kv.not_stored) = (1000, 1);
    assert_eq!(verdict_of(&refused, |_| ()), (Verdict::Suspect, vec!["not_stored"]));
    let mut cold = totals();
    (cold.measured.kv.counts.cmd_get, cold.measured.kv.counts.get_hits) = (1000, 780);
    assert_eq!(verdict_of(&cold, |_| ()), (Verdict::Valid, vec![]));
    assert_eq!(
        verdict_of(&cold, |e| e.asked_hit_share = Some(0.8)),
        (Verdict::Suspect, vec!["hit_ratio"])
    );
    assert_eq!(
        verdict_of(&cold, |e| e.asked_hit_share = Some(1.0)),
        (Verdict::Invalid, vec!["hit_ratio"])
    );
    assert_eq!(
        verdict_of(&fine, |e| e.asked_hit_share = Some(1.0)),
        (Verdict::Valid, vec![])
    );
}

#[test]
fn a_clock_that_is_hardly_known_makes_the_run_suspect() {
    let fine = totals();
    let agent = |clock_error_us| AgentFacts {
        command: "ssh far dynoload agent".into(),
        host: "far".into(),
        threads: 1,
        priority: crate::run::Priority::Normal,
        niceness: 0,
        clock_offset_us: 1e12,
        clock_error_us,
        clock_drift_us: None,
    };
    let (near, far) = ([agent(3.0), agent(1000.0)], [agent(3.0), agent(1000.1)]);
    assert_eq!(verdict_of(&fine, |e| e.agents = &near), (Verdict::Valid, vec![]));
    assert_eq!(
        verdict_of(&fine, |e| e.agents = &far),
        (Verdict::Suspect, vec!["clock"])
    );
}
