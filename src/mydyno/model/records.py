"""What a study writes and a report reads: run.json, driver.json, study.json, summary.json. Frozen; no I/O.

The file formats are described in docs/reference/study-folder.md.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from mydyno.model.experiment import Experiment

FORMAT = 1


class Record(BaseModel):
    """Base of what is stored: unknown keys of newer versions are kept out, values do not change."""

    model_config = ConfigDict(extra="ignore", frozen=True, populate_by_name=True)


class Metric(Record):
    """What a metric's number means."""

    unit: str
    better: Literal["higher", "lower", "none"]
    description: str = ""


class Evidence(Record):
    """Proof, read back from the running system, that a treatment is in force (or that it is not)."""

    treatment: str
    holds: bool
    text: str
    """One sentence for the report, e.g. "malloc of mariadbd binds to libjemalloc.so.2 (5.3.0)"."""
    facts: dict[str, Any] = Field(default_factory=dict)
    instance: int = 1


class DriverResult(Record):
    """What the load program counted in the measured window of one step. Counts are of the window alone."""

    driver: str
    version: str
    command: tuple[str, ...]
    """As started, without any password."""
    transactions: int
    queries: int
    queries_read: int | None = None
    queries_write: int | None = None
    queries_other: int | None = None
    errors: int = 0
    ignored_errors: int = 0
    reconnects: int = 0
    duration_s: float
    """Length of the measured window by the driver's own clock."""
    latency_us: dict[str, float] = Field(default_factory=dict)
    """Keys: mean, min, max, p50, p90, p95, p99, p999, as far as the driver tells them."""
    latency_histogram_us: tuple[tuple[float, int], ...] = ()
    """(upper bound of the bucket in µs, count)."""
    cpu_user_s: float | None = None
    cpu_system_s: float | None = None
    """CPU time of the driver's process, of the whole step."""
    whole: dict[str, int] = Field(default_factory=dict)
    """Counts of the whole step, warm-up included: transactions, read, write, other (kv: cmd_get, cmd_set, get_hits,
    get_misses); to be held against the server's."""
    key_values: dict[str, float] = Field(default_factory=dict)
    """Of kv, in the window: cmd_get, cmd_set, get_hits, get_misses, verified, wrong_values, and of the latency of all
    operations min_us, max_us, mean_us, std_us, geometric_mean_us."""
    latency_log2_us: tuple[tuple[float, int], ...] = ()
    """Of kv: (upper bound in µs, count) by powers of two, as memaslap prints it."""
    transaction_types: dict[str, dict[str, float]] = Field(default_factory=dict)
    """Of a workload with several kinds of transactions (tpcc): counts and response times of each, in the window."""
    traffic: dict[str, int] = Field(default_factory=dict)
    """Of the window, where the driver counts it: raw_sent_bytes, raw_received_bytes (the protocol's packets),
    wire_sent_bytes, wire_received_bytes (compressed and encrypted as they left)."""
    tls: dict[str, Any] = Field(default_factory=dict)
    """Handshakes that the driver itself counted, where any was made: `measured` and `whole_load`, each with full,
    resumed, and negotiated [{version, cipher_suite, connections}]."""
    busiest_thread_cpu_pct: float | None = None
    """CPU of the driver's busiest thread, in percent of one CPU, where the driver tells it."""
    health: Literal["valid", "suspect", "invalid"] = "valid"
    health_reasons: tuple[str, ...] = ()


class InstanceStep(Record):
    """One instance's part of a step, where a run has several."""

    instance: int
    started_unix_ns: int
    """When this instance's load began."""
    driver: DriverResult
    server_counters: dict[str, float] = Field(default_factory=dict)
    steady: dict[str, Any] = Field(default_factory=dict)
    reasons: tuple[str, ...] = ()
    """Gates that closed for this instance; they make the whole step invalid."""


class SliceRecord(Record):
    """One slice of an interleaved study: a few seconds of load on one arm's servers. A line of slices.jsonl.

    Counts and CPU times are of the measured part, after the washout; `whole` counts from go to hold.
    """

    block: int
    step: str
    cycle: int
    """From 1, within block and step."""
    position: int
    """From 1, within the cycle."""
    arm: str
    copy_number: int = Field(1, alias="copy")
    started_unix_ns: int
    """When the measured part began."""
    length_s: float
    transactions: int = 0
    queries: int = 0
    errors: int = 0
    ignored_errors: int = 0
    reconnects: int = 0
    latency_us: dict[str, float] = Field(default_factory=dict)
    """mean, min, max, p50, p90, p95, p99, p999 of the response time, as far as anything ended."""
    histograms: tuple[str, ...] = ()
    """Response times in nanoseconds, HdrHistogram V2 deflated in base64; one for each instance."""
    rates: dict[str, float] = Field(default_factory=dict)
    """What only some workloads have: tpmc, kv_hit_pct, kv_misses_per_s, tpmc_instance_1, …"""
    key_values: dict[str, float] = Field(default_factory=dict)
    """Of kv: cmd_get, cmd_set, get_hits, get_misses, verified, wrong_values."""
    traffic: dict[str, int] = Field(default_factory=dict)
    driver_cpu_s: float | None = None
    server_cpu_s: float | None = None
    idle_servers_cpu_s: float | None = None
    """CPU time of all servers that were not loaded."""
    steal: float | None = None
    """Share of the host's CPU time that the hypervisor took."""
    strangers: float | None = None
    """Share of the host's CPU time used by processes that are neither our servers nor our load."""
    speed: float | None = None
    """The speed meter: CPU nanoseconds per fixed unit of work (more is slower); None: not measured."""
    server_rss_bytes: float | None = None
    """Resident memory of the arm's servers when the slice had ended."""
    whole: dict[str, int] = Field(default_factory=dict)
    server_counters: dict[str, float] = Field(default_factory=dict)
    """Growth of the server's own counters from go to hold."""
    disagreements: tuple[str, ...] = ()
    """Where the server's counters and the load's differ."""
    failed: str = ""
    """Why the arm failed in this slice; empty where it did not. The slice then has no values."""


class StepRecord(Record):
    """One step of a run as it went. With several instances, numbers are of all of them together."""

    id: str
    workload: str
    connections: int
    started_unix_ns: int
    """When the load began; the warm-up's start."""
    warmup_s: float
    measure_s: float
    driver: DriverResult
    server_counters: dict[str, float] = Field(default_factory=dict)
    """Growth of the server's own counters over the whole step (Questions, Com_select, …)."""
    steady: dict[str, Any] = Field(default_factory=dict)
    """Of the window: steadiness, mser5_cut_s, mser5_trustworthy, drift, change_points, cycles, reasons."""
    valid: bool = True
    reasons: tuple[str, ...] = ()
    """Gates that closed for this step alone; its values are kept and shown, but not used."""
    failed: str = ""
    """Why the arm itself failed here (errors, a crash, no throughput): a result, not a loss; empty otherwise."""
    instances: tuple[InstanceStep, ...] = ()
    """Each instance's part; empty where the run has one."""
    start_spread_s: float = 0.0
    """How long after the first driver's load the last one's began."""


class ServerRecord(Record):
    """The server of a run, as it told us by SQL."""

    instance: int = 1
    place: int = 1
    """Which share of the host (CPUs) it had; instances swap places between blocks."""
    version: str
    version_comment: str = ""
    flavour: Literal["mysql", "mariadb", "memcached"] = "mariadb"
    binary: str = ""
    command: tuple[str, ...] = ()
    environment: dict[str, str] = Field(default_factory=dict)
    variables: dict[str, str] = Field(default_factory=dict)
    """SHOW GLOBAL VARIABLES after start."""
    pid: int = 0
    start_s: float = 0.0
    notes: tuple[str, ...] = ()
    """Variables of the experiment that this version calls otherwise or does not have, and what was done."""


class RunRecord(Record):
    """run.json: one arm in one block, finished. `valid` is false when any gate closed; reasons say which."""

    format: int = FORMAT
    block: int
    position: int
    arm: str
    copy_number: int = Field(1, alias="copy")
    folder: str
    started_unix_ns: int
    ended_unix_ns: int
    valid: bool
    reasons: tuple[str, ...] = ()
    failed: str = ""
    """Why the arm itself failed (did not start, crashed, ran out of memory): a result; empty otherwise."""
    warnings: tuple[str, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    servers: tuple[ServerRecord, ...] = ()
    steps: tuple[StepRecord, ...] = ()


class StudyRecord(Record):
    """study.json: what was asked, where, with what. Written once, before the first run; never holds a password."""

    format: int = FORMAT
    study: str
    created_unix_ns: int
    mydyno_version: str
    command: tuple[str, ...] = ()
    experiment: Experiment
    experiment_source: str = ""
    """The text of the experiment file."""
    host: dict[str, Any] = Field(default_factory=dict)
    """Host facts: kernel, cpu_model, cpus, memory_bytes, filesystem, thp, glibc, …"""
    versions: dict[str, str] = Field(default_factory=dict)
    """Server, driver, allocators, engine."""


class Window(Record):
    """The part of a step that counts, in seconds from the start of its load; one for all runs of the study."""

    from_s: float
    to_s: float


class RunSummary(Record):
    """One run in summary.json: values[step][metric] over the common window."""

    block: int
    position: int
    arm: str
    copy_number: int = Field(1, alias="copy")
    valid: bool
    reasons: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    folder: str
    invalid_steps: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Steps of a valid run that are not used, with the reasons."""
    failures: dict[str, str] = Field(default_factory=dict)
    """Step → why the arm itself failed there; a run that failed as a whole has every step here."""
    values: dict[str, dict[str, float]] = Field(default_factory=dict)
    unadjusted: dict[str, dict[str, float]] = Field(default_factory=dict)
    """Of an interleaved study: the values before they were adjusted for the host's speed."""


class EffectRecord(Record):
    """One effect in summary.json: the ratio of an arm to the control at one step, and the sentence it allows."""

    metric: str
    step: str
    arm: str
    control: str
    n: int
    ratio: float | None
    ci_low: float | None
    ci_high: float | None
    p: float | None
    verdict: Literal["higher", "lower", "equivalent", "inconclusive", "not_measurable"] | None
    """None for secondary metrics: they are exploratory and get no verdict."""
    sentence: str
    primary: bool = False
    unadjusted: tuple[float, float | None, float | None] | None = None
    """Of an interleaved study: ratio, low and high end before the adjustment for the host's speed."""
    details: dict[str, Any] = Field(default_factory=dict)
    """For the report: per-block log ratios, unadjusted p, sign-flip p, Hodges-Lehmann, flags."""


class LimitRecord(Record):
    """What one arm was limited by at one step, told from utilisation."""

    arm: str
    step: str
    limit: Literal["link", "server CPU", "load CPU", "others' CPU", "none"]
    sentence: str
    shares: dict[str, float] = Field(default_factory=dict)
    """Shares of 1: link, cpu, server, load, thread."""


class ConclusionRecord(Record):
    """One conclusion of a published study, put to the test by this study's own effects and limits."""

    study: str
    part: str
    """The published study's own name for the part, e.g. N2."""
    claim: str
    answer: Literal["agrees", "disagrees", "cannot tell"]
    because: str

    @property
    def sentence(self) -> str:
        """The answer as one sentence."""
        return f"{self.study}, {self.part}: {self.answer}: {self.claim}: {self.because}."


CANARY_EVENT = "canary"
"""The journal's event that holds one."""


class CanaryRecord(Record):
    """How fast the host was at a moment before a block: see hosts/canary.py and running/canaries.py."""

    block: int
    attempt: int
    """From 1; the block begins behind the last one."""
    readings: dict[str, float | None]
    """None: no reading could be had."""
    off: tuple[str, ...] = ()
    """What was out of line with the session's earlier readings, in words."""


class InterleavingRecord(Record):
    """What an interleaved study was like: slices, adjustment, and what the host gave."""

    slice_s: float
    washout_s: float
    cycles: int
    """Cycles made, over all blocks and steps."""
    dropped_cycles: int = 0
    """Cycles dropped for all arms, because the host gave too little CPU time in one of their slices."""
    waited_s: float = 0.0
    """Time waited for a quieter host."""
    steal_mean: float | None = None
    steal_max: float | None = None
    covariates: tuple[str, ...] = ()
    """What values are adjusted for: driver_cpu (the load program's CPU time per query) or speed (the speed meter), and
    available_cpu (the share of CPU time that hypervisor and other programs left) or unstolen_cpu (the hypervisor)."""
    coefficients: dict[str, dict[str, dict[str, float]]] = Field(default_factory=dict)
    """step → metric → covariate → slope of log value on log covariate."""
    sd_within: dict[str, dict[str, float]] = Field(default_factory=dict)
    """step → metric → standard deviation of the adjusted log ratios to the control between cycles of a block."""
    sd_between: dict[str, dict[str, float]] = Field(default_factory=dict)
    """step → metric → standard deviation between blocks beyond what the cycles explain."""
    notes: tuple[str, ...] = ()
    """Carry-over, servers that never stopped working while idle, covariates that were dropped."""


class Summary(Record):
    """summary.json, format 1: everything that reports print, made from the rest of the folder at any time."""

    format: int = FORMAT
    experiment: str
    question: str = ""
    study: str
    state: Literal["complete", "partial", "failed"]
    control: str
    arms: tuple[str, ...]
    primary: str
    margin: float
    steps: tuple[dict[str, Any], ...]
    """{id, workload, connections}, and the rate of an open loop: see step_for_summary."""
    metrics: dict[str, Metric]
    windows: dict[str, Window] = Field(default_factory=dict)
    runs: tuple[RunSummary, ...]
    effects: tuple[EffectRecord, ...]
    noise_floor: dict[str, dict[str, float]]
    """noise_floor[metric][step]: the ratio (>= 1) below which the control differs from itself."""
    published: tuple[dict[str, Any], ...] = ()
    """Figures of published studies beside ours: see results/published.py."""
    server_differences: dict[str, dict[str, str | None]] = Field(default_factory=dict)
    """Where arms run different servers: {variable: {arm: value, None: it has none}} of the settings that differ."""
    limits: tuple[LimitRecord, ...] = ()
    """One for each arm and step with a proved link."""
    conclusions: tuple[ConclusionRecord, ...] = ()
    """What published studies concluded, put to the test here: see results/conclusions.py."""
    canaries: tuple[CanaryRecord, ...] = ()
    """In order of time."""
    design: Literal["blocks", "interleaved"] = "blocks"
    look: int | None = None
    """Blocks at the look that this summary is of; None: a fixed number of blocks, or no look yet."""
    alpha: float = 0.05
    """The error rate that the simultaneous intervals and tests of this look keep."""
    interleaving: InterleavingRecord | None = None
    answer: tuple[str, ...] = ()
    """One to three short sentences that answer the question."""
    scope: str = ""
    """Where and when the answer holds, once: host, server, workload, data, durability, dates."""
    sharpen: tuple[str, ...] = ()
    """What would make the answer better: time needed for ±x %, a quieter host, more blocks."""
    sentences: tuple[str, ...] = ()
    """The long form of every verdict, in order, and what limits them."""
