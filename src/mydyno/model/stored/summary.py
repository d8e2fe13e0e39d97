"""summary.json: effects, verdicts and everything else that reports print. Frozen; no I/O.

The file format is described in docs/reference/study-folder.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, TypeVar

from pydantic import Field

from mydyno.model.definition.experiment import DesignKind
from mydyno.model.definition.quantities import load_level
from mydyno.model.frozen_record import OfContrast, Record, is_empty
from mydyno.model.metrics import Metric, Phrase, phrase_of
from mydyno.model.stored.analyses import (
    CandidateRecord,
    CapacityRecord,
    FactorsRecord,
    GateRecord,
    OperationsRecord,
    PublishedEntry,
    ScalabilityRecord,
    ScreenRecord,
    StatementsRecord,
)
from mydyno.model.stored.counted import KernelRecord, ProfilesRecord, WaitsRecord
from mydyno.model.stored.reasons import Alarm, ArmFailure, Fact, Reason
from mydyno.model.stored.records import FORMAT, RunFacts, RunRecord, SliceRecord, StudyRecord


class Window(Record):
    """The part of a step that counts, in seconds from the start of its load; one for all runs of the study."""

    from_s: float
    to_s: float


class RunSummary(RunFacts):
    """One run in summary.json: values[step][metric] over the common window."""

    invalid_steps: dict[str, tuple[Reason, ...]] = Field(default_factory=dict)
    """Steps of a valid run that are not used, with the reasons."""
    failures: dict[str, str] = Field(default_factory=dict)
    """Step → why the arm itself failed there; a run that failed as a whole has every step here."""
    values: dict[str, dict[str, float]] = Field(default_factory=dict)
    unadjusted: dict[str, dict[str, float]] = Field(default_factory=dict)
    """For an interleaved study, the values before they were adjusted for the host's speed."""

    @classmethod
    def of(cls, run: RunRecord, **more: Any) -> RunSummary:
        """As like(), with the steps that are not valid."""
        return cls.like(run, **{"invalid_steps": {step.id: step.reasons for step in run.steps if step.reasons}} | more)

    def usable(self, step: str) -> bool:
        """Whether the step counts: no validity check of run or step failed, nor did the arm there."""
        return self.valid and step not in self.invalid_steps and step not in self.failures


T = TypeVar("T", SliceRecord, RunRecord)


def with_summaries(records: Iterable[T], runs: Iterable[RunSummary]) -> Iterator[tuple[T, RunSummary]]:
    """Each record with the summary of its run, where there is one."""
    of = {(run.block, run.arm, run.copy_number): run for run in runs}
    found = ((one, of.get((one.block, one.arm, one.copy_number))) for one in records)
    return ((one, run) for one, run in found if run is not None)


def used_slices(slices: Iterable[SliceRecord], runs: Iterable[RunSummary]) -> list[SliceRecord]:
    """Those of runs that count at the slice's step."""
    return [one for one, run in with_summaries(slices, runs) if run.usable(one.step)]


def block_groups(runs: Iterable[RunSummary]) -> dict[int, str]:
    """{block: the host group that executed it}; empty if there is one group."""
    found = {run.block: run.host_group for run in runs}
    return found if len(set(found.values())) > 1 else {}


class StepLevel(Record):
    """One step as summary.json names it."""

    id: str
    workload: str
    connections: int
    rate: float | None = None
    """Transactions a second of an open loop; None: a closed loop."""

    @property
    def level(self) -> str:
        """The level alone, as `load_level` says it."""
        return load_level(self.connections, self.rate)

    @property
    def short_level(self) -> str:
        """The level where there is little room, e.g. "32 connections", "5,000/s"."""
        return self.level if self.rate is None else f"{self.rate:,.10g}/s"

    @property
    def amount(self) -> float:
        """The level as a number: of connections, or of transactions a second in an open loop."""
        return self.connections if self.rate is None else self.rate

    @property
    def amount_text(self) -> str:
        """That number for a table or an axis."""
        return f"{self.amount:.10g}"

    @property
    def amount_name(self) -> str:
        """What that number counts."""
        return "connections" if self.rate is None else "transactions/s"


def step_words(steps: Sequence[StepLevel], step: str) -> str:
    """A step by its level; with the workload where there are several, or no other step."""
    found = next((one for one in steps if one.id == step), None)
    several = len({one.workload for one in steps}) > 1 or len(steps) == 1
    return step if found is None else f"{found.workload}, {found.level}" if several else found.level


def at_step(steps: Sequence[StepLevel], step: str) -> str:
    """ " at 64 connections", with the workload where there are several; empty where there is only one step."""
    one = next((one for one in steps if one.id == step), None)
    workload = f" ({one.workload})" if one is not None and len({each.workload for each in steps}) > 1 else ""
    return f" at {step if one is None else one.level}{workload}" if len(steps) > 1 else ""


class EffectDetails(Record):
    """What the report shows of an effect beside its interval and verdict."""

    log_ratios: dict[int, float] | None = None
    """{block: ln(arm) less the mean of the logs of A and A′, as far as both are there}, the dots of the chart; None:
    not recorded."""
    skewed: bool = False
    single_low: float | None = None
    single_high: float | None = None
    """The interval without adjustment for other contrasts, by the noise of this one where it has more by itself."""
    single_freedom: int = Field(0, exclude_if=is_empty)
    """Its degrees of freedom; 0: as `freedom`."""
    p_t: float | None = None
    """Unadjusted p of the t; None if it does not exist (fewer than two blocks, no spread at all)."""
    p_permutation: float | None = None
    """Unadjusted p of the label permutation."""
    p_adjusted_permutation: float | None = None
    """The same adjusted for all contrasts of the study, which are permuted together; None for an exploratory metric."""
    equivalence_low: float | None = None
    equivalence_high: float | None = None
    blocks_needed: int | None = None
    """About how many more blocks an inconclusive contrast needs; None for every other verdict."""
    half_width: float | None = None
    """Half of the interval on the log scale, as a fraction: 0.02 is ±2 %; None without an interval."""
    detectable: float | None = None
    """The true difference (a fraction) that 80 % of studies with such an interval find; None without one."""
    method: str = "pooled"
    """The noise in the interval: "pooled" over the servers of a step, or "pairs", this contrast's own. With several
    host groups it is the noise inside the groups."""
    freedom: int = 0
    """Degrees of freedom of the interval."""
    failure: ArmFailure | None = Field(None, exclude_if=is_empty)
    """That the arm or its control failed; None if neither did."""
    alarm: Alarm = None
    """The A/A alarm of the study."""
    lost: dict[str, int] = Field(default_factory=dict, exclude_if=is_empty)
    """{reason: blocks that do not count}."""
    halved: dict[str, int] = Field(default_factory=dict, exclude_if=is_empty)
    """{reason: blocks that count with one of two copies of arm or control}."""
    copied: str = Field("", exclude_if=is_empty)
    """The arm whose two copies are the A/A comparison, where that is not the control."""
    facts: tuple[Fact, ...] = Field((), exclude_if=is_empty)
    """What the verdict rests on beside these numbers: see the rules in verdicts/."""


class EffectRecord(OfContrast):
    """One effect in summary.json: the ratio of an arm to the control at one step, and its verdict.

    `ratio`, `ci_low`, `ci_high` are arm divided by control (1.042 is +4.2 %), of several host groups the mean over
    these groups, with equal weights (stats/groups.py); they are None if too few blocks are valid (a ratio needs one, an
    interval two) and where arm or control failed. For metrics with verdicts the interval is simultaneous over the study
    and `p` adjusted; for others both are unadjusted. `p` is the larger of the t's and the permutation's.
    """

    n: int
    ratio: float | None
    ci_low: float | None
    ci_high: float | None
    p: float | None
    verdict: Literal["higher", "lower", "equivalent", "inconclusive", "not_measurable"] | None
    """None for secondary metrics: they are exploratory and get no verdict."""
    primary: bool = False
    unadjusted: tuple[float, float | None, float | None] | None = None
    """For an interleaved study: ratio, low and high end before the adjustment for the host's speed."""
    details: EffectDetails = EffectDetails()

    @property
    def excludes_no_change(self) -> bool:
        """Whether the interval exists and lies wholly on one side of 1."""
        return self.ci_low is not None and self.ci_high is not None and (self.ci_low > 1.0 or self.ci_high < 1.0)


class FoundRecord(Record):
    """How much of what it looked for one arm found at one step."""

    step: str
    arm: str
    of: Literal["keys", "rows"]
    share: float
    """Of the gets those that found their key; of the statements those that returned or changed a row."""


class LimitRecord(Record):
    """What limited one arm at one step, derived from utilisation."""

    arm: str
    step: str
    limit: Literal["link", "server CPU", "load CPU", "others' CPU", "none"]
    met: Literal["link", "cpus", "thread", ""] = ""
    """What was full: the link, all CPUs, or one thread of the load program."""
    shares: dict[str, float] = Field(default_factory=dict)
    """Shares of 1 by which it is the limit: link, cpu, server, load, thread."""
    cpus: str = ""
    """Usable CPUs of the hosts: "2", "2 to 4"."""

    @property
    def others(self) -> float:
        """The share of the CPUs that neither server nor load used."""
        return max(self.shares["cpu"] - self.shares.get("server", 0.0) - self.shares.get("load", 0.0), 0.0)


class ConclusionRecord(Record):
    """One conclusion of a published study, tested against this study's own effects and limits."""

    study: str
    part: str
    """The published study's own name for the part, e.g. N2."""
    claim: str
    answer: Literal["agrees", "partly", "disagrees", "cannot tell"]
    facts: tuple[Fact, ...] = ()
    """What the answer rests on."""


class AloneRecord(Record):
    """The control loaded with the other servers stopped, relative to the same server in the cycles just before.

    Of one start, and not separated from the host's drift: it shows gross effects of servers on each other.
    """

    step: str
    slices: int
    qps_ratio: float


class InterleavingRecord(Record):
    """Properties of an interleaved study: slices, adjustment, and the CPU time available."""

    slice_s: float
    washout_s: float
    cycles: int
    """Cycles made, over all blocks and steps."""
    dropped_cycles: int = 0
    """Cycles dropped for all arms, because of unequal steal between their slices."""
    waited_s: float = 0.0
    """Time waited for a quieter host."""
    steal_mean: float | None = None
    steal_max: float | None = None
    strangers_mean: float | None = None
    """Share of the CPU time used by programs that are neither servers nor load of the study, over all slices."""
    covariates: tuple[str, ...] = ()
    """What values are adjusted for, of the slices of other arms around each slice: driver_cpu_around (the load
    program's CPU time per query), available_cpu_around (the share of CPU time not used by hypervisor and other
    programs), speed_around (the speed meter)."""
    coefficients: dict[str, dict[str, dict[str, float]]] = Field(default_factory=dict)
    """step → metric → covariate → slope of log value on log covariate."""
    sd_within: dict[str, dict[str, float]] = Field(default_factory=dict)
    """step → metric → standard deviation of the adjusted log ratios to the control between cycles of a block."""
    sd_between: dict[str, dict[str, float]] = Field(default_factory=dict)
    """step → metric → standard deviation between blocks beyond what the cycles explain."""
    carry_over: dict[str, float] = Field(default_factory=dict)
    """step → largest relative change of a slice's throughput by the arm loaded before it, where one is shown."""
    alone: AloneRecord | None = None
    notes: tuple[Fact, ...] = ()
    """Lengthened washouts, slow responses, servers that kept working while idle, covariates that were dropped."""


FEWEST_HOSTS = 3
"""Host groups from which on a claim about hosts like these can be made."""


class HostGroupEffect(Record):
    """The effect of one contrast on one host group."""

    group: str
    n: int
    """Blocks of this group that count."""
    ratio: float | None = None
    """Arm divided by control; None without a block."""
    ci_low: float | None = None
    ci_high: float | None = None
    """The group's own 95 % t interval with n − 1 degrees of freedom, not adjusted; None with fewer than two blocks."""


class HostsEffect(OfContrast):
    """One contrast with a verdict over the host groups: each group, their differences, and hosts like these.

    See stats/groups.py for what is assumed.
    """

    groups: tuple[HostGroupEffect, ...]
    """Every host group of the study, in order."""
    p_heterogeneity: float | None = None
    """p that the groups have one effect, the larger of the F test's and Welch's; None: a group has one block, or
    nothing varies inside the groups."""
    p_heterogeneity_adjusted: float | None = None
    """The same by Holm over the contrasts with verdicts."""
    between_sd: float | None = None
    """Standard deviation of the groups' true log ratios: 0.03 is about 3 %; None: a group has one block."""
    differs: bool = False
    """Whether the effect differs between the groups: p_heterogeneity_adjusted is at most Summary.alpha."""
    hosts_low: float | None = None
    hosts_high: float | None = None
    """The interval of the ratio on hosts like these: t over the groups' means, groups − 1 degrees of freedom, adjusted
    by Bonferroni over the contrasts with verdicts, and at least that of these hosts; None with fewer than three
    groups."""
    holds_on: Literal["hosts like these", "these hosts", "no host"] = "no host"
    """What the verdict is claimed of; "no host": it is neither higher, lower nor equivalent."""


class HostGroupsRecord(Record):
    """A study over several host groups. Effects and intervals of `Summary.effects` are of the mean over these
    groups, with equal weights.
    """

    blocks: dict[str, int]
    """Host group → its blocks with a run, in order of the groups."""
    differences: dict[str, dict[str, str | bool]] = Field(default_factory=dict)
    """{fact: {host group: value}} of the facts that differ between the server hosts; what is unknown of a
    host is absent."""
    effects: tuple[HostsEffect, ...] = ()


class CostRecord(Record):
    """What one operation (transaction) costs at one arm, and against the control. See analysis/costs/."""

    cost: str
    """A name of model/stored/costs.py, COSTS."""
    step: str
    arm: str
    control: str
    control_value: float
    """Mean of the blocks' costs per operation of the control, both copies, in the cost's unit."""
    arm_value: float
    ratio: float | None = None
    """None where a run has less of it than counts: the interval is then of (value + the least that counts)."""
    ci_low: float | None = None
    ci_high: float | None = None
    """Simultaneous over all costs of the study."""
    beyond_noise: bool = False
    """The interval excludes 1, and the control's two copies do not differ in any cost."""


class OperationTime(Record):
    """What one operation of an arm takes at a step."""

    step: str
    arm: str
    connection_us: float
    """Time that a connection spends on it: connections × measured time / operations; the mean of the runs."""
    crowding: float
    """Connections per CPU while the CPUs are busy, at least 1: by how much CPU time of one operation delays all."""
    driver_crowding: float = 1.0
    """The same of CPU time of the load program, each of whose threads serves many connections; at least `crowding`."""
    response_us: float | None = None
    """Mean response time, of an open loop from when each was due; None where the driver does not report it."""


class CostsRecord(Record):
    """What an operation costs each arm, and how long it takes there."""

    costs: tuple[CostRecord, ...] = ()
    times: tuple[OperationTime, ...] = ()
    alarm: Alarm = None
    """Why no difference of costs is claimed."""


class Summary(Record):
    """summary.json: everything that reports print, made from the rest of the folder at any time."""

    format: int = FORMAT
    experiment: str
    question: str = ""
    study: str
    state: Literal["complete", "partial", "failed"]
    control: str
    arms: tuple[str, ...]
    primary: str
    also_primary: tuple[str, ...] = Field((), exclude_if=is_empty)
    """Further metrics of the question (verdict.primary)."""
    margin: float
    steps: tuple[StepLevel, ...]
    metrics: dict[str, Metric]
    windows: dict[str, Window] = Field(default_factory=dict)
    runs: tuple[RunSummary, ...]
    effects: tuple[EffectRecord, ...]
    capacities: tuple[CapacityRecord, ...] = Field((), exclude_if=is_empty)
    """For a capacity search: the capacity at every step, for every arm."""
    scalabilities: tuple[ScalabilityRecord, ...] = Field((), exclude_if=is_empty)
    """For a sweep of connections: the scalability of every workload and arm."""
    operations: OperationsRecord | None = Field(None, exclude_if=is_empty)
    """None: the load has no types of transactions, and no names."""
    statements: StatementsRecord | None = Field(None, exclude_if=is_empty)
    """None: the study does not compare statements."""
    gate: GateRecord | None = Field(None, exclude_if=is_empty)
    """None: the study declares no threshold."""
    screening: tuple[ScreenRecord, ...] = Field((), exclude_if=is_empty)
    """For a screening study: the result at every step."""
    factors: FactorsRecord | None = Field(None, exclude_if=is_empty)
    """What each factor does; None: the arms are no full product of factors, or no interim analysis is due."""
    costs: CostsRecord | None = None
    """None: no step has counters of the server."""
    profiles: ProfilesRecord | None = Field(None, exclude_if=is_empty)
    """None: `profile.cpu` is not set."""
    waits: WaitsRecord | None = Field(None, exclude_if=is_empty)
    """None: `profile.waits` is not set."""
    kernel: KernelRecord | None = Field(None, exclude_if=is_empty)
    """None: `profile.kernel` is not set."""
    candidates: tuple[CandidateRecord, ...] = Field((), exclude_if=is_empty)
    """What accompanied each effect on throughput, of each contrast the likeliest first."""
    noise_floor: dict[str, dict[str, float]]
    """noise_floor[metric][step]: the ratio (>= 1) below which the control differs from itself."""
    published: tuple[PublishedEntry, ...] = ()
    """Figures of published studies compared with this one: see analysis/published/figures.py."""
    server_differences: dict[str, dict[str, str | None]] = Field(default_factory=dict)
    """Where arms run different servers: {variable: {arm: value, None: it has none}} of the settings that differ."""
    found: tuple[FoundRecord, ...] = Field((), exclude_if=is_empty)
    """One for each arm and step at which an arm did not find all that it looked for."""
    limits: tuple[LimitRecord, ...] = ()
    """One for each arm and step with a proved link."""
    conclusions: tuple[ConclusionRecord, ...] = ()
    """Conclusions of published studies, tested against this one: see analysis/published/conclusions.py."""
    design: DesignKind = "blocks"
    due: bool = True
    """Whether effects are examined: at an interim analysis, or when a fixed number of blocks is made."""
    look: int | None = None
    """Blocks at the interim analysis that this summary is of; None: a fixed number of blocks, or none yet."""
    looks: dict[int, float] | None = None
    """Blocks → error rate of each interim analysis of a sequential study; None where the study is examined once."""
    alpha: float = 0.05
    """The error rate that the simultaneous intervals and tests of this analysis keep."""
    interleaving: InterleavingRecord | None = None
    host_groups: HostGroupsRecord | None = Field(None, exclude_if=is_empty)
    """None: one host group."""

    @classmethod
    def of(cls, study: StudyRecord, **more: Any) -> Summary:
        """That of a study, with what was found in it."""
        experiment, verdict = study.experiment, study.experiment.verdict
        return cls(
            experiment=experiment.name,
            question=experiment.question,
            study=study.study,
            control=experiment.control,
            arms=tuple(arm.name for arm in experiment.arms),
            primary=verdict.leading,
            also_primary=verdict.primary[1:],
            margin=verdict.margin_of(verdict.leading),
            steps=tuple(map(StepLevel.like, experiment.resolved_steps)),
            **more,
        )

    @property
    def families_beside(self) -> int:
        """Families of types of transactions and of statements, which share an error rate with causes."""
        return (self.operations is not None) + (self.statements is not None)

    def phrase(self, metric: str) -> Phrase:
        """The words for a metric, in a study of these workloads."""
        return phrase_of(metric, {step.workload for step in self.steps})


class PrintedSummary(Summary):
    """The summary with its answer: what `mydyno report --format json` and `mydyno run --json` print."""

    answer: tuple[str, ...]
    """One to three short sentences that answer the question, then those on its further metrics."""
    further: int = Field(0, exclude_if=is_empty)
    """How many sentences of `answer`, the last ones, are on further metrics."""
    scope: str
    """Where and when the answer holds, once: host, server, workload, data, durability, dates."""
    sharpen: tuple[str, ...]
    """What would improve the answer: time needed for ±x %, a quieter host, more blocks."""
