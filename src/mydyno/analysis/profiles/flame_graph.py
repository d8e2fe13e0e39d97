"""The flame graphs of a study: places in the call tree, with the difference between an arm and its control at each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mydyno.analysis.profiles.contrasts import Profile, compared, profiles_by_step, sampled_items
from mydyno.model.stored.records import RunRecord
from mydyno.model.stored.summary import Summary
from mydyno.stats.sampled import Difference, SampledContrast, differences
from mydyno.store.slices import Stack


@dataclass
class Place:
    """A frame at one place of the call tree: times are CPU time per transaction with everything below, in µs."""

    frame: str
    control_us: float = 0.0
    arm_us: float = 0.0
    difference: Difference | None = None
    """None: too small to be compared."""
    children: list[Place] = field(default_factory=list)

    @property
    def count(self) -> int:
        """Frames from here on, this one included."""
        return 1 + sum(child.count for child in self.children)


@dataclass(frozen=True)
class FlameGraph:
    """The graph of an arm and its control at one step. The root is the whole of both."""

    step: str
    arm: str
    control: str
    root: Place


def flame_graphs(
    folder: Path, runs: Sequence[RunRecord], summary: Summary, blocks: set[int], seed: int, alpha: float
) -> list[FlameGraph]:
    """A graph for each contrast of summary.profiles; differences are simultaneous over the places of all of them.

    `blocks`: those that the summary is of. `alpha`: the error rate of all graphs together.
    """
    if summary.profiles is None:
        return []
    counted = [run for run in runs if run.block in blocks]
    by_step = profiles_by_step(folder, counted, summary.runs)
    tables = {step: sampled_items(profiles, _places) for step, profiles in by_step.items()}
    contrasts: list[tuple[str, SampledContrast]] = []
    for one in summary.profiles.contrasts:
        found = compared(tables[one.step], one.arm, one.control) if one.step in tables else None
        if found is not None:
            contrasts.append((one.step, found))
    graphs = []
    for (step, contrast), found_differences in zip(
        contrasts, differences([c for _, c in contrasts], alpha, seed), strict=True
    ):
        by_place = {tables[step].items[item]: one for item, one in zip(contrast.items, found_differences, strict=True)}
        graphs.append(
            FlameGraph(
                step, contrast.arm, contrast.control, _tree(by_step[step], contrast.arm, contrast.control, by_place)
            )
        )
    return graphs


def _places(stack: Stack) -> Iterable[object]:
    """The places of a stack in the call tree, from the outermost."""
    return (stack[: depth + 1] for depth in range(len(stack)))


def _tree(profiles: Sequence[Profile], arm: str, control: str, differences: dict[object, Difference]) -> Place:
    runs = {side: max(1, sum(one.server.arm == side for one in profiles)) for side in (arm, control)}
    amounts: dict[Stack, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for one in profiles:
        if one.server.arm not in runs:
            continue
        side = int(one.server.arm == arm)
        for stack, count in one.stacks.items():
            amount = count * one.unit_us / runs[one.server.arm]
            for depth in range(len(stack) + 1):
                amounts[stack[:depth]][side] += amount
    places = {
        path: Place(path[-1] if path else "", control_us, arm_us, differences.get(path))
        for path, (control_us, arm_us) in amounts.items()
    }
    for path in sorted(places):
        if path:
            places[path[:-1]].children.append(places[path])
    return places[()]


def without_small(place: Place, least_us: float) -> Place:
    """The tree without places in which neither side spends so much."""
    kept = [
        without_small(child, least_us) for child in place.children if max(child.control_us, child.arm_us) >= least_us
    ]
    return Place(place.frame, place.control_us, place.arm_us, place.difference, kept)
