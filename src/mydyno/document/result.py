"""A study as reports draw it; its slices with the blocks one after another on an axis of time. In the design "blocks"
each step of a run is one.

Slices are read once. Time without load, such as the start of the servers, takes no room. Blocks of several host groups,
which may be executed at the same time, follow one another too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from mydyno.document.drawing import ArmStyle, arm_styles, copy_style
from mydyno.errors import UserError
from mydyno.model.stored.records import RunRecord, SliceRecord
from mydyno.model.stored.summary import RunSummary, used_slices, with_summaries
from mydyno.results.values.blocks import slices_of_run
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
    return (one.done_transactions if metric == "tps" else one.done_queries or one.done_transactions) / one.length_s


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
        """Of every block. A damaged file leaves its block out and is named."""
        by_block: dict[int, list[SliceRecord]] = {}
        by_step: dict[str, list[SliceRecord]] = {}
        missing: list[str] = []
        known = {step.id for step in self.steps}
        for block in sorted({run.block for run in self.runs}):
            try:
                slices = self._slices_of(block)
            except UserError as error:
                missing.append(str(error))
                continue
            found = sorted((one for one in slices if one.step in known), key=lambda one: one.started_unix_ns)
            if found:
                by_block[block] = found
            else:
                missing.append(f"block {block} has no slices")
            for one in found:
                by_step.setdefault(one.step, []).append(one)
        return StudySlices(by_step, _times(by_block), "; ".join(missing))

    def _slices_of(self, block: int) -> list[SliceRecord]:
        if self.summary.design != "blocks":
            return read_slices(self.folder.block_path(block) / SLICES_FILE)
        own = [run for run in self.records.values() if run.block == block]
        return [one for run, of in with_summaries(own, self.runs) for one in slices_of_run(run, of, self._cpus(run))]

    def _cpus(self, run: RunRecord) -> float | None:
        """All CPUs of the host of a run's server and load; None where they are on several, or it is not recorded."""
        facts = self.study.hosts.get(run.host_group, self.study.host)
        return None if self.study.server_host else facts.get("cpus")

    def used_slices(self, step: str) -> list[SliceRecord]:
        """The step's slices of runs that count at it."""
        return used_slices(self.slices.of_step(step), self.runs)

    @cached_property
    def samples(self) -> dict[Path, RunSummary]:
        """{samples.parquet: its run}, of the runs that have one, without damaged ones."""
        every = {self.folder.samples_path(run.folder): run for run in self.runs}
        return {path: run for path, run in every.items() if path.is_file() and not damage_of(path)}
