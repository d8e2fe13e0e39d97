"""The answer of a capacity search: what each arm sustains under the objective, and how much more than the control."""

from __future__ import annotations

from mydyno.language import agreed
from mydyno.model.definition.load_level import load_level
from mydyno.model.definition.search import CAPACITY
from mydyno.model.stored.capacity import CapacityRecord
from mydyno.model.stored.summary import EffectRecord, Summary
from mydyno.wording.numbers import signed
from mydyno.wording.reasons import lost_blocks, recorded_failure

MOST_ARMS = 4
"""Named one by one in a sentence; the table has all."""


def rate_words(per_s: float) -> str:
    """A rate with three digits: 12,300; 87.4."""
    digits = 3 - len(f"{per_s:.0f}")
    return f"{round(per_s, digits):,.{max(0, digits)}f}"


def sustained(record: CapacityRecord) -> str:
    """E.g. "12,300 transactions/s (11,900 to 12,800)"."""
    rate = rate_words(record.capacity_tps)
    if record.ci_low is None or record.ci_high is None:
        return f"{rate} transactions/s"
    low, high = rate_words(record.ci_low), rate_words(record.ci_high)
    return f"{rate} transactions/s ({low} to {high})"


def objective_words(record: CapacityRecord) -> str:
    """E.g. "p99 ≤ 20 ms"."""
    name = record.metric.removeprefix("latency_").removesuffix("_us").replace("p999", "p99.9")
    mean = "mean latency"
    return f"{mean if name == 'mean' else name} ≤ {record.limit_us / 1e3:g} ms"


def capacity_sentences(summary: Summary) -> list[str]:
    """One sentence on the control at each step, and one on the arms."""
    found = []
    several = len({record.step for record in summary.capacities}) > 1
    for step in summary.steps:
        records = {record.arm: record for record in summary.capacities if record.step == step.id}
        effects = [one for one in summary.effects if (one.metric, one.step) == (CAPACITY, step.id) and one.verdict]
        if not records:
            continue
        level = load_level(step.connections)
        where = f" ({step.workload}, {level})" if several else ""
        control = records.get(summary.control)
        if control is not None:
            found.append(
                f"{summary.control} sustains {sustained(control)} under {objective_words(control)}{where}."
            )  # fmt: skip
        arms = [_arm(effect, records.get(effect.arm)) for effect in effects]
        if len(arms) > MOST_ARMS:
            decided = [one for one in effects if one.verdict in ("higher", "lower")]
            strongest = sorted(decided, key=lambda one: -abs((one.ratio or 1.0) - 1.0))[:MOST_ARMS]
            arms = [_arm(effect, records.get(effect.arm)) for effect in strongest]
            rest = len(effects) - len(arms)
            arms += [agreed(f"{rest} other arms are in the table")] if rest else []
        if arms:
            found.append(f"{'; '.join(arms)}.")
    return found


def _arm(effect: EffectRecord, record: CapacityRecord | None) -> str:
    """One arm against its control, by its verdict."""
    if effect.ratio is None or record is None:
        lost = lost_blocks(effect.details)
        reason = recorded_failure(effect) or (lost[0] if lost else "no capacity found")
        return f"{effect.arm} is not measurable: {reason}"
    change = signed(effect.ratio - 1)
    if effect.ci_low is not None and effect.ci_high is not None:
        change = f"{change} (between {signed(effect.ci_low - 1)} and {signed(effect.ci_high - 1)})"
    facts = {"arm": effect.arm, "rate": sustained(record), "control": effect.control, "change": change}
    if effect.verdict in ("higher", "lower"):
        return "{arm} sustains {rate}, {change} against {control}".format(**facts)
    if effect.verdict == "equivalent":
        return "{arm} sustains {rate}, equivalent to {control}: {change}".format(**facts)
    return "{arm} sustains {rate}; the difference to {control}, {change}, is inconclusive".format(**facts)
