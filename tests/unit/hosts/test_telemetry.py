"""Which families of metrics a probe's stream lacks, what this host lacks beforehand, and values with commas."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mydyno.errors import HostError
from mydyno.hosts.paths import HostPaths
from mydyno.hosts.telemetry import EVERYTHING, unread_families, unreadable_here, words_of
from mydyno.servers.running.base import in_list

SAMPLE = '{"record":"sample","unix_ns":1}'


def family(name: str, scope: str | None, reason: str = "") -> dict[str, Any]:
    found = {"name": name, "available": not reason}
    return found | ({"scope": scope} if scope else {}) | ({"reason": reason} if reason else {})


def line(kind: str, **fields: Any) -> str:
    return json.dumps({"record": kind, **fields}, separators=(",", ":"))


def test_a_family_that_was_never_read_has_its_reason() -> None:
    header = line("header", families=[
        family("host_cpu", "host"),
        family("disk", "host", "no block device"),
        family("cgroup", "driver:1", "it has ended"),
        family("mysql_statements", None, "nothing of that kind was named"),
        family("process_io", "instance:2", "permission denied"),
    ])  # fmt: skip
    assert unread_families([header, SAMPLE]) == {"disk": "no block device", "process_io": "permission denied"}


def test_of_a_server_that_answered_late_only_the_samples_tell_what_was_not_read() -> None:
    late = [family(name, "instance:1", "no answer within 3 s") for name in ("mysql_statements", "innodb_redo")]
    assert unread_families([line("header", families=late), SAMPLE]) == {}
    failures = [
        {"family": "mysql_status", "scope": "instance:1", "samples": 9, "message": "access denied"},
        {"family": "network", "scope": "host", "samples": 3, "message": "no interface eth7"},
    ]
    footer = line("footer", samples=9, failures=failures)
    assert unread_families([line("header", families=late), SAMPLE, footer]) == {"mysql_status": "access denied"}
    redo = [family("mysql_statements", "instance:1"), family("innodb_redo", "instance:1", "needs PROCESS")]
    assert unread_families([line("header", families=redo), SAMPLE]) == {"innodb_redo": "needs PROCESS"}


@pytest.mark.parametrize("lines", [[], [line("header", families=[family("disk", "host", "none")])]])
def test_a_stream_without_samples_lacks_everything(lines: list[str]) -> None:
    assert unread_families(lines) == {EVERYTHING: "dynoprobe wrote no samples"}


def test_what_this_host_lacks_is_known_beforehand(paths: HostPaths, tmp_path: Path) -> None:
    engine = tmp_path / "programs"
    engine.mkdir()
    program = engine / "dynoprobe"
    own = replace(paths, engine=engine, data=tmp_path / "not/yet")
    with pytest.raises(HostError, match="dynoprobe is not at"):
        unreadable_here(own)
    no_disk = f"--disk {tmp_path}: its file system is on no block device; name the disk itself, see /sys"
    families = [family("psi", "host", "no /proc/pressure"), family("disk", "host", no_disk)]
    header = line("header", families=families)
    program.write_text(f"#!/bin/sh\ncase \"$*\" in *--disk={tmp_path}\\ *) echo '{header}'; echo '{SAMPLE}';; esac\n")
    program.chmod(0o755)
    no_disk = f"--data {tmp_path}: its file system is on no block device"
    assert words_of(unreadable_here(own)) == f"psi (no /proc/pressure); disk ({no_disk})"
    program.write_text("#!/bin/sh\necho broken >&2; exit 2\n")
    assert unreadable_here(own) == {EVERYTHING: "broken"}
    program.chmod(0o644)
    assert "Permission denied" in unreadable_here(own)[EVERYTHING]


def test_commas_and_backslashes_in_a_value_are_marked() -> None:
    assert in_list(Path("/tmp/a,b\\c")) == "/tmp/a\\,b\\\\c"
