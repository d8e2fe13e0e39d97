"""The formats of a study's report: a page, the summary with its answer, Markdown for a pull request or a ticket, a
table for other programs; and the answer on a terminal.

The table has one row per run, load level and metric. Its columns: study · block · position (in the block, from 1) · arm
· copy (2 is a second copy, of the control A/A) · valid (of this step of this run: true or false) · step · workload ·
connections · metric · unit · value · reasons (why it is not valid, joined by "; ") · unadjusted (of an interleaved
study: the value before it was adjusted for the host's speed; else empty) · host_group (only of studies over several
host groups: the one that executed the block). An arm that failed at a step has one row there, without metric and value,
with the reason. A value is the mean over the step's common window, a percentile that of the whole window; units are as
stored: bytes, microseconds, percent. What is not valid is in the table too: filter on `valid`.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from shlex import join
from typing import TextIO

from mydyno.document.parts import Part
from mydyno.document.printers import Paper, code, escape, fitted, of_pieces, of_table
from mydyno.document.result import StudyResult
from mydyno.evaluation.answer import answer_of
from mydyno.files.atomic import write_text
from mydyno.language import agreed
from mydyno.model.stored.reasons import joined
from mydyno.model.stored.summary import PrintedSummary
from mydyno.reports.sections.trust import noise_in_one_line
from mydyno.reports.verdicts import verdicts_of
from mydyno.results.precision import finished_blocks
from mydyno.store.study_folder import StudyFolder
from mydyno.wording.numbers import blocks, percent
from mydyno.wording.scope_line import one_line
from mydyno.wording.stored_result import StoredResult, joined_reasons
from mydyno.wording.verdicts import arm_failures, unsampled


@dataclass(frozen=True, slots=True)
class ReportFormat:
    """One way to print a study. `write` gives text for standard output, or the path of the file it wrote."""

    name: str
    description: str
    write: Callable[[StudyFolder], str | Path]


def write_page(folder: StudyFolder) -> Path:
    """Write report.html (under a temporary name, then renamed) and return its path."""
    from mydyno.reports.page import render_page  # templates and telemetry are heavy: only when a page is made

    path = folder.path / "report.html"
    write_text(path, render_page(folder))
    return path


def json_text(folder: StudyFolder) -> str:
    """The summary as JSON text; of a study that has none, one without effects that says so in its state."""
    return printed_summary(StoredResult.load(folder)).model_dump_json(by_alias=True, indent=1) + "\n"


def printed_summary(result: StoredResult) -> PrintedSummary:
    """The summary with its answer."""
    return PrintedSummary.like(result.summary, **vars(answer_of(result)))


HTML = ReportFormat("html", "one self-contained page with every chart, written into the study folder", write_page)
JSON = ReportFormat("json", "summary.json with its answer: effects, verdicts, every run's values", json_text)


COLUMNS = (
    "study", "block", "position", "arm", "copy", "valid", "step", "workload", "connections", "metric", "unit", "value",
    "reasons", "unadjusted",
)  # fmt: skip

HOST_GROUP = "host_group"
"""The last column of studies over several host groups."""


def csv_text(folder: StudyFolder) -> str:
    """The table with its header line, RFC 4180 quoting, "\\n" line ends, rows in the order of execution."""
    result = StudyResult.load(folder)
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    several = bool(result.group_of)
    table.writerow((*COLUMNS, HOST_GROUP) if several else COLUMNS)
    for run in result.runs:
        for step in result.steps:
            place = (result.summary.study, run.block, run.position, run.arm, run.copy_number)
            used = "true" if run.usable(step.id) else "false"
            load = (step.id, step.workload, step.connections)
            reasons = joined_reasons(run, step.id)
            values = run.values.get(step.id, {})
            of_host = (run.host_group,) if several else ()
            for metric, value in sorted(values.items()):
                known = result.summary.metrics.get(metric)
                before = run.unadjusted.get(step.id, {}).get(metric)
                row = (
                    metric,
                    known.unit if known else "",
                    repr(value),
                    reasons,
                    "" if before is None else repr(before),
                )
                table.writerow((*place, used, *load, *row, *of_host))
            if step.id in run.failures and not values:
                table.writerow((*place, used, *load, "", "", "", reasons, "", *of_host))
    return text.getvalue()


CSV = ReportFormat("csv", "one row per run, load level and metric", csv_text)


NO_BREAK = "\u00a0"


def print_answer(folder: StudyFolder, file: TextIO, width: int | None = None) -> None:
    """Print a study's answer to a stream. Raises UserError if the study folder is damaged."""
    result = StudyResult.load(folder)
    paper = Paper(file, width)
    found = answer_of(result)
    # Analyses load numpy, and the templates of their sections.
    from mydyno.analysis.catalogue import lines_of

    paper.say(result.summary.question or result.study.experiment.question, style="bold")
    for sentence in found.answer:
        paper.say(sentence, "  ")
    if (verdicts := verdicts_of(result)) is not None:
        for one in verdicts.tables:
            paper.console.print()
            paper.table(one)
        paper.console.print()
        signs = ", ".join(dict.fromkeys(f"{sign}{NO_BREAK}{word}" for sign, word, _ in verdicts.signs))
        noise = noise_in_one_line(result)
        noise = noise and f"{noise[0].upper()}{noise[1:]}."
        for note in filter(None, (f"{verdicts.caption}: {signs}.", *verdicts.notes, noise)):
            paper.say(note, style="dim")
        if verdicts.adjustment is not None:
            paper.table(verdicts.adjustment)
    for lines in (lines_of(result), unsampled(result.runs)):
        paper.paragraph(lines)
    paper.paragraph([*filter(None, (one_line(result.summary), found.scope))], bullet="")
    paper.paragraph(found.sharpen)


INVALID = "Runs that are not valid"
"""The part that a text too long for a comment leaves out first; then those of analyses."""


def markdown_text(folder: StudyFolder) -> str:
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
    notes = " ".join([f"{verdicts.caption}.", *verdicts.notes])
    adjustment = [verdicts.adjustment] if verdicts.adjustment is not None else []
    return "\n\n".join([*map(of_table, verdicts.tables), escape(notes), *map(of_table, adjustment)])


def _analysed(part: Part) -> str:
    lead = (escape(line) for line in part.lead)
    return "\n\n".join(filter(None, (f"### {escape(part.heading)}", *lead, *of_pieces(part.pieces))))


def _invalid(result: StudyResult) -> str:
    invalid = [run for run in result.runs if not run.valid]
    if not invalid:
        return ""
    lines = [f"- `{code(run.folder)}`: {escape(joined(run.reasons) or 'no reason recorded')}" for run in invalid]
    return "\n".join([f"### {INVALID}", "", *lines])


MARKDOWN = ReportFormat("md", "a summary for a pull request or a ticket", markdown_text)
