"""The words of the short answer: what a metric is called with its verb, sizes with their sign, lists.

Without verdicts/words.py, which loads the statistics: reports are made without them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from mydyno.model.metrics import split_instance

MINUS = "\N{MINUS SIGN}"
MOST_NAMES = 4
"""Arms that a sentence names; of more it gives the number."""

REASON_CHARACTERS = 90
LOG_HEAD = re.compile(
    r"\s*error log: (?:(?:\d{4}-\d\d-\d\d|\d{6}) +[\d:]+ (?:\d+ )?)?(?:\[\w+\] )?(?:\S*/(?:mysqld|mariadbd): )?"
)
"""What a quoted line of the server's error log begins with: time, thread, level, program."""


@dataclass(frozen=True, slots=True)
class MetricWords:
    """How one metric is spoken of in the present tense: noun alone, verb for one arm and for several, more and less."""

    noun: str
    one: str
    several: str
    more: str
    less: str
    unit_of_cost: str = ""
    """Of a cost: what may follow "at 5 % less", e.g. "CPU per query"."""


def _rate(one: str, several: str, noun: str, short: str) -> MetricWords:
    return MetricWords(noun, one, several, f"more {short}", f"fewer {short}")


def _use(noun: str, cost: bool = False) -> MetricWords:
    return MetricWords(noun, "uses", "use", f"more {noun}", f"less {noun}", noun if cost else "")


def _have(noun: str) -> MetricWords:
    return MetricWords(noun, "has", "have", f"a higher {noun}", f"a lower {noun}")


WORDS = {
    "qps": _rate("serves", "serve", "queries per second", "queries"),
    "tps": _rate("serves", "serve", "transactions per second", "transactions"),
    "ops": _rate("serves", "serve", "operations per second", "operations"),
    "tpmc": _rate("completes", "complete", "New-Order transactions per minute", "New-Order transactions"),
    "kv_hit_pct": _have("share of keys found"),
    "server_cpu_us_per_query": _use("CPU per query", cost=True),
    "server_cpu_ratio": _use("CPU per query", cost=True),
    "server_cpu_us_per_transaction": _use("CPU per transaction", cost=True),
    "driver_cpu_us_per_transaction": _use("CPU per transaction in the load program"),
    "server_rss_bytes": _use("resident memory"),
    "server_pss_bytes": _use("proportional memory"),
    "server_vsize_bytes": _use("virtual memory"),
    "latency_mean_us": _have("mean latency"),
    "latency_p50_us": _have("median latency"),
    "latency_max_us": _have("maximum latency"),
}


def metric_words(metric: str) -> MetricWords:
    """How to speak of a metric; one without words of its own is called by its name."""
    base, instance = split_instance(metric)
    if instance is not None:
        of = metric_words(base)
        tail = f" on instance {instance}"
        return MetricWords(of.noun + tail, of.one, of.several, of.more + tail, of.less + tail)
    if metric in WORDS:
        return WORDS[metric]
    percentile = re.fullmatch(r"latency_p(\d\d)(\d*)_us", metric)
    if percentile:
        whole, fraction = percentile.groups()
        return _have(f"{whole}{'.' + fraction if fraction else ''}th-percentile latency")
    return _have(metric)


def size(share: float) -> str:
    """A share of 1 as a percentage without sign: two digits below 10 %, whole numbers above."""
    percent = abs(share) * 100
    if percent >= 9.95:
        return f"{percent:.0f} %"
    return (
        f"{percent:.1f} %".replace(".0 ", " ")
        if percent >= 0.095
        else f"{percent:.2f} %"
        if percent >= 0.005
        else "0 %"
    )


def signed(share: float) -> str:
    """A share of 1 as a signed percentage, e.g. "+4.2 %"; a factor from ten times as much on."""
    if share > 9:
        return f"×{1 + share:.0f}"
    sign = "" if size(share) == "0 %" else "+" if share > 0 else MINUS
    return sign + size(share)


def plus_minus(share: float) -> str:
    """A half-width or margin: "±2 %", "±0.5 %", "±14 %"."""
    percent = share * 100
    if percent > 100 or not math.isfinite(percent):
        return "more than ±100 %"
    text = f"{percent:.0f}" if percent >= 9.95 else f"{percent:.2g}"
    return f"±{text.removesuffix('.0')} %"


def listing(names: Sequence[str]) -> str:
    """The names as English lists them: a; a and b; a, b and c."""
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1]


def blocks(count: int) -> str:
    """1 block, 2 blocks."""
    return f"{count} block" if count == 1 else f"{count} blocks"


def cut(reason: str) -> str:
    """A reason on one line, without its full stop and the heads of log lines, at most REASON_CHARACTERS long."""
    text = " ".join(LOG_HEAD.sub("; ", LOG_HEAD.sub(": ", reason, count=1)).split()).rstrip(".")
    return text if len(text) <= REASON_CHARACTERS else text[: REASON_CHARACTERS - 1].rstrip() + "…"
