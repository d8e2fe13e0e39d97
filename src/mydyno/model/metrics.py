"""The metrics that values, effects and reports know: unit, direction, meaning, and the scope that they come from.

Values of a run are means over the measured window of the per-second samples, except where `aggregate` says otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from mydyno.model.records import Metric


@dataclass(frozen=True)
class MetricSource:
    """One metric: what it means, and how a run's value is made from its samples."""

    unit: str
    better: Literal["higher", "lower", "none"]
    description: str
    scope: Literal["host", "instance", "driver"]
    aggregate: Literal["mean", "max", "last", "driver", "per_transaction", "slices"] = "mean"
    """slices: only of interleaved studies (results/interleaved.py).
    driver: from the driver's own histogram of the whole measured window, not from samples. per_transaction: the sum
    of `of`, each a mean of its own scope, times `factor`, over tps."""
    of: tuple[str, ...] = ()
    factor: float = 1.0
    together: Literal["sum", "mean", "spread"] = "sum"
    """How the value of a run with several instances is made from theirs. Latencies come from all histograms merged."""

    def record(self) -> Metric:
        """As summary.json has it."""
        return Metric(unit=self.unit, better=self.better, description=self.description)


def _latency(name: str) -> MetricSource:
    return MetricSource("µs", "lower", f"{name} transaction latency at the driver", "driver", "driver")


SPREAD_OF = ("tpmc", "tps", "qps")
"""Rates whose spread between the instances of a run is a metric itself."""


def _cpu_per_transaction(side: Literal["server", "driver"]) -> MetricSource:
    """From percent of one CPU: 1 % is 10,000 µs a second."""
    return MetricSource(
        "µs",
        "lower",
        f"CPU time of the {side} for one transaction; packets are received on whoever's account the kernel finds",
        "instance" if side == "server" else "driver",
        "per_transaction",
        (f"{side}_cpu_user_pct", f"{side}_cpu_system_pct"),
        10_000.0,
    )


METRICS: dict[str, MetricSource] = {
    "qps": MetricSource("1/s", "higher", "queries per second, counted by the driver", "driver"),
    "tps": MetricSource("1/s", "higher", "transactions per second, counted by the driver", "driver"),
    "tpmc": MetricSource("1/min", "higher", "New-Order transactions per minute, counted by the driver", "driver"),
    "ops": MetricSource("1/s", "higher", "gets and sets per second, counted by the driver", "driver"),
    "kv_hit_pct": MetricSource("%", "higher", "share of the keys asked for that were there", "driver", together="mean"),
    "kv_misses_per_s": MetricSource("1/s", "none", "gets per second of keys that were not there", "driver"),
    "latency_mean_us": _latency("mean"),
    "latency_p50_us": _latency("median"),
    "latency_p95_us": _latency("95th percentile of"),
    "latency_p99_us": _latency("99th percentile of"),
    "latency_p999_us": _latency("99.9th percentile of"),
    "latency_max_us": _latency("longest"),
    "server_rss_bytes": MetricSource("bytes", "lower", "resident memory of the server", "instance"),
    "server_vsize_bytes": MetricSource("bytes", "lower", "virtual memory of the server", "instance"),
    "server_hugetlb_bytes": MetricSource(
        "bytes", "lower", "server's memory on reserved huge pages, which is not in its resident memory", "instance"
    ),
    "server_anonymous_huge_bytes": MetricSource(
        "bytes", "none", "server's memory on transparent huge pages", "instance"
    ),
    "server_pss_bytes": MetricSource("bytes", "lower", "proportional memory of the server", "instance"),
    "server_cpu_user_pct": MetricSource("% of one CPU", "none", "server's CPU time in user mode", "instance"),
    "server_cpu_system_pct": MetricSource("% of one CPU", "none", "server's CPU time in the kernel", "instance"),
    "driver_cpu_user_pct": MetricSource("% of one CPU", "none", "driver's CPU time in user mode", "driver"),
    "driver_cpu_system_pct": MetricSource("% of one CPU", "none", "driver's CPU time in the kernel", "driver"),
    "cpu_user_pct": MetricSource("%", "none", "host CPU in user mode, of all CPUs", "host"),
    "cpu_system_pct": MetricSource("%", "none", "host CPU in the kernel, of all CPUs", "host"),
    "cpu_iowait_pct": MetricSource("%", "none", "host CPU idle with I/O outstanding", "host"),
    "cpu_steal_pct": MetricSource("%", "none", "host CPU taken by the hypervisor", "host"),
    "disk_read_bytes_per_s": MetricSource("bytes/s", "none", "bytes read from the data's disk", "host"),
    "disk_write_bytes_per_s": MetricSource("bytes/s", "none", "bytes written to the data's disk", "host"),
    "disk_util_pct": MetricSource("%", "none", "time that the data's disk had I/O in flight", "host"),
    "network_rx_bytes_per_s": MetricSource("bytes/s", "none", "bytes received", "host"),
    "network_tx_bytes_per_s": MetricSource("bytes/s", "none", "bytes sent", "host"),
    "network_bytes_per_transaction": MetricSource(
        "bytes",
        "lower",
        "bytes that the server's interface sent and received for one transaction, headers included",
        "host",
        "per_transaction",
        ("network_tx_bytes_per_s", "network_rx_bytes_per_s"),
    ),
    "server_cpu_us_per_query": MetricSource(
        "µs", "lower", "CPU time of the server for one query, kernel included", "instance", "slices"
    ),
    "server_cpu_ratio": MetricSource(
        "", "lower", "CPU time of the server for each second of the load program's", "instance", "slices"
    ),
    "driver_cpu_pct": MetricSource("% of one CPU", "none", "driver's CPU time", "driver", "slices"),
    "server_cpu_us_per_transaction": _cpu_per_transaction("server"),
    "driver_cpu_us_per_transaction": _cpu_per_transaction("driver"),
    "innodb_checkpoint_age_bytes": MetricSource("bytes", "none", "redo not yet checkpointed", "instance"),
    "innodb_dirty_pages_pct": MetricSource("%", "none", "dirty pages in the buffer pool", "instance", together="mean"),
    **{
        f"{rate}_spread_pct": MetricSource(
            "%",
            "lower",
            f"{rate} of the best less that of the worst instance, of their mean",
            "driver",
            together="spread",
        )
        for rate in SPREAD_OF
    },
}
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
    if source.scope == "host" or source.together == "spread":
        return None
    return replace(source, description=f"{source.description}, of instance {instance}")


def ordered(metrics: Iterable[str]) -> list[str]:
    """Known metrics in METRICS' order, each followed by its instances'."""
    rank = {name: number for number, name in enumerate(METRICS)}
    known = [name for name in dict.fromkeys(metrics) if metric_source(name) is not None]
    return sorted(known, key=lambda name: (rank[split_instance(name)[0]], split_instance(name)[1] or 0))
