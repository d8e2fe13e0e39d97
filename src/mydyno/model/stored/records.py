"""What a study writes while it runs: run.json, driver.json, slices.jsonl, study.json. Frozen; no I/O.

summary.json is in model/stored/summary.py.

The file formats are described in docs/reference/study-folder.md.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from mydyno.model.definition.experiment import Experiment
from mydyno.model.definition.host_groups import BatchJob, HostGroup
from mydyno.model.frozen_record import Record, is_empty
from mydyno.model.stored.reasons import Reason

FORMAT = 6
"""Of the files of a study; others are not read."""


class Evidence(Record):
    """Proof, read back from the running system, that a treatment is in force (or that it is not)."""

    treatment: str
    holds: bool
    text: str
    """One sentence for the report, e.g. "malloc of mariadbd binds to libjemalloc.so.2 (5.3.0)"."""
    facts: dict[str, Any] = Field(default_factory=dict)
    instance: int = 1


class ClientLoad(Record):
    """What one client host did of a step's load; of slices only its name and how busy the host was are known."""

    name: str
    """As the host group names it."""
    hostname: str = ""
    """As the host names itself."""
    cpus: int | None = None
    """CPUs that the load program may use there."""
    threads: int = 0
    cpu_user_s: float = 0.0
    cpu_system_s: float = 0.0
    """CPU time of the load's threads, of the whole step."""
    busiest_thread_cpu_pct: float | None = None
    """CPU of its busiest thread, in percent of one CPU."""
    clock_error_us: float | None = None
    """How much earlier or later than the others it may have begun, at most."""
    busy_pct: float | None = None
    """CPU of the whole host in the measured window, in percent of all its CPUs; None: it was not sampled."""

    def with_other(self, other: ClientLoad) -> ClientLoad:
        """The sum with another load of the same host at the same time."""
        return self.model_copy(
            update={
                "threads": self.threads + other.threads,
                "cpu_user_s": self.cpu_user_s + other.cpu_user_s,
                "cpu_system_s": self.cpu_system_s + other.cpu_system_s,
                "busiest_thread_cpu_pct": max(self.busiest_thread_cpu_pct or 0.0, other.busiest_thread_cpu_pct or 0.0),
                "clock_error_us": max(self.clock_error_us or 0.0, other.clock_error_us or 0.0),
            }
        )


class DriverFinding(Record):
    """What one of the driver's own rules found in its result."""

    rule: str
    """The driver's name for it: lag, dropped, … (engine/dyno-load/src/quality)."""
    level: Literal["valid", "suspect", "invalid"]
    """valid: worth knowing, and no doubt about the result."""
    text: str


class Digest(Record):
    """A statement without its literals, as a capture has it."""

    name: str
    """Its short form."""
    digest: str
    """XXH3 of the text, as `dynoload replay` states it."""
    text: str
    """At most 1,000 characters."""


COUNTS = ("transactions", "queries", "errors", "ignored_errors", "reconnects")
"""What adds up over load programs and over slices."""


class DriverResult(Record):
    """What the load program counted in the measured window of one step. Counts are of the window alone; what slices cut
    counts by its share.
    """

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
    """Keys: mean, min, max, p50, p90, p95, p99, p999, as far as the driver reports them."""
    service_us: float | None = Field(None, exclude_if=is_empty)
    """Mean service time: from a transaction's first statement to its last answer; None where it is not reported."""
    latency_histogram_us: tuple[tuple[float, int], ...] = ()
    """(upper bound of the bucket in µs, count)."""
    cpu_user_s: float | None = None
    cpu_system_s: float | None = None
    """CPU time of the driver's process, of the whole step."""
    whole: dict[str, int] = Field(default_factory=dict)
    """Counts of the whole step, warm-up included: transactions, read, write, other, unchanged (of other: inserts,
    updates and deletes that changed no row), in slices ignored (errors; the
    server counts the statements of such a transaction, the load does not), and of kv cmd_get, cmd_set, get_hits,
    get_misses; to be compared with the server's."""
    key_values: dict[str, float] = Field(default_factory=dict)
    """For kv: cmd_get, cmd_set, get_hits, get_misses, verified and wrong_values, counted in the window, and min_us,
    max_us, mean_us, std_us and geometric_mean_us of the latency of all operations."""
    latency_log2_us: tuple[tuple[float, int], ...] = ()
    """For kv: (upper bound in µs, count) in buckets by powers of two, as memaslap prints them."""
    transaction_types: dict[str, dict[str, float]] = Field(default_factory=dict)
    """{type of TPC-C, name in the user's file, or digest of a capture: {count: ended, mean_us: service time, errors:
    attempts that failed; of statements also rows: returned, or else changed, by all together, least_rows, most_rows: by
    one}}, in the window."""
    digests: tuple[Digest, ...] = Field((), exclude_if=is_empty)
    """Of a replay: what the names of `transaction_types` stand for."""
    traffic: dict[str, int] = Field(default_factory=dict)
    """Bytes in the window, where the driver counts them: raw_sent_bytes and raw_received_bytes (the protocol's
    packets), compressed_… (after compression, before TLS), wire_… (as they left)."""
    tls: dict[str, Any] = Field(default_factory=dict)
    """Handshakes that the driver itself counted, where any was made: `measured` and `whole_load`, each with full,
    resumed, and negotiated [{version, cipher_suite, connections}]."""
    busiest_thread_cpu_pct: float | None = None
    """CPU of the driver's busiest thread, in percent of one CPU, if the driver reports it."""
    clients: tuple[ClientLoad, ...] = ()
    """The hosts that the load came from; empty: the server's host."""
    health: Literal["valid", "suspect", "invalid"] = "valid"
    health_reasons: tuple[str, ...] = ()
    findings: tuple[DriverFinding, ...] = Field((), exclude_if=is_empty)
    """The same with the rules that found them, as far as the driver names its rules."""


class ChangePoint(Record):
    """A lasting change of level inside the window."""

    at_s: float
    change: float


class WindowSteadiness(Record):
    """How steady one measured window was."""

    steadiness: Literal["steady", "undecided", "not steady"] = "undecided"
    mser5_cut_s: int = 0
    """MSER-5 cut of the whole step, in samples of one second from the start of the load."""
    mser5_beyond_half: bool = False
    mser5_trustworthy: bool = False
    samples: int = 0
    drift: float = 0.0
    """Change along a straight line over the window, as a fraction."""
    change_points: tuple[ChangePoint, ...] = ()
    cycles: dict[str, int] = Field(default_factory=dict)
    """Completed cycles of each state of the server."""
    reasons: tuple[str, ...] = ()
    """What is not steady, in words."""


class InstanceStep(Record):
    """One instance's part of a step, where a run has several."""

    instance: int
    started_unix_ns: int
    """When this instance's load began."""
    driver: DriverResult
    server_counters: dict[str, float] = Field(default_factory=dict)
    steady: WindowSteadiness | None = None
    reasons: tuple[Reason, ...] = ()
    """Validity checks that failed for this instance; they make the whole step invalid."""


KERNEL_COUNTERS = (
    "voluntary_context_switches",
    "involuntary_context_switches",
    "minor_page_faults",
    "major_page_faults",
    "read_calls",
    "write_calls",
    "disk_read_bytes",
    "disk_written_bytes",
    "inter_processor_interrupts",
)
"""What the kernel counts for a server's process. The calls are those of the read and write families, sockets included
where they are used; the bytes are those that reached a disk or were going to. The last is of the whole host: interrupts
by which one CPU wakes another, or has it call a function."""


class SearchSlice(Record):
    """What a slice of a capacity search showed."""

    rate: float | None = None
    """Operations per second that were offered; None where connections are searched."""
    connections: int | None = Field(None, exclude_if=is_empty)
    """Connections that were loaded in a closed loop; None where the rate is searched."""
    value_us: float | None = None
    """The limited latency, counted from when each operation was due; None: nothing ended."""
    planned: int = 0
    """Operations that were due in the measured part."""
    late: int = 0
    """Operations among `planned` that ended after the measured part, or never."""
    met: bool
    because: Literal["", "latency", "throughput", "errors", "unfinished"] = ""
    """Why the objective was missed; empty if it was met."""

    @property
    def level(self) -> float:
        """The load, of whichever kind."""
        return float(self.rate if self.connections is None else self.connections)  # type: ignore[arg-type]


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
    washout_s: float | None = None
    """Load before the measured part; None: design.washout."""
    transactions: int = 0
    """Those that ended."""
    queries: int = 0
    cut: dict[str, float] = Field(default_factory=dict, exclude_if=is_empty)
    """What is added to `transactions` and `queries` where load is closed: those that the measured part cuts count by
    the share of their time in it, not by their end."""
    errors: int = 0
    ignored_errors: int = 0
    reconnects: int = 0
    latency_us: dict[str, float] = Field(default_factory=dict)
    """mean, min, max, p50, p90, p95, p99, p999 of the response time, as far as anything ended."""
    service_us: float | None = None
    """Mean service time: from the first statement to the last answer; at a set rate shorter than the response time."""
    histograms: tuple[str, ...] = ()
    """Response times in nanoseconds, HdrHistogram V2 deflated in base64; one for each instance."""
    rates: dict[str, float] = Field(default_factory=dict)
    """What only some workloads have: tpmc, kv_hit_pct, kv_misses_per_s, tpmc_instance_1, …"""
    key_values: dict[str, float] = Field(default_factory=dict)
    """For kv: cmd_get, cmd_set, get_hits, get_misses, verified, wrong_values."""
    transaction_types: dict[str, dict[str, float]] = Field(default_factory=dict, exclude_if=is_empty)
    """As in DriverResult."""
    traffic: dict[str, int] = Field(default_factory=dict)
    driver_cpu_s: float | None = None
    server_cpu_s: float | None = None
    executed: dict[str, float] = Field(default_factory=dict, exclude_if=is_empty)
    """Instructions and cycles of all servers and their loads: server_user_instructions, server_kernel_instructions,
    server_cycles, driver_user_instructions, …; empty where the processor does not count them."""
    idle_servers_cpu_s: float | None = None
    """CPU time of all servers that were not loaded."""
    steal: float | None = None
    """Share of the host's CPU time that the hypervisor took."""
    strangers: float | None = None
    """Share of the host's CPU time used by processes that are neither our servers nor our load."""
    speed: float | None = None
    """The speed meter: CPU nanoseconds per fixed unit of work (more is slower); None: not measured."""
    served: int | None = Field(None, exclude_if=is_empty)
    """Queries that the arm's servers had answered since their start when the slice had ended; None: not counted."""
    server_rss_bytes: float | None = None
    """Resident memory of the arm's servers when the slice had ended."""
    server_rss_peak_bytes: float | None = Field(None, exclude_if=is_empty)
    """The most that it was since the servers' start."""
    server_vsize_bytes: float | None = Field(None, exclude_if=is_empty)
    """Their virtual memory when the slice had ended."""
    whole: dict[str, int] = Field(default_factory=dict)
    server_counters: dict[str, float] = Field(default_factory=dict)
    """Growth of the server's own counters from go to hold."""
    kernel_counters: dict[str, float] = Field(default_factory=dict)
    """Growth of KERNEL_COUNTERS of the arm's servers over the slice, washout included."""
    disagreements: tuple[str, ...] = ()
    """Where the server's counters and the load's differ."""
    profiled: bool = False
    """Whether a profiler or tracer ran in it, or instruments were on: such slices are in files of their own,
    and enter no value of the arm."""
    search: SearchSlice | None = Field(None, exclude_if=is_empty)
    """The outcome of a slice of a capacity search; None for a slice at full load or at a set rate."""
    planned: int = Field(0, exclude_if=is_empty)
    """At a rate: operations that were due in the measured part."""
    unfinished: int = Field(0, exclude_if=is_empty)
    """Operations among `planned` whose end was not seen, or that never started."""
    dropped: int = Field(0, exclude_if=is_empty)
    """Operations among `planned` that were given up as late."""
    captured: dict[str, float] = Field(default_factory=dict, exclude_if=is_empty)
    """For a replay at captured times: begin_s and end_s of the part of the capture that was played, washout included,
    the capture's length_s at this speed, and own_lag_p99_us, by which the load program itself was late."""
    failed: str = ""
    """Why the arm failed in this slice; empty if it did not. The slice then has no values."""

    @property
    def done_transactions(self) -> float:
        """Transactions, with what was cut by its share."""
        return self.transactions + self.cut.get("transactions", 0.0)

    @property
    def done_queries(self) -> float:
        """The same of queries."""
        return self.queries + self.cut.get("queries", 0.0)


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
    steady: WindowSteadiness | None = None
    """None in the interleaved design, which judges no window."""
    valid: bool = True
    reasons: tuple[Reason, ...] = ()
    """Validity checks that failed for this step alone; its values are kept and shown, but not used."""
    warnings: tuple[str, ...] = Field((), exclude_if=is_empty)
    """What the driver found in its result that was the host's noise: the step counts."""
    failed: str = ""
    """Why the arm itself failed here (errors, a crash, no throughput): a result, not a loss; empty otherwise."""
    instances: tuple[InstanceStep, ...] = ()
    """Each instance's part; empty if the run has one."""
    connection_memory_bytes: float | None = Field(None, exclude_if=lambda value: value is None)
    """Interleaved, a lane's first step: how much the servers' resident memory grew by connecting the load, per
    connection. Later steps reuse memory of earlier connections, so nothing is known there."""
    rss_after_bytes: float | None = Field(None, exclude_if=lambda value: value is None)
    """Interleaved: the servers' resident memory once the load of every lane was disconnected."""
    start_spread_s: float = 0.0
    """How long after the first driver's load the last one's began."""
    throttled: dict[str, float] = Field(default_factory=dict, exclude_if=is_empty)
    """{file of a CPU quota of mydyno's own control groups: share of its periods in which it was used up}."""


class TablesRecord(Record):
    """The tables of the load's schema, by the server's statistics: rows are estimates."""

    tables: int
    rows: int
    size_bytes: int
    """Data and indexes."""


class ServerRecord(Record):
    """The server of a run, as reported by SQL."""

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
    open_files: int = Field(0, exclude_if=is_empty)
    """Its soft limit on open files, read from the live process; 0: not read."""
    notes: tuple[str, ...] = ()
    """Variables of the experiment that this version names differently or does not have, and what was done."""
    tables: TablesRecord | None = Field(None, exclude_if=is_empty)
    """None: not read."""


ProfileMethod = Literal["perf", "proc"]
"""proc: kernel stacks sampled from /proc, without functions of the server."""


class CpuProfile(Record):
    """What a CPU profile of one run at one step rests on; its stacks are in `file`."""

    step: str
    file: str = ""
    """Folded stacks, below the run's folder; empty: there are none, and `missing` says why."""
    slices: int = 0
    """Profiled slices."""
    transactions: int = 0
    server_cpu_s: float = 0.0
    """Both of the measured parts of the profiled slices."""
    samples: int = 0
    waiting_samples: int = 0
    """Samples of threads that waited for a disk or a CPU, which stand for no CPU time; method "proc" only."""
    lost_samples: int = 0
    cut_off_samples: int = 0
    """Samples whose stack does not reach the beginning of its thread."""
    frames: int = 0
    unknown_frames: int = 0
    """Frames of all samples, and those of them without a name (no symbol)."""
    event: str = ""
    frequency_hz: int = 0
    profiler: str = ""
    """Program and version."""
    method: ProfileMethod = "perf"
    missing: str = ""
    """Why slices of this run have no profile; empty: all have one."""


class CountFacts(Record):
    """What the waits, or the kernel view, of one run at one step rest on; the counts are in `file`."""

    step: str
    file: str = ""
    """WaitTotals or KernelTotals, below the run's folder; empty: there is none, and `missing` says why."""
    slices: int = 0
    transactions: int = 0
    missing: str = ""
    """Why slices of this run were not counted; empty: all were."""


class RunFacts(Record):
    """What run.json and summary.json have of one arm in one block."""

    block: int
    host_group: str = Field("", exclude_if=is_empty)
    """The host group that executed the block; empty: the only one of the study."""
    position: int
    arm: str
    copy_number: int = Field(1, alias="copy")
    valid: bool
    reasons: tuple[Reason, ...] = ()
    warnings: tuple[str, ...] = ()
    unsampled: dict[str, str] = Field(default_factory=dict, exclude_if=is_empty)
    """{family of metrics of host and servers: why it was never read}; "everything": there are no samples at all."""
    evidence: tuple[Evidence, ...] = ()
    folder: str


class RunRecord(RunFacts):
    """run.json: one arm in one block, finished. `valid` is false if any validity check failed; reasons have which."""

    format: int = FORMAT
    started_unix_ns: int
    ended_unix_ns: int
    failed: str = ""
    """Why the arm itself failed (did not start, crashed, ran out of memory): a result; empty otherwise."""
    servers: tuple[ServerRecord, ...] = ()
    steps: tuple[StepRecord, ...] = ()
    cpu_profiles: tuple[CpuProfile, ...] = Field((), exclude_if=is_empty)
    """One for each step, where `profile.cpu` is set."""
    waits: tuple[CountFacts, ...] = Field((), exclude_if=is_empty)
    """One for each step, where `profile.waits` is set."""
    kernel: tuple[CountFacts, ...] = Field((), exclude_if=is_empty)
    """One for each step, where `profile.kernel` is set."""


class StudyRecord(Record):
    """study.json: experiment, host and versions. Written once, before the first run; it never contains a password."""

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
    server_host: dict[str, Any] = Field(default_factory=dict, exclude_if=is_empty)
    """Facts of an external server's host (server.ssh); `host` is that of the load."""
    hosts: dict[str, dict[str, Any]] = Field(default_factory=dict, exclude_if=is_empty)
    """Host group → facts of its server host, as `host` has them; empty: `host` is the only one."""
    versions: dict[str, str] = Field(default_factory=dict)
    """Server, driver, allocators, engine."""
    host_groups: tuple[HostGroup, ...] = Field((), exclude_if=is_empty)
    """The host groups that execute the blocks; empty: the host that mydyno runs on."""
    batch: BatchJob | None = Field(None, exclude_if=is_empty)
    """The job of a batch system that executes the blocks."""
    files: dict[str, str] = Field(default_factory=dict, exclude_if=is_empty)
    """Files that the experiment names: path on this host → SHA-256; those of up to 1 MiB are kept below `files`."""
