"""Replays at captured times: which part of the capture was played, and how late transactions began on each arm."""

from __future__ import annotations

from collections.abc import Sequence

from mydyno.analysis.base import Analysis
from mydyno.document.parts import Cell, Note, Part, Table
from mydyno.document.result import StudyResult
from mydyno.language import agreed
from mydyno.model.definition.experiment import Step
from mydyno.model.definition.quantities import format_duration
from mydyno.model.definition.special_steps import speed_of
from mydyno.model.stored.records import SliceRecord
from mydyno.wording.numbers import NONE, latency_text

NOTE = (
    "A transaction is late if its session was still waiting for the answer before it, or if the load program was late. "
    "Response times count from when it was due. Statements within a transaction follow one another without the "
    "captured pauses."
)


def part(result: StudyResult) -> Part | None:
    """The section; None without a replay at captured times in slices."""
    steps = [step for step in result.study.experiment.resolved_steps if speed_of(step) is not None]
    found = {step.id: [one for one in result.used_slices(step.id) if one.captured] for step in steps}
    played = [step for step in steps if found[step.id]]
    if not played:
        return None
    return Part(
        id="replay", heading="What was replayed", folded=True,
        says="which part of the capture was played, and how late its transactions began",
        body=[
            Note(" ".join(sentence(step, found[step.id]) for step in played), "intro"),
            *(table(step.id, found[step.id], tuple(result.styles)) for step in played),
            Note(NOTE),
        ],
    )  # fmt: skip


def sentence(step: Step, slices: Sequence[SliceRecord]) -> str:
    """The part of the capture, the speed, and that it was the same for all arms."""
    ends_s: dict[int, float] = {}
    for one in slices:
        ends_s[one.block] = max(ends_s.get(one.block, 0.0), one.captured["end_s"])
    shortest, longest = format_duration(min(ends_s.values())), format_duration(max(ends_s.values()))
    first = longest if shortest == longest else f"{shortest} to {longest}"
    length = format_duration(slices[0].captured["length_s"])
    return agreed(
        f"{step.id}: each block played the first {first} of a capture, at {speed_of(step):g} times the captured speed "
        f"(at which the capture lasts {length}), each session on a connection of its own. The slices of a cycle played "
        "the same part of it on every arm."
    )


def table(step: str, slices: Sequence[SliceRecord], arms: Sequence[str]) -> Table:
    """How late transactions began, and the part of it that the load program caused; the control by its first copy."""
    rows: list[Sequence[str | Cell]] = []
    for arm in arms:
        own = [one for one in slices if (one.arm, one.copy_number) == (arm, 1) and one.transactions]
        if not own:
            continue
        count = sum(one.transactions for one in own)
        known = [one for one in own if one.service_us is not None and "mean" in one.latency_us]
        late_us = sum(one.transactions * (one.latency_us["mean"] - (one.service_us or 0.0)) for one in known)
        lags = [one.captured["own_lag_p99_us"] for one in own if "own_lag_p99_us" in one.captured]
        late = latency_text(max(0.0, late_us / sum(one.transactions for one in known))) if known else NONE
        worst = latency_text(max(0.0, *lags)) if lags else NONE
        rows.append([arm, Cell(f"{count:,}", "num"), Cell(late, "num"), Cell(worst, "num")])
    head = ["arm", "transactions", "began late by, mean", "by the load program, worst p99 of a slice"]
    return Table(step, head, rows)


ANALYSIS = Analysis(chapter="trust", part=part)
