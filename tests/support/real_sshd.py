"""OpenSSH's sshd on loopback, unpacked from Debian's package, with its own users, keys and home directory.

It runs in a mount namespace of its own, where /etc/passwd has the user `sshd` and a home directory of the test's for
root, and /run is empty: nothing of the host is changed.
"""

from __future__ import annotations

import asyncio
import os
import pwd
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from mydyno.errors import HostError
from mydyno.hosts.local import LocalHost
from mydyno.hosts.network.ports import free_port
from mydyno.hosts.paths import HostPaths
from mydyno.hosts.remote.ssh_connection import Login
from mydyno.packages.debian import DebianPackages, UnpackedPackages
from tests.support.patience import Patience
from tests.support.ssh_server import children, prepare

CONFIG = """\
Port {port}
ListenAddress {listen}
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/authorized_keys
PidFile none
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
StrictModes no
Subsystem sftp internal-sftp
"""


@dataclass(frozen=True)
class Sshd:
    """A running sshd."""

    folder: Path
    port: int
    pid: int
    listen: str = "127.0.0.1"

    @property
    def home(self) -> Path:
        """Home folder of the user who logs in."""
        return self.folder / "remote-home"

    @property
    def address(self) -> str:
        return f"root@{self.listen}:{self.port}"

    @property
    def login(self) -> Login:
        return Login(config_files=(self.folder / "user-home" / ".ssh" / "config",), timeout_s=15)

    def sessions(self) -> list[int]:
        """The pids of sshd's processes for the connections."""
        return children(self.pid)


def sshd_packages(paths: HostPaths) -> UnpackedPackages | str:
    """The package, or why there is none."""
    if os.geteuid() != 0:
        return "sshd needs root to be started with users of its own"
    try:
        return asyncio.run(DebianPackages(paths.cache, LocalHost("tests", None)).get(["openssh-server"]))
    except HostError as error:
        return f"the package openssh-server is not available: {error.message}"


@contextmanager
def real_sshd(
    folder: Path,
    packages: UnpackedPackages,
    net: str = "",
    listen: str = "127.0.0.1",
    environment: Mapping[str, str] | None = None,
) -> Iterator[Sshd | str]:
    """Start it, in the network namespace `net` (a path) if given; a reason where the host does not allow it.

    `environment`: of every session.
    """
    prepare(folder)
    entering = ["nsenter", f"--net={net}", "--"] if net else []
    port = free_port()
    config = CONFIG.format(port=port, folder=folder, listen=listen)
    if environment:
        config += "SetEnv " + " ".join(f'{name}="{value}"' for name, value in environment.items()) + "\n"
    (folder / "sshd_config").write_text(config)
    users = [one for one in Path("/etc/passwd").read_text().splitlines() if not one.startswith(("root:", "sshd:"))]
    shell = pwd.getpwuid(0).pw_shell
    users = [f"root:x:0:0:root:{folder}/remote-home:{shell}", "sshd:x:65533:65534::/run/sshd:/bin/false", *users]
    (folder / "passwd").write_text("\n".join(users) + "\n")
    program = packages.find("usr/sbin/sshd")
    command = shlex.join([str(program), "-D", "-e", "-f", str(folder / "sshd_config")])
    libraries = packages.environment["LD_LIBRARY_PATH"]
    script = (
        f"mount --bind {folder}/passwd /etc/passwd && mount -t tmpfs tmpfs /run && mkdir -m 755 /run/sshd && "
        f"LD_LIBRARY_PATH={shlex.quote(libraries)} exec {command}"
    )
    log = (folder / "sshd.log").open("w")
    process = subprocess.Popen(
        [*entering, "setpriv", "--pdeathsig", "KILL", "--",
         "unshare", "--mount", "--propagation", "private", "sh", "-c", script],
        stdin=subprocess.DEVNULL, stdout=log, stderr=log,
    )  # fmt: skip
    try:
        if not _answers(entering, listen, port, process):
            log.flush()
            yield f"sshd does not start here: {(folder / 'sshd.log').read_text().strip()[-300:]}"
            return
        key = (folder / "host_key.pub").read_text()
        (folder / "user-home" / ".ssh" / "known_hosts").write_text(f"[{listen}]:{port} {key}")
        yield Sshd(folder, port, process.pid, listen)
    finally:
        for pid in children(process.pid):
            os.kill(pid, 9)
        process.kill()
        process.wait()
        log.close()


def _answers(entering: list[str], listen: str, port: int, process: subprocess.Popen[bytes]) -> bool:
    read = "import socket, sys; print(socket.create_connection((sys.argv[1], int(sys.argv[2])), 5).recv(4))"
    command = [*entering, sys.executable, "-c", read, listen, str(port)]
    patience = Patience(20)
    while process.poll() is None and not patience.expired:
        if "SSH-" in subprocess.run(command, capture_output=True, text=True, check=False).stdout:
            return True
        time.sleep(0.05)
    return False
