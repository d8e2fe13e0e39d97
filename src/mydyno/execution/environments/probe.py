"""dynoprobe beside a run: started, sent drivers' process ids and marks, read back as samples; and the client hosts of a
block: an agent of dynoload on each, and a sampler of each host.

Another host's monotonic clock is known from the times of its samples and those of their arrival. The least difference
of all samples is what the clocks differ by, and what a line needs to arrive: some milliseconds, of samples of one
second.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any, Protocol

from mydyno import clock
from mydyno.drivers.base import Agent
from mydyno.errors import StudyError
from mydyno.files.atomic import write_private
from mydyno.hosts.local import LocalHost, Process
from mydyno.hosts.network.load_end import LoadEnd
from mydyno.hosts.telemetry import EVERYTHING, unread_families
from mydyno.servers.running.base import RunningServer, in_list
from mydyno.store.samples import Sample

INTERVAL_MS = 1000
FORMAT_VERSION = 1
SPEED_TIMEOUT_S = 2.0
"""The probe answers between samples; one that waits for a busy server takes up to half a second."""
SPEED_POLL_S = 0.002


class Sampler(Protocol):
    """What samples the host and the servers while a run lasts: a Probe, or a test's fake."""

    async def start(self, interval_ms: int = INTERVAL_MS) -> None:
        """Begin to sample."""

    def send(self, command: str) -> None:
        """One command: `driver NUMBER PID`, `driver NUMBER -`, `mark TEXT`."""

    async def speed(self) -> tuple[int, int] | None:
        """(units of work, their CPU time in ns) of the speed meter so far; None if it does not answer."""

    def newest(self) -> Mapping[str, Mapping[str, float]]:
        """{scope: {metric: value}} of the newest sample since the last call; empty if there is none."""

    def so_far(self) -> list[Sample]:
        """What has been sampled up to now."""

    async def stop(self) -> list[str]:
        """End it; returns warnings on what it could not sample."""

    def samples(self) -> tuple[list[Sample], list[str]]:
        """Everything sampled, and the sampler's own warnings; after stop()."""

    def unsampled(self) -> Mapping[str, str]:
        """{family of metrics of host and servers: why it was never read}; after stop()."""


class Probe:
    """One dynoprobe process. When its standard input closes, the probe ends."""

    def __init__(
        self,
        host: LocalHost,
        program: Path,
        targets: Sequence[tuple[str, bytes]],
        data: Path,
        scratch: Path,
        sockets: Path,
        networks: Sequence[str] = (),
        *,
        speed_meter: bool = False,
    ) -> None:
        """`targets`: each instance, and the password of its control account.

        `networks`: the interfaces to sample, INTERFACE@PID; empty: all of this host's.
        `speed_meter`: whether the metric speed_unit_ns is sampled, and speed() answers.
        """
        self._host = host
        self._program = program
        self._targets = targets
        self._data = data
        self._networks = tuple(networks)
        self._speed_meter = speed_meter
        self._speed_requests = 0
        self._read_bytes = 0
        """Bytes of the output that speed() has read."""
        self._newest_bytes = 0
        """Bytes of the output that newest() has read."""
        self._output = scratch / "probe.jsonl"
        self._password_files = {
            password: sockets / ("control.password" if number == 1 else f"control-{number}.password")
            for number, password in enumerate(dict.fromkeys(password for _, password in targets), 1)
        }
        self._process: Process | None = None
        self._unsampled: dict[str, str] = {}

    @classmethod
    def of_servers(
        cls,
        program: Path,
        instances: Sequence[RunningServer],
        scratch: Path,
        sockets: Path,
        networks: Sequence[str] = (),
        *,
        speed_meter: bool = False,
    ) -> Probe:
        """The probe of these servers, on their host and with the interfaces that they name beside `networks`."""
        first = instances[0]
        named = [interface for one in instances if (interface := one.probe_interface()) is not None]
        by_name: dict[str, str] = {}
        for interface in named:  # servers that share a card name it with a process each
            by_name.setdefault(interface.partition("@")[0], interface)
        targets = [(one.probe_target(), one.address().password) for one in instances]
        return cls(
            first.host, program, targets, first.data, scratch, sockets, [*networks, *by_name.values()],
            speed_meter=speed_meter,
        )  # fmt: skip

    async def start(self, interval_ms: int = INTERVAL_MS) -> None:
        """Begin to sample host, instances and the data's disk."""
        self._output.unlink(missing_ok=True)
        self._read_bytes = self._newest_bytes = 0
        self.write_passwords()
        command = [
            str(self._program),
            f"--interval-ms={interval_ms}",
            f"--output={self._output}",
            *(
                f"--instance={target},password-file={in_list(self._password_files[password])}"
                for target, password in self._targets
            ),
            f"--disk={self._data}",
            *(f"--network={interface}" for interface in self._networks),
            *(["--speed-meter"] if self._speed_meter else []),
        ]
        with self._output.with_suffix(".log").open("wb") as file:
            self._process = await self._host.start(command, stdin=asyncio.subprocess.PIPE, stdout=file.fileno())

    def write_passwords(self) -> None:
        """Write the files that the probe reads the control accounts' passwords from."""
        for password, path in self._password_files.items():
            write_private(path, password)

    def so_far(self) -> list[Sample]:
        """What has been sampled up to now."""
        return read_samples(self._output)[0]

    def newest(self) -> dict[str, dict[str, float]]:
        """{scope: {metric: value}} of the newest sample since the last call; empty if there is none.

        Safe in a thread of its own. Only the lines since the last call are read, and one of them is parsed.
        """
        lines, self._newest_bytes = _lines_from(self._output, self._newest_bytes)
        last = next((line for line in reversed(lines) if line.startswith(b'{"record":"sample"')), None)
        found: dict[str, dict[str, float]] = {} if last is None else json.loads(last)["metrics"]
        return found

    def samples(self) -> tuple[list[Sample], list[str]]:
        """Everything sampled, and the probe's own warnings; after stop()."""
        found = read_samples(self._output)
        self._output.unlink(missing_ok=True)
        return found

    def unsampled(self) -> dict[str, str]:
        """{family of metrics: why it was never read}; after stop()."""
        return self._unsampled

    def send(self, command: str) -> None:
        """One command on its standard input, e.g. `driver 1 4711` or `mark step …`."""
        if self._process is None or self._process.exit_code is not None:
            return
        stdin = self._process.streams.stdin
        assert stdin is not None
        with contextlib.suppress(OSError):
            stdin.write(f"{command}\n".encode())

    async def speed(self) -> tuple[int, int] | None:
        """(units of work, their CPU time in ns) that the speed meter has run so far, of all CPUs; both only grow.

        The difference of two readings is the host's speed between them. None: no speed meter, or no answer within
        SPEED_TIMEOUT_S. To be called by one task at a time.
        """
        if not self._speed_meter or self._process is None:
            return None
        self._speed_requests += 1
        request = str(self._speed_requests)
        self.send(f"speed {request}")
        deadline = time.monotonic() + SPEED_TIMEOUT_S
        while self._process.exit_code is None and time.monotonic() < deadline:
            for record in self._new_speed_records():
                if record["record"] == "error":  # it could not be started
                    return None
                if record["id"] == request:
                    return int(record["units"]), int(record["cpu_ns"])
            await asyncio.sleep(SPEED_POLL_S)
        return None

    def _new_speed_records(self) -> list[dict[str, Any]]:
        """The records in whole lines that were not read before, and refusals of such requests."""
        lines, self._read_bytes = _lines_from(self._output, self._read_bytes)
        found = [json.loads(line) for line in lines if line.startswith((b'{"record":"speed"', b'{"record":"error"'))]
        return [one for one in found if one["record"] == "speed" or one["family"] == "control"]

    async def stop(self) -> list[str]:
        """End it; returns warnings on what it could not sample."""
        if self._process is None:
            return []
        died = self._process.exit_code
        stdin = self._process.streams.stdin
        if stdin is not None:
            stdin.close()
        with contextlib.suppress(TimeoutError):
            await self._process.wait(5)
        await self._process.end(2)
        if died is not None:
            log = self._output.with_suffix(".log").read_text(errors="replace").strip()[-300:]
            words = f"dynoprobe ended by itself with exit code {died}: {log}"
            self._unsampled = {EVERYTHING: words}
            return [words]
        lines = self._output.read_text(errors="replace").split("\n") if self._output.exists() else []
        self._unsampled = unread_families(lines)
        if not self._speed_meter:
            self._unsampled.pop("host_speed", None)  # it was not asked for
        return []


def _lines_from(path: Path, offset: int) -> tuple[list[bytes], int]:
    """The whole lines from there on, and where the next one begins."""
    try:
        with path.open("rb") as file:
            file.seek(offset)
            text = file.read()
    except OSError:
        return [], offset  # not yet there
    whole = text[: text.rfind(b"\n") + 1]
    return whole.splitlines(), offset + len(whole)


def read_samples(path: Path) -> tuple[list[Sample], list[str]]:
    """The probe's samples and its own warnings. Raises StudyError for an unknown format."""
    samples: list[Sample] = []
    warnings: list[str] = []
    if not path.exists():
        return samples, ["dynoprobe wrote no samples"]
    for line in path.read_text(errors="replace").split("\n"):
        try:
            record = json.loads(line)
        except ValueError:
            continue  # the last line of a probe that was killed
        kind = record.get("record")
        if kind == "header" and record["format_version"] != FORMAT_VERSION:
            raise StudyError(f"dynoprobe writes format {record['format_version']}, not {FORMAT_VERSION}")
        if kind == "sample":
            at_ns = clock.of_monotonic(record["monotonic_ns"])
            for scope, metrics in record["metrics"].items():
                samples += [Sample(at_ns, scope, name, float(value)) for name, value in metrics.items()]
        elif kind == "error" and record.get("family") != "process_pss":  # a driver caught in the middle of exec
            warnings.append(f"dynoprobe: {record.get('scope')} {record.get('family')}: {record.get('message')}")
        elif kind == "footer" and record["missed"]:
            warnings.append(f"dynoprobe: {record['missed']} of {record['samples']} samples were missed (a busy host)")
    return samples, list(dict.fromkeys(warnings))


class FarSamples:
    """The samples of dynoprobe on one host, read as its lines arrive."""

    def __init__(self, scope_of: Callable[[str, str], str]) -> None:
        """`scope_of`: a sample's scope by that of the host and the metric; empty: it is dropped."""
        self._scope_of = scope_of
        self._samples: list[Sample] = []
        self._behind_ns: int | None = None
        """What is to be added to its monotonic time for this host's Unix time; None before the first sample."""

    def __bool__(self) -> bool:
        """Whether there is any."""
        return bool(self._samples)

    def take(self, line: str) -> dict[str, Any]:
        """A line arrives now; its record, empty for noise."""
        try:
            record: dict[str, Any] = json.loads(line)
        except ValueError:
            return {}
        if record.get("record") == "sample":
            monotonic_ns = int(record["monotonic_ns"])
            late_ns = clock.unix_ns() - monotonic_ns
            self._behind_ns = late_ns if self._behind_ns is None else min(self._behind_ns, late_ns)
            self._samples += [
                Sample(monotonic_ns, scope, name, float(value))
                for there, metrics in record["metrics"].items()
                for name, value in metrics.items()
                if (scope := self._scope_of(there, name))
            ]
        return record

    def ours(self) -> list[Sample]:
        """The samples so far, on this host's clock."""
        behind_ns = self._behind_ns or 0
        return [replace(sample, unix_ns=sample.unix_ns + behind_ns) for sample in self._samples]


CLIENT_SCOPE = "client"
"""Scope of the samples of a client host: client:NAME."""


BUSY = ("cpu_user_pct", "cpu_system_pct")
"""What adds up to the use of all CPUs of a host."""


def busy_pct(samples: Sequence[Sample], windows_ns: Sequence[tuple[int, int]], loaded: float = 1.0) -> dict[str, float]:
    """{client: CPU of its host in percent of all its CPUs}, the mean over samples that end within a window; `loaded` is
    the share of a sample's time with load.
    """
    busy: dict[tuple[str, int], float] = {}
    for sample in samples:
        scope, _, name = sample.scope.partition(":")
        if scope != CLIENT_SCOPE or sample.metric not in BUSY:
            continue
        if any(begin < sample.unix_ns <= end for begin, end in windows_ns):
            busy[name, sample.unix_ns] = busy.get((name, sample.unix_ns), 0.0) + sample.value
    names = dict.fromkeys(name for name, _ in busy)
    means = {name: fmean(value for (own, _), value in busy.items() if own == name) for name in names}
    return {name: round(min(100.0, mean / loaded), 1) for name, mean in means.items()}


def busy_client_words(
    samples: Sequence[Sample], windows_ns: Sequence[tuple[int, int]], bound: float, loaded: float = 1.0
) -> list[str]:
    """Sentences on client hosts whose CPUs were full while they loaded; `bound` is a share of 1."""
    return [
        f"client {name} was {percent:.0f} % busy while it loaded (bound {bound:.0%}): it may be the limit"
        for name, percent in busy_pct(samples, windows_ns, loaded).items()
        if percent > 100 * bound
    ]


class ClientSampler(Protocol):
    """dynoprobe on one client host, for one run."""

    name: str
    """Name of the client host."""

    async def start(self) -> None:
        """Begin to sample. Raises HostError if the host is lost."""

    def so_far(self) -> list[Sample]:
        """The host's own metrics, in the scope client:NAME, on this host's clock."""

    async def stop(self) -> list[str]:
        """End it; returns warnings."""


class LoadClients(Protocol):
    """The client hosts of a block."""

    address: str
    """Address of the server's host on the network that carries the load."""

    @property
    def ends(self) -> tuple[LoadEnd, ...]:
        """The network of each client host."""

    @property
    def agents(self) -> tuple[Agent, ...]:
        """One for each client host."""

    def samplers(self) -> list[ClientSampler]:
        """New samplers of one run, one for each client host, not yet started."""

    def check(self) -> None:
        """Raises HostError if a client host was lost, or its agent ended unasked: no result of an arm."""


class SamplerWithClients:
    """The sampler of a run whose load comes from client hosts: that of the server's host, and one on each client."""

    def __init__(self, own: Sampler, clients: Sequence[ClientSampler]) -> None:
        self._own = own
        self._clients = tuple(clients)

    async def start(self, interval_ms: int = INTERVAL_MS) -> None:
        """Begin to sample everywhere."""
        await self._own.start(interval_ms)
        await asyncio.gather(*(client.start() for client in self._clients))

    def send(self, command: str) -> None:
        """To the sampler of the server's host."""
        self._own.send(command)

    async def speed(self) -> tuple[int, int] | None:
        """The speed meter of the server's host; clients have none."""
        return await self._own.speed()

    def newest(self) -> Mapping[str, Mapping[str, float]]:
        """The newest sample of the server's host."""
        return self._own.newest()

    def so_far(self) -> list[Sample]:
        """All hosts' samples."""
        return [*self._own.so_far(), *(sample for client in self._clients for sample in client.so_far())]

    async def stop(self) -> list[str]:
        """End all of them."""
        words = await asyncio.gather(self._own.stop(), *(client.stop() for client in self._clients))
        return [one for some in words for one in some]

    def samples(self) -> tuple[list[Sample], list[str]]:
        """Everything sampled; after stop()."""
        found, warnings = self._own.samples()
        return [*found, *(sample for client in self._clients for sample in client.so_far())], warnings

    def unsampled(self) -> Mapping[str, str]:
        """What the sampler of the server's host could not read."""
        return self._own.unsampled()
