"""A summary for a pull request or a ticket: the answer, the verdicts as a table, the noise floor, how to repeat it."""

from __future__ import annotations

from shlex import join

from mydyno.document.markdown_text import code, escape, fitted, of_pieces, of_table
from mydyno.document.parts import Part
from mydyno.document.result import StudyResult
from mydyno.evaluation.answer import answer_of
from mydyno.language import agreed
from mydyno.model.stored.reasons import joined
from mydyno.reports.formats import ReportFormat
from mydyno.reports.sections.noise import noise_in_one_line
from mydyno.reports.verdicts import verdicts_of
from mydyno.results.precision import finished_blocks
from mydyno.store.study_folder import StudyFolder
from mydyno.wording.numbers import blocks, percent
from mydyno.wording.reasons import arm_failures, unsampled

INVALID = "Runs that are not valid"
"""The part that a text too long for a comment leaves out first; then those of analyses."""


def write(folder: StudyFolder) -> str:
    """GitHub-flavoured Markdown; text from outside is escaped, so that it cannot become markup."""
    result = StudyResult.load(folder)
    summary = result.summary
    # Analyses load numpy, and the templates of their sections.
    from mydyno.analysis.catalogue import comment_of

    found = answer_of(result)
    analysed = [(part.heading, _analysed(part)) for part in comment_of(result)]
    valid = sum(run.valid for run in result.runs)
    of_planned = agreed(f"{valid} of {len(result.plan.runs)} planned runs are valid")
    runs = ", ".join(filter(None, (of_planned, arm_failures(result.runs))))
    parts: list[str | tuple[str, str]] = [
        f"## {escape(summary.question or result.study.experiment.question)}",
        "\n\n".join(f"**{escape(sentence)}**" for sentence in found.answer),
        _answer_table(result),
        "\n".join(f"- {escape(line)}" for line in unsampled(result.runs)),
        escape(found.scope),
        "\n".join(f"- {escape(line)}" for line in found.sharpen),
        f"Study `{code(summary.study)}`, state **{summary.state}**: {runs}, {blocks(finished_blocks(summary))}, scale "
        f"{escape(result.study.experiment.scale)}. Margin ±{percent(summary.margin)}, control "
        f"{', '.join(filter(None, (escape(summary.control), noise_in_one_line(result))))}.",
        *analysed,
        (INVALID, _invalid(result)),
        f"Made by mydyno {escape(result.mydyno_versions)}: `{code(join(result.study.command))}`"
        f"{_resumed(result)}, seed {result.plan.seed}.",
    ]
    whole = f"report.html of the study, which `mydyno report {code(summary.study)}` writes"
    named = [("", part) if isinstance(part, str) else part for part in parts]
    return fitted(named, [INVALID, *(name for name, _ in reversed(analysed))], whole)


def _resumed(result: StudyResult) -> str:
    """How often the study was continued; empty if it was not."""
    times = sum(event["event"] == "study_resumed" for event in result.folder.journal.read())
    return agreed(f", resumed {times} times") if times else ""


def _answer_table(result: StudyResult) -> str:
    """The verdicts, arm by step, each step under its heading; arms of factors as a grid."""
    verdicts = verdicts_of(result)
    if verdicts is None:
        return ""
    notes = " ".join(filter(None, [f"{verdicts.caption}.", *verdicts.notes, verdicts.unadjusted]))
    return "\n\n".join([*map(of_table, verdicts.tables), escape(notes)])


def _analysed(part: Part) -> str:
    lead = (escape(line) for line in part.lead)
    return "\n\n".join(filter(None, (f"### {escape(part.heading)}", *lead, *of_pieces(part.pieces))))


def _invalid(result: StudyResult) -> str:
    invalid = [run for run in result.runs if not run.valid]
    if not invalid:
        return ""
    lines = [f"- `{code(run.folder)}`: {escape(joined(run.reasons) or 'no reason recorded')}" for run in invalid]
    return "\n".join([f"### {INVALID}", "", *lines])


FORMAT = ReportFormat("md", "a summary for a pull request or a ticket", write)
