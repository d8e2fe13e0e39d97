"""Whether perf works on a host, and what it is told."""

from __future__ import annotations

from pathlib import Path

from mydyno.hosts.tracing import perf
from tests.support.fake_host import FakeHost


def host(folder: Path, paranoid: int) -> FakeHost:
    """One on which mydyno does not run as root."""
    made = FakeHost(folder, is_root=False)
    made.write("proc/sys/kernel/perf_event_paranoid", f"{paranoid}\n")
    return made


def test_without_perf_the_package_is_named(tmp_path: Path) -> None:
    assert "apt-get install linux-perf" in (perf.perf_obstacle(FakeHost(tmp_path, absent=["perf"])) or "")


def test_what_users_other_than_root_may_sample_depends_on_the_kernel(tmp_path: Path) -> None:
    files = tmp_path / "c", tmp_path / "a", tmp_path / "o"
    usual = host(tmp_path, 2)
    assert (perf.perf_obstacle(usual), perf.event(usual)) == (None, "cpu-clock:u")
    command = perf.record_command([7, 8], 199, *files, usual)
    assert "--pid=7,8" in command
    assert "--proc-map-timeout=10000" in command, "perf's own limit of 500 ms drops libraries on a busy host"
    assert not any(word.startswith("--mmap-pages") for word in command)
    assert "kernel.perf_event_paranoid = 3" in (perf.perf_obstacle(host(tmp_path, 3)) or "")
    open_to_all = host(tmp_path, 0)
    assert "--all-cpus" in perf.record_command([7], 199, *files, open_to_all)
    assert perf.event(open_to_all) == "cpu-clock"


def test_a_host_with_many_cpus_takes_fewer_samples_of_each() -> None:
    assert perf.frequency(499, FakeHost(cpu_count=2)) == 499
    assert 128 * perf.frequency(499, FakeHost(cpu_count=128)) <= perf.MOST_SAMPLES_PER_S
