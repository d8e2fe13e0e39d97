from __future__ import annotations

from pathlib import Path

import pytest

from mydyno.errors import HostError
from mydyno.hosts.local import LocalHost
from mydyno.parts.debian import DebianPackages

FAKE_APT = """\
#!/bin/sh
echo "$*" >> {log}
case "$*" in
*" update") {update} ;;
*) echo "E: Unable to locate package sysbench"; exit 100 ;;
esac
"""


def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, update: str) -> tuple[DebianPackages, Path]:
    """Packages of an empty cache by an apt-get that knows none and updates so; the log of its calls."""
    log = tmp_path / "calls"
    program = tmp_path / "bin" / "apt-get"
    program.parent.mkdir()
    program.write_text(FAKE_APT.format(log=log, update=update))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    return DebianPackages(tmp_path / "cache", LocalHost("apt", None)), log


async def test_lists_that_cannot_be_had_do_not_hide_the_machines_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    apt, log = packages(tmp_path, monkeypatch, "exit 100")
    for _ in range(2):
        with pytest.raises(HostError, match=r"apt does not know sysbench.*Unable to locate"):
            await apt.get(["sysbench"])
    calls = log.read_text().splitlines()
    assert ["Dir::State::Lists" in call for call in calls] == [False, True, False] * 2, calls
    assert not (tmp_path / "cache" / "debian" / "apt").exists()


async def test_lists_of_our_own_are_used_once_they_are_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lists = tmp_path / "cache" / "debian" / "apt" / "lists"
    apt, log = packages(tmp_path, monkeypatch, f"touch {lists}/mirror_Packages.lz4")
    with pytest.raises(HostError, match="apt does not know sysbench"):
        await apt.get(["sysbench"])
    assert ["Dir::State::Lists" in call for call in log.read_text().splitlines()] == [False, True, True]
