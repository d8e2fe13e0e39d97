"""The history of an experiment on one host, as `mydyno history --format json` prints it. Frozen; no I/O."""

from __future__ import annotations

from typing import Literal

from mydyno.model.frozen_record import Record
from mydyno.model.stored.summary import StepLevel


class HistoryPoint(Record):
    """One study's value in a series, with its own 95 % interval."""

    study: str
    created_unix_ns: int
    server: str
    mydyno_version: str
    n: int
    """Blocks."""
    value: float
    """An effect: arm divided by control. A level: the metric in its unit."""
    ci_low: float
    ci_high: float
    changed: tuple[str, ...] = ()
    """What differs from the study before: "server: MariaDB 10.11.18 → MariaDB 10.11.19"."""


class LevelChange(Record):
    """A lasting change in a series."""

    study: str
    """The first study of the new level."""
    before: str
    """The last study of the old level."""
    ratio: float
    """New level divided by the old one; of effects, ratio of ratios."""
    ci_low: float
    ci_high: float
    """Interval at 95 %, adjusted for the changes of its series."""
    changed: tuple[str, ...] = ()
    """What was recorded to differ between these two studies."""


class SeriesLevel(Record):
    """The common value of the studies between two changes."""

    first: str
    last: str
    studies: int
    value: float
    ci_low: float
    ci_high: float


class HistorySeries(Record):
    """One arm, step and metric over the studies, oldest first."""

    kind: Literal["effect", "level"]
    metric: str
    step: str
    arm: str
    control: str
    """The arm that an effect is relative to; empty for a level."""
    points: tuple[HistoryPoint, ...]
    missing: tuple[str, ...] = ()
    """Studies of the history that have no value here: the arm failed, is not in them, or has fewer than two blocks."""
    levels: tuple[SeriesLevel, ...]
    changes: tuple[LevelChange, ...]
    p: float | None
    """p-value of the test for any change in this series; None with fewer than four studies."""
    session_sd: float
    """Standard deviation between sessions beyond each one's own error, of the log: 0.01 is about 1 %."""
    detectable: float | None
    """The change in the middle of the series that would be found in about 80 % of cases, as a share."""
    sentence: str


class LeftOut(Record):
    """A study that is not part of the history, and why."""

    study: str
    reason: str


class History(Record):
    """All studies of one experiment on one host."""

    format: int = 2
    """Format 1 had `calibration`, over all studies of the host."""
    experiment: str
    question: str
    host: str
    answer: tuple[str, ...]
    studies: tuple[str, ...]
    """The studies that count, oldest first."""
    steps: tuple[StepLevel, ...]
    series: tuple[HistorySeries, ...]
    left_out: tuple[LeftOut, ...] = ()
    alpha: float = 0.05
    """The rate at which unchanged series show a change, over all series together."""
