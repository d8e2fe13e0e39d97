//! The result for a person: service and response side by side, and the verdict in words.

use std::fmt::Write as _;

use dyno_core::histogram::Histogram;

use super::json::Final;
use crate::recorder::{ConnectingTimes, Part};
use crate::workload::StatementKind;

/// The whole text.
pub fn render(result: &Final<'_>) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = write_all(&mut text, result);
    text
}

fn write_all(text: &mut String, result: &Final<'_>) -> std::fmt::Result {
    let settings = result.settings;
    let open_loop = settings["mode"] != "closed_loop";
    writeln!(
        text,
        "{} on {} {}: {} connections, {:.1} s, {}",
        settings["workload"].as_str().unwrap_or(""),
        result.server.kind,
        result.server.version,
        settings["connections"],
        result.duration_s,
        if settings["mode"] == "open_loop" {
            "open loop"
        } else if open_loop {
            "terminals with key and think times"
        } else {
            "closed loop (service time; not comparable with an open loop)"
        },
    )?;
    for agent in result.agents {
        writeln!(
            text,
            "  agent {}: {} threads, its clock is known to {:.0} µs  ({})",
            agent.host, agent.threads, agent.clock_error_us, agent.command
        )?;
    }
    if let Some(totals) = &result.outcome.totals {
        write_totals(text, result, totals, open_loop)?;
    }
    for check in result.counters.iter().filter(|check| check.difference_pct.abs() > 0.1) {
        writeln!(
            text,
            "  the server's {} says {}, we counted {} ({:+.2} %)",
            check.counter, check.server, check.client, check.difference_pct
        )?;
    }
    if let Some(failure) = &result.outcome.failure {
        writeln!(text, "\nFAILED: {failure}")?;
    }
    writeln!(text, "\n{}", result.verdict.word())?;
    for finding in result.findings {
        writeln!(text, "  {}: {}", finding.level.word(), finding.reason)?;
    }
    Ok(())
}

fn write_totals(
    text: &mut String,
    result: &Final<'_>,
    totals: &crate::run::Totals,
    open_loop: bool,
) -> std::fmt::Result {
    let measured = &totals.measured;
    let counts = measured.counts;
    let seconds = result.duration_s;
    writeln!(
        text,
        "\n  queries       {:>12}  {:>11.1} /s   (read {}, write {}, other {})",
        counts.queries(),
        counts.queries() as f64 / seconds,
        counts.reads,
        counts.writes,
        counts.other
    )?;
    writeln!(
        text,
        "  transactions  {:>12}  {:>11.1} /s",
        counts.transactions,
        counts.transactions as f64 / seconds
    )?;
    writeln!(
        text,
        "  errors        {:>12}  ignored {}, reconnects {}",
        counts.errors, counts.ignored_errors, counts.reconnects
    )?;
    for (code, error) in measured.errors.by_code() {
        writeln!(text, "    {code}: {} × {}", error.count, error.message)?;
    }
    if open_loop {
        let end = result.outcome.end;
        writeln!(
            text,
            "  plan          {:>12}  dropped late {}, not started {}, unfinished {}",
            end.planned, counts.dropped_late, end.not_started, end.unfinished
        )?;
    }
    for agreed in &totals.all_handshakes.negotiated {
        writeln!(
            text,
            "  {:<14}{:>12}  connections with {}",
            agreed.version, agreed.connections, agreed.cipher_suite
        )?;
    }
    if totals.all_handshakes.count() > 0 {
        let all = &totals.all_handshakes;
        writeln!(text, "  handshakes    {:>12}  full, {} resumed", all.full, all.resumed)?;
    }
    super::tpcc::write(text, result, measured)?;
    if counts.queries() > 0 {
        writeln!(
            text,
            "  own CPU       {:>12.2} µs a query, {:.0} % of a CPU, {:.0} % waiting for one",
            measured.usage.cpu_us() as f64 / counts.queries() as f64,
            measured.usage.cpu_us() as f64 / seconds / 1e4,
            measured.usage.cpu_wait_us as f64 / seconds / 1e4
        )?;
    }
    write!(
        text,
        "\n  latency, µs   {:>10} {:>10} {:>10} {:>10} {:>10} {:>10}",
        "mean", "p50", "p95", "p99", "p99.9", "max"
    )?;
    writeln!(text)?;
    if open_loop {
        row(text, "response", &measured.response)?;
    }
    row(text, "service", &measured.service)?;
    row(text, "lag", &measured.lag)?;
    if measured
        .statements
        .iter()
        .filter(|histogram| histogram.count() > 0)
        .count()
        > 1
    {
        for kind in StatementKind::ALL {
            row(text, &format!("  {}", kind.name()), &measured.statements[kind as usize])?;
        }
    }
    write_connecting(text, "connecting", &measured.connecting)?;
    write_connecting(text, "connecting, at the start", &result.outcome.connecting)
}

fn write_connecting(text: &mut String, title: &str, times: &ConnectingTimes) -> std::fmt::Result {
    if times.is_empty() {
        return Ok(());
    }
    writeln!(text, "  {title}")?;
    for part in Part::ALL {
        row(text, &format!("  {}", part.name()), times.of(part))?;
    }
    Ok(())
}

fn row(text: &mut String, name: &str, histogram: &Histogram) -> std::fmt::Result {
    let Some(summary) = histogram.summary() else {
        return Ok(());
    };
    writeln!(
        text,
        "  {name:<18}{:>6.0} {:>10.0} {:>10.0} {:>10.0} {:>10.0} {:>10.0}",
        summary.mean_us, summary.p50_us, summary.p95_us, summary.p99_us, summary.p999_us, summary.max_us
    )
}
