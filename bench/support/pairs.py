"""Two programs compared: short runs of both in the order ABBA, the ratio with its interval, the table.

Each pair gives one logarithm of a ratio. The figure is the geometric mean of the ratios, its interval the 95 % t
interval of the mean of their logarithms. A slow drift of the machine is the same for both programs of a pair, and ABBA
removes what is linear in it over two pairs.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any, Generic, TypeVar

from scipy import stats

from support.programs import BenchError, Program, others, say

CONFIDENCE = 0.95
MOST_TAKEN = 0.10
"""Share of this host's CPU time that others may take: above it no target is judged."""
MOST_OF_BEFORE = 1.02
"""What a change may make dynoload's CPU time."""
BEFORE_HELP = "only compare with this earlier dynoload"
Measured = TypeVar("Measured")


@dataclass(frozen=True)
class Ratio:
    """A ratio with its interval; without one (NaN) where there is one pair only."""

    value: float
    low: float
    high: float
    pairs: int
    taken: float = 0.0
    """Share of the host's CPU time that other programs and the hypervisor took meanwhile, 0 to 1."""

    @classmethod
    def of(cls, ratios: Sequence[float]) -> Ratio:
        """The geometric mean of paired ratios. Raises BenchError where one of them is not above 0."""
        if not ratios or not all(math.isfinite(ratio) and ratio > 0 for ratio in ratios):
            raise BenchError(f"no ratio can be made of {list(ratios)}: a program has measured nothing")
        logs = [math.log(ratio) for ratio in ratios]
        mean = statistics.fmean(logs)
        if len(logs) < 2:
            return cls(math.exp(mean), math.nan, math.nan, 1)
        quantile = float(stats.t.ppf(0.5 + CONFIDENCE / 2, len(logs) - 1))
        half_width = quantile * statistics.stdev(logs) / math.sqrt(len(logs))
        return cls(math.exp(mean), math.exp(mean - half_width), math.exp(mean + half_width), len(logs))

    def __str__(self) -> str:
        interval = "no interval" if math.isnan(self.low) else f"{self.low:.3f} to {self.high:.3f}"
        return f"{self.value:6.3f}  ({interval}, {self.pairs} pairs)"


@dataclass(frozen=True)
class Target:
    """What a ratio is to be at most, or at least."""

    limit: float
    at_most: bool = True

    def verdict(self, ratio: Ratio) -> str:
        """Holds or MISSED where the whole interval says so, else undecided; nothing where others took the CPUs."""
        if ratio.taken > MOST_TAKEN:
            return f"not judged: others took {ratio.taken:.0%} of the CPUs"
        ends = [ratio.value if math.isnan(end) else end for end in (ratio.low, ratio.high)]
        within = [end <= self.limit if self.at_most else end >= self.limit for end in ends]
        if all(within):
            return "holds"
        return "undecided" if any(within) else "MISSED"

    def __str__(self) -> str:
        return f"{'<=' if self.at_most else '>='} {self.limit:g}"


@dataclass
class Line:
    """One line of the result: a figure of dynoload as a ratio to another program's. Printed as soon as it is made."""

    name: str
    figure: str
    ratio: Ratio
    target: Target | None = None
    runs: list[dict[str, float]] = field(default_factory=list)
    state: str = ""
    """State of the host, shown beside the figure."""

    def __post_init__(self) -> None:
        say(f"  {self.text()}")

    @property
    def verdict(self) -> str:
        """The target's verdict; empty without a target."""
        return self.target.verdict(self.ratio) if self.target else ""

    def text(self) -> str:
        """The line for a person, without its name."""
        target = f"{self.target} {self.verdict}" if self.target else ""
        state = f"  [{self.state}]" if self.state else ""
        return f"{self.figure:<39} {self.ratio!s:<38} {target}".rstrip() + state

    def record(self) -> dict[str, Any]:
        """The line for JSON."""
        return {**asdict(self), "verdict": self.verdict}


@dataclass
class Figure:
    """A figure of one program alone, with a limit: nothing is compared."""

    name: str
    figure: str
    value: float
    limit: float
    unit: str
    runs: list[dict[str, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        say(f"  {self.text()}")

    @property
    def verdict(self) -> str:
        """Whether the limit is kept."""
        return "holds" if self.value <= self.limit else "MISSED"

    def text(self) -> str:
        """The line for a person, without its name."""
        return f"{self.figure:<39} {self.value:6.4g} {self.unit:<31} <= {self.limit:g} {self.unit} {self.verdict}"

    def record(self) -> dict[str, Any]:
        """The line for JSON."""
        return {**asdict(self), "verdict": self.verdict}


@dataclass(frozen=True)
class Pairs(Generic[Measured]):
    """The runs of both programs, in pairs."""

    runs: list[tuple[Measured, Measured]]
    taken: float = 0.0
    """Share of the host's CPU time that other programs and the hypervisor took meanwhile, 0 to 1."""

    def ratio(self, figure: str) -> Ratio:
        """The ratio of one figure, ours to theirs."""
        found = Ratio.of([getattr(mine, figure) / getattr(other, figure) for mine, other in self.runs])
        return replace(found, taken=self.taken)

    def mean_interrupts(self) -> str:
        """For a line: for each operation, ours and theirs."""
        ours, theirs = ([getattr(pair[side], "interrupts_each", 0.0) for pair in self.runs] for side in (0, 1))
        return (
            f"interrupts between CPUs: {statistics.fmean(ours):.2f} an operation, theirs {statistics.fmean(theirs):.2f}"
        )

    def records(self) -> list[dict[str, float]]:
        """The figures of every pair."""
        return [
            {
                f"{side}_{name}": value
                for side, measured in (("ours", mine), ("theirs", other))
                for name, value in vars(measured).items()
            }
            for mine, other in self.runs
        ]


def paired(count: int, ours: Callable[[], Measured], theirs: Callable[[], Measured]) -> Pairs[Measured]:
    """Runs of both programs in the order ABBA ABBA …"""
    runs = []
    others.take()
    for pair in range(count):
        if pair % 2 == 0:
            mine = ours()
            other = theirs()
        else:
            other = theirs()
            mine = ours()
        runs.append((mine, other))
    return Pairs(runs, others.take())


def against_before(count: int, name: str, measure: Callable[[Program], Load], now: Program, before: Program) -> Line:
    """CPU time of dynoload for each operation, as a ratio to that of an earlier dynoload."""
    say(f"{name}, against the earlier dynoload")
    pairs = paired(count, partial(measure, now), partial(measure, before))
    ratio, state = pairs.ratio("cpu_us"), pairs.mean_interrupts()
    return Line(name, "CPU an operation / before", ratio, Target(MOST_OF_BEFORE), pairs.records(), state)


@dataclass(frozen=True)
class Load:
    """One run of one load program."""

    operations: float
    elapsed_s: float
    cpu_s: float
    rss_bytes: float
    interrupts: float = 0.0

    @property
    def cpu_us(self) -> float:
        """CPU time of the client for each operation, µs."""
        return self.cpu_s * 1e6 / max(self.operations, 1)

    @property
    def interrupts_each(self) -> float:
        """Interrupts that one CPU sent another, for each operation: which state the host was in."""
        return self.interrupts / max(self.operations, 1)

    @property
    def per_s(self) -> float:
        """Operations per second."""
        return self.operations / self.elapsed_s
