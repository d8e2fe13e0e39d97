"""sysctl: journaled before it is set, read back, given back; what the kernel makes of a value is said."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mydyno.hosts import kernel_settings
from mydyno.hosts.undo import UndoJournal
from mydyno.model.definition.experiment import ServerSpec
from mydyno.servers.client_path import ClientPath
from mydyno.treatments import sysctl
from mydyno.treatments.sysctl import SETTING, SysctlTreatment

SERVER = ServerSpec(name="mariadb-10.11")


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A /proc/sys of our own."""
    folder = tmp_path / "sys"
    (folder / "vm").mkdir(parents=True)
    (folder / "net/ipv4").mkdir(parents=True)
    (folder / "vm/swappiness").write_text("60\n")
    (folder / "net/ipv4/tcp_rmem").write_text("4096\t131072\t6291456\n")
    monkeypatch.setattr(sysctl, "ROOT", folder)
    monkeypatch.setattr(kernel_settings, "ROOTS", (folder,))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    return folder


def instance(tmp_path: Path, namespace: Path | None = None) -> Any:
    path = ClientPath("198.18.0.1", 3306, "198.18.0.2", namespace)
    return SimpleNamespace(
        undo=UndoJournal.begin(tmp_path / "undo", "study-1", tmp_path),
        settings=SimpleNamespace(client_path=path if namespace else None),
        number=1,
    )


async def test_a_setting_is_set_proved_and_given_back(root: Path, tmp_path: Path) -> None:
    made, treatment = instance(tmp_path), SysctlTreatment({"vm.swappiness": 1})
    assert treatment.obstacle(SERVER) is None
    await treatment.apply(made)
    assert (root / "vm/swappiness").read_text() == "1"
    assert [entry.kind for entry in made.undo.open_entries()] == ["sysctl"]
    evidence = await treatment.evidence(made)
    assert (evidence.holds, evidence.text) == (True, "vm.swappiness = 1 (read back)")
    await treatment.undo()
    assert (root / "vm/swappiness").read_text() == "60"
    assert made.undo.open_entries() == []


async def test_a_value_that_is_there_already_is_left_as_it_is(root: Path, tmp_path: Path) -> None:
    made, treatment = instance(tmp_path), SysctlTreatment({"net.ipv4.tcp_rmem": "4096 131072 6291456"})
    await treatment.apply(made)
    assert made.undo.open_entries() == []
    assert (await treatment.evidence(made)).holds, "tabs and spaces are the same"


async def test_a_kernel_that_rounds_is_told_on(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made, treatment = instance(tmp_path), SysctlTreatment({"vm.swappiness": 7})
    await treatment.apply(made)
    (root / "vm/swappiness").write_text("8\n")
    evidence = await treatment.evidence(made)
    assert not evidence.holds
    assert evidence.text == "vm.swappiness is 8, although 7 was written"


async def test_the_hosts_network_settings_do_not_reach_a_namespace(root: Path, tmp_path: Path) -> None:
    made = instance(tmp_path, Path("/run/netns/mydyno-x-load"))
    treatment = SysctlTreatment({"net.ipv4.tcp_rmem": "4096 131072 6291456"})
    await treatment.apply(made)
    evidence = await treatment.evidence(made)
    assert not evidence.holds
    assert "runs in a network namespace with its own" in evidence.text


def test_what_stands_in_the_way_is_said_before_anything_starts(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "this kernel has no vm.nothing" in (SysctlTreatment({"vm.nothing": 1}).obstacle(SERVER) or "")
    external = ServerSpec(dsn="mysql://user@host/sbtest")
    assert "cannot configure" in (SysctlTreatment({"vm.swappiness": 1}).obstacle(external) or "")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert "need root" in (SysctlTreatment({"vm.swappiness": 1}).obstacle(SERVER) or "")
    assert SysctlTreatment({"vm.swappiness": 1}).host_changes(SERVER) == [
        "sysctl vm.swappiness = 1 (restored after each run)"
    ]


@pytest.mark.parametrize("name", ["swappiness", "../etc.passwd", "vm..x", "vm./x", ""])
def test_names_are_those_of_sysctl(name: str) -> None:
    with pytest.raises(ValueError, match="validation error"):
        SETTING.validate_python({name: 1})
