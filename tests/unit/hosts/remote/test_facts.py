"""Facts of another host: what its shell prints, by the same names as this host's facts; its samples."""

from __future__ import annotations

import json
import subprocess
from collections.abc import AsyncIterator

import pytest

from mydyno.errors import HostError
from mydyno.execution.environments import external_probe as remote_facts
from mydyno.execution.environments.external_probe import ExternalSampler, parse_facts
from mydyno.hosts.facts import host_facts
from mydyno.hosts.paths import HostPaths


def test_a_shell_on_this_host_says_what_this_program_reads_itself(paths: HostPaths) -> None:
    done = subprocess.run(["sh", "-c", remote_facts._SCRIPT], capture_output=True, text=True, check=True)
    found, own = parse_facts(done.stdout), host_facts(paths.data)
    assert {"hostname", "kernel", "cpus", "memory_bytes"} <= set(found)
    found["memory_bytes"] //= 1 << 20
    own["memory_bytes"] //= 1 << 20
    assert found == {name: own[name] for name in found}


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("cpus\t\nkernel\t6.1.0\n", {"kernel": "6.1.0"}),
        ("Welcome\tto this host\nmemory_kib\t2048\n", {"memory_bytes": 2 << 20}),
        ("transparent_hugepages\talways [madvise] never\n", {"transparent_hugepages": "madvise"}),
    ],
)
def test_what_is_not_known_is_absent(text: str, facts: dict[str, object]) -> None:
    assert parse_facts(text) == facts


class Lost:
    """A host whose connection ends after the first sample, and the program on it; this host's sampler."""

    name, stderr_tail = "bench@db1", ""

    async def start(self, *_: object) -> Lost:
        return self

    async def stop(self) -> list[str]:
        return ["own words"]

    def close_stdin(self) -> None:
        pass

    async def lines(self) -> AsyncIterator[str]:
        yield json.dumps({"record": "sample", "monotonic_ns": 1, "metrics": {"host": {"cpu_user_pct": 7.0}}})
        raise HostError("bench@db1: the SSH connection ended")

    def so_far(self) -> list[object]:
        return []


class Gone(Lost):
    name = "db1"

    async def start(self, *arguments: object) -> Gone:
        if isinstance(arguments[0], list):
            raise HostError("bench@db1: the SSH connection ended")
        return self


async def test_a_connection_that_ended_before_costs_the_samples_of_that_host_alone() -> None:
    gone = Gone()
    sampler = ExternalSampler(gone, gone, "dynoprobe", 1, "/data")  # type: ignore[arg-type]  # stand-ins
    await sampler.start()
    assert await sampler.stop() == ["own words", "bench@db1: the SSH connection ended"]


async def test_a_connection_that_ends_costs_the_samples_that_follow_and_no_more() -> None:
    lost = Lost()
    sampler = ExternalSampler(lost, lost, "dynoprobe", 1, "/data")  # type: ignore[arg-type]  # stand-ins
    await sampler.start()
    assert await sampler.stop() == ["own words", "bench@db1: the SSH connection ended"]
    assert [one.value for one in sampler.so_far()] == [7.0]
