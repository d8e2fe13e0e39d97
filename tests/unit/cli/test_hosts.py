"""`mydyno hosts` from the command line to a host over SSH and back."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from mydyno.fleet.installation import FOLDER, Installation
from tests.support.forked import run_forked
from tests.support.small_installation import small_installation
from tests.support.ssh_server import SshServer, ssh_server

pytestmark = pytest.mark.slow


@pytest.fixture
def server(tmp_path: Path) -> Iterator[SshServer]:
    with ssh_server(tmp_path / "ssh") as started:
        yield started


@pytest.fixture
def wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Installation]:
    with small_installation(tmp_path, monkeypatch) as made:
        yield made


def hosts(server: SshServer, *arguments: str, addresses: str = "") -> subprocess.CompletedProcess[str]:
    return mydyno(server, "hosts", *arguments, "--hosts", addresses or server.address)


def mydyno(server: SshServer, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command of a user whose ~/.ssh knows the server."""
    folder = server.folder
    environment = {
        "PATH": os.environ["PATH"], "HOME": str(server.user_home), "MYDYNO_CACHE": str(folder / "cache"),
        "MYDYNO_ENGINE": os.environ["MYDYNO_ENGINE"], "LANG": "C.UTF-8",
    }  # fmt: skip
    return run_forked(arguments, folder, environment)


def test_a_host_is_prepared_checked_listed_and_cleared(server: SshServer, wanted: Installation, tmp_path: Path) -> None:
    done = hosts(server, "list")
    assert (done.returncode, done.stderr) == (3, "")
    assert "1 group, 1 host: 0 ready" in done.stdout
    assert "not prepared: run mydyno hosts prepare" in done.stdout
    done = hosts(server, "check")
    assert done.returncode == 3
    assert f"hint: mydyno hosts prepare --hosts {server.address}" in done.stdout

    done = hosts(server, "prepare")
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{server.address:<28} mydyno 0.1.0 ({wanted.key}) installed\n"
    assert f"{server.address}: copying Python packages: " in done.stderr
    done = hosts(server, "prepare")
    assert done.returncode == 0
    assert (done.stdout, done.stderr) == (f"{server.address:<28} mydyno 0.1.0 ({wanted.key}) is up to date\n", "")

    done = hosts(server, "list", "--json", addresses=f"local,{server.address}")
    assert done.returncode == 0
    assert [group["state"] for group in json.loads(done.stdout)["groups"]] == [
        {"local": "ready"}, {server.address: "ready"},
    ]  # fmt: skip
    done = hosts(server, "check", "--json", addresses=f"local,{server.address}")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    here, there = report["hosts"]
    assert there["facts"]["kernel"] == here["facts"]["kernel"] == os.uname().release
    # A test with a server beside this one may change that setting between the two readings.
    assert report["differences"].keys() <= {"transparent_hugepages"}
    assert there["clock"]["error_ms"] > 0
    assert {ability["name"] for ability in there["abilities"]} >= {"load and telemetry", "disk for data"}
    assert any(ability["name"] == "load and telemetry" and ability["possible"] for ability in there["abilities"])

    templates = tmp_path / "disk" / "templates"
    templates.mkdir(parents=True)
    done = hosts(server, "prepare", "--remove", addresses=with_data(server, templates.parent))
    assert (done.returncode, done.stdout) == (0, f"{server.address:<28} removed\n")
    assert list(server.home.rglob("*")) == []
    assert not templates.exists(), "prepared data are in the group's own folder"
    assert hosts(server, "prepare").returncode == 0
    templates.mkdir()
    assert hosts(server, "prepare", "--remove", "--data", str(templates.parent)).returncode == 0
    assert not templates.exists(), "prepared data are in the folder of --data"


def with_data(server: SshServer, data: Path) -> str:
    """A file of one group whose server's host has its data there."""
    file = server.folder / "hosts.toml"
    file.write_text(f'[[group]]\nserver = "{server.address}"\ndata = "{data}"\n')
    return str(file)


def test_a_host_is_cleaned_with_the_data_folder_of_its_group(server: SshServer, wanted: Installation) -> None:
    start = server.home / FOLDER / wanted.key / "mydyno"
    start.parent.mkdir(parents=True)
    start.write_text('#!/bin/sh\necho "$MYDYNO_DATA" "$@"\n')
    start.chmod(0o755)
    done = mydyno(server, "clean", "--templates", "--hosts", with_data(server, Path("/disk")))
    assert done.stdout == f"{server.address}: /disk clean --templates\n", done.stderr
    done = mydyno(server, "clean", "--templates", "--data", "/disk", "--hosts", f"local,{server.address}")
    assert done.stdout.splitlines() == [
        "local: this host: run mydyno clean --data /disk without --hosts",
        f"{server.address}: /disk clean --templates",
    ], done.stderr


def test_hosts_that_cannot_be_used_do_not_stop_the_others(server: SshServer, wanted: Installation) -> None:
    done = hosts(server, "prepare", addresses=f"bench@127.0.0.1:1,{server.address}")
    assert done.returncode == 3
    assert re.search(r"bench@127.0.0.1:1 +cannot be used: bench@127.0.0.1:1: port 1 refuses connections", done.stdout)
    assert f"({wanted.key}) installed" in done.stdout
    assert (server.home / FOLDER / wanted.key / "mydyno").exists()
    done = hosts(server, "check", addresses=f"bench@127.0.0.1:1,{server.address}")
    assert done.returncode == 3
    assert done.stdout.startswith("1 host examined, 1 could not be\n")


def test_mistakes_are_reported_before_any_connection(server: SshServer, wanted: Installation) -> None:
    done = hosts(server, "check", addresses="vm[5-3]")
    assert (done.returncode, done.stdout) == (2, "")
    assert "[5-3] is empty" in done.stderr
    done = hosts(server, "prepare", "--packages", "alocators")
    assert done.returncode == 2
    assert "did you mean 'allocators'?" in done.stderr
