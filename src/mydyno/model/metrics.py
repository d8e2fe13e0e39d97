"""The metrics that values, effects and reports know: unit, direction, meaning, and the scope that they come from; and
how sentences speak of one: the noun, and verb phrases for more and for less of it ("serves more queries").

Values of a run are means over the measured window of the per-second samples, except where `aggregate` says otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import Literal

from mydyno.model.frozen_record import Record

_PERCENTILE = re.compile(r"latency_p(\d\d)(\d*)_us")

COMMON_NAMES = {
    "throughput": "qps",
    "queries": "qps",
    "transactions": "tps",
    "cpu": "server_cpu_us_per_query",
    "cpu_per_query": "server_cpu_us_per_query",
    "instructions": "server_instructions_per_query",
    "latency": "latency_p99_us",
    "p50": "latency_p50_us",
    "p95": "latency_p95_us",
    "p99": "latency_p99_us",
    "p999": "latency_p999_us",
    "memory": "server_rss_bytes",
    "rss": "server_rss_bytes",
    "leak": "server_rss_growth_per_million_queries",
    "rss_growth": "server_rss_growth_per_million_queries",
    "vsz": "server_vsize_bytes",
    "vsize": "server_vsize_bytes",
}
"""What people call a metric → its name."""


@dataclass(frozen=True, slots=True)
class Phrase:
    """The words for one metric."""

    noun: str
    one: str
    """Verb for one arm, present tense."""
    several: str
    """The same for several arms."""
    more: str
    less: str
    short_noun: str
    """The noun in answers, where the context is known."""
    cost: bool = False
    """Whether less of it may follow a gain: "at 5 % less CPU per query"."""

    def on_instance(self, instance: int) -> Phrase:
        """The same of one instance of a run."""
        names = ("noun", "more", "less", "short_noun")
        return replace(self, cost=False, **{name: f"{getattr(self, name)} on instance {instance}" for name in names})


def rate(verb: str, noun: str, counted: str) -> Phrase:
    """A rate of what is counted, e.g. serve, "queries per second", "queries"."""
    return Phrase(noun, f"{verb}s", verb, f"more {counted}", f"fewer {counted}", noun)


def use(noun: str, short_noun: str = "", cost: bool = False) -> Phrase:
    """A resource that an arm uses."""
    short = short_noun or noun
    return Phrase(noun, "uses", "use", f"more {short}", f"less {short}", short, cost)


def have(noun: str) -> Phrase:
    """A property that an arm has more or less of."""
    return Phrase(noun, "has", "have", f"a higher {noun}", f"a lower {noun}", noun)


def default_phrase(metric: str) -> Phrase:
    """Words for a metric without words of its own: a latency percentile is recognised, others go by their name."""
    percentile = _PERCENTILE.fullmatch(metric)
    if percentile is None:
        return have(metric)
    whole, fraction = percentile.groups()
    return have(f"{whole}{'.' + fraction if fraction else ''}th-percentile latency")


def common_name(metric: str) -> str:
    """The metric that people call by this name; unchanged if there is none."""
    return COMMON_NAMES.get(metric.lower().replace("-", "_"), metric)


def lane_name(arm: str, copy: int) -> str:
    """An arm, or its second copy."""
    return arm if copy == 1 else f"{arm} again"


class Metric(Record):
    """What a metric's number means."""

    unit: str
    better: Literal["higher", "lower", "none"]
    description: str = ""


Together = Literal["sum", "mean", "least", "spread"]


@dataclass(frozen=True)
class MetricSource:
    """One metric: what it means, and how a run's value is made from its samples."""

    unit: str
    better: Literal["higher", "lower", "none"]
    description: str
    scope: Literal["host", "instance", "driver"]
    aggregate: Literal["mean", "max", "last", "driver", "per_transaction", "slices"] = "mean"
    """slices: only of interleaved studies (results/values/interleaved.py).
    driver: from the driver's own histogram of the whole measured window, not from samples. per_transaction: the sum
    of `of`, each a mean of its own scope, times `factor`, over tps."""
    of: tuple[str, ...] = ()
    factor: float = 1.0
    together: Together = "sum"
    """How the value of a run with several instances is made from theirs. Latencies come from all histograms merged."""
    label: str = ""
    """The name in headings and tables; empty: made from the metric's own name."""
    phrase: Phrase | None = None
    """The words in sentences; None: those of default_phrase."""

    def record(self) -> Metric:
        """As summary.json has it."""
        return Metric(unit=self.unit, better=self.better, description=self.description)


Side = Literal["server", "driver"]
Aggregate = Literal["mean", "max", "slices"]


def _rate(
    unit: str, counted: str, verb: str, label: str, words: tuple[str, str], together: Together = "sum", of: str = ""
) -> MetricSource:
    """What the driver counts; `words`: the noun in sentences, and what is counted."""
    parts = (of,) if of else ()
    phrase = rate(verb, *words)
    return MetricSource(unit, "higher", counted, "driver", of=parts, together=together, label=label, phrase=phrase)


def _capacity(unit: str, description: str, label: str, counted: str) -> MetricSource:
    """The load that meets the objective of a search."""
    noun = f"{counted} within the objective"
    more, fewer = f"more {noun}", f"fewer {noun}"
    phrase = Phrase(noun, "sustains", "sustain", more, fewer, "capacity")
    return MetricSource(unit, "higher", description, "driver", "slices", label=label, phrase=phrase)


def _latency(name: str, label: str, noun: str = "") -> MetricSource:
    description, phrase = f"{name} transaction latency at the driver", have(noun) if noun else None
    return MetricSource("µs", "lower", description, "driver", "driver", label=f"Latency, {label}", phrase=phrase)


def _memory(description: str, label: str = "", noun: str = "", aggregate: Aggregate = "mean") -> MetricSource:
    """Memory of a server."""
    phrase = use(noun) if noun else None
    return MetricSource("bytes", "lower", description, "instance", aggregate, label=label, phrase=phrase)


def _process_cpu(side: Side, where: str) -> MetricSource:
    scope: Literal["instance", "driver"] = "instance" if side == "server" else "driver"
    return MetricSource("% of one CPU", "none", f"{side}'s CPU time {where}", scope)


def _host(unit: str, description: str, label: str = "", phrase: Phrase | None = None) -> MetricSource:
    """What no arm is better by."""
    return MetricSource(unit, "none", description, "host", label=label, phrase=phrase)


def _per_query(unit: str, description: str, label: str = "", phrase: Phrase | None = None) -> MetricSource:
    """What a server spends on a query, known of slices alone."""
    return MetricSource(unit, "lower", description, "instance", "slices", label=label, phrase=phrase)


def _cpu_per_transaction(side: Side, label: str, phrase: Phrase) -> MetricSource:
    """From percent of one CPU: 1 % is 10,000 µs a second."""
    description = f"CPU time of the {side} for one transaction; the kernel may charge received packets to either side"
    scope: Literal["instance", "driver"] = "instance" if side == "server" else "driver"
    parts = (f"{side}_cpu_user_pct", f"{side}_cpu_system_pct")
    return MetricSource(
        "µs", "lower", description, scope, "per_transaction", parts, 10_000.0, label=label, phrase=phrase
    )


def _spread(name: str, label: str) -> MetricSource:
    """Of a rate between the instances of a run."""
    description = f"{name} of the best less that of the worst instance, of their mean"
    noun = f"spread of {label} between instances"
    return MetricSource("%", "lower", description, "driver", together="spread", label=f"S{noun[1:]}", phrase=have(noun))


GROWTH = "server_rss_growth_per_million_queries"
FEWEST_OF_GROWTH = 6
"""Cycles of a step in a block from which on memory's growth is measured."""
SLOWEST_STATEMENT = "slowest_statement"
"""Known to a study's gate alone: no run has a value of it."""
SPREAD_OF = {"tpmc": "TpmC", "tps": "TPS", "qps": "QPS"}
"""Rates whose spread between the instances of a run is a metric itself."""
NEW_ORDERS = "New-Order transactions per minute"

METRICS: dict[str, MetricSource] = {
    "qps": _rate(
        "1/s", "queries per second, counted by the driver", "serve", "QPS", ("queries per second", "queries")
    ),
    "tps": _rate(
        "1/s", "transactions per second, counted by the driver", "serve", "TPS",
        ("transactions per second", "transactions"),
    ),
    "tpmc": _rate(
        "1/min", f"{NEW_ORDERS}, counted by the driver", "complete", "TpmC", (NEW_ORDERS, "New-Order transactions")
    ),
    "tpmc_per_instance": _rate(
        "1/min", f"{NEW_ORDERS}, mean of the run's instances", "complete", "TpmC per instance",
        (f"{NEW_ORDERS} and instance", "New-Order transactions per instance"), "mean", "tpmc",
    ),
    "tpmc_worst_instance": _rate(
        "1/min", f"{NEW_ORDERS} of the run's instance that completed the fewest", "complete",
        "TpmC of the worst instance",
        (f"{NEW_ORDERS} of the worst instance", "New-Order transactions on the worst instance"), "least", "tpmc",
    ),
    "ops": _rate(
        "1/s", "gets and sets per second, counted by the driver", "serve", "Operations per second",
        ("operations per second", "operations"),
    ),
    "capacity_tps": _capacity(
        "1/s",
        "highest rate of transactions that meets the service-level objective of steps.search in half of the slices",
        "Capacity", "transactions per second",
    ),
    "capacity_connections": _capacity(
        "connections",
        "most connections of a closed loop that meet the service-level objective of steps.search in half of the slices",
        "Capacity in connections", "connections",
    ),
    "kv_hit_pct": MetricSource(
        "%", "higher", "share of the requested keys that were found", "driver", together="mean", label="Keys found",
        phrase=have("share of keys found"),
    ),
    "kv_misses_per_s": MetricSource("1/s", "none", "gets per second of keys that were not found", "driver"),
    "latency_mean_us": _latency("mean", "mean", "mean latency"),
    "latency_p50_us": _latency("median", "median", "median latency"),
    "latency_p95_us": _latency("95th percentile of", "95th percentile"),
    "latency_p99_us": _latency("99th percentile of", "99th percentile"),
    "latency_p999_us": _latency("99.9th percentile of", "99.9th percentile"),
    "latency_max_us": _latency("longest", "longest", "maximum latency"),
    "server_rss_bytes": _memory("resident memory of the server", "Resident memory (RSS)", "resident memory"),
    "server_rss_early_bytes": _memory(
        "resident memory of the server after as many queries as every arm had served in the first cycle of its block",
        "Resident memory, early", "resident memory early in the load", "slices",
    ),
    "memory_queries": MetricSource(
        "queries", "none",
        "queries since the server's start after which memory is compared, the same in all arms of a block",
        "instance", "slices", label="Queries before memory is compared",
    ),
    "memory_early_queries": MetricSource(
        "queries", "none", "queries after which resident memory is compared early in the load", "instance", "slices",
        label="Queries before memory is compared early",
    ),
    "server_rss_peak_bytes": _memory(
        "most resident memory of the server since its start", "Resident memory, peak", "peak resident memory", "max"
    ),
    "server_rss_after_bytes": _memory(
        "resident memory of the server after the load was disconnected: what it did not give back",
        "Resident memory after the load", "resident memory after the load", "slices",
    ),
    GROWTH: MetricSource(
        "", "lower",
        "factor by which resident memory of the server grows in a million queries (1.01: 1 %); from 6 cycles in a "
        "block on",
        "instance", "slices", label="Resident memory, growth per million queries",
        phrase=Phrase(
            noun="growth of resident memory per million queries",
            one="grows",
            several="grow",
            more="more in resident memory per million queries",
            less="less in resident memory per million queries",
            short_noun="growth of resident memory",
        ),
    ),
    "server_vsize_bytes": _memory("virtual memory of the server", "Virtual memory (VSIZE)", "virtual memory"),
    "server_hugetlb_bytes": _memory(
        "the server's memory on reserved huge pages, which is not part of its resident memory"
    ),
    "server_anonymous_huge_bytes": MetricSource(
        "bytes", "none", "server's memory on transparent huge pages", "instance"
    ),
    "server_pss_bytes": _memory(
        "proportional memory of the server", "Proportional memory (PSS)", "proportional memory"
    ),
    "server_cpu_user_pct": _process_cpu("server", "in user mode"),
    "server_cpu_system_pct": _process_cpu("server", "in the kernel"),
    "driver_cpu_user_pct": _process_cpu("driver", "in user mode"),
    "driver_cpu_system_pct": _process_cpu("driver", "in the kernel"),
    "cpu_user_pct": _host("%", "host CPU in user mode, of all CPUs", "CPU user", use("user CPU")),
    "cpu_system_pct": _host("%", "host CPU in the kernel, of all CPUs", "CPU system", use("system CPU")),
    "cpu_iowait_pct": _host("%", "host CPU idle with I/O outstanding", "CPU iowait", have("I/O wait")),
    "cpu_steal_pct": _host("%", "host CPU taken by the hypervisor", "CPU steal"),
    "disk_read_bytes_per_s": _host(
        "bytes/s", "bytes read from the data's disk", phrase=have("disk read throughput")
    ),
    "disk_write_bytes_per_s": _host(
        "bytes/s", "bytes written to the data's disk", phrase=have("disk write throughput")
    ),
    "disk_util_pct": _host(
        "%", "time that the data's disk had I/O in flight", "Disk utilisation", have("disk utilisation")
    ),
    "network_rx_bytes_per_s": _host("bytes/s", "bytes received", phrase=have("network receive throughput")),
    "network_tx_bytes_per_s": _host("bytes/s", "bytes sent", phrase=have("network transmit throughput")),
    "network_bytes_per_transaction": MetricSource(
        "bytes", "lower", "bytes that the server's interface sent and received for one transaction, headers included",
        "host", "per_transaction", ("network_tx_bytes_per_s", "network_rx_bytes_per_s"),
        label="Bytes per transaction", phrase=use("network bytes per transaction"),
    ),
    "server_cpu_us_per_query": _per_query(
        "µs", "CPU time of the server for one query, kernel included", "CPU per query, server",
        use("server CPU per query", "CPU per query", cost=True),
    ),
    SLOWEST_STATEMENT: MetricSource(
        "", "lower",
        "response time or CPU time, relative to the control, of the statement that became slower most; one that fails "
        "or returns other rows is beyond any limit (`steps.statements`, `mydyno gate`)",
        "instance", "slices", label="Slowest statement",
        phrase=use("time of the slowest statement", "slowest statement"),
    ),
    "server_instructions_per_query": _per_query(
        "instructions",
        "instructions that the server executes for one query, kernel included, where the processor counts them",
        "Instructions per query, server", use("server instructions per query", "instructions per query"),
    ),
    "server_kernel_instructions_per_query": _per_query(
        "instructions", "the part of them that is executed in the kernel"
    ),
    "server_cycles_per_query": _per_query("cycles", "processor cycles that the server uses for one query"),
    "driver_instructions_per_query": MetricSource(
        "instructions", "none", "instructions that the load program executes for one query", "driver", "slices"
    ),
    "driver_cpu_pct": MetricSource("% of one CPU", "none", "driver's CPU time", "driver", "slices"),
    "server_cpu_us_per_transaction": _cpu_per_transaction(
        "server", "CPU per transaction, server", use("CPU per transaction", cost=True)
    ),
    "driver_cpu_us_per_transaction": _cpu_per_transaction(
        "driver", "CPU per transaction, load", use("CPU per transaction in the load program")
    ),
    "innodb_checkpoint_age_bytes": MetricSource(
        "bytes", "none", "redo not yet checkpointed", "instance", label="InnoDB checkpoint age",
        phrase=have("checkpoint age"),
    ),
    "innodb_dirty_pages_pct": MetricSource(
        "%", "none", "dirty pages in the buffer pool", "instance", together="mean", label="InnoDB dirty pages",
        phrase=have("share of dirty pages"),
    ),
    **{f"{name}_spread_pct": _spread(name, label) for name, label in SPREAD_OF.items()},
}  # fmt: skip
OF_WORKLOAD: dict[str, dict[str, MetricSource]] = {
    "connect": {
        "tps": replace(
            METRICS["tps"],
            label="Connections per second",
            phrase=rate("complete", "connections per second", "connections per second"),
        ),
        "server_cpu_us_per_transaction": replace(
            METRICS["server_cpu_us_per_transaction"],
            label="CPU per connection, server",
            phrase=use("CPU per connection", cost=True),
        ),
        "driver_cpu_us_per_transaction": replace(
            METRICS["driver_cpu_us_per_transaction"],
            label="CPU per connection, load",
            phrase=use("CPU per connection in the load program"),
        ),
    }
}
"""workload → metric → its words where every step is of that workload: a transaction of `connect` is a connection."""
OF_ALL_INSTANCES = ("tpmc_per_instance", "tpmc_worst_instance")
"""Rates that are made of all instances' rates, so that no single instance has them."""
EXECUTED = (
    "server_instructions_per_query",
    "server_kernel_instructions_per_query",
    "server_cycles_per_query",
    "driver_instructions_per_query",
)
"""What the processor counts, where it does; of slices only."""
COST_METRIC = "server_cpu_us_per_query"
"""The cost of a query, on which verdict.cost adds verdicts."""
ANSWERED_COSTS = (COST_METRIC, "server_cpu_us_per_transaction")
"""What stands for the cost of the work, the preferred one first; a study that asks for one of them gets no other."""
_OF_INSTANCE = re.compile(r"(\w+)_instance_([1-9]\d*)")


def of_instance(metric: str, instance: int) -> str:
    """The name of one instance's value where a run has several: tpmc, 2 → tpmc_instance_2."""
    return f"{metric}_instance_{instance}"


def split_instance(metric: str) -> tuple[str, int | None]:
    """("tpmc", 2) from tpmc_instance_2, ("tpmc", None) from tpmc."""
    match = _OF_INSTANCE.fullmatch(metric)
    return (match[1], int(match[2])) if match else (metric, None)


def metric_source(metric: str) -> MetricSource | None:
    """What a metric of a run or of one of its instances means; None for an unknown name."""
    base, instance = split_instance(metric)
    source = METRICS.get(base)
    if source is None or instance is None:
        return source
    if source.scope == "host" or source.together == "spread" or base in OF_ALL_INSTANCES:
        return None
    return replace(source, description=f"{source.description}, of instance {instance}")


def worded_source(metric: str, workloads: Collection[str] = ()) -> MetricSource | None:
    """A metric of a whole run with its words in a study of these workloads; None for an unknown name."""
    own = OF_WORKLOAD.get(next(iter(workloads)), {}) if len(workloads) == 1 else {}
    return own.get(metric) or METRICS.get(metric)


def phrase_of(metric: str, workloads: Collection[str] = ()) -> Phrase:
    """The words for a metric of a run or of one of its instances, in a study of these workloads (each once); an unknown
    one is called by its name.
    """
    base, instance = split_instance(metric)
    source = worded_source(base, workloads)
    found = (source.phrase if source else None) or default_phrase(base)
    return found if instance is None else found.on_instance(instance)


def ordered(metrics: Iterable[str]) -> list[str]:
    """Known metrics in METRICS' order, each followed by its instances'."""
    rank = {name: number for number, name in enumerate(METRICS)}
    known = [name for name in dict.fromkeys(metrics) if metric_source(name) is not None]
    return sorted(known, key=lambda name: (rank[split_instance(name)[0]], split_instance(name)[1] or 0))
