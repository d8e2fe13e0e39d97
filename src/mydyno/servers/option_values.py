"""What a server makes of options before it is started: mysqld's own option parser, by --verbose --help.

It reads every value as at a start (suffixes, enumerations by number, sets in any order, composite SQL modes), clips
what is out of range, and prints the table of values: 20 to 60 ms, no data directory, no port. It does not know what
depends on the start: sizes that InnoDB rounds to its chunks, limits of open files.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from mydyno.hosts.local import LocalHost
from mydyno.model.definition.experiment import Scalar
from mydyno.model.definition.quantities import parse_bytes
from mydyno.model.definition.server_options import option_name, plain_name
from mydyno.servers.build import ServerBuild
from mydyno.servers.my_cnf import option_text

_ON_OFF = {"ON": "1", "OFF": "0", "TRUE": "1", "FALSE": "0", "YES": "1", "NO": "0"}
_ERROR = re.compile(r"\[ERROR\](?: \[[\w-]+\])*(?: Buffered error:)? (?:/\S+: )?(.+)")
_REMOVED = re.compile(r"\[Warning\] '([\w-]+)' was removed\.")
WITHOUT_DATA = ("Aborting", "Can't open the mysql.plugin table")
"""Beginnings of messages that are not about an option: there is no data directory."""
SIZED_BY_SERVER = "-1"
"""A size that the server is to find at its start."""
_OLD_UTF8 = re.compile(r"^utf8(?=_|$)")


@dataclass(frozen=True)
class OptionValues:
    """The server's reading of some options."""

    values: Mapping[str, str]
    """Variable → value, of all options that the server lists."""
    errors: tuple[str, ...]
    """Its messages where it would not start with them."""
    removed: frozenset[str] = frozenset()
    """Those that this version removed, and ignores with a warning."""


async def option_values(build: ServerBuild, host: LocalHost, variables: Mapping[str, Scalar]) -> OptionValues:
    """The values that this build gives all its options if it is started with these; nothing is started."""
    options = [f"--{option_text(option_name(name), value)}" for name, value in variables.items()]
    done = await host.run(
        [*build.command, "--no-defaults", f"--lc-messages-dir={build.messages}", *options, "--verbose", "--help"],
        environment=build.environment,
        as_server=True,
        folders=build.folders,
        timeout_s=60,
    )
    errors = [found for found in _ERROR.findall(done.output) if not found.startswith(WITHOUT_DATA)]
    if done.exit_code and not errors:
        errors = done.output.strip().splitlines()[-1:] or [f"exit code {done.exit_code}"]
    removed = frozenset(map(plain_name, _REMOVED.findall(done.output)))
    return OptionValues(listed_values(done.output), tuple(dict.fromkeys(errors)), removed)


def listed_values(output: str) -> dict[str, str]:
    """The table of `mysqld --verbose --help`: below a line of dashes, up to the first empty line."""
    table = output.partition("\n---")[2].partition("\n")[2].partition("\n\n")[0]
    split = (line.split(maxsplit=1) for line in table.splitlines() if line.strip())
    return {option_name(name): "".join(value).strip() for name, *value in split}


def same_setting(wanted: str, actual: str) -> bool:
    """Whether two spellings say the same: 1G and 1073741824, ON and 1, O_DIRECT and o_direct, utf8 and utf8mb3."""
    spellings = [_plain(wanted), _plain(actual)]
    if spellings[0] == spellings[1]:
        return True
    numbers = [_number(text) for text in spellings]
    return None not in numbers and numbers[0] == numbers[1]


def changed_by_server(wanted: str, read: str) -> bool:
    """Whether a server clipped, rounded or ignored a value: `read` is what its parser made of `wanted`.

    A word that it accepted counts as understood, whatever it calls it, except as another truth value.
    """
    if same_setting(wanted, read):
        return False
    is_number = _number(_plain(wanted)) is not None and _number(_plain(read)) is not None
    return is_number or read in ("TRUE", "FALSE")


def is_by_server(wanted: str, read: str, actual: str) -> bool:
    """Whether a running server's value is the one that was wanted, in the words of its own parser."""
    if changed_by_server(wanted, read):
        return False
    if read == SIZED_BY_SERVER:
        return True
    switches = [set(text.lower().split(",")) for text in (read, actual)]
    # MariaDB's table ends before the last switches of optimizer_switch.
    return same_setting(read, actual) or ("=" in read and switches[0] <= switches[1])


def _plain(text: str) -> str:
    return _OLD_UTF8.sub("utf8mb3", _ON_OFF.get(text.strip().upper(), text.strip().lower()))


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        pass
    try:
        return float(parse_bytes(text))
    except (ValueError, OverflowError):
        return None
