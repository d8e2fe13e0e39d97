"""Leases are what the journal says."""

from __future__ import annotations

from pathlib import Path

import pytest

from mydyno.errors import StudyError
from mydyno.fleet.cluster import Leases
from mydyno.store.logs import Journal


def test_only_the_attempt_issued_last_may_be_committed(tmp_path: Path) -> None:
    leases = Leases(Journal(tmp_path / "journal.jsonl"))
    assert leases.lease(1, "a") == 1
    leases.lost(1, 1, "a", "silent")
    assert leases.lease(1, "b") == 2
    assert not leases.is_current(1, 1)
    assert leases.is_current(1, 2)
    leases.committed(1, 2, "b")
    assert not leases.is_current(1, 2), "it is there already"


def test_the_numbers_go_on_after_the_controller_was_killed(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    before = Leases(journal)
    before.lease(1, "a")
    before.committed(1, 1, "a")
    before.lease(2, "a")
    after = Leases(journal)
    assert not after.is_current(1, 1)
    assert after.lease(2, "b") == 2
    assert not after.is_current(2, 1), "a copy from before the kill is late"


def test_a_block_that_every_group_loses_ends_the_study(tmp_path: Path) -> None:
    leases = Leases(Journal(tmp_path / "journal.jsonl"))
    for group in "abc":
        leases.lost(1, leases.lease(1, group), group, "silent")
    with pytest.raises(StudyError, match="block 1 was lost 3 times"):
        leases.lease(1, "d")
    again = Leases(Journal(tmp_path / "journal.jsonl"))
    assert again.lease(1, "d") == 4, "resume tries again"
