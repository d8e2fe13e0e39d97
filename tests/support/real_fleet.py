"""A controller and two hosts with a real sshd each, in network namespaces, with a link between the two hosts."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from mydyno.hosts.paths import HostPaths
from mydyno.store.study_folder import StudyFolder
from tests.support.real import Program
from tests.support.real_sshd import Sshd, real_sshd, sshd_packages
from tests.support.second_host import in_namespace, make_namespace

NETWORK = "198.51.100"
BETWEEN = ("198.51.100.101", "198.51.100.102")
"""The addresses of the two hosts on the link between them."""


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


@contextmanager
def real_fleet(real_paths: HostPaths, tmp_path: Path) -> Iterator[Fleet | str]:
    """A reason where this host cannot have one."""
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
            host = stack.enter_context(real_sshd(tmp_path / f"host-{number}", packages, enter(holder.pid), far))
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
        pair = ["type", "veth", "peer", "name", "between", "netns", str(holders[1])]
        in_namespace(enter(holders[0]), "ip", "link", "add", "name", "between", *pair)
        for pid, address in zip(holders, BETWEEN, strict=True):
            in_namespace(enter(pid), "ip", "address", "add", f"{address}/30", "dev", "between")
            in_namespace(enter(pid), "ip", "link", "set", "dev", "between", "up")
        (user / ".ssh" / "config").write_text(config)
        entering = ["nsenter", f"--net={enter(controller.pid)}", "--"]
        program = Program(tmp_path / "controller", real_paths, entering, {"HOME": str(user)})
        program.folder.mkdir()
        yield Fleet(program, (hosts[0], hosts[1]))
