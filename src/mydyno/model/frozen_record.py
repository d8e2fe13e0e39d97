"""The base of every type that a study stores."""

from __future__ import annotations

from typing import Any, Self

from pydantic import BaseModel, ConfigDict


def is_empty(value: Any) -> bool:
    """Whether a stored field is left out: files of studies on one host remain as they were before there were several.

    For `exclude_if` of a field whose default is empty.
    """
    return not value


class Record(BaseModel):
    """Unknown keys of newer versions are dropped; values do not change."""

    model_config = ConfigDict(extra="ignore", frozen=True, populate_by_name=True)

    @classmethod
    def like(cls, other: object, /, **more: Any) -> Self:
        """With the values of the fields that both have, and `more` in their place or beside them."""
        shared = {name: value for name, value in vars(other).items() if name in cls.model_fields}
        return cls.model_validate(shared | more)


Contrast = tuple[str, str, str, str]
"""(metric, step, arm, control)."""


class OfContrast(Record):
    """What is known of a metric of one arm against its control at one step."""

    metric: str
    step: str
    arm: str
    control: str

    @property
    def contrast(self) -> Contrast:
        """By which it is found."""
        return self.metric, self.step, self.arm, self.control
