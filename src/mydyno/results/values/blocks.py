"""The values of each run: means over the window that the experiment declares, the same for all runs of the study.

The window of a step begins at its warm-up's end and ends with the load, so it is known before the first run. A value is
the mean of the per-second samples in the window; latency percentiles come from the driver's histogram of the same
window, and steadiness is judged on it.

A step of a block in which one arm lost much more CPU time to the hypervisor than another is dropped for all arms. Never
for one arm alone, and never by looking at a result: the decision rests on steal. It is not free of the arms: a server
that waits sees less of it, so that what is dropped is rather the worst of those that need more CPU time. The spread of
A and A′ alone would be worse: it drops what disturbed the control, and keeps what disturbed an arm.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from mydyno.model.definition.experiment import Step
from mydyno.model.metrics import METRICS, of_instance, ordered
from mydyno.model.stored.reasons import Reason, ValidityCheck
from mydyno.model.stored.records import DriverResult, RunRecord, SliceRecord
from mydyno.model.stored.summary import RunSummary, Window
from mydyno.store.samples import window_means
from mydyno.store.study_folder import StudyFolder

STEAL = "cpu_steal_pct"
NOISE_CHECKS: tuple[ValidityCheck, ...] = ("driver_cpu", "steal")
"""Validity checks of a step that fail on a busy host."""


def is_host_noise(run: RunRecord) -> bool:
    """Whether a run is invalid only because of a busy host: such runs neither end a study nor make it a failed one."""
    return (
        not run.failed
        and bool(run.steps)
        and all(reason.check == "no_valid_step" for reason in run.reasons)
        and all(step.reasons for step in run.steps)
        and all(reason.check in NOISE_CHECKS for step in run.steps for reason in step.reasons)
    )


def without_unequal_steal(runs: Sequence[RunSummary], most_spread: float) -> tuple[RunSummary, ...]:
    """The runs of the block design; a block's step whose runs saw steal that differs by more than `most_spread` (a
    share of 1) is marked as not used in each of them.
    """
    seen: dict[tuple[int, str], list[float]] = defaultdict(list)
    for run in runs:
        for step, values in run.values.items():
            if run.valid and STEAL in values:
                seen[run.block, step].append(values[STEAL] / 100)
    spread = {key: max(shares) - min(shares) for key, shares in seen.items()}
    return tuple(_marked(run, {s: spread[run.block, s] for s in run.values if (run.block, s) in spread}, most_spread)
                 for run in runs)  # fmt: skip


def _marked(run: RunSummary, spread: dict[str, float], most_spread: float) -> RunSummary:
    found = {
        step: (
            *run.invalid_steps.get(step, ()),
            Reason(check="steal", text=f"it differed by {100 * width:.0f} % between the block's arms"),
        )
        for step, width in spread.items()
        if width > most_spread
    }
    return run.model_copy(update={"invalid_steps": {**run.invalid_steps, **found}}) if found else run


LATEST_SAMPLE_S = 0.5
"""The last second of a window is sampled so much after its end at most."""


def declared_windows(steps: Sequence[Step]) -> dict[str, Window]:
    """{step: window}, in seconds from the start of the load."""
    return {
        step.id: Window(from_s=step.warmup_s, to_s=step.warmup_s + step.measure_s + LATEST_SAMPLE_S) for step in steps
    }


def values_of(
    folder: StudyFolder, run: RunRecord, windows: dict[str, Window], instances: bool = False
) -> dict[str, dict[str, float]]:
    """{step: {metric: value}} of one run, by the metrics' own scope. A metric that was not sampled is absent.

    With `instances` (in a study where some runs have several) each instance's values are there too, under
    METRIC_instance_N; METRIC itself is made of them as its `together` says.
    """
    bounds = {record.id: (windows[record.id].from_s, windows[record.id].to_s) for record in run.steps}
    means = window_means(folder.samples_path(run.folder), bounds)
    values: dict[str, dict[str, float]] = {}
    for record in run.steps:
        parts = {part.instance: part.driver for part in record.instances} or {1: record.driver}
        apart = {number: _of_one(means[record.id], number, driver) for number, driver in parts.items()}
        found = _of_host(means[record.id]) | _together(list(apart.values()), record.driver)
        found |= _per_transaction(found)
        if not _goes_over_interfaces(run):
            found.pop("network_bytes_per_transaction", None)  # what is counted then is others' traffic
        if instances:
            for number, own in apart.items():
                found |= {of_instance(name, number): value for name, value in own.items()}
        values[record.id] = {name: found[name] for name in ordered(found)}
    return values


def _goes_over_interfaces(run: RunRecord) -> bool:
    """Whether the load's bytes pass the sampled interfaces: over a link, or to a server that mydyno did not start."""
    linked = any(evidence.treatment == "network" for evidence in run.evidence)
    return linked or all(server.pid == 0 for server in run.servers)


Means = Mapping[tuple[str, str], float]
"""{(scope, metric): mean over the window}"""


def _of_host(means: Means) -> dict[str, float]:
    return {name: means["host", name] for name, m in METRICS.items() if m.scope == "host" and ("host", name) in means}


def _of_one(means: Means, number: int, driver: DriverResult) -> dict[str, float]:
    """One instance's own values: its server's and its driver's."""
    found = _latencies(driver)
    for name, metric in METRICS.items():
        where = (f"{metric.scope}:{number}", name)
        if metric.scope != "host" and where in means:
            found[name] = means[where]
    return found | _per_transaction(found)


def _per_transaction(found: Mapping[str, float]) -> dict[str, float]:
    """What one transaction took, where all that it is made of was sampled and any transaction was made."""
    rate = found.get("tps", 0.0)
    return {
        name: sum(found[part] for part in metric.of) * metric.factor / rate
        for name, metric in METRICS.items()
        if metric.aggregate == "per_transaction" and rate > 0 and all(part in found for part in metric.of)
    }


def _latencies(driver: DriverResult) -> dict[str, float]:
    found = {}
    for name, metric in METRICS.items():
        key = name.removeprefix("latency_").removesuffix("_us")
        if metric.aggregate == "driver" and key in driver.latency_us:
            found[name] = driver.latency_us[key]
    return found


def _together(apart: Sequence[Mapping[str, float]], driver: DriverResult) -> dict[str, float]:
    """The run's values from its instances'; a metric that one of them lacks is absent."""
    found = _latencies(driver)
    for name, metric in METRICS.items():
        if metric.scope == "host" or metric.aggregate in ("driver", "per_transaction", "slices"):
            continue
        if metric.together == "spread":
            rates = [own[name.removesuffix("_spread_pct")] for own in apart if name.removesuffix("_spread_pct") in own]
            if len(rates) == len(apart) > 1 and sum(rates) > 0:
                found[name] = 100.0 * (max(rates) - min(rates)) / (sum(rates) / len(rates))
            continue
        (source,) = metric.of or (name,)
        if all(source in own for own in apart):
            parts = [own[source] for own in apart]
            found[name] = {"sum": sum(parts), "mean": sum(parts) / len(parts), "least": min(parts)}[metric.together]
    return found


def slices_of_run(run: RunRecord, summary: RunSummary, cpus: float | None) -> Iterator[SliceRecord]:
    """Each step of a run as a slice, the only one of its cycle; its rates are the step's values.

    `cpus`: all CPUs of the host of both server and load; None: the use of CPUs by other programs is not known.
    """
    for step in run.steps:
        values, length_s = summary.values.get(step.id, {}), step.driver.duration_s
        host, server, driver = (_cpu_pct(values, name) for name in ("cpu", "server_cpu", "driver_cpu"))
        yield SliceRecord.like(
            run,
            **vars(step.driver),
            step=step.id,
            cycle=1,
            started_unix_ns=step.started_unix_ns + round(1e9 * step.warmup_s),
            length_s=length_s,
            washout_s=step.warmup_s,
            rates=values,
            server_cpu_s=None if server is None else length_s * server / 100,
            driver_cpu_s=None if driver is None else length_s * driver / 100,
            strangers=None
            if not cpus or host is None or server is None or driver is None
            else max(0.0, host - (server + driver) / cpus) / 100,
            failed=step.failed,
        )


def _cpu_pct(values: Mapping[str, float], of: str) -> float | None:
    """In user mode and in the kernel."""
    parts = [values[name] for name in (f"{of}_user_pct", f"{of}_system_pct") if name in values]
    return sum(parts) if len(parts) == 2 else None
