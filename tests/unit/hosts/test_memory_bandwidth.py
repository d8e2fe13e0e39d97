from __future__ import annotations

import struct
from pathlib import Path

from mydyno.hosts.facts import last_level_cache_bytes, theoretical_bytes_per_s


def dimm(width: int, speed: int, configured: int, size: int = 16384) -> bytes:
    body = bytearray(0x22)
    body[0], body[1] = 17, len(body)
    struct.pack_into("<H", body, 0x0A, width)
    struct.pack_into("<H", body, 0x0C, size)
    struct.pack_into("<H", body, 0x15, speed)
    struct.pack_into("<H", body, 0x20, configured)
    return bytes(body) + b"DIMM A\0\0"


def test_the_theoretical_figure_is_width_times_configured_speed_of_all_dimms() -> None:
    table = dimm(64, 3200, 2933) + dimm(64, 3200, 2933) + dimm(64, 3200, 0, size=0) + bytes((127, 4, 0, 0, 0, 0))
    rate, words = theoretical_bytes_per_s(table)
    assert rate == 2 * 8 * 2933e6
    assert "2 DIMMs" in words


def test_what_cannot_be_read_is_said() -> None:
    assert theoretical_bytes_per_s(None)[0] is None
    assert "SMBIOS" in theoretical_bytes_per_s(bytes((127, 4, 0, 0, 0, 0)))[1]


def test_shared_caches_are_counted_once(tmp_path: Path) -> None:
    for cpu in (0, 1):
        for index, (level, size, shared) in enumerate(((1, "32K", str(cpu)), (3, "32M", "0-1"))):
            folder = tmp_path / f"cpu{cpu}" / "cache" / f"index{index}"
            folder.mkdir(parents=True)
            for name, text in (("level", str(level)), ("size", size), ("shared_cpu_list", shared)):
                (folder / name).write_text(text)
    assert last_level_cache_bytes(tmp_path) == 32 << 20
    assert last_level_cache_bytes(tmp_path / "none") is None
