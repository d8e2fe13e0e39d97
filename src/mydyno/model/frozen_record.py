"""The base of every type that a study stores."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Record(BaseModel):
    """Unknown keys of newer versions are dropped; values do not change."""

    model_config = ConfigDict(extra="ignore", frozen=True, populate_by_name=True)
