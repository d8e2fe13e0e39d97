"""Which statements of a capture get slower or faster, fail, or return other rows."""

from mydyno.analysis.base import Analysis
from mydyno.analysis.statements.effects import analyse
from mydyno.analysis.statements.section import always, comment, lines, part, say

ANALYSIS = Analysis(
    chapter="answer", part=part, comment=comment, stored="statements", analyse=analyse, say=say, always=always,
    lines=lines,
)  # fmt: skip
