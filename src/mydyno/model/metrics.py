"""The metrics that values, effects and reports know: unit, direction, meaning, and the scope that they come from.

Values of a run are means over the measured window of the per-second samples, except where `aggregate` says otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from mydyno.model.records import Metric


@dataclass(frozen=True)
class MetricSource:
    """One metric: what it means, and how a run's value is made from its samples."""

    unit: str
    better: Literal["higher", "lower", "none"]
    description: str
    scope: Literal["host", "instance", "driver"]
    aggregate: Literal["mean", "max", "last", "driver"] = "mean"
    """driver: from the driver's own histogram of the whole measured window, not from samples."""

    def record(self) -> Metric:
        """As summary.json has it."""
        return Metric(unit=self.unit, better=self.better, description=self.description)


def _latency(name: str) -> MetricSource:
    return MetricSource("µs", "lower", f"{name} transaction latency at the driver", "driver", "driver")


METRICS: dict[str, MetricSource] = {
    "qps": MetricSource("1/s", "higher", "queries per second, counted by the driver", "driver"),
    "tps": MetricSource("1/s", "higher", "transactions per second, counted by the driver", "driver"),
    "latency_mean_us": _latency("mean"),
    "latency_p50_us": _latency("median"),
    "latency_p95_us": _latency("95th percentile of"),
    "latency_p99_us": _latency("99th percentile of"),
    "latency_p999_us": _latency("99.9th percentile of"),
    "latency_max_us": _latency("longest"),
    "server_rss_bytes": MetricSource("bytes", "lower", "resident memory of the server", "instance"),
    "server_vsize_bytes": MetricSource("bytes", "lower", "virtual memory of the server", "instance"),
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
    "innodb_checkpoint_age_bytes": MetricSource("bytes", "none", "redo not yet checkpointed", "instance"),
    "innodb_dirty_pages_pct": MetricSource("%", "none", "dirty pages in the buffer pool", "instance"),
}
