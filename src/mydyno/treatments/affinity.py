"""The CPUs of server and load program: `affinity = "apart"` or `affinity = "one"`. In `[treatments]` it applies to
every arm.

Where both may use every CPU, the scheduler runs them on one CPU for seconds on end, or on different ones: the same
operation then takes 4 or 7 µs of the server's CPU time (memcached on two CPUs of a virtual machine), and identical
servers differ. With this treatment there is one state; but nothing can leave a CPU that another program takes, so on a
busy host the noise is larger.

- `"apart"`: CPUs of their own. The load program gets a quarter of the cores, at least one, and the server the others;
  threads of one core stay together.
- `"one"`: both on one CPU, for CPU time per query with few connections (shown for memcached with 4), and for nothing
  else: with 64 connections the server's CPU time per query differs from second to second. Nothing crosses CPUs.
  Throughput is that of one CPU, and the server's threads do not contend with each other.

Proved by the affinity of every thread of the server; in an interleaved study also of the load program. Arms may differ
in it; with `design.kind = "switchback"` the threads of the one server are moved, and each arm's load program keeps its
own CPUs.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, Literal

from pydantic import TypeAdapter

from mydyno.hosts.limits import affinities_of, set_affinity
from mydyno.hosts.root import HERE, HostRoot
from mydyno.model.definition.experiment import ServerSpec
from mydyno.model.definition.quantities import numbers_of, ranges_of
from mydyno.model.stored.records import Evidence
from mydyno.servers.running.base import RunningServer
from mydyno.treatments.base import Treatment

SETTING: TypeAdapter[Any] = TypeAdapter(Literal["apart", "one"])
LOAD_SHARE = 0.25
"""Share of the cores that the load program gets; at least one core."""


def apart(cores: Sequence[Sequence[int]]) -> tuple[list[int], list[int]] | None:
    """The CPUs of the server and of the load program; None where there is one CPU. A core alone is split."""
    if len(cores) == 1:
        cores = [[cpu] for cpu in cores[0]]
    if len(cores) < 2:
        return None
    of_load = max(1, int(LOAD_SHARE * len(cores)))
    return [cpu for core in cores[:-of_load] for cpu in core], [cpu for core in cores[-of_load:] for cpu in core]


def usable_cores(root: HostRoot = HERE) -> list[list[int]]:
    """The CPUs that mydyno may use, those of one core together; each alone where the kernel does not say."""
    cores: dict[int, list[int]] = {}
    for cpu in sorted(root.cpus):
        try:
            siblings = numbers_of((root.sys / f"devices/system/cpu/cpu{cpu}/topology/thread_siblings_list").read_text())
        except (OSError, ValueError):
            siblings = {cpu}
        cores.setdefault(min(siblings), []).append(cpu)
    return list(cores.values())


class AffinityTreatment(Treatment):
    """Server and load program on CPUs of their own, or on one."""

    name = "affinity"

    def __init__(self, value: str) -> None:
        self._on_one = value == "one"

    @cached_property
    def _cpus(self) -> tuple[list[int], list[int]] | None:
        """Those of the server and of the load program; None where there are too few."""
        cores = usable_cores(self.root)
        return ([cores[-1][-1]], [cores[-1][-1]]) if self._on_one else apart(cores)

    def obstacle(self, server: ServerSpec) -> str | None:
        """An external server was started by others; one CPU cannot be divided."""
        if server.dsn is not None:
            return "an external server (dsn) was started by others; use server.name or server.basedir"
        if self._cpus is None:
            return "server and load program cannot have CPUs of their own: mydyno may use one CPU here"
        return None

    def obstacle_apart(self, server: ServerSpec) -> str | None:  # noqa: ARG002
        """A load from other hosts is apart."""
        return "the load comes from other hosts, so there is nothing to separate on the server's; leave affinity out"

    @property
    def switches(self) -> bool:
        """Each thread is moved at once."""
        return True

    @property
    def lasts(self) -> bool:
        """Threads that may use every CPU again can stay together for seconds, as the arm before had them."""
        return True

    async def apply(self, instance: RunningServer) -> None:
        """Before the server's command, inside its group and namespace; the load program's go with its address."""
        assert self._cpus is not None
        server, load = self._cpus
        instance.settings.wrappers.append(["taskset", "--cpu-list", ranges_of(server)])
        instance.settings.load_cpus = tuple(load)

    async def switch_on(self, instance: RunningServer) -> None:
        """Move the server's threads; a load program that is started from now on gets its own CPUs."""
        assert self._cpus is not None
        server, load = self._cpus
        set_affinity(instance.pid, server)
        instance.settings.load_cpus = tuple(load)

    async def switch_off(self, instance: RunningServer) -> None:
        """The CPUs that mydyno may use, with which the server was started."""
        set_affinity(instance.pid, self.root.cpus)
        instance.settings.load_cpus = ()

    async def evidence(self, instance: RunningServer) -> Evidence:
        """The affinity of every thread of the server."""
        assert self._cpus is not None
        server, load = self._cpus
        found = {ranges_of(cpus) for cpus in affinities_of(instance.pid)}
        wanted = ranges_of(server)
        holds = found == {wanted}
        text = f"server on CPU {' / '.join(sorted(found)) or 'unknown'}, load program on CPU {ranges_of(load)}"
        return Evidence(
            treatment=self.name,
            holds=holds,
            text=text if holds else f"{text}; wanted the server on {wanted}",
            facts={"server_cpus": sorted(found), "load_cpus": ranges_of(load)},
            instance=instance.number,
        )

    async def account(self, instance: RunningServer) -> Evidence | None:
        """The same of the threads that the load made."""
        return await self.evidence(instance)
