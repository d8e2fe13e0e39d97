"""What reports of every format print of a study's telemetry where it is incomplete."""

from __future__ import annotations

from mydyno.hosts.telemetry import EVERYTHING
from mydyno.language import agreed
from mydyno.wording.stored_result import StoredResult


def lines(result: StoredResult) -> list[str]:
    """A sentence for each family of metrics that runs lack, with the first reason; empty if every run has all."""
    found: dict[str, list[str]] = {}
    for run in result.runs:
        for family, reason in run.unsampled.items():
            found.setdefault(family, []).append(reason)
    return [
        agreed(
            f"Not sampled in {len(reasons)} of {len(result.runs)} runs: "
            f"{'host and servers' if family == EVERYTHING else family} ({reasons[0]})."
        )
        for family, reasons in found.items()
    ]
