"""What reports print of the costs of an operation and of what accompanied an effect. Of all formats."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mydyno.model.costs import COSTS, THROUGHPUT
from mydyno.model.summary import AccompanimentRecord, CostRecord, CostsRecord, EffectRecord
from mydyno.reports.numbers import PERCENT, display_unit, metric_name, signed_percent, significant
from mydyno.reports.result import StudyResult
from mydyno.reports.verdict_table import step_heading

FACTOR_FROM = 3.0
"""A ratio from which a change is printed as a factor."""
NO_CAUSE_SHOWN = (
    "Shares are of the change in time per transaction. Costs that changed together with an effect can be its cause or "
    "its consequence: only an experiment that changes one of them on purpose shows which."
)


@dataclass(frozen=True)
class Accompanied:
    """One shown effect, and the costs that changed with it."""

    heading: str
    sentences: tuple[str, ...]
    named: bool
    """Whether the sentences name costs; otherwise the one sentence states why there are none."""
    commands: tuple[str, ...]
    """mydyno commands that change these costs on purpose."""


def accompanied(result: StudyResult, record: CostsRecord) -> list[Accompanied]:
    """Every effect on throughput that is higher or lower, with what came with it."""
    found = []
    by_key = {(one.cost, one.arm, one.control, one.step): one for one in record.costs}
    for effect in result.summary.effects:
        if effect.metric not in THROUGHPUT or effect.verdict not in ("higher", "lower") or effect.ratio is None:
            continue
        own = [one for one in record.accompaniments if _of(one, effect)]
        sentences = [_sentence(one, by_key[one.cost, one.arm, one.control, one.step]) for one in own]
        commands = dict.fromkeys(COSTS[one.cost].test for one in own if COSTS[one.cost].test)
        found.append(
            Accompanied(
                f"{contrast(result, effect)}: {metric_name(effect.metric)} {signed_percent(effect.ratio - 1)}",
                tuple(sentences) or (_nothing(record),),
                bool(sentences),
                tuple(f"mydyno run variable --set '{test}'" for test in commands),
            )
        )
    return found


def contrast(result: StudyResult, one: EffectRecord | CostRecord) -> str:
    """The arm, what it is compared with where that is not always the same, and the step where there are several."""
    arm = f"{one.arm} against {one.control}" if result.several_controls else one.arm
    step = next((step for step in result.steps if step.id == one.step), None)
    return arm if len(result.steps) == 1 or step is None else f"{arm}, {step_heading(result, step)}"


def sorted_costs(record: CostsRecord, costs: Sequence[CostRecord]) -> list[CostRecord]:
    """Of one contrast: what accompanied its effect first, then what changed, then the rest in the usual order."""
    rank = {(one.arm, one.control, one.step, one.cost): at for at, one in enumerate(record.accompaniments)}
    return sorted(
        costs,
        key=lambda one: (
            rank.get((one.arm, one.control, one.step, one.cost), len(rank)),
            not one.beyond_noise,
            list(COSTS).index(one.cost) if one.cost in COSTS else len(COSTS),
        ),
    )


def is_there(one: CostRecord) -> bool:
    """Whether either side has an amount that counts."""
    return max(one.control_value, one.arm_value) >= COSTS[one.cost].least


def value_text(cost: str, value: float) -> str:
    """A cost of one operation with its unit."""
    spec = COSTS[cost]
    if value < spec.least:
        return "0"
    return display_unit(cost, value, spec.unit).text(value, 3 if value >= 1 else 2)


def change_text(one: CostRecord) -> str:
    """The change as a percentage or as a factor, without its interval."""
    if one.ratio is None:
        return "–"
    if one.ratio > FACTOR_FROM or one.ratio < 1 / FACTOR_FROM:
        return f"× {_factor(one.ratio)}" if one.ratio > 1 else f"÷ {_factor(1 / one.ratio)}"
    return signed_percent(one.ratio - 1)


def interval_text(one: CostRecord) -> str:
    """The interval in the same form as the change."""
    if one.ratio is None or one.ci_low is None or one.ci_high is None:
        return "–"
    low, high = one.ci_low, one.ci_high
    if one.ratio > FACTOR_FROM:
        return f"× {_factor(low)} … {_factor(high)}"
    if one.ratio < 1 / FACTOR_FROM:
        return f"÷ {_factor(1 / high)} … {_factor(1 / low)}"
    return f"{signed_percent(low - 1).removesuffix(PERCENT)} … {signed_percent(high - 1)}"


def _factor(factor: float) -> str:
    return significant(float(f"{factor:.2g}"), 2)


def _of(one: AccompanimentRecord, effect: EffectRecord) -> bool:
    return (one.metric, one.step, one.arm, one.control) == (effect.metric, effect.step, effect.arm, effect.control)


def _sentence(one: AccompanimentRecord, cost: CostRecord) -> str:
    spec = COSTS[one.cost]
    change = f"{value_text(one.cost, cost.control_value)} → {value_text(one.cost, cost.arm_value)}"
    whole = one.explains >= 1
    share = "all" if whole else f"{'about' if one.measured else 'up to'} {100 * one.explains:.0f}{PERCENT}"
    accounts = "accounts for" if one.measured else "can account for"
    label = spec.label[:1].upper() + spec.label[1:]
    return f"{label}: {change} per transaction ({change_text(cost)}). This {accounts} {share} of the change."


def _nothing(record: CostsRecord) -> str:
    if record.alarm:
        return f"No cost is compared: {record.alarm}."
    return "No counted cost changed beyond noise and far enough to account for this effect."
