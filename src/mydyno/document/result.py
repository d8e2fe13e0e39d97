"""A study as reports draw it; the slices of an interleaved one with its blocks one after another on an axis of time.

Slices are read once. Time without load, such as the start of the servers, takes no room. Blocks of several host groups,
which may be executed at the same time, follow one another too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from mydyno.document.drawing import ArmStyle, arm_styles, copy_style
from mydyno.errors import UserError
from mydyno.model.stored.records import SliceRecord
from mydyno.model.stored.summary import RunSummary, used_slices
from mydyno.store.samples import SLICES_FILE, damage_of, read_slices
from mydyno.wording.stored_result import StoredResult

GAP_SHARE = 0.02
"""Room between two blocks, as a share of the loaded time."""


@dataclass(frozen=True, slots=True)
class BlockTime:
    """One block's loaded time: from `first_unix_ns` on, at `begins_s` to `ends_s` of the axis."""

    block: int
    first_unix_ns: int
    begins_s: float
    ends_s: float

    def at(self, unix_ns: int, offset_s: float = 0.0) -> float:
        """Where a moment stands on the axis."""
        return self.begins_s + (unix_ns - self.first_unix_ns) / 1e9 + offset_s


@dataclass(frozen=True, slots=True)
class StudySlices:
    """{step: its slices in order of blocks and time}, the blocks' times, and why slices are missing where they are."""

    by_step: dict[str, list[SliceRecord]]
    blocks: dict[int, BlockTime]
    missing: str = ""

    def of_step(self, step: str) -> list[SliceRecord]:
        """Every slice of a step in order of time."""
        return self.by_step.get(step, [])

    def at(self, one: SliceRecord) -> float:
        """The middle of a slice on the axis, in seconds."""
        return self.blocks[one.block].at(one.started_unix_ns, one.length_s / 2)


def read_study_slices(study: Path, blocks: Iterable[int], steps: Collection[str]) -> StudySlices:
    """The slices.jsonl of these blocks, of these steps. A damaged file leaves its block out and is named."""
    by_block: dict[int, list[SliceRecord]] = {}
    missing = []
    for block in sorted(set(blocks)):
        try:
            slices = read_slices(study / f"blocks/{block:02d}" / SLICES_FILE)
        except UserError as error:
            missing.append(str(error))
            continue
        found = sorted((one for one in slices if one.step in steps), key=lambda one: one.started_unix_ns)
        if found:
            by_block[block] = found
        else:
            missing.append(f"block {block} has no slices")
    by_step: dict[str, list[SliceRecord]] = {}
    for slices in by_block.values():
        for one in slices:
            by_step.setdefault(one.step, []).append(one)
    return StudySlices(by_step, _times(by_block), "; ".join(missing))


def _times(by_block: dict[int, list[SliceRecord]]) -> dict[int, BlockTime]:
    lengths = {block: _length_s(slices) for block, slices in by_block.items()}
    gap = GAP_SHARE * sum(lengths.values())
    times, at = {}, 0.0
    for block, slices in by_block.items():
        times[block] = BlockTime(block, slices[0].started_unix_ns, at, at + lengths[block])
        at += lengths[block] + gap
    return times


def _length_s(slices: Sequence[SliceRecord]) -> float:
    return (slices[-1].started_unix_ns - slices[0].started_unix_ns) / 1e9 + slices[-1].length_s


def rate(one: SliceRecord, metric: str) -> float | None:
    """The slice's rate of the primary metric as far as slices count it: queries, or transactions, a second."""
    if one.failed or one.length_s <= 0:
        return None
    if metric in one.rates:
        return one.rates[metric]
    return (one.transactions if metric == "tps" else one.queries or one.transactions) / one.length_s


@dataclass(frozen=True)
class StudyResult(StoredResult):
    """What is in a study folder, with a style for each arm, slices and samples."""

    @cached_property
    def styles(self) -> dict[str, ArmStyle]:
        """How each arm is drawn, the control first."""
        return arm_styles(self.arms)

    @cached_property
    def lane_styles(self) -> dict[tuple[str, int], ArmStyle]:
        """{(arm, copy): how it is drawn}: the arms in order, then the second copies."""
        again = {run.arm for run in self.runs if run.copy_number == 2}
        first = {(arm, 1): style for arm, style in self.styles.items()}
        return first | {(arm, 2): copy_style(style) for arm, style in self.styles.items() if arm in again}

    @cached_property
    def slices(self) -> StudySlices:
        """Of every block; empty for a study of blocks."""
        if self.summary.design == "blocks":
            return StudySlices({}, {})
        return read_study_slices(self.folder.path, (run.block for run in self.runs), {step.id for step in self.steps})

    def used_slices(self, step: str) -> list[SliceRecord]:
        """The step's slices of runs that count at it."""
        return used_slices(self.slices.of_step(step), self.runs)

    @cached_property
    def samples(self) -> dict[Path, RunSummary]:
        """{samples.parquet: its run}, of the runs that have one, without damaged ones."""
        every = {self.folder.samples_path(run.folder): run for run in self.runs}
        return {path: run for path, run in every.items() if path.is_file() and not damage_of(path)}
