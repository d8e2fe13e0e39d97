"""A summary for a pull request or a ticket: the answer, the verdicts as a table, the noise floor, how to repeat it."""

from __future__ import annotations

from collections.abc import Sequence
from shlex import join

from mydyno.document.markdown_text import code, escape, fitted
from mydyno.document.markdown_text import table as markdown_table
from mydyno.document.result import StudyResult
from mydyno.evaluation.answer import answer_of
from mydyno.language import agreed
from mydyno.model.stored.reasons import joined
from mydyno.model.stored.summary import EffectRecord
from mydyno.reports.format import ReportFormat
from mydyno.results.precision import finished_blocks
from mydyno.store.study_folder import StudyFolder
from mydyno.wording import unsampled
from mydyno.wording.claims import claims, conditions
from mydyno.wording.full_sentences import full_sentences
from mydyno.wording.numbers import blocks, level_percent, noise_text, percent, percent_range, signed_percent
from mydyno.wording.published import WORDS
from mydyno.wording.reasons import arm_failures
from mydyno.wording.server_settings import differing_settings, settings_compared
from mydyno.wording.verdict_table import VerdictCell, verdict_table, verdict_text

COMPARISONS, SERVERS, PUBLISHED = (
    "Every comparison in full",
    "Servers, and how their settings differ",
    "What published studies claim",
)
INVALID = "Runs that are not valid"
EFFECTS = "effects of the primary metric"
OPTIONAL = (COMPARISONS, SERVERS, PUBLISHED, INVALID)
"""Parts that a text too long for a comment leaves out first, in this order; then those of analyses."""


def write(folder: StudyFolder) -> str:
    """GitHub-flavoured Markdown; text from outside is escaped, so that it cannot become markup."""
    result = StudyResult.load(folder)
    summary = result.summary
    # Analyses load numpy, and the templates of their sections.
    from mydyno.analysis.catalogue import markdown_of

    found, analysed = answer_of(result), markdown_of(result)
    valid = sum(run.valid for run in result.runs)
    of_planned = agreed(f"{valid} of {len(result.plan.runs)} planned runs are valid")
    runs = ", ".join(filter(None, (of_planned, arm_failures(result.runs))))
    parts: list[str | tuple[str, str]] = [
        f"## {escape(summary.question or result.study.experiment.question)}",
        escape(settings_compared(result)),
        "\n\n".join(f"**{escape(sentence)}**" for sentence in found.answer),
        _answer_table(result),
        (PUBLISHED, _published(result)),
        "\n".join(f"- {escape(line)}" for line in found.sharpen),
        "\n".join(f"- {escape(line)}" for line in unsampled.lines(result)),
        escape(found.scope),
        (COMPARISONS, _sentences(result)),
        f"Study `{code(summary.study)}`, state **{summary.state}**: {runs}, {blocks(finished_blocks(summary))}, scale "
        f"{escape(result.study.experiment.scale)}. Margin ±{percent(summary.margin)}, control "
        f"{escape(summary.control)}.",
        (EFFECTS, _effects(result)),
        *analysed,
        (INVALID, _invalid(result)),
        (SERVERS, _servers(result)),
        f"Made by mydyno {escape(result.mydyno_versions)}: `{code(join(result.study.command))}`, seed "
            f"{result.plan.seed}.",
    ]  # fmt: skip
    whole = f"report.html of the study, which `mydyno report {code(summary.study)}` writes"
    named = [("", part) if isinstance(part, str) else part for part in parts]
    return fitted(named, [*OPTIONAL, *(name for name, _ in reversed(analysed)), EFFECTS], whole)


def _answer_table(result: StudyResult) -> str:
    """The verdicts, arm by step, as a table for each step; arms of factors as a grid."""
    table = verdict_table(result)
    if table is None:
        return ""
    parts = []
    for grid in table.grids:
        control = f"control {grid.control}"
        rows = [
            [*map(escape, levels), *(control if one is None else _cell(one) for one in cells)]
            for levels, cells in grid.rows
        ]
        heads = [escape(one) for one in (*grid.row_factors, *grid.columns)]
        parts.append(f"{escape(grid.caption)}:\n\n{markdown_table(heads, rows, len(heads))}")
    if table.steps:
        heads = ["load level", "arm", *map(escape, table.columns)]
        rows = [
            [escape(step.heading), escape(name), *map(_cell, cells)]
            for step in table.steps
            for name, cells in step.rows
        ]
        parts.append(markdown_table(heads, rows, len(heads)))
    parts.append(
        " ".join(filter(None, [f"{escape(table.caption)}.", *map(escape, table.notes), escape(table.unadjusted)]))
    )
    return "\n\n".join(parts)


def _cell(cell: VerdictCell) -> str:
    word = f" {cell.verdict}" if cell.verdict else ""
    interval = f" ({cell.interval})" if cell.interval else ""
    return f"{cell.symbol} **{cell.effect}**{word}{interval}".strip()


def _sentences(result: StudyResult) -> str:
    """The long sentences, folded."""
    sentences = full_sentences(result)
    if not sentences:
        return ""
    lines = [f"- {escape(sentence)}" for sentence in sentences]
    heading = f"<details><summary>{COMPARISONS}</summary>"
    return "\n".join([heading, "", *lines, "", "</details>"])


def _effects(result: StudyResult) -> str:
    primary = result.summary.primary
    effects = result.effects(primary)
    if not effects:
        return ""
    rows = [_row(result, effect, result.summary.noise_floor.get(primary, {}).get(effect.step)) for effect in effects]
    interval = f"{level_percent(result.summary.alpha)} interval"
    heads = ("load level", "arm", "effect", interval, "blocks", "noise floor", "verdict")
    title = f"{result.metric_name(primary)} relative to {escape(result.relative_to)}"
    return f"### {title}\n\n{markdown_table(heads, rows, 2)}"


def _row(result: StudyResult, effect: EffectRecord, floor: float | None) -> Sequence[str]:
    interval = "–"
    if effect.ci_low is not None and effect.ci_high is not None:
        interval = percent_range(effect.ci_low - 1, effect.ci_high - 1)
    return (
        escape(effect.step),
        escape(result.contrast_name(effect)),
        f"**{signed_percent(effect.ratio - 1)}**" if effect.ratio is not None else "–",
        interval,
        str(effect.n),
        noise_text(floor - 1) if floor and floor > 1 else "–",
        verdict_text(result, effect),
    )


def _invalid(result: StudyResult) -> str:
    invalid = [run for run in result.runs if not run.valid]
    if not invalid:
        return ""
    lines = [f"- `{code(run.folder)}`: {escape(joined(run.reasons) or 'no reason recorded')}" for run in invalid]
    return "\n".join([f"### {INVALID}", "", *lines])


def _servers(result: StudyResult) -> str:
    found = differing_settings(result)
    if found is None:
        return ""
    names, rows = found
    heads, *cells = ([escape(cell) for cell in row] for row in (names, *rows))
    return f"### {SERVERS}\n\n{markdown_table(heads, cells, len(heads))}"


def _published(result: StudyResult) -> str:
    found = [] if result.before_first_look else claims(result)
    if not found:
        return ""
    heads = (
        "published study",
        "claim",
        "what this host shows",
        "agreement",
        "what would decide it",
    )
    rows = [
        [escape(cell) for cell in (one.study, one.claim, one.here, WORDS[one.answer], one.next_step)] for one in found
    ]
    below = "\n".join(f"{escape(line)}  " for line in conditions(result))
    return f"### {PUBLISHED}\n\n{markdown_table(heads, rows, 5)}\n\n{below}".rstrip()


FORMAT = ReportFormat("md", "a summary for a pull request or a ticket", write)
