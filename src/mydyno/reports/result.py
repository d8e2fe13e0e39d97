"""A study as reports draw it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from mydyno.reports.charts.palette import ArmStyle, arm_styles
from mydyno.wording.stored_result import StoredResult


@dataclass(frozen=True)
class StudyResult(StoredResult):
    """What is in a study folder, with a style for each arm."""

    @cached_property
    def styles(self) -> dict[str, ArmStyle]:
        """How each arm is drawn, the control first."""
        return arm_styles(self.arms)
