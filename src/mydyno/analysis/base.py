"""What an analysis is, and what it is made from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from mydyno.document.parts import Part
from mydyno.document.result import StudyResult
from mydyno.model.definition.experiment import Experiment, ThresholdSpec
from mydyno.model.definition.plan import Plan
from mydyno.model.stored.records import RunRecord, SliceRecord
from mydyno.model.stored.summary import EffectRecord, RunSummary, Summary, used_slices
from mydyno.results.precision import used_logs
from mydyno.verdicts import Family

Chapter = Literal["decision", "answer", "why", "load", "trust"]
"""Chapters of the report that have analyses; the decision is the first part of the answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """A study as analyses compute from it: the blocks that a look examines, or all finished ones."""

    experiment: Experiment
    runs: Sequence[RunSummary]
    alpha: float
    """The error rate of the look."""
    slices: Sequence[SliceRecord] = ()
    families: Sequence[Family] = ()
    effects: Sequence[EffectRecord] = ()
    due: bool = True
    """Whether effects are decided; not before the first look."""
    alarm: bool = False
    """Whether the control differs from its own copy."""
    path: Path = Path()
    """The study's folder."""
    records: Sequence[RunRecord] = ()
    """What the runs recorded."""
    apart: Mapping[str, Sequence[SliceRecord]] = field(default_factory=dict)
    """{file of a block: slices in which something else was measured}."""
    alpha_of_causes: float | None = None
    """The error rate of each kind of causes; None: no look is due, and nothing is claimed."""
    every_record: Sequence[RunRecord] = ()
    """Of runs of later blocks too."""
    cpus: Mapping[str, float] = field(default_factory=dict)
    """{host group: usable CPUs of its server host}; that of "" where there is one."""
    every_run: Sequence[RunSummary] = ()
    """Those of later blocks too."""
    hosts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """{host group: facts of its server host}; empty where there is one."""
    plan: Plan | None = None
    thresholds: Sequence[ThresholdSpec] = ()
    """Those that are decided: the experiment's, or others."""
    interrupted: bool = False
    """Whether runs are missing, and the study did not end by itself."""
    found: Mapping[str, Any] = field(default_factory=dict)
    """{field of Summary: record} of the analyses before this one in the list."""

    def logs(self, metric: str, step: str) -> dict[int, dict[str, float]]:
        """{block: {arm: log of its value}} of the runs that count; the control's is the mean of its copies."""
        return used_logs(self.runs, metric, step)

    @property
    def used_slices(self) -> list[SliceRecord]:
        """Slices of runs that count at their step."""
        return used_slices(self.slices, self.runs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Analysis:
    """One idea, as the last lines of its file declare it."""

    chapter: Chapter = "why"
    part: Callable[[StudyResult], Part | None] = lambda _: None
    """Its part of the report; None: the study has none."""
    comment: Callable[[StudyResult], Part | None] = lambda _: None
    """Its part of a comment on a pull request."""
    stored: str = ""
    """The field of Summary that has its record; empty: nothing is stored."""
    analyse: Callable[[Examined], Any] | None = None
    """The record. None with `stored` empty."""
    say: Callable[[Summary, str], list[str]] = lambda *_: []
    """What it answers on a metric of the question, in place of sentences on what single comparisons decide."""
    says_all: bool = True
    """Whether nothing is said of undecided comparisons beside `say`."""
    adds: Callable[[Summary], str] = lambda _: ""
    """Its sentence in the answer, after those on the question; empty: none."""
    decides: Callable[[Summary], list[str]] = lambda _: []
    """Its sentences before everything else in the answer."""
    always: Callable[[Summary], list[str]] = lambda _: []
    """Its sentences that hold whatever the control's copies do, and before any look."""
    lines: Callable[[StudyResult], list[str]] = lambda _: []
    """What a terminal shows of it below the answer."""
    files: Callable[[Experiment, Summary], Mapping[str, str]] = lambda *_: {}
    """{name: text} of what is written beside summary.json."""
