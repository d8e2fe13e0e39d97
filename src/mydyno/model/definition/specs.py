"""Small sections of an experiment ([verdict], [validity], [guard], [profile]), `search` of a step. Frozen; no I/O."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from mydyno.model.definition.quantities import ErrorRate, PositiveDuration, Share, ShareUpToAll
from mydyno.model.metrics import common_name

TOTAL = 0.05
"""The error rate of all verdicts and interim analyses together, unless the experiment sets another."""

PROFILE_EVERY = 8
"""Cycles from one cycle of profiled slices to the next."""
SHORTEST_APART_S = 2.0
"""Length of slices apart from the measured ones: begin and end of a profiler take about a second each time."""


def as_list(value: object) -> object:
    """A list as it is; one value as a list of it."""
    return value if isinstance(value, list | tuple) else [value]


class CompareSpec(BaseModel):
    """Further contrasts that get verdicts, e.g. instance 1 alone against instance 1 with three neighbours."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    metrics: Annotated[tuple[str, ...], BeforeValidator(as_list)] = Field(
        min_length=1, examples=["tpmc_instance_1"], description="metrics"
    )
    arms: Annotated[tuple[str, ...], BeforeValidator(as_list)] = Field(
        min_length=1, examples=["limit-4"], description="the arms compared"
    )
    control: str = Field(examples=["limit-1"], description="the arm that they are compared with")


def _as_metrics(value: object) -> object:
    """One or several names of metrics, as people say them ("rss") or in full; each once."""
    listed = as_list(value)
    assert isinstance(listed, list | tuple)
    if not all(isinstance(name, str) for name in listed):
        return listed
    return tuple(dict.fromkeys(common_name(name) for name in listed))


class VerdictSpec(BaseModel):
    """What verdicts are given on, declared before the first run."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    primary: Annotated[tuple[str, ...], BeforeValidator(_as_metrics)] = Field(
        ("qps",),
        min_length=1,
        max_length=4,
        description="the metrics of the question, the most important one first; one may stand without a list. "
        "Verdicts on all of them are tested together; each has its sentence in the answer",
    )
    margin: Share = Field(0.02, description="differences inside this margin count as equivalent")
    latency_margin: Share = Field(0.05, description="the margin for latency percentiles")
    cost: bool = Field(
        True, description="also give verdicts on the server's CPU time per query, if it is measured and no primary "
        "metric is the server's CPU time",
    )  # fmt: skip
    compare: tuple[CompareSpec, ...] = Field(
        (),
        examples=[[{"metrics": "tpmc_instance_1", "arms": "limit-4", "control": "limit-1"}]],
        description="further contrasts with verdicts: metrics, arms, control",
    )

    error_rate: ErrorRate = Field(
        TOTAL, description="the largest chance of a false difference over all verdicts and interim analyses of the "
        "study; intervals of these verdicts, and the tests of [thresholds], are at the confidence that goes with it",
    )  # fmt: skip

    @property
    def leading(self) -> str:
        """The first metric of the question."""
        return self.primary[0]

    def margin_of(self, metric: str) -> float:
        """The margin declared for a metric."""
        return self.latency_margin if metric.startswith("latency_") else self.margin


class ValiditySpec(BaseModel):
    """Limits beyond which a run is invalid; it is kept and shown, but not used."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    ignored_errors_per_transaction: float = Field(
        0.1, ge=0, description="deadlocks and lock time-outs per transaction, beyond which an arm has failed"
    )
    driver_cpu: ShareUpToAll = Field(
        0.95, gt=0, description="the load program's CPU time as a share of the CPUs that it may use"
    )
    not_found: ShareUpToAll = Field(
        0.01,
        description="largest share of gets, or of statements for rows of mydyno's own data, that finds nothing beyond "
        "options.hit_ratio; 100% for an experiment on evictions",
    )
    swap_bytes: int = Field(1 << 20, ge=0, description="bytes swapped in or out during the measured windows")
    throttled: Share = Field(
        0.01, description="largest share of periods of mydyno's CPU quota in which it is used up, at a load level"
    )
    steal: Share = Field(
        0.30,
        description="largest difference between arms in the share of CPU time that the hypervisor took: a cycle "
        "(design blocks: a load level of a block) beyond it is dropped for all arms",
    )
    steady: Literal["strict", "report"] = Field(
        "report",
        description="report: a load level that is not steady counts, and the report shows it; strict: it is invalid",
    )


class GuardSpec(BaseModel):
    """With server.dsn: limits at which a slice is ended at once, its connections closed, and repeated when the server
    is calm again. After three such ends the arm has failed at that load level.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    threads_running: int | None = Field(
        None,
        ge=1,
        examples=[64],
        description="most threads that execute statements (Threads_running), those of the load included",
    )
    p99: PositiveDuration | None = Field(
        None, examples=["50ms"], description="longest 99th percentile of `statement` over the last ten seconds"
    )
    statement: str = Field(
        "SELECT 1", min_length=1, description="what mydyno executes forty times a second as a user of the server would"
    )
    replica_lag: PositiveDuration | None = Field(
        None, examples=["5s"], description="with a server that is a replica: the most that it may be behind its source"
    )


class SearchSpec(BaseModel):
    """The objective of a capacity search: the highest load with the metric at or below the limit.

    Every step needs one, and the design must be interleaved. design.slice is 5 s (2 s of connections), or 50 times the
    limit if that is more; it must be at least 20 times the limit.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    of: Literal["rate", "connections"] = Field(
        "rate",
        description="what is searched: the rate of an open loop on all connections, or how many connections a closed "
        "loop has, up to `connections`",
    )
    metric: Literal[
        "latency_mean_us", "latency_p50_us", "latency_p90_us", "latency_p95_us", "latency_p99_us", "latency_p999_us"
    ] = Field(description="the latency that is limited; of a rate, counted from when each was due")
    limit: PositiveDuration = Field(examples=["20ms"], description="its highest value")

    @property
    def limit_us(self) -> float:
        """The limit in the metric's unit."""
        return 1e6 * self.limit

    @property
    def words(self) -> str:
        """E.g. "p99 ≤ 20 ms"."""
        name = self.metric.removeprefix("latency_").removesuffix("_us")
        return f"{'mean latency' if name == 'mean' else name.replace('p999', 'p99.9')} ≤ {1e3 * self.limit:g} ms"


def apart_slice_s(slice_s: float) -> float:
    """The length of slices apart (profiles, waits, the kernel view) where measured slices have this length."""
    return max(slice_s, SHORTEST_APART_S)


class ProfileSpec(BaseModel):
    """What is looked at besides the measured slices: profiled slices of their own, which enter no verdict."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    cpu: bool = Field(
        False,
        description="interleaved: profile the servers' CPU time with perf, in extra slices: one for each arm after the "
        "first cycle of each load level and block, and after every eighth cycle from there on (`run --profile`)",
    )
    waits: bool = Field(
        False,
        description="interleaved: start the servers with performance_schema, and count in extra slices as those of "
        "`cpu`: what the load's threads wait for, stages, statements, active sessions (`run --waits`)",
    )
    kernel: bool = Field(
        False,
        description="interleaved: trace the kernel with bpftrace in extra slices as those of `cpu`: run-queue latency, "
        "futex waits, fsync, block I/O, TCP retransmits and system calls of the servers (`run --kernel`)",
    )
    frequency: int = Field(499, ge=19, le=9999, description="samples of the profile per second and CPU")

    def rate_of_causes(self, alpha: float, families: int) -> float:
        """The error rate of each family of findings beside the effects, which share `alpha` equally: costs; the
        `families` of types of transactions and of statements, as far as there are some; functions, places in the flame
        graph; waits, counters of performance_schema; the kernel view.
        """
        return alpha / (1 + families + 2 * self.cpu + 2 * self.waits + self.kernel)

    @property
    def kinds(self) -> tuple[str, ...]:
        """The keys that are set of those that need slices of their own."""
        return tuple(name for name in ("cpu", "waits", "kernel") if getattr(self, name))
