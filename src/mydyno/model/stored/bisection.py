"""What a bisection stores: bisect.json, written once, and result.json. Frozen; no I/O.

The file formats are described in docs/reference/study-folder.md.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from mydyno.model.definition.experiment import Experiment
from mydyno.model.frozen_record import Record, is_empty

BISECT_FORMAT = 1
State = Literal["found", "range", "no difference", "better", "undecided", "unfinished"]
"""found: the first bad commit; range: it is one of several, because the others were skipped; the next three are of the
two ends: they do not differ, bad is better than good, or undecided; unfinished: interrupted."""
Outcome = Literal["good", "bad", "skipped"]
SkipReason = Literal["", "build", "start", "failed", "undecided", "invalid"]
"""Why a commit was skipped: it does not build, its server does not start, failed under load, was undecided
after the longest time, or the study has no valid run."""


class Commit(Record):
    """One commit."""

    hash: str
    subject: str = ""
    author: str = ""
    date: str = ""
    """Date of the commit, ISO 8601."""

    @property
    def short(self) -> str:
        """Twelve letters of the hash."""
        return self.hash[:12]


class Comparison(Record):
    """One commit compared with the good end, in a study of its own.

    `ratio` is commit divided by good, with its interval at the study's latest interim analysis; None if not measured.
    """

    commit: Commit
    outcome: Outcome
    skipped_because: SkipReason = ""
    reason: str = ""
    """Why the commit was skipped, in words."""
    study: str = ""
    """The study's folder below the bisection's; empty if none was made."""
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    confidence: float | None = None
    """Confidence level of the interval from `low` to `high`: 1 minus the error rate of the interim analysis."""
    plain: float | None = Field(None, exclude_if=is_empty)
    """The ratio without the adjustment for the host's speed; None: nothing is adjusted."""
    blocks: int = 0
    duration_s: float = 0.0
    """From the first run's start to the last one's end."""
    times: int = 1
    """How often the study was given time: more than once if it was undecided."""


class BisectOptions(Record):
    """The experiment and the options of one bisection."""

    experiment: Experiment
    """As it was given; every comparison has its control's treatments."""
    experiment_source: str = ""
    metric: str
    threshold: float | None = None
    """The share by which a bad commit is worse than good; None: half of the difference of the ends."""
    step: str | None = None
    """The load level that decides; None: the one at which the ends differ most clearly."""
    longest_s: float | None = None
    """For one comparison; None: it is not given more time."""
    first_parent: bool = False
    error_rate: float = 0.05
    """The largest chance that the bisection ends at a wrong commit or range; its studies share it."""


class BisectRecord(BisectOptions):
    """bisect.json: what was asked."""

    format: int = BISECT_FORMAT
    bisection: str
    """Its name: that of the folder."""
    created_unix_ns: int
    mydyno_version: str
    command: tuple[str, ...] = ()
    good: Commit
    bad: Commit
    commits: int
    """After good, up to and with bad."""


class Ends(Record):
    """Good and bad compared: whether they differ, and the limit of the comparisons that follow."""

    comparison: Comparison
    state: Literal["differ", "no difference", "better", "undecided"]
    step: str = ""
    """The load level at which every commit is compared."""
    limit: float | None = None
    """Ratio to good: a commit beyond it is bad, one within it is good."""


class Remainder(Record):
    """The named commit changes more or less than the ends differ by: a later commit changes the metric, too."""

    named: Literal["more", "less"]
    """What the named commit does, compared with the difference of the ends; their intervals do not overlap."""
    command: str = ""
    """The bisection that continues; empty if only the bad end comes after the named commit."""


class BisectResult(Record):
    """result.json: the path and what it led to."""

    format: int = BISECT_FORMAT
    bisection: str
    state: State
    first_bad: Commit | None = None
    remainder: Remainder | None = None
    """Where state is found: None if the first bad commit can account for all that the ends differ by."""
    suspects: tuple[Commit, ...] = ()
    """Where state is range: the commits of which one is the first bad one, oldest first."""
    ends: Ends | None = None
    comparisons: tuple[Comparison, ...] = ()
    """In the order in which they were made, without the ends."""
    left: int = 0
    """Commits among which the first bad one is, where the state is unfinished."""
    better: str = Field("higher", description="of the metric")
