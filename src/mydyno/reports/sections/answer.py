"""The question answered: short sentences, one table, what would improve it, and its scope."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from markupsafe import Markup

from mydyno.language import colon, comma, marked, tr, tr_plural
from mydyno.model.stored.summary import ConclusionRecord
from mydyno.reports.full_sentences import full_sentences
from mydyno.reports.numbers import percent
from mydyno.reports.page_assets import stored_text
from mydyno.reports.result import StudyResult
from mydyno.reports.sections.section import Section, render
from mydyno.reports.verdict_table import SYMBOLS, WORDS, verdict_table


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
            answer=found.answer,
            table=table,
            legend=[(SYMBOLS[word], tr(WORDS[word]), css) for word, css in table.words()] if table else [],
            sharpen=found.sharpen,
            scope=found.scope,
            conclusions=[_concluded(one) for one in result.summary.conclusions],
            concluded=counted(one.answer for one in result.summary.conclusions),
            sentences=full_sentences(result),
            margin=percent(result.summary.margin),
        ),
    )


ANSWERS = {"agrees": marked("agrees"), "disagrees": marked("disagrees"), "cannot tell": marked("cannot tell")}


def _concluded(one: ConclusionRecord) -> Markup:
    """The claim and its answer; the figures behind it are as they are stored."""
    found = tr("{study}, {part}: {answer}: {claim}", study=one.study, part=one.part,
               answer=tr(ANSWERS.get(one.answer, one.answer)), claim=tr(one.claim))  # fmt: skip
    return Markup("{}{}{}.").format(found, colon(), stored_text(one.because))


def counted(answers: Iterable[str]) -> str:
    """The number of each answer: "2 agree, 1 cannot tell"."""
    found = Counter(answers)
    return comma(_counted(one, count) for one, count in found.most_common())


def _counted(answer: str, count: int) -> str:
    if answer == "agrees":
        return tr_plural("{count} agrees", "{count} agree", count)
    if answer == "disagrees":
        return tr_plural("{count} disagrees", "{count} disagree", count)
    return tr("{count} cannot tell", count=count) if answer == "cannot tell" else f"{count} {answer}"


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
    found = [(f"state-{state}", states[state])]
    of_planned = tr("{count} of {all} planned runs valid", count=valid, all=planned)
    found.append(("state-partial" if valid < planned else "plain", of_planned))
    if len(result.runs) < planned:
        found.append(("state-partial", tr("{count} not run", count=planned - len(result.runs))))
    failed = len({run.folder for run in result.runs if run.failures})
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
    if result.summary.design == "interleaved":
        found.append(("plain", tr("interleaved")))
    found.append(("plain", tr("scale {scale}", scale=result.study.experiment.scale)))
    return found
