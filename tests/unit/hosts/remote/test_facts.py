"""Facts of another host: what its shell prints, by the same names as this host's facts."""

from __future__ import annotations

import subprocess

import pytest

from mydyno.execution.environments import external_probe as remote_facts
from mydyno.execution.environments.external_probe import parse_facts
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
