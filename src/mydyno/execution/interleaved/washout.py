"""The washout of an interleaved study: doubled where slices depend on which arm was loaded before them."""

from __future__ import annotations

from collections.abc import Callable

from mydyno.evaluation.projection import carry_over_so_far
from mydyno.model.definition.experiment import Experiment
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
