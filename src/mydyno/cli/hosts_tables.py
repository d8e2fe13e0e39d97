"""What `mydyno hosts` prints: the answer first, then a table of hosts and facts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import fill, shorten

from mydyno.fleet.check import CheckedHost, differences, shared
from mydyno.model.definition.host_groups import LOCAL, HostGroup

WIDTH = 118
WIDEST_CELL = 34


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
