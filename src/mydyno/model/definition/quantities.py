"""Quantities as written in an experiment ("10s", "2%", "1G"), as numbers, and in words."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import groupby
from math import isfinite
from typing import Annotated

from pydantic import BeforeValidator, Field

from mydyno.language import agreed

_DURATION = re.compile(r"^\s*(\d+(?:\.\d+)?)\s*(ms|s|m|min|h)\s*$")
_SECONDS_PER = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_SIZE = re.compile(r"^\s*(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?\s*$", re.IGNORECASE)
_BYTES_PER = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_BITS_PER_S = re.compile(r"^(\d+(?:\.\d+)?)\s*(k|m|g)bit$")
_BITS_PER = {"k": 1e3, "m": 1e6, "g": 1e9}


def parse_duration_s(value: object) -> float:
    """Seconds from "500ms", "10s", "2m", "1h" or a plain number of seconds. Raises ValueError on anything else."""
    if isinstance(value, bool):
        raise ValueError('a duration such as "10s", "2m" or "1h"')
    match = _DURATION.match(value) if isinstance(value, str) else None
    if match is not None:
        duration_s = float(match[1]) * _SECONDS_PER[match[2]]
    elif isinstance(value, int | float):
        duration_s = float(value)
    else:
        raise ValueError('a duration such as "10s", "2m" or "1h"')
    if not isfinite(duration_s):
        raise ValueError("a duration that is finite")
    return duration_s


def parse_share(value: object) -> float:
    """A share of 1 from "2%" or a plain number such as 0.02. Raises ValueError on anything else."""
    if isinstance(value, str) and value.strip().endswith("%"):
        try:
            return float(value.strip()[:-1]) / 100.0
        except ValueError:
            pass
    elif isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    raise ValueError('a percentage such as "2%"')


def parse_bytes(value: object) -> int:
    """Bytes from "512M", "1G" (powers of 1024, as the server counts) or a plain integer. Raises ValueError."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    match = _SIZE.match(value) if isinstance(value, str) else None
    if match is None:
        raise ValueError('a size such as "512M" or "1G"')
    size_bytes = float(match[1]) * _BYTES_PER[match[2].upper()]
    if not isfinite(size_bytes):
        raise ValueError("a size below 2^63 bytes")
    return int(size_bytes)


def parse_bits_per_s(text: object) -> float:
    """Bits per second from "1gbit", "100mbit", "2.5gbit" (powers of 1000, as Ethernet counts). Raises ValueError."""
    match = _BITS_PER_S.match(text) if isinstance(text, str) else None
    if match is None or float(match[1]) == 0:
        raise ValueError('a bandwidth such as "1gbit" or "100mbit"')
    return float(match[1]) * _BITS_PER[match[2]]


def format_duration(duration_s: float) -> str:
    """A duration for people: "45 s", "7 min 30 s", "2 h 5 min"."""
    seconds = round(duration_s)
    if seconds < 60:
        return f"{seconds} s" if duration_s >= 1 or duration_s == 0 else f"{duration_s * 1000:.0f} ms"
    if seconds < 3600:
        return f"{seconds // 60} min" + (f" {seconds % 60} s" if seconds % 60 else "")
    minutes = round(seconds / 60)
    return f"{minutes // 60} h" + (f" {minutes % 60} min" if minutes % 60 else "")


def format_bytes(size_bytes: float) -> str:
    """A size for people, in binary units: "640 B", "1.5 GiB"."""
    size = float(size_bytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(size) < 1024:
            return f"{size:.0f} {unit}" if unit == "B" or size >= 100 else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


Duration = Annotated[float, BeforeValidator(parse_duration_s), Field(json_schema_extra={"type": ["string", "number"]})]
"""Seconds; written "10s" in a file."""
PositiveDuration = Annotated[
    float, BeforeValidator(parse_duration_s), Field(gt=0, json_schema_extra={"type": ["string", "number"]})
]
Share = Annotated[
    float, BeforeValidator(parse_share), Field(gt=0, lt=1, json_schema_extra={"type": ["string", "number"]})
]
"""A share between 0 and 1; written "2%" in a file."""
ErrorRate = Annotated[
    float,
    BeforeValidator(parse_share),
    Field(ge=0.0001, le=0.5, json_schema_extra={"type": ["string", "number"]}),
]
"""The chance of an error, from 0.01 % to 50 %."""
ShareUpToAll = Annotated[
    float, BeforeValidator(parse_share), Field(ge=0, le=1, json_schema_extra={"type": ["string", "number"]})
]
"""A share from 0 to 1, both included."""


def load_level(connections: int, rate: float | None = None) -> str:
    """E.g. "1 connection", "32 connections"; in an open loop "5,000 transactions/s on 32 connections".

    `rate` is in transactions a second; None: a closed loop.
    """
    closed = agreed(f"{connections} connections")
    return closed if rate is None else f"{rate:,.10g} transactions/s on {closed}"


def ranges_of(numbers: Iterable[int]) -> str:
    """0-2,7 of 0, 1, 2, 7."""
    runs = [[n for _, n in run] for _, run in groupby(enumerate(sorted(numbers)), lambda one: one[1] - one[0])]
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


def numbers_of(text: str) -> set[int]:
    """The numbers of 0-2,7; none of an empty text. Raises ValueError for anything else."""
    bounds = [part.partition("-") for part in text.strip().split(",") if part]
    return {number for first, _, last in bounds for number in range(int(first), int(last or first) + 1)}
