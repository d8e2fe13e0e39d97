"""Numbers that agree with what they count, and lists."""

from __future__ import annotations

import pytest

from mydyno.language import agreed, listing


def test_a_list_ends_with_and() -> None:
    assert [listing(names) for names in (("a",), ("a", "b"), ("a", "b", "c"))] == ["a", "a and b", "a, b and c"]


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("1 blocks cannot show a difference", "1 block cannot show a difference"),
        ("1 of 3 runs are invalid", "1 of 3 runs is invalid"),
        ("1 of their 4 load levels are not valid", "1 of their 4 load levels is not valid"),
        ("1 more effects are smaller", "1 more effect is smaller"),
        ("in 1 slices of their own", "in 1 slice of their own"),
        ("1 errors and 0 lost connections", "1 error and 0 lost connections"),
        ("undoing 1 entries; 1 studies", "undoing 1 entry; 1 study"),
        ("11 blocks, 0.1 blocks, 2.1 blocks, −1 blocks", "11 blocks, 0.1 blocks, 2.1 blocks, −1 blocks"),
        ("2 of 3 runs are invalid", "2 of 3 runs are invalid"),
        ("innodb_threads=1 runs; 1 ms; 1 transactions/s", "innodb_threads=1 runs; 1 ms; 1 transactions/s"),
        ("1 times the buffer pool; set 1 times", "1 times the buffer pool; set 1 time"),
        ("in full (1 sentences)", "in full (1 sentence)"),
        ("study 1 has runs", "study 1 has runs"),
    ],
)
def test_what_is_counted_once_is_singular(text: str, right: str) -> None:
    assert agreed(text) == right
