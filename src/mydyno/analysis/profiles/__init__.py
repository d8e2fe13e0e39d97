"""Where the CPU goes: the functions that differ between an arm and its control, and the flame graph of both."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from markupsafe import Markup

from mydyno.analysis.base import Analysis
from mydyno.analysis.profiles.contrasts import Profile, analyse, compared, profiles_by_step, sampled_items
from mydyno.document import counted
from mydyno.document.parts import Cell, Part, Table, asset, render, script_json
from mydyno.document.result import StudyResult
from mydyno.language import agreed
from mydyno.model.stored.counted import FrameRecord, ProfileContrast, ProfilesRecord
from mydyno.model.stored.records import RunRecord
from mydyno.model.stored.summary import Summary
from mydyno.results.precision import first_finished
from mydyno.stats.sampled import Difference, SampledContrast, differences
from mydyno.store.samples import Stack
from mydyno.wording.numbers import percent, signed_time, time_interval, time_text
from mydyno.wording.verdicts import alarm_clause


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


MOST_ROWS = 12


def sentence(contrast: ProfileContrast, record: ProfilesRecord) -> str:
    """The answer for one contrast: which function leads, or that none differs."""
    leading = contrast.leading
    total = contrast.arm_us - contrast.control_us
    if record.alarm:
        return f"No difference is claimed: {alarm_clause(record.alarm)}."
    if not leading:
        return counted.with_few_blocks("No function's CPU time per transaction differs beyond noise.", contrast.blocks)
    first = leading[0]
    of_all = first.change_us / (total or 1.0)
    share = f" This is {percent(of_all)} of the difference in CPU time." if 0.0 < of_all <= 1.2 else ""
    others = f" {len(leading) - 1} more differ beyond noise." if len(leading) > 1 else ""
    amount = f"{time_text(abs(first.change_us))} {'more' if first.change_us > 0 else 'less'}"
    interval = time_interval(first.low_us, first.high_us)
    return f"{first.label} takes {amount} CPU time per transaction ({interval}).{share}{others}"


def frame_rows(contrast: ProfileContrast) -> list[FrameRecord]:
    """The rows of the table: the functions that are named; without any, those with most CPU time of their own."""
    found = contrast.leading
    if not found:
        found = sorted(contrast.frames, key=lambda one: -max(one.arm_self_us, one.control_self_us))
    return found[:MOST_ROWS]


def _origin(record: ProfilesRecord) -> list[str]:
    """By what the samples were taken, and what they show."""
    where = agreed(f"in {record.slices} slices of their own, which enter no effect")
    if record.method == "perf":
        how = f"by {record.profiler} ({record.event}, {record.frequency_hz} per second and CPU)"
        return [agreed(f"{record.samples:,} samples of the servers' stacks {how} {where}.")]
    found = [
        agreed(
            f"{record.samples:,} samples of the servers' threads ({record.frequency_hz} per second and thread) {where}"
            ": kernel stacks sampled from /proc, without functions of the server, as perf is missing."
        )
    ]
    if record.waiting > 0:
        found.append(
            agreed(
                f"{percent(record.waiting)} of the samples are of threads that waited for a disk "
                "(uninterruptible wait) or for a CPU. They are in the stored stacks and not in the CPU times."
            )
        )
    return found


def quality(record: ProfilesRecord) -> list[str]:
    """How the profile was made, what it cost, and what is missing from it: a sentence each."""
    found = _origin(record)
    found += counted.cost_sentences(record, "the profile", "the profiled slices", ", which do not bear it")
    if record.unknown > 0 and record.method == "perf":
        modules = ", ".join(f"{name} {percent(share)}" for name, share in list(record.unknown_modules.items())[:3])
        found.append(
            f"{percent(record.unknown)} of the frames have no name, as symbols are missing ({modules}); they count as "
            "one function [unknown] of their module. Debug symbols of the server's package give them names."
        )
    if record.cut_off >= 0.001:
        found.append(f"{percent(record.cut_off)} of the stacks are cut off; the graph shows them apart.")
    if record.lost_samples:
        found.append(f"{record.lost_samples:,} samples were lost.")
    found += [f"Not all runs were profiled: {why}." for why in record.missing[:3]]
    return found


MOST_FRAMES = 6000
"""Most frames in all graphs of a page together; about 40 bytes each."""
SHARES = (0.001, 0.002, 0.005, 0.01, 0.02)
"""Shares of a transaction's CPU time below which frames are left out: larger ones where there are many frames."""


def graphs_of(result: StudyResult) -> tuple[list[FlameGraph], float]:
    """The graphs of a study, and the share of the CPU time from which a frame is in them."""
    runs = list(result.records.values())
    blocks = first_finished(runs, result.summary.look)
    experiment = result.study.experiment
    alpha = experiment.profile.rate_of_causes(result.summary.alpha, result.summary.families_beside)
    found = flame_graphs(result.folder.path, runs, result.summary, blocks, experiment.design.seed, alpha)
    graphs, share = found, 0.0
    for share in SHARES:
        graphs = [_without_small(one, share) for one in found]
        if sum(one.root.count for one in graphs) <= MOST_FRAMES:
            break
    return graphs, share


def _without_small(graph: FlameGraph, share: float) -> FlameGraph:
    least_us = share * max(graph.root.control_us, graph.root.arm_us)
    return FlameGraph(graph.step, graph.arm, graph.control, without_small(graph.root, least_us))


def page_graphs(result: StudyResult, graphs: Sequence[FlameGraph], labels: Sequence[str]) -> dict[str, Any]:
    """What the script draws: names once, and each frame as [name, control µs, arm µs, difference, children].

    The difference is [low, high, beyond noise]; null: too small to be compared, or too few blocks.
    """
    record = result.summary.profiles
    claims = record is not None and not record.alarm and not result.before_first_look
    names: dict[str, int] = {}

    def packed(place: Place) -> list[Any]:
        one = place.difference
        interval = None
        if one is not None and one.low is not None and one.high is not None:
            interval = [_us(one.low), _us(one.high), int(claims and one.excludes_no_change)]
        number = names.setdefault(place.frame, len(names))
        return [number, _us(place.control_us), _us(place.arm_us), interval, [packed(child) for child in place.children]]

    drawn = [
        {"label": label, "arm": one.arm, "control": one.control, "root": packed(one.root)}
        for one, label in zip(graphs, labels, strict=True)
    ]
    return {"graphs": drawn, "names": list(names)}


def _us(value: float) -> float:
    return float(f"{value:.4g}")


def part(result: StudyResult) -> Part | None:
    """The section; None where nothing was profiled."""
    record = result.summary.profiles
    if record is None:
        return None
    contrasts = record.contrasts
    graphs, share = graphs_of(result)
    by_key = {(one.step, one.arm, one.control): one for one in contrasts}
    drawn = [one for one in graphs if (one.step, one.arm, one.control) in by_key]
    labels = [counted.heading(result, by_key[one.step, one.arm, one.control]) for one in drawn]
    flame = None
    if drawn:
        data, script = script_json(page_graphs(result, drawn, labels)), Markup(asset("flame.js"))
        flame = render("flame.html", least=percent(share), data=data, script=script)
    found = [(one, sentence(one, record), [_table(one)]) for one in contrasts]
    body = counted.body(result, found, "functions", flame, quality(record))
    says = counted.finding(result, record, found, [bool(one.leading) for one in contrasts])
    return Part(id="cpu", heading="Where the CPU goes", says=says, body=body)


def _table(contrast: ProfileContrast) -> Table:
    shown = contrast.leading
    chosen = frame_rows(contrast)
    rows: list[Sequence[str | Cell]] = [
        [
            one.label,
            Cell(time_text(one.control_us), "num"),
            Cell(time_text(one.arm_us), "num"),
            Cell(signed_time(one.change_us), "num strong" if one.beyond_noise else "num"),
            Cell(time_interval(one.low_us, one.high_us), "num"),
            Cell(time_text(one.control_self_us), "num"),
            Cell(time_text(one.arm_self_us), "num"),
        ]
        for one in chosen
    ]
    control, arm = contrast.control, contrast.arm
    return Table(
        "CPU time per transaction of a function with all that it calls: "
        + ("those that differ beyond noise" if shown else "those with most time of their own"),
        ("function", control, arm, "difference", "interval", f"{control}, own", f"{arm}, own"),
        rows,
        f"In all: {time_text(contrast.control_us)} and {time_text(contrast.arm_us)} per transaction.",
    )


ANALYSIS = Analysis(chapter="why", part=part, stored="profiles", analyse=analyse)
