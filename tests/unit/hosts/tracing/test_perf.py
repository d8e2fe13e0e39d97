"""Whether perf works on a host, and what it is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from mydyno.hosts.tracing import perf


@pytest.fixture
def paranoid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """perf_event_paranoid of a host where mydyno does not run as root."""
    path = tmp_path / "perf_event_paranoid"
    path.write_text("2\n")
    monkeypatch.setattr(perf, "PARANOID", path)
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.setattr("shutil.which", lambda _name: "/usr/bin/perf")
    monkeypatch.setattr(perf, "_failed_trial", lambda *_: None)
    perf.samples_whole_host.cache_clear()
    return path


@pytest.mark.usefixtures("paranoid")
def test_without_perf_the_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda _name: None)
    assert "apt-get install linux-perf" in (perf.perf_obstacle() or "")


def test_what_users_other_than_root_may_sample_depends_on_the_kernel(paranoid: Path, tmp_path: Path) -> None:
    assert (perf.perf_obstacle(), perf.event()) == (None, "cpu-clock:u")
    command = perf.record_command([7, 8], 199, tmp_path / "c", tmp_path / "a", tmp_path / "o")
    assert "--pid=7,8" in command
    assert "--proc-map-timeout=10000" in command, "perf's own limit of 500 ms drops libraries on a busy host"
    assert not any(word.startswith("--mmap-pages") for word in command)
    paranoid.write_text("3\n")
    assert "kernel.perf_event_paranoid = 3" in (perf.perf_obstacle() or "")
    paranoid.write_text("0\n")
    perf.samples_whole_host.cache_clear()
    assert "--all-cpus" in perf.record_command([7], 199, tmp_path / "c", tmp_path / "a", tmp_path / "o")
    assert perf.event() == "cpu-clock"
    perf.samples_whole_host.cache_clear()


def test_a_host_with_many_cpus_takes_fewer_samples_of_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    assert perf.frequency(499) == 499
    monkeypatch.setattr("os.cpu_count", lambda: 128)
    assert 128 * perf.frequency(499) <= perf.MOST_SAMPLES_PER_S
