"""Named time zones as a server's tables have them, from files of this host."""

from __future__ import annotations

import struct
from datetime import UTC, datetime
from pathlib import Path

from mydyno.servers.time_zones import read_zone, time_zone_sql, zone_names

SPRING_1969, SPRING_1981, SPRING_2037 = -23_760_000, 354_675_600, 2_121_901_200
RULE = "CET-1CEST,M3.5.0,M10.5.0/3"


def tzif(*changes: tuple[int, int], rule: str = RULE, version: str = "2") -> bytes:
    """A file with winter as type 0 and summer as type 1; the block of the first version is empty."""
    types = struct.pack(">lBBlBB", 3600, 0, 0, 7200, 1, 4)
    names = b"CET\0CEST\0"
    head = b"TZif" + version.encode() + bytes(15)
    block = struct.pack(f">{len(changes)}q", *(moment for moment, _ in changes)) + bytes(kind for _, kind in changes)
    counts = struct.pack(">6L", 0, 0, 0, len(changes), 2, len(names))
    return (
        head
        + struct.pack(">6L", 1, 1, 0, 0, 1, 1)
        + bytes(9)
        + head
        + counts
        + block
        + types
        + names
        + (f"\n{rule}\n".encode())
    )


WHOLE = tzif((-(1 << 59), 0), (SPRING_1969, 1), (SPRING_1981, 1), (SPRING_2037, 0), (1 << 31, 1))


def test_each_zone_is_there_once_for_all_of_its_names(tmp_path: Path) -> None:
    files = {
        "Europe/Berlin": WHOLE, "Arctic/Oslo": WHOLE, "Etc/GMT-1": tzif(rule="<+01>-1"),
        "Slim": tzif((SPRING_1981, 1)), "Old": tzif(version="\0"), "tzdata.zi": b"# version", "posix/Oslo": WHOLE,
    }  # fmt: skip
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    assert list(zone_names(tmp_path)) == ["Arctic/Oslo", "Etc/GMT-1", "Europe/Berlin"]
    assert [one.partition(" VALUES ")[2] for one in time_zone_sql(tmp_path)] == [
        "(1, 'N'), (2, 'N')",
        "('Arctic/Oslo', 1), ('Etc/GMT-1', 2), ('Europe/Berlin', 1)",
        "(1, 0, 3600, 0, 'CET'), (1, 1, 7200, 1, 'CEST'), (2, 0, 3600, 0, 'CET'), (2, 1, 7200, 1, 'CEST')",
        f"(1, {SPRING_1969}, 1), (1, {SPRING_1981}, 1), (1, {SPRING_2037}, 0)",
    ]


def test_a_host_without_zones_fills_nothing(tmp_path: Path) -> None:
    assert time_zone_sql(tmp_path / "none") == []


def test_a_zone_without_changes_keeps_the_state_before_1970() -> None:
    changes, kinds = read_zone(tzif((-(1 << 59), 1)))
    assert changes == [(-(1 << 31), 1)]
    assert datetime.fromtimestamp(changes[0][0] + kinds[1][0], UTC).year == 1901
