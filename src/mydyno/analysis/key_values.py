"""Studies of keys and values: latency as memaslap tabulates it, its distribution, losses in a crash, memory per get.

Made from the steps' driver results and from the evidence that the memcached treatment leaves in every run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from statistics import fmean, stdev
from typing import Literal

import scipy

from mydyno.analysis.base import Analysis
from mydyno.document.parts import Cell, Note, Part, Table, glyph
from mydyno.document.result import StudyResult
from mydyno.model.stored.records import RunRecord, StepRecord
from mydyno.model.stored.summary import StepLevel
from mydyno.wording.numbers import MINUS, NONE

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


def part(result: StudyResult) -> Part | None:
    """The section, or None if the study has no keys and values."""
    if result.study.experiment.data.workload != "kv":
        return None
    tables = [made(result, step) for step in result.steps for made in (_latency, _distribution)]
    intro = (
        "Means over the valid runs. Every arm received the same load except for the port: the same keys, sizes, order "
        "and connections. A get that misses returns no value and costs less: compare rates only together with the "
        "share of keys found."
    )
    lost = [
        f"{arm} {_crash_cells(kept)[0]}" for arm in result.styles if (kept := crash_survival(_records(result, arm)))
    ]
    return Part(
        id="key-values", heading="Keys and values: losses in a crash, and latency",
        says=f"Acknowledged sets lost: {', '.join(lost)}" if lost else "",
        body=[Note(intro, "intro"), _kept(result), *tables],
    )  # fmt: skip


def _records(result: StudyResult, arm: str) -> list[RunRecord]:
    """The arm's valid runs."""
    return [result.records[run.folder] for run in result.runs if run.arm == arm and run.valid]


def _steps(result: StudyResult, arm: str, step: StepLevel) -> list[StepRecord]:
    """The arm's usable records of one step."""
    found = []
    for run in result.runs:
        if run.arm == arm and run.usable(step.id):
            found += [record for record in result.records[run.folder].steps if record.id == step.id]
    return found


def _spread(result: StudyResult, arm: str, step: StepLevel) -> Spread | None:
    """The latency with the throughput that the effects are ratios of, where there is one."""
    found, level = spread_of(_steps(result, arm, step)), result.level_of("ops", step.id, arm)
    return found if found is None or level is None else replace(found, ops_per_s=level)


def _named(result: StudyResult, arm: str) -> Cell:
    return Cell(result.styles[arm].label, mark=glyph(result.styles[arm]))


def _numbers(cells: Sequence[str]) -> list[Cell]:
    return [Cell(text, "num") for text in cells]


def _kept(result: StudyResult) -> Table:
    """What each arm keeps over a crash, beside its speed; and what its memory does."""
    rows: list[list[str | Cell]] = []
    for arm in result.styles:
        runs = _records(result, arm)
        rates = [_spread(result, arm, step) for step in result.steps]
        gets = [step.id for step in result.steps if step.workload == "kv_get"]
        rows.append([
            _named(result, arm),
            *_numbers([NONE if one is None else f"{one.ops_per_s:,.0f}" for one in rates]),
            *_numbers(_crash_cells(crash_survival(runs))),
            Cell(_growth_words(growth_of(runs, gets)), "word"),
        ])  # fmt: skip
    head = (
        "arm",
        *(f"{step.id}, operations/s" for step in result.steps),
        "acknowledged sets lost",
        "keys lost",
        "resident memory per million gets",
    )
    note = (
        "Lost: by kill -9 right after the last reply, then a new start. It ends the process, not the kernel, and shows "
        "nothing about a power failure. Memory: its growth within kv_get, with a 95 % interval over the runs."
    )
    return Table("Speed and durability", head, rows, note)


def _crash_cells(kept: CrashSurvival | None) -> tuple[str, str]:
    if kept is None:
        return NONE, NONE
    lost, gone = kept.acknowledged - kept.found, kept.keys_before - kept.keys_after
    return f"{lost:,} of {kept.acknowledged:,}", f"{gone / kept.keys_before:.0%}" if kept.keys_before else NONE


def _growth_words(growth: Growth | None) -> str:
    if growth is None:
        return NONE
    mean = f"{_signed_mb(growth.mean_bytes)} MB"
    if growth.low_bytes is None or growth.high_bytes is None:
        return f"{mean} ({growth.verdict})"
    return f"{mean} ({_signed_mb(growth.low_bytes)} … {_signed_mb(growth.high_bytes)}): {growth.verdict}"


def _signed_mb(size_bytes: float) -> str:
    return f"{size_bytes / 1e6:+.2f}".replace("-", MINUS)


def _latency(result: StudyResult, step: StepLevel) -> Table | None:
    """memaslap's figures for every arm."""
    found = {arm: _spread(result, arm, step) for arm in result.styles}
    rows: list[list[str | Cell]] = [
        [_named(result, arm), *_numbers(_spread_cells(spread))] for arm, spread in found.items() if spread is not None
    ]
    if not rows:
        return None
    head = ("arm", "operations/s", "keys found", "min µs", "max µs", "mean µs", "geometric mean µs", "std µs")
    return Table(f"{step.id}: latency of all operations", head, rows)


def _spread_cells(spread: Spread) -> list[str]:
    return [
        f"{spread.ops_per_s:,.0f}",
        NONE if spread.hit_share is None else f"{spread.hit_share:.1%}",
        f"{spread.min_us:,.0f}",
        f"{spread.max_us:,.0f}",
        f"{spread.mean_us:,.0f}",
        NONE if spread.geometric_mean_us is None else f"{spread.geometric_mean_us:,.1f}",
        NONE if spread.std_us is None else f"{spread.std_us:,.1f}",
    ]


def _distribution(result: StudyResult, step: StepLevel) -> Table | None:
    """Shares of the operations by powers of two of µs, one column an arm."""
    found = {arm: log2_of(_steps(result, arm, step)) for arm in result.styles}
    found = {arm: counts for arm, counts in found.items() if counts}
    if not found:
        return None
    bounds = sorted({bound for counts in found.values() for bound in counts})
    totals = {arm: sum(counts.values()) for arm, counts in found.items()}
    rows: list[list[str | Cell]] = []
    for bound in bounds:
        shares = [counts.get(bound, 0) / totals[arm] for arm, counts in found.items()]
        rows.append([f"{bound / 2:,.0f} – {bound:,.0f}", *_numbers([_share(share) for share in shares])])
    head = ("µs", *(result.styles[arm].label for arm in found))
    return Table(f"{step.id}: share of the operations by latency, in powers of two", head, rows)


def _share(share: float) -> str:
    if share == 0:
        return NONE
    return "< 0.01 %" if share < 0.0001 else f"{share * 100:.2f} %"


ANALYSIS = Analysis(chapter="answer", part=part)
