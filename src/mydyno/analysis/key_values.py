"""Sections for studies of keys and values: latency as memaslap tabulates it, its distribution, what each arm keeps."""

from __future__ import annotations

from collections.abc import Sequence

from mydyno.analysis.base import Analysis
from mydyno.document.parts import Note, Part
from mydyno.document.result import StudyResult
from mydyno.document.section import Cell, Table, glyph
from mydyno.model.stored.records import RunRecord, StepRecord
from mydyno.model.stored.summary import StepLevel
from mydyno.results.values.key_values import (
    CrashSurvival,
    Growth,
    Spread,
    crash_survival,
    growth_of,
    log2_of,
    spread_of,
)
from mydyno.wording.numbers import MINUS, NONE


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
    return Part(
        id="key-values", heading="Keys and values: losses in a crash, and latency",
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


def _named(result: StudyResult, arm: str) -> Cell:
    return Cell(result.styles[arm].label, mark=glyph(result.styles[arm]))


def _numbers(cells: Sequence[str]) -> list[Cell]:
    return [Cell(text, "num") for text in cells]


def _kept(result: StudyResult) -> Table:
    """What each arm keeps over a crash, beside its speed; and what its memory does."""
    rows: list[list[str | Cell]] = []
    for arm in result.styles:
        runs = _records(result, arm)
        rates = [spread_of(_steps(result, arm, step)) for step in result.steps]
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
    found = {arm: spread_of(_steps(result, arm, step)) for arm in result.styles}
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
