"""A controller and two hosts with a real sshd each, in network namespaces, with a link between the two hosts."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from mydyno.hosts.paths import HostPaths
from mydyno.store.study_folder import StudyFolder
from tests.support.not_run import note_not_run
from tests.support.processes import processes, shown
from tests.support.real import Program
from tests.support.real_sshd import Sshd, real_sshd, sshd_packages
from tests.support.second_host import in_namespace, make_namespace

NETWORK = "198.51.100"
RETRY_S = 3.0
"""Between two attempts of the controller to reach a lost group again, and before the first one."""
BETWEEN = ("198.51.100.101", "198.51.100.102")
"""The addresses of the two hosts on the link between them."""
CONTROLLER = f"""
from mydyno.cli import main
from mydyno.fleet import controller
controller.FIRST_RETRY_S = controller.RETRY_S = {RETRY_S}
main()
"""
INSTALLED = ".cache/mydyno/hosts"
"""What `mydyno hosts prepare` copies, below the home directory."""
CARD = "between"
"""The name of the interface on either host."""


@dataclass
class Fleet:
    """The controller's program, and the hosts that it reaches."""

    program: Program
    hosts: tuple[Sshd, Sshd]
    nets: tuple[str, str]
    """Paths of the network namespaces of the hosts."""

    @property
    def addresses(self) -> str:
        return ",".join(host.address for host in self.hosts)

    def prepare(self) -> None:
        """Put mydyno on both hosts: by `mydyno hosts prepare` on the first one of a test session, then by links."""
        folder = self.program.folder.parent.parent
        if folder.name.startswith("popen-"):  # one process of several that run the tests
            folder = folder.parent
        kept = folder / "prepared-host"
        first, _ = self.hosts
        with (folder / "prepared-host.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not kept.is_dir():
                done = self.program.run("hosts", "prepare", "--hosts", first.address)
                assert done.returncode == 0, done.stderr
                shutil.copytree(first.home / INSTALLED, kept, symlinks=True, copy_function=link_or_copy)
        for host in self.hosts:
            if not (host.home / INSTALLED).is_dir():
                shutil.copytree(kept, host.home / INSTALLED, symlinks=True, copy_function=link_or_copy)

    def study(self) -> StudyFolder:
        (path,) = self.program.studies.iterdir()
        return StudyFolder.open(path)

    def events(self, name: str) -> list[dict[str, object]]:
        if not self.program.studies.is_dir() or not list(self.program.studies.glob("*/study.json")):
            return []
        return [event for event in self.study().journal.read() if event["event"] == name]

    def processes(self, host: Sshd) -> dict[int, str]:
        """Pid → command line of what runs from the host's home directory, or was started there by mydyno."""
        mine, home = f"MYDYNO_ENGINE={host.home}/".encode(), str(host.home).encode()
        return {
            pid: shown(command)[:300]
            for pid, command, environment in processes()
            if command and (mine in environment or home in command)
        }

    def blocks(self, host: Sshd) -> list[int]:
        """The pids of `mydyno block`."""
        return [pid for pid, words in self.processes(host).items() if "mydyno.cli block" in words]

    def servers(self, host: Sshd) -> list[int]:
        """The pids of database servers."""
        return [pid for pid, words in self.processes(host).items() if "mariadbd" in words]

    def groups_file(self) -> Path:
        """A fleet.toml with the server on the first host and its load on the second."""
        server, client = self.hosts
        path = self.program.folder / "fleet.toml"
        path.write_text(
            f'[[group]]\nname = "pair"\nserver = "{server.address}"\nclients = ["{client.address}"]\n'
            f'address = "{BETWEEN[0]}"\n'
        )
        return path

    def card_root(self, number: int) -> str:
        """The queueing discipline of a host's card between the hosts, as tc shows it."""
        return in_namespace(self.nets[number], "tc", "qdisc", "show", "dev", CARD).strip()

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


@contextmanager
def real_fleet(
    real_paths: HostPaths, tmp_path: Path, environment: Mapping[str, str] | None = None
) -> Iterator[Fleet | str]:
    """A reason where this host cannot have one. `environment`: of the sessions on the first host."""
    packages = sshd_packages(real_paths)
    if isinstance(packages, str):
        yield packages
        return
    with ExitStack() as stack:
        controller = make_namespace()
        stack.callback(controller.communicate)
        hosts: list[Sshd] = []
        holders: list[int] = []
        user = tmp_path / "user"
        (user / ".ssh").mkdir(parents=True)
        config = ""
        for number in (1, 2):
            near, far = f"{NETWORK}.{4 * number + 1}", f"{NETWORK}.{4 * number + 2}"
            holder = make_namespace()
            stack.callback(holder.communicate)
            holders.append(holder.pid)
            pair = ["type", "veth", "peer", "name", "far", "netns", str(holder.pid)]
            in_namespace(enter(controller.pid), "ip", "link", "add", "name", f"near{number}", *pair)
            for pid, card, address in ((controller.pid, f"near{number}", near), (holder.pid, "far", far)):
                in_namespace(enter(pid), "ip", "address", "add", f"{address}/30", "dev", card)
                in_namespace(enter(pid), "ip", "link", "set", "dev", card, "up")
            host = stack.enter_context(
                real_sshd(
                    tmp_path / f"host-{number}", packages, enter(holder.pid), far, environment if number == 1 else None
                )
            )
            if isinstance(host, str):
                yield host
                return
            cache = host.home / ".cache" / "mydyno"
            cache.mkdir(parents=True)
            # As `prepare --packages` would copy it.
            shutil.copytree(real_paths.cache / "debian", cache / "debian", symlinks=True, copy_function=link_or_copy)
            keys = host.folder / "user-home" / ".ssh"
            with (user / ".ssh" / "known_hosts").open("a") as known:
                known.write((keys / "known_hosts").read_text())
            config += f"Host {far}\n  IdentityFile {keys}/id_ed25519\n  IdentitiesOnly yes\n"
            hosts.append(host)
        pair = ["type", "veth", "peer", "name", CARD, "netns", str(holders[1])]
        in_namespace(enter(holders[0]), "ip", "link", "add", "name", CARD, *pair)
        for pid, address in zip(holders, BETWEEN, strict=True):
            in_namespace(enter(pid), "ip", "address", "add", f"{address}/30", "dev", CARD)
            in_namespace(enter(pid), "ip", "link", "set", "dev", CARD, "up")
        (user / ".ssh" / "config").write_text(config)
        entering = ["nsenter", f"--net={enter(controller.pid)}", "--"]
        program = Program(tmp_path / "controller", real_paths, entering, {"HOME": str(user)}, ("-c", CONTROLLER))
        program.folder.mkdir()
        yield Fleet(program, (hosts[0], hosts[1]), (enter(holders[0]), enter(holders[1])))


@contextmanager
def fleet_or_skip(real_paths: HostPaths, folder: Path, what: str) -> Iterator[Fleet]:
    """A fleet for a fixture; a host that cannot have one does not run its tests, of `what`."""
    with real_fleet(real_paths, folder) as made:
        if isinstance(made, str):
            note_not_run(f"{what}: {made}")
            pytest.skip(made)
        yield made
