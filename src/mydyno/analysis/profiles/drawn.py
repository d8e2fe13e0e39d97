"""The data of the flame graphs in the page: as many frames as it has room for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mydyno.analysis.profiles.flame_graph import FlameGraph, Place, flame_graphs, without_small
from mydyno.document.result import StudyResult
from mydyno.results.interim import first_finished

MOST_FRAMES = 6000
"""Most frames in all graphs of a page together; about 40 bytes each."""
SHARES = (0.001, 0.002, 0.005, 0.01, 0.02)
"""Shares of a transaction's CPU time below which frames are left out: larger ones where there are many frames."""


def graphs_of(result: StudyResult) -> tuple[list[FlameGraph], float]:
    """The graphs of a study, and the share of the CPU time from which a frame is in them."""
    runs = list(result.records.values())
    blocks = first_finished(runs, result.summary.look)
    experiment = result.study.experiment
    alpha = experiment.profile.rate_of_causes(result.summary.alpha, result.summary.operations is not None)
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
