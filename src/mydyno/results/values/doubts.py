"""Why a step that counts is in doubt: what dynoload's own rules found in its load, and how much of what it looked for
it found. What finds nothing does less work, so that its rate and its cost cannot be compared with those of one that
finds everything.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from mydyno.model.definition.experiment import Step
from mydyno.model.metrics import metric_source
from mydyno.model.stored.records import DriverFinding, DriverResult, RunRecord
from mydyno.model.stored.summary import EffectRecord, FoundRecord, RunSummary, with_summaries

OF_THE_LOAD = ("stalled", "paused", "script_held", "not_stored", "empty_reads")
"""The rules (engine/dyno-load/src/quality)."""


def doubts_of(driver: DriverResult) -> list[DriverFinding]:
    """The findings that put the step in doubt."""
    return [one for one in driver.findings if one.rule in OF_THE_LOAD and one.level == "suspect"]


FEWER = 0.99
"""Ratio of two shares found below which the work is not the same."""


def missed(step: Step, whole: Mapping[str, int]) -> tuple[float, str]:
    """The share that was looked for in vain, beyond the one that was ordered, and what it is of."""
    if gets := whole.get("cmd_get", 0):
        misses = whole.get("get_misses", 0)
        ordered = str(step.options.get("hit_ratio", "100%"))
        unexpected = misses / gets - (1 - float(ordered.removesuffix("%")) / 100)
        return unexpected, f"{misses} of {gets} gets ({misses / gets:.1%}) found no key"
    missing = whole.get("missing_rows", 0)
    if missing:
        statements = max(1, whole.get("read", 0) + whole.get("write", 0) + whole.get("unchanged", 0))
        words = f"{missing} of {statements} statements ({missing / statements:.1%}) found no row that the data have"
        return missing / statements, words
    empty, reads = whole.get("empty_reads", 0), whole.get("read", 0)
    return (1.0, f"none of the {reads} reads found a row") if empty and empty == reads else (0.0, "")


def found_of(records: Iterable[RunRecord], runs: Iterable[RunSummary]) -> tuple[FoundRecord, ...]:
    """What each arm found at each step in the runs that count; nothing of a step at which every arm found all."""
    counts: dict[tuple[str, str], Counter[str]] = {}
    for run, summary in with_summaries(records, runs):
        for step in run.steps:
            if summary.usable(step.id):
                counts.setdefault((step.id, run.arm), Counter()).update(step.driver.whole)
    found = [one for (step, arm), whole in counts.items() if (one := _found(step, arm, whole)) is not None]
    incomplete = {one.step for one in found if one.share < FEWER}
    return tuple(one for one in found if one.step in incomplete)


def _found(step: str, arm: str, whole: Mapping[str, int]) -> FoundRecord | None:
    """Of gets the keys; of statements those that returned or changed a row."""
    if gets := whole.get("cmd_get", 0):
        return FoundRecord(step=step, arm=arm, of="keys", share=1 - whole.get("get_misses", 0) / gets)
    unchanged = whole.get("unchanged", 0)
    statements = whole.get("read", 0) + whole.get("write", 0) + unchanged
    if not statements:
        return None
    return FoundRecord(step=step, arm=arm, of="rows", share=1 - (whole.get("empty_reads", 0) + unchanged) / statements)


def found_less(found: Iterable[FoundRecord], effect: EffectRecord) -> tuple[FoundRecord, FoundRecord] | None:
    """(what the arm found, what its control found) where the one that looks better, or as good, did less for that.

    None where neither did, and for metrics without a better direction or that are the share found itself.
    """
    source = metric_source(effect.metric)
    shares = {one.arm: one for one in found if one.step == effect.step}
    arm, control = shares.get(effect.arm), shares.get(effect.control)
    if source is None or source.better == "none" or effect.metric == "kv_hit_pct" or arm is None or control is None:
        return None
    arm_did_less, control_did_less = arm.share < FEWER * control.share, control.share < FEWER * arm.share
    if effect.verdict in ("equivalent", "inconclusive"):
        is_less = arm_did_less or control_did_less
    else:
        is_less = arm_did_less if effect.verdict == source.better else control_did_less
    return (arm, control) if is_less and effect.ratio is not None and effect.verdict is not None else None
