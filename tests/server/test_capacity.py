"""A capacity search on real servers with CPU quotas: the larger one carries more, and no slice is missing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mydyno.hosts.paths import HostPaths
from tests.support.interleaved import slices_of, summary_of
from tests.support.not_run import note_not_run
from tests.support.real import Program

SLICE_S = 1.0
EXPERIMENT = f"""
name = "quota"
question = "How much more does a server with 60 % of a CPU carry than one with 10 %?"
server.name = "mariadb-10.11"
server.variables = {{ innodb_buffer_pool_size = "32M" }}
data = {{ tables = 1, rows = 1000 }}
design = {{ blocks = 1, cycles = 7, slice = "{SLICE_S}s", washout = "0.2s", quiet_wait = "0s" }}
[arms]
control = "tenth"
tenth = {{ cgroup = {{ cpu_quota = 0.1 }} }}
six-tenths = {{ cgroup = {{ cpu_quota = 0.6 }} }}
[[steps]]
workload = "oltp_read_only"
connections = 4
warmup = "0s"
search = {{ metric = "latency_p50_us", limit = "50ms" }}
"""


@pytest.mark.exhaustive
@pytest.mark.alone
def test_a_server_with_six_times_the_cpu_carries_more(tmp_path: Path, real_paths: HostPaths, apart: list[str]) -> None:
    if os.geteuid() != 0:
        note_not_run("a capacity search with CPU quotas: control groups need root")
        return
    program = Program(tmp_path, real_paths, apart)
    before = program.leftovers()
    done = program.run("run", program.write(EXPERIMENT))
    assert done.returncode == 0, done.stderr
    assert program.leftovers() == before
    study = program.study()
    found = {one["arm"]: one["capacity"] for one in summary_of(study)["capacities"]}
    assert set(found) == {"tenth", "six-tenths"}
    assert found["six-tenths"] > 1.5 * found["tenth"]
    slices = slices_of(study)
    assert len(slices) == 3 * 7
    for one in slices:
        assert one.search is not None
        expected = one.search.rate * SLICE_S
        assert abs(one.search.planned - expected) < 6 * expected**0.5 + 6, "Poisson arrivals at the rate of the slice"
        assert one.search.met == (not one.search.because)
        assert one.search.met <= (one.search.value_us is not None and one.search.value_us <= 50_000)
        assert not one.disagreements, "the server counted what the load says that it did"
    assert {one.search.met for one in slices if one.search} == {True, False}
