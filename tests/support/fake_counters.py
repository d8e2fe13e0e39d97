"""A probe, a profiler, and counters of waits and of the kernel that find what the script states."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mydyno.errors import HostError
from mydyno.hosts.tracing.perf import Folded
from mydyno.model.stored.counted import KernelEvent
from mydyno.model.stored.records import ProfileMethod
from mydyno.servers.running.base import RunningServer
from mydyno.servers.wait_counting import Counted
from mydyno.store.samples import Sample
from tests.support.fake_server import Bench, FakeInstance


class FakeProbe:
    """Samples nothing but the server's memory, a second apart."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench

    async def start(self, interval_ms: int = 1000) -> None:
        self._bench.script.events.append("probe")

    async def speed(self) -> tuple[int, int] | None:
        return None

    def send(self, command: str) -> None:
        return None

    async def stop(self) -> list[str]:
        if error := self._bench.script.probe_error:
            raise HostError(error)
        return []

    def newest(self) -> dict[str, dict[str, float]]:
        return self._bench.script.newest

    def so_far(self) -> list[Sample]:
        return self.samples()[0]

    def unsampled(self) -> dict[str, str]:
        return self._bench.script.unsampled

    def samples(self) -> tuple[list[Sample], list[str]]:
        found = [
            Sample(sample.unix_ns, sample.scope.replace("driver", "instance"), "server_rss_bytes", 100e6)
            for sample in self._bench.sampled
            if sample.metric == "qps"
        ]
        return found, []


@dataclass
class Abandoned:
    """What counts until it is ended, or abandoned."""

    bench: Bench

    async def abandon(self) -> None:
        self.bench.script.events.append("abandoned")


@dataclass
class FakeRecording(Abandoned):
    """A profile of one server that finds the script's stacks."""

    instance: FakeInstance

    async def begin(self) -> None:
        self.bench.script.events.append(f"profile begins {self.instance.arm}")

    async def end(self) -> Folded:
        self.bench.script.events.append(f"profile ends {self.instance.arm}")
        stacks = self.bench.script.stacks
        assert stacks is not None
        found = Counter(stacks(self.instance.arm, self.instance.copy))
        return Folded(found, frames=sum(len(stack) * count for stack, count in found.items()))


class FakeProfiler:
    """A profiler without perf."""

    event, frequency_hz, version = "cpu-clock", 499, "fake 1"

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self.method: ProfileMethod = bench.script.profile_method

    def start(self, servers: Sequence[RunningServer]) -> FakeRecording:
        return FakeRecording(self._bench, self._bench.instances[servers[0].number])


@dataclass
class FakeCounting(Abandoned):
    """Counts what the script says."""

    instances: Sequence[FakeInstance]

    async def begin(self) -> None:
        self.bench.script.events.append(f"counting begins {self.instances[0].arm}")

    async def end(self) -> Counted:
        waits, (instance, *_) = self.bench.script.waits, self.instances
        assert waits is not None
        self.bench.script.events.append(f"counting ends {instance.arm}")
        found = waits(instance.arm, instance.copy)
        return found if isinstance(found, Counted) else Counted(found)


@dataclass
class FakeTracing(Abandoned):
    """Traces what the script says."""

    instance: FakeInstance

    async def begin(self) -> None:
        self.bench.script.events.append(f"tracing begins {self.instance.arm}")

    async def end(self) -> tuple[KernelEvent, ...]:
        kernel = self.bench.script.kernel
        assert kernel is not None
        self.bench.script.events.append(f"tracing ends {self.instance.arm}")
        return kernel(self.instance.arm, self.instance.copy)


@dataclass
class FakeTracer:
    """A tracer of servers that do not exist."""

    bench: Bench
    version: str = "bpftrace v0.0"
    absent: Mapping[str, str] = field(default_factory=lambda: {"block_io": "the kernel has no tracepoint block:x"})

    def start(self, servers: Sequence[RunningServer]) -> FakeTracing:
        return FakeTracing(self.bench, self.bench.instances[servers[0].number])
