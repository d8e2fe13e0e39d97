"""Which folders of the cache an experiment needs on other hosts."""

from __future__ import annotations

from pathlib import Path

from mydyno.fleet.parts import folders_with


def test_of_the_servers_that_were_added_only_those_used(tmp_path: Path) -> None:
    added = tmp_path / "servers" / "added"
    for name in ("own", "other"):
        (added / name / "tree" / "bin").mkdir(parents=True)
    assert folders_with([added / "own/tree/bin/mysqld"], tmp_path) == [added / "own"]
