"""The main effects of a screening study, from the values of its runs: see stats/screening.py for the method."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from math import exp, log

import numpy as np

from mydyno.experiment_file.screen import CONTROL, coded
from mydyno.model.definition.experiment import Experiment, ScreenSpec
from mydyno.model.stored.screening import ScreenedFactor, ScreenRecord
from mydyno.model.stored.summary import RunSummary
from mydyno.stats.paired import paired
from mydyno.stats.screening import ALIASED, Array, MainEffect, aliases, screened, strongest

MOST_FOLLOWED = 3
"""Variables of the follow-up: all combinations of three are eight arms."""
FEWEST_FOR_ALARM = 3
"""Blocks from which on the two copies of the control can give an alarm."""


def screening_of(experiment: Experiment, runs: Sequence[RunSummary], alpha: float) -> tuple[ScreenRecord, ...]:
    """The primary metric's main effects at every step; empty without a screening design, or without a whole block."""
    spec = experiment.screen
    if spec is None:
        return ()
    found = []
    for step in experiment.resolved_steps:
        record = _screening(experiment, spec, step.id, runs, alpha)
        if record is not None:
            found.append(record)
    return tuple(found)


def _screening(
    experiment: Experiment, spec: ScreenSpec, step: str, runs: Sequence[RunSummary], alpha: float
) -> ScreenRecord | None:
    metric = experiment.verdict.leading
    rows = coded(spec, experiment.arms)
    if spec.design == "definitive":
        rows.pop(CONTROL)  # not one of the design's runs: the present values, to compare with
    logs, lost = _table(list(rows), runs, step, metric)
    if not len(logs):
        return None
    design = np.array(list(rows.values()), dtype=np.float64)
    made = screened(design, logs, alpha, experiment.design.seed)
    names = list(spec.variables)
    mixed = aliases(design)
    differ = _copies_differ(runs, step, metric, experiment.control, alpha)
    factors = []
    for j, (name, levels) in enumerate(spec.variables.items()):
        whole = [f"{names[one.first]} × {names[one.second]}" for one in mixed[j] if abs(one.share) >= ALIASED]
        parts = [abs(one.share) for one in mixed[j] if abs(one.share) < ALIASED]
        factors.append(
            ScreenedFactor(
                name=name,
                first=str(levels[0]),
                last=str(levels[-1]),
                **_interval(made.effects[j]),
                active=made.effects[j].active and not differ,
                aliases=tuple(whole),
                partial_aliases=len(parts),
                largest_part=round(max(parts, default=0.0), 4),
            )
        )
    chosen = [] if differ else strongest(made.effects, MOST_FOLLOWED)
    return ScreenRecord(
        metric=metric,
        step=step,
        runs=len(rows),
        blocks=len(logs),
        lost_blocks=lost,
        method="lenth" if made.method == "lenth" else "blocks",
        standard_error=made.standard_error,
        factors=tuple(factors),
        copies_differ=differ,
        follow_up=tuple(names[j] for j in chosen),
    )


def _interval(effect: MainEffect) -> dict[str, float | None]:
    ratio = exp(effect.log_effect)
    if effect.half is None:
        return {"ratio": ratio, "ci_low": None, "ci_high": None, "p": effect.p}
    low, high = exp(effect.log_effect - effect.half), exp(effect.log_effect + effect.half)
    return {"ratio": ratio, "ci_low": low, "ci_high": high, "p": effect.p}


def _table(arms: Sequence[str], runs: Sequence[RunSummary], step: str, metric: str) -> tuple[Array, int]:
    """(logs of blocks × runs of the design, blocks that lack a run); the control's is the mean of its copies."""
    found: dict[int, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for run in runs:
        own = found[run.block]
        value = run.values.get(step, {}).get(metric)
        if run.usable(step) and value and value > 0:
            own[run.arm].append(log(value))
    whole = [block for block, own in sorted(found.items()) if all(own.get(arm) for arm in arms)]
    table = [[float(np.mean(found[block][arm])) for arm in arms] for block in whole]
    return np.array(table, dtype=np.float64), len(found) - len(whole)


def _copies_differ(runs: Sequence[RunSummary], step: str, metric: str, control: str, alpha: float) -> bool:
    """Whether the control's two copies differ beyond noise."""
    pairs: dict[int, dict[int, float]] = defaultdict(dict)
    for run in runs:
        value = run.values.get(step, {}).get(metric)
        if run.arm == control and run.usable(step) and value and value > 0:
            pairs[run.block][run.copy_number] = log(value)
    differences = [pair[2] - pair[1] for pair in pairs.values() if len(pair) == 2]
    if len(differences) < FEWEST_FOR_ALARM:
        return False
    return paired(differences, 1 - alpha).interval.excludes_no_change()
