"""dynoprobe on the host of an external server: put there if it is not, and which process is the server's."""

from __future__ import annotations

import hashlib
import shlex
from pathlib import Path

from mydyno.errors import HostError
from mydyno.hosts.remote.ssh import SshHost

FOLDER = ".cache/mydyno/hosts"
"""Below the home directory; `mydyno hosts prepare --remove` removes it."""
SERVER_NAMES = ("mysqld", "mariadbd")


async def put_probe(host: SshHost, program: Path) -> str:
    """The absolute path of this dynoprobe on the host; copied once. Raises HostError if it does not run there."""
    digest = hashlib.sha256(program.read_bytes()).hexdigest()[:16]
    there = f"{await host.home()}/{FOLDER}/telemetry-{digest}/dynoprobe"
    if (await host.run(["test", "-x", there], timeout_s=60)).exit_code:
        await host.put(program, there)
    done = await host.run([there, "--version"], timeout_s=60)
    if done.exit_code:
        raise HostError(
            f"{host.name}: dynoprobe does not run: {done.output.strip()[-300:]}",
            "its architecture and glibc must fit this host's; without server.ssh the server is sampled by SQL alone",
        )
    return there


async def server_pid(host: SshHost, pid_file: str, data_folder: str) -> int:
    """The server's process: by its pid file, or, where that cannot be read, the only mysqld or mariadbd of the host.

    Raises HostError where neither names one.
    """
    path = pid_file if pid_file.startswith("/") else f"{data_folder.rstrip('/')}/{pid_file}"
    names = "|".join(SERVER_NAMES)
    script = (
        f"pid=$(cat {shlex.quote(path)} 2>/dev/null); case $(cat /proc/$pid/comm 2>/dev/null) in {names}) echo $pid; "
        "exit;; esac; for file in /proc/[0-9]*/comm; do case $(cat $file 2>/dev/null) in "
        f"{names}) file=${{file#/proc/}}; echo ${{file%/comm}};; esac; done"
    )
    done = await host.run(["sh", "-c", script], timeout_s=60)
    found = [word for word in done.output.split() if word.isdigit()]
    if len(found) == 1:
        return int(found[0])
    what = "has no mysqld or mariadbd" if not found else f"runs {len(found)} database servers"
    raise HostError(
        f"{host.name} {what}, and the server's pid file {path} cannot be read there",
        "is server.ssh the host of server.dsn, and may this user read the pid file?",
    )
