"""The slices of a saved study, read back and checked against the runs that they are of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from mydyno.errors import UserError
from mydyno.model.stored.records import RunRecord, SliceRecord
from mydyno.store.slices import SLICES_FILE, read_slices
from mydyno.store.study_folder import StudyFolder


def slices_of(folder: StudyFolder, runs: Sequence[RunRecord], file: str = SLICES_FILE) -> list[SliceRecord]:
    """The slices of these runs' blocks; the measured ones, or those of another file.

    Raises UserError for a damaged file.
    """
    blocks = sorted({run.block for run in runs})
    found = [one for block in blocks for one in read_slices(folder.block_path(block) / file)]
    if file == SLICES_FILE:
        _check_complete(folder, runs, found)
    return found


def _check_complete(folder: StudyFolder, runs: Sequence[RunRecord], slices: Sequence[SliceRecord]) -> None:
    """A file that was cut between two lines shows it by its sums alone."""
    made: Counter[tuple[int, str, int, str]] = Counter()
    for one in slices:
        made[one.block, one.arm, one.copy_number, one.step] += 0 if one.failed else one.transactions
    for run in runs:
        for step in run.steps:
            count = made[run.block, run.arm, run.copy_number, step.id]
            if count < step.driver.transactions:
                raise UserError(
                    f"{folder.block_path(run.block) / SLICES_FILE} is cut short: it has {count} of "
                    f"{step.driver.transactions} transactions of {run.folder} at {step.id}",
                    "was the study's folder copied completely?",
                )
