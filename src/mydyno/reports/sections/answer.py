"""The question answered: short sentences, one table, what would improve it, and its scope."""

from __future__ import annotations

from mydyno.language import tr, tr_plural
from mydyno.reports.page_assets import stored_text
from mydyno.reports.result import StudyResult
from mydyno.reports.sections.section import Cell, Section, Table, render, sentence_markup
from mydyno.results.precision import failures_of
from mydyno.wording.claims import claims, conditions, counted
from mydyno.wording.full_sentences import full_sentences
from mydyno.wording.numbers import percent
from mydyno.wording.published import SIGNED
from mydyno.wording.server_settings import settings_compared
from mydyno.wording.verdict_table import SYMBOLS, WORDS, verdict_table


def build(result: StudyResult) -> Section:
    """The first section. Without effects it says why there is no answer."""
    table = verdict_table(result)
    found = result.answer
    return Section(
        "answer",
        tr("Answer"),
        tr("Answer"),
        render(
            "answer.html",
            state=_state_words(result),
            settings=settings_compared(result),
            answer=found.answer,
            further=found.further,
            table=table,
            legend=[(SYMBOLS[word], tr(WORDS[word]), css) for word, css in table.words()] if table else [],
            sharpen=found.sharpen,
            scope=found.scope,
            claims=_claims(result),
            sentences=full_sentences(result),
            margin=percent(result.summary.margin),
        ),
    )


MOST_CLAIMS = 10
"""Rows of the table; all figures are in the section Published."""


def _claims(result: StudyResult) -> Table | None:
    """What published studies claim beside what this host shows; None if the experiment repeats none."""
    found = [] if result.before_first_look else claims(result)
    if not found:
        return None
    rows: list[list[str | Cell]] = []
    for one in found[:MOST_CLAIMS]:
        here = stored_text(one.here) if one.stored else one.here
        would = tr("It would take {step}.", step=one.next_step) if one.next_step else ""
        answer = Cell(tr(SIGNED[one.answer]), "word")
        rows.append([one.claim, answer, Cell(here, "prose", below=sentence_markup(would))])
    left = len(found) - len(rows)
    more = tr_plural(
        "{count} more figure is below, in Published.", "{count} more figures are below, in Published.", left
    )
    note = [*([more] if left else []), *conditions(result)]
    count = counted(one.answer for one in found)
    head = (tr("claim"), tr("agreement"), tr("what this host shows"))
    caption = tr("Claims of published studies, and what this host shows: {answers}", answers=count)
    return Table(caption, head, rows, " ".join(note))


def _state_words(result: StudyResult) -> str:
    """What a study that is not complete means for its answer; empty for a complete one."""
    planned, finished = len(result.plan.runs), len(result.runs)
    if result.runs and not result.any_valid:
        return tr("No run of this study is valid, so there is no answer. The gates below show the reasons.")
    if result.summary.state == "complete":
        return ""
    if result.summary.state == "failed":
        return tr(
            "This study failed: {count} of {all} planned runs are finished. The report covers these runs only.",
            count=finished, all=planned,
        )  # fmt: skip
    return tr(
        "This study is not finished: {count} of {all} planned runs are finished. The report covers these runs only.",
        count=finished, all=planned,
    )  # fmt: skip


def chips(result: StudyResult) -> list[tuple[str, str]]:
    """(CSS class, text) of what must be known before anything else is read: state, runs, scale."""
    planned = len(result.plan.runs)
    valid = sum(run.valid for run in result.runs)
    state = result.summary.state
    states = {"complete": tr("complete"), "partial": tr("partial study"), "failed": tr("failed study")}
    failed = len({run.folder for run in result.runs if failures_of(run)})
    found = [("state-failed" if failed else f"state-{state}", states[state])]
    of_planned = tr("{count} of {all} planned runs valid", count=valid, all=planned)
    found.append(("state-partial" if valid < planned else "plain", of_planned))
    if len(result.runs) < planned:
        found.append(("state-partial", tr("{count} not run", count=planned - len(result.runs))))
    if failed:
        found.append(
            ("state-failed", tr_plural("an arm failed in {count} run", "an arm failed in {count} runs", failed))
        )
    unused = len(result.unused_steps)
    if unused:
        steps = valid * len(result.steps)
        found.append(("state-partial", tr("{count} of their {all} steps not valid", count=unused, all=steps)))
    blocks = len({run.block for run in result.runs}) or len(result.plan.blocks)
    found.append(("plain", tr_plural("{count} block", "{count} blocks", blocks)))
    if result.group_of:
        found.append(("plain", tr("{count} hosts", count=len(set(result.group_of.values())))))
    if result.summary.design != "blocks":
        found.append(("plain", tr("switchback") if result.summary.design == "switchback" else tr("interleaved")))
    found.append(("plain", tr("scale {scale}", scale=result.study.experiment.scale)))
    return found
