"""Which statements of a capture get slower or faster, fail, or return other rows."""

from mydyno.analysis.base import Analysis
from mydyno.analysis.statements.effects import analyse
from mydyno.analysis.statements.section import HEADING, always, lines, markdown, part, say

ANALYSIS = Analysis(
    chapter="answer", part=part, stored="statements", analyse=analyse, say=say, always=always, lines=lines,
    heading=HEADING, markdown=markdown,
)  # fmt: skip
