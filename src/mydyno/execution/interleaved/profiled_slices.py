"""The profiled slices of a block: extra slices apart from the measured ones, with a profiler on the loaded servers.

After the first cycle of each step, and after every eighth one from there on, each lane has one more slice, in random
order. Its neighbours in time are measured slices of the same lane, so that the profiler's cost can be measured too. A
profile that fails is missing, with its reason, and the block continues.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mydyno.drivers.held import SliceOrder
from mydyno.errors import HostError, StudyError
from mydyno.execution.counters.profiler import Profiler, Recording
from mydyno.execution.interleaved.lane import Lane
from mydyno.execution.interleaved.slices import Around, PartOfSlice, slice_record
from mydyno.hosts.tracing.perf import Folded
from mydyno.model.definition.experiment import Step
from mydyno.model.definition.specs import PROFILE_EVERY
from mydyno.model.stored.records import CpuProfile, SliceRecord
from mydyno.store.slices import is_waiting, stacks_file, write_stacks

FAILURES = (HostError, StudyError, OSError)
"""Failures of a profiler: its profile is then missing, and the block continues."""


@dataclass
class _Profile:
    """What was recorded of one lane at one step."""

    folded: Folded = field(default_factory=Folded)
    slices: list[SliceRecord] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)


class ProfiledSlices:
    """All profiled slices of one block. Without a profiler nothing is due."""

    def __init__(self, profiler: Profiler | None, remote_load: bool) -> None:
        self.records: list[SliceRecord] = []
        self._profiler = profiler
        self._remote_load = remote_load
        self._profiles: dict[str, dict[str, _Profile]] = {}

    def due(self, cycle: int) -> bool:
        """Whether a cycle of profiled slices follows this cycle."""
        return self._profiler is not None and cycle % PROFILE_EVERY == 1

    async def cycle(
        self, step: Step, cycle: int, lanes: Sequence[Lane], order: SliceOrder, begins: Callable[[Lane], None]
    ) -> None:
        """One profiled slice of each lane in this order."""
        for position, lane in enumerate(lanes, 1):
            if not lane.runs_step(step):
                continue
            profile = self._profiles.setdefault(lane.planned.folder, {}).setdefault(step.id, _Profile())
            begins(lane)
            recording = await self._recording(lane, profile)
            saved = False
            try:
                parts = await lane.slice(step, order)
            finally:
                if recording is not None:
                    saved = await _stopped(recording, profile)
            if parts and recording is not None and saved:
                await _add(recording, profile)
                record = self._record(step, cycle, position, lane, parts, order)
                profile.slices.append(record)
                self.records.append(record)

    async def _recording(self, lane: Lane, profile: _Profile) -> Recording | None:
        assert self._profiler is not None
        try:
            return await self._profiler.start([instance.pid for instance in lane.instances])
        except FAILURES as error:
            profile.missing.append(str(error))
            return None

    def _record(
        self, step: Step, cycle: int, position: int, lane: Lane, parts: Sequence[PartOfSlice], order: SliceOrder
    ) -> SliceRecord:
        planned, around = lane.planned, Around(remote_load=self._remote_load)
        return slice_record(
            step, planned.block, cycle, position, planned.arm, planned.copy_number, parts, around
        ).model_copy(update={"washout_s": order.washout_s, "profiled": True})  # fmt: skip

    def save(self, lane: Lane) -> tuple[CpuProfile, ...]:
        """Write the stacks of a lane, a file for each step, and describe them."""
        found = self._profiles.pop(lane.planned.folder, {})
        return tuple(self._saved(step, profile, lane.folder) for step, profile in found.items())

    def _saved(self, step: str, profile: _Profile, folder: Path) -> CpuProfile:
        assert self._profiler is not None
        folded = profile.folded
        file = stacks_file(step) if folded.samples else ""
        if file:
            write_stacks(folder / file, folded.stacks)
        elif not profile.missing:
            profile.missing.append("no sample was taken")
        return CpuProfile(
            step=step,
            file=file,
            slices=len(profile.slices),
            transactions=sum(one.transactions for one in profile.slices),
            server_cpu_s=sum(one.server_cpu_s or 0.0 for one in profile.slices),
            samples=folded.samples,
            waiting_samples=sum(count for stack, count in folded.stacks.items() if is_waiting(stack)),
            lost_samples=folded.lost,
            cut_off_samples=folded.cut_off,
            frames=folded.frames,
            unknown_frames=folded.unknown_frames,
            event=self._profiler.event,
            frequency_hz=self._profiler.frequency_hz,
            profiler=self._profiler.version,
            method=self._profiler.method,
            missing="; ".join(dict.fromkeys(profile.missing)),
        )


async def _stopped(recording: Recording, profile: _Profile) -> bool:
    """Whether the profiler ended and saved what it recorded."""
    try:
        await recording.stop()
    except FAILURES as error:
        profile.missing.append(str(error))
        return False
    return True


async def _add(recording: Recording, profile: _Profile) -> None:
    """Make the stacks at once: no slice is under way, and recordings are too large to keep many of them."""
    try:
        profile.folded.add(await recording.folded())
    except FAILURES as error:
        profile.missing.append(str(error))
