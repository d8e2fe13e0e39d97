"""Results of key-value studies: spread and distribution of latency, losses in a crash, memory per get.

Made from the steps' driver results and from the evidence that the memcached treatment leaves in every run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean, stdev
from typing import Literal

import scipy

from mydyno.model.stored.records import RunRecord, StepRecord

SPREAD = ("min_us", "max_us", "mean_us", "geometric_mean_us", "std_us")
GROWTH = "server_rss_growth_bytes_per_million_gets"


@dataclass(frozen=True)
class Spread:
    """Latency of all operations of an arm at a step: least and greatest of all runs, means of the runs' others."""

    ops_per_s: float
    hit_share: float | None
    """Share of the keys asked for that were found; None without gets."""
    min_us: float
    max_us: float
    mean_us: float
    geometric_mean_us: float | None
    std_us: float | None


@dataclass(frozen=True)
class Growth:
    """Resident memory per million gets: mean over runs, and its 95 % interval (Student's t) where there are two."""

    runs: int
    mean_bytes: float
    low_bytes: float | None
    high_bytes: float | None

    @property
    def verdict(self) -> Literal["grows", "shrinks", "no growth shown", "one run: no interval"]:
        """What the interval allows."""
        if self.low_bytes is None or self.high_bytes is None:
            return "one run: no interval"
        if self.low_bytes > 0:
            return "grows"
        return "shrinks" if self.high_bytes < 0 else "no growth shown"


@dataclass(frozen=True)
class CrashSurvival:
    """What the runs of an arm kept after kill -9."""

    acknowledged: int
    found: int
    keys_before: int
    keys_after: int


def spread_of(steps: Sequence[StepRecord]) -> Spread | None:
    """The latency of one arm over its valid steps; None if no driver reported it."""
    told = [step.driver for step in steps if {"min_us", "max_us", "mean_us"} <= step.driver.key_values.keys()]
    if not told:
        return None
    values = [driver.key_values for driver in told]
    gets = sum(one.get("cmd_get", 0.0) for one in values)
    found = {name: [one[name] for one in values if name in one] for name in SPREAD}
    return Spread(
        ops_per_s=fmean(driver.queries / driver.duration_s for driver in told),
        hit_share=sum(one.get("get_hits", 0.0) for one in values) / gets if gets else None,
        min_us=min(found["min_us"]),
        max_us=max(found["max_us"]),
        mean_us=fmean(found["mean_us"]),
        geometric_mean_us=fmean(found["geometric_mean_us"]) if found["geometric_mean_us"] else None,
        std_us=fmean(found["std_us"]) if found["std_us"] else None,
    )


def log2_of(steps: Iterable[StepRecord]) -> dict[float, int]:
    """{upper bound in µs: operations} of all these steps together, empty powers at both ends left out."""
    counts: Counter[float] = Counter()
    for step in steps:
        for bound_us, count in step.driver.latency_log2_us:
            counts[bound_us] += count
    used = [bound for bound, count in counts.items() if count]
    return {bound: counts[bound] for bound in sorted(counts) if used and min(used) <= bound <= max(used)}


def growth_of(runs: Iterable[RunRecord], steps: Sequence[str]) -> Growth | None:
    """Memory growth in the valid runs of one arm, one figure per run and step; None if none was reported."""
    values = [
        float(one.facts[GROWTH])
        for run in runs
        for one in run.evidence
        if GROWTH in one.facts and one.facts.get("step") in steps
    ]
    if not values:
        return None
    mean = fmean(values)
    if len(values) < 2:
        return Growth(len(values), mean, None, None)
    half = float(scipy.special.stdtrit(len(values) - 1, 0.975)) * stdev(values) / sqrt(len(values))
    return Growth(len(values), mean, mean - half, mean + half)


def crash_survival(runs: Iterable[RunRecord]) -> CrashSurvival | None:
    """What one arm kept in its runs that ended by kill -9; None if none did."""
    facts = [one.facts for run in runs for one in run.evidence if "acknowledged" in one.facts]
    if not facts:
        return None

    def total(name: str) -> int:
        return sum(int(one[name]) for one in facts)

    return CrashSurvival(total("acknowledged"), total("found"), total("keys_before"), total("keys_after"))
