"""A load program on hold: connected, idle, and loading for one slice whenever it is started by `go`; and dynoload's
JSON lines (format 1), read into numbers.

Interleaved studies keep one for each server. A slice costs no new connections, and its record covers exactly the
measured part: counts, response times, the program's own CPU time and the server's.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from mydyno import clock
from mydyno.drivers.base import Agent, Driver, Progress, Reading, StepContext
from mydyno.errors import DriverError
from mydyno.hosts.limits import affinities_of
from mydyno.hosts.local import LocalHost, Process
from mydyno.hosts.quiet import Headway
from mydyno.model.definition.quantities import ranges_of
from mydyno.model.stored.records import ClientLoad, Digest, DriverFinding, DriverResult
from mydyno.servers.sql import Address

FORMAT_VERSION = 1
LATENCY_KEYS = {"mean": "mean_us", "min": "min_us", "max": "max_us", "p50": "p50_us", "p90": "p90_us",
                "p95": "p95_us", "p99": "p99_us", "p999": "p999_us"}  # fmt: skip
TRAFFIC = tuple(f"{layer}_{way}_bytes" for layer in ("raw", "compressed", "wire") for way in ("sent", "received"))
"""raw: packets of the protocol; compressed: the same before TLS; wire: what went over the connection."""
KV_COUNTED = ("cmd_get", "cmd_set", "get_hits", "get_misses")
"""What the server counts too."""
KV_SPREAD = ("min_us", "max_us", "mean_us", "std_us", "geometric_mean_us")
HEALTH = {"VALID": "valid", "SUSPECT": "suspect", "INVALID": "invalid"}


def parse_record(line: str) -> dict[str, Any] | None:
    """One record; None for an incomplete line. Raises DriverError for an unsupported format."""
    try:
        record = json.loads(line)
    except ValueError:
        return None
    if not isinstance(record, dict):
        return None
    if record.get("record") == "header" and record.get("format_version") != FORMAT_VERSION:
        raise DriverError(f"dynoload writes format {record.get('format_version')}, not {FORMAT_VERSION}")
    return record


def interval_end_s(record: dict[str, Any], warmup_s: float) -> float:
    """When an interval ended, in seconds since the load began; its own times count from the measured part on."""
    return float(record["t_s"]) + float(record["length_s"]) + warmup_s


def interval_values(record: dict[str, Any]) -> dict[str, float]:
    """The samples of one interval: rates, response-time percentiles, and what the driver cost."""
    length_s = float(record["length_s"])
    counts = record["counts"]
    values = {
        "qps": float(record["qps"]),
        "tps": float(record["tps"]),
        "errors_per_s": counts["errors"] / length_s,
        "ignored_errors_per_s": counts["ignored_errors"] / length_s,
        "reconnects_per_s": counts["reconnects"] / length_s,
    }
    if record.get("response", {}).get("count"):  # left out of a second in which no transaction ended
        values |= {f"latency_{name}_us": record["response"][f"{name}_us"] for name in ("p50", "p99")}
        values["service_p99_us"] = record["service"]["p99_us"]
    if "kv" in record:
        del values["qps"]  # the same as ops
        values |= _kv_values(record["kv"]["counts"], length_s)
    if "tpmc_like" in record.get("tpcc", {}):
        values["tpmc"] = record["tpcc"]["tpmc_like"]
    traffic = record.get("traffic", {})
    values |= {f"protocol_{name}_per_s": traffic[name] / length_s for name in TRAFFIC if name in traffic}
    if "cpu" in record:
        values |= {f"driver_cpu_{name}_pct": record["cpu"][f"{name}_pct"] for name in ("user", "system")}
    if "lag" in record and record["lag"].get("count"):
        values["lag_p99_us"] = record["lag"]["p99_us"]
    return values


def _kv_values(counts: dict[str, int], length_s: float) -> dict[str, float]:
    """Rates of keys and values: operations, misses, and the percentage of gets that hit (absent without gets)."""
    values = {
        "ops": (counts["cmd_get"] + counts["cmd_set"]) / length_s,
        "kv_misses_per_s": counts["get_misses"] / length_s,
    }
    return values | ({"kv_hit_pct": 100.0 * counts["get_hits"] / counts["cmd_get"]} if counts["cmd_get"] else {})


def is_of_load(record: dict[str, Any]) -> bool:
    """Whether an interval belongs to warm-up or measure (the drain afterwards does not)."""
    return record.get("record") == "interval" and record.get("phase") in ("warmup", "measure")


def measure_unix_ns(record: dict[str, Any]) -> int:
    """When the counted part of a run or slice began."""
    return clock.of_monotonic(round(record["measure_monotonic_s"] * 1e9))


def readings_of(record: dict[str, Any], started_unix_ns: int, warmup_s: float) -> list[Reading]:
    """One interval as readings at its end."""
    unix_ns = started_unix_ns + round(interval_end_s(record, warmup_s) * 1e9)
    return [Reading(unix_ns, name, float(value)) for name, value in interval_values(record).items()]


def progress_of(record: dict[str, Any], warmup_s: float) -> Progress:
    """One interval for a progress bar."""
    response = record.get("response", {})
    latency_us = {name: float(response[f"{name}_us"]) for name in ("p50", "p95", "p99") if f"{name}_us" in response}
    return Progress(
        interval_end_s(record, warmup_s),
        float(record["qps"]),
        float(record["tps"]),
        latency_us,
        record["counts"]["errors"] / float(record["length_s"]),
    )


def _whole_of(final: dict[str, Any]) -> dict[str, int]:
    """Counts of the whole load. With stored procedures its reads and writes are known to the server alone."""
    counts = final["whole_load_counts"]
    if kv := final.get("kv"):
        whole_kv = kv["whole_load_counts"]
        return {"transactions": counts["transactions"], **{name: whole_kv[name] for name in (*KV_COUNTED, "cas")}}
    whole = {"transactions": counts["transactions"], "other": counts["other"]}
    if final.get("settings", {}).get("options", {}).get("stored_procedures"):
        return {**whole, "calls": counts["other"]}
    zero_before = {name: counts.get(name, 0) for name in ("unchanged", "empty_reads", "missing_rows")}
    return {**whole, "read": counts["reads"], "write": counts["writes"], **zero_before}


def clients_of(final: dict[str, Any], agents: Sequence[Agent]) -> tuple[ClientLoad, ...]:
    """What each agent did, in the order in which they were named."""
    reported = {one["command"]: one for one in final.get("agents", ())}
    return tuple(
        ClientLoad(
            name=agent.name,
            hostname=one["host"],
            cpus=one["cpus"],
            threads=one["threads"],
            cpu_user_s=round(one["cpu_user_s"], 3),
            cpu_system_s=round(one["cpu_system_s"], 3),
            busiest_thread_cpu_pct=one["busiest_worker_pct"],
            clock_error_us=one["clock_error_us"],
        )
        for agent in agents
        if (one := reported.get(agent.command)) is not None
    )


def with_names(words: str, agents: Sequence[Agent]) -> str:
    """dynoload's words, with the names of client hosts for the sockets that lead to them."""
    for agent in agents:
        words = words.replace(f"agent '{agent.command}'", f"the load host {agent.name}")
    return words


def failure_of(final: dict[str, Any] | None) -> str:
    """Why the load ended early, in dynoload's words; empty if the record does not say."""
    failure = (final or {}).get("failure") or {}
    return str(failure.get("message", ""))


def findings_of(findings: Sequence[dict[str, Any]]) -> tuple[DriverFinding, ...]:
    """What dynoload's own rules found."""
    return tuple(DriverFinding(rule=one["rule"], level=HEALTH[one["level"]], text=one["text"]) for one in findings)


def worst_level(findings: Sequence[DriverFinding]) -> Literal["valid", "suspect", "invalid"]:
    """dynoload's verdict by what its rules found."""
    levels = {one.level for one in findings}
    return "invalid" if "invalid" in levels else "suspect" if "suspect" in levels else "valid"


def result_of(final: dict[str, Any], version: str, command: tuple[str, ...]) -> DriverResult:
    """The measured window's counts, latency, and dynoload's own verdict."""
    counts = final["counts"]
    verdict = final["verdict"]
    response = final.get("response", {})
    kv = final.get("kv")
    distribution = kv["distributions"].get("total", {}) if kv else {}
    return DriverResult(
        driver="dynoload",
        version=version,
        command=command,
        transactions=counts["transactions"],
        queries=final["queries"],
        queries_read=counts["reads"],
        queries_write=counts["writes"],
        queries_other=counts["other"],
        errors=counts["errors"],
        ignored_errors=counts["ignored_errors"],
        reconnects=counts["reconnects"],
        duration_s=final["duration_s"],
        latency_us={name: response[key] for name, key in LATENCY_KEYS.items() if key in response},
        service_us=final.get("service", {}).get("mean_us"),
        whole=_whole_of(final),
        key_values={**{name: kv["counts"][name] for name in (*KV_COUNTED, "verified", "wrong_values")},
                    **{name: distribution[name] for name in KV_SPREAD if name in distribution}} if kv else {},
        latency_log2_us=tuple((one["below_us"], one["count"]) for one in distribution.get("log2", ())),
        transaction_types=types_of(final),
        digests=digests_of(final.get("settings", {}).get("options", {}).get("digests", ())),
        traffic={name: final["traffic"][name] for name in TRAFFIC if name in final.get("traffic", {})},
        tls=final.get("tls", {}),
        busiest_thread_cpu_pct=final["cpu"].get("busiest_worker_pct"),
        health=HEALTH[verdict["verdict"]],
        health_reasons=tuple(
            str(finding.get("text", finding)) if isinstance(finding, dict) else str(finding)
            for finding in verdict["findings"]
        ),
        findings=findings_of(verdict["findings"]),
    )  # fmt: skip


def types_of(record: dict[str, Any]) -> dict[str, dict[str, float]]:
    """DriverResult.transaction_types of a run or slice."""
    found = {}
    for name, one in record.get("tpcc", {}).get("transactions", {}).items():
        ended = one["committed"] + one["rolled_back"]
        found[name] = {"count": ended, "errors": one["retries"], **one.get("service", {})}
    found |= record.get("named", {})
    return {name: _type_of(one) for name, one in found.items() if one["count"] or one.get("errors")}


def _type_of(one: dict[str, Any]) -> dict[str, float]:
    known = {"count": float(one["count"]), "mean_us": float(one.get("mean_us", 0.0))}
    if one.get("errors"):
        known["errors"] = float(one["errors"])
    if rows := one.get("rows"):
        known |= {"rows": float(rows["sum"]), "least_rows": float(rows["least"]), "most_rows": float(rows["most"])}
    return known


def digests_of(reported: Sequence[dict[str, Any]]) -> tuple[Digest, ...]:
    """Those of a capture that are recorded by themselves."""
    return tuple(Digest.model_validate(one) for one in reported if "digest" in one)


def shifted_log(text: str, step: str) -> tuple[str, ...]:
    """The interval lines of dynoload's HDR log, their tags led by the step: Tag=STEP.service.commit,…"""
    return tuple(line.replace("Tag=", f"Tag={step}.", 1) for line in text.splitlines() if line.startswith("Tag="))


READY_TIMEOUT_S = 90.0
ANSWER_GRACE_S = 45.0
"""After a slice should have ended: dynoload itself gives transactions 30 s to end."""


@dataclass(frozen=True)
class SliceOrder:
    """One slice to be run: `stream` chooses the operations (the same number, the same operations in every arm)."""

    id: str
    stream: int
    washout_s: float
    measure_s: float
    rate: float | None = None
    """Operations per second of this slice, where it is not that of the step."""
    connections: int | None = None
    """How many connections of a closed loop are loaded; None: all."""

    @property
    def line(self) -> str:
        """The command on the load program's standard input."""
        level = "" if self.rate is None else f" {self.rate:.3f}"
        level += "" if self.connections is None else f" connections={self.connections}"
        return f"go {self.id} {self.stream} {round(self.washout_s * 1000)} {round(self.measure_s * 1000)}{level}\n"


class HeldLoad(Protocol):
    """One load program that holds its connections between slices."""

    command: tuple[str, ...]
    """As it was started."""

    async def slice(self, order: SliceOrder) -> dict[str, Any]:
        """Run one slice; its record. Raises DriverError when the load failed."""

    def interrupt(self) -> None:
        """End a slice at once, and the program with it."""

    async def end(self) -> None:
        """Close the connections and end the program. Safe to call again."""


class HoldingDriver(Driver):
    """A driver that can hold its connections between slices."""

    @abstractmethod
    async def hold(self, context: StepContext, server_pid: int | None) -> HeldLoad:
        """Connect and hold; `server_pid`: whose CPU time it records. Raises DriverError."""


class HeldProcess:
    """`dynoload … run --slices`: commands on its standard input, one JSON record a line on its standard output."""

    def __init__(self, host: LocalHost, name: str, log: Path) -> None:
        self._host = host
        self._name = name
        self._log = log
        self._process: Process | None = None
        self._words: list[str] = []
        self.command: tuple[str, ...] = ()

    async def start(self, command: list[str], address: Address) -> None:
        """Start the program, on the CPUs of the address, and wait for its connections. Raises DriverError."""
        self.command = tuple(command)
        self._process = await self._host.start(
            command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, entering=address.entering
        )
        try:
            await Headway(self._process.pid, READY_TIMEOUT_S).wait(self._record("ready"))
            self._check_cpus(self._process.pid, address)
        except TimeoutError:
            await self.end()
            raise DriverError(f"{self._name}: not connected, and it did nothing for {READY_TIMEOUT_S:.0f} s") from None
        except BaseException:
            await self.end()
            raise

    def _check_cpus(self, pid: int, address: Address) -> None:
        if address.cpus and any(cpus != set(address.cpus) for cpus in affinities_of(pid)):
            raise DriverError(f"{self._name}: its threads may run on other CPUs than {ranges_of(address.cpus)}")

    async def slice(self, order: SliceOrder) -> dict[str, Any]:
        """Run one slice. Raises DriverError with the program's message; the program has then ended."""
        process = self._running()
        stdin = process.streams.stdin
        assert stdin is not None
        try:
            stdin.write(order.line.encode())
            await stdin.drain()
            limit_s = order.washout_s + order.measure_s + ANSWER_GRACE_S
            record = await asyncio.wait_for(self._record("slice"), limit_s)
        except (BrokenPipeError, ConnectionResetError):
            raise DriverError(f"{self._name} ended: {self._last_words()}") from None
        except TimeoutError:
            await self.end()
            raise DriverError(
                f"{self._name}: no result {ANSWER_GRACE_S:.0f} s after the slice should have ended"
            ) from None
        if record.get("id") != order.id:
            raise DriverError(f"{self._name} returned slice {record.get('id')!r} instead of {order.id!r}")
        return record

    def interrupt(self) -> None:
        """SIGINT: dynoload ends its statements and itself."""
        self._running().send(signal.SIGINT)

    async def end(self) -> None:
        """Close its input, which ends it; kill it if it does not end."""
        process = self._process
        if process is None:
            return
        if process.streams.stdin is not None:
            with contextlib.suppress(OSError, RuntimeError):
                process.streams.stdin.close()
        with contextlib.suppress(TimeoutError):
            await process.wait(5.0)
        await process.end(1.0)

    def _running(self) -> Process:
        if self._process is None:
            raise DriverError(f"{self._name} was not started")
        return self._process

    async def _record(self, kind: str) -> dict[str, Any]:
        """The next record of a kind. Raises DriverError for a failure, and where the output ends."""
        process = self._running()
        stream = process.streams.stdout
        assert stream is not None
        with self._log.open("a") as log:
            while line := (await stream.readline()).decode(errors="replace"):
                log.write(line if len(line) < 400 else line[:400] + "…\n")
                record = parse_record(line) if line.startswith("{") else None
                if record is None:
                    self._words.append(line.strip())
                elif record.get("record") == "failed":
                    raise DriverError(f"{self._name}: {record.get('message', 'failed')}")
                elif record.get("record") == "refused":
                    raise DriverError(f"{self._name} refused a command: {record.get('message')}")
                elif record.get("record") == kind:
                    return record
        await process.wait(5.0)
        raise DriverError(f"{self._name} ended with exit code {process.exit_code}: {self._last_words()}")

    def _last_words(self) -> str:
        return " / ".join([words for words in self._words if words][-4:]) or "no message"
