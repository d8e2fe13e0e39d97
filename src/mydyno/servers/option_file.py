r"""MySQL's option files: sections, quoting and escapes, !include and !includedir, as the server itself reads them.

Lines are read in the order of the file, the last one of an option wins; those of optimizer_switch and plugin_load_add
add up. Values lose white space around them, one pair of quotes, and `#` comments outside of quotes; \b \t \n \r \\ \s
\" \' stand for backspace, tab, newline, carriage return, backslash, space and the quotes (mysys/my_default.c; MySQL's
reference manual, "Using Option Files").

What a server makes of them is known before it is started, from mysqld's own option parser (--verbose --help). It reads
every value as at a start (suffixes, enumerations by number, sets in any order, composite SQL modes), clips
what is out of range, and prints the table of values: 20 to 60 ms, no data directory, no port. It does not know what
depends on the start: sizes that InnoDB rounds to its chunks, limits of open files.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, replace
from pathlib import Path

from mydyno.errors import UserError
from mydyno.hosts.local import LocalHost
from mydyno.model.definition.experiment import Scalar
from mydyno.model.definition.quantities import parse_bytes
from mydyno.model.definition.server_options import inside, option_name, plain_name, reserved_because
from mydyno.model.server_version import ServerVersion
from mydyno.servers.build import ServerBuild
from mydyno.servers.my_cnf import option_text

MOST_LEVELS = 10
"""Of files that include others, as in the server."""
_ESCAPES = {"b": "\b", "t": "\t", "n": "\n", "r": "\r", "\\": "\\", "s": " ", '"': '"', "'": "'"}
_ESCAPE = re.compile(r"\\(.)")
_INCLUDE = re.compile(r"!(include|includedir)\s+(.+)")
_SWITCH = re.compile(r"^(?:loose_)?(?:skip|disable|enable)_")
_NAME = re.compile(r"[a-z][\w.:]*", re.ASCII)
_VERSIONED = re.compile(r"(mysqld|mariadb|mariadbd)-\d+\.\d+")
_OF_A_FLAVOUR = ("mariadb", "mariadbd", "client-server", "galera")
_ON_OFF = {"ON": "1", "OFF": "0", "TRUE": "1", "FALSE": "0", "YES": "1", "NO": "0"}
_ERROR = re.compile(r"\[ERROR\](?: \[[\w-]+\])*(?: Buffered error:)? (?:/\S+: )?(.+)")
_REMOVED = re.compile(r"\[Warning\] '([\w-]+)' was removed\.")
WITHOUT_DATA = ("Aborting", "Can't open the mysql.plugin table")
"""Beginnings of messages that are not about an option: there is no data directory."""
SIZED_BY_SERVER = "-1"
"""A size that the server is to find at its start."""
FLAG_SETS = ("optimizer_switch", "optimizer_trace", "optimizer_trace_features")
"""Options whose value is read on top of the present one."""
_ONE_MORE = re.compile("performance_schema_instrument|ignore_db_dirs?|binlog_(?:do|ignore)_db")
"""Options of which each line adds to those before, and that have no value for what several lines state.

Those of replicas do so too; nothing replicates to a private server.
"""
_OLD_UTF8 = re.compile(r"^utf8(?=_|$)")


@dataclass(frozen=True)
class Option:
    """One line: the option by its one spelling, its value (True: only named), and where it is."""

    section: str
    name: str
    value: Scalar
    place: str


def groups_of(version: ServerVersion) -> frozenset[str]:
    """The sections that a server of this version reads."""
    release = "{}.{}".format(*version.number[:2])
    if version.flavour == "mariadb":
        names = ("mysqld", "mariadb", "mariadbd")
        return frozenset({*names, *(f"{name}-{release}" for name in names), "server", "client-server", "galera"})
    return frozenset({"mysqld", "server", f"mysqld-{release}"})


def is_of_a_version(section: str) -> bool:
    """Whether the server's version decides if it reads a section."""
    return section in _OF_A_FLAVOUR or _VERSIONED.fullmatch(section) is not None


def is_of_servers(section: str) -> bool:
    """Whether servers of some version read a section."""
    return section in ("mysqld", "server") or is_of_a_version(section)


def _printable(text: str) -> str:
    """The text with a question mark for every byte that is not of UTF-8."""
    return text.encode(errors="replace").decode()


def read_option_file(path: Path) -> list[Option]:
    """All options in the order in which a server reads them. Raises UserError with file and line."""
    return list(_read(path, 0))


def _read(path: Path, level: int) -> Iterator[Option]:
    try:
        text = path.read_text(encoding="utf-8-sig", errors="surrogateescape")
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error}") from None
    section = ""
    for number, raw in enumerate(text.split("\n"), 1):
        line, place = raw.strip(), f"{path}:{number}"
        if not line or line[0] in "#;":
            continue
        if line.startswith("!"):
            yield from _included(line, path, level, place)
        elif line.startswith("["):
            name, closed, _ = line[1:].partition("]")
            if not closed:
                raise UserError(f"{place}: {line}: the name of a section has no closing bracket")
            section = name.rstrip()
        elif not section:
            raise UserError(f"{place}: {_printable(line)}: an option before the first section")
        else:
            name, equals, value = _without_comment(line).partition("=")
            name = option_name(name.strip())
            if is_of_servers(section) and not _NAME.fullmatch(name):
                raise UserError(f"{place}: {_printable(line)}: not an option", "allowed: NAME, NAME = VALUE")
            option = Option(section, name, _value(value) if equals else True, place)
            if is_of_servers(section) and _printable(str(option.value)) != option.value and equals:
                raise UserError(f"{place}: {_printable(line)}: the value is not in UTF-8")
            yield option


def _included(line: str, path: Path, level: int, place: str) -> Iterator[Option]:
    match = _INCLUDE.fullmatch(line)
    if match is None:
        raise UserError(f"{place}: {line}: unknown directive", "allowed: !include FILE, !includedir FOLDER")
    if level == MOST_LEVELS:
        raise UserError(f"{place}: {line}: files include others at more than {MOST_LEVELS} levels")
    target = path.parent / match[2].strip()
    if match[1] == "include":
        yield from _read(target, level + 1)
        return
    if not target.is_dir():
        raise UserError(f"{place}: {line}: no such folder")
    for file in sorted(target.glob("*.cnf")):
        yield from _read(file, level + 1)


def _without_comment(text: str) -> str:
    """The text up to a # outside of quotes; a quote after a backslash inside of them is part of the text."""
    quote, escaped = "", False
    for index, letter in enumerate(text):
        if letter in "'\"" and not escaped:
            quote = "" if letter == quote else quote or letter
        elif letter == "#" and not quote:
            return text[:index]
        escaped = bool(quote) and letter == "\\" and not escaped
    return text


def _value(text: str) -> str:
    value = text.strip()
    if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"":
        value = value[1:-1]
    return _ESCAPE.sub(lambda match: _ESCAPES.get(match[1], match[0]), value)


def replaced_in(options: list[Option]) -> list[str]:
    """The options of servers' sections that mydyno sets itself; with its value a binary log that it places."""
    found = set()
    for one in options:
        if is_of_servers(one.section) and reserved_because(one.name, one.value):
            value = inside(one.name, one.value)
            found.add(one.name if value == one.value else f"{one.name} = {value}")
    return sorted(found)


def options_of(options: list[Option], groups: Set[str]) -> dict[str, Option]:
    """Option → its last line in the sections that the server reads, in the order of these lines, with what the server
    keeps of the lines before. Raises UserError where no value states that.

    Of x, skip_x, disable_x and enable_x, which set one variable, the last alone is there.
    """
    found: dict[str, Option] = {}
    for option in options:
        if option.section in groups:
            variable = _SWITCH.sub("", option.name)
            if plain_name(variable) == "plugin_load":
                for name in ("plugin_load_add", "loose_plugin_load_add"):
                    found.pop(name, None)
            earlier = found.pop(variable, None)
            found[variable] = option if earlier is None else _added(earlier, option)
    return {option.name: option for option in found.values()}


def _added(earlier: Option, later: Option) -> Option:
    old, new, name = earlier.value, later.value, plain_name(later.name)
    if old == new or not (isinstance(old, str) and isinstance(new, str)):
        return later
    if _ONE_MORE.fullmatch(name):
        words = f"{later.place}: {name} adds to the line {earlier.place}, and a study sets one value of an option"
        raise UserError(words, "keep one of the lines")
    if name == "plugin_load_add":  # what mydyno does not let a server load takes no others with it
        if reserved_because(name, new):
            return earlier
        return later if reserved_because(name, old) else replace(later, value=f"{old};{new}")
    if name in FLAG_SETS and "default" not in _flags(new):
        return replace(later, value=",".join({**_flags(old), **_flags(new)}.values()))
    return later


def _flags(text: str) -> dict[str, str]:
    """Flag → itself with its value."""
    return {flag.partition("=")[0].strip().lower(): flag.strip() for flag in text.split(",")}


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
    folders = [f"--lc-messages-dir={build.messages}", f"--plugin-dir={build.plugins}"]
    options = [f"--{option_text(option_name(name), value)}" for name, value in variables.items()]
    done = await host.run(
        [*build.command, "--no-defaults", *folders, *options, "--verbose", "--help"],
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
