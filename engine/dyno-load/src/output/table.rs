//! The result for a person: service and response side by side, and the verdict in words.

use std::fmt::Write as _;

use dyno_core::histogram::Histogram;
use dyno_loop::recorder::{ConnectingTimes, Part};
use dyno_loop::Totals;

use super::json::availability_pct;
use super::{Final, Shown};

/// Width of a name before its latencies; a longer one has a line of its own.
const NAME_WIDTH: usize = 18;

/// The whole text.
pub fn render<E: Shown>(result: &Final<'_, E>) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = write_all(&mut text, result);
    text
}

/// The mode of the load (`mode` of the settings) for a person.
fn mode_text(mode: Option<&str>) -> &'static str {
    match mode {
        Some("open_loop") => "open loop",
        Some("terminals") => "terminals with key and think times",
        Some("captured_times") => "captured times",
        _ => "closed loop (service time; not comparable with an open loop)",
    }
}

fn write_all<E: Shown>(text: &mut String, result: &Final<'_, E>) -> std::fmt::Result {
    let settings = result.settings;
    writeln!(
        text,
        "{} on {} {}: {} connections, {:.1} s, {}",
        settings["workload"].as_str().unwrap_or(""),
        result.server.kind,
        result.server.version,
        settings["connections"],
        result.duration_s,
        mode_text(settings["mode"].as_str()),
    )?;
    for agent in result.agents {
        writeln!(
            text,
            "  agent {}: {} threads, clock error at most {:.0} µs  ({})",
            agent.host, agent.threads, agent.clock_error_us, agent.command
        )?;
    }
    if let Some(totals) = &result.outcome.totals {
        write_totals(text, result, totals)?;
    }
    for check in result.counters.iter().filter(|check| check.difference_pct.abs() > 0.1) {
        writeln!(
            text,
            "  the server's {} is {}, dynoload counted {} ({:+.2} %)",
            check.counter, check.server, check.client, check.difference_pct
        )?;
    }
    if let Some(failure) = &result.outcome.failure {
        writeln!(text, "\nFAILED: {failure}")?;
    }
    writeln!(text, "\n{}", result.quality.word())?;
    for finding in result.findings {
        writeln!(text, "  {}: {}", finding.level.word(), finding.reason)?;
    }
    Ok(())
}

fn write_totals<E: Shown>(text: &mut String, result: &Final<'_, E>, totals: &Totals<E>) -> std::fmt::Result {
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
        "  errors        {:>12}  errors ignored: {}, reconnects: {}",
        counts.errors, counts.ignored_errors, counts.reconnects
    )?;
    if measured.errors.has_losses() {
        writeln!(
            text,
            "  available     {:>12.1}  % of the time: no transaction ended in {:.1} of {seconds:.1} s",
            availability_pct(totals.unavailable_s, seconds),
            totals.unavailable_s
        )?;
    }
    for (code, error) in measured.errors.by_code() {
        writeln!(text, "    {code}: {} × {}", error.count, error.message)?;
    }
    if result.is_planned() {
        let end = result.outcome.end;
        writeln!(
            text,
            "  plan          {:>12}  dropped late {}, not started {}, unfinished {}",
            end.planned, counts.dropped_late, end.not_started, end.unfinished
        )?;
    }
    if totals.counted_at_the_end > 0 {
        writeln!(
            text,
            "  at the end    {:>12}  transactions were under way; the latencies count them with what they had waited",
            totals.counted_at_the_end
        )?;
    }
    E::write_counts(text, result, totals)?;
    if counts.queries() > 0 {
        writeln!(
            text,
            "  own CPU       {:>12.2} µs per query, {:.0} % of a CPU, {:.0} % waiting for one",
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
    if result.is_planned() {
        row(text, "response", &measured.response)?;
    }
    row(text, "service", &measured.service)?;
    row(text, "lag", &measured.lag)?;
    measured.extra.write_latencies(text)?;
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

/// Writes one row of latencies; nothing where there are none.
///
/// # Errors
/// When the text cannot be written.
pub fn row(text: &mut String, name: &str, histogram: &Histogram) -> std::fmt::Result {
    let Some(summary) = histogram.summary() else {
        return Ok(());
    };
    let is_long = name.chars().count() >= NAME_WIDTH;
    if is_long {
        writeln!(text, "  {name}")?;
    }
    let name = if is_long { "" } else { name };
    writeln!(
        text,
        "  {name:<NAME_WIDTH$}{:>6.0} {:>10.0} {:>10.0} {:>10.0} {:>10.0} {:>10.0}",
        summary.mean_us, summary.p50_us, summary.p95_us, summary.p99_us, summary.p999_us, summary.max_us
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_mode_has_words_of_its_own() {
        let modes = ["open_loop", "terminals", "captured_times", "closed_loop"];
        let words = modes.map(|mode| mode_text(Some(mode)).split(' ').next().unwrap_or_default());
        assert_eq!(words, ["open", "terminals", "captured", "closed"]);
    }
}
