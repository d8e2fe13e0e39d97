"""What a comparison of studies says: its answer, what may be concluded, and the document with effects, settings that
differ, and noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from mydyno.across.settings import causes, settings_part
from mydyno.document.drawing import COLOURS, SHAPES, ArmStyle
from mydyno.document.forest import ForestGroup, ForestRow, forest_charts
from mydyno.document.parts import Cell, Document, Figure, FigureGroup, Figures, Fold, Listed, Part, Table
from mydyno.language import agreed, listing
from mydyno.model.metrics import metric_source, phrase_of
from mydyno.model.stored.comparison import (
    ArmEffect,
    ComparedEffect,
    ComparedStudy,
    Comparison,
    EffectDifference,
    HistorySeries,
    IndirectEffect,
    OwnEffect,
)
from mydyno.model.stored.summary import StepLevel, at_step, step_words
from mydyno.reports.verdicts import verdict_cell
from mydyno.stats.level_changes import FEWEST_SESSIONS
from mydyno.wording.numbers import (
    NARROW_SPACE,
    NONE,
    blocks,
    change_words,
    metric_name,
    percent,
    ratio_interval,
    signed,
    signed_percent,
    size_range,
    when,
)
from mydyno.wording.verdicts import NO_ESTIMATE, WORDS, failure_clause, merit_of, sign_and_word

MOST_SENTENCES = 3
MOST_SETTINGS = 3
"""Settings that a sentence names; of more it gives the number."""
DIFFERENT = ("higher", "lower")
LEVELS = f"95{NARROW_SPACE}% intervals"
Rows = list[Sequence[str | Cell]]
Effect = TypeVar("Effect", ArmEffect, ComparedEffect, HistorySeries)


def answer(comparison: Comparison) -> tuple[str, ...]:
    """One to three sentences: what differs, what does not, and what cannot be compared."""
    if not comparison.comparable:
        return (f"{_names(comparison)} cannot be compared: {_why_not(comparison)}.",)
    judged = [(one, of) for one in comparison.effects for of in one.differences if one.primary]
    if not judged:
        return _unjudged(comparison)
    different = [pair for pair in judged if pair[1].verdict in DIFFERENT]
    found = [_difference(comparison, *pair) for pair in different[: MOST_SENTENCES - 1]]
    if len(different) >= MOST_SENTENCES:
        clauses = _clauses(comparison, different)
        found = [agreed(f"{len(different)} of {len(judged)} effects differ: {clauses}.")]
    hidden = [pair for pair in judged if pair[1].verdict == "inconclusive" and pair[1].reason]
    if hidden and len(found) < MOST_SENTENCES:
        which = [f"{one.arm} on {phrase_of(one.metric).short_noun}" for one, _ in hidden]
        found.append(
            f"The effect of {listing(list(dict.fromkeys(which)))} differs by more than the noise of both "
            f"sessions, but {hidden[0][1].reason}: no difference is claimed."
        )
    if different and not causes(comparison.settings):
        found.append("No recorded setting differs: this is the difference between two sessions of the same servers.")
    rest = [pair for pair in judged if pair not in different and pair not in hidden]
    for verdict in ("equivalent", "inconclusive", "not_measurable"):
        of = [pair for pair in rest if pair[1].verdict == verdict]
        if of and len(found) < MOST_SENTENCES:
            found.append(_alike(comparison, of, verdict))
    return tuple(found)


def conclusions(comparison: Comparison) -> tuple[str, ...]:
    """What may be concluded, and what not."""
    if not comparison.comparable:
        return ()
    found = [
        "Only effects are compared, each relative to the control of its own study, never runs of different "
        "studies; the intervals contain the noise of both."
    ]
    named = causes(comparison.settings)
    if not named:
        found.append("No recorded setting differs, so a difference is one between the sessions.")
    elif len(named) == 1:
        found.append(
            f"The one recorded setting that differs is {named[0]}. A difference may be its effect, or one "
            "between the sessions: a study with both as arms separates the two."
        )
    else:
        more = [f"{len(named) - MOST_SETTINGS} more"] if len(named) > MOST_SETTINGS else []
        these = listing([*named[:MOST_SETTINGS], *more])
        differ = agreed(f"{len(named)} recorded settings differ ({these})")
        found.append(f"{differ}; a difference cannot be attributed to one of them.")
    found += _level_words(comparison)
    found.append(_scatter_words(comparison))
    return tuple(found)


def _scatter_words(comparison: Comparison) -> str:
    """What is known of the scatter between sessions, and so what the verdicts are about."""
    judged = [one for effect in comparison.effects if effect.primary for one in effect.differences]
    known = [one for one in judged if one.session_sd is not None]
    if known:
        sds = size_range([one.session_sd or 0.0 for one in known])
        few = len(judged) - len(known)
        some = agreed(f" {few} effects have too few sessions for it.") if few else ""
        told = agreed(
            "The intervals include the variation between sessions on this host: the sd of an effect between "
            f"sessions is {sds}, from {known[0].sessions} comparable studies."
        )
        return told + some
    most = max((one.sessions for one in judged), default=0)
    return agreed(
        f"The variation between sessions is not known: to estimate it, {FEWEST_SESSIONS} comparable studies on "
        f"one host are needed, and {most} are found. The verdicts apply to these sessions only: other sessions "
        "of the same servers can differ as much."
    )


def difference_words(one: EffectDifference) -> str:
    """Size and interval: "+4.7 % (between +2.1 % and +7.4 %)"."""
    return "no estimate" if one.ratio is None else change_words(one.ratio, one.ci_low, one.ci_high)


def indirect_words(comparison: Comparison, one: IndirectEffect) -> str:
    """An indirect comparison as a sentence."""
    of = one.difference
    return (
        f"{one.second_arm} in {of.second} against {one.first_arm} in {of.first} over the common control {one.control}, "
        f"{phrase_of(one.metric).noun} at {step_words(comparison.steps, one.step)}: {difference_words(of)}."
    )


def _names(comparison: Comparison) -> str:
    return listing([f"{one.label} ({one.study})" for one in comparison.studies])


def _why_not(comparison: Comparison) -> str:
    early = [one.label for one in comparison.studies if one.notes and not one.blocks]
    if early:
        return (
            f"{listing(early)} {'has' if len(early) == 1 else 'have'} not reached the first interim analysis, so there "
            "are no effects yet"
        )
    # Steps that one study lacks explain nothing where they have others in common.
    last = sorted(comparison.not_compared, key=lambda one: one.what.startswith("load level "))
    reasons = [f"{one.what}: {one.reason}" for one in last]
    start = "they share no pair of arm and control" if comparison.steps else "they have no load level in common"
    return f"{start} ({'; '.join(reasons[:4])})" if reasons else start


def _unjudged(comparison: Comparison) -> tuple[str, ...]:
    if comparison.effects:
        return ("No metric has a verdict in all studies, so differences are exploratory: intervals without verdicts.",)
    lines = [indirect_words(comparison, one) for one in comparison.indirect[:MOST_SENTENCES]]
    return ("The studies have no arm in common; arms are compared over the common control, without verdicts.", *lines)


def _difference(comparison: Comparison, one: ComparedEffect, of: EffectDifference) -> str:
    """E.g. "The effect of jemalloc on queries per second is higher in B than in A: +9.1 % against +4.2 %, …"."""
    first, second = _sizes(one, of)
    return (
        f"{_effect(comparison, one)} is {of.verdict} in {of.second} than in {of.first}, in these sessions: {second} "
        f"against {first}; {of.second} / {of.first}: {difference_words(of)}."
    )


def effect_words(arm: str, metric: str, at: str) -> str:
    """The beginning of a sentence; `at`: as of at_step()."""
    return f"The effect of {arm} on {phrase_of(metric).short_noun}{at}"


def _effect(comparison: Comparison, one: ComparedEffect) -> str:
    return effect_words(one.arm, one.metric, at_step(comparison.steps, one.step))


def _sizes(one: ComparedEffect, of: EffectDifference) -> tuple[str, str]:
    """The effect in the first and in the second study."""
    first, second = (_size(_of(one, label)) for label in (of.first, of.second))
    return first, second


def _clauses(comparison: Comparison, pairs: Sequence[tuple[ComparedEffect, EffectDifference]]) -> str:
    ordered = sorted(pairs, key=lambda pair: -abs((pair[1].ratio or 1.0) - 1.0))[:MOST_SETTINGS]
    clauses = [
        f"{one.arm} ({phrase_of(one.metric).short_noun}, {step_words(comparison.steps, one.step)}) is {of.verdict} "
        f"in {of.second} than in {of.first} by {difference_words(of)}"
        for one, of in ordered
    ]
    return "; ".join([*clauses, *(["…"] if len(pairs) > len(ordered) else [])])


def _alike(comparison: Comparison, pairs: Sequence[tuple[ComparedEffect, EffectDifference]], verdict: str) -> str:
    """The contrasts without a difference, in one sentence."""
    if len(pairs) == 1:
        ((one, of),) = pairs
        effect, (first, second) = _effect(comparison, one), _sizes(one, of)
        if verdict == "not_measurable":
            return f"{effect} cannot be compared: {of.reason}."
        what = f"No difference is shown for t{effect[1:]}"
        if verdict == "equivalent":
            what = f"{effect} is equivalent in {of.first} and {of.second}"
        sizes = f"{first} in {of.first}, {second} in {of.second}"
        return f"{what}: {sizes}; {of.second} / {of.first}: {difference_words(of)}."
    if verdict == "equivalent":
        return agreed(f"{len(pairs)} effects are equivalent: each differs between the studies by less than the margin.")
    if verdict == "inconclusive":
        widest = max(pairs, key=lambda pair: (pair[1].ci_high or 1.0) / (pair[1].ci_low or 1.0))[1]
        return agreed(
            f"For {len(pairs)} effects no difference is shown; the widest interval is from "
            f"{signed((widest.ci_low or 1.0) - 1)} to {signed((widest.ci_high or 1.0) - 1)}."
        )
    reasons = list(dict.fromkeys(of.reason for _, of in pairs))
    return agreed(f"{len(pairs)} effects cannot be compared: {'; '.join(reasons[:2])}.")


def _of(one: ComparedEffect, label: str) -> OwnEffect:
    return next(effect for effect in one.effects if effect.label == label)


def _size(effect: OwnEffect) -> str:
    return "failed" if effect.failure else "no estimate" if effect.ratio is None else signed(effect.ratio - 1)


def _level_words(comparison: Comparison) -> list[str]:
    """What the level of the control shows of the sessions; one sentence for each pair of studies."""
    found = []
    for second in dict.fromkeys(one.second for one in comparison.control_levels):
        levels = [one for one in comparison.control_levels if one.second == second]
        one = max(levels, key=lambda level: abs(level.ratio - 1.0))
        noun = phrase_of(one.metric).short_noun
        level = f"{noun[0].upper()}{noun[1:]} of the control{at_step(comparison.steps, one.step)}"
        size = f"{level}: {change_words(one.ratio, one.ci_low, one.ci_high)} in {second} against {one.first}"
        found.append(
            f"The control is the same in {one.first} and {second}. {size}: that is the difference between the "
            "sessions. Relative to the control, the differences of effects are also those of the arms' levels."
            if one.same_control
            else f"The controls of {one.first} and {second}, or their load, are not the same. {size}: it contains more "
            "than the difference between the sessions, so levels are not compared."
        )
    return found


def comparison_document(comparison: Comparison, whole: bool = False) -> Document:
    """Of studies. `whole`: with charts and all tables."""
    studies, steps = comparison.studies, comparison.steps
    refused = [f"{one.what}: {one.reason}" for one in comparison.not_compared]
    experiments = " and ".join(dict.fromkeys(one.experiment for one in studies))
    return Document(
        title=agreed(f"{experiments}: {len(studies)} studies compared"),
        over="comparison",
        below=" · ".join(dict.fromkeys(one.question for one in studies)),
        parts=[
            answer_part(
                comparison.answer,
                effects_table(comparison, judged=True),
                comparison.conclusions,
                [indirect_words(comparison, one) for one in comparison.indirect],
            ),
            Part(
                id="studies", heading="What each study asked and answered", short="Studies",
                body=[_study(one, whole) for one in studies],
            ),
            *([_forests(comparison)] if whole else []),
            settings_part(comparison.settings, [one.label for one in studies], whole),
            noise_part(studies, steps, levels_table(comparison)),
            *([_exploratory(comparison)] if whole else []),
            Part(
                id="refused", heading="Not compared", folded=True, says=f"{len(refused)} without common ground",
                body=[Listed(refused)],
            ),
        ],
    )  # fmt: skip


def answer_part(
    said: Sequence[str], table: Table | None, concluded: Sequence[str], indirect: Sequence[str] = ()
) -> Part:
    """The answer with its table, and what may be concluded."""
    over_control = Listed(indirect, "Arms over the common control (exploratory)")
    body = [table, over_control, Listed(concluded, "What may be concluded")]
    return Part(id="answer", heading="Answer", lead=said, body=body)


def _study(one: ComparedStudy, with_scope: bool) -> Listed:
    where = ", ".join((f"{when(one.created_unix_ns)} UTC", one.server, one.host, blocks(one.blocks), one.state))
    scope = [one.scope] if with_scope else []
    lines = [where, *one.answer, *scope, *(f"Note: {note}." for note in one.notes)]
    return Listed(lines, f"{one.label}  {one.study}: {one.question}")


def _forests(comparison: Comparison) -> Part:
    """The studies' own effects with their intervals below one another, one chart for each metric and step."""
    styles = [
        ArmStyle(one.label, one.label, place % COLOURS, SHAPES[place % len(SHAPES)], "")
        for place, one in enumerate(comparison.studies)
    ]
    figures = []
    judged = [one for one in comparison.effects if one.primary]
    for (metric, step), effects in by_step(judged).items():
        groups = [
            ForestGroup(
                one.arm,
                tuple(
                    ForestRow.of(style, of.ratio, of.ci_low, of.ci_high, word=sign_and_word(of.verdict))
                    for style, of in zip(styles, one.effects, strict=True)
                ),
            )
            for one in effects
        ]
        heading = metric_at(metric, comparison.steps, step)
        described = "Each study's own effects with their intervals; the table above has the same numbers."
        charts = forest_charts(f"across:{metric}:{step}", heading, described, groups)
        figures.append(Figure(charts, None, heading, "double"))
    intro = "Each study's own effects, each relative to the control of that study."
    drawn = Figures([FigureGroup("Effects in each study", figures)], intro=intro)
    return Part(id="effects", heading="Effects with their intervals", short="Effects", body=[drawn])


def noise_part(studies: Sequence[ComparedStudy], steps: Sequence[StepLevel], levels: Table | None = None) -> Part:
    """Of each study, and between the sessions."""
    heading = "Noise: two copies of the control" + (", and the difference between the sessions" if levels else "")
    return Part(id="noise", heading=heading, short="Noise", body=[noise_table(studies, steps), levels])


def _exploratory(comparison: Comparison) -> Part:
    metrics = dict.fromkeys(one.metric for one in comparison.effects if not one.primary)
    found = [(metric_name(metric), effects_table(comparison, judged=False, metric=metric)) for metric in metrics]
    return Part(
        id="exploratory", heading="Other metrics: exploratory", short="Other metrics", folded=True,
        says=agreed(f"{len(found)} metrics with unadjusted intervals and without verdicts"),
        body=[Fold(name, [table]) for name, table in found],
    )  # fmt: skip


def effects_table(comparison: Comparison, judged: bool, metric: str | None = None) -> Table | None:
    """Effects with their ratios; those with verdicts, or the exploratory ones of a metric."""
    chosen = [one for one in comparison.effects if one.primary == judged and metric in (None, one.metric)]
    if not chosen:
        return None
    several = len({one.control for one in chosen}) > 1
    rows: Rows = []
    for (of, step), effects in by_step(chosen).items():
        rows.append([metric_at(of, comparison.steps, step)])
        rows += [_effect_row(one, several) for one in effects]
    first, *others = [one.label for one in comparison.studies]
    head = ("arm", *(f"effect in {label}" for label in (first, *others)), *(f"{label} / {first}" for label in others))
    how = f"simultaneous {LEVELS}" if judged else f"unadjusted {LEVELS}, no verdicts"
    caption = f"Each effect relative to the control of its own study; the ratios of effects with {how}"
    return Table(caption, head, rows)


def noise_table(studies: Sequence[ComparedStudy], steps: Sequence[StepLevel]) -> Table | None:
    """How far two copies of the control were apart in each study."""
    rows: Rows = []
    for metric, step in dict.fromkeys((one.metric, one.step) for study in studies for one in study.noise):
        cells = []
        for study in studies:
            found = next((one for one in study.noise if (one.metric, one.step) == (metric, step)), None)
            if found is None:
                cells.append(Cell(NONE))
                continue
            typical = f"{percent(found.typical)} in a typical block"
            below = "; ".join(filter(None, (ratio_interval(found.ci_low, found.ci_high), typical)))
            cells.append(Cell(signed_percent(found.ratio - 1), "num", below=below))
        rows.append([metric_at(metric, steps, step), *cells])
    if not rows:
        return None
    caption = (
        f"A′ relative to A, two copies of each study's control: mean over blocks with its 95{NARROW_SPACE}% interval"
    )
    return Table(
        caption, ("metric, load level", *(one.label if len(studies) > 1 else "A′ / A" for one in studies)), rows
    )


def levels_table(comparison: Comparison) -> Table | None:
    """Difference between the sessions."""
    if not comparison.control_levels:
        return None
    rows: Rows = [
        [
            metric_at(one.metric, comparison.steps, one.step),
            f"{one.second} / {one.first}",
            Cell(signed_percent(one.ratio - 1), "num", below=ratio_interval(one.ci_low, one.ci_high)),
            "the same" if one.same_control else "not the same",
        ]
        for one in comparison.control_levels
    ]
    head = ("metric, load level", "studies", "ratio", "control")
    return Table("The level of the control from session to session", head, rows)


def by_step(effects: Sequence[Effect]) -> dict[tuple[str, str], list[Effect]]:
    """{(metric, step): its effects}."""
    found: dict[tuple[str, str], list[Effect]] = {}
    for one in effects:
        found.setdefault((one.metric, one.step), []).append(one)
    return found


def step_heading(steps: Sequence[StepLevel], step: str) -> str:
    """A step by workload and level."""
    found = next((one for one in steps if one.id == step), None)
    return step if found is None else ", ".join((found.workload, found.level))


def metric_at(metric: str, steps: Sequence[StepLevel], step: str) -> str:
    """A metric and a step in words."""
    return f"{metric_name(metric)}, {step_heading(steps, step)}"


def _effect_row(one: ComparedEffect, several: bool) -> list[str | Cell]:
    return [
        Cell(
            f"{one.arm} against {one.control}" if several else one.arm, below="defined differently" if one.note else ""
        ),
        *(effect_cell(effect, one.arm, one.control, one.metric) for effect in one.effects),
        *(_difference_cell(of, one.metric) for of in one.differences),
    ]


def effect_cell(effect: OwnEffect, arm: str, control: str, metric: str) -> Cell:
    """An effect within one study, or who failed."""
    if why := failure_clause(effect.failure, arm, control):
        return verdict_cell("failed", WORDS["failed"], why, "failed")
    if effect.ratio is None:
        return verdict_cell(effect.verdict or "", WORDS[effect.verdict] if effect.verdict else NO_ESTIMATE, "", "none")
    return _cell(effect.ratio, effect, metric)


def _difference_cell(of: EffectDifference, metric: str) -> Cell:
    if of.verdict == "not_measurable" or of.ratio is None:
        return verdict_cell("not_measurable", WORDS["not_measurable"], of.reason, "none")
    return _cell(of.ratio, of, metric)


def _cell(ratio: float, of: OwnEffect | EffectDifference, metric: str) -> Cell:
    source = metric_source(metric)
    merit = merit_of(of.verdict, source.better if source else "none")
    return verdict_cell(of.verdict or "", signed_percent(ratio - 1), ratio_interval(of.ci_low, of.ci_high), merit)
