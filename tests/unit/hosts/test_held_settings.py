"""Kernel settings that several servers hold at the same time come back as they were, in any order of release."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mydyno.errors import HostError
from mydyno.hosts.held_settings import HeldSettings
from mydyno.hosts.local import LocalHost
from mydyno.hosts.undo import UndoJournal
from mydyno.model.server_version import ServerVersion
from mydyno.servers.running.base import InstanceSettings
from mydyno.servers.running.mysqld import MysqldServer
from mydyno.servers.running.private import Credentials
from mydyno.treatments import huge_pages
from mydyno.treatments.huge_pages import HugePagesTreatment
from tests.support.disowned import disowned
from tests.support.fake_host import FakeHost

ORDERS = list(itertools.permutations(range(3)))


@pytest.fixture
def files(tmp_path: Path) -> SimpleNamespace:
    """A host's THP switch and count of pages, with a journal."""
    host = FakeHost(tmp_path)
    thp = host.write("sys/kernel/mm/transparent_hugepage/enabled", "madvise")
    pages = host.write("proc/sys/vm/nr_hugepages", "7")
    return SimpleNamespace(thp=thp, pages=pages, undo=UndoJournal.begin(tmp_path / "undo", "study", tmp_path, host))


@pytest.mark.parametrize("order", ORDERS)
def test_a_value_that_all_need_stays_until_the_last_is_down(files: Any, order: Sequence[int]) -> None:
    held = HeldSettings()
    holds = [held.hold(files.undo, files.thp, "never")[0] for _ in range(3)]
    for index in order[:2]:
        held.release(holds[index])
        assert files.thp.read_text() == "never"
    held.release(holds[order[2]])
    assert files.thp.read_text() == "madvise"
    assert files.undo.open_entries() == []


@pytest.mark.parametrize("order", ORDERS)
def test_amounts_add_up_and_each_is_taken_back_by_itself(files: Any, order: Sequence[int]) -> None:
    held, amounts = HeldSettings(), (100, 20, 3)
    holds = []
    for amount in amounts:
        hold, granted = held.add(files.undo, files.pages, amount)
        assert granted == amount
        holds.append(hold)
    assert files.pages.read_text() == "130"
    left = 130
    for index in order:
        held.release(holds[index])
        held.release(holds[index])  # once more changes nothing
        left -= amounts[index]
        assert files.pages.read_text() == str(left)
    assert left == 7
    assert files.undo.open_entries() == []


def test_after_a_kill_the_journal_has_the_first_value_alone(files: Any) -> None:
    held = HeldSettings()
    held.add(files.undo, files.pages, 100)
    second, _ = held.add(files.undo, files.pages, 50)
    held.hold(files.undo, files.thp, "never")
    held.hold(files.undo, files.thp, "never")
    held.release(second)
    left = disowned(files.undo)
    assert left.is_stale()
    assert left.undo_all() == []
    assert (files.pages.read_text(), files.thp.read_text()) == ("7", "madvise")


def test_a_setting_that_was_as_wanted_is_not_written_and_not_journaled(files: Any) -> None:
    held = HeldSettings()
    hold, now = held.hold(files.undo, files.thp, "madvise")
    assert now == "madvise"
    assert files.undo.open_entries() == []
    held.release(hold)
    assert files.thp.read_text() == "madvise"


def test_two_servers_cannot_hold_two_values(files: Any) -> None:
    held = HeldSettings()
    first, _ = held.hold(files.undo, files.thp, "never")
    with pytest.raises(HostError, match="must be always, but another server of this study needs never"):
        held.hold(files.undo, files.thp, "always")
    with pytest.raises(HostError, match="must be raised"):
        files.thp.write_text("5")
        held.add(files.undo, files.thp, 1)
    held.release(first)
    assert files.thp.read_text() == "madvise"


def test_what_the_kernel_grants_less_of_is_told_and_a_refusal_leaves_nothing(
    files: Any,
) -> None:
    held = HeldSettings(lambda *_: "9")
    hold, granted = held.add(files.undo, files.pages, 100)
    assert granted == 2
    held.release(hold)

    def refuse(*_: object) -> str:
        raise HostError("refused")

    with pytest.raises(HostError, match="refused"):
        HeldSettings(refuse).add(files.undo, files.pages, 100)
    assert files.undo.open_entries() == []


@pytest.mark.parametrize("order", ORDERS)
async def test_huge_pages_of_three_servers_are_given_back_in_any_order(
    files: Any, order: Sequence[int], tmp_path: Path
) -> None:
    host = LocalHost("study", None, files.undo)
    build: Any = SimpleNamespace(version=ServerVersion.parse("9.7.0"), variables=frozenset())
    treatments = [HugePagesTreatment(pages) for pages in ("4k", "hugetlb", "hugetlb")]
    for treatment in treatments:
        treatment.root = files.undo.root
        await treatment.apply(
            MysqldServer(build, host, tmp_path, tmp_path, tmp_path / "log", Credentials(), InstanceSettings())
        )
    one = -(-huge_pages.reserve_bytes({}) // huge_pages.PAGE_BYTES)
    assert int(files.pages.read_text()) == 7 + 2 * one
    for index in order:
        await treatments[index].undo()
    assert (files.pages.read_text(), files.thp.read_text()) == ("7", "madvise")
    assert files.undo.open_entries() == []
