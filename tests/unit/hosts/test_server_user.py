"""The ids that servers run as: free ones, of one process alone, and the shared account where there are none."""

from __future__ import annotations

import grp
import os
import pwd
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from mydyno.hosts.capabilities import capabilities
from mydyno.hosts.paths import HostPaths
from mydyno.hosts.server_user import LOCKS, OWN_IDS, end_processes, ids_of, own_user, server_user
from tests.support.fake_host import FakeHost

ROOT = Path(__file__).parents[3]
IDS = OWN_IDS[:5]
WHOLE_MAP = "         0          0 4294967295\n"
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root has servers run as another user")


@pytest.fixture
def host(tmp_path: Path) -> FakeHost:
    """A host with two processes, which have the first three of IDS between them."""
    made = FakeHost(tmp_path)
    (tmp_path / "run").mkdir()
    made.write("proc/7/status", f"Name:\tmysqld\nUid:\t0\t{IDS[0]}\t0\t0\nGid:\t0\t0\t0\t0\nGroups:\t4 {OWN_IDS[1]} \n")
    made.write("proc/8/status", f"Name:\tmysqld\nUid:\t1\t1\t1\t1\nGid:\t1\t1\t{OWN_IDS[2]}\t1\nGroups:\t\n")
    made.write("proc/self/uid_map", WHOLE_MAP)
    made.write("proc/self/gid_map", WHOLE_MAP)
    return made


def taken(host: FakeHost, ids: Sequence[int] = IDS) -> str | None:
    """What this process would take now."""
    return own_user.__wrapped__(host, ids)


def other_process(host: FakeHost) -> subprocess.Popen[str]:
    """Takes ids, prints them, and ends when its input does."""
    take = (
        "import sys, pathlib; from mydyno.hosts.server_user import own_user; "
        "from tests.support.fake_host import FakeHost; "
        "print(own_user(FakeHost(pathlib.Path(sys.argv[1])), tuple(map(int, sys.argv[2:]))), flush=True); input()"
    )
    argv = [sys.executable, "-c", take, str(host.folder), *map(str, IDS)]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    return subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)


def test_ids_of_no_process_are_taken_once_each_until_there_are_none(host: FakeHost) -> None:
    with other_process(host) as first, other_process(host) as second:
        assert first.stdout is not None
        assert second.stdout is not None
        found = {first.stdout.readline().strip(), second.stdout.readline().strip()}
        assert found == {str(OWN_IDS[3]), str(OWN_IDS[4])}
        assert taken(host) is None
        second.kill()
        second.wait()
        assert taken(host) in found
        first.kill()


def test_what_stays_of_the_ids_is_one_empty_file_of_root(host: FakeHost) -> None:
    assert {taken(host) for _ in range(50)} == {str(OWN_IDS[3]), str(OWN_IDS[4])}
    (left,) = (host.folder / "run").iterdir()
    assert (left.stat().st_size, left.stat().st_mode & 0o777) == (0, 0o600)


def test_a_process_keeps_the_ids_that_it_took(host: FakeHost) -> None:
    assert own_user(host, IDS) == own_user(host, IDS)


def test_ids_of_an_account_are_left_alone(host: FakeHost) -> None:
    assert taken(host, [0]) is None
    group = next(one.gr_gid for one in grp.getgrall() if one.gr_gid not in {user.pw_uid for user in pwd.getpwall()})
    assert taken(host, [group]) is None


@pytest.mark.parametrize("name", ["uid_map", "gid_map"])
def test_a_user_namespace_without_these_ids_has_none(host: FakeHost, name: str) -> None:
    host.write(f"proc/self/{name}", f"0 1000 1\n1 100000 {OWN_IDS[0] - 1}\n")
    assert taken(host) is None
    host.write(f"proc/self/{name}", f"0 1000 1\n1 100000 {OWN_IDS[4]}\n")
    assert taken(host) is not None


def test_a_link_in_the_place_of_a_lock_is_not_followed(host: FakeHost, tmp_path: Path) -> None:
    (tmp_path / LOCKS).symlink_to(tmp_path / "made")
    assert taken(host) is None
    assert not (tmp_path / "made").exists()


@as_root
def test_no_process_of_our_own_ids_outlives_a_study(host: FakeHost) -> None:
    """Not even one that left the study's session and environment."""
    number = own_user.__wrapped__()  # held by this process: no study beside it runs servers as it
    assert number is not None
    command = ["setpriv", f"--reuid={number}", f"--regid={number}", "--clear-groups", "--", "sleep", "300"]
    with subprocess.Popen(command, start_new_session=True, env={"PATH": "/usr/bin:/bin"}) as hidden:
        while str(hidden.pid) not in number_of(int(number)):
            assert hidden.poll() is None
        end_processes("nobody")
        assert hidden.poll() is None
        end_processes(number)
        assert hidden.wait() < 0


def number_of(uid: int) -> list[str]:
    """The processes of a user."""
    return subprocess.run(["pgrep", "-u", str(uid)], capture_output=True, text=True, check=False).stdout.split()


def test_ids_need_no_account_and_names_have_theirs() -> None:
    assert ids_of(str(OWN_IDS[0])) == (OWN_IDS[0], OWN_IDS[0])
    assert ids_of("root") == (0, 0)
    with pytest.raises(KeyError):
        ids_of("1234")


@as_root
def test_root_has_servers_run_as_ids_of_its_own_or_a_shared_account(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MYDYNO_SERVER_USER", raising=False)
    assert server_user(lambda: str(OWN_IDS[0])) == str(OWN_IDS[0])
    assert server_user(lambda: None) == "nobody"
    monkeypatch.setenv("MYDYNO_SERVER_USER", "nobody")
    assert server_user(lambda: str(OWN_IDS[0])) == "nobody"


def test_doctor_names_an_account_that_others_may_have(paths: HostPaths, monkeypatch: pytest.MonkeyPatch) -> None:
    def found(user: str | None) -> tuple[bool, str]:
        all_of = capabilities(replace(paths, server_user=user))
        (one,) = [one for one in all_of if one.name == "a user of its own for servers"]
        return one.possible, one.text

    monkeypatch.delenv("MYDYNO_SERVER_USER", raising=False)
    assert found(str(OWN_IDS[0]))[0]
    assert found("nobody") == (
        False,
        f"nobody: ids {OWN_IDS[0]} to {OWN_IDS[-1]} cannot be used on this host; "
        "other programs of that user can read and change the servers' data",
    )
    monkeypatch.setenv("MYDYNO_SERVER_USER", "mysql")
    assert found("mysql")[1].startswith("MYDYNO_SERVER_USER=mysql; other programs")
    assert found(None) == (False, "not root: servers run as the present user")
