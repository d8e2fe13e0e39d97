"""A study as reports draw it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from mydyno.document.charts.palette import ArmStyle, arm_styles, copy_style
from mydyno.document.slices import StudySlices, read_study_slices
from mydyno.model.stored.summary import RunSummary
from mydyno.store.samples import damage_of
from mydyno.wording.stored_result import StoredResult


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
        """Of every block; empty for a study of blocks."""
        if self.summary.design == "blocks":
            return StudySlices({}, {})
        return read_study_slices(self.folder.path, (run.block for run in self.runs), {step.id for step in self.steps})

    @cached_property
    def samples(self) -> dict[Path, RunSummary]:
        """{samples.parquet: its run}, of the runs that have one, without damaged ones."""
        every = {self.folder.samples_path(run.folder): run for run in self.runs}
        return {path: run for path, run in every.items() if path.is_file() and not damage_of(path)}
