"""Where a server's memory lies, and what its allocator says of itself: the parsers, and who is asked at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from mydyno.treatments.allocator_memory import (
    NOT_CALLED,
    NOT_SERVED,
    AllocatorReport,
    StatisticsCall,
    parse_memory_status,
    parse_smaps,
    statistics_call,
)
from mydyno.treatments.dynamic_linker import parse_bindings

MIB = 1 << 20
PROGRAM, OURS, LIBC = Path("/srv/mysqld"), Path("/none/libtcmalloc_minimal.so.4"), Path("/none/libc.so.6")
STATUS = """
Memory status:
Non-mmapped space allocated from system: {arenas}
Number of mmapped regions:\t\t 8
Space in mmapped regions:\t\t {mapped}
Maximum total allocated space:\t\t 0
Total allocated space:\t\t\t {in_use}
Total free space:\t\t\t 1557296
"""


def test_what_is_held_and_in_use_counts_the_mapped_regions() -> None:
    text = STATUS.format(arenas=8 * MIB, mapped=40 * MIB, in_use=6 * MIB)
    assert parse_memory_status(text) == AllocatorReport(held=48 * MIB, in_use=46 * MIB)


def test_the_last_answer_in_a_log_counts() -> None:
    answers = [STATUS.format(arenas=MIB * number, mapped=0, in_use=MIB) for number in (2, 3)]
    assert parse_memory_status("\n".join(answers)) == AllocatorReport(held=3 * MIB, in_use=MIB)


def test_an_answer_that_a_buffer_cut_short_is_none() -> None:
    text = STATUS.format(arenas=8 * MIB, mapped=40 * MIB, in_use=6 * MIB)
    assert parse_memory_status(text.partition("Total allocated")[0]) is None


@pytest.mark.parametrize(
    ("user", "provider", "symbol", "call"),
    [
        (PROGRAM, OURS, "mallinfo", StatisticsCall("mallinfo")),
        (PROGRAM, LIBC, "mallinfo2", StatisticsCall("", NOT_SERVED)),
        (OURS, OURS, "mallinfo", StatisticsCall("", NOT_CALLED)),
        (PROGRAM, OURS, "malloc", StatisticsCall("", NOT_CALLED)),
    ],
)
def test_only_the_arms_own_library_is_asked(user: Path, provider: Path, symbol: str, call: StatisticsCall) -> None:
    found = parse_bindings(f"9: binding file {user} [0] to {provider} [0]: normal symbol `{symbol}' [GLIBC_2.33]\n")
    assert statistics_call(found, PROGRAM, OURS) == call


def test_anonymous_memory_counts_where_its_owner_gave_it_a_name() -> None:
    text = "".join(
        f"7f0000{number}00000-7f0000{number}10000 rw-p 00000000 00:00 0 {name}\nSize: 64 kB\nRss: 64 kB\n"
        for number, name in enumerate(("", "[anon: glibc: malloc arena]", "[heap]", "/usr/lib/x.so"))
    )
    assert [one.anonymous for one in parse_smaps(text)] == [True, True, False, False]
