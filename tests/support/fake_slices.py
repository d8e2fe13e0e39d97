"""Simulated slices of an interleaved study on a host whose speed wanders: true effects in, SliceRecords out.

Time runs through blocks, steps and cycles; in a cycle every server has one slice, in random order. What a server does
in a slice is the host's mean speed over that slice times its arm's effect, times what its start in this block has
(memory layout), times the slice's own noise. The load program's CPU time per query is what the speed alone makes of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter

from mydyno.model.stored.records import SliceRecord

GRID_S = 0.1
STARTED_NS = 1_795_000_000_000_000_000


@dataclass(frozen=True)
class Host:
    """How the host's speed varies: log speed wanders with `wander_sd` over `wander_s`, episodes have half of it."""

    wander_sd: float = 0.15
    wander_s: float = 60.0
    episodes_every_s: float = 180.0
    """Mean time between episodes of half speed; 0: none."""
    episode_s: float = 15.0
    """Their mean length."""

    def log_speed(self, random: np.random.Generator, seconds: float, grid_s: float = GRID_S) -> NDArray[np.float64]:
        """The log of the speed at every `grid_s`."""
        n = int(seconds / grid_s) + 1
        keep = float(np.exp(-grid_s / self.wander_s))
        steps = random.normal(0.0, self.wander_sd * np.sqrt(1.0 - keep**2), n)
        steps[0] = random.normal(0.0, self.wander_sd)
        wander = np.asarray(lfilter([1.0], [1.0, -keep], steps), dtype=np.float64)
        at_s = 0.0
        while self.episodes_every_s > 0.0:
            at_s += float(random.exponential(self.episodes_every_s))
            if at_s >= seconds:
                break
            length = float(random.exponential(self.episode_s))
            wander[int(at_s / grid_s) : int((at_s + length) / grid_s)] += np.log(0.5)
            at_s += length
        return wander


QUIET = Host(wander_sd=0.01, episodes_every_s=0.0)


@dataclass(frozen=True)
class Simulation:
    """An interleaved study. `effects` and `costs`: arm → true change of queries per second and of the server's CPU time
    per query, as fractions; the first arm is the control and has a second copy."""

    arms: tuple[str, ...] = ("glibc", "jemalloc")
    effects: Mapping[str, float] = field(default_factory=dict)
    costs: Mapping[str, float] = field(default_factory=dict)
    client_costs: Mapping[str, float] = field(default_factory=dict)
    """Arm → true change of the load program's CPU time per query."""
    strangers: Mapping[str, float] = field(default_factory=dict)
    """Arm → share of the CPU time that other programs take while it is loaded."""
    waits: Mapping[str, float] = field(default_factory=dict)
    """Arm → share of a query's time, at the host's usual speed, in which its server waits and needs no CPU."""
    reacting: float = 0.0
    """Share that other programs take of the CPU time that the server leaves while it waits."""
    blocks: int = 6
    cycles: int = 8
    steps: tuple[str, ...] = ("oltp_read_only-4",)
    slice_s: float = 2.0
    washout_s: float = 0.5
    start_sd: float = 0.01
    """Between starts of one arm, as a share."""
    slice_sd: float = 0.02
    host: Host = Host()
    failing: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """Arm → blocks in which its server dies in the middle of the first step."""
    start_s: float = 10.0
    """Time between the slices of two blocks."""

    @property
    def servers(self) -> tuple[tuple[str, int], ...]:
        """(arm, copy) of a block."""
        return ((self.arms[0], 1), (self.arms[0], 2), *((arm, 1) for arm in self.arms[1:]))

    def slices(self, seed: int) -> Iterator[SliceRecord]:
        """Every slice in the order of time."""
        random = np.random.default_rng(seed)
        each_s = self.slice_s + self.washout_s
        per_block = self.start_s + len(self.steps) * self.cycles * len(self.servers) * each_s
        speed = np.exp(self.host.log_speed(random, self.blocks * per_block + 1.0))
        now_s = 0.0
        for block in range(1, self.blocks + 1):
            now_s += self.start_s
            starts = {server: random.normal(0.0, self.start_sd) for server in self.servers}
            dead: set[tuple[str, int]] = set()
            for step in self.steps:
                for cycle in range(1, self.cycles + 1):
                    for position, place in enumerate(random.permutation(len(self.servers)), 1):
                        server = self.servers[place]
                        begin = now_s + self.washout_s
                        mean = float(speed[int(begin / GRID_S) : int((begin + self.slice_s) / GRID_S)].mean())
                        now_s += each_s
                        if block in self.failing.get(server[0], ()) and cycle > self.cycles // 2:
                            dead.add(server)
                        noise = random.normal(0.0, self.slice_sd, 3)
                        where = (block, step, cycle, position)
                        yield self._slice(where, server, begin, mean, starts[server], noise, server in dead)

    def _slice(
        self,
        where: tuple[int, str, int, int],
        server: tuple[str, int],
        begin_s: float,
        speed: float,
        start: float,
        noise: NDArray[np.float64],
        dead: bool,
    ) -> SliceRecord:
        block, step, cycle, position = where
        arm, copy = server
        common = {
            "block": block,
            "step": step,
            "cycle": cycle,
            "position": position,
            "arm": arm,
            "copy": copy,
            "started_unix_ns": STARTED_NS + int(begin_s * 1e9),
            "length_s": self.slice_s,
        }
        if dead:
            return SliceRecord(**common, failed="the server ended with signal 11")
        waits = self.waits.get(arm, 0.0)
        work = speed / (1.0 - waits + waits * speed)
        rate = 50_000.0 * work * (1.0 + self.effects.get(arm, 0.0)) * np.exp(start + noise[0])
        queries = round(float(rate) * self.slice_s)
        cost_us = 40.0 / speed * (1.0 + self.costs.get(arm, 0.0)) * np.exp(0.5 * start + noise[1])
        return SliceRecord(
            **common,
            transactions=queries // 16,
            queries=queries,
            driver_cpu_s=float(
                queries * 10e-6 / speed * (1.0 + self.client_costs.get(arm, 0.0)) * np.exp(0.3 * noise[2])
            ),
            server_cpu_s=float(queries * cost_us * 1e-6),
            idle_servers_cpu_s=0.001,
            steal=float(np.clip(1.0 - speed, 0.0, 0.9)) * 0.5,
            strangers=(self.strangers.get(arm, 0.0) + self.reacting * waits * work) * float(np.exp(noise[2])),
        )
