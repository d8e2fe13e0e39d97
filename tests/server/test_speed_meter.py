"""dynoprobe's speed meter through its wrapper, as an interleaved run reads it around each slice."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
from pathlib import Path

import pytest

from mydyno.execution.environments.probe import Probe
from mydyno.hosts.local import LocalHost
from mydyno.hosts.paths import HostPaths
from mydyno.hosts.quiet import process_cpu_s
from tests.support.patience import HANG_S

pytestmark = pytest.mark.alone


def probe_of(paths: HostPaths, tmp_path: Path, speed_meter: bool) -> Probe:
    host = LocalHost(f"speed-{os.getpid()}-x", None)
    program = paths.program("dynoprobe")

    return Probe(host, program, [], paths.data, tmp_path, tmp_path, speed_meter=speed_meter)


async def test_the_meter_is_read_at_any_moment_and_only_grows(real_paths: HostPaths, tmp_path: Path) -> None:
    probe = probe_of(real_paths, tmp_path, speed_meter=True)
    await probe.start()
    try:
        readings = []
        for _ in range(4):
            reading = await probe.speed()
            assert reading is not None
            readings.append(reading)
            await asyncio.sleep(0.4)
        assert probe._process is not None
        used_s = process_cpu_s(probe._process.pid)
    finally:
        assert await probe.stop() == []
    units = [after[0] - before[0] for before, after in itertools.pairwise(readings)]
    assert all(count > 0 for count in units), readings
    means_us = [
        (after[1] - before[1]) / count / 1000
        for (before, after), count in zip(itertools.pairwise(readings), units, strict=True)
    ]
    assert all(1 < mean < 500 for mean in means_us), means_us
    assert used_s is not None
    assert used_s < 0.2, "some milliseconds in two seconds, start included"
    samples, _ = probe.samples()
    sampled = [sample.value for sample in samples if (sample.scope, sample.metric) == ("host", "speed_unit_ns")]
    assert sampled
    assert all(1_000 < value < 500_000 for value in sampled)


async def test_without_a_meter_or_without_a_probe_there_is_no_reading(real_paths: HostPaths, tmp_path: Path) -> None:
    plain = probe_of(real_paths, tmp_path, speed_meter=False)
    await plain.start()
    assert await plain.speed() is None
    await plain.stop()
    assert not any(sample.metric == "speed_unit_ns" for sample in plain.samples()[0])
    killed = probe_of(real_paths, tmp_path, speed_meter=True)
    assert await killed.speed() is None
    await killed.start()
    assert await killed.speed() is not None
    assert killed._process is not None
    killed._process.send(signal.SIGKILL)
    await killed._process.wait(HANG_S)
    assert await killed.speed() is None
    (words,) = await killed.stop()
    assert "ended by itself" in words
