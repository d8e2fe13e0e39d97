"""The contrasts with verdicts: the families of a study, one per metric and control, as declared before the first run.

Verdicts are given on the primary metrics of every control's arms, on what verdict.compare declares, and with
verdict.cost on the server's CPU per query where it was measured; everything else is exploratory. All families with
verdicts are tested together (verdicts/decide.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from mydyno.model.definition.experiment import Experiment
from mydyno.model.metrics import ANSWERED_COSTS, COST_METRIC, metric_source, of_instance, split_instance
from mydyno.model.stored.reasons import Reason
from mydyno.model.stored.summary import RunSummary, block_groups
from mydyno.verdicts import Family, Metric, Observation

WEIGHT_OF_OTHERS = 0.4
"""Share of the error rate of a contrast of any but the first metric of the question, whose contrasts have 1 each.

With three arms, three metrics and six blocks, intervals of the first are 9 % narrower than with equal shares, those of
the others 7 to 11 % wider.
"""
Lane = tuple[int, str, int]
"""(block, arm, copy)"""


def families(experiment: Experiment, runs: Sequence[RunSummary], measured: Sequence[str]) -> Iterator[Family]:
    """Every family: metrics in the order given, of each the experiment's own control first, then further contrasts."""
    if experiment.screen is not None:
        # The runs of a screening design are compared by variable (analysis/screening.py), not one by one.
        for metric in measured:
            yield contrast_family(experiment, runs, metric, experiment.control, (), False)
        return
    for metric in measured:
        verdicts = _declared(experiment, metric)
        explored = {control: list(arms) for control, arms in experiment.contrasts().items()}
        if metric in verdict_metrics(experiment):
            for control, arms in explored.items():
                verdicts[control] = list(dict.fromkeys((*arms, *verdicts.get(control, ()))))
            explored = {}
        for control, arms in verdicts.items():
            yield contrast_family(experiment, runs, metric, control, tuple(arms), True)
        for control, arms in explored.items():
            rest = tuple(arm for arm in arms if arm not in verdicts.get(control, ()))
            # The experiment's own control has a family even alone: its copies' noise floor is a result.
            if rest or (control == experiment.control and control not in verdicts):
                yield contrast_family(experiment, runs, metric, control, rest, False)


def verdict_metrics(experiment: Experiment) -> tuple[str, ...]:
    """The metrics on which every contrast has a verdict, where they were measured: the primary one first."""
    asked = experiment.verdict.primary
    with_cost = experiment.verdict.cost and not any(metric in ANSWERED_COSTS for metric in asked)
    return (*asked, *((COST_METRIC,) if with_cost else ()))


def expected_contrasts(experiment: Experiment, weight: float = 1.0) -> int:
    """How many contrasts of this weight would have the same share of the error rate as one of this weight among those
    that will have a verdict: for how many its interval is simultaneous. At least 1.
    """
    metrics = dict.fromkeys((*verdict_metrics(experiment), *(m for c in experiment.verdict.compare for m in c.metrics)))
    values = {step.id: dict.fromkeys(metrics, 1.0) for step in experiment.resolved_steps}
    run = RunSummary(
        block=1, position=1, arm=experiment.control, valid=True, reasons=(), evidence=(), folder="", values=values
    )
    found = [one for one in families(experiment, (run,), list(metrics)) if one.primary]
    total = sum(one.weight * len(set(one.arms) - {one.control}) * len(one.steps) for one in found)
    return max(1, round(total / weight))


def weight_of(experiment: Experiment, metric: str) -> float:
    """The weight of each contrast of a metric with verdicts."""
    return 1.0 if metric == experiment.verdict.leading else WEIGHT_OF_OTHERS


def _declared(experiment: Experiment, metric: str) -> dict[str, list[str]]:
    """{control: arms} of verdict.compare for one metric."""
    found: dict[str, list[str]] = {}
    for compare in experiment.verdict.compare:
        if metric in compare.metrics:
            found.setdefault(compare.control, []).extend(compare.arms)
    return {control: list(dict.fromkeys(arms)) for control, arms in found.items()}


def contrast_family(
    experiment: Experiment, runs: Sequence[RunSummary], metric: str, control: str, arms: tuple[str, ...], primary: bool
) -> Family:
    """One metric of these arms against one control, from the runs' values."""
    source = metric_source(metric)
    assert source is not None, metric
    used = (*arms, control)

    host_groups = block_groups(runs)

    def family(name: str, of: str, among: tuple[str, ...], a_a: Family | None = None) -> Family:
        return Family(
            metric=Metric(name, source.unit, source.better),
            control=of,
            arms=among,
            steps={step: _observations(runs, step, name, among) for step in _steps_with(experiment, runs, name)},
            margin=experiment.verdict.margin_of(metric),
            primary=primary,
            seed=experiment.design.seed,
            a_a=a_a,
            host_groups=host_groups,
            weight=weight_of(experiment, metric),
        )

    copied = experiment.control
    twin = _copied_metric(runs, metric, copied)
    if control == copied and twin == metric:
        return family(metric, control, tuple(arm.name for arm in experiment.arms if arm.name in used))
    return family(metric, control, used, family(twin, copied, (copied,)))


def _steps_with(experiment: Experiment, runs: Sequence[RunSummary], metric: str) -> list[str]:
    """The steps that have a metric.

    If no run has it at a step, but runs have it at others, the step has no such metric (hits of sets).
    """
    steps = [step.id for step in experiment.resolved_steps]
    found = [step for step in steps if any(metric in run.values.get(step, {}) for run in runs)]
    return steps if metric == experiment.verdict.leading else found or steps


def _copied_metric(runs: Sequence[RunSummary], metric: str, copied: str) -> str:
    """The metric whose noise the twice-run arm shows: the same, or instance 1's where it has no such instance."""
    base, instance = split_instance(metric)
    here = {name for run in runs if run.arm == copied for values in run.values.values() for name in values}
    return metric if instance is None or metric in here else of_instance(base, 1)


def _observations(runs: Sequence[RunSummary], step: str, metric: str, arms: Sequence[str]) -> tuple[Observation, ...]:
    observations = []
    for run in runs:
        if run.arm not in arms:
            continue
        reasons = run.invalid_steps.get(step, ())
        if any(one.check != "no_valid_step" for one in run.reasons):
            reasons = run.reasons
        value = None if reasons or not run.valid else run.values.get(step, {}).get(metric)
        observations.append(
            Observation(
                run.block,
                run.arm,
                value,
                run.copy_number,
                first_label(reasons) if value is None else "",
                run.failures.get(step, ""),
                run.unadjusted.get(step, {}).get(metric) if value is not None else None,
            )
        )
    return tuple(observations)


def families_of_values(
    experiment: Experiment, values: Mapping[Lane, Mapping[str, float]], runs: Sequence[RunSummary], metric: Metric
) -> Iterator[Family]:
    """The families, one for each control, of values (lane → step → value above 0) that are no metric of `runs`."""
    groups = block_groups(runs)

    def family(of: str, among: tuple[str, ...], a_a: Family | None = None) -> Family | None:
        steps = {
            step.id: tuple(
                Observation(block, arm, steps[step.id], copy)
                for (block, arm, copy), steps in values.items()
                if arm in among and step.id in steps
            )
            for step in experiment.resolved_steps
        }
        found = {step: observations for step, observations in steps.items() if observations}
        margin = experiment.verdict.margin_of(metric.name)
        seed = experiment.design.seed
        return Family(metric, of, among, found, margin, seed=seed, a_a=a_a, host_groups=groups) if found else None

    copies = family(experiment.control, (experiment.control,))
    for control, arms in experiment.contrasts().items():
        a_a = None if control == experiment.control else copies
        if (control == experiment.control or copies) and (found := family(control, (*arms, control), a_a)):
            yield found


def first_label(reasons: tuple[Reason, ...]) -> str:
    """The first failed validity check in words ("not steady", "treatment not proved"), by which they are counted."""
    return reasons[0].label if reasons else "not measured"
