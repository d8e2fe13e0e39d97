"""The words of the sentences: percentages, what a metric is called, and where they hold."""

from __future__ import annotations

import re
from dataclasses import dataclass

from mydyno.model.load_level import load_level
from mydyno.verdicts.case import Case
from mydyno.verdicts.effect import Metric, Scope


@dataclass(frozen=True, slots=True)
class Phrase:
    """How one metric is spoken of: `noun` alone, and the verb phrases of more and of less with {x} for the size."""

    noun: str
    more: str
    less: str


def _counted(verb: str, noun: str) -> Phrase:
    return Phrase(noun, f"{verb} {{x}} more {noun} than", f"{verb} {{x}} fewer {noun} than")


def _used(noun: str) -> Phrase:
    return Phrase(noun, f"used {{x}} more {noun} than", f"used {{x}} less {noun} than")


def _had(noun: str) -> Phrase:
    return Phrase(noun, f"had {{x}} higher {noun} than", f"had {{x}} lower {noun} than")


PHRASES = {
    "qps": _counted("served", "queries per second"),
    "tps": _counted("served", "transactions per second"),
    "ops": _counted("served", "operations per second"),
    "kv_hit_pct": _had("share of keys found"),
    "tpmc": _counted("completed", "New-Order transactions per minute"),
    "cpu_user_pct": _used("user CPU"),
    "cpu_system_pct": _used("system CPU"),
    "cpu_iowait_pct": _had("I/O wait"),
    "server_rss_bytes": _used("resident memory"),
    "server_vsize_bytes": _used("virtual memory"),
    "disk_read_bytes_per_s": _had("disk read throughput"),
    "disk_write_bytes_per_s": _had("disk write throughput"),
    "disk_util_pct": _had("disk utilisation"),
    "network_rx_bytes_per_s": _had("network receive throughput"),
    "network_tx_bytes_per_s": _had("network transmit throughput"),
    "innodb_checkpoint_age_bytes": _had("checkpoint age"),
    "innodb_dirty_pages_pct": _had("share of dirty pages"),
    "tpmc_spread_pct": _had("spread of TpmC between instances"),
    "tps_spread_pct": _had("spread of TPS between instances"),
    "qps_spread_pct": _had("spread of QPS between instances"),
    "server_cpu_us_per_query": _used("server CPU per query"),
    "server_cpu_ratio": _used("server CPU per query, relative to the load program's,"),
    "latency_mean_us": _had("mean latency"),
    "latency_max_us": _had("maximum latency"),
}
"""Metrics of summary.json with words of their own; any other is called by its name."""


def phrase(metric: Metric) -> Phrase:
    """How to speak of a metric; a latency percentile (latency_p99_us, latency_p999_us) is recognised by its name."""
    instance = re.fullmatch(r"(.+)_instance_(\d+)", metric.name)
    if instance:
        of = phrase(Metric(instance[1], metric.unit, metric.better))
        behind = f" on instance {instance[2]}"
        return Phrase(of.noun + behind, of.more.removesuffix(" than") + behind + " than",
                      of.less.removesuffix(" than") + behind + " than")  # fmt: skip
    if metric.name in PHRASES:
        return PHRASES[metric.name]
    percentile = re.fullmatch(r"latency_p(\d\d)(\d*)_us", metric.name)
    if percentile:
        whole, fraction = percentile.groups()
        return _had(f"{whole}{'.' + fraction if fraction else ''}th-percentile latency")
    return _had(metric.name)


TENFOLD = 10.0


def percent(fraction: float) -> str:
    """The size of a fraction as a percentage: one decimal, none from 100 % on, two below 0.1 %."""
    size = abs(fraction) * 100.0
    return f"{size:.{0 if size >= 100.0 else 1 if size >= 0.095 or size < 0.005 else 2}f} %"


def signed(ratio: float) -> str:
    """A ratio as a signed difference: +4.2 % or −4.2 %; beyond a tenfold its digits mean nothing and are left out."""
    if ratio > TENFOLD:
        return "more than +900 %"
    return ("+" if ratio >= 1.0 else "\N{MINUS SIGN}") + percent(ratio - 1.0)


def margin(fraction: float) -> str:
    """A margin as the plan states it: 2 %, 0.5 %."""
    return f"{fraction * 100.0:g} %"


def blocks(count: int) -> str:
    """1 block, 2 blocks."""
    return f"{count} block" if count == 1 else f"{count} blocks"


def p_value(p: float) -> str:
    """A p value of two significant digits, never 0."""
    return f"{p:.2g}" if p >= 0.0001 else "below 0.0001"


def listing(names: tuple[str, ...]) -> str:
    """The names as English lists them: a; a and b; a, b and c."""
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1]


def at_load(scope: Scope) -> str:
    """The level of load with its preposition and a space before it, or nothing."""
    return "" if scope.connections is None else f" at {load_level(scope.connections, scope.rate)}"


def where(scope: Scope, n: int, metric: Metric | None = None) -> str:
    """The workload and the blocks that count, in parentheses; the rest of the scope is stated once, by `scope_words`.

    With a metric of which less is better, it begins with that.
    """
    lower = "lower is better" if metric is not None and metric.better == "lower" else ""
    return f" ({', '.join(part for part in (lower, scope.workload, blocks(n)) if part)})"


def scope_words(scope: Scope) -> str:
    """Where and when a study's sentences hold: server, hosts, data, durability, dates."""
    hosts = f"host{'' if len(scope.hosts) == 1 else 's'} {listing(scope.hosts)}" if scope.hosts else "this host"
    parts = [scope.server, hosts]
    if scope.data_to_buffer_pool is not None:
        parts.append(f"data {scope.data_to_buffer_pool:.2g} × the buffer pool")
    parts.append(scope.durability)
    dates = [date for date in dict.fromkeys((scope.first_date, scope.last_date)) if date]
    parts.append(" to ".join(dates))
    return ", ".join(part for part in parts if part)


def lost_blocks(case: Case) -> str:
    """How many blocks do not count and why, as a sentence with a space before it; empty if all count."""
    lost = sum(case.lost.values())
    if not lost:
        return ""
    why = ", ".join(f"{reason} ({count})" if lost > 1 else reason for reason, count in sorted(case.lost.items()))
    verb = "does" if lost == 1 else "do"
    return f" {blocks(lost).capitalize()} of {lost + case.n} {verb} not count: {why}."


def caveats(case: Case) -> str:
    """What weakens the answer, as sentences with a space before each."""
    notes = lost_blocks(case)
    if case.paired.skewed:
        notes += " The block differences are skewed, so the interval may be too narrow."
    if case.estimate.error == 0.0:
        notes += " Every block gave exactly the same ratio, so the interval has no width."
    if case.noise_of != case.control:
        notes += f" The A/A comparison is that of {case.noise_of}, the arm that every block runs twice."
    return notes
