"""What to do for one block of an interleaved study, and doing it: the same on this host and on those of a group.

The washout is doubled where slices depend on which arm was loaded before them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mydyno.evaluation.facts import blocks_so_far, carry_over_so_far
from mydyno.execution.environments.environment import StudyEnvironment
from mydyno.execution.interleaved.block import ALONE_SLICES, Block, BlockResult, BlockWatcher
from mydyno.execution.interleaved.capacity_search import BlockSearches, known_of
from mydyno.execution.interleaved.pilot import COST, PILOT_EVENT, THROUGHPUT, PilotPlan, expected_half_widths, words
from mydyno.execution.planning.time_plan import SLICE_GAP_S, FixedCycles, Pace, UntilDeadline, cycles_of, shape_of
from mydyno.model.definition.experiment import Experiment
from mydyno.model.definition.plan import Plan, lanes_of_block
from mydyno.model.metrics import ANSWERED_COSTS
from mydyno.model.stored.records import SliceRecord
from mydyno.results.families import WEIGHT_OF_OTHERS, expected_contrasts
from mydyno.servers.templates import Template
from mydyno.store.study_folder import StudyFolder

WASHOUT_EVENT = "washout"
LONGEST_WASHOUT_S = 4.0


def washout_of_next_block(folder: StudyFolder, experiment: Experiment) -> float:
    """The washout in seconds: design.washout, or what it was lengthened to."""
    found = [float(event["washout_s"]) for event in folder.journal.read() if event["event"] == WASHOUT_EVENT]
    return max([experiment.design.washout, *found])


def lengthen_washout(folder: StudyFolder, experiment: Experiment, block: int, say: Callable[[str], None]) -> None:
    """After a block: double the washout of the blocks to come where there is carry-over.

    Seen are residuals after the means of every arm have been taken out: no effect of an arm.
    """
    washout_s = washout_of_next_block(folder, experiment)
    if 2 * washout_s > LONGEST_WASHOUT_S:
        return
    carried = carry_over_so_far(folder, washout_s)
    if not carried:
        return
    step, change = max(carried.items(), key=lambda item: abs(item[1]))
    folder.journal.append(WASHOUT_EVENT, block=block, washout_s=2 * washout_s, carry_over=carried)
    say(
        f"{step}: the arm loaded before a slice changes its throughput by up to {abs(change):.1%}; "
        f"the washout is {2 * washout_s:g} s from the next block on"
    )


GIVEN_UP_AFTER = 2
"""Number of consecutive failed blocks after which an arm is not started any more."""
STOP_RESERVE_S, STOP_RESERVE_S_PER_SERVER = 2.0, 0.5
"""Reserved in a block for stopping."""
ALONE_FROM_S = 300.0
ALONE_FROM_BLOCKS = 6
"""Studies with so much time, or so many blocks, load the control alone at the end of their first block."""
ALONE_STOP_S = 3.0


@dataclass(frozen=True)
class BlockOrder:
    """What a host is to do for one block. Blocks of the other design have a number alone."""

    block: int
    length_s: float | None = None
    """As many cycles as fit; None: the experiment's own number of cycles."""
    washout_s: float | None = None
    """None: design.washout."""
    skipped_arms: frozenset[str] = frozenset()
    """Arms that failed too often to be started again."""


async def execute_order(
    environment: StudyEnvironment,
    folder: StudyFolder,
    plan: Plan,
    order: BlockOrder,
    templates: dict[str, Template | None],
    watcher: BlockWatcher,
) -> BlockResult:
    """Make one block of the plan in this folder. Raises HostError for what would spoil every block.

    In the first block of a study a pilot follows the first cycles, and it ends with the control alone if the study is
    long enough.
    """
    experiment = environment.experiment
    shape = shape_of(experiment)
    washout_s = experiment.design.washout if order.washout_s is None else order.washout_s
    alone = alone_s(plan, experiment, order.block, washout_s)
    if order.length_s is None:
        cycles = float(cycles_of(experiment))
        pace: Pace = FixedCycles(cycles_of(experiment))
    else:
        reserve_s = STOP_RESERVE_S + STOP_RESERVE_S_PER_SERVER * shape.servers + alone
        pace = UntilDeadline(time.monotonic() + order.length_s, reserve_s)
        cycles = max(1.0, shape.cycles_in(order.length_s - alone))

    def pilot(slices: Sequence[SliceRecord]) -> None:
        planned = pilot_plan(plan, experiment, cycles)
        expected = expected_half_widths(slices, planned)
        folder.journal.append(PILOT_EVENT, of=planned.blocks, half_widths=expected)
        watcher.pilot_ended(planned.blocks, expected)
        watcher.say(words(expected, planned))

    search = experiment.is_search
    has_pilot = order.block == 1 and not (search or experiment.compares_statements)
    searches = BlockSearches(known_of(experiment, blocks_so_far(folder)[1]) if search else {})
    block = Block(
        environment, folder, plan.blocks[order.block - 1], pace, watcher, washout_s, searches,
        pilot if has_pilot else None, plan.design == "switchback",
    )  # fmt: skip
    return await block.make(templates, order.skipped_arms, alone > 0)


def alone_s(plan: Plan, experiment: Experiment, block: int, washout_s: float) -> float:
    """The time for loading the control alone in a block; 0 where that is not done."""
    design = experiment.design
    timed = plan.sequential and design.time is not None
    long_enough = (design.time or 0) >= ALONE_FROM_S if timed else len(plan.blocks) >= ALONE_FROM_BLOCKS
    external = experiment.server.dsn is not None
    special = experiment.is_search or experiment.compares_statements
    if block != 1 or not long_enough or special or external or plan.design == "switchback":
        return 0.0
    return ALONE_STOP_S + ALONE_SLICES * (design.slice + washout_s + SLICE_GAP_S)


def pilot_plan(plan: Plan, experiment: Experiment, cycles: float) -> PilotPlan:
    """What the study will have after its pilot, with so many cycles of each step in a block."""
    costs_lead = experiment.verdict.leading in ANSWERED_COSTS
    contrasts = {
        name: expected_contrasts(experiment, 1.0 if leads else WEIGHT_OF_OTHERS)
        for name, leads in ((THROUGHPUT, not costs_lead), (COST, costs_lead))
    }
    return PilotPlan(
        len(plan.blocks),
        cycles,
        lanes_of_block(experiment),
        contrasts,
        plan.schedule,
        experiment.design.copies or 1,
        experiment.verdict.error_rate,
    )


def given_up(folder: StudyFolder, control: str, number: int) -> frozenset[str]:
    """Arms that are not started in a block, because they failed in every one of the last blocks."""
    recent = range(max(1, number - GIVEN_UP_AFTER), number)
    if len(recent) < GIVEN_UP_AFTER:
        return frozenset()
    failed = [
        {
            run.arm
            for run in folder.runs()
            if run.block == block and run.failed and not any(step.driver.transactions for step in run.steps)
        }
        for block in recent
    ]
    return frozenset(set.intersection(*failed) - {control})
