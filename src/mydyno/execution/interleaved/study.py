"""The blocks of an interleaved study on this host, one after another: looks, and when it ends.

Effects are examined at looks alone (model/definition/plan.py); between them only the precision is shown.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from mydyno.evaluation.facts import Precision, precision_so_far
from mydyno.execution.environments.environment import StudyEnvironment
from mydyno.execution.interim import Decided, Stopping, decided_at, ended, is_decided
from mydyno.execution.interleaved.block import BlockResult, BlockWatcher
from mydyno.execution.interleaved.order import execute_order, lengthen_washout
from mydyno.execution.interleaved.study_time import StudyTime
from mydyno.model.stored.summary import Summary
from mydyno.servers.templates import Template

PRECISION_EVENT = "precision"


class StudyWatcher(BlockWatcher, Protocol):
    """Receives the progress of an interleaved study while it runs."""

    def block_begins(self, block: int, of: int, left_s: float | None, cycles: float) -> None:
        """A block begins."""

    def block_ended(self, block: int, result: BlockResult, precision: Precision | None) -> None:
        """A block is finished and saved."""


@dataclass
class Blocks:
    """The execution of a study's blocks."""

    environment: StudyEnvironment
    time: StudyTime
    watcher: StudyWatcher
    decided: Decided = is_decided
    """Whether the study may end at the look that was just summarised."""

    async def run(self, templates: dict[str, Template | None]) -> Summary:
        """Make the blocks that are missing; the summary of the last look (or of all blocks, without a time)."""
        study, folder, experiment = self.time, self.time.folder, self.environment.experiment
        done, target = study.done, study.aim()
        stopping = Stopping(folder)
        while done < target.blocks and not study.is_over(done):
            number = study.missing(target.blocks)[0]
            order = study.order(number, target.blocks - done)
            left_s = None if study.time_s is None else study.usable_s
            self.watcher.block_begins(number, target.blocks, left_s, target.cycles)
            folder.journal.append("block_began", block=number)
            result = await execute_order(self.environment, folder, study.plan, order, templates, self.watcher)
            done += 1
            study.overheads_s.append(result.overhead_s)
            target = study.replan(target, done)
            if late := study.late(target.blocks, done):
                self.watcher.say(late)
            stopping.stop(stopping.block_ended(result.runs, experiment.control))
            precision = precision_so_far(folder, study.plan, target.blocks)
            if precision is not None:
                folder.journal.append(
                    PRECISION_EVENT, block=number, of=target.blocks, half_widths=precision.half_widths
                )
            self.watcher.block_ended(number, result, precision)
            lengthen_washout(folder, experiment, number, self.watcher.say)
            if done < target.blocks and decided_at(folder, study.plan, done, self.decided, self.watcher.say):
                break
        return ended(folder, study.plan, done)
