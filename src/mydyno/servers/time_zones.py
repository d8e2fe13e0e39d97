"""Named time zones of a private server: what its tables mysql.time_zone* have, from this host's files.

It is what mysql_tzinfo_to_sql, which few builds of the catalogue come with, makes of these files (TZif, RFC 8536): of
the years that a TIMESTAMP has, and each zone once for all of its names. A file that leaves years up to 2037 to its rule
(`zic -b slim`) is omitted: servers know no rules.
"""

from __future__ import annotations

import re
import struct
from pathlib import Path

FOLDER = Path("/usr/share/zoneinfo")
MOST_ROWS = 4000
"""Of one statement: below the smallest max_allowed_packet."""
_NAME = re.compile(r"(?!posix/|right/)[\w+/-]+", re.ASCII)
_COUNTS = struct.Struct(">6L")
_HEADER_BYTES = 44
_LAST_RULE = 2_114_380_800
"""The first second of 2037."""
_END = 1 << 31

Type = tuple[int, int, str]
"""Seconds east of UTC, 1 in summer, abbreviation."""


def zone_names(folder: Path = FOLDER) -> dict[str, bytes]:
    """Name → content of its file; empty where the host has no zones."""
    files = {str(path.relative_to(folder)): path for path in sorted(folder.rglob("*")) if path.is_file()}
    found = {name: path.read_bytes() for name, path in files.items() if _NAME.fullmatch(name)}
    return {name: content for name, content in found.items() if _is_whole(content)}


def _is_whole(content: bytes) -> bool:
    if not content.startswith(b"TZif") or content[4:5] < b"2":
        return False
    rule = content.rstrip(b"\n").rpartition(b"\n")[2]
    times, _ = read_zone(content)
    return b"," not in rule or (bool(times) and times[-1][0] >= _LAST_RULE)


def read_zone(content: bytes) -> tuple[list[tuple[int, int]], list[Type]]:
    """(Unix time, type from then on) from 1970 on, with the last one before, and the types."""
    utc, standard, leaps, times, types, letters = _COUNTS.unpack_from(content, 20)
    header = _HEADER_BYTES + times * 5 + types * 6 + letters + leaps * 8 + standard + utc
    _, _, _, times, types, letters = _COUNTS.unpack_from(content, header + 20)
    at = header + _HEADER_BYTES
    moments = struct.unpack_from(f">{times}q", content, at)
    changes = list(zip(moments, content[at + 8 * times : at + 9 * times], strict=True))
    at += 9 * times
    names = content[at + 6 * types : at + 6 * types + letters]
    kinds = [
        (offset, is_dst, names[name:].partition(b"\0")[0].decode("ascii", "replace"))
        for offset, is_dst, name in struct.iter_unpack(">lBB", content[at : at + 6 * types])
    ]
    before = sum(moment < 0 for moment in moments)
    return [(max(moment, -_END), kind) for moment, kind in changes[max(0, before - 1) :] if moment < _END], kinds


def time_zone_sql(folder: Path = FOLDER) -> list[str]:
    """Statements that fill the tables of a server in which they are empty."""
    names = zone_names(folder)
    numbers = {content: number for number, content in enumerate(dict.fromkeys(names.values()), 1)}
    zones = {number: read_zone(content) for content, number in numbers.items()}
    tables = {
        "time_zone (Time_zone_id, Use_leap_seconds)": [f"({number}, 'N')" for number in zones],
        "time_zone_name (Name, Time_zone_id)": [f"('{name}', {numbers[content]})" for name, content in names.items()],
        "time_zone_transition_type (Time_zone_id, Transition_type_id, `Offset`, Is_DST, Abbreviation)": [
            f"({number}, {kind}, {offset}, {is_dst}, '{abbreviation}')"
            for number, (_, kinds) in zones.items()
            for kind, (offset, is_dst, abbreviation) in enumerate(kinds)
        ],
        "time_zone_transition (Time_zone_id, Transition_time, Transition_type_id)": [
            f"({number}, {moment}, {kind})" for number, (changes, _) in zones.items() for moment, kind in changes
        ],
    }
    return [
        f"INSERT INTO mysql.{table} VALUES {', '.join(rows[first : first + MOST_ROWS])}"
        for table, rows in tables.items()
        for first in range(0, len(rows), MOST_ROWS)
    ]
