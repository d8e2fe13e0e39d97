"""The plan: which runs, in which order, and after how many blocks effects may be examined. A pure function of the
experiment and its seed.

Random complete blocks (reference: Bakshy & Frachtenberg 2015; Abedi & Brecht 2017): each block holds every arm once and
a second copy of the control, in random order; over the blocks every arm is first equally often. Where servers are
loaded in turn, the treated arms may have a second copy too (`design.copies`). The steps inside a run are in random
order too, the same for all runs of a block.

With a time a study is group-sequential. One interim analysis (files and variables call it a look) is aimed for: it
falls where the study's time ends, after any number of blocks, and has most of the error rate. Others at fixed numbers
of blocks before it, which only clear effects pass, and after it, for blocks that are added, have little each. The
chance of a false difference over all of them is at most the study's error rate, 5 % if it sets no other
(verdict.error_rate). The rates sum to more, as the analyses share their blocks: they are such that t tests of
independent normal blocks, each with its own estimate of the noise, stay below it together (simulated; Lan and DeMets,
Biometrika 70 (1983)). Between them only the precision may be shown, never an effect.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from pydantic import Field

from mydyno.model.definition.experiment import ArmSpec, DesignKind, Experiment, Frozen
from mydyno.model.definition.specs import TOTAL

_SMALL = {6: 0.004, 10: 0.004, 16: 0.004, 26: 0.005, 40: 0.00575}
"""Blocks → error rate of an analysis that is not the one aimed for, of TOTAL."""
INTERIM_BLOCKS = tuple(_SMALL)
AIMED, _AIMED_OF_SMALL = 0.036, 0.03
"""Error rate of the analysis aimed for, of TOTAL; and where the study's is smaller, as analyses then share less."""
EARLY = 4
"""Fewest blocks of the analysis that is aimed for. Clear effects pass it; equivalence needs six."""


@dataclass(frozen=True, slots=True)
class InterimAnalyses:
    """Those of one study: blocks → error rate, ascending."""

    rates: Mapping[int, float]

    def alpha_at(self, blocks: int) -> float | None:
        """The error rate of the analysis at exactly this number of blocks; None if none is due."""
        return self.rates.get(blocks)

    def next_after(self, blocks: int) -> int | None:
        """The blocks of the first analysis after this number of blocks; None after the last one."""
        return next((look for look in self.rates if look > blocks), None)

    def latest(self, blocks: int) -> int | None:
        """The blocks of the latest analysis that this number of blocks has reached; None before the first one."""
        return max((look for look in self.rates if look <= blocks), default=None)

    @property
    def first(self) -> int:
        """The blocks of the first analysis."""
        return min(self.rates)

    @property
    def last(self) -> int:
        """The blocks of the last analysis."""
        return max(self.rates)

    @property
    def aim(self) -> int:
        """The blocks of the analysis that is aimed for."""
        return max(self.rates, key=self.rates.__getitem__)


def interim_aimed_at(blocks: int, total: float = TOTAL) -> InterimAnalyses:
    """Those of a study whose time allows so many blocks: at least EARLY, at most the last analysis's are aimed for.

    `total` is the error rate of all together: each has the same share of it as of TOTAL.

    The rates before the aim are the same for every aim. So until the analysis aimed for was made, another one after
    those made can be aimed for instead, if no effect plays a part in that choice.
    """
    aim = min(max(blocks, EARLY), INTERIM_BLOCKS[-1])
    rates = sorted({**_SMALL, aim: AIMED if total >= TOTAL else _AIMED_OF_SMALL}.items())
    return InterimAnalyses({look: round(rate * (total / TOTAL), 8) for look, rate in rates})


SIX = interim_aimed_at(6)
"""Those of studies whose plan does not state them."""


ENVIRONMENT_PADDING_MAX_BYTES = 4096


def _is_one(value: int) -> bool:
    return value == 1


class PlannedRun(Frozen):
    """One run to be made: an arm (copy 2 of the control is the A/A copy) at a position of a block."""

    block: int = Field(ge=1)
    position: int = Field(ge=1)
    arm: str
    copy_number: int = Field(1, ge=1, le=2, alias="copy")
    environment_padding_bytes: int = 0
    """Size of a meaningless environment variable: the environment's size moves the stack (Mytkowicz 2009)."""
    places: tuple[int, ...] = (1,)
    """The place (which CPUs, which share of the host) of each instance, counted from 1."""
    build: int = Field(1, ge=1, exclude_if=_is_one)
    """Which build of its server it runs, where the arm has several of one commit (`builds`), or which instance, where
    it has a list of those that run already (`dsn`)."""

    @property
    def folder(self) -> str:
        """The run's folder below the study: blocks/01/3-jemalloc, and blocks/01/4-glibc.2 for a second copy."""
        suffix = ".2" if self.copy_number == 2 else ""
        return f"blocks/{self.block:02d}/{self.position}-{self.arm}{suffix}"


class PlannedBlock(Frozen):
    """One block: its runs in order, and the order of steps inside each of them."""

    block: int
    runs: tuple[PlannedRun, ...]
    step_order: tuple[str, ...]


class Plan(Frozen):
    """All blocks of a study."""

    format: int = 1
    seed: int
    design: DesignKind = "blocks"
    why: str = ""
    """Why this design."""
    sequential: bool = False
    """Whether blocks are added until the time is spent or every contrast is decided, with interim analyses."""
    looks: dict[int, float] | None = None
    """Blocks → error rate of each interim analysis of a sequential study; None: those of studies aimed at 6 blocks."""
    blocks: tuple[PlannedBlock, ...]

    @property
    def schedule(self) -> InterimAnalyses | None:
        """The looks of a sequential study; None: it is examined once."""
        if not self.sequential:
            return None
        return SIX if self.looks is None else InterimAnalyses(self.looks)

    def ending_at(self, blocks: int) -> Plan:
        """The plan of a study that ends after so many blocks."""
        return self.model_copy(update={"blocks": self.blocks[:blocks]})

    @property
    def runs(self) -> tuple[PlannedRun, ...]:
        """Every run in the order of execution."""
        return tuple(run for block in self.blocks for run in block.runs)


@dataclass(frozen=True)
class Design:
    """How the blocks of a study are executed."""

    kind: DesignKind = "blocks"
    why: str = ""


def make_plan(experiment: Experiment, design: Design | None = None, blocks: int | None = None) -> Plan:
    """The plan of a study: the same experiment and seed give the same plan on every machine.

    `blocks` overrides the experiment's own number; the first blocks of a longer plan are those of a shorter one.
    """
    chosen = design or Design()
    count = experiment.design.blocks if blocks is None else blocks
    random = Random(f"mydyno-plan-1-{experiment.design.seed}")
    candidates = [(arm.name, 1) for arm in experiment.arms] + [
        (arm.name, 2)
        for arm in experiment.arms
        if arm.name == experiment.control or (chosen.kind != "blocks" and experiment.copies_of(arm) > 1)
    ]
    step_ids = [step.id for step in experiment.resolved_steps]
    firsts: list[tuple[str, int]] = []
    places = _places(experiment, count)
    builds = {arm.name: _builds(experiment, arm, count) for arm in experiment.arms}
    planned = []
    for number in range(1, count + 1):
        if not firsts:
            firsts = random.sample(candidates, len(candidates))
        first = firsts.pop()
        rest = [candidate for candidate in candidates if candidate != first]
        order = [first, *random.sample(rest, len(rest))]
        runs = tuple(
            PlannedRun(
                block=number,
                position=position,
                arm=arm,
                copy_number=copy,
                environment_padding_bytes=random.randrange(0, ENVIRONMENT_PADDING_MAX_BYTES, 16),
                places=places[number - 1][: experiment.instances_of(experiment.arm(arm))],
                build=builds[arm][number - 1][copy - 1],
            )
            for position, (arm, copy) in enumerate(order, 1)
        )
        planned.append(PlannedBlock(block=number, runs=runs, step_order=tuple(random.sample(step_ids, len(step_ids)))))
    sequential = chosen.kind != "blocks" and experiment.design.time is not None
    return Plan(
        seed=experiment.design.seed,
        design=chosen.kind,
        why=chosen.why,
        sequential=sequential,
        looks=_looks(experiment, count) if sequential else None,
        blocks=tuple(planned),
    )


def _looks(experiment: Experiment, blocks: int) -> dict[int, float]:
    """Blocks → error rate. Where blocks are instances there are no others to add: one look, at the last."""
    rate = experiment.verdict.error_rate
    return {blocks: rate} if instances_of_each(experiment) > 1 else dict(interim_aimed_at(blocks, rate).rates)


def _places(experiment: Experiment, blocks: int) -> list[tuple[int, ...]]:
    """The places of the instances in each block: they swap, the same for all arms of a block, each place as often.

    Over as many blocks as there are instances every instance is at every place once (a Latin square), in random order;
    its randomness is its own, so that experiments with one instance keep the order of runs that they had.
    """
    random = Random(f"mydyno-places-1-{experiment.design.seed}")
    count = experiment.most_instances
    rounds: list[tuple[int, ...]] = []
    while len(rounds) < blocks:
        first = random.sample(range(1, count + 1), count)
        shifts = random.sample(range(count), count)
        rounds += [tuple(first[shift:] + first[:shift]) for shift in shifts]
    return rounds[:blocks]


def lanes_of_block(experiment: Experiment) -> int:
    """How many lanes a block of a study has that loads them in turn."""
    return sum(map(experiment.copies_of, experiment.arms))


def servers_together(experiment: Experiment) -> int:
    """How many servers a block of an interleaved study starts."""
    return sum(experiment.instances_of(arm) * experiment.copies_of(arm) for arm in experiment.arms)


def builds_of(arm: ArmSpec) -> int:
    """The number of builds of the arm's server that alternate over the blocks."""
    server = arm.treatments.get("server")
    build = server.get("build") if isinstance(server, dict) else None
    return int(build.get("builds", 1)) if isinstance(build, dict) else 1


def running_instances(arm: ArmSpec) -> int:
    """How many servers that run already the arm has: a block has one of them, and blocks are as many; 1 elsewhere."""
    dsn = arm.treatments.get("dsn")
    return len(dsn) if isinstance(dsn, list) else 1


def instances_of_each(experiment: Experiment) -> int:
    """The same of all arms: each has as many."""
    return running_instances(experiment.arm(experiment.control))


def _builds(experiment: Experiment, arm: ArmSpec, blocks: int) -> list[tuple[int, int]]:
    """(the build or instance that the arm runs, that of its second copy) in each block.

    In as many blocks as there are builds each is used once, in random order. The two copies of the control never run
    the same one in a block: the difference between them then includes what a difference in layout, or between
    instances, alone makes.
    """
    count = max(builds_of(arm), running_instances(arm))
    if count == 1:
        return [(1, 1)] * blocks
    random = Random(f"mydyno-builds-1-{experiment.design.seed}-{arm.name}")
    rounds: list[tuple[int, int]] = []
    while len(rounds) < blocks:
        order = random.sample(range(1, count + 1), count)
        shift = random.randrange(1, count)
        rounds += zip(order, order[shift:] + order[:shift], strict=True)
    return rounds[:blocks]
