"""Where the servers spend their CPU time, by function, and which functions differ between an arm and its control.

The unit is the run, as for every other value: all profiled slices of a run at a step are one profile. A function's
amount is its share of the samples times the CPU time per transaction in the same slices, so that a function that one
arm alone calls does not make all others look smaller. Functions are compared with everything that they call; where
functions that one calls explain its difference, they are named instead.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from mydyno.analysis.base import Examined
from mydyno.model.stored.counted import FrameRecord, ProfileContrast, ProfilesRecord
from mydyno.model.stored.records import CpuProfile, ProfileMethod, RunRecord
from mydyno.model.stored.summary import RunSummary, with_summaries
from mydyno.results.why import slices_apart
from mydyno.stats.sampled import COPY, Copies, Difference, Sampled, SampledContrast, Server, copies_alarm, differences
from mydyno.store.samples import PROFILED_FILE, Stack, Stacks, is_waiting, read_stacks

LEAST_SHARE = 0.005
"""Least share of the CPU time of arm and control together: items with less are not compared."""
LEAST_COUNTED = LEAST_SHARE / 20
"""Least share of all samples of a step: items with less are not even counted, as no contrast compares them."""
EXPLAINED = 0.8
MOST_FRAMES = 40
MOST_COMPARED = 200
"""Items of a contrast; the largest are taken."""
UNKNOWN = "[unknown]"

Items = Callable[[Stack], Iterable[object]]
"""What a stack's samples count for: its functions, or its places in the flame graph. Each at most once."""


@dataclass(frozen=True)
class Profile:
    """The profile of one run at one step."""

    block: int
    server: Server
    facts: CpuProfile
    stacks: Stacks

    @property
    def unit_us(self) -> float:
        """The CPU time of one transaction that a sample stands for."""
        return 1e6 * self.facts.server_cpu_s / self.facts.transactions / self.samples

    @property
    def samples(self) -> int:
        """Samples that stand for CPU time."""
        return self.facts.samples - self.facts.waiting_samples


def profiles_by_step(
    folder: Path, runs: Sequence[RunRecord], summaries: Sequence[RunSummary]
) -> dict[str, list[Profile]]:
    """{step: the profiles of the runs that count there}. By one method alone: perf's, where both were used."""
    method = _method([one for run in runs for one in run.cpu_profiles])
    found: dict[str, list[Profile]] = defaultdict(list)
    for run, summary in with_summaries(runs, summaries):
        for facts in run.cpu_profiles:
            has_samples = facts.file and facts.method == method and facts.samples > facts.waiting_samples
            if has_samples and facts.transactions and facts.server_cpu_s > 0.0 and summary.usable(facts.step):
                server = Server(run.arm, run.copy_number)
                stacks = read_stacks(folder / run.folder / facts.file)
                running = {stack: count for stack, count in stacks.items() if not is_waiting(stack)}
                found[facts.step].append(Profile(run.block, server, facts, running))
    return dict(found)


def _method(facts: Sequence[CpuProfile]) -> ProfileMethod:
    """The method by which the compared profiles were made."""
    return "perf" if not facts or any(one.method == "perf" and one.file for one in facts) else facts[0].method


def functions_of(stack: Stack) -> Iterable[object]:
    """The functions of a stack, each once, however often it recurs."""
    return set(stack)


def sampled_items(profiles: Sequence[Profile], items: Items) -> Sampled:
    """The table of a step: how often each item was sampled in each block on each server."""
    counted: list[Counter[object]] = []
    for one in profiles:
        counted.append(Counter())
        for stack, count in one.stacks.items():
            counted[-1].update(dict.fromkeys(items(stack), count))
    every: Counter[object] = Counter()
    for of_run in counted:
        every.update(of_run)
    least = LEAST_COUNTED * sum(one.samples for one in profiles)
    return Sampled.of(
        [
            (one.block, one.server, one.unit_us, {item: count for item, count in of.items() if every[item] >= least})
            for one, of in zip(profiles, counted, strict=True)
        ]
    )


def compared(sampled: Sampled, arm: str, control: str) -> SampledContrast | None:
    """The contrast of an arm and its control over the items that have enough of both together; None without both."""
    if not sampled.columns(arm) or not sampled.columns(control):
        return None
    both = sampled.of_both(sampled.amounts, arm, control)
    return sampled.contrast(arm, control, both, both >= LEAST_SHARE * both.max(), MOST_COMPARED)


def analyse(study: Examined) -> ProfilesRecord | None:
    """The profiles of a study; None where none were asked for."""
    experiment, runs, alpha = study.experiment, study.records, study.alpha_of_causes
    every = [one for run in runs for one in run.cpu_profiles]
    if not every:
        return None
    method = _method(every)
    facts = [one for one in every if one.method == method]
    by_step = profiles_by_step(study.path, runs, study.runs)
    tables = {step: sampled_items(profiles, functions_of) for step, profiles in by_step.items()}
    pairs = [(arm, control) for control, arms in experiment.contrasts().items() for arm in arms]
    contrasts = [
        (step, contrast)
        for step, sampled in tables.items()
        for arm, control in pairs
        if (contrast := compared(sampled, arm, control)) is not None
    ]
    found = differences([contrast for _, contrast in contrasts], alpha or 0.05, experiment.design.seed)
    copies = [
        (step, compared(of.with_copy(experiment.control), COPY, experiment.control)) for step, of in tables.items()
    ]
    named: list[Copies] = [(step, "event", lambda item: _named(item)[1], of) for step, of in copies if of is not None]
    alarm = copies_alarm(named, alpha or 0.05)
    records = tuple(
        _contrast(step, contrast, by_step[step], of, alpha is not None and not alarm)
        for (step, contrast), of in zip(contrasts, found, strict=True)
    )
    samples, frames = sum(one.samples for one in facts), sum(one.frames for one in facts)
    return ProfilesRecord(
        contrasts=records,
        profiler=next((one.profiler for one in facts if one.profiler), ""),
        event=facts[0].event,
        frequency_hz=facts[0].frequency_hz,
        method=method,
        waiting=sum(one.waiting_samples for one in facts) / samples if samples else 0.0,
        samples=samples,
        lost_samples=sum(one.lost_samples for one in facts),
        cut_off=sum(one.cut_off_samples for one in facts) / samples if samples else 0.0,
        unknown=sum(one.unknown_frames for one in facts) / frames if frames else 0.0,
        unknown_modules=_unknown_modules([one for of in by_step.values() for one in of]),
        **dict(slices_apart(_with_reasons(every, method), study.used_slices, study.apart[PROFILED_FILE], alarm)),
    )


def _with_reasons(every: Sequence[CpuProfile], method: ProfileMethod) -> list[CpuProfile]:
    """All profiles; those by the other method have a reason why they are not compared."""
    why = "perf was missing, and profiles sampled from /proc cannot be compared with those by perf"
    return [one if one.method == method else one.model_copy(update={"missing": one.missing or why}) for one in every]


def _contrast(
    step: str, contrast: SampledContrast, profiles: Sequence[Profile], found: Sequence[Difference], may_claim: bool
) -> ProfileContrast:
    arm, control = contrast.arm, contrast.control
    shown = {
        str(contrast.table.items[item]): one.difference
        for item, one in zip(contrast.items, found, strict=True)
        if may_claim and one.excludes_no_change
    }
    own = _amounts(profiles, arm, control, lambda stack: (stack[-1],))
    calls = _amounts(profiles, arm, control, _calls)
    total = _amounts(profiles, arm, control, lambda _stack: ("",))[""]
    frames = []
    for item, one in zip(contrast.items, found, strict=True):
        name = str(contrast.table.items[item])
        module, function = _named(name)
        of_self = own.get(name, (0.0, 0.0))
        frames.append(
            FrameRecord(
                module=module,
                function=function,
                control_us=round(one.control, 4),
                arm_us=round(one.arm, 4),
                control_self_us=round(of_self[0], 4),
                arm_self_us=round(of_self[1], 4),
                low_us=None if one.low is None else round(one.low, 4),
                high_us=None if one.high is None else round(one.high, 4),
                beyond_noise=name in shown,
                explained=name in shown and _is_explained(name, shown, calls),
            )
        )
    if not any(one.beyond_noise and not one.explained for one in frames):  # functions that call each other
        frames = [one.model_copy(update={"explained": False}) for one in frames]
    frames.sort(
        key=lambda one: (
            not one.beyond_noise,
            one.explained,
            -(abs(one.arm_us - one.control_us) if one.beyond_noise else max(one.arm_us, one.control_us)),
        )
    )
    blocks = [{one.block for one in profiles if one.server.arm == side} for side in (arm, control)]
    return ProfileContrast(
        step=step,
        arm=arm,
        control=control,
        blocks=len(blocks[0] & blocks[1]),
        control_us=round(total[0], 4),
        arm_us=round(total[1], 4),
        frames=tuple(frames[:MOST_FRAMES]),
    )


def _is_explained(name: str, shown: Mapping[str, float], calls: Mapping[object, tuple[float, float]]) -> bool:
    """Whether functions that it calls, with a shown difference in the same direction, have most of its difference."""
    whole = shown[name]
    parts = 0.0
    for other, difference in shown.items():
        if other != name and difference * whole > 0.0:
            control_us, arm_us = calls.get((name, other), (0.0, 0.0))
            parts += arm_us - control_us
    return parts / whole >= EXPLAINED


def _calls(stack: Stack) -> Iterable[object]:
    """(caller, callee) of a stack, each pair once."""
    return {(a, b) for a, b in pairwise(stack) if a != b}


def _amounts(profiles: Sequence[Profile], arm: str, control: str, items: Items) -> dict[object, tuple[float, float]]:
    """{item: µs per transaction of control and arm}, means over their runs."""
    sums: dict[str, dict[object, float]] = {arm: defaultdict(float), control: defaultdict(float)}
    runs: Counter[str] = Counter()
    for one in profiles:
        if one.server.arm not in sums:
            continue
        runs[one.server.arm] += 1
        for stack, count in one.stacks.items():
            for item in items(stack):
                sums[one.server.arm][item] += count * one.unit_us
    every = dict.fromkeys((*sums[control], *sums[arm]))
    return {item: (sums[control][item] / max(1, runs[control]), sums[arm][item] / max(1, runs[arm])) for item in every}


def _named(frame: str) -> tuple[str, str]:
    """(module, function)."""
    module, _, function = frame.partition("`")
    return (module, function) if function else ("", module)


def _unknown_modules(profiles: Sequence[Profile]) -> dict[str, float]:
    every: Counter[str] = Counter()
    unknown: Counter[str] = Counter()
    for one in profiles:
        for stack, count in one.stacks.items():
            for frame in stack:
                module, function = _named(frame)
                every[module] += count
                unknown[module] += count if function == UNKNOWN else 0
    return {module: round(count / every[module], 4) for module, count in unknown.most_common() if count}
