"""How sentences speak of a metric: the noun, and verb phrases for more and for less of it ("serves more queries")."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

_PERCENTILE = re.compile(r"latency_p(\d\d)(\d*)_us")

COMMON_NAMES = {
    "throughput": "qps",
    "queries": "qps",
    "transactions": "tps",
    "cpu": "server_cpu_us_per_query",
    "cpu_per_query": "server_cpu_us_per_query",
    "instructions": "server_instructions_per_query",
    "latency": "latency_p99_us",
    "p50": "latency_p50_us",
    "p95": "latency_p95_us",
    "p99": "latency_p99_us",
    "p999": "latency_p999_us",
    "memory": "server_rss_bytes",
    "rss": "server_rss_bytes",
    "leak": "server_rss_growth_per_million_queries",
    "rss_growth": "server_rss_growth_per_million_queries",
    "vsz": "server_vsize_bytes",
    "vsize": "server_vsize_bytes",
}
"""What people call a metric → its name."""


@dataclass(frozen=True, slots=True)
class Phrase:
    """The words for one metric."""

    noun: str
    one: str
    """Verb for one arm, present tense."""
    several: str
    """The same for several arms."""
    more: str
    less: str
    short_noun: str
    """The noun in answers, where the context is known."""
    cost: bool = False
    """Whether less of it may follow a gain: "at 5 % less CPU per query"."""

    def on_instance(self, instance: int) -> Phrase:
        """The same of one instance of a run."""
        names = ("noun", "more", "less", "short_noun")
        return replace(self, cost=False, **{name: f"{getattr(self, name)} on instance {instance}" for name in names})


def rate(verb: str, noun: str, counted: str) -> Phrase:
    """A rate of what is counted, e.g. serve, "queries per second", "queries"."""
    return Phrase(noun, f"{verb}s", verb, f"more {counted}", f"fewer {counted}", noun)


def use(noun: str, short_noun: str = "", cost: bool = False) -> Phrase:
    """A resource that an arm uses."""
    short = short_noun or noun
    return Phrase(noun, "uses", "use", f"more {short}", f"less {short}", short, cost)


def have(noun: str) -> Phrase:
    """A property that an arm has more or less of."""
    return Phrase(noun, "has", "have", f"a higher {noun}", f"a lower {noun}", noun)


def default_phrase(metric: str) -> Phrase:
    """Words for a metric without words of its own: a latency percentile is recognised, others go by their name."""
    percentile = _PERCENTILE.fullmatch(metric)
    if percentile is None:
        return have(metric)
    whole, fraction = percentile.groups()
    return have(f"{whole}{'.' + fraction if fraction else ''}th-percentile latency")


def common_name(metric: str) -> str:
    """The metric that people call by this name; unchanged if there is none."""
    return COMMON_NAMES.get(metric.lower().replace("-", "_"), metric)


def lane_name(arm: str, copy: int) -> str:
    """An arm, or its second copy."""
    return arm if copy == 1 else f"{arm} again"
