"""The summary of a made-up study: paired t intervals on log ratios, plausible, but not the program's own statistics."""

from __future__ import annotations

import math

import numpy as np
from scipy import stats

from mydyno.model.definition.experiment import Experiment
from mydyno.model.metrics import Metric
from mydyno.model.stored.records import RunRecord
from mydyno.model.stored.summary import EffectRecord, RunSummary, Summary, Window
from mydyno.store.samples import window_means
from mydyno.store.study_folder import StudyFolder

METRICS = {
    "qps": Metric(unit="1/s", better="higher", description="Queries per second that the load program completed."),
    "tps": Metric(unit="1/s", better="higher", description="Transactions per second that the load program completed."),
    "latency_p99_us": Metric(unit="us", better="lower", description="99th percentile of the transactions' latency."),
    "cpu_user_pct": Metric(unit="%", better="lower", description="User time of all CPUs of the host; 100 % is all."),
    "cpu_system_pct": Metric(unit="%", better="lower", description="Kernel time of all CPUs of the host."),
    "server_rss_bytes": Metric(unit="bytes", better="lower", description="VmRSS of the server's process."),
    "server_vsize_bytes": Metric(unit="bytes", better="lower", description="VmSize of the server's process."),
    "innodb_checkpoint_age_bytes": Metric(unit="bytes", better="none", description="Redo not yet checkpointed."),
    "innodb_dirty_pages_pct": Metric(unit="%", better="none", description="Dirty pages in the buffer pool."),
    "disk_write_bytes_per_s": Metric(unit="bytes/s", better="lower", description="Bytes written to the data's disk."),
    "cpu_steal_pct": Metric(unit="%", better="none", description="Time stolen by the hypervisor."),
}


def summarise(study: StudyFolder) -> Summary:
    """A summary with paired t intervals on log ratios: plausible, but not the program's own statistics."""
    record = study.study()
    experiment = record.experiment
    steps = experiment.resolved_steps
    windows = {step.id: Window(from_s=step.warmup_s, to_s=step.warmup_s + step.measure_s) for step in steps}
    runs = tuple(_run_summary(study, run, windows) for run in study.runs())
    present = {metric for run in runs for values in run.values.values() for metric in values}
    metrics = {name: metric for name, metric in METRICS.items() if name in present}
    floors = {
        metric: floor for metric in metrics if (floor := {s.id: f for s in steps if (f := _floor(runs, metric, s.id))})
    }
    effects = tuple(
        _effect(runs, experiment, metric, step.id, arm.name, floors)
        for metric in metrics
        for step in steps
        for arm in experiment.arms
        if arm.name != experiment.control
    )
    planned = len(study.plan().runs)
    valid = any(run.valid for run in runs)
    return Summary.of(
        record,
        state="failed" if not valid else "complete" if len(runs) == planned else "partial",
        metrics=metrics,
        windows=windows,
        runs=runs,
        effects=effects,
        noise_floor=floors,
        published=_published(effects),
    )


def _run_summary(study: StudyFolder, run: RunRecord, windows: dict[str, Window]) -> RunSummary:
    means = window_means(study.samples_path(run.folder), {s: (w.from_s, w.to_s) for s, w in windows.items()})
    wanted = {"qps": "driver:1", "tps": "driver:1", "latency_p99_us": "driver:1", "cpu_user_pct": "host"}
    return RunSummary(
        block=run.block,
        position=run.position,
        arm=run.arm,
        copy=run.copy_number,
        valid=run.valid,
        reasons=run.reasons,
        warnings=run.warnings,
        evidence=run.evidence,
        folder=run.folder,
        invalid_steps={step.id: step.reasons for step in run.steps if not step.valid},
        values={
            step: {
                metric: round(value, 4)
                for (scope, metric), value in sorted(of_step.items())
                if scope == wanted.get(metric, scope)
            }
            for step, of_step in means.items()
        },
    )


def _pairs(runs: tuple[RunSummary, ...], metric: str, step: str, arm: str, control: str, copy: int) -> dict[int, float]:
    found = {
        (run.block, run.arm, run.copy_number): run.values[step][metric]
        for run in runs
        if run.valid and step not in run.invalid_steps and run.values.get(step, {}).get(metric, 0) > 0
    }
    blocks = sorted({block for block, _, _ in found})
    return {
        block: math.log(found[block, arm, copy] / found[block, control, 1])
        for block in blocks
        if (block, arm, copy) in found and (block, control, 1) in found
    }


def _floor(runs: tuple[RunSummary, ...], metric: str, step: str) -> float | None:
    control = next((run.arm for run in runs if run.copy_number == 2), "")
    ratios = [abs(value) for value in _pairs(runs, metric, step, control, control, 2).values()]
    return round(math.exp(max(ratios)), 6) if ratios else None


def _effect(
    runs: tuple[RunSummary, ...],
    experiment: Experiment,
    metric: str,
    step: str,
    arm: str,
    floors: dict[str, dict[str, float]],
) -> EffectRecord:
    logs = _pairs(runs, metric, step, arm, experiment.control, 1)
    values = np.array(list(logs.values()))
    primary = metric == "qps"
    ratio = low = high = p = None
    verdict = "not_measurable" if primary else None
    if len(values) >= 2:
        mean, error = float(values.mean()), float(values.std(ddof=1)) / math.sqrt(len(values))
        half = float(stats.t.ppf(0.975, len(values) - 1)) * error
        ratio, low, high = (round(math.exp(x), 6) for x in (mean, mean - half, mean + half))
        p = round(2 * float(stats.t.sf(abs(mean) / error, len(values) - 1)), 6) if error else None
        word = "higher" if ratio > 1 else "lower"
        if primary:
            floor = floors.get(metric, {}).get(step, 1.0)
            clear = (low > 1 or high < 1) and abs(ratio - 1) > floor - 1
            verdict = word if clear else "equivalent" if low > 0.98 and high < 1.02 else "inconclusive"
    return EffectRecord(
        metric=metric,
        step=step,
        arm=arm,
        control=experiment.control,
        n=len(values),
        ratio=ratio,
        ci_low=low,
        ci_high=high,
        p=p,
        verdict=verdict,
        primary=primary,
        details={"log_ratios": {str(block): round(value, 6) for block, value in logs.items()}},
    )


def _published(effects: tuple[EffectRecord, ...]) -> tuple[dict[str, object], ...]:
    published = {16: 1.1353, 32: 1.0058, 64: 1.0822, 128: 1.0951}
    entries: list[dict[str, object]] = []
    for effect in effects:
        level = int(effect.step.rsplit("-", 1)[1])
        if effect.metric == "qps" and effect.arm == "jemalloc" and "only" in effect.step and level in published:
            inside = (
                effect.ci_low is not None
                and effect.ci_high is not None
                and (effect.ci_low <= published[level] <= effect.ci_high)
            )
            entries.append(
                {
                    "study": "study-3",
                    "metric": "qps",
                    "step": effect.step,
                    "arm": "jemalloc",
                    "control": "ptmalloc",
                    "published_ratio": published[level],
                    "ratio": effect.ratio,
                    "ci_low": effect.ci_low,
                    "ci_high": effect.ci_high,
                    "agreement": "cannot tell" if effect.ratio is None else "agrees" if inside else "disagrees",
                    "notes": ({"fact": "table", "values": {"table": "MySQL 5.7.18, 16 tables of 25,000,000 rows"}},),
                }
            )
    return tuple(entries)
