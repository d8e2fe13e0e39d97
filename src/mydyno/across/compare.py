"""A comparison of two or more studies: which of their effects differ, with the noise of both sessions.

What is compared is the effect in one study relative to the effect in another: a ratio of ratios, each to its own
control in its own blocks (stats/contrast.py). The first study is the reference of all others. Contrasts that have a
verdict in every study are one family, held together by Bonferroni; equivalence is per contrast, as in a study. The
rest is exploratory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import expm1, sqrt

import numpy as np

from mydyno.across.comparison import answer, conclusions
from mydyno.across.history import Scatter, estimate_of, mean_log, mean_of, session_scatter
from mydyno.across.saved import MOST_STUDIES, SavedStudy, label, without_copies
from mydyno.across.settings import differing_definition, same_control, step_options, study_settings
from mydyno.errors import UserError
from mydyno.evaluation.answer import answer_study
from mydyno.language import agreed, listing
from mydyno.model.definition.experiment import Step
from mydyno.model.frozen_record import Contrast
from mydyno.model.stored.comparison import (
    ComparedEffect,
    ComparedStudy,
    Comparison,
    ControlLevel,
    CopiesNoise,
    EffectDifference,
    IndirectEffect,
    NotCompared,
    StudyEffect,
    VerdictWord,
)
from mydyno.model.stored.summary import EffectRecord, StepLevel
from mydyno.results.precision import alarm_of
from mydyno.stats.contrast import Estimate, difference, with_sessions
from mydyno.stats.tost import equivalence
from mydyno.wording.numbers import size
from mydyno.wording.verdicts import alarm_clause, obstacle, recorded_failure

ALPHA = 0.05
MOST_INDIRECT = 12
"""Pairs of arms over a common control; with more, too many are compared to be read."""
NO_SCATTER = Scatter(0, None)
FEWEST_BLOCKS = 3
"""With fewer blocks in a study an interval is no more than a guess at the noise."""


def compare_studies(studies: Sequence[SavedStudy], beside: Sequence[SavedStudy] = ()) -> Comparison:
    """The comparison of two or more studies. Raises UserError for one that is there twice, or more than 26.

    `beside`: other studies, which show how much sessions differ (history.py).
    """
    _check(studies)
    ground = common_ground(studies)
    judged = [one for one in ground.contrasts if all(study.effects[one].verdict for study in studies)]
    pairs = [(studies[0].effects[one], study.effects[one]) for one in judged for study in studies[1:]]
    contrasts = sum(first.ratio is not None and other.ratio is not None for first, other in pairs)
    judge = _Judge(studies, max(1, contrasts), beside)
    effects = [_compared(judge, one, one in judged) for one in ground.contrasts]
    indirect = _indirect(studies, ground, judge)
    made = Comparison(
        studies=tuple(compared_study(study, place) for place, study in enumerate(studies)),
        comparable=bool(effects or indirect),
        answer=(),
        conclusions=(),
        settings=study_settings(studies),
        steps=tuple(StepLevel.like(step) for step in ground.steps),
        margin=judge.margin(studies[0].summary.primary),
        contrasts=contrasts,
        alpha=ALPHA,
        effects=tuple(sorted(effects, key=lambda one: not one.primary)),
        indirect=indirect,
        control_levels=_control_levels(studies, ground),
        not_compared=ground.refused,
    )
    return made.model_copy(update={"answer": answer(made), "conclusions": conclusions(made)})


def compared_study(study: SavedStudy, place: int) -> ComparedStudy:
    """A study with its question, answer and noise."""
    summary, experiment = study.summary, study.study.experiment
    found = answer_study(summary, study.study, tuple(study.folder.runs()))
    return ComparedStudy(
        label=label(place),
        study=study.name,
        experiment=summary.experiment,
        question=summary.question or experiment.question,
        answer=found.answer,
        scope=found.scope,
        created_unix_ns=study.study.created_unix_ns,
        server=study.server,
        host=study.host,
        state=summary.state,
        blocks=0 if study.before_first_look else len(study.examined_blocks),
        control=summary.control,
        noise=noise_of(study),
        alarm=alarm_clause(alarm_of(summary.effects)),
        notes=_notes(study),
    )


def _notes(study: SavedStudy) -> tuple[str, ...]:
    """What limits a study's part in a comparison."""
    if study.before_first_look:
        return ("it has not reached its first interim analysis, so it has no effects yet",)
    limits = {
        "partial": "it is not finished; more blocks may change its effects", "failed": "it failed: it has no valid run",
    }  # fmt: skip
    return tuple(words for state, words in limits.items() if state == study.summary.state)


def noise_of(study: SavedStudy) -> tuple[CopiesNoise, ...]:
    """How far the copies of the control were apart, for each metric with verdicts at each step."""
    if study.before_first_look:
        return ()
    found = [_noise(study, metric, step.id) for metric in study.judged_metrics for step in study.summary.steps]
    return tuple(one for one in found if one is not None)


@dataclass(frozen=True)
class _Judge:
    """What holds for all differences of a comparison."""

    studies: Sequence[SavedStudy]
    contrasts: int
    beside: Sequence[SavedStudy] = ()

    def margin(self, metric: str) -> float:
        """The smallest margin that a study declares for a metric."""
        return min(study.study.experiment.verdict.margin_of(metric) for study in self.studies)

    def difference(
        self,
        places: tuple[int, int],
        records: tuple[EffectRecord, EffectRecord],
        judged: bool,
        scatter: Scatter = NO_SCATTER,
    ) -> EffectDifference:
        """The second effect relative to the first, with a verdict if `judged`."""
        pair = [self.studies[place] for place in places]
        first, second = (estimate_of(record, study.summary.alpha) for record, study in zip(records, pair, strict=True))
        alone = difference(first, second)
        found = alone if scatter.sd is None else with_sessions(alone, scatter.sd, scatter.sessions)
        count = self.contrasts if judged else 1
        interval = found.interval(ALPHA / count, 1.0 - ALPHA)
        p = found.p()
        verdict, reason = self._verdict(found, pair, records) if judged else (None, _unmeasured(records))
        session_sd = None if scatter.sd is None else expm1(scatter.sd)
        if verdict == "inconclusive" and self._verdict(alone, pair, records)[0] in ("higher", "lower"):
            sd = size(session_sd or 0.0)
            reason = agreed(f"within the variation between {scatter.sessions} sessions (sd {sd})")
        return EffectDifference(
            first=label(places[0]),
            second=label(places[1]),
            ratio=found.ratio,
            ci_low=interval.low,
            ci_high=interval.high,
            freedom=found.freedom,
            p=None if p is None else min(1.0, count * p),
            verdict=verdict,
            reason=reason,
            sessions=scatter.sessions,
            session_sd=session_sd,
        )

    def _verdict(
        self, found: Estimate, pair: Sequence[SavedStudy], records: tuple[EffectRecord, EffectRecord]
    ) -> tuple[VerdictWord, str]:
        """With the reason where it is not measurable."""
        if reason := _unmeasured(records):
            return "not_measurable", reason
        for study in pair:
            if alarm := alarm_of(study.summary.effects):
                return "not_measurable", f"{study.name}: {alarm_clause(alarm)}"
        if found.n < FEWEST_BLOCKS:
            return "not_measurable", agreed(f"fewer than {FEWEST_BLOCKS} blocks")
        if found.error is None or found.mean is None:
            return "not_measurable", "a summary has no interval for it; `mydyno report` makes the summaries again"
        interval = found.interval(ALPHA / self.contrasts, 1.0 - ALPHA)
        if interval.excludes_no_change() and abs(found.mean) > _copies_differ(pair, records[0]):
            return ("higher" if found.mean > 0 else "lower"), ""
        if equivalence(found, self.margin(records[0].metric), ALPHA).equivalent:
            return "equivalent", ""
        return "inconclusive", ""


def _check(studies: Sequence[SavedStudy]) -> None:
    if len(studies) > MOST_STUDIES:
        raise UserError(f"{len(studies)} studies: at most {MOST_STUDIES} can be compared")
    _, copies = without_copies(studies)
    for copy, of in copies:
        path, other = copy.folder.path, of.folder.path
        twice = path.resolve() == other.resolve()
        what = f"{of.name} is named twice" if twice else f"{path} is a copy of {other}: they are one study"
        raise UserError(what, "compare it with another study")


def _unmeasured(records: Sequence[EffectRecord]) -> str:
    """Why a ratio is missing or says nothing; empty if none is."""
    for record in records:
        if record.ratio is None:
            return recorded_failure(record) or f"{record.arm} has no effect in one of the studies"
        if record.verdict == "not_measurable" and not record.details.alarm:
            return obstacle(record)
    return ""


def _copies_differ(pair: Sequence[SavedStudy], record: EffectRecord) -> float:
    """How far the copies of both controls were apart in the mean, both sessions together (root of squares)."""
    means = []
    for study in pair:
        copies = study.copies(record.metric, record.step)
        means.append(float(np.mean([np.log(b / a) for a, b in copies.values()])) if copies else 0.0)
    return sqrt(sum(mean**2 for mean in means))


def _noise(study: SavedStudy, metric: str, step: str) -> CopiesNoise | None:
    logs = {block: float(np.log(b / a)) for block, (a, b) in study.copies(metric, step).items()}
    if not logs:
        return None
    found = mean_of(logs)
    interval = found.interval(ALPHA, 1.0 - ALPHA)
    return CopiesNoise(
        metric=metric,
        step=step,
        n=len(logs),
        ratio=found.ratio or 1.0,
        ci_low=interval.low,
        ci_high=interval.high,
        typical=expm1(float(np.median(np.abs(list(logs.values()))))),
    )


def _compared(judge: _Judge, contrast: Contrast, judged: bool) -> ComparedEffect:
    metric, step, arm, control = contrast
    records = [study.effects[contrast] for study in judge.studies]
    scatter = session_scatter(judge.studies, judge.beside, contrast) if judged else NO_SCATTER
    defined = {name: differing_definition(judge.studies, name) for name in dict.fromkeys((arm, control))}
    return ComparedEffect(
        metric=metric,
        step=step,
        arm=arm,
        control=control,
        primary=judged,
        effects=tuple(StudyEffect.of(record, label=label(place)) for place, record in enumerate(records)),
        differences=tuple(
            judge.difference((0, place), (records[0], records[place]), judged, scatter)
            for place in range(1, len(records))
        ),
        note="; ".join(
            f"{name} is defined differently ({', '.join(settings)})" for name, settings in defined.items() if settings
        ),
    )


def _indirect(studies: Sequence[SavedStudy], ground: CommonGround, judge: _Judge) -> tuple[IndirectEffect, ...]:
    """Arms that one study alone has against those that another one alone has, where they share a control."""
    found = []
    first = studies[0]
    for place, other in enumerate(studies[1:], 1):
        control = first.summary.control
        if other.summary.control != control or not same_control(first, other, control):
            continue
        if any(alarm_of(study.summary.effects) for study in (first, other)):
            continue
        metric = first.summary.primary
        if other.summary.primary != metric or metric in ground.unlike_metrics:
            continue
        ours, others = ({(arm, base) for _, _, arm, base in study.effects} for study in (first, other))
        for step in (one.id for one in ground.steps):
            mine, theirs = (
                [record for (of, at, arm, base), record in study.effects.items()
                 if (of, at, base) == (metric, step, control) and (arm, base) not in ours & others]
                for study in (first, other)
            )  # fmt: skip
            found += [
                IndirectEffect(
                    metric=metric, step=step, first_arm=a.arm, second_arm=b.arm, control=control,
                    difference=judge.difference((0, place), (a, b), False),
                )
                for a, b in product(mine, theirs)
            ]  # fmt: skip
    return tuple(found) if len(found) <= MOST_INDIRECT else ()


def _control_levels(studies: Sequence[SavedStudy], ground: CommonGround) -> tuple[ControlLevel, ...]:
    """How far the level of the control is from that in the first study, on the primary metric at each step."""
    found = []
    metric, control = studies[0].summary.primary, studies[0].summary.control
    for place, other in enumerate(studies[1:], 1):
        if control not in {arm.name for arm in other.study.experiment.arms} or metric in ground.unlike_metrics:
            continue
        for step in (one.id for one in ground.steps):
            levels = [mean_log(study.levels(metric, step, control)) for study in (studies[0], other)]
            shift = difference(*levels)
            if shift.ratio is None:
                continue
            interval = shift.interval(ALPHA, 1.0 - ALPHA)
            found.append(
                ControlLevel(
                    metric=metric,
                    step=step,
                    first=label(0),
                    second=label(place),
                    ratio=shift.ratio,
                    ci_low=interval.low,
                    ci_high=interval.high,
                    same_control=same_control(studies[0], other, control),
                )
            )
    return tuple(found)


@dataclass(frozen=True)
class CommonGround:
    """Steps and contrasts that all studies have, in the order of the first one, and what was refused."""

    steps: tuple[Step, ...]
    contrasts: tuple[Contrast, ...]
    unlike_metrics: frozenset[str]
    """The metrics that not all studies have with one meaning."""
    refused: tuple[NotCompared, ...]


def common_ground(studies: Sequence[SavedStudy]) -> CommonGround:
    """What two or more studies have in common: metric, step, arm and control with the same names, where the step loads
    the same workload with the same options, and the metric means the same. Data, server, settings and host may differ:
    they are what a comparison is about, and are listed.
    """
    steps, refused = _steps(studies)
    unlike, ids = _unlike_metrics(studies), {step.id for step in steps}
    contrasts = tuple(
        one
        for one in studies[0].effects
        if one[1] in ids and one[0] not in unlike and all(one in study.effects for study in studies)
    )
    refused += [*unlike.values(), *(_arms(studies) if steps else ())]
    return CommonGround(tuple(steps), contrasts, frozenset(unlike), tuple(refused))


def _listed(places: Sequence[int]) -> str:
    return listing([label(place) for place in places])


def _differs(what: str, words: str, definitions: Sequence[str]) -> NotCompared:
    """Each study defines it in its own way."""
    each = "; ".join(f"{label(place)}: {text or 'defaults'}" for place, text in enumerate(definitions))
    return NotCompared(what=what, reason=f"{words} ({each})")


def _steps(studies: Sequence[SavedStudy]) -> tuple[list[Step], list[NotCompared]]:
    known = [{step.id: step for step in study.study.experiment.resolved_steps} for study in studies]
    common, refused = [], []
    for name in dict.fromkeys(name for steps in known for name in steps):
        having = [place for place, steps in enumerate(known) if name in steps]
        if len(having) < len(known):
            only = f"only {_listed(having)} {'has' if len(having) == 1 else 'have'} it"
            refused.append(NotCompared(what=f"load level {name}", reason=only))
            continue
        options = [", ".join(step_options(steps[name])) for steps in known]
        if len(set(options)) > 1:
            refused.append(_differs(f"load level {name}", "its options differ", options))
            continue
        common.append(known[0][name])
    return common, refused


def _unlike_metrics(studies: Sequence[SavedStudy]) -> dict[str, NotCompared]:
    """Metrics that do not mean the same in all studies, or have verdicts in some and do not exist in others."""
    known, found = [study.summary.metrics for study in studies], {}
    for name in dict.fromkeys(name for metrics in known for name in metrics):
        defined = [metrics[name] for metrics in known if name in metrics]
        if len(defined) == len(known) and len({(one.unit, one.better, one.description) for one in defined}) > 1:
            definitions = [f"{one.description} ({one.unit})" for one in defined]
            found[name] = _differs(f"metric {name}", "its definition differs", definitions)
    for name in dict.fromkeys(one.metric for study in studies for one in study.effects.values() if one.verdict):
        having = [place for place, metrics in enumerate(known) if name in metrics]
        if len(having) < len(known):
            found[name] = NotCompared(what=f"metric {name}", reason=f"only {_listed(having)} measured it")
    return found


def _arms(studies: Sequence[SavedStudy]) -> list[NotCompared]:
    """Contrasts with verdicts that not all studies have."""
    refused = []
    pairs = [dict.fromkeys((arm, control) for _, _, arm, control in study.effects) for study in studies]
    for pair in dict.fromkeys(pair for of in pairs for pair in of):
        missing = [place for place, of in enumerate(pairs) if pair not in of]
        early = [place for place in missing if studies[place].before_first_look]
        having = [place for place in range(len(pairs)) if place not in missing]
        why = f"{_listed(early)} has not reached its first interim analysis" if early else f"only in {_listed(having)}"
        if missing:
            refused.append(NotCompared(what=" against ".join(pair), reason=why))
    return refused
