"""The slices of an interleaved study for its report: read once, with the blocks' segments one after another.

A segment is one step of one block: its slices follow one another without a gap. The time axis of a step joins its
segments, so that no time without load takes room.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from mydyno.errors import UserError
from mydyno.model.stored.records import SliceRecord
from mydyno.reports.result import StudyResult
from mydyno.store.slices import SLICES_FILE, read_slices

GAP_SHARE = 0.02
"""Room between two segments, as a share of a step's loaded time."""


@dataclass(frozen=True, slots=True)
class Segment:
    """The slices of one step in one block; `begins_s` is where it stands on the step's joined time axis."""

    block: int
    begins_s: float
    ends_s: float
    slices: tuple[SliceRecord, ...]

    def at(self, one: SliceRecord) -> float:
        """The middle of a slice on the joined time axis, in seconds."""
        return self.begins_s + (one.started_unix_ns - self.slices[0].started_unix_ns) / 1e9 + one.length_s / 2


@dataclass(frozen=True, slots=True)
class StudySlices:
    """{step: its segments in order of blocks}, and why slices are missing where they are."""

    segments: dict[str, tuple[Segment, ...]]
    missing: str = ""

    def of_step(self, step: str) -> list[SliceRecord]:
        """Every slice of a step in order of time."""
        return [one for segment in self.segments.get(step, ()) for one in segment.slices]


def read_study_slices(result: StudyResult) -> StudySlices:
    """Every block's slices.jsonl; empty for a study of blocks. A damaged file leaves its block out and is named."""
    if result.summary.design == "blocks":
        return StudySlices({})
    by_step: dict[str, list[list[SliceRecord]]] = {step.id: [] for step in result.steps}
    missing = []
    for block in sorted({run.block for run in result.runs}):
        try:
            slices = read_slices(result.folder.path / f"blocks/{block:02d}" / SLICES_FILE)
        except UserError as error:
            missing.append(str(error))
            continue
        if not slices:
            missing.append(f"block {block} has no slices")
        for step, of_step in by_step.items():
            found = sorted((one for one in slices if one.step == step), key=lambda one: one.started_unix_ns)
            if found:
                of_step.append(found)
    return StudySlices({step: _joined(found) for step, found in by_step.items() if found}, "; ".join(missing))


def _joined(groups: Sequence[list[SliceRecord]]) -> tuple[Segment, ...]:
    lengths = [
        (slices[-1].started_unix_ns - slices[0].started_unix_ns) / 1e9 + slices[-1].length_s for slices in groups
    ]
    gap = GAP_SHARE * sum(lengths)
    segments, at = [], 0.0
    for slices, length in zip(groups, lengths, strict=True):
        segments.append(Segment(slices[0].block, at, at + length, tuple(slices)))
        at += length + gap
    return tuple(segments)


def rate(one: SliceRecord, metric: str) -> float | None:
    """The slice's rate of the primary metric as far as slices count it: queries, or transactions, a second."""
    if one.failed or one.length_s <= 0:
        return None
    if metric in one.rates:
        return one.rates[metric]
    return (one.transactions if metric == "tps" else one.queries or one.transactions) / one.length_s


def driver_cost(slices: Sequence[SliceRecord]) -> dict[int, float]:
    """{index of slice: the load program's CPU time per query, relative to the median}."""
    found = {
        index: one.driver_cpu_s / one.queries
        for index, one in enumerate(slices)
        if one.driver_cpu_s and one.queries and not one.failed
    }
    return _relative(found)


def _relative(values: dict[int, float]) -> dict[int, float]:
    usual = median(values.values()) if values else 1.0
    return {index: value / usual for index, value in values.items()}
