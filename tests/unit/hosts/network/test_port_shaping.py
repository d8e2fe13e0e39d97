"""The words for tc that shape one port, and what it reports of them; and that a killed study's root is removed."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from mydyno.errors import HostError
from mydyno.hosts.network.link import Shape
from mydyno.hosts.network.load_end import PortClass, PortShaping, commands, parse_classes
from mydyno.hosts.undo import UndoJournal
from tests.support.fake_host import FakeHost

SHOWN = """\
class htb d1d0:1 root prio 0 rate 98439Kbit ceil 98439Kbit burst 128Kb cburst 128Kb
 Sent 1500 bytes 3 pkt (dropped 0, overlimits 0 requeues 0)
 backlog 0b 0p requeues 0
class htb d1d0:a root leaf 8001: prio 0 rate 1Gbit ceil 1Gbit burst 128Kb cburst 128Kb
 Sent 0 bytes 0 pkt (dropped 0, overlimits 0 requeues 0)
class htb 1:1 root prio 0 rate 5Gbit ceil 5Gbit burst 128Kb cburst 128Kb
 Sent 9 bytes 9 pkt (dropped 0, overlimits 0 requeues 0)
"""


class FakeTc(FakeHost):
    """Knows roots and classes only as far as they are made and deleted."""

    def __init__(self, refused: str = "") -> None:
        super().__init__(answer=self.tc)
        self.roots: dict[str, str] = {}
        self.refused = refused

    def tc(self, argv: list[str]) -> str | subprocess.CompletedProcess[str]:
        words = " ".join(argv)
        if words.startswith("tc -json qdisc show"):
            root = {"kind": "htb", "handle": self.roots.get(argv[-1], "0:"), "root": True}
            return json.dumps([root, {"kind": "netem", "parent": "d1d0:a", "options": {"delay": {"delay": 0.002}}}])
        if "class show" in words:
            return SHOWN
        if self.refused and self.refused in words:
            return subprocess.CompletedProcess(argv, 2, "", "refused")
        if words.startswith("tc qdisc add dev") and "root" in argv:
            self.roots[argv[4]] = argv[argv.index("handle") + 1]
        if words.startswith("tc qdisc del"):
            del self.roots[argv[4]]
        return ""


@pytest.fixture
def shaping(tmp_path: Path) -> Callable[[FakeTc], PortShaping]:
    return lambda tc: PortShaping(UndoJournal.begin(tmp_path, "study", tmp_path, tc))


def wanted(card: str = "eth1", address: str = "10.0.0.1") -> PortClass:
    return PortClass(card, "server", address, (3306, 3307))


def test_what_leaves_the_server_s_port_is_matched_by_source_and_what_goes_to_it_by_destination() -> None:
    (made, *filters) = commands(wanted(), 1, Shape(1e9))
    assert "rate 984395319bit" in " ".join(made)
    assert [words[words.index("sport") + 1] for words in filters] == ["3306", "3307"]
    assert "match ip src 10.0.0.1/32" in " ".join(filters[0])
    load = commands(PortClass("eth1", "load", "fd00::1", (3306,)), 2, Shape(1e9))
    assert "protocol ipv6 prio 2 u32 match ip6 dst fd00::1/128 match ip6 dport 3306 0xffff flowid d1d0:2" in " ".join(
        load[1]
    )


def test_latency_is_a_leaf_of_a_class_that_is_as_fast_as_the_card() -> None:
    made, leaf, *_ = commands(wanted(), 1, Shape(None, "50us"))
    assert "rate 98439531860bit" in " ".join(made)
    assert "parent d1d0:1 netem delay 50us" in " ".join(leaf)


def test_classes_are_read_from_what_tc_shows_and_those_of_others_are_not() -> None:
    found = parse_classes(SHOWN)
    assert sorted(found) == [1, 10]
    assert (found[1].rate, found[1].sent_bytes, found[1].sent_packets) == ("98439Kbit", 1500, 3)


@pytest.mark.parametrize(
    ("number", "shape", "holds"),
    [
        (1, Shape(1e8), True),
        (1, Shape(1e8, "2ms"), False),
        (1, Shape(1e9), False),
        (10, Shape(1.0158e9, "2ms"), True),
        (10, Shape(1.0158e9), False),
        (10, Shape(None, "2ms"), False),
    ],
)
def test_a_class_is_compared_with_its_shape(
    shaping: Callable[[FakeTc], PortShaping], number: int, shape: Shape, holds: bool
) -> None:
    assert shaping(FakeTc()).state("eth1", number).is_in_force(shape) is holds


def test_classes_share_a_root_that_goes_with_the_last(shaping: Callable[[FakeTc], PortShaping]) -> None:
    tc = FakeTc()
    made = shaping(tc)
    assert [made.add(wanted(), Shape(1e9)), made.add(wanted(), Shape(1e8))] == [1, 2]
    assert [entry.facts["card"] for entry in made.undo.open_entries()] == ["eth1"]
    assert made.remove("eth1", 1) is None
    assert tc.roots == {"eth1": "d1d0:"}
    assert made.add(wanted(), Shape(1e9)) == 1, "the number is free again"
    for number in (1, 2):
        assert made.remove("eth1", number) is None
    assert tc.roots == {}
    assert made.undo.open_entries() == []


def test_a_card_with_somebody_else_s_discipline_is_refused_and_left_alone(
    shaping: Callable[[FakeTc], PortShaping],
) -> None:
    tc = FakeTc()
    tc.roots["eth1"] = "8001:"
    made = shaping(tc)
    with pytest.raises(HostError, match="has a queueing discipline of its own"):
        made.add(wanted(), Shape(1e9))
    assert made.undo.undo_all() == []
    assert tc.roots == {"eth1": "8001:"}


def test_what_tc_refuses_leaves_nothing(shaping: Callable[[FakeTc], PortShaping]) -> None:
    tc = FakeTc(refused="filter add")
    made = shaping(tc)
    with pytest.raises(HostError, match="refused"):
        made.add(wanted(), Shape(1e9))
    assert tc.roots == {}
    assert made.undo.open_entries() == []


def test_a_killed_study_s_root_is_removed_by_its_journal(shaping: Callable[[FakeTc], PortShaping]) -> None:
    tc = FakeTc()
    made = shaping(tc)
    made.add(wanted(), Shape(1e9))
    assert UndoJournal(made.undo.path, tc).undo_all() == []
    assert tc.roots == {}
    assert not made.undo.path.exists()
