"""A network card's speed: what ethtool says of it, what stands in the way, and that it is given back. By a fake."""

from __future__ import annotations

from pathlib import Path

import pytest

from mydyno.errors import HostError
from mydyno.hosts.network.link import Shape
from mydyno.hosts.network.network_card import card_state, give_back, obstacle, read_state, set_speed, undo_facts
from mydyno.hosts.root import HostRoot
from mydyno.hosts.undo import UndoJournal
from mydyno.model.definition.experiment import ServerSpec
from mydyno.treatments import network_external
from mydyno.treatments.network import NetworkTreatment
from mydyno.treatments.tls import TlsTreatment
from tests.support.fake_ethtool import FakeEthtool
from tests.support.fake_host import FakeHost

# ethtool 6.1 of a virtio card, and of one end of a veth pair.
VIRTIO = """Settings for eth0:
\tSupported ports: [  ]
\tSupported link modes:   Not reported
\tSupports auto-negotiation: No
\tAdvertised link modes:  Not reported
\tSpeed: Unknown!
\tDuplex: Unknown! (255)
\tAuto-negotiation: off
\tLink detected: yes
"""
VETH = VIRTIO.replace("Unknown! (255)", "Full").replace("Unknown!", "10000Mb/s")
DSN = "mysql://bench@127.0.0.1:3306/sbtest"


@pytest.fixture
def card(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeEthtool:
    """The loopback interface, of which a fake ethtool says what it would of a card of 10 Gb/s."""
    made = FakeEthtool.at(tmp_path / "ethtool")
    for name, value in made.environment.items():
        monkeypatch.setenv(name, value)
    return made


class AsRoot(HostRoot):
    """This host, where mydyno is root or not."""

    def __init__(self, is_root: bool = True) -> None:
        self._is_root = is_root

    @property
    def is_root(self) -> bool:
        return self._is_root


def test_what_ethtool_says_is_read(card: FakeEthtool) -> None:
    state = card_state("lo")
    assert (state.speed_mbit_per_s, state.duplex, state.negotiates, state.link) == (10000, "full", True, True)
    assert state.speeds_mbit_per_s == (10, 100, 1000, 10000)
    assert state.advertised == ("10baseT/Full", "100baseT/Full", "1000baseT/Full", "10000baseT/Full")
    virtio = read_state(VIRTIO)
    assert (virtio.speed_mbit_per_s, virtio.duplex, virtio.supported, virtio.link) == (None, "", (), True)


def test_the_speed_of_a_virtual_interface_is_a_word() -> None:
    assert read_state(VETH).speed_mbit_per_s == 10000
    assert "ethtool reports no link modes of lo" in (obstacle("lo", 1000, FakeHost(answer=lambda _: VETH)) or "")


def test_obstacles_of_a_card_are_told_by_name(card: FakeEthtool, monkeypatch: pytest.MonkeyPatch) -> None:
    assert obstacle("lo", 1000, AsRoot()) is None
    assert obstacle("lo", 2500) == "lo has no mode of 2500 Mb/s; it has 10, 100, 1000, 10000"
    assert (obstacle("eth9", 1000) or "").startswith("this host has no interface eth9; it has ")
    assert "needs root" in (obstacle("lo", 1000, AsRoot(False)) or "")
    monkeypatch.setenv("PATH", "/nowhere")
    assert "package ethtool" in (obstacle("lo", 1000) or "")


def test_the_speed_is_set_as_the_study_did_it_and_given_back(card: FakeEthtool) -> None:
    before = card_state("lo")
    assert set_speed("lo", 1000).speed_mbit_per_s == 1000
    assert card.state == (1000, "off")
    assert give_back(undo_facts("lo", before)) is None
    assert card.state == (10000, "on")
    advertised = "10baseT/Full on 100baseT/Full on 1000baseT/Full on 10000baseT/Full on"
    assert card.changes == [
        "-s lo speed 1000 duplex full autoneg off",
        f"-s lo autoneg on advertise {advertised}",
    ]


def test_a_driver_that_must_negotiate_offers_the_one_speed(card: FakeEthtool) -> None:
    (card.folder / "refuses").write_text("off")
    assert set_speed("lo", 1000).speed_mbit_per_s == 1000
    assert card.changes[-1] == "-s lo speed 1000 duplex full autoneg on"


def test_a_card_with_a_fixed_speed_gets_that_back(card: FakeEthtool) -> None:
    (card.folder / "negotiates").write_text("off")
    before = card_state("lo")
    set_speed("lo", 100)
    assert give_back(undo_facts("lo", before)) is None
    assert card.changes[-1] == "-s lo speed 10000 duplex full autoneg off"


def test_a_killed_study_s_card_is_given_back_from_the_journal(card: FakeEthtool, tmp_path: Path) -> None:
    journal = UndoJournal.begin(tmp_path / "undo", "study", tmp_path)
    journal.will_change("network_card", **undo_facts("lo", card_state("lo")))
    set_speed("lo", 1000)
    assert UndoJournal(journal.path).undo_all() == []
    assert card.state == (10000, "on")


def test_a_card_that_will_not_be_given_back_is_told(card: FakeEthtool) -> None:
    before = card_state("lo")
    set_speed("lo", 1000)
    (card.folder / "refuses").write_text("on")
    left = give_back(undo_facts("lo", before))
    assert left is not None
    assert left.startswith("the speed of lo (was 10000 Mb/s): ethtool -s lo autoneg on")
    assert "Invalid argument" in left


def test_a_card_refused_twice_is_an_error_with_ethtool_s_words(card: FakeEthtool) -> None:
    (card.folder / "refuses").write_text("off")
    (card.folder / "refuses").chmod(0o644)
    (card.folder / "bin" / "ethtool").unlink()
    (card.folder / "bin" / "ethtool").write_text(
        "#!/bin/sh\necho 'netlink error: Operation not supported' >&2\nexit 75\n"
    )
    (card.folder / "bin" / "ethtool").chmod(0o755)
    with pytest.raises(HostError, match="Operation not supported"):
        set_speed("lo", 1000)


def test_an_external_server_s_link_needs_a_card_and_the_right_one(card: FakeEthtool) -> None:
    asked = NetworkTreatment("1gbit")
    asked.root = AsRoot()
    without = asked.obstacle(ServerSpec(dsn=DSN)) or ""
    assert "needs the server's host" in without
    assert "--set server.card=lo" in without
    assert asked.obstacle(ServerSpec(dsn=DSN, card="lo")) is None
    assert asked.obstacle(ServerSpec(dsn=DSN, card="eth9")) == "server.card is eth9, but to 127.0.0.1 leads lo"
    assert "latency needs the server's host" in (
        NetworkTreatment({"latency": "1ms"}).obstacle(ServerSpec(dsn=DSN)) or ""
    )
    assert NetworkTreatment({}).obstacle(ServerSpec(dsn=DSN)) is None, "the link as it is"
    by_socket = ServerSpec(dsn="mysql://bench@localhost/sbtest?socket=/run/s.sock")
    for treatment in (NetworkTreatment({}), TlsTreatment("1.3")):
        assert "names a Unix socket" in (treatment.obstacle(by_socket) or "")
    assert "verify needs the server's host" in (
        TlsTreatment({"version": "1.3", "verify": "ca"}).obstacle(ServerSpec(dsn=DSN)) or ""
    )


def test_what_is_changed_on_the_host_is_said_for_each_kind_of_server() -> None:
    asked = NetworkTreatment("1gbit")
    assert "two network namespaces" in asked.host_changes(ServerSpec(name="mariadb-10.11"))[0]
    assert asked.host_changes(ServerSpec(dsn=DSN)) == []
    (words,) = asked.host_changes(ServerSpec(dsn=DSN, card="eth1"))
    assert words.startswith("eth1 set to 1000 Mb/s by ethtool")
    assert network_external.host_changes(Shape(), "eth1") == []
