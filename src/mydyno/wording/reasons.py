"""Reasons as sentences quote them."""

from __future__ import annotations

import re

from mydyno.language import tr
from mydyno.model.stored.summary import EffectRecord, Summary
from mydyno.results.precision import failed_blocks

REASON_CHARACTERS = 90
LOG_HEAD = re.compile(
    r"\s*error log: (?:(?:\d{4}-\d\d-\d\d|\d{6}) +[\d:]+ (?:\d+ )?)?(?:\[\w+\] )?(?:\S*/(?:mysqld|mariadbd): )?"
)
"""What a quoted line of the server's error log begins with: time, thread, level, program."""


def cut(reason: str) -> str:
    """A reason on one line, without its full stop and the heads of log lines, at most REASON_CHARACTERS long."""
    text = " ".join(LOG_HEAD.sub("; ", LOG_HEAD.sub(": ", reason, count=1)).split()).rstrip(".")
    return text if len(text) <= REASON_CHARACTERS else text[: REASON_CHARACTERS - 1].rstrip() + "…"


def failure_of(summary: Summary, effect: EffectRecord) -> str:
    """Why a contrast has no number because its arm or its control failed; empty if neither did."""
    if effect.verdict != "not_measurable" or effect.ratio is not None:
        return ""
    if effect.details.failure:
        return effect.details.failure
    for arm, name in ((effect.arm, tr("the arm")), (effect.control, tr("the control"))):
        failed = failed_blocks(summary.runs, arm, effect.step)
        if failed:
            return tr(
                "{arm} failed in {count} blocks ({why})", arm=name, count=len(failed), why=next(iter(failed.values()))
            )
    return ""
