"""The precision of a study's contrasts, the time that a better precision takes, and the interim analysis that is due.
Pure functions of the records.

The half-width of an interval shrinks with the square root of the number of blocks; in a study with looks the later
looks keep a smaller error rate, which widens their intervals again.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean, mean, median
from typing import Literal

from mydyno.model.definition.experiment import Experiment
from mydyno.model.definition.plan import SIX, InterimAnalyses, Plan
from mydyno.model.metrics import ANSWERED_COSTS
from mydyno.model.stored.reasons import NOTHING_SERVED, CopiesDiffer
from mydyno.model.stored.records import RunRecord
from mydyno.model.stored.summary import EffectRecord, RunSummary, Summary
from mydyno.results.values.blocks import is_host_noise

LATER_ALPHA = 0.005
"""Error rate of the looks after the first, approximately."""
SERVED = ("ops", "qps", "tps")
"""Rates of which none is 0 where anything was served."""
UNPLANNED = 10_000
"""A number of blocks larger than any plan."""
MOST_S = 7 * 86_400.0
"""A longer time to an answer is not stated."""
MOST_PROMISED = 0.2
"""The widest half-width from which the time to an answer is estimated, and which is printed as ±."""


def half_width(effect: EffectRecord) -> float | None:
    """Half of the interval of ln(arm / control), as a share of 1; None without an interval, or with one down to 0."""
    if effect.ci_low is None or effect.ci_high is None or effect.ci_low <= 0:
        return None
    return math.expm1(math.log(effect.ci_high / effect.ci_low) / 2)


def half_widths(effects: Iterable[EffectRecord]) -> list[float]:
    """The half-widths of these contrasts; empty if one of them has none."""
    widths = [half_width(effect) for effect in effects if effect.ratio is not None]
    known = [width for width in widths if width is not None]
    return known if len(known) == len(widths) else []


def detectables(effects: Iterable[EffectRecord]) -> list[float]:
    """The true differences of these contrasts, as a share of 1, that 80 % of such studies find; where it is known."""
    return [effect.details.detectable for effect in effects if effect.details.detectable is not None]


def cost_metric(summary: Summary) -> str | None:
    """The metric of CPU per query that has verdicts; None if there is none, or the question is one of CPU time."""
    judged = {effect.metric for effect in summary.effects if effect.verdict}
    asked = (summary.primary, *summary.also_primary)
    if any(name in ANSWERED_COSTS for name in asked):
        return None
    return next((name for name in ANSWERED_COSTS if name in judged), None)


def answered_metrics(summary: Summary) -> tuple[str, ...]:
    """The metrics of the answer and of its table: the question's that have verdicts, then that of cost_metric."""
    judged = {effect.metric for effect in summary.effects if effect.verdict}
    further = [metric for metric in (*summary.also_primary, cost_metric(summary)) if metric in judged]
    return (summary.primary, *filter(None, further))


def finished_blocks(summary: Summary) -> int:
    """Blocks in which the control has a run."""
    return len({run.block for run in summary.runs if run.arm == summary.control and run.copy_number == 1})


def looks_of(summary: Summary) -> InterimAnalyses:
    """The looks of a sequential study, also of one whose summary does not state them."""
    return SIX if summary.looks is None else InterimAnalyses(summary.looks)


def is_sequential(summary: Summary, experiment: Experiment) -> bool:
    """Whether verdicts are given at looks, so that more blocks belong to the study."""
    interleaved = summary.design != "blocks"
    return summary.look is not None or (interleaved and experiment.design.time is not None)


def block_duration_s(records: Sequence[RunRecord]) -> float | None:
    """The median time from the first start to the last end of a block's runs, divided by the number of host groups that
    execute blocks at the same time; None without a finished run.
    """
    blocks: dict[int, list[RunRecord]] = {}
    for record in records:
        blocks.setdefault(record.block, []).append(record)
    lengths = [
        (max(one.ended_unix_ns for one in runs) - min(one.started_unix_ns for one in runs)) / 1e9
        for runs in blocks.values()
    ]
    groups = max(1, len({record.host_group for record in records}))
    return median(lengths) / groups if lengths and median(lengths) > 0 else None


def blocks_for(target: float, effects: Sequence[EffectRecord], blocks: int, alpha: float, looks: bool) -> int | None:
    """About how many blocks in all give half of these contrasts a half-width of at most `target`.

    `alpha` is the error rate of the intervals as they are. None if there is no interval to start from.
    """
    widths = half_widths(effects)
    if not widths or blocks < 1:
        return None
    factor = math.log1p(median(widths)) / math.log1p(target)
    if factor <= 1:
        return blocks
    if looks:
        contrasts = 2 * max(1, len(effects))
        normal = NormalDist()
        factor *= max(1.0, normal.inv_cdf(1 - LATER_ALPHA / contrasts) / normal.inv_cdf(1 - alpha / contrasts))
    return math.ceil(blocks * factor**2)


@dataclass(frozen=True, slots=True)
class Outlook:
    """What decides open contrasts if the noise remains as it is: for half of them, and for all of them, the blocks in
    all (those of a look in a sequential study) and the time; None where that cannot be reached, or is not known.
    """

    half: int | None = None
    every: int | None = None
    half_s: float | None = None
    every_s: float | None = None
    obstacle: Literal["", "noise", "looks", "time"] = ""
    """Why not even half of them will be decided: too wide intervals, after the last look, only in weeks."""
    decided: int = 0
    """How many of them `half` decides."""


def outlook(
    summary: Summary, effects: Sequence[EffectRecord], block_s: float | None, sequential: bool
) -> Outlook | None:
    """As the verdicts planned it, or where one has no plan by the margin; None without intervals.

    `block_s` is what a block takes.
    """
    widths = half_widths(effects)
    if not widths:
        return None
    if median(widths) > MOST_PROMISED:
        return Outlook(obstacle="noise")
    done = finished_blocks(summary)
    planned = sorted(one.n + one.details.blocks_needed for one in effects if one.details.blocks_needed is not None)
    if len(planned) < len(effects):
        planned = [blocks_for(summary.margin, effects, summary.look or done, summary.alpha, sequential) or UNPLANNED]
    half, every = (
        _reached(summary, count, done, sequential) for count in (planned[(len(planned) - 1) // 2], planned[-1])
    )
    if half is None:
        return Outlook(obstacle="looks" if sequential else "time")
    half_s, every_s = (
        None if count is None or block_s is None else block_s * (count - done if sequential else count)
        for count in (half, every)
    )
    if half_s is not None and half_s > MOST_S:
        return Outlook(obstacle="time")
    if every_s is not None and every_s > MOST_S:
        every, every_s = None, None
    reached = [_reached(summary, count, done, sequential) for count in planned]
    return Outlook(half, every, half_s, every_s, decided=sum(one is not None and one <= half for one in reached))


def _reached(summary: Summary, planned: int, done: int, sequential: bool) -> int | None:
    """The blocks at which so many are reached; None: never."""
    if planned >= UNPLANNED:
        return None
    least = max(planned, done + 1)
    return next((look for look in looks_of(summary).rates if look >= least), None) if sequential else least


def steal_share(summary: Summary) -> float | None:
    """The mean share of the CPU time that the hypervisor took; None if it is not known."""
    if summary.interleaving is not None:
        return summary.interleaving.steal_mean
    found = [of_step["cpu_steal_pct"] for run in summary.runs for of_step in run.values.values()
             if "cpu_steal_pct" in of_step]  # fmt: skip
    return mean(found) / 100 if found else None


def strangers_share(summary: Summary) -> float | None:
    """The mean share of the CPU time that programs used which do not belong to the study; None if it is not known."""
    return None if summary.interleaving is None else summary.interleaving.strangers_mean


def alarm_of(effects: Sequence[EffectRecord]) -> CopiesDiffer | None:
    """The A/A alarm of the study with these effects."""
    return next((effect.details.alarm for effect in effects if effect.details.alarm), None)


def failures_of(run: RunSummary) -> dict[str, str]:
    """{step: why} of the steps at which the run's arm failed, as verdicts count them: also where it served nothing."""
    nothing = {
        step: NOTHING_SERVED
        for step, values in run.values.items()
        if run.usable(step) and any(values.get(rate) == 0.0 for rate in SERVED)
    }
    return {**nothing, **run.failures}


def failed_blocks(runs: Sequence[RunSummary], arm: str, step: str | None = None) -> dict[int, str]:
    """{block: why} of the blocks in which the arm itself failed, at one step or at any."""
    found: dict[int, str] = {}
    for run in runs:
        if run.arm == arm:
            for of_step, reason in failures_of(run).items():
                if step in (None, of_step):
                    found.setdefault(run.block, reason)
    return dict(sorted(found.items()))


def failed_arm(summary: Summary, effect: EffectRecord) -> str:
    """Who failed in a contrast without a number: the arm, its control, or the control's copy (with ′)."""
    failure = effect.details.failure
    if failure is None:
        return effect.arm if failed_blocks(summary.runs, effect.arm, effect.step) else effect.control
    return {"arm": effect.arm, "control": effect.control, "copy": f"{effect.control}′"}[failure.who]


def is_unanswered(summary: Summary, runs: Iterable[RunRecord]) -> bool:
    """Whether invalid or failed runs, and not only those of a busy host, left no contrast with an answer.

    An arm that failed is an answer, and so is a control that differs from its own copy.
    """
    judged = [effect for effect in summary.effects if effect.verdict]
    return (
        bool(judged)
        and summary.due
        and all(effect.verdict == "not_measurable" and not effect.details.alarm for effect in judged)
        and not any(effect.details.failure and effect.details.failure.who == "arm" for effect in judged)
        and any(_is_lost(run) for run in runs)
    )


def _is_lost(run: RunRecord) -> bool:
    """Whether the run has no result at a step, or at all, for another reason than a busy host."""
    return any(step.failed for step in run.steps) or not (run.valid or is_host_noise(run))


def interim_analysis_of(plan: Plan, runs: Sequence[RunRecord], experiment: Experiment) -> tuple[int | None, float]:
    """(blocks of the analysis that is due, its error rate): the latest one reached, or None and the study's rate."""
    look = None if plan.schedule is None else plan.schedule.latest(len({run.block for run in runs}))
    rates = {} if plan.schedule is None else plan.schedule.rates
    return look, experiment.verdict.error_rate if look is None else rates[look]


def first_finished(runs: Sequence[RunRecord], look: int | None) -> set[int]:
    """The blocks of an interim analysis: as many as finished first, all if there is none.

    On several host groups blocks do not finish in the order of their numbers. A block that is made later must not
    change what an earlier analysis examined.
    """
    ended: dict[int, int] = {}
    for run in runs:
        ended[run.block] = max(run.ended_unix_ns, ended.get(run.block, 0))
    return set(sorted(ended, key=lambda block: (ended[block], block))[:look])


def used_values(runs: Iterable[RunSummary], metric: str, step: str) -> dict[int, dict[tuple[str, int], float]]:
    """{block: {(arm, copy): its value}} of the runs that count at the step; values above 0, which have a logarithm."""
    found: dict[int, dict[tuple[str, int], float]] = {}
    for run in sorted(runs, key=lambda run: (run.block, run.copy_number)):
        value = run.values.get(step, {}).get(metric)
        if value and value > 0 and run.usable(step):
            found.setdefault(run.block, {})[run.arm, run.copy_number] = value
    return found


def used_logs(runs: Iterable[RunSummary], metric: str, step: str) -> dict[int, dict[str, float]]:
    """{block: {arm: log of its value}}; of two copies the mean."""
    return {
        block: {name: fmean(math.log(of[arm, copy]) for arm, copy in of if arm == name) for name, _ in of}
        for block, of in used_values(runs, metric, step).items()
    }
