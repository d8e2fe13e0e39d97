"""The words of the short answer: names of metrics with their verbs, sizes with their sign, lists.

Without verdicts/words.py, which loads the statistics: reports are made without them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from statistics import median

from mydyno.language import percent_sign, tr, tr_plural

MINUS = "\N{MINUS SIGN}"
MOST_NAMES = 4
"""Arms that a sentence names; of more it gives the number."""

ALIKE = 1.5
"""Ratio of half-widths up to which one number says them all."""
REASON_CHARACTERS = 90
LOG_HEAD = re.compile(
    r"\s*error log: (?:(?:\d{4}-\d\d-\d\d|\d{6}) +[\d:]+ (?:\d+ )?)?(?:\[\w+\] )?(?:\S*/(?:mysqld|mariadbd): )?"
)
"""What a quoted line of the server's error log begins with: time, thread, level, program."""


def size(share: float) -> str:
    """A share of 1 as a percentage without sign: two digits below 10 %, whole numbers above."""
    percent = abs(share) * 100
    decimals = 0 if percent >= 9.95 or percent < 0.005 else 1 if percent >= 0.095 else 2
    text = f"{percent:.{decimals}f}"
    return f"{text.removesuffix('.0') if decimals == 1 else text}{percent_sign(' ')}"


def signed(share: float) -> str:
    """A share of 1 as a signed percentage, e.g. "+4.2 %"; a factor from ten times as much on."""
    if share > 9:
        return f"×{1 + share:.0f}"
    sign = "" if abs(share) < 0.00005 else "+" if share > 0 else MINUS
    return sign + size(share)


def plus_minus(share: float) -> str:
    """A half-width or margin: "±2 %", "±0.5 %", "±14 %"."""
    percent = share * 100
    if percent > 100 or not math.isfinite(percent):
        return tr("more than {width}", width=f"±100{percent_sign(' ')}")
    text = f"{percent:.0f}" if percent >= 9.95 else f"{percent:.2g}"
    return f"±{text.removesuffix('.0')}{percent_sign(' ')}"


def plus_minus_of(widths: Sequence[float]) -> str:
    """The half-widths of contrasts: the widest where they are much alike, else their median with their range."""
    low, high = min(widths), max(widths)
    if high <= ALIKE * low:
        return plus_minus(high)
    return tr(
        "{median} ({low} to {high})", median=plus_minus(median(widths)), low=plus_minus(low), high=plus_minus(high)
    )


def blocks(count: int) -> str:
    """1 block, 2 blocks."""
    return tr_plural("{count} block", "{count} blocks", count)


def cut(reason: str) -> str:
    """A reason on one line, without its full stop and the heads of log lines, at most REASON_CHARACTERS long."""
    text = " ".join(LOG_HEAD.sub("; ", LOG_HEAD.sub(": ", reason, count=1)).split()).rstrip(".")
    return text if len(text) <= REASON_CHARACTERS else text[: REASON_CHARACTERS - 1].rstrip() + "…"
