"""Published figures: experiments/published/*.toml as ratios, compared with this study's verdicts.

Absolute figures of another host are never compared. An arm corresponds to a published one if its treatments are the
same, or, if the file has none, its name. A published control that is an arm of ours, and the other way round, is
compared by the inverse ratio. Published studies give a ratio, rarely an interval.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from math import log
from typing import Any

from mydyno.errors import BugError
from mydyno.experiment_file.published_studies import PublishedStudy, published_studies
from mydyno.model.definition.experiment import Experiment, Step
from mydyno.model.metrics import split_instance
from mydyno.model.stored.analyses import PublishedEntry
from mydyno.model.stored.reasons import Because, ComparedRatio, fact
from mydyno.model.stored.summary import EffectRecord, LimitRecord
from mydyno.results.precision import alarm_of


class Agreement(StrEnum):
    """The four answers; "cannot tell" is one of them and not a failure."""

    AGREES = "agrees"
    PARTLY = "partly"
    """The same direction is shown, and another size."""
    DISAGREES = "disagrees"
    CANNOT_TELL = "cannot tell"


DECIDED_BY_INTERVAL = {"seems_different", "permutation_alone"}
"""Facts of an inconclusive effect that leave its interval valid: it was given at a look, and nothing contradicts it."""


AGREEMENT = {
    "exploratory": Agreement.CANNOT_TELL,
    "undecided": Agreement.CANNOT_TELL,
    "contains both": Agreement.CANNOT_TELL,
    "both within": Agreement.AGREES,
    "inside": Agreement.AGREES,
    "near": Agreement.AGREES,
    "another size": Agreement.PARTLY,
    "equivalent": Agreement.DISAGREES,
    "outside": Agreement.DISAGREES,
    "opposite": Agreement.DISAGREES,
}
"""What a comparison rests on → its answer."""


def all_of(answers: Collection[Agreement]) -> Agreement:
    """One answer from several: the one that all give; where they differ, partly if any agrees or agrees partly."""
    if not answers or set(answers) == {Agreement.CANNOT_TELL}:
        return Agreement.CANNOT_TELL
    if set(answers) <= {Agreement.DISAGREES, Agreement.CANNOT_TELL}:
        return Agreement.DISAGREES
    if set(answers) <= {Agreement.AGREES, Agreement.CANNOT_TELL}:
        return Agreement.CANNOT_TELL if Agreement.CANNOT_TELL in answers else Agreement.AGREES
    return Agreement.PARTLY


def compare(published: float, effect: EffectRecord, rounding: float = 0.0, margin: float = 0.02) -> ComparedRatio:
    """Compares a published ratio with our effect.

    `rounding` is half of the last digit the publication prints, as a fraction (0.005 for "+25 %"); the published ratio
    is anywhere within it. With a direction: agrees where our interval reaches the published ratio, or our ratio is
    within the margin of it; partly where it has the same direction and another size; disagrees where it has the other
    one or none. With equivalent: agrees where the publication too has no change within the margin, disagrees where its
    ratio lies outside our interval. Inconclusive: disagrees where its ratio lies outside and ours is at most the margin
    in its direction, unless our interval is of blocks between two looks, of too few blocks, or in doubt. An exploratory
    effect has the direction that its own interval shows. Raises BugError for ratios not above 0.
    """
    if not published > 0.0 or not 0.0 <= rounding < published:
        raise BugError(
            f"a published ratio must be above 0 and its rounding smaller than it, not {published!r}, {rounding!r}"
        )
    low, high = effect.ci_low, effect.ci_high
    verdict = effect.verdict or ("" if low is None or high is None else "higher" if low > 1 else _lower(high))
    ours = {"verdict": verdict if effect.verdict else "exploratory", "low": low or 0.0, "high": high or 0.0}
    if low is None or high is None:
        because: Because = "undecided" if effect.verdict else "exploratory"
    elif verdict == "equivalent":
        outside = published + rounding < low or published - rounding > high
        because = "both within" if _within(published, margin) else "equivalent" if outside else "contains both"
    elif verdict in ("higher", "lower"):
        because = _of_direction(published, rounding, verdict == "higher", effect, margin)
    elif _is_refuted(published, rounding, effect, margin):
        because = "outside"
    else:
        because = "undecided" if effect.verdict else "exploratory"
    return ComparedRatio(because=because, published=published, margin=margin, **ours)


def _lower(high: float) -> str:
    return "lower" if high < 1 else ""


def _within(ratio: float, margin: float) -> bool:
    return abs(log(ratio)) <= log(1.0 + margin) + 1e-12


def _of_direction(published: float, rounding: float, higher: bool, effect: EffectRecord, margin: float) -> Because:
    """Where a difference is shown."""
    assert effect.ci_low is not None
    assert effect.ci_high is not None
    if effect.ci_low <= published + rounding and published - rounding <= effect.ci_high:
        return "inside"
    if published - rounding <= 1.0 <= published + rounding:
        return "outside"  # published: no change
    if higher != (published > 1.0):
        return "opposite"
    return "near" if effect.ratio and _within(published / effect.ratio, margin) else "another size"


def _is_refuted(published: float, rounding: float, effect: EffectRecord, margin: float) -> bool:
    """Whether an inconclusive effect has a valid interval that leaves no more than the margin of what is published."""
    if effect.verdict != "inconclusive" or not {one.fact for one in effect.details.facts} <= DECIDED_BY_INTERVAL:
        return False
    assert effect.ci_low is not None
    assert effect.ci_high is not None
    if published > 1.0:
        return effect.ci_high <= 1.0 + margin and published - rounding > effect.ci_high
    return effect.ci_low >= 1.0 / (1.0 + margin) and published + rounding < effect.ci_low


METRIC_KEYS = ("qps", "tps", "cpu_user_pct", "server_cpu_us_per_query", "server_rss_bytes", "server_vsize_bytes")


@dataclass(frozen=True)
class PublishedRatio:
    """One published ratio."""

    metric: str
    workload: str
    connections: int | None
    arm: str
    control: str
    ratio: float
    rounding: float
    instances: int
    table: str
    link_full: bool = False
    """Whether the ratio is that of a full link."""
    here_connections: int | None = None
    """The load of this study that it is compared at, where that is another one."""
    as_queries: bool = False
    """Whether it was published as TPS, and this study decides QPS alone: arms with the same operations have as many
    queries in each transaction."""


def figures_of(study: PublishedStudy) -> Iterator[PublishedRatio]:
    """Every published ratio of a study."""
    for effect in study.effects:
        for metric in METRIC_KEYS:
            percent = getattr(effect, metric)
            if percent is not None:
                yield PublishedRatio(
                    metric, effect.workload, effect.connections, effect.arm, effect.control, 1 + percent / 100,
                    effect.rounding / 100, 1, effect.table,
                )  # fmt: skip
    for table in study.tables:
        rows = table.rows()
        for arm, row in rows.items():
            for connections, value, control in zip(table.connections, row, rows[table.control], strict=True):
                if arm != table.control:
                    ratio = control / value if table.inverse else value / control
                    yield PublishedRatio(
                        table.metric, table.workload, connections, arm, table.control, ratio, 0.0, table.instances,
                        table.table, table.link_full_from is not None and connections >= table.link_full_from,
                    )  # fmt: skip


def compare_with_published(
    experiment: Experiment, effects: Sequence[EffectRecord], limits: Sequence[LimitRecord] = ()
) -> list[PublishedEntry]:
    """The figures of the studies that the experiment names, each that it repeats.

    TPS are left out where they would be compared as QPS and the study published those too: that is one claim.
    """
    known = published_studies()
    full = {(limit.arm, limit.step) for limit in limits if limit.limit == "link"}
    found = []
    for name in experiment.published:
        study = known.get(name)
        for figure in _at_our_loads(figures_of(study), experiment.resolved_steps) if study is not None else ():
            one = _compared(name, figure, _our_arms(experiment, study.arms if study else {}), experiment, effects)
            if one is not None:
                found.append((one[0], _where_the_link_is_full(*one, full)))
    as_qps = {_place(entry) for figure, entry in found if entry.metric == "qps" and not figure.as_queries}
    return [entry for figure, entry in found if not figure.as_queries or _place(entry) not in as_qps]


def _at_our_loads(figures: Iterable[PublishedRatio], steps: Sequence[Step]) -> Iterator[PublishedRatio]:
    """The figures at loads of this study; of an arm that has none there, the one at the nearest number of connections,
    with the load of ours that it is compared at.
    """
    of_arms: dict[tuple[str, ...], list[PublishedRatio]] = {}
    for one in figures:
        of_arms.setdefault((one.table, one.workload, one.metric, one.arm, one.control), []).append(one)
    for (_, workload, *_), group in of_arms.items():
        loads = [step.connections for step in steps if step.workload == workload]
        same = [one for one in group if one.connections is None or one.connections in loads]
        yield from same
        others = [(abs(log(load / one.connections)), load, one) for one in group for load in loads if one.connections]
        if others and not same:
            _, load, nearest = min(others, key=lambda other: other[:2])
            yield replace(nearest, here_connections=load)


def _place(one: PublishedEntry) -> tuple[str, str, str]:
    return one.study, one.step, one.arm


def _where_the_link_is_full(
    figure: PublishedRatio, entry: PublishedEntry, full: Collection[tuple[str, str]]
) -> PublishedEntry:
    """The entry; "cannot tell" where the figure's ratio came from a full link there and no link was full here."""
    if not figure.link_full or any((arm, entry.step) in full for arm in (entry.arm, entry.control)):
        return entry
    return entry.model_copy(update={"agreement": Agreement.CANNOT_TELL.value, "facts": (fact("no link full"),)})


def _our_arms(experiment: Experiment, published: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """{published arm: our arm}, by treatments where the file says them."""
    ours: dict[str, str] = {}
    for name, treatments in published.items():
        for arm in experiment.arms:
            if arm.treatments == treatments:
                ours.setdefault(name, arm.name)
    return {arm.name: arm.name for arm in experiment.arms if arm.name not in published} | ours


def _compared(
    study: str, figure: PublishedRatio, ours: Mapping[str, str], experiment: Experiment, effects: Sequence[EffectRecord]
) -> tuple[PublishedRatio, PublishedEntry] | None:
    """The figure as it was compared, and the entry; None if the experiment does not repeat it."""
    arm, control = ours.get(figure.arm), ours.get(figure.control)
    if arm is None or control is None:
        return None
    of_all = split_instance(figure.metric)[1] is None
    if of_all and figure.instances != experiment.instances_of(experiment.arm(arm)):
        return None
    steps = {step.id: step for step in experiment.resolved_steps}
    effect = _effect_for(figure, arm, control, steps, effects)
    base, instance = split_instance(figure.metric)
    is_of_mean = effect is None and instance is not None
    if is_of_mean:
        figure = replace(figure, metric=f"{base}_per_instance")
        effect = _effect_for(figure, arm, control, steps, effects)
    if effect is None:
        arm, control = control, arm
        figure = replace(figure, ratio=1 / figure.ratio, rounding=figure.rounding / figure.ratio**2)
        effect = _effect_for(figure, arm, control, steps, effects)
    if effect is None:
        return None
    if figure.metric == "tps" and effect.verdict is None:
        by_queries = _effect_for(
            replace(figure, metric="qps"), arm, control, {effect.step: steps[effect.step]}, effects
        )
        if by_queries is not None and by_queries.verdict is not None:
            effect, figure = by_queries, replace(figure, metric="qps", as_queries=True)
    margin = experiment.verdict.margin_of(figure.metric)
    is_in_doubt = effect.verdict is None and alarm_of(effects) is not None
    counted = effect.model_copy(update={"ci_low": None, "ci_high": None}) if is_in_doubt else effect
    said = compare(figure.ratio, counted, figure.rounding, margin)
    answer = AGREEMENT[said.because]
    notes = [fact("table", table=figure.table)]
    if figure.here_connections is not None and figure.connections is not None:
        notes.append(fact("other load", published=figure.connections, here=figure.here_connections))
        answer = Agreement.CANNOT_TELL if answer == Agreement.DISAGREES else answer
    if is_of_mean:
        notes.append(fact("of the mean", instance=str(instance)))
    if figure.connections is None:
        notes.append(fact("whole sweep"))
    if figure.as_queries:
        notes.append(fact("as queries"))
    entry = PublishedEntry.like(
        effect,
        study=study,
        metric=figure.metric,
        arm=arm,
        control=control,
        published_ratio=figure.ratio,
        agreement=answer.value,
        facts=(fact("ratio", ratio=said),),
        notes=tuple(notes),
    )
    return figure, entry


def _effect_for(
    figure: PublishedRatio, arm: str, control: str, steps: Mapping[str, Step], effects: Sequence[EffectRecord]
) -> EffectRecord | None:
    """Our effect at the figure's load; of a figure for a whole sweep, our largest one, or if nothing is decided the one
    that could be.
    """
    candidates = [
        effect
        for effect in effects
        if effect.metric == figure.metric
        and (effect.arm, effect.control) == (arm, control)
        and effect.step in steps
        and steps[effect.step].workload == figure.workload
        and (figure.here_connections or figure.connections) in (None, steps[effect.step].connections)
    ]
    measured = [effect for effect in candidates if effect.ratio]
    if not measured:
        return candidates[0] if candidates else None
    if all(effect.verdict == "inconclusive" for effect in measured):
        return max(measured, key=lambda one: (one.ci_high or 1.0) if figure.ratio > 1.0 else 1.0 / (one.ci_low or 1.0))
    return max(measured, key=lambda effect: abs(log(effect.ratio or 1.0)))
