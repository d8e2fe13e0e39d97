"""What a link needs and does not find: each a clear word from `plan` and `doctor` before anything is started."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import first_in_gate
from tests.support.network_study import NetworkStudy, means_or_words, network_study
from tests.support.patience import HANG_S

EXPERIMENT = """
name = "netmissing"
question = "What is missing?"
server.name = "mariadb-10.11"
[arms]
control = "slow"
slow = { network = "100mbit" }
fast = { network = "1gbit" }
later = { network = "10gbit" }
[[steps]]
workload = "oltp_read_only"
connections = 1
driver = "dynoload"
"""
REFUSES = """#!/bin/sh
# Stands before {program} and refuses what this kernel is to lack.
case "$*" in *{words}*) echo "{error}" >&2; exit 2 ;; esac
exec {program} "$@"
"""
LACKS = {
    "veth": ("ip", "'type veth'", "Error: Unknown device type.", "has no veth (CONFIG_VETH)"),
    "tbf": ("tc", "tbf", "Error: Specified qdisc kind is unknown.", "no tbf for shaping (CONFIG_NET_SCH_TBF)"),
    "namespaces": (
        "unshare",
        "--net",
        "unshare: unshare failed: Operation not permitted",
        "cannot create network namespaces",
    ),
}


@pytest.fixture
def study(apart: list[str]) -> Iterator[NetworkStudy | None]:
    if not means_or_words():
        yield None
        return
    with network_study("netmissing", EXPERIMENT, apart) as made:
        yield made


def told(study: NetworkStudy, command: str, before: list[str], path: str | None = None) -> tuple[int, str]:
    """Exit code and output of a command that may start nothing."""
    asked = [command, *([str(study.file)] if command != "doctor" else [])]
    words = [*study.prefix, *before, sys.executable, "-m", "mydyno.cli", *asked]
    environment = study.environment | ({"PATH": path} if path else {})
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=HANG_S, check=False)
    assert study.namespaces() == []
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("missing", first_in_gate(LACKS))
def test_a_kernel_without_it_is_said_to_be_so(study: NetworkStudy | None, missing: str) -> None:
    if study is None:
        return
    program, words, error, expected = LACKS[missing]
    real = shutil.which(program)
    wrapper = study.folder / "bin" / program
    wrapper.parent.mkdir()
    wrapper.write_text(REFUSES.format(program=real, words=words, error=error))
    wrapper.chmod(0o755)
    path = f"{wrapper.parent}:{os.environ['PATH']}"
    exit_code, output = told(study, "plan", [], path)
    assert exit_code == 3, output
    assert "OBSTACLE  every arm: network: " in output
    assert expected in output
    assert expected in told(study, "doctor", [], path)[1]
    exit_code, output = told(study, "run", [], path)
    assert exit_code == 3, "no study begins"
    assert expected in output


def test_without_root_it_is_said_that_it_needs_root(study: NetworkStudy | None) -> None:
    if study is None:
        return
    as_nobody = ["unshare", "--user"]
    exit_code, output = told(study, "plan", as_nobody)
    assert exit_code == 3, output
    assert "every arm: network: changing the network needs root; run mydyno as root" in output
    doctor = told(study, "doctor", as_nobody)[1]
    missing = doctor[doctor.index("Not on this host") : doctor.index("\nOn this host")]
    assert re.search("shaped links between namespaces +changing the network needs root", missing)


def test_addresses_in_use_are_passed_over_and_a_range_in_use_is_said(study: NetworkStudy | None) -> None:
    if study is None:
        return
    taken = "ip link add name taken0 type veth peer name taken1; ip address add {} dev taken0; ip link set taken0 up; "
    inside = ["unshare", "--net", "sh", "-c"]
    run = 'exec "$@"'
    exit_code, output = told(study, "plan", [*inside, taken.format("198.18.0.1/30") + run, "sh"])
    assert exit_code == 0, output
    exit_code, output = told(study, "plan", [*inside, taken.format("198.18.0.1/15") + run, "sh"])
    assert exit_code == 3, output
    assert "every address of 198.18.0.0/15 is in use on this host (198.18.0.0/15)" in output


def test_a_program_that_is_missing_is_named_with_its_package(study: NetworkStudy | None) -> None:
    if study is None:
        return
    folder = study.folder / "few"
    folder.mkdir()
    for name in ("env", "sh", "ip", "nsenter", "unshare", "umount", "mount", "setpriv", "mkdir"):
        found = shutil.which(name)
        assert found is not None
        Path(folder / name).symlink_to(found)
    exit_code, output = told(study, "plan", [], str(folder))
    assert exit_code == 3, output
    assert "tc not on PATH: needs iproute2" in output
