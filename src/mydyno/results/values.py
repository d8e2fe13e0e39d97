"""The numbers of each run: means over one window that is common to all runs of the study.

The window of a step begins at its warm-up's end, or later where the MSER-5 cut of any run says so (one cut for all: a
cut that depends on the arm would be a bias of its own), and ends with the load. A value is the mean of the per-second
samples in the window; latency percentiles come from the driver's histogram of the whole measured window.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mydyno.model.experiment import Step
from mydyno.model.metrics import METRICS
from mydyno.model.records import RunRecord, Window
from mydyno.stats.mser import MserCut, common_cut
from mydyno.store.query import window_means
from mydyno.store.study_folder import StudyFolder


def common_windows(steps: Sequence[Step], runs: Iterable[RunRecord]) -> dict[str, Window]:
    """{step: window} over all valid runs."""
    cuts: dict[str, list[MserCut]] = {step.id: [] for step in steps}
    for run in runs:
        for record in run.steps:
            if run.valid and record.valid and "mser5_cut_s" in record.steady:
                told = record.steady
                cuts[record.id].append(
                    MserCut(told["mser5_cut_s"], told["samples"], told["mser5_beyond_half"], told["mser5_trustworthy"])
                )
    return {
        step.id: Window(
            from_s=float(common_cut(cuts[step.id], int(step.warmup_s))), to_s=step.warmup_s + step.measure_s + 0.5
        )
        for step in steps
    }


def values_of(folder: StudyFolder, run: RunRecord, windows: dict[str, Window]) -> dict[str, dict[str, float]]:
    """{step: {metric: value}} of one run, by the metrics' own scope. A metric that was not sampled is absent."""
    bounds = {record.id: (windows[record.id].from_s, windows[record.id].to_s) for record in run.steps}
    means = window_means(folder.samples_path(run.folder), bounds)
    values: dict[str, dict[str, float]] = {}
    for record in run.steps:
        found = {}
        for name, metric in METRICS.items():
            if metric.aggregate == "driver":
                key = name.removeprefix("latency_").removesuffix("_us")
                if key in record.driver.latency_us:
                    found[name] = record.driver.latency_us[key]
                continue
            scope = "host" if metric.scope == "host" else f"{metric.scope}:1"
            if (scope, name) in means[record.id]:
                found[name] = means[record.id][scope, name]
        values[record.id] = found
    return values
