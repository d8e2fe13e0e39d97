from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from mydyno.treatments import allocator
from mydyno.treatments.allocator_options import _same
from mydyno.treatments.dynamic_linker import parse_bindings

LINE = "9: binding file {} [0] to {} [0]: normal symbol `{}' [GLIBC_2.2.5]\n"
PROGRAM, OURS, LIBC = Path("/srv/mysqld"), Path("/none/libjemalloc.so.2"), Path("/none/libc.so.6")


def test_a_detour_over_the_program_s_own_jump_table_is_no_provider() -> None:
    text = LINE.format(LIBC, PROGRAM, "free") + LINE.format(PROGRAM, OURS, "free")
    assert parse_bindings(text).served_by("free", PROGRAM) == {OURS}


def test_a_program_with_its_own_malloc_is_a_provider() -> None:
    text = LINE.format(LIBC, PROGRAM, "malloc") + LINE.format(PROGRAM, PROGRAM, "malloc")
    assert parse_bindings(text).served_by("malloc", PROGRAM) == {PROGRAM}


def test_an_allocator_that_serves_operator_new_alone_is_seen() -> None:
    text = LINE.format(PROGRAM, "/lib/libtcmalloc.so.4", "_Znwm") + LINE.format(PROGRAM, LIBC, "malloc")
    assert parse_bindings(text).served_by("_Znwm", PROGRAM) == {Path("/lib/libtcmalloc.so.4").resolve()}


def test_variables_of_another_allocator_are_refused_by_name() -> None:
    with pytest.raises(ValidationError, match="jemalloc does not read TCMALLOC_RELEASE_RATE"):
        allocator.SETTING.validate_python({"name": "jemalloc", "environment": {"TCMALLOC_RELEASE_RATE": 0}})
    allocator.SETTING.validate_python({"name": "glibc", "environment": {"MALLOC_ARENA_MAX": 2}})


@pytest.mark.parametrize(("wanted", "actual", "same"), [("2", "0x2", True), ("true", "1", True), ("4", "8", False)])
def test_spellings_of_options_are_compared_by_their_meaning(wanted: str, actual: str, same: bool) -> None:
    assert _same(wanted, actual) is same
