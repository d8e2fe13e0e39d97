"""mydyno on another host: pushed over SFTP into ~/.cache/mydyno/hosts, checked there, removed again.

```
~/.cache/mydyno/hosts/
  KEY/               mydyno of one version: src/, engine/, and the start script `mydyno`
  packages-KEY/      Python packages
  python-KEY/        an interpreter, only where the host has none of the controller's version
  pushed.txt         folders of servers and tools that were pushed for experiments
```

A folder is unpacked under another name, tried, and then renamed: it is whole or absent. A host needs sshd, tar, gzip
and util-linux, but no internet access and no compiler.

Hosts are compared by facts, abilities, and the offset of each one's clock. The offset is that of the answer with the
shortest round trip, as in NTP's clock filter (RFC 5905, section 10): the host's time against the middle of the round
trip here; wrong by half the round trip at most. One round trip includes starting date(1) on the host, about 1 ms.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import shlex
import tarfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from mydyno.errors import HostError
from mydyno.fleet.parts import (
    Part,
    Version,
    archives_folder,
    machine,
    packages_part,
    program_part,
    python_part,
    python_tag,
)
from mydyno.hosts.capabilities import capabilities
from mydyno.hosts.facts import host_facts
from mydyno.hosts.paths import HostPaths
from mydyno.hosts.remote.ssh import SshHost
from mydyno.hosts.undo import left_studies
from mydyno.model.definition.quantities import format_bytes
from mydyno.servers.sources.archive import RECORD_FILE

Say = Callable[[str], None]
CACHE = ".cache/mydyno"
"""On a host, below the home directory."""
FOLDER = f"{CACHE}/hosts"
PUSHED = f"{FOLDER}/pushed.txt"
START = "mydyno"
SPARE_BYTES = 256 << 20
"""Least free disk space after an installation."""
_PROBE = f"""
echo "machine $(uname -m)"
echo "glibc $(getconf GNU_LIBC_VERSION 2>/dev/null | cut -d' ' -f2)"
echo "free_kb $(df -Pk "$HOME" | awk 'NR == 2 {{ print $4 }}')"
versions="$HOME/.pyenv/versions"
for python in python{python_tag()} python3 "$versions"/{python_tag()}.*/bin/python3 /opt/python*/bin/python3; do
  path=$("$python" -c 'import sys, ssl, ctypes, zlib, sqlite3
right = "%d.%d" % sys.version_info[:2] == "{python_tag()}" and sys.maxsize > 2**32
print(sys.executable if right else "")' 2>/dev/null)
  [ -n "$path" ] && {{ echo "python $path"; break; }}
done
cd "$HOME/{FOLDER}" 2>/dev/null && for name in *; do [ -d "$name" ] && echo "folder $name"; done
exit 0
"""


@dataclass(frozen=True)
class Installation:
    """What this controller installs; the same for every host."""

    program: Part
    packages: Part

    @property
    def key(self) -> str:
        """Names the version: its Python files, engine and packages."""
        return self.program.name


@cache
def installation_of(engine: Path) -> Installation:
    """What this mydyno installs, with the engine of a folder. Raises HostError. Takes about 0.1 s."""
    packages = packages_part()
    return Installation(program_part(engine, packages), packages)


@dataclass(frozen=True)
class HostState:
    """What a host has."""

    machine: str
    glibc: Version
    """(0, 0) if it has another C library."""
    free_bytes: int
    python: str
    """Path of a Python of the controller's version; empty if the host has none."""
    folders: frozenset[str]
    """Names of the folders below FOLDER."""

    @property
    def versions(self) -> list[str]:
        """Keys of the installed versions of mydyno."""
        return sorted(name for name in self.folders if "-" not in name)


async def state_of(host: SshHost) -> HostState:
    """Read it by one command. Raises HostError."""
    done = await host.run(["sh", "-c", _PROBE], timeout_s=60)
    lines = [line.partition(" ") for line in done.output.splitlines()]
    found = {name: value for name, _, value in lines if name != "folder"}
    major, _, minor = found.get("glibc", "").partition(".")
    if done.exit_code or "machine" not in found:
        raise HostError(f"{host.name}: cannot be examined: {done.output.strip()[-300:]}", "is its shell a POSIX shell?")
    return HostState(
        machine=found["machine"],
        glibc=(int(major), int(minor.partition(".")[0])) if major.isdigit() else (0, 0),
        free_bytes=int(found.get("free_kb") or 0) << 10,
        python=found.get("python", ""),
        folders=frozenset(value for name, _, value in lines if name == "folder"),
    )


async def ensure_installed(host: SshHost) -> str:
    """The absolute path of the start script of this mydyno on a host. Raises HostError: run `mydyno hosts prepare`."""
    wanted = installation_of(HostPaths.resolve().engine)
    done = await host.run(["sh", "-c", f'cd "$HOME/{FOLDER}" 2>/dev/null && pwd && ls'], timeout_s=60)
    folder, *names = done.output.splitlines() if done.exit_code == 0 else [""]
    if wanted.key in names:
        return f"{folder}/{wanted.key}/{START}"
    other = any("-" not in name and "." not in name for name in names)
    what = f"another version of mydyno than the one here ({wanted.key})" if other else "no mydyno"
    raise HostError(f"{host.name} has {what}", f"mydyno hosts prepare --hosts {host.name}")


async def prepare(
    host: SshHost, wanted: Installation, cache_folder: Path, say: Say, own_part: Callable[[], Part | None] = python_part
) -> bool:
    """Install; returns False if everything was there already. Raises HostError: what this host cannot, or has not.

    `own_part`: the Python that a host without one gets.
    """
    state = await state_of(host)
    if wanted.key in state.folders:
        return False
    parts = [wanted.packages]
    own_python: Part | None = None
    if not state.python:
        own_python = own_part()
        if own_python is None:
            raise HostError(
                f"{host.name}: no Python {python_tag()} on PATH, and that of this host is part of its system",
                f"install python{python_tag()} there, or start mydyno here with a Python outside of /usr",
            )
        parts.append(own_python)
    _check(host, state, [*parts, wanted.program])
    await _shell(
        host, f'mkdir -p {FOLDER} && find {FOLDER} -maxdepth 1 -name ".*.new*" -mmin +1440 -exec rm -rf {{}} +'
    )
    for part in parts:
        if part.name not in state.folders:
            await _push(host, part, cache_folder, say, "")
    python = f"{own_python.name}/bin/python{python_tag()}" if own_python is not None else state.python
    await _push(host, wanted.program, cache_folder, say, start_script(wanted.packages.name, python))
    return True


def _check(host: SshHost, state: HostState, parts: Sequence[Part]) -> None:
    """Raise HostError for what would fail later."""
    if state.machine != machine():
        raise HostError(
            f"{host.name} is {state.machine}, this host is {machine()}", "the engine must be built on such a machine"
        )
    for part in parts:
        if part.glibc > state.glibc:
            have = ".".join(map(str, state.glibc)) if any(state.glibc) else "another C library"
            need = ".".join(map(str, part.glibc))
            raise HostError(
                f"{host.name} has glibc {have}; {part.title} of this host needs {need}",
                "run mydyno from a host with the oldest distribution of all",
            )
    # The archive is on the disk beside what is unpacked from it.
    needed = SPARE_BYTES + sum(part.size_bytes for part in parts if part.name not in state.folders) * 3 // 2
    if state.free_bytes < needed:
        free = format_bytes(state.free_bytes)
        raise HostError(f"{host.name}: {free} free in the home directory, {format_bytes(needed)} needed")


async def _push(host: SshHost, part: Part, cache_folder: Path, say: Say, script: str) -> None:
    """Unpack aside, try, rename. With a start script, the folder counts only if mydyno starts from it."""
    archive = await asyncio.to_thread(part.archive, archives_folder(cache_folder))
    say(f"copying {part.title}: {format_bytes(archive.stat().st_size)}")
    aside = f"{FOLDER}/.{part.name}.{secrets.token_hex(4)}.new"
    try:
        await host.put(archive, f"{aside}.tar.gz")
        await _shell(host, f"mkdir {aside} && tar -xzf {aside}.tar.gz -C {aside} && rm {aside}.tar.gz", timeout_s=1800)
        if script:
            start = f"{aside}/{START}"
            done = await host.run(["sh", "-c", f"cat >{start} && chmod 755 {start} && {start} --version"], stdin=script)
            if done.exit_code or not done.output.startswith("mydyno "):
                raise HostError(
                    f"{host.name}: mydyno does not start there: {done.output.strip()[-800:]}",
                    "is a library of Python missing on that host?",
                )
        # Another controller may have put the same folder there meanwhile.
        await _shell(host, f"mv -T {aside} {FOLDER}/{part.name} 2>/dev/null || test -d {FOLDER}/{part.name}")
    finally:
        if host.connected:
            await host.run(["sh", "-c", f"rm -rf {aside} {aside}.tar.gz"])


def start_script(packages: str, python: str) -> str:
    """The start script's text. `python` is an absolute path, or one below FOLDER for an interpreter of our own."""
    own = "" if python.startswith("/") else python.partition("/")[0]
    program = f'"$hosts/{python}"' if own else shlex.quote(python)
    home = f'export PYTHONHOME="$hosts/{own}" LD_LIBRARY_PATH="$hosts/{own}/lib"\n' if own else ""
    return f"""#!/bin/sh
# Made by `mydyno hosts prepare`; `mydyno hosts prepare --remove` removes it. Do not edit.
here=$(dirname "$(readlink -f "$0")")
hosts=$(dirname "$here")
export MYDYNO_CACHE="${{MYDYNO_CACHE:-$HOME/{CACHE}}}" MYDYNO_ENGINE="$here/engine"
export PYTHONPATH="$here/src:$hosts/{packages}" PYTHONSAFEPATH=1 PYTHONNOUSERSITE=1
export PYTHONPYCACHEPREFIX="$MYDYNO_CACHE/pycache"
{home}exec {program} -m mydyno.cli "$@"
"""


async def remove(host: SshHost, say: Say, environment: Mapping[str, str] | None = None) -> bool:
    """Undo what studies left, then remove all that was pushed; False if there was nothing. Raises HostError.

    `environment`: of mydyno there.
    """
    state = await state_of(host)
    if not state.folders:
        return False
    mine = f'grep -lsz "^MYDYNO_ENGINE=$(readlink -f {FOLDER})/" /proc/[0-9]*/environ'
    busy = await host.run(["sh", "-c", f'[ -z "$({mine})" ]'])
    if busy.exit_code:
        raise HostError(f"{host.name}: mydyno is running on it", "wait for the study to end, or interrupt it")
    for version in state.versions[:1]:
        clean = ["sh", "-c", f"{FOLDER}/{version}/{START} clean --templates"]
        done = await host.run(clean, timeout_s=600, environment=environment)
        if done.exit_code:
            raise HostError(f"{host.name}: mydyno clean failed: {done.output.strip()[-500:]}")
    pushed = [line for line in (await host.read_text(PUSHED) or "").splitlines() if line and ".." not in line]
    say(f"removing {len(state.folders) + len(pushed)} folders")
    folders = [shlex.quote(f"{CACHE}/{name}") for name in (*pushed, "hosts", "pycache")]
    await _shell(host, f"rm -rf {' '.join(folders)}", timeout_s=600)
    # What became empty; what others made stays.
    await _shell(host, f"find {CACHE} -depth -type d -empty -delete 2>/dev/null; rmdir .cache 2>/dev/null; true")
    rest = await host.run(["sh", "-c", f"du -sh {CACHE} 2>/dev/null"])
    if rest.output.strip():
        say(f"not removed, because not pushed: {rest.output.split()[0]} in ~/{CACHE}")
    return True


class FolderArchives:
    """Archives of folders of the cache, each packed once for all hosts; removed at the end. A context manager."""

    def __init__(self, cache_folder: Path) -> None:
        self.cache_folder = cache_folder
        self._packing: dict[Path, asyncio.Task[Path]] = {}

    async def __aenter__(self) -> FolderArchives:
        return self

    async def __aexit__(self, *_: object) -> None:
        for result in await asyncio.gather(*self._packing.values(), return_exceptions=True):
            if isinstance(result, Path):
                result.unlink(missing_ok=True)

    async def of(self, folder: Path) -> Path:
        """The folder's archive."""
        if folder not in self._packing:
            self._packing[folder] = asyncio.create_task(asyncio.to_thread(_pack, folder, self.cache_folder))
        return await asyncio.shield(self._packing[folder])


async def push_folders(host: SshHost, folders: Sequence[Path], archives: FolderArchives, say: Say) -> list[str]:
    """Push folders of the cache, with the manifests beside them, to the same place of the host's cache.

    Returns the names of those that were not there. Raises HostError.
    """
    pushed = []
    for folder in folders:
        name = str(folder.relative_to(archives.cache_folder))
        there = f"{CACHE}/{name}"
        manifest = folder.with_name(f"{folder.name}.json")
        if await _has(host, there, manifest, folder / RECORD_FILE):
            continue
        archive = await archives.of(folder)
        say(f"copying {name}: {format_bytes(archive.stat().st_size)}")
        # Hidden, as those that the host's own mydyno makes: no pattern of packages finds it.
        aside = f"{there.rpartition('/')[0]}/.{folder.name}.{secrets.token_hex(4)}.new"
        quoted, target = shlex.quote(aside), shlex.quote(there)
        try:
            await host.put(archive, f"{aside}.tar.gz")
            line = f'printf "%s\\n" {shlex.quote(name)} {shlex.quote(name + ".json")} >>{PUSHED}'
            unpack = f"mkdir {quoted} && tar -xzf {quoted}.tar.gz -C {quoted}"
            await _shell(host, f"{unpack} && {line} && rm -rf {target} && mv -T {quoted} {target}", timeout_s=1800)
            if manifest.is_file():
                await host.put(manifest, f"{there}.json")
        finally:
            if host.connected:
                await host.run(["rm", "-rf", aside, f"{aside}.tar.gz"])
        pushed.append(name)
    return pushed


async def _has(host: SshHost, there: str, manifest: Path, record: Path) -> bool:
    """Whether the host has this folder; `record`: of a server that was added, by a name that another may have there."""
    for file, path in ((manifest, f"{there}.json"), (record, f"{there}/{record.name}")):
        if file.is_file() and await host.read_text(path) != file.read_text():
            return False
    return (await host.run(["test", "-d", there])).exit_code == 0


def _pack(folder: Path, cache_folder: Path) -> Path:
    target = archives_folder(cache_folder)
    target.mkdir(parents=True, exist_ok=True)
    path = target / f".{folder.name}.{secrets.token_hex(4)}.tar.gz"
    with tarfile.open(path, "w:gz", compresslevel=1) as archive:
        archive.add(folder, ".")
    return path


async def _shell(host: SshHost, script: str, timeout_s: float = 120.0) -> None:
    """Run a script in the home directory. Raises HostError with its output."""
    done = await host.run(["sh", "-c", f'cd "$HOME" && {{ {script}; }}'], timeout_s=timeout_s)
    if done.exit_code:
        words = done.output.strip()[-300:] or f"exit code {done.exit_code}"
        raise HostError(f"{host.name}: {words}", "is there space, and permission to write below the home directory?")


OWN_TO_EACH = ("hostname", "load_average_before")
"""Facts that always differ and explain nothing."""
CLOCK_READINGS = 7
ALIKE_MEMORY = 0.02
"""Memory that differs by less is the firmware's."""


@dataclass(frozen=True)
class ClockOffset:
    """The host's clock minus this host's."""

    offset_ms: float
    error_ms: float
    """At most; half of the round trip."""


@dataclass(frozen=True)
class CheckedHost:
    """What doctor reports on a host, or why it could not be examined."""

    address: str
    group: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    abilities: tuple[Mapping[str, Any], ...] = ()
    clock: ClockOffset | None = None
    left_studies: tuple[str, ...] = ()
    """Folders of studies that lost this host."""
    error: str = ""
    hint: str = ""

    @property
    def missing(self) -> list[Mapping[str, Any]]:
        """Abilities that the host lacks."""
        return [ability for ability in self.abilities if not ability["possible"]]


async def check_host(host: SshHost, group: str) -> CheckedHost:
    """Run doctor on a host. Raises HostError."""
    start = await ensure_installed(host)
    done = await host.run([start, "doctor", "--json"], timeout_s=300)
    try:
        report = json.loads(done.output)
    except ValueError:
        raise HostError(f"{host.name}: mydyno doctor failed: {done.output.strip()[-300:]}") from None
    return CheckedHost(
        host.name,
        group,
        flat(report["facts"]),
        tuple(report["abilities"]),
        await clock_offset(host),
        tuple(report.get("left_studies", ())),
    )


def check_local(group: str, paths: HostPaths) -> CheckedHost:
    """The same of the host that this program runs on."""
    abilities = tuple(ability.__dict__ for ability in capabilities(paths))
    left = tuple(str(study) for study in left_studies(paths.cache))
    return CheckedHost("local", group, flat(host_facts(paths.data, paths.root)), abilities, ClockOffset(0.0, 0.0), left)


async def clock_offset(host: SshHost) -> ClockOffset:
    """The offset of the host's clock, from the reading with the shortest round trip. Raises HostError."""
    process = await host.start(["sh", "-c", "while read -r _; do date +%s.%N; done"])
    lines = process.lines()
    found = []
    for _ in range(CLOCK_READINGS):
        began, sent = time.monotonic(), time.time()
        await process.write("\n")
        there = float(await anext(lines))
        round_trip_s = time.monotonic() - began
        found.append(ClockOffset((there - sent - round_trip_s / 2) * 1000, round_trip_s * 500))
    process.close_stdin()
    await process.wait(30)
    return min(found, key=lambda reading: reading.error_ms)


def flat(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Facts with those of the file system beside the others, without its free space."""
    found = {name: value for name, value in facts.items() if not isinstance(value, Mapping)}
    filesystem = facts.get("filesystem") or {}
    return found | {f"filesystem_{name}": filesystem[name] for name in ("type", "device") if name in filesystem}


def differences(hosts: Sequence[CheckedHost]) -> dict[str, dict[str, str]]:
    """Fact → address → value as text, for facts that differ between hosts; "-" where a host does not report it."""
    checked = [host for host in hosts if host.facts]
    names = dict.fromkeys(name for host in checked for name in host.facts if name not in OWN_TO_EACH)
    return {
        name: {host.address: shown(name, host.facts.get(name)) for host in checked}
        for name in names
        if _differ(name, [host.facts.get(name) for host in checked])
    }


def shared(hosts: Sequence[CheckedHost]) -> dict[str, str]:
    """Facts that all hosts have in common."""
    checked = [host for host in hosts if host.facts]
    unlike = differences(hosts)
    facts = checked[0].facts if checked else {}
    return {name: shown(name, value) for name, value in facts.items() if name not in unlike and name not in OWN_TO_EACH}


def shown(name: str, value: object) -> str:
    """A fact for people."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if name.endswith("_bytes") and isinstance(value, int | float):
        return format_bytes(value)
    return str(value)


def _differ(name: str, values: Sequence[Any]) -> bool:
    if name == "memory_bytes" and all(values):
        return bool(max(values) - min(values) > ALIKE_MEMORY * max(values))
    return len(set(map(str, values))) > 1
