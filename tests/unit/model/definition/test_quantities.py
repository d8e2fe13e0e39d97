"""Durations, shares and sizes as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mydyno.model.definition.quantities import (
    format_bytes,
    format_duration,
    numbers_of,
    parse_bits_per_s,
    parse_bytes,
    parse_duration_s,
    parse_share,
    ranges_of,
)


@pytest.mark.parametrize(
    ("written", "seconds"),
    [("10s", 10.0), ("500ms", 0.5), ("2m", 120.0), ("2min", 120.0), ("1.5h", 5400.0), (" 3 s ", 3.0), (7, 7.0)],
)
def test_a_duration_is_read(written: object, seconds: float) -> None:
    assert parse_duration_s(written) == seconds


@pytest.mark.parametrize("written", ["10", "s", "-1s", "1d", "", True, None, [1], float("inf"), "9" * 400 + "s"])
def test_what_is_no_duration_is_refused(written: object) -> None:
    with pytest.raises(ValueError, match="a duration"):
        parse_duration_s(written)


@pytest.mark.parametrize(("written", "share"), [("2%", 0.02), (" 12.5 % ", 0.125), (0.02, 0.02), (1, 1.0)])
def test_a_share_is_read(written: object, share: float) -> None:
    assert parse_share(written) == pytest.approx(share)


@pytest.mark.parametrize("written", ["2", "%", "two%", True, None, {}])
def test_what_is_no_share_is_refused(written: object) -> None:
    with pytest.raises(ValueError, match="a percentage"):
        parse_share(written)


@pytest.mark.parametrize(
    ("written", "size"),
    [("1G", 1 << 30), ("512M", 512 << 20), ("64k", 65536), ("1.5K", 1536), ("2TiB", 2 << 40), ("10B", 10), (7, 7)],
)
def test_a_size_is_read_in_powers_of_1024(written: object, size: int) -> None:
    assert parse_bytes(written) == size


@pytest.mark.parametrize("written", ["", "G", "1P", "-1", True, 1.5, None, "9" * 400])
def test_what_is_no_size_is_refused(written: object) -> None:
    with pytest.raises(ValueError, match="a size"):
        parse_bytes(written)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.25, "250 ms"),
        (45, "45 s"),
        (60, "1 min"),
        (450, "7 min 30 s"),
        (7500, "2 h 5 min"),
        (7200, "2 h"),
    ],
)
def test_a_duration_is_written_for_people(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 B"), (640, "640 B"), (1536, "1.5 KiB"), (300 << 20, "300 MiB"), (5 << 40, "5.0 TiB")]
)
def test_a_size_is_written_for_people(size: int, text: str) -> None:
    assert format_bytes(size) == text


@given(st.integers(0, 10**15))
def test_whole_bytes_are_themselves(size: int) -> None:
    assert parse_bytes(str(size)) == parse_bytes(size) == size


@pytest.mark.parametrize(
    ("text", "bits_per_s"), [("1gbit", 1e9), ("100mbit", 1e8), ("2.5gbit", 2.5e9), ("64kbit", 64e3)]
)
def test_bandwidths_are_read_in_powers_of_a_thousand(text: str, bits_per_s: float) -> None:
    assert parse_bits_per_s(text) == bits_per_s


@pytest.mark.parametrize("text", ["1G", "gbit", "0gbit", "-1gbit", "1gbyte", "", 1000])
def test_what_is_no_bandwidth_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match="1gbit"):
        parse_bits_per_s(text)


@pytest.mark.parametrize(("numbers", "text"), [((1, 2, 3, 7), "1-3,7"), ((4,), "4"), ((), ""), ((2, 4, 5), "2,4-5")])
def test_numbers_as_ranges(numbers: tuple[int, ...], text: str) -> None:
    assert ranges_of(reversed(numbers)) == text
    assert numbers_of(f"{text}\n") == set(numbers)
