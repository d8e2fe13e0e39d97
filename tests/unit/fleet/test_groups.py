from __future__ import annotations

from pathlib import Path

import pytest

from mydyno.errors import UserError
from mydyno.fleet.groups import parse_hosts
from mydyno.model.definition.host_groups import Address, HostGroup

FLEET = """\
[[group]]
name = "rack-a"
server = "bench@a"
clients = ["bench@b", "bench@c[1-2]"]

[[group]]
server = "local"
"""


def servers(text: str) -> list[str | None]:
    return [group.server for group in parse_hosts(text)]


def test_local_is_a_group_without_an_address() -> None:
    assert parse_hosts("local") == (HostGroup(name="local", server=None, clients=()),)
    assert parse_hosts("local")[0].addresses == ()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("bench@vm1", ["bench@vm1"]),
        ("bench@vm1:2222", ["bench@vm1:2222"]),
        ("vm1", ["vm1"]),
        ("local, bench@vm1", [None, "bench@vm1"]),
        ("bench@vm[08-11]", ["bench@vm08", "bench@vm09", "bench@vm10", "bench@vm11"]),
        ("vm[1-3,7]", ["vm1", "vm2", "vm3", "vm7"]),
        ("vm[1-2],x[3,05]", ["vm1", "vm2", "x3", "x05"]),
        ("r[1-2]n[1-2]:22", ["r1n1:22", "r1n2:22", "r2n1:22", "r2n2:22"]),
        ("root@[fe80::1]:22", ["root@[fe80::1]:22"]),
    ],
)
def test_a_list_of_hosts_is_one_group_for_each(text: str, found: list[str | None]) -> None:
    assert servers(text) == found


def test_groups_have_the_names_of_their_hosts() -> None:
    assert [group.name for group in parse_hosts("bench@vm[1-2]")] == ["vm1", "vm2"]
    assert [group.name for group in parse_hosts("a@vm1:2201,a@vm1:2202")] == ["vm1-2201", "vm1-2202"]


def test_an_address_has_user_host_and_port() -> None:
    assert Address.parse("root@[fe80::1]:22") == Address("root@[fe80::1]:22", "root", "fe80::1", 22)
    assert Address.parse("vm1") == Address("vm1", None, "vm1", None)


def test_a_file_has_groups_of_a_server_and_its_clients(tmp_path: Path) -> None:
    path = tmp_path / "fleet.toml"
    path.write_text(FLEET)
    first, second = parse_hosts(str(path))
    assert first == HostGroup(name="rack-a", server="bench@a", clients=("bench@b", "bench@c1", "bench@c2"))
    assert first.addresses == ("bench@a", "bench@b", "bench@c1", "bench@c2")
    assert second == HostGroup(name="local")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "--hosts is empty"),
        ("a,,b", "an empty name between commas"),
        ("vm[]", "[] is not a range"),
        ("vm[5-3]", "[5-3] is empty: 5 is larger than 3"),
        ("vm[1-x]", "[1-x] is not a range"),
        ("vm[1-9999999999]", "at most 1000"),
        ("vm[1-100][1-100]", "at most 1000"),
        ("vm[1-3],bench@vm2", "the host bench@vm2 is named twice"),
        ("local,local", "the host local is named twice"),
        ("vm1,root@vm1:22", "the host root@vm1:22 is named twice"),
        ("bench@", "not an address of a host"),
        ("a b", "not an address of a host"),
        ("-oProxyCommand=x", "not an address of a host"),
        ("a@b@c", "not an address of a host"),
        ("bench@vm1:0", "port 0 does not exist"),
        ("bench@vm1:70000", "port 70000 does not exist"),
        ("nowhere/fleet.toml", "nowhere/fleet.toml: no such file"),
    ],
)
def test_a_mistake_is_reported_with_what_is_allowed(text: str, words: str) -> None:
    with pytest.raises(UserError) as caught:
        parse_hosts(text)
    assert words in str(caught.value)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[[groups]]\nserver='a'\n", "groups: unknown key; allowed: group; did you mean 'group'?"),
        ("", "group: is missing"),
        ("group = 3\n", "group: is missing"),
        ("[[group]]\nserver='a'\nclient=['b']\n", ":3: group[0].client: unknown key"),
        ("[[group]]\nserver='a'\nclient=['b']\n", "did you mean 'clients'?"),
        ("[[group]]\nname='a'\n", "group[0].server: is missing"),
        ("[[group]]\nserver='a[1-2]'\n", "a group has one server"),
        ("[[group]]\nserver='a'\nclients=['b[2-1]']\n", ":3: group[0].clients"),
        ("[[group]]\nserver='a'\nclients='b'\n", "a list"),
        ("[[group]]\nname='a b'\nserver='a'\n", "not a possible name"),
        ("[[group]]\nserver='a'\n[[group]]\nname='x'\nserver='b'\nclients=['u@a']\n", "u@a is named twice"),
        ("[[group]]\nserver='a'\nclients=['a']\n", "named twice (groups a and a)"),
        ("[[group\n", "not valid TOML"),
    ],
)
def test_a_mistake_in_a_file_is_reported_with_its_line(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "fleet.toml"
    path.write_text(text)
    with pytest.raises(UserError) as caught:
        parse_hosts(str(path))
    assert words in str(caught.value)
    assert "fleet.toml" in caught.value.message


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "db1", "224.0.0.1"])
def test_servers_listen_on_one_address_of_their_own(tmp_path: Path, address: str) -> None:
    (tmp_path / "fleet.toml").write_text(f'[[group]]\nserver = "a"\nclients = ["b"]\naddress = "{address}"\n')
    with pytest.raises(UserError, match=r"group\[0\]\.address"):
        parse_hosts(str(tmp_path / "fleet.toml"))


def test_a_load_from_clients_needs_an_address() -> None:
    assert HostGroup(name="a").load_hosts is None
    group = HostGroup(name="a", server="x", clients=("bench@b:22", "bench@b:2222", "c"))
    with pytest.raises(UserError, match="the group a has clients, but no address"):
        _ = group.load_hosts
    load = group.model_copy(update={"address": "10.0.0.5"}).load_hosts
    assert load is not None
    assert load.names == ("b-22", "b-2222", "c")


def test_a_group_of_a_file_names_its_disk_and_data_is_for_the_others(tmp_path: Path) -> None:
    path = tmp_path / "fleet.toml"
    path.write_text('[[group]]\nserver = "a"\ndata = "/mnt/nvme/mydyno"\n[[group]]\nserver = "b"\n')
    groups = parse_hosts(str(path))
    assert [group.data for group in groups] == ["/mnt/nvme/mydyno", None]
    assert [group.data for group in parse_hosts(str(path), Path("/data"))] == ["/mnt/nvme/mydyno", "/data"]
    with pytest.raises(UserError, match="only an absolute path"):
        parse_hosts(str(path), Path("data"))
    path.write_text('[[group]]\nserver = "a"\ndata = "nvme"\n')
    with pytest.raises(UserError, match="data"):
        parse_hosts(str(path))
