"""Links and namespaces without root: the commands that would be run, the addresses, and a trial's meaning."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mydyno.errors import HostError
from mydyno.hosts.network import link, namespace
from mydyno.hosts.network.link import LinkEnd, Shape, disciplines, free_addresses, make_link, shape_anew, shape_link
from mydyno.hosts.network.namespace import entering
from mydyno.hosts.undo import UndoJournal
from tests.support.fake_host import FakeHost, of_network

SERVER = LinkEnd(Path("/run/netns/mydyno-s-server"), link.SERVER_INTERFACE, "198.18.0.1")
LOAD = LinkEnd(Path("/run/netns/mydyno-s-load"), link.LOAD_INTERFACE, "198.18.0.2")


@pytest.fixture
def host(tmp_path: Path) -> FakeHost:
    """tc tells of one tbf."""
    tbf = '[{"kind":"tbf","options":{"rate":123049415}}]'
    return FakeHost(tmp_path, answer=lambda argv: tbf if "show" in argv else "")


def test_a_gigabit_is_expected_to_deliver_what_ethernet_does() -> None:
    expected = Shape(1e9).payload_bits_per_s
    assert expected is not None
    assert round(expected / 1e6) == 941
    assert Shape().payload_bits_per_s is None


def test_the_pair_is_made_between_namespaces_and_never_in_the_hosts_own(host: FakeHost) -> None:
    make_link(SERVER, LOAD, host)
    freed = [line.partition(" -- ")[0] for line in host.ran if "tcp_tw_reuse" in line]
    assert freed == [" ".join(entering(end.namespace)[:2]) for end in (SERVER, LOAD)], "in each, and nowhere else"
    assert host.ran[0] == (
        "nsenter --net=/run/netns/mydyno-s-server -- ip link add name dyno-server type veth "
        "peer name dyno-load netns mydyno-s-load"
    )
    assert all(line.startswith("nsenter --net=/run/netns/mydyno-s-") for line in host.ran)
    assert "nsenter --net=/run/netns/mydyno-s-load -- ip address add 198.18.0.2/30 dev dyno-load" in host.ran


def test_both_ends_are_shaped(host: FakeHost) -> None:
    shape_link((SERVER, LOAD), Shape(1e9), host)
    words = "root handle 10: tbf rate 984395319bit burst 131072b latency 10ms"
    assert host.ran == [
        f"nsenter --net=/run/netns/mydyno-s-server -- tc qdisc add dev dyno-server {words}",
        f"nsenter --net=/run/netns/mydyno-s-load -- tc qdisc add dev dyno-load {words}",
    ]


def test_a_link_is_shaped_anew_whatever_shaped_it_before(host: FakeHost) -> None:
    shape_anew((SERVER,), Shape(1e9), host)
    words = "root handle 10: tbf rate 984395319bit burst 131072b latency 10ms"
    assert host.ran == [
        "nsenter --net=/run/netns/mydyno-s-server -- sh -ec tc qdisc del dev dyno-server root 2>&- || :\n"
        f"tc qdisc add dev dyno-server {words}"
    ]


TBF = {"kind": "tbf", "options": {"rate": 123049415, "burst": 131054}}
NETEM = {"kind": "netem", "options": {"limit": 1000, "delay": {"delay": 4.9e-05, "jitter": 0.0}}}  # tc cuts 50


@pytest.mark.parametrize(
    ("shape", "reported", "holds"),
    [
        (Shape(1e9), [TBF], True),
        (Shape(1e9, "50us"), [NETEM, TBF], True),
        (Shape(), [{"kind": "noqueue", "options": {}}], True),
        (Shape(), [], True),
        (Shape(1e9, "0us"), [{"kind": "netem", "options": {"limit": 1000}}, TBF], True),
        (Shape(1e8), [TBF], False),
        (Shape(1e9, "52us"), [NETEM, TBF], False),
        (Shape(1e9, "5ms"), [NETEM, TBF], False),
        (Shape(1e9), [NETEM, TBF], False),
        (Shape(1e9, "50us"), [TBF], False),
        (Shape(), [{"kind": "fq", "options": {}}], False),
    ],
)
def test_a_shape_is_in_force_if_tc_reports_it_and_nothing_else(
    shape: Shape, reported: list[dict[str, Any]], holds: bool
) -> None:
    assert shape.is_in_force(reported) is holds


def test_latency_comes_first_and_the_bandwidth_hangs_below_it() -> None:
    lines = [" ".join(words) for words in Shape(1e9, "50us").commands("dyno-load")]
    assert lines[0] == "tc qdisc add dev dyno-load root handle 1: netem delay 50us limit 100000"
    assert "parent 1:1 handle 10: tbf" in lines[1]
    assert Shape().commands("dyno-load") == []


def test_a_fast_link_gets_a_burst_of_a_millisecond() -> None:
    assert "burst 1250000b" in " ".join(Shape(10e9).commands("x")[0])


def test_disciplines_are_what_tc_tells(host: FakeHost) -> None:
    assert disciplines(SERVER, host) == [{"kind": "tbf", "options": {"rate": 123049415}}]


def test_free_addresses_stand_clear_of_everything_taken() -> None:
    assert free_addresses(["192.0.2.2/24", "127.0.0.1/8"]) == ("198.18.0.1", "198.18.0.2")
    assert free_addresses(["198.18.0.9/28"]) == ("198.18.0.17", "198.18.0.18")


def test_every_link_of_this_process_has_a_network_of_its_own() -> None:
    host = of_network("198.18.0.4/30")
    taken = [link.take_addresses(host)[0] for _ in range(3)]
    try:
        assert taken == ["198.18.0.1", "198.18.0.9", "198.18.0.13"]
        link.give_addresses_back("198.18.0.9")
        link.give_addresses_back("198.18.0.9")
        assert link.take_addresses(host) == ("198.18.0.9", "198.18.0.10")
    finally:
        for address in taken:
            link.give_addresses_back(address)


def test_a_namespace_has_the_number_of_its_server_and_tells_its_study() -> None:
    assert namespace.namespace_path("network-1", "load").name == "mydyno-network-1-load"
    path = namespace.namespace_path("network-1", "server", 3)
    assert path.name == "mydyno-network-1-server-3"
    assert namespace.study_of(path) == "network-1"
    assert namespace.study_of(namespace.namespace_path("a-server-2", "load", 12)) == "a-server-2"
    assert len(f"{link.SERVER_INTERFACE}-99") < 16, "IFNAMSIZ"


def test_a_network_that_is_taken_whole_is_said_with_what_takes_it() -> None:
    with pytest.raises(HostError, match=r"198\.18\.0\.0/15 is in use on this host \(198\.18\.0\.0/15\)") as caught:
        free_addresses(["10.0.0.1/8", "198.18.0.0/15"])
    assert "remove the address or route" in str(caught.value)


def test_taken_networks_are_addresses_and_routes() -> None:
    answers = {
        "address": [{"addr_info": [{"local": "192.0.2.2", "prefixlen": 24}]}, {"addr_info": []}],
        "route": [{"dst": "default"}, {"dst": "198.18.4.0/22"}],
    }
    host = FakeHost(answer=lambda argv: json.dumps(answers[argv[3]]))
    assert link.taken_networks(host) == ["192.0.2.2/24", "198.18.4.0/22"]


def test_means_are_read_from_the_trial() -> None:
    means = namespace.read_means("namespaces\nveth\ntbf\nhtb\n", "Error: Specified qdisc kind is unknown.")
    assert means.obstacle(bandwidth=True, latency=False) is None
    assert "CONFIG_NET_SCH_NETEM" in (means.obstacle(bandwidth=True, latency=True) or "")


@pytest.mark.parametrize(
    ("output", "errors", "words"),
    [
        (
            "",
            "unshare: unshare failed: Operation not permitted",
            "cannot create network namespaces: unshare: unshare failed",
        ),
        ("namespaces\ntbf\n", "", "CONFIG_VETH"),
        ("namespaces\nveth\n", "", "CONFIG_NET_SCH_TBF"),
    ],
)
def test_each_missing_means_has_its_word(output: str, errors: str, words: str) -> None:
    obstacle = namespace.read_means(output, errors).obstacle(bandwidth=True, latency=False)
    assert words in (obstacle or "")


def test_without_root_or_programs_it_is_said_what_is_needed() -> None:
    tried = namespace.network_capabilities
    assert tried(FakeHost(is_root=False)).missing == "changing the network needs root; run mydyno as root"
    assert tried(FakeHost(absent=["ip", "tc"])).missing == "ip, tc not on PATH: needs iproute2"


def test_only_namespaces_of_mydynos_own_are_ever_removed(host: FakeHost) -> None:
    theirs = host.write("run/netns/production", "")
    assert "no namespace of mydyno's" in (namespace.remove_namespace({"path": str(theirs)}, host) or "")
    assert "no namespace of mydyno's" in (namespace.remove_namespace({"path": "/etc/mydyno-passwd"}, host) or "")
    assert theirs.exists()
    assert namespace.remove_namespace({"path": str(host.netns / "mydyno-gone-server")}, host) is None


def test_a_namespace_that_never_came_to_be_is_undone_like_any_other(host: FakeHost, tmp_path: Path) -> None:
    """Killed between the file and the mount."""
    path = namespace.namespace_path("network-1", "server", root=host)
    journal = UndoJournal.begin(tmp_path / "undo", "network-1", tmp_path, host)
    journal.will_change("namespace", path=str(path), interfaces=[])
    host.write("run/netns/mydyno-network-1-server", "")
    assert namespace.stale_namespaces(host) == [path]
    assert namespace.study_of(path) == "network-1"
    assert journal.undo_all() == []
    assert not path.exists()
    assert not host.netns.exists()


def test_a_name_that_is_taken_is_said(host: FakeHost) -> None:
    path = host.write("run/netns/mydyno-network-1-server", "")
    with pytest.raises(HostError, match="mydyno-network-1-server exists already"):
        namespace.make_namespace(path, host)
    assert host.ran == [], "a name that is taken changes no mount"


def test_what_fails_inside_a_namespace_fails_outside() -> None:
    assert namespace.inside(None, lambda: 7) == 7
    with pytest.raises(OSError, match="nowhere"):
        namespace.inside(Path("/nowhere"), lambda: 7)
