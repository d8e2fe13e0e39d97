"""A study over two hosts with a real sshd each, in network namespaces; what is killed on the way leaves nothing."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from mydyno.hosts.paths import HostPaths
from mydyno.store.study_folder import StudyFolder
from tests.support.interleaved import interleaved_text, summary_of
from tests.support.not_run import note_not_run
from tests.support.real import Program, wait_until
from tests.support.real_sshd import Sshd, real_sshd, sshd_packages
from tests.support.second_host import in_namespace, make_namespace
from tests.support.ssh_server import children

ARMS = 'control = "one"\none = { environment = { MARK = "one" } }\ntwo = { environment = { MARK = "two" } }\n'
NETWORK = "198.51.100"


@dataclass
class Fleet:
    """The controller's program, and the hosts that it reaches."""

    program: Program
    hosts: tuple[Sshd, Sshd]

    @property
    def addresses(self) -> str:
        return ",".join(host.address for host in self.hosts)

    def study(self) -> StudyFolder:
        (path,) = self.program.studies.iterdir()
        return StudyFolder.open(path)

    def events(self, name: str) -> list[dict[str, object]]:
        if not self.program.studies.is_dir() or not list(self.program.studies.glob("*/study.json")):
            return []
        return [event for event in self.study().journal.read() if event["event"] == name]

    def processes(self, host: Sshd) -> dict[int, str]:
        """Pid → command line of what runs from the host's home directory."""
        found = {}
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if str(host.home) in words:
                found[int(path.parent.name)] = words[:300]
        return found

    def blocks(self, host: Sshd) -> list[int]:
        """The pids of `mydyno block`."""
        return [pid for pid, words in self.processes(host).items() if "mydyno.cli block" in words]

    def servers(self, host: Sshd) -> list[int]:
        """The pids of database servers."""
        return [pid for pid, words in self.processes(host).items() if "mariadbd" in words]

    def left_on(self, host: Sshd) -> list[str]:
        """What a study left: processes, undo journals, data directories."""
        cache = host.home / ".cache" / "mydyno"
        files = [*cache.glob("undo/*"), *cache.glob("data/runs/*")]
        return [*self.processes(host).values(), *map(str, files)]


def link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def enter(pid: int) -> str:
    return f"/proc/{pid}/ns/net"


@pytest.fixture
def fleet(real_paths: HostPaths, tmp_path: Path) -> Iterator[Fleet]:
    packages = sshd_packages(real_paths)
    if isinstance(packages, str):
        note_not_run(f"a study over hosts: {packages}")
        pytest.skip(packages)
    with ExitStack() as stack:
        controller = make_namespace()
        stack.callback(controller.communicate)
        hosts = []
        user = tmp_path / "user"
        (user / ".ssh").mkdir(parents=True)
        config = ""
        for number in (1, 2):
            near, far = f"{NETWORK}.{4 * number + 1}", f"{NETWORK}.{4 * number + 2}"
            holder = make_namespace()
            stack.callback(holder.communicate)
            pair = ["type", "veth", "peer", "name", "far", "netns", str(holder.pid)]
            in_namespace(enter(controller.pid), "ip", "link", "add", "name", f"near{number}", *pair)
            for pid, card, address in ((controller.pid, f"near{number}", near), (holder.pid, "far", far)):
                in_namespace(enter(pid), "ip", "address", "add", f"{address}/30", "dev", card)
                in_namespace(enter(pid), "ip", "link", "set", "dev", card, "up")
            host = stack.enter_context(real_sshd(tmp_path / f"host-{number}", packages, enter(holder.pid), far))
            if isinstance(host, str):
                note_not_run(f"a study over hosts: {host}")
                pytest.skip(host)
            cache = host.home / ".cache" / "mydyno"
            cache.mkdir(parents=True)
            # As `prepare --packages` would copy it.
            shutil.copytree(real_paths.cache / "debian", cache / "debian", symlinks=True, copy_function=link_or_copy)
            keys = host.folder / "user-home" / ".ssh"
            with (user / ".ssh" / "known_hosts").open("a") as known:
                known.write((keys / "known_hosts").read_text())
            config += f"Host {far}\n  IdentityFile {keys}/id_ed25519\n  IdentitiesOnly yes\n"
            hosts.append(host)
        (user / ".ssh" / "config").write_text(config)
        entering = ["nsenter", f"--net={enter(controller.pid)}", "--"]
        program = Program(tmp_path / "controller", real_paths, entering, {"HOME": str(user)})
        program.folder.mkdir()
        yield Fleet(program, (hosts[0], hosts[1]))


def until(condition: Callable[[], bool], timeout_s: float) -> None:
    assert wait_until(condition, timeout_s)


def test_what_is_killed_loses_nothing_and_leaves_nothing(fleet: Fleet) -> None:
    """In one study: a block on one host, then the controller, then the sshd of the other host; all by kill -9."""
    program, (first, second) = fleet.program, fleet.hosts
    done = program.run("hosts", "prepare", "--hosts", fleet.addresses, timeout_s=400)
    assert done.returncode == 0, done.stderr
    path = program.write(interleaved_text("fleet", ARMS, [("oltp_point_select", 4)], blocks=6, cycles=8, slice_s=1.0))
    with program.started("run", path, "--hosts", fleet.addresses) as controller:
        until(lambda: len(fleet.events("block_leased")) >= 2, 200)
        until(lambda: bool(fleet.servers(first)), 60)
        for pid in fleet.blocks(first):
            os.kill(pid, signal.SIGKILL)
        until(lambda: bool(fleet.events("block_lost")), 60)
        assert [event["group"] for event in fleet.events("block_lost")] == [first.listen]
        until(lambda: not fleet.servers(first), 10)
        until(lambda: any(event["group"] == second.listen for event in fleet.events("block_committed")), 120)
        controller.kill()
        controller.wait(30)
    until(lambda: not fleet.servers(first) and not fleet.blocks(first), 10)
    until(lambda: not fleet.left_on(second), 90)
    before = {event["block"] for event in fleet.events("block_committed")}
    assert before and len(before) < 6
    with program.started("resume", fleet.study().name) as controller:
        until(lambda: len(fleet.events("study_resumed")) == 1, 200)
        until(lambda: bool(fleet.servers(second)), 120)
        for pid in children(second.pid):
            os.kill(pid, signal.SIGKILL)
        until(lambda: len(fleet.events("block_lost")) == 2, 60)
        until(lambda: not fleet.left_on(second), 90)
        assert controller.wait(300) == 0, program.output()
    assert fleet.left_on(first) == []
    folder = fleet.study()
    committed = {event["block"]: event["group"] for event in fleet.events("block_committed")}
    assert sorted(committed) == [1, 2, 3, 4, 5, 6]
    assert len(fleet.events("block_committed")) == 6, "each exactly once"
    assert set(committed.values()) == {first.listen, second.listen}
    assert {(run.block, run.host_group) for run in folder.runs()} == set(committed.items())
    assert summary_of(folder.path)["state"] == "complete"
    failures = [(run.folder, run.failed, [step.failed for step in run.steps]) for run in folder.runs() if run.failed]
    assert failures == [], "a host that is cleaned does not touch the servers of the other one"
    assert not (first.home / ".cache/mydyno/fleet" / folder.name).exists()
