"""Which costs, waits, times in the kernel and functions accompanied each effect: the likeliest first.

A candidate changed beyond noise, in the direction of the effect, and far enough to account for a good part of it: of
the change in the time that a connection spends on an operation, for an effect on throughput; of the change in the mean
response time, for one on latency; of the change itself, for one on the server's CPU time, where candidates are
functions and the time in user mode and in the kernel. Nothing here shows a cause: an experiment has to test a
candidate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import log

from mydyno.analysis.base import Analysis, Examined
from mydyno.model.stored.analyses import CandidateKind, CandidateRecord
from mydyno.model.stored.costs import COSTS
from mydyno.model.stored.counted import MEASURES, KernelRecord, ProfilesRecord, WaitsRecord
from mydyno.model.stored.summary import CostRecord, CostsRecord, EffectRecord
from mydyno.results.why import explained, is_of_latency, is_of_server_cpu

DRIVER_CPU = "driver_cpu_us"
PARTS_OF_DRIVER_CPU = ("driver_cpu_user_us", "driver_cpu_system_us")
"""Named as a whole: which of the two changed is in the table of costs."""
SERVER_CPU = ("server_cpu_user_us", "server_cpu_system_us")
ENOUGH = 0.25
"""Share of the change of time per operation below which a change is no explanation."""
MOST_NAMED = 6
"""Most candidates named for one effect."""
MOST_OF_KIND = 2
"""Waits, stages, times in the kernel and functions of one effect: each is part of the same time."""
ROW_LOCK_TIME, ROW_LOCK_WAITS = "row_lock_time_us", "row_lock_waits"
SAME = {"wait/row locks": f"cost/{ROW_LOCK_TIME}"}
"""What is the same time, and not named beside it."""
FOR_ANOTHER_THREAD = frozenset({"kernel/futex", "wait/condition variables"})
"""Waits for what another thread does. Where that is I/O, it comes first: one thread flushes, the others wait for it."""
IO = frozenset({"kernel/file_sync", "kernel/block_read", "kernel/block_write", "kernel/block_flush", "wait/file I/O"})
LEAST_OWN = 0.1
"""Share that I/O must have itself to be counted with the waits for another thread."""
EXPLAINED = 0.8
"""Share of a cost's change that other costs have which it counts again: it is then not named beside them."""
LEAST_SHARE = 0.002
"""Share of an operation's time with which a wait or a function is compared where the control has almost none of it."""


@dataclass(frozen=True)
class _Found:
    """A candidate of one effect."""

    kind: CandidateKind
    name: str
    share: float
    measured: bool
    strength: float
    """How far the interval stays from no change, in logarithms."""
    module: str = ""

    @property
    def key(self) -> str:
        """As in SAME."""
        return f"{self.kind}/{self.name}"


def candidates_of(
    effects: Sequence[EffectRecord],
    costs: CostsRecord | None,
    profiles: ProfilesRecord | None,
    waits: WaitsRecord | None,
    kernel: KernelRecord | None,
) -> tuple[CandidateRecord, ...]:
    """The candidates for every effect that is looked at (results/why.py), from what was found of each kind.

    Those that can account for most come first; among equals the one whose interval is farthest from no change. Waits
    for another thread come after I/O that accounts for enough, too; CPU time after the function that spends it.
    """
    found = []
    for effect in explained(effects):
        if is_of_server_cpu(effect):
            of_effect = [*_functions_of_cpu(effect, profiles), *_parts_of_cpu(effect, costs)]
        else:
            of_effect = _of_time(effect, costs, profiles, waits, kernel)
        found += [
            CandidateRecord.like(
                effect,
                kind=one.kind,
                name=one.name,
                module=one.module,
                explains=round(min(1.0, one.share), 4),
                measured=one.measured,
            )
            for one in of_effect[:MOST_NAMED]
        ]
    return tuple(found)


def _of_time(
    effect: EffectRecord,
    costs: CostsRecord | None,
    profiles: ProfilesRecord | None,
    waits: WaitsRecord | None,
    kernel: KernelRecord | None,
) -> list[_Found]:
    """The candidates for an effect on throughput or latency, in order."""
    time = _time(effect, costs)
    found = [*_costs(effect, costs, time), *_waits(effect, waits, time), *_kernel(effect, kernel, time)]
    found += _functions(effect, profiles, time)
    keys = {one.key for one in found}
    found = [one for one in found if SAME.get(one.key) not in keys]
    found.sort(key=lambda one: (-min(1.0, one.share), -one.strength))
    if any(one.key in IO for one in found):
        found.sort(key=lambda one: one.key in FOR_ANOTHER_THREAD)
    return found


def _is_of(one: object, effect: EffectRecord) -> bool:
    return all(getattr(one, name) == getattr(effect, name) for name in ("step", "arm", "control"))


@dataclass(frozen=True)
class _Time:
    """How much longer an operation takes, and how often CPU time of one delays a connection."""

    change_us: float
    crowding: float
    driver_crowding: float


def _time(effect: EffectRecord, record: CostsRecord | None) -> _Time | None:
    """None where it is not known, or has not changed in the direction of the effect."""
    if is_of_latency(effect):
        return _response_time(effect, record)
    times = {(one.arm, one.step): one for one in record.times} if record else {}
    arm, control = (times.get((of, effect.step)) for of in (effect.arm, effect.control))
    if arm is None or control is None:
        return None
    change_us = arm.connection_us - control.connection_us
    if change_us == 0.0 or (change_us > 0.0) != (effect.verdict == "lower"):
        return None
    return _Time(change_us, (arm.crowding + control.crowding) / 2, (arm.driver_crowding + control.driver_crowding) / 2)


def _response_time(effect: EffectRecord, record: CostsRecord | None) -> _Time | None:
    """The same of the mean response time. CPU time delays as many transactions as are under way."""
    times = {(one.arm, one.step): one for one in record.times} if record else {}
    arm, control = (times.get((of, effect.step)) for of in (effect.arm, effect.control))
    if arm is None or control is None or arm.response_us is None or control.response_us is None:
        return None
    change_us = arm.response_us - control.response_us
    if change_us == 0.0 or (change_us > 0.0) != ((effect.ratio or 1.0) > 1.0):
        return None
    shares = [min(1.0, (of.response_us or 0.0) / of.connection_us) for of in (arm, control)]
    under_way = sum(shares) / 2

    def crowded(one: float, other: float) -> float:
        return max(1.0, under_way * (one + other) / 2)

    return _Time(
        change_us, crowded(arm.crowding, control.crowding), crowded(arm.driver_crowding, control.driver_crowding)
    )


def _parts_of_cpu(effect: EffectRecord, record: CostsRecord | None) -> list[_Found]:
    """The server's CPU time in user mode and in the kernel, of an effect on their sum: the larger part first."""
    parts = [one for one in record.costs if _is_of(one, effect) and one.cost in SERVER_CPU] if record else []
    change_us = sum(one.control_value for one in parts) * ((effect.ratio or 1.0) - 1.0)
    if change_us == 0.0:
        return []
    found = [
        _Found("cost", one.cost, (one.arm_value - one.control_value) / change_us, True, _nearest(one))
        for one in parts
        if one.beyond_noise
    ]
    return _most(found)


def _functions_of_cpu(effect: EffectRecord, record: ProfilesRecord | None) -> list[_Found]:
    """The leading function of those whose CPU time changed in the direction of an effect on the server's."""
    for contrast in record.contrasts if record else ():
        change_us = contrast.control_us * ((effect.ratio or 1.0) - 1.0)
        if not _is_of(contrast, effect) or change_us == 0.0:
            continue
        found = []
        for one in contrast.leading:
            share = (one.arm_us - one.control_us) / change_us
            strength = _strength(one.control_us, one.low_us, one.high_us, LEAST_SHARE * contrast.control_us)
            found.append(_Found("function", one.function, share, True, strength, one.module))
        return _most(found)[:1]
    return []


def _costs(effect: EffectRecord, record: CostsRecord | None, time: _Time | None) -> list[_Found]:
    if record is None or time is None:
        return []
    known = {one.cost for one in record.costs if _is_of(one, effect)}
    enough = {
        one.cost: (one, share)
        for one in record.costs
        if _is_of(one, effect)
        and one.beyond_noise
        and one.cost not in PARTS_OF_DRIVER_CPU
        and not (one.cost == ROW_LOCK_WAITS and ROW_LOCK_TIME in known)  # their time is known: no estimate is needed
        and (share := _explains(one, time)) >= ENOUGH
    }
    return [
        _Found("cost", name, share, COSTS[name].is_time, _nearest(one))
        for name, (one, share) in enough.items()
        if not _is_counted_again(one, {other: of for other, (of, _) in enough.items()})
    ]


def _is_counted_again(one: CostRecord, others: Mapping[str, CostRecord]) -> bool:
    """Whether other costs that are named have most of this one's change."""
    parts = 0.0
    for name, by in COSTS[one.cost].counts_again.items():
        if name in others:
            parts += by * (others[name].arm_value - others[name].control_value)
    return parts / (one.arm_value - one.control_value) >= EXPLAINED


def _explains(record: CostRecord, time: _Time) -> float:
    """Share of the change that the change of a cost accounts for, at most; negative: it moved the other way."""
    cost = COSTS[record.cost]
    share = (record.arm_value - record.control_value) / time.change_us
    if record.cost == DRIVER_CPU:
        return share * time.driver_crowding
    if cost.source == "cpu":
        return share * time.crowding
    return share * (1.0 if cost.is_time else cost.event_us)


def _nearest(record: CostRecord) -> float:
    """How far the interval stays from no change, in logarithms."""
    if record.ci_low is None or record.ci_high is None:
        return 0.0
    return min(abs(log(record.ci_low)), abs(log(record.ci_high)))


def _change_us(control_us: float, effect: EffectRecord, time: _Time | None) -> float:
    """How much longer an operation takes at this effect; 0 for an effect on latency where that is not known."""
    if is_of_latency(effect):
        return time.change_us if time else 0.0
    return control_us * (1.0 / (effect.ratio or 1.0) - 1.0)


def _strength(control_us: float, low_us: float | None, high_us: float | None, least_us: float) -> float:
    """How far the interval of a difference is from 0, on the scale of the log; 0 if it contains 0 or is not known."""
    if low_us is None or high_us is None or low_us <= 0.0 <= high_us:
        return 0.0
    base = control_us + least_us
    return abs(log(max(base + (low_us if low_us > 0.0 else high_us), least_us) / base))


def _waits(effect: EffectRecord, record: WaitsRecord | None, time: _Time | None) -> list[_Found]:
    """Classes of waits; where none accounts for enough, stages of statements, which contain them."""
    classes, stages = [], []
    for contrast in record.contrasts if record else ():
        change_us = _change_us(contrast.control_us, effect, time)
        if not _is_of(contrast, effect) or change_us == 0.0:
            continue
        for one in contrast.events:
            share = (one.arm_us - one.control_us) / change_us
            if not one.beyond_noise:
                continue
            least_us = LEAST_SHARE * contrast.control_us
            strength = _strength(one.control_us, one.low_us, one.high_us, least_us)
            if one.is_class:
                classes.append(_Found("wait", one.name, share, True, strength))
            elif one.kind == "stage":
                stages.append(_Found("stage", one.name, share, True, strength))
    return _most(_with_waits_for(classes)) or _most(stages)


def _kernel(effect: EffectRecord, record: KernelRecord | None, time: _Time | None) -> list[_Found]:
    """Times in the kernel that transactions wait for."""
    found = []
    for contrast in record.contrasts if record else ():
        change_us = _change_us(contrast.control_us, effect, time)
        if not _is_of(contrast, effect) or change_us == 0.0:
            continue
        for one in contrast.rows:
            if not one.beyond_noise or one.arm_us is None or not MEASURES[one.measure].is_waited_for:
                continue
            control_us = one.control_us or 0.0
            strength = _strength(control_us, one.low_us, one.high_us, LEAST_SHARE * contrast.control_us)
            found.append(_Found("kernel", one.measure, (one.arm_us - control_us) / change_us, True, strength))
    return _most(_with_waits_for(found))


def _with_waits_for(found: Sequence[_Found]) -> list[_Found]:
    """I/O has the time, too, that other threads wait: in a group commit one thread flushes for many transactions."""
    waits = max((one.share for one in found if one.key in FOR_ANOTHER_THREAD), default=0.0)
    if waits < ENOUGH:
        return list(found)
    return [replace(one, share=one.share + waits) if one.key in IO and one.share >= LEAST_OWN else one for one in found]


def _functions(effect: EffectRecord, record: ProfilesRecord | None, time: _Time | None) -> list[_Found]:
    """The leading function, whose CPU time delays other connections as any other does."""
    if time is None:
        return []
    found = []
    for contrast in record.contrasts if record else ():
        if not _is_of(contrast, effect):
            continue
        for one in contrast.leading[:1]:
            share = (one.arm_us - one.control_us) * time.crowding / time.change_us
            strength = _strength(one.control_us, one.low_us, one.high_us, LEAST_SHARE * contrast.control_us)
            found.append(_Found("function", one.function, share, True, strength, one.module))
    return _most(found)


def _most(found: Sequence[_Found]) -> list[_Found]:
    """The findings that account for enough, the largest first."""
    return sorted((one for one in found if one.share >= ENOUGH), key=lambda one: -one.share)[:MOST_OF_KIND]


def analyse(study: Examined) -> tuple[CandidateRecord, ...]:
    """From what the other analyses found."""
    costs, profiles, waits, kernel = (study.found.get(name) for name in ("costs", "profiles", "waits", "kernel"))
    return candidates_of(study.effects, costs, profiles, waits, kernel)


ANALYSIS = Analysis(stored="candidates", analyse=analyse)
