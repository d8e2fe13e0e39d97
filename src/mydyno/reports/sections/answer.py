"""The question answered: short sentences, one table, what would improve it, and its scope."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from mydyno.reports.numbers import percent
from mydyno.reports.result import StudyResult
from mydyno.reports.sections.section import Section, render
from mydyno.reports.verdict_table import SYMBOLS, WORDS, verdict_table


def build(result: StudyResult) -> Section:
    """The first section. Without effects it says why there is no answer."""
    table = verdict_table(result)
    found = result.answer
    return Section(
        "answer",
        "Answer",
        "Answer",
        render(
            "answer.html",
            state=_state_words(result),
            answer=found.answer,
            table=table,
            legend=[(SYMBOLS[word], WORDS[word], css) for word, css in table.words()] if table else [],
            sharpen=found.sharpen,
            scope=found.scope,
            conclusions=[one.sentence for one in result.summary.conclusions],
            concluded=counted(one.answer for one in result.summary.conclusions),
            sentences=result.sentences,
            margin=percent(result.summary.margin),
        ),
    )


def counted(answers: Iterable[str]) -> str:
    """The number of each answer: "2 agree, 1 cannot tell"."""
    found = Counter(answers)
    words = {"agrees": ("agrees", "agree"), "disagrees": ("disagrees", "disagree")}
    return ", ".join(f"{count} {words.get(one, (one, one))[count > 1]}" for one, count in found.most_common())


def _state_words(result: StudyResult) -> str:
    """What a study that is not complete means for its answer; empty for a complete one."""
    planned, finished = len(result.plan.runs), len(result.runs)
    if result.runs and not result.any_valid:
        return "No run of this study is valid, so there is no answer. The gates below show the reasons."
    if result.summary.state == "complete":
        return ""
    words = {"partial": "This study is not finished", "failed": "This study failed"}[result.summary.state]
    return f"{words}: {finished} of {planned} planned runs are finished. The report covers these runs only."


def chips(result: StudyResult) -> list[tuple[str, str]]:
    """(CSS class, text) of what must be known before anything else is read: state, runs, scale."""
    planned = len(result.plan.runs)
    valid = sum(run.valid for run in result.runs)
    state = result.summary.state
    found = [(f"state-{state}", {"complete": "complete", "partial": "partial study", "failed": "failed study"}[state])]
    found.append(("state-partial" if valid < planned else "plain", f"{valid} of {planned} planned runs valid"))
    if len(result.runs) < planned:
        found.append(("state-partial", f"{planned - len(result.runs)} not run"))
    failed = len({run.folder for run in result.runs if run.failures})
    if failed:
        found.append(("state-failed", f"an arm failed in {failed} run{'' if failed == 1 else 's'}"))
    unused = len(result.unused_steps)
    if unused:
        steps = valid * len(result.steps)
        found.append(("state-partial", f"{unused} of their {steps} steps not valid"))
    blocks = len({run.block for run in result.runs}) or len(result.plan.blocks)
    found.append(("plain", f"{blocks} block" + ("" if blocks == 1 else "s")))
    if result.group_of:
        found.append(("plain", f"{len(set(result.group_of.values()))} hosts"))
    if result.summary.design == "interleaved":
        found.append(("plain", "interleaved"))
    found.append(("plain", f"scale {result.study.experiment.scale}"))
    return found
