# mypy: disable-error-code="arg-type"
"""A server on one host and its load on another, each with a real sshd in a network namespace of its own."""

from __future__ import annotations

import os
import signal
import socket
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from mydyno.hosts.paths import HostPaths
from mydyno.store.samples import SLICES_FILE, read_slices
from mydyno.store.study_folder import StudyFolder
from tests.support.interleaved import interleaved_text
from tests.support.patience import ended, wait_until
from tests.support.real import experiment_text
from tests.support.real_fleet import BETWEEN, Fleet, fleet_or_skip
from tests.support.real_sshd import Sshd

pytestmark = pytest.mark.exhaustive

ARMS = 'control = "one"\none = { network = "1gbit" }\n'
STEP = '[[steps]]\nworkload = "oltp_point_select"\nconnections = 4\nwarmup = "1s"\nmeasure = "3s"\n'
ESTABLISHED = "01"


@pytest.fixture
def fleet(real_paths: HostPaths, parts: None, tmp_path: Path) -> Iterator[Fleet]:
    with fleet_or_skip(real_paths, tmp_path, "a load from another host") as made:
        yield made


def addresses_of_clients(pid: int) -> set[str]:
    """Addresses with which a process's network namespace has established connections, at the address of the link."""
    found = set()
    for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]:
        _, local, remote, state, *_ = line.split()
        here, there = (socket.inet_ntoa(bytes.fromhex(one.partition(":")[0])[::-1]) for one in (local, remote))
        if state == ESTABLISHED and here == BETWEEN[0]:
            found.add(there)
    return found


def agents(fleet: Fleet, host: Sshd) -> list[int]:
    return [pid for pid, words in fleet.processes(host).items() if words.split()[0].endswith("/dynoload")]


def passwords(blocks: list[int]) -> set[bytes]:
    """All that the servers of these blocks know, from the files that only their user may read."""
    files = [
        path for pid in blocks for path in Path(tempfile.gettempdir()).joinpath(f"mydyno-{pid}").rglob("*.password")
    ]
    assert all(path.stat().st_mode & 0o077 == 0 for path in files)
    return {path.read_bytes() for path in files}


def shown_in_process_lists(secrets: set[bytes]) -> list[str]:
    """Processes of the whole machine, so of all hosts, with one of these in their arguments or environment."""
    found = []
    for name in ("cmdline", "environ"):
        for path in Path("/proc").glob(f"[0-9]*/{name}"):
            with suppress(OSError):
                found += [str(path) for secret in secrets if secret in path.read_bytes()]
    return found


def files_with(secrets: set[bytes], *folders: Path) -> list[Path]:
    """Every file below these, but for programs that were copied there."""
    found = []
    for folder in folders:
        for path in folder.rglob("*"):
            copied = any(part in path.parts for part in ("debian", "hosts"))
            with suppress(OSError):
                if not copied and path.is_file() and any(secret in path.read_bytes() for secret in secrets):
                    found.append(path)
    return found


def left_in_tmp() -> list[Path]:
    return list(Path(tempfile.gettempdir()).glob("mydyno-*"))


def client_networks(fleet: Fleet, host: Sshd) -> list[int]:
    return [pid for pid, words in fleet.processes(host).items() if "mydyno.cli client-network" in words]


def is_shaped(fleet: Fleet) -> bool:
    return all("htb d1d0:" in fleet.card_root(number) for number in (0, 1))


def is_leased_again(fleet: Fleet, losses: int) -> bool:
    """The group was lost so often, and executes the block again. A busy host may lose it once more by itself."""
    lost = len(fleet.events("block_lost"))
    return lost >= losses and len(fleet.events("block_leased")) == lost + 1


def is_as_before(fleet: Fleet) -> bool:
    return not any(fleet.left_on(host) for host in fleet.hosts) and not any(
        "htb" in fleet.card_root(number) for number in (0, 1)
    )


def assert_turns(fleet: Fleet) -> None:
    """The interleaved design, over the same hosts."""
    program, groups = fleet.program, fleet.groups_file()
    path = program.write(interleaved_text("turns", ARMS, [("oltp_point_select", 4)], blocks=1, cycles=2, slice_s=1.0))
    done = program.run("run", path, "--hosts", str(groups), "--studies", str(program.folder / "turns"))
    assert done.returncode == 0, done.stderr
    (path,) = (program.folder / "turns").iterdir()
    slices = read_slices(StudyFolder.open(path).block_path(1) / SLICES_FILE)
    assert [one.failed for one in slices] == [""] * 4
    for one in slices:
        assert one.queries > 0 and one.driver_cpu_s and one.server_cpu_s, "CPU time of both hosts, in every slice"
        assert one.disagreements == ()
    assert is_as_before(fleet)


def test_the_load_comes_from_the_client_and_what_is_killed_there_costs_a_block_and_leaves_nothing(fleet: Fleet) -> None:
    program, (server, client) = fleet.program, fleet.hosts
    groups = fleet.groups_file()
    fleet.prepare()
    path = program.write(experiment_text("apart", ARMS, STEP, blocks=1) + 'kind = "blocks"\n')
    with program.started("run", path, "--hosts", str(groups)) as controller:
        assert wait_until(lambda: bool(agents(fleet, client)), 200), program.output()
        seen: set[str] = set()

        def is_loaded() -> bool:
            for pid in fleet.servers(server):
                try:
                    seen.update(addresses_of_clients(pid))
                except OSError:
                    continue
            return BETWEEN[1] in seen

        assert wait_until(is_loaded, 60), program.output()
        secrets = passwords(fleet.blocks(server))
        assert len(secrets) == 2, "mydyno's own and the load's"
        assert shown_in_process_lists(secrets) == []
        assert is_shaped(fleet)
        (pid,) = client_networks(fleet, client)
        os.kill(pid, signal.SIGKILL)
        assert wait_until(lambda: bool(fleet.events("block_lost")), 60), program.output()
        lost = [str(event["why"]) for event in fleet.events("block_lost")]
        assert any(str(client.listen) in why for why in lost), lost
        assert wait_until(lambda: is_leased_again(fleet, 1), 90), "the client's journal was undone; " + program.output()
        assert wait_until(lambda: bool(fleet.servers(server) and agents(fleet, client)), 200), program.output()
        secrets |= passwords(fleet.blocks(server))
        for pid in client.sessions():
            os.kill(pid, signal.SIGKILL)
        assert wait_until(lambda: is_leased_again(fleet, 2), 90), program.output()
        assert wait_until(lambda: bool(fleet.servers(server) and agents(fleet, client)), 200), program.output()
        secrets |= passwords(fleet.blocks(server))
        assert ended(controller, "the study") == 0, program.output()
    assert "no host group is left: waiting up to 15 min for pair" in program.output()
    assert len(secrets) >= 6 and len(secrets) % 2 == 0, "other passwords each time"
    assert shown_in_process_lists(secrets) == []
    assert files_with(secrets, server.folder, client.folder, program.folder, *left_in_tmp()) == []
    folder = fleet.study()
    for run in folder.runs():
        assert run.valid, run.reasons
        (record,) = run.steps
        (load,) = record.driver.clients
        assert load.name == client.listen
        assert load.cpu_user_s + load.cpu_system_s > 0
        assert record.driver.cpu_user_s == load.cpu_user_s
        assert load.busy_pct is not None
    assert is_as_before(fleet)
    assert_turns(fleet)
