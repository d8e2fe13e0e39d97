"""When a study stops because more runs would not help, on this host and over host groups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from mydyno.errors import StudyError
from mydyno.evaluation.facts import summarise
from mydyno.execution.validity.unproved import refused_variables
from mydyno.model.stored.reasons import joined
from mydyno.model.stored.records import RunRecord
from mydyno.results.values.host_noise import is_host_noise
from mydyno.store.study_folder import StudyFolder

FAILED_RUNS_IN_A_ROW = 4
"""Number of consecutive invalid runs after which a study in blocks stops."""
FAILED_CONTROLS_IN_A_ROW = 3
"""Number of consecutive blocks without the control after which an interleaved study stops."""


class Stopping:
    """Counts failures in a row on each host group, in the order in which runs or blocks end."""

    def __init__(self, folder: StudyFolder) -> None:
        self._folder = folder
        self._in_a_row: Counter[str] = Counter()

    def block_ended(self, runs: Iterable[RunRecord], control: str) -> str | None:
        """Note the runs of one block in the interleaved design: why the host should make no more of them, or None."""
        first = next(run for run in runs if run.arm == control and run.copy_number == 1)
        in_a_row = self._noted(first, bool(first.failed) or not (first.valid or is_host_noise(first)))
        if in_a_row < FAILED_CONTROLS_IN_A_ROW:
            return None
        did, why = ("failed", first.failed) if first.failed else ("is invalid", joined(first.reasons[:1]))
        return f"the control {control} {did} in {in_a_row} blocks in a row{_where(first)}: {why}"

    def run_ended(self, run: RunRecord) -> str | None:
        """Note a run in the design of blocks; returns what block_ended does."""
        if run.block == 1 and (words := refused_variables(run.evidence)):
            return f"arm {run.arm}{_where(run)}: variables: {words}"
        in_a_row = self._noted(run, not run.valid and not is_host_noise(run))
        if in_a_row < FAILED_RUNS_IN_A_ROW:
            return None
        last = joined(run.reasons[:1]) or "no reason was recorded"
        return f"{in_a_row} runs in a row are invalid; the last one{_where(run)}: {last}"

    def _noted(self, run: RunRecord, failed: bool) -> int:
        self._in_a_row[run.host_group] = self._in_a_row[run.host_group] + 1 if failed else 0
        return self._in_a_row[run.host_group]

    def stop(self, why: str | None) -> None:
        """End the study, which can be resumed, if there is a reason to: summarises it and raises StudyError."""
        if why is not None:
            summarise(self._folder)
            raise StudyError(why, f"correct the cause, then run: mydyno resume {self._folder.path}")


def _where(run: RunRecord) -> str:
    return f" (on {run.host_group})" if run.host_group else ""
