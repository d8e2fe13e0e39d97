"""The list of analyses, and what is made by all of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mydyno.analysis import (
    builds,
    candidates,
    capacity,
    costs,
    factors,
    gate,
    host_groups,
    kernel,
    key_values,
    limits,
    memory,
    operations,
    profiles,
    published,
    queueing,
    replay,
    scalability,
    screening,
    servers,
    statements,
    waits,
)
from mydyno.analysis.base import Analysis, Chapter, Examined
from mydyno.document.parts import Part
from mydyno.document.result import StudyResult
from mydyno.model.definition.experiment import Experiment
from mydyno.model.stored.summary import Summary

ANALYSES: tuple[Analysis, ...] = (
    limits.ANALYSIS,
    factors.ANALYSIS,
    screening.ANALYSIS,
    capacity.ANALYSIS,
    statements.ANALYSIS,
    key_values.ANALYSIS,
    host_groups.ANALYSIS,
    costs.ANALYSIS,
    operations.ANALYSIS,
    waits.ANALYSIS,
    kernel.ANALYSIS,
    profiles.ANALYSIS,
    candidates.ANALYSIS,
    queueing.ANALYSIS,
    memory.ANALYSIS,
    scalability.ANALYSIS,
    servers.ANALYSIS,
    builds.ANALYSIS,
    published.CONCLUSIONS,
    published.ANALYSIS,
    replay.ANALYSIS,
    gate.ANALYSIS,
)
"""In the order of the report; of several that answer on a metric, the last one is heard."""
gate_document, junit, bencher = gate.document, gate.junit, gate.bencher
"""What `mydyno gate` prints and writes."""


def records_of(study: Examined) -> dict[str, Any]:
    """{field of Summary: record}."""
    for one in ANALYSES:
        if one.analyse is not None:
            study = replace(study, found={**study.found, one.stored: one.analyse(study)})
    return dict(study.found)


def files_of(experiment: Experiment, summary: Summary) -> dict[str, str]:
    """{name: text} of what is written beside summary.json."""
    return {name: text for one in ANALYSES for name, text in one.files(experiment, summary).items()}


def said_of(summary: Summary, metric: str) -> tuple[list[str], bool]:
    """(sentences on a metric of the question, whether they are all that is said of it); none: no analysis answers."""
    found: tuple[list[str], bool] = [], False
    for one in ANALYSES:
        if sentences := one.say(summary, metric):
            found = sentences, one.says_all
    return found


def added_of(summary: Summary) -> list[str]:
    """The answer's sentences beside those on the question."""
    return [sentence for one in ANALYSES if (sentence := one.adds(summary))]


def decided_of(summary: Summary) -> list[str]:
    """What the answer begins with."""
    return [sentence for one in ANALYSES for sentence in one.decides(summary)]


def always_of(summary: Summary) -> list[str]:
    """What holds even where no effect is decided."""
    return [sentence for one in ANALYSES for sentence in one.always(summary)]


def lines_of(result: StudyResult) -> list[str]:
    """What a terminal shows below the answer."""
    return [line for one in ANALYSES for line in one.lines(result)]


def comment_of(result: StudyResult) -> list[Part]:
    """The parts of a comment on a pull request."""
    return [part for one in ANALYSES if (part := one.comment(result)) is not None]


def parts_of(result: StudyResult, chapter: Chapter) -> list[Part]:
    """The parts of a chapter of the report."""
    return [part for one in ANALYSES if one.chapter == chapter and (part := one.part(result)) is not None]
