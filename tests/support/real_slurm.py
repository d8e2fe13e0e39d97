"""A Slurm of three nodes on this host, unpacked from Debian's packages: its daemons and munged, all in one folder.

The nodes are several slurmd (slurmd(8), -N). Nothing of the host is used: own key, sockets, ports and state.
"""

from __future__ import annotations

import asyncio
import getpass
import os
import secrets
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from mydyno.errors import HostError
from mydyno.hosts.local import LocalHost
from mydyno.hosts.network.ports import free_port
from mydyno.packages.debian import DebianPackages, UnpackedPackages
from tests.support.patience import wait_until
from tests.support.processes import processes, shown
from tests.support.real import Program
from tests.support.ssh_server import children

PACKAGES = ("munge", "slurm-client", "slurmctld", "slurmd")
CLIENTS = ("sbatch", "squeue", "sacct", "scancel", "sinfo")
NODES = ("node1", "node2", "node3")
PLUGINS = "usr/lib/*/slurm-wlm"
CONFIG = """\
ClusterName=mydyno
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge
PluginDir={plugins}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SlurmdTimeout=5
ReturnToService=2
MailProg=/bin/true
PartitionName=main Nodes=ALL Default=YES State=UP
"""


@dataclass
class Slurm:
    """The cluster. `program` submits to it."""

    folder: Path
    program: Program
    packages: UnpackedPackages
    daemons: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        """Of daemons, and of what submits jobs: with the clients in its PATH."""
        path = f"{self.folder}:{os.environ['PATH']}"
        return {"SLURM_CONF": str(self.folder / "slurm.conf"), "PATH": path, "LD_LIBRARY_PATH": self.libraries}

    @property
    def libraries(self) -> str:
        return f"{self.packages.environment['LD_LIBRARY_PATH']}:{self.packages.find(PLUGINS)}"

    def write(self) -> None:
        """The configuration, the key, and the clients, which need the libraries that what they start does not."""
        self.folder.mkdir()
        plugins, user = self.packages.find(PLUGINS), getpass.getuser()
        text = CONFIG.format(folder=self.folder, port=free_port(), plugins=plugins, user=user)
        for node in NODES:
            text += f"NodeName={node} NodeHostname=localhost NodeAddr=127.0.0.1 Port={free_port()} RealMemory=100\n"
        (self.folder / "slurm.conf").write_text(text)
        key = self.folder / "key"
        key.write_bytes(secrets.token_bytes(1024))
        key.chmod(0o600)
        for name in CLIENTS:
            client = self.folder / name
            real = self.packages.find(f"usr/bin/{name}")
            client.write_text(f'#!/bin/sh\nLD_LIBRARY_PATH={self.libraries} exec {real} "$@"\n')
            client.chmod(0o755)

    def start(self, name: str, *command: str) -> None:
        """A daemon, which ends with this process."""
        program = str(self.packages.find(f"usr/sbin/{command[0]}"))
        with (self.folder / f"{name}.out").open("wb") as output:
            self.daemons[name] = subprocess.Popen(
                [*self.program.prefix, "setpriv", "--pdeathsig", "KILL", "--", program, *command[1:]],
                env=self.environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
            )  # fmt: skip

    def run(self, *command: str) -> str:
        """What a client prints."""
        done = subprocess.run(
            [*self.program.prefix, *command], env=self.environment, capture_output=True, text=True, check=False
        )
        return done.stdout

    def is_up(self) -> bool:
        """Whether all nodes wait for jobs."""
        return self.run("sinfo", "--noheader", "--Node", "--format=%T").split() == ["idle"] * len(NODES)

    def blocks(self) -> dict[int, tuple[int, str]]:
        """Block → (pid, node) of each `mydyno block` whose servers run."""
        found = {}
        for pid, command, environment in processes():
            words = command.split(b"\0")
            if b"block" in words and b"--group" in words and str(self.program.studies).encode() in command:
                servers = any("mariadbd" in shown(Path(f"/proc/{one}/cmdline").read_bytes()) for one in children(pid))
                if servers and self._conf in environment:
                    found[int(words[words.index(b"--block") + 1])] = pid, words[words.index(b"--group") + 1].decode()
        return found

    def kill_node(self, node: str, block: int) -> None:
        """By kill -9: slurmd, the block that it executes, and what is between them."""
        parent = int(Path(f"/proc/{block}/stat").read_text().rpartition(")")[2].split()[1])
        self.daemons[node].kill()
        for pid in (parent, block):
            os.kill(pid, 9)

    def stop(self) -> list[str]:
        """End everything; what jobs had left."""
        self.run("scancel", f"--user={getpass.getuser()}")
        wait_until(lambda: not self.run("squeue", "--noheader").strip(), 60)
        for daemon in reversed(self.daemons.values()):
            daemon.terminate()
            daemon.wait()
        left = [pid for pid, _, environment in processes() if self._conf in environment]
        wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in left), 10)
        return [shown(command) for _, command, environment in processes() if self._conf in environment]

    @property
    def _conf(self) -> bytes:
        return f"SLURM_CONF={self.folder}/slurm.conf\0".encode()


@contextmanager
def real_slurm(program: Program) -> Iterator[Slurm | str]:
    """A reason where this host cannot have one. `program` gets what it needs to submit jobs."""
    try:
        packages = asyncio.run(DebianPackages(program.paths.cache, LocalHost("tests", None)).get(PACKAGES))
    except HostError as error:
        yield f"Slurm's packages are not available: {error.message}"
        return
    slurm = Slurm(program.folder / "slurm", program, packages)
    slurm.write()
    # Where there is no other address than 127.0.0.1, Slurm finds none to listen on (getaddrinfo(3), AI_ADDRCONFIG).
    address = ["127.0.0.2/32", "dev", "lo"] if program.prefix else []
    if address:
        slurm.run("ip", "address", "add", *address)
    folder = slurm.folder
    slurm.start(
        "munged", "munged", "--foreground", "--force", f"--key-file={folder}/key", f"--socket={folder}/munge",
        f"--pid-file={folder}/munged.pid", f"--log-file={folder}/munged.log", f"--seed-file={folder}/seed",
    )  # fmt: skip
    try:
        if not wait_until((folder / "munge").exists, 20):
            yield f"munged does not start: {(folder / 'munged.out').read_text()[-300:]}"
            return
        slurm.start("slurmctld", "slurmctld-wlm", "-D")
        for node in NODES:
            slurm.start(node, "slurmd-wlm", "-D", "-N", node, "-d", str(packages.find("usr/sbin/slurmstepd-wlm")))
        if not wait_until(slurm.is_up, 60, 0.2):
            yield f"Slurm does not start: {(folder / 'slurmctld.log').read_text()[-500:]}"
            return
        own = {name: value for name, value in slurm.environment.items() if name != "LD_LIBRARY_PATH"}
        program.environment = {**program.environment, **own}
        yield slurm
    finally:
        left = slurm.stop()
        if address:
            slurm.run("ip", "address", "delete", *address)
        assert left == []
