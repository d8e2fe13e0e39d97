"""A summary for a pull request or a ticket: the answer, the verdicts as a table, the noise floor, how to repeat it."""

from __future__ import annotations

from shlex import join

from mydyno.model.reasons import joined
from mydyno.model.summary import EffectRecord, HostsEffect
from mydyno.reports.costs import NO_CAUSE_SHOWN, accompanied
from mydyno.reports.format import ReportFormat
from mydyno.reports.hosts import (
    contrast_heading,
    facts_rows,
    heterogeneity_text,
    interval,
    likeness,
    overall,
    plain_words,
)
from mydyno.reports.numbers import level_percent, metric_name, p_value, percent, signed_percent
from mydyno.reports.result import StudyResult
from mydyno.reports.server_settings import differing_settings
from mydyno.reports.verdict_table import WORDS, VerdictCell, verdict_table, verdict_word
from mydyno.store.study_folder import StudyFolder


def write(folder: StudyFolder) -> str:
    """GitHub-flavoured Markdown; text from outside is escaped, so that it cannot become markup."""
    result = StudyResult.load(folder)
    summary = result.summary
    valid = sum(run.valid for run in result.runs)
    parts = [
        f"## {escape(summary.question or result.study.experiment.question)}",
        "\n\n".join(f"**{escape(sentence)}**" for sentence in result.answer.answer),
        _answer_table(result),
        "\n".join(f"- {escape(line)}" for line in result.answer.sharpen),
        escape(result.answer.scope),
        _sentences(result),
        f"Study `{code(summary.study)}`, state **{summary.state}**: {valid} of {len(result.plan.runs)} planned "
        f"runs are valid, {len(result.plan.blocks)} blocks, scale {escape(result.study.experiment.scale)}. "
        f"Margin ±{percent(summary.margin)}, control {escape(summary.control)}.",
        _effects(result),
        _hosts(result),
        _costs(result),
        _invalid(result),
        _servers(result),
        _published(result),
        f"Made by mydyno {escape(result.study.mydyno_version)}: `{code(join(result.study.command))}`, "
        f"seed {result.plan.seed}.",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _answer_table(result: StudyResult) -> str:
    """The verdicts, arm by step, as a table for each step; arms of factors as a grid."""
    table = verdict_table(result)
    if table is None:
        return ""
    parts = []
    for grid in table.grids:
        head = f"| {' | '.join(map(escape, (*grid.row_factors, *grid.columns)))} |"
        rows = [
            f"| {' | '.join([*map(escape, levels), *('control' if one is None else _cell(one) for one in cells)])} |"
            for levels, cells in grid.rows
        ]
        parts.append("\n".join([f"{escape(grid.caption)}:", "", head, _rule(head, head.count("|")), *rows]))
    if table.steps:
        head = f"| load level | arm | {' | '.join(map(escape, table.columns))} |"
        rows = [
            f"| {' | '.join([escape(step.heading), escape(name), *map(_cell, cells)])} |"
            for step in table.steps
            for name, cells in step.rows
        ]
        parts.append("\n".join([head, _rule(head, head.count("|")), *rows]))
    parts.append(" ".join([f"{escape(table.caption)}.", *map(escape, table.notes)]))
    return "\n\n".join(parts)


def _cell(cell: VerdictCell) -> str:
    word = f" {cell.verdict}" if cell.verdict else ""
    interval = f" ({cell.interval})" if cell.interval else ""
    return f"{cell.symbol} **{cell.effect}**{word}{interval}".strip()


def _sentences(result: StudyResult) -> str:
    """The long sentences, folded."""
    if not result.sentences:
        return ""
    lines = [f"- {escape(sentence)}" for sentence in result.sentences]
    heading = f"<details><summary>Every comparison in full ({len(lines)})</summary>"
    return "\n".join([heading, "", *lines, "", "</details>"])


def _effects(result: StudyResult) -> str:
    primary = result.summary.primary
    effects = result.effects(primary)
    if not effects:
        return ""
    rows = [_row(result, effect, result.summary.noise_floor.get(primary, {}).get(effect.step)) for effect in effects]
    interval = f"{level_percent(result.summary.alpha)} interval"
    head = f"| load level | arm | effect | {interval} | p | blocks | noise floor | verdict |"
    lines = [f"### {metric_name(primary)} relative to {escape(result.relative_to)}", "", head, _rule(head, 2)]
    return "\n".join([*lines, *rows])


def _row(result: StudyResult, effect: EffectRecord, floor: float | None) -> str:
    interval = "–"
    if effect.ci_low is not None and effect.ci_high is not None:
        interval = f"{signed_percent(effect.ci_low - 1)} … {signed_percent(effect.ci_high - 1)}"
    cells = (
        escape(effect.step),
        escape(result.contrast_name(effect)),
        f"**{signed_percent(effect.ratio - 1)}**" if effect.ratio is not None else "–",
        interval,
        p_value(effect.p).replace("<", "&lt;"),
        str(effect.n),
        f"±{percent(floor - 1)}" if floor and floor > 1 else "–",
        WORDS.get(verdict_word(result, effect), ""),
    )
    return f"| {' | '.join(cells)} |"


def _rule(head: str, text_columns: int) -> str:
    columns = head.count("|") - 1
    return (
        "|"
        + "|".join("---" if index < text_columns or index == columns - 1 else "--:" for index in range(columns))
        + "|"
    )


def _hosts(result: StudyResult) -> str:
    """What differs between the hosts, then each contrast on each of them; nothing in a study of one host group."""
    groups = result.summary.host_groups
    if groups is None:
        return ""
    parts = ["### Hosts"]
    effects = () if result.before_first_look else groups.effects
    if effects:
        parts.append("\n".join(f"- {escape(sentence)}" for sentence in plain_words(result, groups)))
    parts.append(escape(likeness(result, groups)))
    rows = facts_rows(groups)
    if rows:
        head = "| fact | value | hosts |"
        parts.append("\n".join([head, _rule(head, 3), *(f"| {' | '.join(map(escape, row))} |" for row in rows)]))
    for metric in dict.fromkeys(effect.metric for effect in effects):
        head = f"| {metric_name(metric)} | {' | '.join(map(escape, groups.blocks))} | these hosts | "
        head += "hosts like these | do they differ? |"
        lines = [_host_row(result, one) for one in effects if one.metric == metric]
        parts.append("\n".join([head, _rule(head, 1), *lines]))
    return "\n\n".join(parts)


def _host_row(result: StudyResult, one: HostsEffect) -> str:
    """One contrast: its effect on each host with that host's own interval, on these hosts, and on hosts like these."""
    cells = [escape(contrast_heading(result, one))]
    for group in one.groups:
        own = "" if group.ci_low is None else f" ({interval(group.ci_low, group.ci_high)})"
        cells.append("–" if group.ratio is None else f"{signed_percent(group.ratio - 1)}{own}")
    together = overall(result, one)
    _, ratio, text = together[0]
    cells.append(text if ratio is None else f"**{signed_percent(ratio - 1)}** ({text})")
    cells.append(together[1][2] if len(together) > 1 else "–")
    cells.append(heterogeneity_text(one).replace("<", "&lt;"))
    return f"| {' | '.join(cells)} |"


def _costs(result: StudyResult) -> str:
    """What came with the effects; nothing where no effect on throughput is shown."""
    record = result.summary.costs
    found = accompanied(result, record) if record is not None and not result.before_first_look else []
    if not found:
        return ""
    parts = ["### What came with it"]
    for one in found:
        lines = [f"- {escape(sentence)}" for sentence in one.sentences]
        lines += [f"- To test it: `{code(command)}`" for command in one.commands]
        parts += [f"{escape(one.heading)}{', accompanied by' if one.named else ''}:", "\n".join(lines)]
    return "\n\n".join([*parts, NO_CAUSE_SHOWN])


def _invalid(result: StudyResult) -> str:
    invalid = [run for run in result.runs if not run.valid]
    if not invalid:
        return ""
    lines = [f"- `{code(run.folder)}`: {escape(joined(run.reasons) or 'no reason recorded')}" for run in invalid]
    return "\n".join(["### Runs that are not valid", "", *lines])


def _servers(result: StudyResult) -> str:
    found = differing_settings(result)
    if found is None:
        return ""
    names, rows = found
    head = f"| {' | '.join(map(escape, names))} |"
    lines = [f"| {' | '.join(map(escape, row))} |" for row in rows]
    return "\n".join(["### Servers, and how their settings differ", "", head, _rule(head, len(names)), *lines])


def _published(result: StudyResult) -> str:
    if not result.summary.published:
        return ""
    head = "| published study | figure | arm | published | ours | agreement |"
    lines = ["### Comparison with published figures", "", head, _rule(head, 3)]
    for entry in result.summary.published:
        published, ours = (
            "–" if ratio is None else signed_percent(ratio - 1) for ratio in (entry.published_ratio, entry.ratio)
        )
        words = map(escape, (entry.study, entry.step, entry.arm))
        lines.append(f"| {' | '.join([*words, published, ours, entry.agreement])} |")
    return "\n".join(lines)


def escape(text: str) -> str:
    """Text that Markdown and HTML read as plain: one line, markup characters escaped."""
    flat = " ".join(text.split())
    for character in "\\`*_[]|#":
        flat = flat.replace(character, "\\" + character)
    return flat.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def code(text: str) -> str:
    """Text that may stand between backquotes."""
    return " ".join(text.split()).replace("`", "'").replace("|", "¦")


FORMAT = ReportFormat("md", "a summary for a pull request or a ticket", write)
