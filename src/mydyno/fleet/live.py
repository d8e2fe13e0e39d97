"""Writes live.jsonl of a study over host groups, and passes everything on to the study's watcher.

A group's block sends its state once a second; the study's own state counts the blocks that are finished.
"""

from __future__ import annotations

from typing import Protocol

from mydyno import clock
from mydyno.evaluation.projection import Precision
from mydyno.execution.live.observer import AnyWatcher, Live, live_precision
from mydyno.execution.live.writer import live_run
from mydyno.model.definition.plan import Plan
from mydyno.model.stored.live import LiveSecond, LiveState
from mydyno.store.study_folder import StudyFolder


class FleetWatcher(AnyWatcher, Protocol):
    """Receives the progress of all groups."""

    def group_says(self, group: str, text: str, lasting: bool) -> None:
        """What a group does now, or (lasting) a message of it."""

    def block_leased(self, group: str, block: int, of: int) -> None:
        """A group begins a block."""

    def block_committed(self, group: str, block: int, made: int, of: int, precision: Precision | None) -> None:
        """A block is finished and saved; `made` of `of` are."""

    def group_lost(self, group: str, why: str, for_good: bool) -> None:
        """A group does not take blocks any more, for good or until it can be reached again."""


class FleetLive(Live[FleetWatcher]):
    """Of a study over host groups."""

    _folder: StudyFolder | None = None
    _of: int | None = None

    def keep_in(self, folder: StudyFolder, plan: Plan, made: int, resumed: bool) -> None:
        """Write to the folder's live.jsonl from now on; `made` blocks are finished."""
        self._folder, self._of = folder, len(plan.blocks)
        self._now.set(blocks=self._of, made=made)
        self._writer.open(folder.path, folder.name, plan, resumed)
        self._watcher.kept_in(folder.path)

    def blocks_begin(self, made: int, of: int, left_s: float | None) -> None:
        """The groups execute blocks from here on."""
        self._of = of
        self._remaining.begins(made, of, left_s)
        self._now.set(state="hosts", blocks=of, made=made)

    def group_says(self, group: str, text: str, lasting: bool) -> None:
        """Keep a message of a group."""
        if lasting:
            self._writer.note(f"{group}: {text}")
        self._watcher.group_says(group, text, lasting)

    def group_second(self, group: str, second: LiveSecond) -> None:
        """A line for what the group's block does; the time is this host's."""
        mine = {"group": group, "blocks": self._of, "left_s": None, "unix_ns": clock.unix_ns()}
        self._writer.append(second.model_copy(update=mine))

    def block_leased(self, group: str, block: int, of: int) -> None:
        """The group prepares the block."""
        self._group(group, "starting", block)
        self._watcher.block_leased(group, block, of)

    def block_committed(self, group: str, block: int, made: int, of: int, precision: Precision | None) -> None:
        """Lines for the block's runs and for the precision."""
        self._remaining.ended()
        self._now.set(made=made, blocks=of)
        assert self._folder is not None
        for run in self._folder.runs():
            if run.block == block:
                self._writer.append(live_run(run))
        if precision is not None:
            self._writer.append(live_precision(precision))
        self._group(group, "waiting")
        self._watcher.block_committed(group, block, made, of, precision)

    def group_lost(self, group: str, why: str, for_good: bool) -> None:
        """Keep why."""
        self._group(group, "lost")
        self._writer.note(f"{group} is lost: {why}")
        self._watcher.group_lost(group, why, for_good)

    def _group(self, group: str, state: LiveState, block: int | None = None) -> None:
        self._writer.append(LiveSecond(unix_ns=clock.unix_ns(), group=group, state=state, block=block, blocks=self._of))
