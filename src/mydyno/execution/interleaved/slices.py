"""Makes a slice's SliceRecord from the reports of load program and kernel. No I/O but LaneReadings.read()."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mydyno.drivers.base import merged_types
from mydyno.drivers.held import TRAFFIC, measure_unix_ns, types_of
from mydyno.model.definition.experiment import Step
from mydyno.model.metrics import of_instance
from mydyno.model.stored.records import KERNEL_COUNTERS, SliceRecord
from mydyno.servers.running.base import RunningServer
from mydyno.stats.percentiles import PERCENTILES
from mydyno.workloads.reconcile import disagreements

LATENCY_KEYS = ("mean", "min", "max", *PERCENTILES)
KEY_VALUES = ("cmd_get", "cmd_set", "get_hits", "get_misses", "verified", "wrong_values")
IO_COUNTERS = {
    "syscr": "read_calls", "syscw": "write_calls", "read_bytes": "disk_read_bytes", "write_bytes": "disk_written_bytes",
}  # fmt: skip
"""/proc/PID/io to the names of KERNEL_COUNTERS."""
HOST_COUNTERS = ("inter_processor_interrupts",)
"""Counted for the whole host, so that each server's reading has the same."""
WAKING = ("Rescheduling interrupts", "Function call interrupts")
"""The ends of the lines of /proc/interrupts."""
SWITCH_COUNTERS = {
    "voluntary_ctxt_switches": "voluntary_context_switches",
    "nonvoluntary_ctxt_switches": "involuntary_context_switches",
}
"""/proc/PID/task/TID/status to the names of KERNEL_COUNTERS."""
MEMORY = {"VmRSS": "server_rss_bytes", "VmHWM": "server_rss_peak_bytes", "VmSize": "server_vsize_bytes"}
"""/proc/PID/status, in KiB, to the names of SliceRecord."""
WHOLE = {
    "transactions": "transactions", "reads": "read", "writes": "write", "other": "other", "ignored_errors": "ignored",
    "unchanged": "unchanged", "empty_reads": "empty_reads", "missing_rows": "missing_rows",
}  # fmt: skip
QUERIES = ("read", "write", "other", "calls", "cmd_get", "cmd_set")
"""The names of DriverResult.whole that are queries, or a memcached's commands."""


@dataclass(frozen=True)
class LaneReadings:
    """The kernel's counters of one server, read while it is not loaded."""

    memory: dict[str, float]
    """The names of MEMORY; empty where it cannot be read."""
    user_s: float
    system_s: float
    """CPU time in user mode and in the kernel, with a resolution of a tick (10 ms)."""
    sent_bytes: int
    received_bytes: int
    """Bytes on every interface of its network namespace but loopback; 0 for a load by loopback or a socket."""
    kernel: dict[str, float] = field(default_factory=dict)
    """The names of model/stored/records.py, KERNEL_COUNTERS, as far as this process may read them."""

    @classmethod
    def read(cls, instance: RunningServer) -> LaneReadings:
        """The readings of one server; zeros where it has ended or is no process of this host."""
        if instance.process is None or not instance.pid:
            return cls({}, 0.0, 0.0, 0, 0)
        folder = Path(f"/proc/{instance.pid}")
        try:
            stat = (folder / "stat").read_text().rpartition(")")[2].split()
            status = dict(line.split(":", 1) for line in (folder / "status").read_text().splitlines())
            memory = {name: 1024.0 * int(status[key].split()[0]) for key, name in MEMORY.items()}
            sent, received = _interface_bytes(folder, instance.settings.interface)
            kernel = _kernel_counters(folder, stat)
        except (OSError, ValueError, IndexError, KeyError):
            return cls({}, 0.0, 0.0, 0, 0)
        tick_s = 1 / os.sysconf("SC_CLK_TCK")
        return cls(memory, int(stat[11]) * tick_s, int(stat[12]) * tick_s, sent, received, kernel)


def inter_processor_interrupts(text: str) -> float | None:
    """Interrupts between CPUs since boot, over all CPUs, from the text of /proc/interrupts; None where it lists none.

    A CPU wakes another one by either kind: that it reschedules, or by a function that it is to call.
    """
    lines = [line.split() for line in text.splitlines() if line.endswith(WAKING)]
    return sum(float(word) for words in lines for word in words if word.isdigit()) if lines else None


def _kernel_counters(folder: Path, stat: Sequence[str]) -> dict[str, float]:
    """Kernel counters of one process (switches: of its present threads), and the host's interrupts between CPUs."""
    found = {"minor_page_faults": float(stat[7]), "major_page_faults": float(stat[9])}
    with suppress(OSError):
        sent = inter_processor_interrupts(Path("/proc/interrupts").read_text())
        found |= {} if sent is None else {"inter_processor_interrupts": sent}
    with suppress(OSError):  # only the process's own user and root may read it
        for line in (folder / "io").read_text().splitlines():
            name, _, value = line.partition(": ")
            if name in IO_COUNTERS:
                found[IO_COUNTERS[name]] = found.get(IO_COUNTERS[name], 0.0) + float(value)
    for task in (folder / "task").iterdir():
        with suppress(OSError):  # a thread that has ended
            for line in (task / "status").read_text().splitlines():
                name, _, value = line.partition(":\t")
                if name in SWITCH_COUNTERS:
                    found[SWITCH_COUNTERS[name]] = found.get(SWITCH_COUNTERS[name], 0.0) + float(value)
    return found


def _interface_bytes(folder: Path, interface: str | None) -> tuple[int, int]:
    if interface is None:
        return 0, 0
    for line in (folder / "net/dev").read_text().splitlines():
        name, _, counts = line.partition(":")
        if name.strip() == interface:
            fields = counts.split()
            return int(fields[8]), int(fields[0])
    return 0, 0


@dataclass(frozen=True)
class PartOfSlice:
    """One server's part of a slice."""

    record: dict[str, Any]
    """dynoload's slice record."""
    before: LaneReadings
    after: LaneReadings


@dataclass(frozen=True)
class Around:
    """What was read around a slice beside its own servers: shares of the host's CPU time, and the speed meter."""

    idle_servers_cpu_s: float | None = None
    speed: float | None = None
    remote_load: bool = False
    """Whether the load comes from other hosts: its CPU time is not part of this host's."""
    shared: bool = False
    """Whether the server has users of its own, whose statements it counts too."""


def slice_record(
    step: Step, block: int, cycle: int, position: int, arm: str, copy: int, parts: Sequence[PartOfSlice], around: Around
) -> SliceRecord:
    """The record of a slice that ended; with several servers counts add up, and their own rates stand beside."""
    records = [part.record for part in parts]
    first = records[0]
    length_s = max(float(record["length_s"]) for record in records)
    counts = _sum([record["counts"] for record in records])
    driver_cpu_s = sum((r["cpu"]["user_us"] + r["cpu"]["system_us"]) / 1e6 for r in records)
    server_cpu_us = [float(r["server_cpu_us"]) for r in records if r.get("server_cpu_us") is not None]
    server_cpu_s = sum(server_cpu_us) / 1e6 if len(server_cpu_us) == len(records) else None
    host = first.get("host_cpu") or {}
    whole = whole_counts(records)
    counters = _sum([record.get("server_counters") or {} for record in records])
    memories = [part.after.memory for part in parts]
    return SliceRecord(
        block=block,
        step=step.id,
        cycle=cycle,
        position=position,
        arm=arm,
        copy=copy,
        started_unix_ns=measure_unix_ns(first),
        length_s=length_s,
        transactions=int(counts.get("transactions", 0)),
        queries=sum(int(record["queries"]) for record in records),
        cut=_sum([record.get("cut") or {} for record in records]),
        errors=int(counts.get("errors", 0)),
        ignored_errors=int(counts.get("ignored_errors", 0)),
        reconnects=int(counts.get("reconnects", 0)),
        latency_us=_latency(records),
        service_us=_service_us(records),
        histograms=tuple(record["histogram"] for record in records if record.get("histogram")),
        rates=_rates(parts, length_s),
        key_values=_key_values(records),
        transaction_types=merged_types([types_of(record) for record in records]),
        traffic={name: sum(int(r["traffic"][name]) for r in records) for name in TRAFFIC if name in first["traffic"]},
        driver_cpu_s=driver_cpu_s,
        server_cpu_s=server_cpu_s,
        executed=_executed(records),
        idle_servers_cpu_s=around.idle_servers_cpu_s,
        steal=_share(host, "steal_s"),
        strangers=_strangers(
            host, None if around.remote_load else driver_cpu_s, server_cpu_s, around.idle_servers_cpu_s
        ),
        speed=around.speed,
        **(_sum(memories) if all(memories) else {}),
        whole=whole,
        server_counters=counters,
        kernel_counters=kernel_growth(parts),
        disagreements=tuple(disagreements(step.workload, whole, counters, shared=around.shared)),
        captured=_captured(records),
        **(_at_rate(records) if step.rate is not None else {}),
    )


def _executed(records: Sequence[dict[str, Any]]) -> dict[str, float]:
    """What the processor counted of servers and loads, of a side that all records have."""
    found: dict[str, float] = {}
    for side, name in (("server", "server"), ("load", "driver")):
        counts = [one for record in records if (one := (record.get("executed") or {}).get(side))]
        if len(counts) == len(records):
            found |= {f"{name}_{key}": float(value) for key, value in _sum(counts).items()}
    return found


def _at_rate(records: Sequence[dict[str, Any]]) -> dict[str, int]:
    """What became of the operations that were due."""
    ends = [record["end"] for record in records]
    return {
        "planned": sum(int(end["planned"]) for end in ends),
        "unfinished": sum(int(end["unfinished"]) + int(end["not_started"]) for end in ends),
        "dropped": sum(int(record["counts"].get("dropped_late", 0)) for record in records),
    }


def _captured(records: Sequence[dict[str, Any]]) -> dict[str, float]:
    """For a replay at captured times: the part that was played, and how late the load program itself was."""
    first = records[0].get("captured")
    if first is None:
        return {}
    lags = [float(record["lag"]["p99_us"]) for record in records if record.get("lag", {}).get("count")]
    own = {"own_lag_p99_us": max(lags)} if lags else {}
    return {**{name: float(value) for name, value in first.items()}, **own}


def kernel_growth(parts: Sequence[PartOfSlice]) -> dict[str, float]:
    """Growth of the kernel's counters over the slice, all servers together; of a name that each reading has.

    Threads that ended within the slice take their counts with them: growth is never below 0.
    """
    names = set.intersection(*(set(reading.kernel) for part in parts for reading in (part.before, part.after)))
    grown = {
        name: sum(max(0.0, part.after.kernel[name] - part.before.kernel[name]) for part in parts)
        for name in KERNEL_COUNTERS
        if name in names
    }
    return {name: value / len(parts) if name in HOST_COUNTERS else value for name, value in grown.items()}


def _service_us(records: Sequence[dict[str, Any]]) -> float | None:
    """The mean service time of all servers' transactions together; None where none ended."""
    found = [record["service"] for record in records if record.get("service", {}).get("count")]
    count = sum(int(one["count"]) for one in found)
    return sum(float(one["mean_us"]) * int(one["count"]) for one in found) / count if count else None


def _sum(tables: Sequence[dict[str, Any]]) -> dict[str, Any]:
    total: Counter[str] = Counter()
    for table in tables:
        total.update({name: value for name, value in table.items() if isinstance(value, int | float)})
    return dict(total)


def _key_values(records: Sequence[dict[str, Any]]) -> dict[str, float]:
    counts = [record["kv"]["counts"] for record in records if record.get("kv", {}).get("counts")]
    if not counts:
        return {}
    total = _sum(counts)
    return {name: float(total[name]) for name in KEY_VALUES if name in total}


def whole_counts(records: Sequence[dict[str, Any]]) -> dict[str, int]:
    """What the load did from go to hold, by the names of DriverResult.whole; several servers together."""
    counts = _sum([record["whole_counts"] for record in records])
    whole = {name: int(counts[key]) for key, name in WHOLE.items() if key in counts}
    kv = [record["kv"]["whole_load_counts"] for record in records if "kv" in record]
    if kv:
        return {"transactions": whole["transactions"], **{n: int(v) for n, v in _sum(kv).items()}}
    return whole


def _latency(records: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Latency of one server as its load program reports it; of several only mean, min and max."""
    reported = [r["response"] for r in records if r.get("response", {}).get("count")]
    if not reported:
        return {}
    if len(reported) == 1:
        return {key: float(reported[0][f"{key}_us"]) for key in LATENCY_KEYS if f"{key}_us" in reported[0]}
    count = sum(one["count"] for one in reported)
    return {
        "mean": sum(one["mean_us"] * one["count"] for one in reported) / count,
        "min": min(one["min_us"] for one in reported),
        "max": max(one["max_us"] for one in reported),
    }


def _rates(parts: Sequence[PartOfSlice], length_s: float) -> dict[str, float]:
    """What only some workloads have, and with several servers each one's own rates."""
    found: dict[str, float] = {}
    apart: list[dict[str, float]] = []
    for part in parts:
        own = own_rates(part.record)
        apart.append(own)
    for name in ("tpmc", "ops", "kv_misses_per_s"):
        if all(name in own for own in apart):
            found[name] = sum(own[name] for own in apart)
    if all("kv_hit_pct" in own for own in apart):
        found["kv_hit_pct"] = sum(own["kv_hit_pct"] for own in apart) / len(apart)
    seconds = sum(part.after.user_s - part.before.user_s + part.after.system_s - part.before.system_s for part in parts)
    if seconds > 0:
        user_s = sum(part.after.user_s - part.before.user_s for part in parts)
        found["server_cpu_user_share"] = user_s / seconds
    sent = sum(part.after.sent_bytes - part.before.sent_bytes for part in parts)
    received = sum(part.after.received_bytes - part.before.received_bytes for part in parts)
    transactions = sum(int(part.record["whole_counts"]["transactions"]) for part in parts)
    if sent and transactions:
        found["network_bytes_per_transaction"] = (sent + received) / transactions
        found["network_tx_share"] = sent / (sent + received)
    busiest_s = max(float(part.record["cpu"].get("busiest_worker_us", 0.0)) / 1e6 for part in parts)
    found["busiest_worker_pct"] = 100 * busiest_s / length_s
    driver_us = sum(float(part.record["cpu"]["user_us"] + part.record["cpu"]["system_us"]) for part in parts)
    if driver_us > 0:
        found["driver_cpu_user_share"] = sum(float(part.record["cpu"]["user_us"]) for part in parts) / driver_us
    host = parts[0].record.get("host_cpu") or {}
    for name in ("user", "system", "iowait"):
        share = _share(host, f"{name}_s")
        if share is not None:
            found[f"cpu_{name}_pct"] = 100 * share
    if len(parts) > 1:
        _add_instances(found, apart, parts, length_s)
    return found


def own_rates(record: dict[str, Any]) -> dict[str, float]:
    """What the records of some workloads alone have; each kind is as large a share of what the slice cuts as of what
    ended.
    """
    own: dict[str, float] = {}
    ended, cut = int(record["counts"]["transactions"]), (record.get("cut") or {}).get("transactions", 0.0)
    more, length_s = 1 + cut / max(1, ended), float(record["length_s"])
    if "tpmc_like" in (record.get("tpcc") or {}):
        own["tpmc"] = float(record["tpcc"]["tpmc_like"]) * more
    counts = (record.get("kv") or {}).get("counts")
    if counts:
        own["ops"] = more * (counts["cmd_get"] + counts["cmd_set"]) / length_s
        own["kv_misses_per_s"] = more * counts["get_misses"] / length_s
        if counts["cmd_get"]:
            own["kv_hit_pct"] = 100.0 * counts["get_hits"] / counts["cmd_get"]
    return own


def _add_instances(
    found: dict[str, float], apart: Sequence[dict[str, float]], parts: Sequence[PartOfSlice], length_s: float
) -> None:
    for number, (own, part) in enumerate(zip(apart, parts, strict=True), 1):
        cut = part.record.get("cut") or {}
        own["qps"] = (int(part.record["queries"]) + cut.get("queries", 0.0)) / length_s
        own["tps"] = (int(part.record["counts"]["transactions"]) + cut.get("transactions", 0.0)) / length_s
        found |= {of_instance(name, number): value for name, value in own.items()}


def _share(host: dict[str, float], name: str) -> float | None:
    total = sum(value for key, value in host.items() if key.endswith("_s"))
    return float(host[name]) / total if name in host and total > 0 else None


def _strangers(
    host: dict[str, float], driver_s: float | None, server_s: float | None, idle_servers_s: float | None
) -> float | None:
    """CPU time of others as a share of the host's. `idle_servers_s` is of the whole slice, so this is a lower bound.

    `driver_s` None: the load is on other hosts. Interrupts are left out then: those of the network are the load's, and
    a treatment that changes the load would change what is to explain it.
    """
    total = sum(value for key, value in host.items() if key.endswith("_s"))
    if server_s is None or total <= 0:
        return None
    kinds = ("user_s", "system_s") if driver_s is None else ("user_s", "system_s", "irq_s")
    busy_s = sum(float(host.get(name, 0.0)) for name in kinds)
    return max(0.0, busy_s - (driver_s or 0.0) - server_s - (idle_servers_s or 0.0)) / total


def add_handshakes(total: dict[str, Any], reported: dict[str, Any]) -> None:
    """Add one slice's TLS handshakes (full, resumed, negotiated) to `total`, in place."""
    if not reported:
        return
    for name in ("full", "resumed"):
        total[name] = total.get(name, 0) + int(reported.get(name, 0))
    known = {(one["version"], one["cipher_suite"]): one for one in total.setdefault("negotiated", [])}
    for one in reported.get("negotiated", ()):
        key = (one["version"], one["cipher_suite"])
        if key in known:
            known[key]["connections"] += one["connections"]
        else:
            total["negotiated"].append(dict(one))


def speed_between(before: tuple[int, int] | None, after: tuple[int, int] | None) -> float | None:
    """CPU nanoseconds per unit of work between two readings of the speed meter; None without a unit in between."""
    if before is None or after is None or after[0] <= before[0]:
        return None
    return float(after[1] - before[1]) / float(after[0] - before[0])
