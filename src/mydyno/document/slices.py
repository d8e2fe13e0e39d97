"""The slices of an interleaved study for its report: read once, with its blocks one after another on an axis of time.

Time without load, such as the start of the servers, takes no room. Blocks of several host groups, which may be executed
at the same time, follow one another too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from mydyno.errors import UserError
from mydyno.model.stored.records import SliceRecord
from mydyno.store.slices import SLICES_FILE, read_slices

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
