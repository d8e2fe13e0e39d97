"""Which of an allocator's options are in force, by what the library itself prints (jemalloc 5.3.0, gperftools 2.10)."""

from __future__ import annotations

import pytest

from mydyno.treatments.allocator_options import ReadBack, jemalloc_read_back

STATISTICS = "___ Begin jemalloc statistics ___\nVersion: 5.3.0\n--- End jemalloc statistics ---\n"


def test_options_are_read_back_among_the_librarys_own_output() -> None:
    wanted = {"stats_print": "true", "narenas": "2"}
    output = f'options: {{"stats_print": "true", "narenas": "2"}}\n{STATISTICS}'
    assert jemalloc_read_back(wanted, output) == ReadBack({"opt.stats_print": "true", "opt.narenas": "2"}, (), ())


@pytest.mark.parametrize(
    ("message", "key", "value"),
    [
        ("Invalid conf pair: narena:2", "narena", "2"),
        ("Invalid conf value: narenas:abc", "narenas", "abc"),
        ("Out-of-range conf value: narenas:0", "narenas", "0"),
    ],
)
def test_what_jemalloc_rejects_is_not_in_force(message: str, key: str, value: str) -> None:
    output = f'<jemalloc>: {message}\noptions: {{"{key}": "8", "tcache": "true"}}\n'
    found = jemalloc_read_back({key: value, "tcache": "true"}, output)
    assert found == ReadBack({"opt.tcache": "true"}, (f"jemalloc: {message}",), ())


def test_what_jemalloc_takes_and_does_not_report_is_stated() -> None:
    found = jemalloc_read_back({"bin_shards": "1-128:4"}, 'options: {"bin_shards": null}\n')
    assert found == ReadBack({}, (), ("MALLOC_CONF=bin_shards:1-128:4",))


def test_a_value_that_jemalloc_changed_is_not_in_force() -> None:
    found = jemalloc_read_back({"lg_tcache_max": "40"}, 'options: {"lg_tcache_max": "30"}\n')
    assert found.wrong == ("jemalloc's opt.lg_tcache_max is 30, wanted 40",)


def test_a_process_that_ended_early_is_quoted() -> None:
    output = "<jemalloc>: Invalid conf pair: foo:1\nAborted\n"  # with abort_conf:true
    assert jemalloc_read_back({"foo": "1"}, output).wrong == ("jemalloc: Invalid conf pair: foo:1",)
    found = jemalloc_read_back({"narenas": "2"}, "cannot execute\n")
    assert found.wrong == ("jemalloc's options could not be read: cannot execute",)
