"""The words of the sentences: percentages, names of metrics, and scope."""

from __future__ import annotations

from mydyno.model.definition.load_level import load_level
from mydyno.verdicts.case import Case
from mydyno.verdicts.effect import Metric, Scope

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


def at_load(scope: Scope) -> str:
    """The level of load with its preposition and a space before it, or nothing."""
    return "" if scope.connections is None else f" at {load_level(scope.connections, scope.rate)}"


def where(scope: Scope, n: int, metric: Metric | None = None) -> str:
    """The workload and the blocks that count, in parentheses.

    With a metric of which less is better, it begins with that. With several host groups it ends with their number.
    """
    hosts = f" on {scope.hosts} hosts" if scope.hosts > 1 else ""
    lower = "lower is better" if metric is not None and metric.better == "lower" else ""
    return f" ({', '.join(part for part in (lower, scope.workload, blocks(n) + hosts) if part)})"


def lost_blocks(case: Case) -> str:
    """How many blocks are not used and why, as a sentence with a space before it; empty if all are."""
    lost = sum(case.lost.values())
    if not lost:
        return ""
    why = ", ".join(f"{reason} ({count})" if lost > 1 else reason for reason, count in sorted(case.lost.items()))
    verb = "is" if lost == 1 else "are"
    return f" {blocks(lost).capitalize()} of {lost + case.n} {verb} not used: {why}."


def caveats(case: Case) -> str:
    """What weakens the answer, as sentences with a space before each."""
    notes = lost_blocks(case)
    if case.paired.skewed:
        notes += " The block differences are skewed, so the interval may be too narrow."
    if case.estimate.error == 0.0:
        notes += " Every block has exactly the same ratio, so the interval has no width."
    if case.noise_of != case.control:
        notes += f" The A/A comparison is that of {case.noise_of}, the arm that every block runs twice."
    return notes
