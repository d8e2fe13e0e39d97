"""When a study stops because more runs would not help, on this host and over host groups."""

from __future__ import annotations

from collections.abc import Iterable

from mydyno.errors import StudyError
from mydyno.model.stored.reasons import joined
from mydyno.model.stored.records import RunRecord
from mydyno.results.summarise import summarise
from mydyno.results.values.host_noise import is_host_noise
from mydyno.store.study_folder import StudyFolder

FAILED_RUNS_IN_A_ROW = 4
"""Number of consecutive invalid runs after which a study in blocks stops."""
FAILED_CONTROLS_IN_A_ROW = 3
"""Number of consecutive blocks without the control after which an interleaved study stops."""


class Stopping:
    """Counts failures in a row, in the order in which runs or blocks end."""

    def __init__(self, folder: StudyFolder) -> None:
        self._folder = folder
        self._in_a_row = 0

    def run_ended(self, run: RunRecord) -> None:
        """Note a run in the design of blocks. Raises StudyError after too many in a row; the study can be resumed."""
        self._in_a_row = 0 if run.valid or is_host_noise(run) else self._in_a_row + 1
        if self._in_a_row == FAILED_RUNS_IN_A_ROW:
            last = joined(run.reasons[:1]) or "no reason was recorded"
            self._stop(f"{self._in_a_row} runs in a row are invalid; the last one{_where(run)}: {last}")

    def block_ended(self, runs: Iterable[RunRecord], control: str) -> None:
        """Note the runs of one block in the interleaved design. Raises as run_ended does."""
        first = next(run for run in runs if run.arm == control and run.copy_number == 1)
        self._in_a_row = self._in_a_row + 1 if first.failed else 0
        if self._in_a_row == FAILED_CONTROLS_IN_A_ROW:
            words = f"the control {control} failed in {self._in_a_row} blocks in a row"
            self._stop(f"{words}{_where(first)}: {first.failed}")

    def _stop(self, words: str) -> None:
        summarise(self._folder)
        raise StudyError(words, f"correct the cause, then run: mydyno resume {self._folder.path}")


def _where(run: RunRecord) -> str:
    return f" (on {run.host_group})" if run.host_group else ""
