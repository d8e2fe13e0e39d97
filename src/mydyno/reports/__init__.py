"""Reports: each is written from a saved study folder alone, and can be written again at any time.

A format has one line here. Heavy modules (templates, telemetry) are loaded when a report is written.

For a report that is passed on, the comparison of statements is printed without the values of the capture. Digests have
none. Conditions in accounts of executions, examples, errors and warnings have: each value becomes `?`.
"""

from __future__ import annotations

import re
from pathlib import Path

from mydyno.errors import UserError
from mydyno.model.metrics import SLOWEST_STATEMENT
from mydyno.model.stored.analyses import GateComparison, StatementRecord, StatementsRecord
from mydyno.model.stored.summary import Summary
from mydyno.reports.formats import CSV, HTML, JSON, MARKDOWN, ReportFormat
from mydyno.store.study_folder import StudyFolder

QUOTED = re.compile(r"'(?:[^'\\]|\\.|'')*(?:'|$)", re.DOTALL)
"""Up to the end where the text is cut."""
NUMBER = re.compile(r"(?<![\w.`$#])-?\d[\w.]*(?:[eE][+-]\d+)?")
MESSAGE = re.compile(r"['\"].*", re.DOTALL)
"""From the first quote of a server's message on: it does not say where a value with quotes ends."""
MEASURED = re.compile(r"(\((?:cost=[\d.e+]+ rows=|actual time=|never executed)[^)]*\))")
"""What EXPLAIN ANALYZE states beside a step, which is no value."""
JSON_TEXT = re.compile(r'(": *")((?:[^"\\]|\\.)*[ (](?:[^"\\]|\\.)*)("|$)', re.DOTALL)
"""A condition in ANALYZE FORMAT=JSON; names and numbers of their own have no space."""


class AnonymisedFolder(StudyFolder):
    """A study folder whose summary has no values of statements."""

    def summary(self) -> Summary | None:
        """As the folder has it otherwise."""
        found = super().summary()
        if found is None or found.statements is None:
            return found
        gate = found.gate and found.gate.model_copy(
            update={"comparisons": tuple(map(_without_message, found.gate.comparisons))}
        )
        return found.model_copy(update={"statements": anonymised(found.statements), "gate": gate})


def anonymised(record: StatementsRecord) -> StatementsRecord:
    """The same comparison without values."""
    arms = tuple(
        of.model_copy(update={"statements": tuple(_without_values(one) for one in of.statements)}) for of in record.arms
    )
    return record.model_copy(update={"arms": arms})


def _without_values(one: StatementRecord) -> StatementRecord:
    control, arm = one.executed
    return one.model_copy(
        update={
            "example": one.text,
            "why": MESSAGE.sub("?", one.why),
            "notes": tuple(MESSAGE.sub("?", note) for note in one.notes),
            "executed": (_account(control), _account(arm)),
        }
    )


def _without_message(one: GateComparison) -> GateComparison:
    found = MESSAGE.sub("?)", one.reason) if one.metric == SLOWEST_STATEMENT else one.reason
    return one.model_copy(update={"reason": found})


def _account(text: str) -> str:
    """An account of an execution.

    >>> _account("-> Filter: (t1.a = 'Anna' and t1.b > 1.5)  (cost=0.35 rows=1) (actual time=0.01..0.02 rows=1)")
    '-> Filter: (t1.a = ? and t1.b > ?)  (cost=0.35 rows=1) (actual time=0.01..0.02 rows=1)'
    >>> _account("-> Index lookup on orders using k (cost=4711)  (cost=0.35 rows=1)")
    '-> Index lookup on orders using k (cost=?)  (cost=0.35 rows=1)'
    """
    if text.startswith("{"):
        return JSON_TEXT.sub(lambda found: found[1] + _masked(found[2]) + found[3], text)
    pieces = MEASURED.split(QUOTED.sub("?", text))
    return "".join(piece if number % 2 else NUMBER.sub("?", piece) for number, piece in enumerate(pieces))


def _masked(text: str) -> str:
    return NUMBER.sub("?", QUOTED.sub("?", text))


FORMATS: dict[str, ReportFormat] = {report.name: report for report in (HTML, MARKDOWN, CSV, JSON)}


def write(folder: StudyFolder, format: str, anonymise: bool = False) -> str | Path:  # noqa: A002 - the command's word
    """The study in that format: text for standard output, or the path of the file written.

    `anonymise`: without the values of statements that were compared. Raises UserError.
    """
    if format not in FORMATS:
        raise UserError(f"there is no report format {format!r}", f"one of: {', '.join(FORMATS)}")
    if anonymise:
        folder = AnonymisedFolder(folder.path)
    return FORMATS[format].write(folder)


__all__ = ["FORMATS", "ReportFormat", "write"]
