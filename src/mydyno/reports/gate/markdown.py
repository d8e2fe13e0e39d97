"""The gate as a comment of a pull request, or a job's summary: GitHub-flavoured Markdown, which GitLab reads too."""

from __future__ import annotations

from mydyno.document.markdown_text import code, escape, fitted
from mydyno.verdicts.threshold import Outcome
from mydyno.wording.gate import TITLES, GateResult, answer, notes, rows

SIGNS = {Outcome.PASSED: "✅", Outcome.WORSE: "❌", Outcome.FAILED: "❌", Outcome.UNDECIDED: "❔"}
HEAD = "| | metric | arm | step | limit | effect | bounds | result |"
RULE = "|---|---|---|---|--:|--:|--:|---|"


def markdown(result: GateResult) -> str:
    """The text; what comes from outside is escaped, so that it cannot become markup."""
    lines = []
    for one, row in zip(result.comparisons, rows(result), strict=True):
        word = f"**{row.outcome}**" + (f": {escape(row.reason)}" if row.reason and not result.obstacle else "")
        cells = (SIGNS[one.outcome], escape(row.metric), escape(row.arm), escape(row.step), row.limit,
                 f"**{row.effect}**" if row.effect else "–", row.bounds or "–", word)  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    parts = [
        f"## {SIGNS[result.outcome]} {escape(result.experiment)}: {TITLES[result.outcome].lower()}",
        escape(result.question),
        f"**{escape(answer(result))}** {escape(result.next_step)}".strip(),
        *filter(None, [escape(result.builds)]),
        "\n".join([HEAD, RULE, *lines]),
        " ".join(escape(note) for note in notes(result)),
        escape(result.scope),
        f"Study `{code(result.study)}`.",
    ]
    return fitted([("", part) for part in parts], (), f"`mydyno gate {code(result.study)}`")
