"""The question, the answer in sentences, and one verdict per arm and load level."""

from __future__ import annotations

from markupsafe import Markup

from mydyno.model.records import EffectRecord
from mydyno.reports.numbers import metric_name, percent, signed_percent
from mydyno.reports.result import StudyResult
from mydyno.reports.sections.section import Cell, Section, Table, render

WORDS = {
    "higher": "higher",
    "lower": "lower",
    "equivalent": "equivalent",
    "inconclusive": "inconclusive",
    "not_measurable": "not measurable",
}
DECIDED = ("higher", "lower", "equivalent")
SHOWN = 8
"""Sentences that stand open; a sweep has dozens, and the table beside them holds them all."""
SHOWN_UNDECIDED = 3
"""Of what could not be decided, where nothing could be."""
SYMBOLS = {"higher": "▲", "lower": "▼", "equivalent": "≈", "inconclusive": "?", "not_measurable": "∅"}


def build(result: StudyResult) -> Section:
    """The first section. Without effects it says why there is no answer."""
    summary = result.summary
    primary = result.effects(summary.primary)
    declared = tuple(effect for effect in summary.effects if effect.verdict and effect.metric != summary.primary)
    shown, others = _sentences(result, (*primary, *declared))
    return Section(
        "answer",
        "Answer",
        "Answer",
        render(
            "answer.html",
            state=_state_words(result),
            sentences=shown or ("No sentence can be printed: the study has no evaluated effect.",),
            verdicts=_verdict_table(result) if primary else None,
            legend=[(SYMBOLS[word], WORDS[word], css) for word, css in _words_used(result, primary)],
            others=others,
            metric=metric_name(summary.primary),
            margin=percent(summary.margin),
        ),
    )


def _sentences(result: StudyResult, effects: tuple[EffectRecord, ...]) -> tuple[list[str], list[str]]:
    """What is said at once, and what is folded: decided verdicts come first, each sentence once, in its own order."""
    decided = [effect.sentence for effect in effects if effect.verdict in DECIDED]
    undecided = {effect.sentence for effect in effects if effect.verdict not in DECIDED}
    general = [sentence for sentence in result.summary.sentences if sentence not in {*decided, *undecided}]
    every = list(dict.fromkeys((*general, *decided, *result.summary.sentences, *(one.sentence for one in effects))))
    at_once = [sentence for sentence in every if sentence not in undecided][:SHOWN]
    if not decided:
        at_once += [sentence for sentence in every if sentence in undecided][:SHOWN_UNDECIDED]
    return at_once, [sentence for sentence in every if sentence not in at_once]


def _state_words(result: StudyResult) -> str:
    """What a study that is not complete means for its answer; empty for a complete one."""
    planned, finished = len(result.plan.runs), len(result.runs)
    if result.runs and not result.any_valid:
        return "No run of this study is valid, so it answers nothing. The gates below say why."
    if result.summary.state == "complete":
        return ""
    words = {"partial": "This study is not finished", "failed": "This study failed"}[result.summary.state]
    return f"{words}: {finished} of {planned} planned runs are there. What follows holds for these runs alone."


def chips(result: StudyResult) -> list[tuple[str, str]]:
    """(CSS class, text) of what must be known before anything else is read: state, runs, scale."""
    planned = len(result.plan.runs)
    valid = sum(run.valid for run in result.runs)
    state = result.summary.state
    found = [(f"state-{state}", {"complete": "complete", "partial": "partial study", "failed": "failed study"}[state])]
    found.append(("state-partial" if valid < planned else "plain", f"{valid} of {planned} planned runs valid"))
    if len(result.runs) < planned:
        found.append(("state-partial", f"{planned - len(result.runs)} not run"))
    unused = len(result.unused_steps)
    if unused:
        steps = valid * len(result.steps)
        found.append(("state-partial", f"{unused} of their {steps} steps not valid"))
    blocks = len(result.plan.blocks)
    found.append(("plain", f"{blocks} block" + ("" if blocks == 1 else "s")))
    found.append(("plain", f"scale {result.study.experiment.scale}"))
    return found


def merit(result: StudyResult, effect: EffectRecord) -> str:
    """The CSS class of a verdict: better, worse, or neither."""
    if effect.verdict in ("higher", "lower"):
        metric = result.summary.metrics.get(effect.metric)
        better = metric.better if metric else "none"
        return "neutral" if better == "none" else "better" if better == effect.verdict else "worse"
    return {"equivalent": "same", "inconclusive": "open"}.get(effect.verdict or "", "none")


def _words_used(result: StudyResult, effects: tuple[EffectRecord, ...]) -> list[tuple[str, str]]:
    return list(dict.fromkeys((effect.verdict, merit(result, effect)) for effect in effects if effect.verdict))


def _verdict_table(result: StudyResult) -> Table:
    effects = result.effects(result.summary.primary)
    compared = {effect.arm for effect in effects}
    arms = [arm for arm in result.styles if arm in compared]
    own = {(arm, control) for control, of in result.study.experiment.contrasts().items() for arm in of}
    by_place: dict[tuple[str, str], EffectRecord] = {}
    # An arm can be compared with several controls; its column is about its own, not about verdict.compare's.
    for effect in sorted(effects, key=lambda effect: (effect.arm, effect.control) not in own):
        by_place.setdefault((effect.step, effect.arm), effect)
    rows: list[list[str | Cell]] = []
    for workload in result.workloads:
        rows.append([workload])
        for step in result.steps_of_workload(workload):
            rows.append([step.amount_text, *(_cell(result, by_place.get((step.id, arm))) for arm in arms)])
    controls = list(dict.fromkeys(effect.control for effect in by_place.values()))
    relative_to = controls[0] if len(controls) == 1 else result.relative_to
    levels = " or ".join(dict.fromkeys(step.amount_name for step in result.steps))
    caption = f"{metric_name(result.summary.primary)} relative to {relative_to}, by number of {levels}"
    return Table(caption, [levels, *arms], rows)


def _cell(result: StudyResult, effect: EffectRecord | None) -> Cell:
    if effect is None:
        return Cell("–", "none")
    word = effect.verdict or ""
    text = signed_percent(effect.ratio - 1) if effect.ratio is not None else "no estimate"
    mark = Markup('<span class="symbol" aria-hidden="true">{}</span><span class="reader">{}: </span>').format(
        SYMBOLS.get(word, ""), WORDS.get(word, "")
    )
    return Cell(text, f"verdict {merit(result, effect)}", mark)
