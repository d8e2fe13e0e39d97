//! The rules: one function each, of what it looks at and from where on it finds something.

use super::inputs::{level, QualityInputs, RunQuality};
use RunQuality::{Invalid, Suspect, Valid};

/// What a rule finds: how bad it is, and the sentence with the figure and what to try.
pub type Judgement = Option<(RunQuality, String)>;

/// The run ended with an error, so its figures are not of the load that was requested.
/// INVALID when the run failed.
pub fn failed(inputs: &QualityInputs<'_>) -> Judgement {
    let failure = inputs.failure?;
    Some((Invalid, format!("the run ended early: {failure}")))
}

/// No transaction ended, so there is nothing to report.
/// INVALID without a single transaction.
pub fn empty(inputs: &QualityInputs<'_>) -> Judgement {
    let duration_s = inputs.duration_s;
    let reason = || format!("no transaction ended in the {duration_s:.1} s of the measurement");
    (inputs.measured.counts.transactions == 0).then(|| (Invalid, reason()))
}

/// The server was away for a part of the measurement, so throughput and latencies are of the rest.
/// SUSPECT with a single interval without a transaction while connections were lost, INVALID above 1 % of the measurement.
pub fn unavailable(inputs: &QualityInputs<'_>) -> Judgement {
    let unavailable_s = inputs.measured.unavailable_s;
    let level = level(unavailable_s / inputs.duration_s * 100.0, 0.0, 1.0)?;
    let reason = format!(
        "the server was unavailable: connections were lost, and no transaction ended in {unavailable_s:.1} of {:.1} s; look \
         at the server's log",
        inputs.duration_s
    );
    Some((level, reason))
}

/// Lag that no latency of a database makes out.
const HARMLESS_US: f64 = 200.0;
/// With fewer transactions the 99th percentile is the worst one: a single late wake-up makes no run invalid.
const ENOUGH: u64 = 100;

/// This program started planned transactions late, so the load was not the planned one.
/// SUSPECT when the 99th percentile of lag is above a tenth of the response's, INVALID above half; never below 200 µs.
/// With fewer than 100 transactions it is at most SUSPECT.
pub fn lag(inputs: &QualityInputs<'_>) -> Judgement {
    let lag_us = inputs.measured.lag.percentile_ns(99.0) as f64 / 1e3;
    let response_us = inputs.measured.response.percentile_ns(99.0) as f64 / 1e3;
    let suspect_us = (response_us * 0.1).max(HARMLESS_US);
    let invalid_us = (response_us * 0.5).max(HARMLESS_US * 5.0);
    let mut level = level(lag_us, suspect_us, invalid_us)?;
    if inputs.measured.lag.count() < ENOUGH {
        level = Suspect;
    }
    let reason = format!(
        "the generator was late: lag p99 is {lag_us:.0} µs with a response p99 of {response_us:.0} µs; give it a CPU of \
         its own, more --threads, or --pacing spin"
    );
    Some((level, reason))
}

/// A worker had little CPU left, so the generator itself limited the throughput.
/// SUSPECT when a worker used more than 80 % of a CPU in some second, INVALID above 97 %.
pub fn cpu(inputs: &QualityInputs<'_>) -> Judgement {
    let busiest_pct = inputs.measured.busiest_worker_cpu_pct;
    let level = level(busiest_pct, 80.0, 97.0)?;
    let reason = format!(
        "the load generator was busy: a worker used {busiest_pct:.0} % of a CPU in one interval; use more --threads"
    );
    Some((level, reason))
}

/// Workers could run but had no CPU: latencies hold time that was spent waiting on this side.
/// SUSPECT in an open loop when workers waited more than a quarter of the time. Not in a closed loop: there a server on
/// the same CPUs does that to any client, throughput is what counts, and the table shows the share.
pub fn cpu_wait(inputs: &QualityInputs<'_>) -> Judgement {
    if !inputs.open_loop {
        return None;
    }
    let usage = inputs.measured.usage;
    let wait_pct = usage.cpu_wait_us as f64 / 1e4 / (inputs.duration_s * f64::from(inputs.threads));
    let level = level(wait_pct, 25.0, f64::INFINITY)?;
    let reason = format!(
        "the generator waited for a CPU {wait_pct:.0} % of the time, and the latencies hold that; keep the server and \
         other programs off its CPUs"
    );
    Some((level, reason))
}

/// Planned transactions were given up as late, so the load was lighter than the plan's.
/// SUSPECT above 0.1 % of the plan, INVALID above 5 %.
pub fn dropped(inputs: &QualityInputs<'_>) -> Judgement {
    let dropped = inputs.measured.counts.dropped_late;
    // A part of the load that failed without its account has a plan of at least what it dropped.
    let planned = inputs.end.planned.max(dropped);
    let share_pct = dropped as f64 / planned.max(1) as f64 * 100.0;
    let level = level(share_pct, 0.1, 5.0)?;
    let reason = format!(
        "{dropped} of {planned} planned transactions ({share_pct:.2} %) were dropped as late; the server does not keep up \
         with the rate"
    );
    Some((level, reason))
}

/// Planned transactions whose end was not seen: their latencies are what they had waited, at least.
/// SUSPECT above 0.01 % of the transactions, INVALID above 1 %.
pub fn unfinished(inputs: &QualityInputs<'_>) -> Judgement {
    let missing = inputs.end.unfinished + inputs.end.not_started;
    let all = inputs.end.planned.max(inputs.measured.counts.transactions + missing);
    let share_pct = missing as f64 / all.max(1) as f64 * 100.0;
    let level = level(share_pct, 0.01, 1.0)?;
    let reason = format!(
        "{} transactions had not ended and {} had not started by the hard stop ({share_pct:.2} %): the latencies \
         count the former with what they had waited, and lack the latter; lower --rate, or raise --grace",
        inputs.end.unfinished, inputs.end.not_started
    );
    Some((level, reason))
}

/// Errors that were ignored: a transaction that fails does other work than one that ends.
/// SUSPECT above 10 % of the transactions where they are restarted. Of captures, which count them, and of memcached SUSPECT
/// above 1 %, INVALID above 10 %. Not of scripts, which may have handled them.
pub fn ignored_errors(inputs: &QualityInputs<'_>) -> Judgement {
    let (own_sql, counts) = (inputs.own_sql.as_ref(), inputs.measured.counts);
    if own_sql.is_some_and(|own| own.handles_errors) {
        return None;
    }
    let are_restarted = inputs.kv.is_none() && !own_sql.is_some_and(|own| own.counts_failed);
    let (suspect, invalid) = if are_restarted {
        (10.0, f64::INFINITY)
    } else {
        (1.0, 10.0)
    };
    let (ignored, all) = (counts.ignored_errors, counts.transactions);
    let share_pct = ignored as f64 / all.max(1) as f64 * 100.0;
    let level = level(share_pct, suspect, invalid)?;
    let errors = inputs.measured.errors.by_code().values();
    let message = &errors.max_by_key(|error| error.count)?.message;
    let reason =
        format!("{ignored} errors were ignored with {all} transactions ({share_pct:.2} %), most of them: {message}");
    Some((level, reason))
}

/// A trace is not as long as the measurement.
/// SUSPECT when it ends before 95 % of the measurement. Of a longer one, how much was played is stated in a VALID run.
pub fn trace(inputs: &QualityInputs<'_>) -> Judgement {
    let (trace_s, duration_s) = (inputs.trace_s?, inputs.duration_s);
    if trace_s < 0.95 * duration_s {
        let reason = format!(
            "the trace lasts {trace_s:.1} s of the {duration_s:.1} s, and nothing follows it; set --duration to its length"
        );
        return Some((Suspect, reason));
    }
    let reason = || format!("the first {duration_s:.1} s of the trace's {trace_s:.1} s were played");
    (trace_s > duration_s).then(|| (Valid, reason()))
}

/// Terminals of TPC-C at fixed homes hardly touch the warehouses in which none of them is: the data in use are smaller.
/// SUSPECT with fewer terminals than warehouses.
pub fn warehouses(inputs: &QualityInputs<'_>) -> Judgement {
    let (used, all) = inputs.warehouses?;
    let reason = format!(
        "{used} terminals at fixed homes use {used} of {all} warehouses; set --home random, or --warehouses {used}"
    );
    (used < all).then_some((Suspect, reason))
}

/// Share of the measurement that one transaction may last.
const MOST_OF_THE_RUN: f64 = 0.5;
/// Time without any transaction that no server needs for short ones.
const SILENCE_S: f64 = 2.0;
/// So many times the median of the response times, a time is none of the load's own.
const TIMES_THE_MEDIAN: f64 = 20.0;

/// A connection waited for most of the run, or the server answered nobody for seconds.
/// SUSPECT when a transaction lasted more than half of the measurement, or none ended for at least 2 s and 20 times the
/// median while one waited.
pub fn stalled(inputs: &QualityInputs<'_>) -> Judgement {
    let measured = &inputs.measured;
    let longest_s = measured.response.max_ns() as f64 / 1e9;
    let median_s = measured.response.percentile_ns(50.0) as f64 / 1e9;
    let (silence_s, duration_s) = (measured.longest_silence_s, inputs.duration_s);
    let served_s = measured.service.max_ns() as f64 / 1e9;
    let (mut waited, mut cause) = (format!("waited {longest_s:.1} s"), "locks");
    // From the first byte sent on, the server is waited for; before it, a connection.
    if served_s < longest_s / 2.0 {
        waited += &format!(" for a connection, and none took more than {served_s:.1} s on one");
        cause = "lost connections, and for a --rate that is too high for this number of connections";
    }
    let reason = if silence_s >= SILENCE_S && longest_s >= silence_s && silence_s > TIMES_THE_MEDIAN * median_s {
        format!(
            "no transaction ended for {silence_s:.1} s, and one {waited}: look at the server's log, and for {cause}; the \
             other figures are of the rest of the {duration_s:.1} s"
        )
    } else if longest_s > MOST_OF_THE_RUN * duration_s && longest_s > TIMES_THE_MEDIAN * median_s {
        format!("in a measurement of {duration_s:.1} s a transaction {waited}: look for {cause}")
    } else {
        return None;
    };
    Some((Suspect, reason))
}

/// A pause that a busy host alone hardly makes.
const LEAST_S: f64 = 1.0;

/// This program did not run for a while, so the measurement is of less time than it states.
/// SUSPECT when a worker did not run for more than 1 s, INVALID when for more than 5 % of the measurement, too. A script
/// that holds its thread has a rule of its own.
pub fn paused(inputs: &QualityInputs<'_>) -> Judgement {
    let pause_s = inputs.end.longest_pause_ns as f64 / 1e9;
    let own = inputs.own_sql.as_ref();
    if own.is_some_and(|own| own.held_s >= pause_s && pause_s > 0.0) {
        return None;
    }
    let level = level(pause_s, LEAST_S, LEAST_S.max(inputs.duration_s * 0.05))?;
    let reason = format!(
        "this program did not run for {pause_s:.1} s: it was stopped, or its host was suspended or had no CPU for it; \
         the rates are too low by that"
    );
    Some((level, reason))
}

/// Share of the threads' time that a script may wait on them.
const MOST_WAITING: f64 = 0.05;
/// The same that it may compute.
const MOST_COMPUTING: f64 = 0.5;

/// A script slept, waited or computed on a thread that serves several connections.
/// SUSPECT when scripts waited for more than 5 % of the threads' time, or held them for more than half: meanwhile the other
/// connections of the thread did nothing, and their answers were not read.
pub fn script_held(inputs: &QualityInputs<'_>) -> Judgement {
    let own = inputs.own_sql.as_ref()?;
    let usage = inputs.measured.usage;
    let thread_s = inputs.duration_s * f64::from(inputs.threads);
    let without_cpu = own.held_s - usage.cpu_wait_us as f64 / 1e6;
    let held = without_cpu / thread_s;
    let waiting = held - usage.cpu_us() as f64 / 1e6 / thread_s;
    if !own.threads_are_shared || (waiting <= MOST_WAITING && held <= MOST_COMPUTING) {
        return None;
    }
    let how = if waiting > MOST_WAITING {
        "asleep or waiting (usleep, os.execute, a further connection)"
    } else {
        "computing"
    };
    let reason = format!(
        "the script held its thread for {:.0} % of the time, {how}: meanwhile the thread's other connections did \
         nothing, and latencies hold that; use --threads with one thread for each connection, or --think-time in place \
         of a sleep",
        own.held_s / thread_s * 100.0
    );
    Some((Suspect, reason))
}

/// TCP segments were lost and sent again, which costs 200 ms each at worst.
/// SUSPECT above 0.01 % of the segments, INVALID above 1 %. The kernel's count is of the whole namespace.
pub fn network(inputs: &QualityInputs<'_>) -> Judgement {
    let tcp = inputs.tcp?;
    let share_pct = tcp.retransmitted as f64 / tcp.sent.max(1) as f64 * 100.0;
    let level = level(share_pct, 0.01, 1.0)?;
    let reason = format!(
        "{} of {} TCP segments ({share_pct:.3} %) were retransmitted; check for a full link or drops (`ss -ti`, `ip -s link`)",
        tcp.retransmitted, tcp.sent
    );
    Some((level, reason))
}

/// The server counted other statements than we did, or could not be asked.
/// SUSPECT above 0.1 % of difference in any counter, INVALID above 10 %; SUSPECT without counters, unless the run has failed,
/// which another rule says.
pub fn reconciliation(inputs: &QualityInputs<'_>) -> Judgement {
    if !inputs.counters_read && inputs.failure.is_none() {
        let reason = "the server's counters could not be read, so its statements are not compared with this program's";
        return Some((Suspect, reason.into()));
    }
    let counters = inputs.counters.iter();
    let worst = counters.max_by(|a, b| a.difference_pct.abs().total_cmp(&b.difference_pct.abs()))?;
    let level = level(worst.difference_pct.abs(), 0.1, 10.0)?;
    let reason = format!(
        "the server's {} rose by {}, this program counted {} ({:+.2} %): somebody else uses the server, or statements \
         were lost",
        worst.counter, worst.server, worst.client, worst.difference_pct
    );
    Some((level, reason))
}

/// Latencies above the histogram's range of 2.4 hours.
/// SUSPECT with a single one.
pub fn clipped(inputs: &QualityInputs<'_>) -> Judgement {
    let measured = &inputs.measured;
    let clipped = measured.response.above_range() + measured.service.above_range() + measured.lag.above_range();
    let reason = format!("{clipped} latencies exceed the histogram's range and are counted at its end");
    (clipped > 0).then_some((Suspect, reason))
}

/// The server gave values that were never stored under their keys.
/// INVALID with a single one: what is fast and wrong is not fast.
pub fn wrong_values(inputs: &QualityInputs<'_>) -> Judgement {
    let counts = inputs.kv?.all;
    let reason = format!(
        "{} of {} values looked at were not what their keys and versions make; was the key space filled with other \
         sizes, or by another program?",
        counts.wrong_values, counts.verified
    );
    (counts.wrong_values > 0).then_some((Invalid, reason))
}

/// Sets that the server answered with NOT_STORED cost less than sets that store.
/// SUSPECT with a single one, INVALID above 1 % of the sets.
pub fn not_stored(inputs: &QualityInputs<'_>) -> Judgement {
    let counts = inputs.kv?.all;
    let share_pct = counts.not_stored as f64 / counts.cmd_set.max(1) as f64 * 100.0;
    let level = level(share_pct, 0.0, 1.0)?;
    let reason = format!(
        "{} of {} sets ({share_pct:.2} %) were not stored: no memory left, or the key or value does not fit the InnoDB \
         plugin's table",
        counts.not_stored, counts.cmd_set
    );
    Some((level, reason))
}

/// What chance may add to or take from the share: so many standard errors.
const CHANCE: f64 = 3.0;
/// Difference in percentage points above which a run is SUSPECT, and INVALID.
const LIMITS: (f64, f64) = (1.0, 10.0);

/// The share of keys found is not the expected one, so other work was done.
/// SUSPECT when the share of keys found (of gets, and of counters) is more than 1 point beyond chance from the expected
/// one, INVALID above 10 points. Where any share is allowed, it is stated in a VALID run.
pub fn hit_ratio(inputs: &QualityInputs<'_>) -> Judgement {
    let kv = inputs.kv?;
    let counts = kv.measured;
    let of_gets = (counts.cmd_get, counts.get_misses, kv.expected_hit_share);
    // The counters are stored with the keys, and none is deleted.
    let of_counters = (
        counts.incr_hits + counts.incr_misses,
        counts.incr_misses,
        kv.expected_hit_share.map(|_| 1.0),
    );
    let judged = [keys_found("keys read", of_gets), keys_found("counters", of_counters)];
    judged.into_iter().flatten().max_by_key(|(level, _)| *level)
}

fn keys_found(what: &str, (all, missed, expected): (u64, u64, Option<f64>)) -> Judgement {
    if all == 0 {
        return None;
    }
    let share = missed as f64 / all as f64;
    let found = format!("{missed} of {all} {what} ({:.1} %) were not found", share * 100.0);
    let (level, reason) = match expected {
        None if share * 100.0 > LIMITS.0 => (Valid, found),
        None => return None,
        Some(expected) => {
            let chance = CHANCE * (expected * (1.0 - expected) / all as f64).sqrt();
            let difference = (1.0 - share - expected).abs() - chance;
            let level = level(difference * 100.0, LIMITS.0, LIMITS.1)?;
            let reason = format!(
                "{found}, {:.1} % were expected: store them first (kv prepare, --fill 100%) with the same --keys, --key-size \
                 and --key-prefix, and look at --ttl, the server's memory limit and its evictions; --hit-ratio any allows \
                 every share",
                (1.0 - expected) * 100.0
            );
            (level, reason)
        }
    };
    Some((level, reason))
}

/// Statements for rows that the workload's own data have found none, which costs less than finding them.
/// SUSPECT above 0.01 % of the statements that read or change rows, INVALID above 1 %.
pub fn missing_rows(inputs: &QualityInputs<'_>) -> Judgement {
    let counts = inputs.measured.counts;
    let all = counts.reads + counts.writes + counts.unchanged;
    let share_pct = counts.missing_rows as f64 / all.max(1) as f64 * 100.0;
    let level = level(share_pct, 0.01, 1.0)?;
    let reason = format!(
        "{} of {all} statements ({share_pct:.2} %) found no row where `dynoload oltp prepare` stores one: the tables lack \
         rows; run `dynoload oltp cleanup` and `dynoload oltp prepare` with the same --tables and --table-size",
        counts.missing_rows
    );
    Some((level, reason))
}

/// Names in the sentence.
const MOST_NAMES: usize = 3;

/// Statements of the user's that read and found nothing; they cost less than those that find rows.
/// SUSPECT when a statement of a user's file never found a row, or no statement of a script or capture did; VALID with any
/// other number. The reads of OLTP and TPC-C, whose rows are known, have rules of their own.
pub fn empty_reads(inputs: &QualityInputs<'_>) -> Judgement {
    let counts = inputs.measured.counts;
    let own = inputs.own_sql.as_ref()?;
    if counts.empty_reads == 0 {
        return None;
    }
    let found_nothing = counts.empty_reads == counts.reads;
    let never: Vec<&str> = own.never_found.iter().map(String::as_str).collect();
    let (level, hint) = if found_nothing || (own.every_statement_counts && !never.is_empty()) {
        (Suspect, ": do the values match the data?")
    } else {
        (Valid, "")
    };
    let names = match never.len() {
        0 => String::new(),
        count if count > MOST_NAMES => format!(
            "; {count} statements never found a row, among them {}",
            never[..MOST_NAMES].join(", ")
        ),
        _ => format!("; never a row: {}", never.join(", ")),
    };
    let reason = format!(
        "{} of {} reads found no row{names}{hint}",
        counts.empty_reads, counts.reads
    );
    Some((level, reason))
}

/// What a bound may be in any run.
const ALWAYS_US: f64 = 1_000.0;
/// What it may be of the measurement: a start that is so much early or late changes no rate beyond the noise.
const SHARE: f64 = 1e-3;

/// An agent's clock is not known well enough, so its seconds may not be those of the others.
/// SUSPECT when the bound on the offset of an agent's clock is above 1 ms and above 0.1 % of the measurement.
pub fn clock(inputs: &QualityInputs<'_>) -> Judgement {
    let agents = inputs.agents.iter();
    let worst = agents.max_by(|a, b| a.clock_error_us.total_cmp(&b.clock_error_us))?;
    let bound_us = ALWAYS_US.max(SHARE * inputs.duration_s * 1e6);
    let level = level(worst.clock_error_us, bound_us, f64::INFINITY)?;
    let reason = format!(
        "the clock of agent '{}' is known only to {:.1} ms: it started that much before or after the others at most, and \
         the times of its slowest transactions are as uncertain; take a shorter or quieter way to it",
        worst.command,
        worst.clock_error_us / 1e3
    );
    Some((level, reason))
}

/// Writes changed no row, as deletes do when their rows are gone; they cost less than those that change one.
/// VALID with any number: it is the load that was requested, on the tables as they are.
pub fn absent_rows(inputs: &QualityInputs<'_>) -> Judgement {
    let counts = inputs.measured.counts;
    let reason = format!(
        "{} of {} writes changed no row: they met none, or the value was there already",
        counts.unchanged,
        counts.writes + counts.unchanged
    );
    (counts.unchanged > 0).then_some((Valid, reason))
}
