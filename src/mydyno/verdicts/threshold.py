"""Thresholds: is an arm within its limit, beyond it, or undecided?

Each comparison (metric, arm, step) is tested against its limit from both sides, one-sided, at the study's error rate (5
% unless set otherwise), or that of the look (model/definition/plan.py), whose rates sum to it. Each p is the larger
of two: Student's t
(stats/tost.py), and the permutation of labels after the arm's values have been divided by the limit
(stats/permutation.py), which is exact for any noise that arm and control share.

Within: the p are adjusted by Hochberg. That all comparisons are within is claimed where every p by itself is at most
the error rate: to be wrong, a comparison that is truly at its limit or beyond must pass its own test, whatever the
others do (intersection-union test; Berger, Technometrics 24 (1982)). Beyond: all comparisons are permuted together, and
the p of t are adjusted by Holm, as one false alarm among many comparisons would stop a release. So each of the two
errors happens in at most so many studies.

A difference from no change is not tested here: an effect that is surely below 0, but not surely beyond the limit, is
neither within nor beyond. An arm that failed where the control did not has failed, whatever the limit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log
from typing import Any

from mydyno.model.definition.plan import InterimAnalyses
from mydyno.model.definition.specs import TOTAL
from mydyno.model.stored.analyses import GateComparison, NoAnswer, Outcome
from mydyno.model.stored.reasons import CopiesDiffer
from mydyno.stats.permutation import Exchange, hochberg, holm, joint_test, smallest_p
from mydyno.stats.power import blocks_for_detection
from mydyno.stats.tost import FEWEST_BLOCKS, LimitTest, limit_test, sign_of
from mydyno.verdicts.case import SLACK, Family
from mydyno.verdicts.decide import a_a_alarm, alarm_rate, measure
from mydyno.verdicts.together import MeasuredContrast

LEAST_DISTANCE = 0.1
"""For planning, an effect is at least this share of the limit away from it: on the limit no time is enough."""


@dataclass(frozen=True, slots=True)
class Bound:
    """A limit on one metric: the ratio of arm to control that is just allowed, for these arms at these steps.

    `family` has every arm with the same control, because the noise is that of all of them.
    """

    family: Family
    limit: float
    arms: tuple[str, ...]
    steps: tuple[str, ...]


def judge(
    bounds: Sequence[Bound],
    alpha: float | None,
    alarm: CopiesDiffer | None = None,
    looks: InterimAnalyses | None = None,
    total: float = TOTAL,
    judged: Sequence[Family] = (),
) -> tuple[GateComparison, ...]:
    """Every comparison of the bounds, in order, tested together. alpha None: no look is due, so nothing is examined.

    `alarm`: an A/A alarm of the study. Where the bounds have metrics that are not in `judged`, the study's families
    with verdicts, the copies of the control are compared in all of these together. Under an alarm only failures are
    outcomes. A limit that is there twice counts twice. `total` is the error rate of the study.
    """
    cases = [(bound, one) for bound in bounds for one in measure(bound.family) if _is_meant(bound, one)]
    if alpha is None:
        return tuple(_answer(bound, one, "undecided", "no look") for bound, one in cases)
    seed = bounds[0].family.seed if bounds else 1
    known = {one.metric.name for one in judged}
    more = [bound.family for bound in bounds if bound.family.metric.name not in known]
    if more and not alarm:
        alarm = a_a_alarm([*judged, *more], alarm_rate(alpha, total), seed)
    tests = [limit_test(one.estimate, bound.limit, one.family.metric.better) for bound, one in cases]
    good = {place: _better_than(bound, one) for place, (bound, one) in enumerate(cases) if one.estimate.n}
    above = dict(zip(good, joint_test(list(good.values()), seed, one_sided=True).alone, strict=True))
    worse = joint_test([one.mirrored() for one in good.values()], seed, one_sided=True)
    below = dict(zip(good, worse.adjusted, strict=True))
    within = hochberg([max(test.within, above.get(place, 1.0)) for place, test in enumerate(tests)])
    by_t = enumerate(holm([test.beyond for test in tests]))
    beyond = [max(p, below.get(place, 1.0)) for place, p in by_t]
    return tuple(
        _compared(bound, one, test, p_within, p_beyond, alpha, alarm, looks, len(cases))
        for (bound, one), test, p_within, p_beyond in zip(cases, tests, within, beyond, strict=True)
    )


def overall(comparisons: Sequence[GateComparison]) -> Outcome:
    """Worse if any comparison is worse or failed; passed if all passed; else undecided, as without comparisons."""
    found = {one.outcome for one in comparisons}
    return "worse" if found & {"worse", "failed"} else "passed" if found == {"passed"} else "undecided"


def _better_than(bound: Bound, one: MeasuredContrast) -> Exchange:
    """What is exchanged if the ratio were the limit; more is better."""
    at_limit = one.exchange.moved(log(bound.limit))
    return at_limit if sign_of(one.family.metric.better) > 0.0 else at_limit.mirrored()


def _is_meant(bound: Bound, one: MeasuredContrast) -> bool:
    return one.gathered.arm in bound.arms and one.gathered.step in bound.steps


def _answer(bound: Bound, one: MeasuredContrast, outcome: Outcome, why: NoAnswer = "", **found: Any) -> GateComparison:
    return GateComparison(
        metric=one.family.metric.name,
        step=one.gathered.step,
        arm=one.gathered.arm,
        control=one.family.control,
        limit=bound.limit,
        outcome=outcome,
        n=one.estimate.n,
        why=why,
        **found,
    )


def _compared(
    bound: Bound,
    one: MeasuredContrast,
    test: LimitTest,
    p_within: float,
    p_beyond: float,
    alpha: float,
    alarm: CopiesDiffer | None,
    looks: InterimAnalyses | None,
    comparisons: int,
) -> GateComparison:
    gathered, found = one.gathered, one.estimate
    interval = found.interval(2.0 * alpha, 1.0 - alpha)
    arm_values = [sum(one.arm) / len(one.arm) for one in gathered.blocks.values()]

    def outcome(what: Outcome, why: NoAnswer = "", needed: int | None = None) -> GateComparison:
        return _answer(
            bound, one, what, why, ratio=found.ratio, low=interval.low, high=interval.high,
            arm_value=_geometric_mean(arm_values), blocks_needed=needed, failure=gathered.failure, alarm=alarm,
            lost=gathered.lost,
        )  # fmt: skip

    if gathered.failure:
        return outcome("failed" if gathered.failure.who == "arm" else "undecided", "failure")
    if alarm:
        return outcome("undecided", "alarm")
    if found.n and gathered.lost_most:
        return outcome("undecided", "lost")
    if found.n and not one.copies:
        return outcome("undecided", "no copy")
    if p_beyond <= alpha + SLACK:
        return outcome("worse")
    if p_within <= alpha + SLACK:
        return outcome("passed")
    if not found.n:
        return outcome("undecided", "no block")
    needed = _blocks_needed(one, test, bound.limit, alpha, looks, comparisons)
    return outcome("undecided", "few blocks" if found.n < FEWEST_BLOCKS else "open", needed=needed)


def _geometric_mean(logs: Sequence[float]) -> float | None:
    return exp(sum(logs) / len(logs)) if logs else None


def _blocks_needed(
    one: MeasuredContrast, test: LimitTest, limit: float, alpha: float, looks: InterimAnalyses | None, comparisons: int
) -> int | None:
    """About how many blocks in all decide this comparison with 80 % power, if its ratio is what it seems.

    That it is within needs its own test alone, that it is beyond one of all. In a sequential study it is the
    blocks of a look, or where no look is enough those of a study that is examined once.
    """
    sd, n = one.estimate.block_sd, one.estimate.n
    if sd is None or test.distance is None:
        return None
    distance = max(abs(test.distance), LEAST_DISTANCE * abs(log(limit)))
    tests = 1 if test.distance > 0 else comparisons
    freedom = max(1, len(one.table.places) - 1) if one.estimate.pooled else 1
    labels = max(map(len, one.exchange.differences.values()))

    def enough(blocks: int, rate: float) -> bool:
        # A one-sided test at this rate has the power of a two-sided one at twice the rate.
        needed = blocks_for_detection(sd, distance, alpha=min(0.99, 2.0 * rate / tests), freedom=freedom)
        return max(needed, FEWEST_BLOCKS) <= blocks and smallest_p([labels] * blocks) <= rate

    if looks is not None:
        look = next((look for look, rate in looks.rates.items() if look > n and enough(look, rate)), None)
        if look is not None:
            return look
        alpha = looks.rates[looks.aim]
    needed = blocks_for_detection(sd, distance, alpha=min(0.99, 2.0 * alpha / tests), freedom=freedom)
    return max(needed, FEWEST_BLOCKS, n + 1)
