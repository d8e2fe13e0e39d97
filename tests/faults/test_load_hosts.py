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
from mydyno.store.slices import SLICES_FILE, read_slices
from mydyno.store.study_folder import StudyFolder
from tests.support.interleaved import interleaved_text
from tests.support.not_run import note_not_run
from tests.support.real import experiment_text, wait_until
from tests.support.real_fleet import BETWEEN, Fleet, real_fleet
from tests.support.real_sshd import Sshd

ARMS = 'control = "one"\none = { environment = { MARK = "one" } }\n'
STEP = '[[steps]]\nworkload = "oltp_point_select"\nconnections = 4\nwarmup = "1s"\nmeasure = "3s"\n'
ESTABLISHED = "01"


@pytest.fixture
def fleet(real_paths: HostPaths, tmp_path: Path) -> Iterator[Fleet]:
    with real_fleet(real_paths, tmp_path) as made:
        if isinstance(made, str):
            note_not_run(f"a load from another host: {made}")
            pytest.skip(made)
        yield made


def addresses_of_clients(pid: int) -> set[str]:
    """Whom a process's network namespace has established connections with, at the address of the link."""
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
    files = [path for pid in blocks for path in Path(tempfile.gettempdir()).glob(f"mydyno-{pid}/dynoload.password")]
    return {path.read_bytes() for path in files if path.stat().st_mode & 0o077 == 0}


def shown_in_process_lists(secrets: set[bytes]) -> list[str]:
    """Processes of the whole machine, so of all hosts, with one of these in their arguments or environment."""
    found = []
    for name in ("cmdline", "environ"):
        for path in Path("/proc").glob(f"[0-9]*/{name}"):
            with suppress(OSError):
                found += [str(path) for secret in secrets if secret in path.read_bytes()]
    return found


def files_with(secrets: set[bytes], folder: Path) -> list[Path]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return [path for path in files if any(secret in path.read_bytes() for secret in secrets)]


def test_the_load_comes_from_the_client_and_a_killed_agent_costs_its_block(fleet: Fleet) -> None:
    program, (server, client) = fleet.program, fleet.hosts
    groups = program.folder / "fleet.toml"
    groups.write_text(
        f'[[group]]\nname = "pair"\nserver = "{server.address}"\nclients = ["{client.address}"]\n'
        f'address = "{BETWEEN[0]}"\n'
    )
    done = program.run("hosts", "prepare", "--hosts", str(groups), timeout_s=400)
    assert done.returncode == 0, done.stderr
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
        secret = passwords(fleet.blocks(server))
        assert len(secret) == 1, "the load's password, in a file that only the server's user may read"
        assert shown_in_process_lists(secret) == []
        os.kill(agents(fleet, client)[0], signal.SIGKILL)
        assert wait_until(lambda: bool(fleet.events("block_lost")), 60), program.output()
        (lost,) = fleet.events("block_lost")
        assert str(client.listen) in str(lost["why"]), lost
        assert wait_until(lambda: not fleet.left_on(server) and not fleet.left_on(client), 90)
        assert controller.wait(60) == 1, program.output()
    with program.started("resume", fleet.study().name) as controller:
        assert controller.wait(300) == 0, program.output()
    assert [path for host in fleet.hosts for path in files_with(secret, host.home / ".cache/mydyno/fleet")] == []
    assert files_with(secret, program.folder) == []
    folder = fleet.study()
    for run in folder.runs():
        assert run.valid, run.reasons
        (record,) = run.steps
        (load,) = record.driver.clients
        assert load.name == client.listen
        assert load.cpu_user_s + load.cpu_system_s > 0
        assert record.driver.cpu_user_s == load.cpu_user_s
        assert load.busy_pct is not None
    assert fleet.left_on(server) == [] and fleet.left_on(client) == []

    path = program.write(interleaved_text("turns", ARMS, [("oltp_point_select", 4)], blocks=1, cycles=2, slice_s=1.0))
    done = program.run("run", path, "--hosts", str(groups), "--studies", str(program.folder / "turns"), timeout_s=200)
    assert done.returncode == 0, done.stderr
    (path,) = (program.folder / "turns").iterdir()
    slices = read_slices(StudyFolder.open(path).block_path(1) / SLICES_FILE)
    assert [one.failed for one in slices] == [""] * 4
    for one in slices:
        assert one.queries > 0 and one.driver_cpu_s and one.server_cpu_s, "CPU time of both hosts, in every slice"
        assert one.disagreements == ()
    assert fleet.left_on(server) == [] and fleet.left_on(client) == []
