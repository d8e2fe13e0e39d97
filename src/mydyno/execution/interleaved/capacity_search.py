"""The rates of a capacity search while a block runs: one search for each lane and step, guided by earlier blocks.

What decides whether a slice met the objective: its latency counts from when each operation was due, of all operations
that were due in the measured part, those that waited until after it included; and nearly all of them ended within it,
so that no backlog grew. Nothing here looks at an effect: rates are chosen here, capacities are estimated by
results/values/interleaved.py from the saved slices.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import exp, log
from statistics import median
from typing import Any

from mydyno.drivers.held import SliceOrder
from mydyno.errors import BugError
from mydyno.model.definition.experiment import Experiment, Step
from mydyno.model.definition.specs import SearchSpec
from mydyno.model.stored.records import SearchSlice, SliceRecord
from mydyno.results.values.interleaved import outcomes_of, starts_of
from mydyno.stats.capacity import Known, Search, estimates

FEWEST_OPERATIONS = 100
"""Fewest operations of a slice: with fewer there is no 99th percentile. The first rate offers as many."""
RAMP_SLICE_S, RAMP_WASHOUT_S = 1.0, 0.3
"""Slices that find the order of magnitude, before the cycles of a study's first block."""
RAMP_FACTOR = 3.0
MOST_RAMP_SLICES = 16
WARMUP_SHARE = 0.7
"""The rate of the warm-up, as a share of the known capacity."""
MOST_LATE = 0.01
"""Share of the operations that may end after the slice, beside those that were due within the limit before its end."""

LaneKey = tuple[str, int]
"""(arm, copy)"""
Loaded = Callable[[SliceOrder], Awaitable[Sequence[dict[str, Any]]]]
"""Runs a slice on one lane; its records, none if the arm failed."""


def judged(search: SearchSpec, order: SliceOrder, record: Mapping[str, Any]) -> SearchSlice:
    """Whether a slice met the objective, from dynoload's record of it."""
    if search.of == "connections":
        return _judged_closed(search, order, record)
    rate = order.rate
    if rate is None:
        raise BugError(f"slice {order.id} of a search has no rate")
    end = record["end"]
    planned, late = int(end["planned"]), int(end["ended_after_stop"]) + int(end["unfinished"]) + int(end["not_started"])
    length_s = float(record["length_s"])
    key = f"{search.metric.removeprefix('latency_')}"
    value_us = record.get("response", {}).get(key)
    because = ""
    if int(end["unfinished"]) or int(end["not_started"]):
        because = "unfinished"
    elif int(record["counts"].get("errors", 0)):
        because = "errors"
    elif value_us is None or float(value_us) > search.limit_us:
        because = "latency"
    elif late > MOST_LATE * planned + rate * min(search.limit, length_s):
        because = "throughput"
    return SearchSlice.model_validate(
        {
            "rate": rate,
            "value_us": None if value_us is None else float(value_us),
            "planned": planned,
            "late": late,
            "met": not because,
            "because": because,
        }
    )


def _judged_closed(search: SearchSpec, order: SliceOrder, record: Mapping[str, Any]) -> SearchSlice:
    """In a closed loop no backlog can grow: the latency decides, and errors."""
    value_us = record.get("response", {}).get(search.metric.removeprefix("latency_"))
    because = ""
    if int(record["counts"].get("errors", 0)):
        because = "errors"
    elif value_us is None or float(value_us) > search.limit_us:
        because = "latency"
    return SearchSlice.model_validate(
        {
            "connections": order.connections,
            "value_us": None if value_us is None else float(value_us),
            "planned": int(record["counts"].get("transactions", 0)),
            "met": not because,
            "because": because,
        }
    )


def known_of(experiment: Experiment, slices: Sequence[SliceRecord]) -> dict[tuple[str, LaneKey], Known]:
    """{(step, lane): what the blocks so far found}; the control's two copies are one arm."""
    found: dict[tuple[str, LaneKey], Known] = {}
    for step in experiment.resolved_steps:
        starts = starts_of(slices, step.id)
        if step.search is None or not starts:
            continue
        made, sigma = estimates([outcomes_of(own) for own in starts.values()], [arm for _, arm, _ in starts])
        logs: dict[str, list[float]] = defaultdict(list)
        for (_, arm, _), one in zip(starts, made, strict=True):
            if one is not None and one.bracketed:
                logs[arm].append(log(one.capacity))
        for arm, values in logs.items():
            for copy in (1, 2):
                found[step.id, (arm, copy)] = Known(exp(median(values)), sigma)
    return found


@dataclass
class BlockSearches:
    """The searches of one block."""

    known: Mapping[tuple[str, LaneKey], Known] = field(default_factory=dict)
    _searches: dict[tuple[str, LaneKey], Search] = field(default_factory=dict)

    def warmup(self, step: Step, lane: LaneKey, order: SliceOrder) -> SliceOrder:
        """The warm-up's slice at a rate that the lane is known to carry, or at the first rate of a search."""
        if step.search is None:
            return order
        known = self.known.get((step.id, lane))
        return _at(step, order, _first_level(step) if known is None else WARMUP_SHARE * known.capacity)

    async def ramp(self, step: Step, lane: LaneKey, stream: int, run: Loaded) -> None:
        """Find the order of magnitude, where no earlier block has found it: short slices at growing rates."""
        if step.search is None or (step.id, lane) in self.known:
            return
        search = self._search(step, lane)
        level = _first_level(step)
        for number in range(1, MOST_RAMP_SLICES + 1):
            order = _at(step, SliceOrder(f"ramp/{number}", stream, RAMP_WASHOUT_S, RAMP_SLICE_S), level)
            records = await run(order)
            if not records:
                return
            found = judged(step.search, order, records[0])
            search.add(found.level, found.met)
            if not found.met or found.connections == step.connections:
                return
            level *= RAMP_FACTOR

    def order(self, step: Step, lane: LaneKey, order: SliceOrder) -> SliceOrder:
        """The slice at the load that the search of this lane chooses next."""
        if step.search is None:
            return order
        return _at(step, order, self._search(step, lane).next_rate())

    def note(
        self, step: Step, lane: LaneKey, order: SliceOrder, records: Sequence[Mapping[str, Any]]
    ) -> SearchSlice | None:
        """What the slice showed; it goes into the search. None: the step searches nothing."""
        if step.search is None:
            return None
        found = judged(step.search, order, records[0])
        self._search(step, lane).add(found.level, found.met)
        return found

    def _search(self, step: Step, lane: LaneKey) -> Search:
        key = (step.id, lane)
        if key not in self._searches:
            self._searches[key] = Search(_first_level(step), self.known.get(key))
        return self._searches[key]


def _first_level(step: Step) -> float:
    return 1.0 if step.search is not None and step.search.of == "connections" else FEWEST_OPERATIONS / RAMP_SLICE_S


def _at(step: Step, order: SliceOrder, level: float) -> SliceOrder:
    """The slice at this load: a rate, or a whole number of the step's connections."""
    if step.search is not None and step.search.of == "connections":
        return replace(order, connections=min(max(round(level), 1), step.connections))
    return replace(order, rate=level)
