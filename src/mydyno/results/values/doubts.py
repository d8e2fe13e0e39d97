"""Why a step that counts is in doubt: what dynoload's own rules found in its load, and in what was answered."""

from __future__ import annotations

from mydyno.model.stored.records import DriverFinding, DriverResult

OF_THE_LOAD = ("stalled", "paused", "script_held", "not_stored", "empty_reads")
"""The rules (engine/dyno-load/src/quality)."""


def doubts_of(driver: DriverResult) -> list[DriverFinding]:
    """The findings that put the step in doubt."""
    return [one for one in driver.findings if one.rule in OF_THE_LOAD and one.level == "suspect"]
