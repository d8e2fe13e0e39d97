"""How sentences speak of a metric: the noun, and verb phrases for more and for less of it.

Verdicts are in the past tense with the size ("served 4.2 % more queries per second than"), answers in the present
tense without it ("serves more queries").
"""

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
    "leak": "server_rss_growth_per_min",
    "rss_growth": "server_rss_growth_per_min",
    "vsz": "server_vsize_bytes",
    "vsize": "server_vsize_bytes",
}
"""What people call a metric → its name."""


@dataclass(frozen=True, slots=True)
class Phrase:
    """The words for one metric. In `past_more` and `past_less` {x} stands for the size."""

    noun: str
    past_more: str
    past_less: str
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
    percentile: str = ""
    """The percentile of a latency metric, e.g. "99" or "99.9"; empty for other metrics."""
    whole: Phrase | None = None
    """For a value of one instance, the words for the value of the whole run; None for all others."""
    instance: int = 0

    @property
    def subject(self) -> str:
        """The noun in the present language."""
        return self._said(self.noun)

    @property
    def short_subject(self) -> str:
        """The noun in answers in the present language."""
        return self._said(self.short_noun)

    def _said(self, noun: str) -> str:
        if self.whole is not None:
            short = noun == self.short_noun
            whole = self.whole.short_subject if short else self.whole.subject
            return f"{whole} on instance {self.instance}"
        if self.percentile:
            return f"{self.percentile}th-percentile latency"
        return noun

    def on_instance(self, instance: int) -> Phrase:
        """The same of one instance of a run."""
        tail = f" on instance {instance}"
        return replace(
            self,
            noun=self.noun + tail,
            past_more=self.past_more.removesuffix(" than") + tail + " than",
            past_less=self.past_less.removesuffix(" than") + tail + " than",
            more=self.more + tail,
            less=self.less + tail,
            short_noun=self.short_noun + tail,
            cost=False,
            whole=self,
            instance=instance,
        )


def rate(verb: str, noun: str, counted: str) -> Phrase:
    """A rate of what is counted, e.g. serve, "queries per second", "queries"."""
    past = f"{verb}d"
    return Phrase(
        noun,
        f"{past} {{x}} more {noun} than",
        f"{past} {{x}} fewer {noun} than",
        f"{verb}s",
        verb,
        f"more {counted}",
        f"fewer {counted}",
        noun,
    )


def use(noun: str, short_noun: str = "", cost: bool = False) -> Phrase:
    """A resource that an arm uses."""
    short = short_noun or noun
    return Phrase(
        noun,
        f"used {{x}} more {noun} than",
        f"used {{x}} less {noun} than",
        "uses",
        "use",
        f"more {short}",
        f"less {short}",
        short,
        cost,
    )


def have(noun: str) -> Phrase:
    """A property that an arm has more or less of."""
    return Phrase(
        noun,
        f"had {{x}} higher {noun} than",
        f"had {{x}} lower {noun} than",
        "has",
        "have",
        f"a higher {noun}",
        f"a lower {noun}",
        noun,
    )


def default_phrase(metric: str) -> Phrase:
    """Words for a metric without words of its own: a latency percentile is recognised, others go by their name."""
    percentile = _PERCENTILE.fullmatch(metric)
    if percentile is None:
        return have(metric)
    whole, fraction = percentile.groups()
    number = f"{whole}{'.' + fraction if fraction else ''}"
    return replace(have(f"{number}th-percentile latency"), percentile=number)


def common_name(metric: str) -> str:
    """The metric that people call by this name; unchanged if there is none."""
    return COMMON_NAMES.get(metric.lower().replace("-", "_"), metric)


def lane_name(arm: str, copy: int) -> str:
    """An arm, or its second copy."""
    return arm if copy == 1 else f"{arm} again"
