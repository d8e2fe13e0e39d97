"""`mydyno hosts`: install mydyno on other hosts, compare them, list them; and `mydyno clean --hosts`. The answer comes
first.
"""

from __future__ import annotations

import asyncio
import shlex
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from textwrap import fill, shorten
from typing import Annotated, TypeVar

import typer

from mydyno.cli import ExitCode, arguments
from mydyno.cli.streams import print_json
from mydyno.errors import HostError
from mydyno.execution.environments.environment import Say
from mydyno.experiments import load
from mydyno.fleet.groups import parse_hosts
from mydyno.fleet.installation import (
    CheckedHost,
    FolderArchives,
    Installation,
    check_host,
    check_local,
    differences,
    ensure_installed,
    installation_of,
    prepare,
    push_folders,
    remove,
    shared,
    state_of,
)
from mydyno.fleet.parts import archives_folder, package_folders, remove_old_archives
from mydyno.hosts.paths import HostPaths
from mydyno.hosts.remote.ssh import SshHost
from mydyno.model.definition.host_groups import LOCAL, HostGroup

Found = TypeVar("Found")
Hosts = Annotated[
    str,
    typer.Option(
        "--hosts",
        help="The hosts: user@host, user@host:port, a range such as 'bench@vm[01-20]', a list of these, or a TOML file "
        "of groups (a server's host with the hosts of its load). `local` is this host.",
        metavar="HOSTS",
    ),
]
HELP = """Install mydyno on other hosts, compare them, list them.

Hosts are reached by SSH, with the keys, the agent and the ~/.ssh/config that ssh uses: where `ssh HOST` works without
a question, mydyno works. They need sshd, tar and Python's libraries, no internet access and no compiler.

To start: mydyno hosts prepare --hosts 'bench@vm[01-04]', then mydyno hosts check --hosts 'bench@vm[01-04]'
"""
WIDTH = 118
WIDEST_CELL = 34


group = typer.Typer(help=HELP, no_args_is_help=True)
CLEAN_TIMEOUT_S = 300.0


@group.command(name="prepare")
def prepare_hosts(
    hosts: Hosts,
    packages: Annotated[
        list[str] | None,
        typer.Option(
            "--packages",
            help="Also copy the servers, load programs and allocators that an experiment needs, downloaded here if "
            "necessary. Repeatable.",
            metavar="EXPERIMENT",
        ),
    ] = None,
    undo: Annotated[
        bool, typer.Option("--remove", help="Remove everything copied to the hosts, and what studies left there.")
    ] = False,
    data: arguments.Data = None,
    verbose: arguments.Verbose = False,
) -> None:
    """Copy this mydyno to the hosts; only what they lack is sent."""
    groups = parse_hosts(hosts, data)
    paths = HostPaths.resolve()
    if undo:
        results = asyncio.run(on_all(groups, _remove, lambda _: "nothing to remove"))
    else:
        wanted = installation_of(paths.engine)
        results = asyncio.run(_prepare(groups, wanted, packages or [], paths))
    for (address, _), result in results.items():
        print(f"{address:<28} {_failure(result) if isinstance(result, HostError) else result}")
    _exit(list(results.values()))


async def _prepare(
    groups: Sequence[HostGroup], wanted: Installation, experiments: Sequence[str], paths: HostPaths
) -> dict[tuple[str, str], str | HostError]:
    folders: dict[Path, None] = {}
    for name in experiments:
        experiment, _ = load(name)
        folders |= dict.fromkeys(await package_folders(experiment, paths, _say))

    archives = FolderArchives(paths.cache)

    async def install(host: SshHost, _: HostGroup, say: Say) -> str:
        new = await prepare(host, wanted, paths.cache, say)
        pushed = await push_folders(host, list(folders), archives, say)
        what = f"{wanted.program.title} ({wanted.key})"
        words = f"{what} installed" if new else f"{what} is up to date"
        return words + (f", copied {', '.join(pushed)}" if pushed else "")

    async with archives:
        results = await on_all(groups, install, lambda _: "nothing to copy")
    remove_old_archives(archives_folder(paths.cache), [wanted.program, wanted.packages])
    return results


async def _remove(host: SshHost, group: HostGroup, say: Say) -> str:
    return "removed" if await remove(host, say, _data_of(host, group)) else "nothing to remove"


def _data_of(host: SshHost, group: HostGroup) -> dict[str, str]:
    """The environment in which mydyno finds the prepared data of the group's server there."""
    return {"MYDYNO_DATA": group.data} if group.data and host.name == group.server else {}


@group.command()
def check(hosts: Hosts, as_json: arguments.Json = False, verbose: arguments.Verbose = False) -> None:
    """Compare the hosts: what differs, what each cannot measure, clocks."""
    groups = parse_hosts(hosts)
    found = asyncio.run(_check(groups, HostPaths.resolve()))
    if as_json:
        print_json({
            "hosts": [{**host.__dict__, "clock": host.clock.__dict__ if host.clock else None} for host in found],
            "differences": differences(found),
        })  # fmt: skip
    else:
        print_check(found)
    if any(host.error for host in found):
        raise typer.Exit(ExitCode.HOST_CANNOT)


async def _check(groups: Sequence[HostGroup], paths: HostPaths) -> list[CheckedHost]:
    async def examine(host: SshHost, group: HostGroup, say: Say) -> CheckedHost:
        say("examining")
        return await check_host(host, group.name)

    results = await on_all(groups, examine, lambda group: check_local(group, paths))
    return [
        CheckedHost(address, group, error=result.message, hint=result.hint) if isinstance(result, HostError) else result
        for (address, group), result in results.items()
    ]


@group.command(name="list")
def list_hosts(hosts: Hosts, as_json: arguments.Json = False, verbose: arguments.Verbose = False) -> None:
    """List the groups and hosts, and whether each can be used."""
    groups = parse_hosts(hosts)
    wanted = installation_of(HostPaths.resolve().engine)

    async def state(host: SshHost, _: HostGroup, _say: Say) -> str:
        found = await state_of(host)
        if wanted.key in found.folders:
            return "ready"
        return (
            "another version: run mydyno hosts prepare" if found.versions else "not prepared: run mydyno hosts prepare"
        )

    results = asyncio.run(on_all(groups, state, lambda _: "ready"))
    states = {
        address: _failure(result) if isinstance(result, HostError) else result
        for (address, _), result in results.items()
    }
    if as_json:
        print_json({"groups": [{**group.model_dump(), "state": _states(group, states)} for group in groups]})
    else:
        print_list(groups, states)
    if any(state != "ready" for state in states.values()):
        raise typer.Exit(ExitCode.HOST_CANNOT)


def _states(group: HostGroup, states: dict[str, str]) -> dict[str, str]:
    return {address: states[address] for address in (group.server or LOCAL, *group.clients)}


async def on_all(
    groups: Sequence[HostGroup],
    action: Callable[[SshHost, HostGroup, Say], Awaitable[Found]],
    on_local: Callable[[str], Found] | None = None,
) -> dict[tuple[str, str], Found | HostError]:
    """(address, group) → what the action returned or raised; on all hosts at the same time, in their order."""
    places = [(address, group) for group in groups for address in (group.server or LOCAL, *group.clients)]

    async def one(address: str, group: HostGroup) -> Found | HostError | None:
        try:
            if address == LOCAL:
                return None if on_local is None else await asyncio.to_thread(on_local, group.name)
            async with await SshHost.connect(address) as host:
                return await action(host, group, lambda text: _say(f"{address}: {text}"))
        except HostError as error:
            return error

    results = await asyncio.gather(*(one(address, group) for address, group in places))
    return {
        (address, group.name): result
        for (address, group), result in zip(places, results, strict=True)
        if result is not None
    }


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _failure(error: HostError) -> str:
    return f"cannot be used: {error.message}" + (f" ({error.hint})" if error.hint else "")


def _exit(results: Sequence[object]) -> None:
    if any(isinstance(result, HostError) for result in results):
        raise typer.Exit(ExitCode.HOST_CANNOT)


def print_check(hosts: Sequence[CheckedHost]) -> None:
    """What differs, then the rest."""
    checked = [host for host in hosts if not host.error]
    failed = [host for host in hosts if host.error]
    unlike = differences(hosts)
    print(_answer(checked, failed, list(unlike)))
    for host in failed:
        print(f"\n{host.address} cannot be used: {host.error}" + (f"\n  hint: {host.hint}" if host.hint else ""))
    columns = {"clock offset": {host.address: _clock(host) for host in checked}, **unlike}
    for table in _tables([host.address for host in checked], columns):
        print("\n" + table)
    common = "; ".join(f"{name} {value}" for name, value in shared(hosts).items())
    if common:
        where = "facts" if len(checked) == 1 else f"the same on {_hosts(len(checked))}"
        print("\n" + fill(f"{where}: {common}", WIDTH))
    _print_missing(checked)
    _print_left(checked)


def _print_left(hosts: Sequence[CheckedHost]) -> None:
    """What studies left that lost a host."""
    for host in hosts:
        command = "mydyno clean" if host.address == LOCAL else f"mydyno clean --hosts {host.address}"
        for study in host.left_studies:
            print(f"\n{host.address} keeps {study}, of a study that lost this host; to remove it: {command}")


def _answer(checked: Sequence[CheckedHost], failed: Sequence[CheckedHost], unlike: Sequence[str]) -> str:
    if not checked:
        return "no host could be examined"
    words = f"{_hosts(len(checked))} examined" + (f", {len(failed)} could not be" if failed else "")
    if len(checked) == 1:
        return words
    return f"{words}; they differ in {', '.join(unlike)}" if unlike else f"{words}; they are alike"


def _hosts(count: int) -> str:
    return f"{count} host" + ("" if count == 1 else "s")


def _clock(host: CheckedHost) -> str:
    if host.clock is None or host.address == LOCAL:
        return "-"
    return f"{host.clock.offset_ms:+.1f} ms ± {host.clock.error_ms:.1f}"


def _print_missing(hosts: Sequence[CheckedHost]) -> None:
    """Abilities that some host lacks: (ability, reason) once, with its hosts."""
    found: dict[tuple[str, str], list[str]] = {}
    for host in hosts:
        for ability in host.missing:
            found.setdefault((ability["name"], ability["text"]), []).append(host.address)
    if found:
        print("\nnot available:")
    for (name, text), addresses in sorted(found.items(), key=lambda item: len(item[1])):
        where = "all hosts" if len(addresses) == len(hosts) else ", ".join(addresses)
        print(fill(f"{name} on {where}: {text}", WIDTH, initial_indent="  ", subsequent_indent="    "))


def _tables(rows: Sequence[str], columns: Mapping[str, Mapping[str, str]]) -> list[str]:
    """One table, or several below each other where its columns are too wide; each starts with the host."""
    first = max([4, *map(len, rows)])
    tables: list[list[tuple[str, int]]] = [[]]
    used = first
    for name, cells in columns.items():
        width = max(len(name), *(min(len(cells.get(row, "-")), WIDEST_CELL) for row in rows)) if rows else len(name)
        if used + 2 + width > WIDTH and tables[-1]:
            tables.append([])
            used = first
        tables[-1].append((name, width))
        used += 2 + width
    return [_table(rows, columns, chosen, first) for chosen in tables if rows]


def _table(
    rows: Sequence[str], columns: Mapping[str, Mapping[str, str]], chosen: Sequence[tuple[str, int]], first: int
) -> str:
    lines = ["  ".join(["host".ljust(first), *(name.ljust(width) for name, width in chosen)])]
    for row in rows:
        cells = [shorten(columns[name].get(row, "-"), WIDEST_CELL, placeholder="…").ljust(w) for name, w in chosen]
        lines.append("  ".join([row.ljust(first), *cells]))
    return "\n".join(line.rstrip() for line in lines)


def print_list(groups: Sequence[HostGroup], states: Mapping[str, str]) -> None:
    """Each group with its hosts."""
    ready = sum(state == "ready" for state in states.values())
    count = "1 group" if len(groups) == 1 else f"{len(groups)} groups"
    print(f"{count}, {_hosts(len(states))}: {ready} ready\n")
    for group in groups:
        for index, address in enumerate((group.server or LOCAL, *group.clients)):
            role = "client" if index else "server" if group.clients else "server and load"
            print(f"{'' if index else group.name:<20} {role:<16} {address:<28} {states[address]}")


def clean_hosts(hosts: str, templates: bool, data: Path | None) -> None:
    """Run `mydyno clean` on each host but this one, and print what it did."""

    async def clean(host: SshHost, group: HostGroup, say: Say) -> tuple[int, str]:
        say("cleaning")
        command = [await ensure_installed(host), "clean", *(["--templates"] if templates else [])]
        done = await host.run(command, timeout_s=CLEAN_TIMEOUT_S, environment=_data_of(host, group))
        return done.exit_code, done.output.strip()

    groups = parse_hosts(hosts, data)
    here = next((f" --data {shlex.quote(one.data)}" for one in groups if one.server is None and one.data), "")
    results = asyncio.run(on_all(groups, clean, lambda _: (0, f"this host: run mydyno clean{here} without --hosts")))
    worst = 0
    for (address, _), result in results.items():
        if isinstance(result, HostError):
            worst = ExitCode.HOST_CANNOT
            print(f"{address}: {result}")
            continue
        code, output = result
        worst = worst or code
        print("\n".join(f"{address}: {line}" for line in output.splitlines()))
    if worst:
        raise typer.Exit(worst)
