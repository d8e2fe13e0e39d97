"""A made-up interleaved study: slices on a host whose speed wanders and whose hypervisor steals; seeded.

Every slice is drawn from the host's speed at its moment and the arm's planted effect. The effects in the summary are
paired t intervals on each block's mean log ratio: plausible, but not the program's own statistics.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from mydyno.model.definition.experiment import ArmSpec, DataSpec, DesignSpec, Experiment, ServerSpec, Step, StepSpec
from mydyno.model.definition.plan import Design, PlannedBlock, make_plan
from mydyno.model.metrics import Metric
from mydyno.model.stored.reasons import fact
from mydyno.model.stored.records import (
    DriverResult,
    Evidence,
    RunRecord,
    ServerRecord,
    SliceRecord,
    StepRecord,
    StudyRecord,
)
from mydyno.model.stored.summary import EffectRecord, InterleavingRecord, RunSummary, Summary
from mydyno.store.samples import SLICES_FILE, write_slices
from mydyno.store.study_folder import StudyFolder

CREATED_NS = 1_795_000_000_000_000_000
COST = "server_cpu_us_per_query"
METRICS = {
    "qps": Metric(unit="1/s", better="higher", description="Queries per second."),
    "tps": Metric(unit="1/s", better="higher", description="Transactions per second."),
    COST: Metric(unit="us", better="lower", description="CPU time of the server for one query."),
    "latency_p99_us": Metric(unit="us", better="lower", description="99th percentile of the response time."),
}
PLANTED = {"glibc": (0.0, 0.0), "jemalloc": (0.042, -0.045), "tcmalloc": (0.061, -0.052), "mimalloc": (0.011, -0.08)}
FACTORS: dict[str, dict[str, Any]] = {
    f"{band}-{tls}-{zlib}": {"network": band, "tls": "1.3" if tls == "tls" else "off", "compression": zlib}
    for band in ("10gbit", "1gbit", "100mbit")
    for tls in ("plain", "tls")
    for zlib in ("raw", "zlib")
}


@dataclass(frozen=True)
class Interleaved:
    """What to make."""

    planted: dict[str, tuple[float, float]] = field(default_factory=lambda: PLANTED)
    """{arm: (effect on QPS, on CPU per query)}, shares of 1; the first arm is the control."""
    treatments: dict[str, dict[str, Any]] = field(default_factory=dict)
    copies: int | None = None
    """Of each treated arm in a block."""
    workloads: tuple[str, ...] = ("oltp_read_only", "oltp_read_write")
    blocks: int = 6
    planned: int = 6
    cycles: int = 8
    noise: float = 0.02
    steal: float = 0.06
    seed: int = 1
    failures: dict[tuple[int, str], str] = field(default_factory=dict)
    """{(block, arm): reason}."""
    speed_meter: bool = True
    margin: float = 0.02
    experiment: Experiment | None = None
    """Of the same arms as `planted`; None: one that is made of the rest."""


def build(folder: Path, shape: Interleaved | None = None) -> StudyFolder:
    """Write the study into `folder` (which must not exist) and give it."""
    shape = shape or Interleaved()
    experiment = shape.experiment or _experiment(shape)
    plan = make_plan(experiment, Design("interleaved") if shape.copies else None)
    host = {"hostname": "vm-7", "kernel": "6.1.0-28-cloud-amd64", "cpus": 2, "cpus_usable": 2, "memory_bytes": 4 << 30}
    record = StudyRecord(
        study=folder.name,
        created_unix_ns=CREATED_NS,
        mydyno_version="0.1.0",
        command=("mydyno", "run", experiment.name, "--time", "10m"),
        experiment=experiment,
        experiment_source=f'name = "{experiment.name}"\n',
        host=host,
        versions={"mariadb-10.11": "10.11.14"},
    )
    study = StudyFolder.create(folder, record, plan)
    random = np.random.default_rng(shape.seed)
    clock, slices = CREATED_NS + 20_000_000_000, []
    for block in plan.blocks[: shape.blocks]:
        made, clock = _block(shape, experiment, block, clock, random)
        write_slices(study.path / f"blocks/{block.block:02d}" / SLICES_FILE, made)
        _runs(study, shape, experiment, block, made, clock)
        slices += made
    summary = _summary(study, shape, experiment, slices)
    study.write_summary(summary)
    return study


def _experiment(shape: Interleaved) -> Experiment:
    arms = tuple(shape.planted)
    return Experiment(
        name="network" if shape.treatments else "allocators",
        question="What do bandwidth, TLS and compression cost?" if shape.treatments else
        "Which memory allocator serves most queries, and at which cost?",
        server=ServerSpec(name="mariadb-10.11", variables={"innodb_buffer_pool_size": "256M"}),
        data=DataSpec(tables=4, rows=50_000),
        control=arms[0],
        arms=tuple(ArmSpec(name=arm, treatments=shape.treatments.get(arm, {"allocator": arm})) for arm in arms),
        steps=tuple(StepSpec(workload=one, connections=(64,), warmup=1, measure=2) for one in shape.workloads),
        design=DesignSpec(kind="interleaved", blocks=shape.planned, cycles=shape.cycles, seed=shape.seed, time=600,
                          copies=shape.copies),
    )  # fmt: skip


def _block(
    shape: Interleaved, experiment: Experiment, block: PlannedBlock, clock: int, random: np.random.Generator
) -> tuple[list[SliceRecord], int]:
    """One block's slices: the host's log speed is an AR(1) over slices with episodes of half speed."""
    steps = {step.id: step for step in experiment.resolved_steps}
    starts = {(run.arm, run.copy_number): random.normal(0, shape.noise / 3) for run in block.runs}
    slices: list[SliceRecord] = []
    wander, slow, clock = 0.0, 0, clock + 9_000_000_000
    for step_id in block.step_order:
        for cycle in range(1, shape.cycles + 1):
            for position, place in enumerate(random.permutation(len(block.runs)), 1):
                run = block.runs[place]
                wander = 0.93 * wander + random.normal(0, 0.05)
                slow = slow - 1 if slow else int(random.random() < 0.02) * 4
                steal = min(0.9, max(0.0, random.gamma(1.2, shape.steal / 1.2)))
                speed = math.exp(-abs(wander)) * (0.55 if slow else 1.0)
                slices.append(
                    _slice(shape, steps[step_id], run.arm, speed, steal, starts[run.arm, run.copy_number], random)
                    .model_copy(update={"block": block.block, "cycle": cycle, "position": position,
                                        "copy_number": run.copy_number, "started_unix_ns": clock + 500_000_000})
                )  # fmt: skip
                clock += 2_500_000_000
    return slices, clock + 3_000_000_000


def _slice(
    shape: Interleaved, step: Step, arm: str, speed: float, steal: float, start: float, random: np.random.Generator
) -> SliceRecord:
    effect, cost = shape.planted[arm]
    level = 9000.0 if "only" in step.workload else 5200.0
    noise = random.normal(0, shape.noise, 3)
    qps = level * (1 + effect) * speed * (1 - steal) ** 1.1 * math.exp(start + noise[0])
    queries = int(qps * 2)
    return SliceRecord(
        block=1,
        step=step.id,
        cycle=1,
        position=1,
        arm=arm,
        started_unix_ns=0,
        length_s=2.0,
        transactions=queries // 16,
        queries=queries,
        latency_us={"mean": step.connections * 16e6 / qps, "p50": 64e6 / qps * 8, "p99": 64e6 / qps * 21},
        driver_cpu_s=queries * 31e-6 / speed * math.exp(noise[1] / 3),
        server_cpu_s=queries * 150e-6 * (1 + cost) / speed * math.exp(noise[2] / 2),
        idle_servers_cpu_s=0.004,
        steal=round(steal, 4),
        strangers=0.01,
        speed=41_000 / speed * math.exp(random.normal(0, 0.01)) if shape.speed_meter else None,
        server_rss_bytes=3.1e8,
    )


def _runs(
    study: StudyFolder, shape: Interleaved, experiment: Experiment, block: PlannedBlock, slices: Sequence[SliceRecord],
    ended: int,
) -> None:  # fmt: skip
    steps = {step.id: step for step in experiment.resolved_steps}
    for planned in block.runs:
        study.begin_run(planned.folder)
        own = [one for one in slices if (one.arm, one.copy_number) == (planned.arm, planned.copy_number)]
        failed = shape.failures.get((block.block, planned.arm), "") if planned.copy_number == 1 else ""
        records = []
        for step_id in block.step_order:
            of_step = [one for one in own if one.step == step_id]
            step = steps[step_id]
            records.append(
                StepRecord(
                    id=step_id,
                    workload=step.workload,
                    connections=step.connections,
                    started_unix_ns=of_step[0].started_unix_ns,
                    warmup_s=0.5,
                    measure_s=2.0,
                    driver=DriverResult(
                        driver="dynoload",
                        version="0.1.0",
                        command=("dynoload", step.workload),
                        transactions=sum(one.transactions for one in of_step),
                        queries=sum(one.queries for one in of_step),
                        duration_s=sum(one.length_s for one in of_step),
                    ),
                    failed=failed,
                )
            )
        variables = {"innodb_buffer_pool_size": str(256 << 20), "innodb_flush_log_at_trx_commit": "1"}
        study.commit_run(
            RunRecord(
                block=block.block,
                position=planned.position,
                arm=planned.arm,
                copy=planned.copy_number,
                folder=planned.folder,
                started_unix_ns=slices[0].started_unix_ns - 9_000_000_000,
                ended_unix_ns=ended,
                valid=True,
                failed=failed,
                evidence=(Evidence(treatment="allocator", holds=True, text=f"malloc binds to lib{planned.arm}.so"),),
                servers=(ServerRecord(version="10.11.14-MariaDB", variables=variables),),
                steps=tuple(records),
            )
        )


def _values(one: SliceRecord) -> dict[str, float]:
    server = one.server_cpu_s or 0.0
    return {
        "qps": one.queries / one.length_s,
        "tps": one.transactions / one.length_s,
        COST: server / one.queries * 1e6,
        "latency_p99_us": one.latency_us["p99"],
    }


def _adjusted(one: SliceRecord) -> dict[str, float]:
    """Divided by the host's speed in the slice, as the load program's CPU per query and steal show it."""
    dearer = (one.driver_cpu_s or 1.0) / one.queries / 31e-6
    slow = dearer / (1 - (one.steal or 0.0))
    plain = _values(one)
    return {**plain, "qps": plain["qps"] * slow, "tps": plain["tps"] * slow, COST: plain[COST] / dearer,
            "latency_p99_us": plain["latency_p99_us"] / slow}  # fmt: skip


def _numbers(slices: Sequence[SliceRecord], adjust: bool) -> dict[tuple[str, str, int, str], dict[int, float]]:
    """{(step, arm, copy, metric): {block: mean log value over cycles}}."""
    found: dict[tuple[str, str, int, str], dict[int, list[float]]] = {}
    for one in slices:
        for metric, value in (_adjusted(one) if adjust else _values(one)).items():
            of_block = found.setdefault((one.step, one.arm, one.copy_number, metric), {})
            of_block.setdefault(one.block, []).append(math.log(value))
    return {key: {block: float(np.mean(logs)) for block, logs in of.items()} for key, of in found.items()}


def _summary(study: StudyFolder, shape: Interleaved, experiment: Experiment, slices: Sequence[SliceRecord]) -> Summary:
    adjusted, plain = _numbers(slices, True), _numbers(slices, False)
    steps = experiment.resolved_steps
    runs = []
    for run in study.runs():
        failed = shape.failures.get((run.block, run.arm), "") if run.copy_number == 1 else ""
        of_run = {
            step.id: {} if failed else {
                metric: math.exp(numbers[step.id, run.arm, run.copy_number, metric][run.block]) for metric in METRICS
            }
            for step in steps
            for numbers in (adjusted,)
        }  # fmt: skip
        before = {
            step.id: {m: math.exp(plain[step.id, run.arm, run.copy_number, m][run.block]) for m in METRICS}
            for step in steps
            if not failed
        }
        runs.append(
            RunSummary(
                block=run.block, position=run.position, arm=run.arm, copy=run.copy_number, valid=True,
                folder=run.folder, evidence=run.evidence, values=of_run, unadjusted=before,
                failures={step.id: failed for step in steps} if failed else {},
            )
        )  # fmt: skip
    look = max((look for look in (6, 10, 16) if look <= shape.blocks), default=None)
    alpha = {6: 0.03125, 10: 0.004}.get(look or 0, 0.03125)
    effects = tuple(
        _effect(shape, adjusted, plain, metric, step.id, arm.name, alpha if look else None)
        for metric in METRICS
        for step in steps
        for arm in experiment.arms[1:]
    )
    floors = {
        metric: {s.id: math.exp(max(abs(d) for d in _ratios(adjusted, metric, s.id, experiment.control, 2, experiment)))
                 for s in steps}
        for metric in METRICS
    }  # fmt: skip
    steals = [one.steal or 0.0 for one in slices]
    return Summary(
        experiment=experiment.name,
        question=experiment.question,
        study=study.name,
        state="complete" if shape.blocks == shape.planned else "partial",
        control=experiment.control,
        arms=tuple(arm.name for arm in experiment.arms),
        primary="qps",
        margin=shape.margin,
        steps=tuple({"id": s.id, "workload": s.workload, "connections": s.connections} for s in steps),
        metrics=METRICS,
        runs=tuple(runs),
        effects=effects,
        noise_floor=floors,
        design="interleaved",
        due=look is not None,
        look=look,
        alpha=alpha,
        interleaving=InterleavingRecord(
            slice_s=2.0,
            washout_s=0.5,
            cycles=shape.cycles * shape.blocks * len(steps),
            dropped_cycles=2,
            waited_s=14.0,
            steal_mean=float(np.mean(steals)),
            steal_max=max(steals),
            covariates=("driver_cpu_around", "available_cpu_around"),
            coefficients={s.id: {"qps": {"driver_cpu": -0.97, "available_cpu": 1.08}} for s in steps},
            sd_within={s.id: {"qps": 0.031, COST: 0.012} for s in steps},
            sd_between={s.id: {"qps": 0.008, COST: 0.004} for s in steps},
            notes=(fact("longer washout", block=2, washout_s=1.0),),
        ),
    )


def _ratios(
    numbers: dict[tuple[str, str, int, str], dict[int, float]], metric: str, step: str, arm: str, copy: int,
    experiment: Experiment,
) -> list[float]:  # fmt: skip
    base = numbers[step, experiment.control, 1, metric]
    return [value - base[block] for block, value in numbers[step, arm, copy, metric].items()]


def _effect(
    shape: Interleaved,
    adjusted: dict[tuple[str, str, int, str], dict[int, float]],
    plain: dict[tuple[str, str, int, str], dict[int, float]],
    metric: str,
    step: str,
    arm: str,
    alpha: float | None,
) -> EffectRecord:
    control = next(iter(shape.planted))
    judged = metric in ("qps", COST)
    contrasts = 3 * len(shape.workloads) * (len(shape.planted) - 1) if judged else 1
    failed = sorted(block for block, of in shape.failures if of == arm)

    def interval(numbers: dict[tuple[str, str, int, str], dict[int, float]]) -> tuple[float, float, float, list[float]]:
        logs = [value - numbers[step, control, 1, metric][block]
                for block, value in numbers[step, arm, 1, metric].items()]  # fmt: skip
        error = float(np.std(logs, ddof=1)) / math.sqrt(len(logs))
        half = float(stats.t.ppf(1 - (alpha or 0.05) / 2 / contrasts, 5 * (len(logs) - 1))) * error
        return math.exp(np.mean(logs)), math.exp(np.mean(logs) - half), math.exp(np.mean(logs) + half), logs

    ratio, low, high, logs = interval(adjusted)
    verdict = None
    if judged and alpha is not None:
        inside = low > 1 - shape.margin and high < 1 + shape.margin
        verdict = "higher" if low > 1 else "lower" if high < 1 else "equivalent" if inside else "inconclusive"
    common: dict[str, Any] = {
        "metric": metric,
        "step": step,
        "arm": arm,
        "control": control,
        "primary": judged,
        "details": {"log_ratios": {str(block): value for block, value in enumerate(logs, 1) if block not in failed}},
    }
    if failed:
        why = {"no transaction ended": len(failed)}
        common["details"]["failure"] = {"who": "arm", "blocks": len(failed), "tried": len(logs), "why": why}
        return EffectRecord(
            **common, n=len(logs) - len(failed), ratio=None, ci_low=None, ci_high=None, p=None,
            verdict="not_measurable" if judged else None,
        )  # fmt: skip
    before = interval(plain)
    return EffectRecord(
        **common, n=len(logs), ratio=ratio, ci_low=low, ci_high=high, p=0.01,
        verdict=verdict, unadjusted=before[:3],
    )  # fmt: skip
