"""Made-up runs of two arms of which one has a known cause, and the costs of that study."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mydyno.analysis.candidates import candidates_of
from mydyno.analysis.costs.per_operation import costs_of
from mydyno.model.definition.experiment import ArmSpec, DesignSpec, Experiment, ServerSpec, StepSpec
from mydyno.model.stored.analyses import CandidateRecord
from mydyno.model.stored.records import DriverResult, RunRecord, SliceRecord, StepRecord
from mydyno.model.stored.summary import CostsRecord, EffectRecord, RunSummary

CONNECTIONS = 16
STEP = "oltp_read_write-16"
ALPHA = 0.03125
USUAL: Mapping[str, float] = {
    "Innodb_data_fsyncs": 0.02,
    "Innodb_data_writes": 0.9,
    "Innodb_os_log_written": 2600.0,
    "Innodb_buffer_pool_read_requests": 110.0,
    "Innodb_buffer_pool_reads": 0.0,
    "Innodb_row_lock_time": 0.0001,
    "Innodb_row_lock_waits": 0.0005,
    "Innodb_rows_read": 420.0,
    "Bytes_sent": 39_500.0,
}
"""Growth per transaction of the control."""
KERNEL: Mapping[str, float] = {"voluntary_context_switches": 24.0, "minor_page_faults": 0.4, "disk_written_bytes": 9e3}
CPU: Mapping[str, float] = {"user": 700.0, "system": 300.0, "driver": 170.0}


@dataclass(frozen=True)
class Cause:
    """What an arm changes: costs per transaction, and by how much longer a connection takes for one, in µs."""

    longer_us: float = 0.0
    server: Mapping[str, float] = field(default_factory=dict)
    kernel: Mapping[str, float] = field(default_factory=dict)
    cpu: Mapping[str, float] = field(default_factory=dict)
    memory_bytes: float = 90_000.0
    """Memory of a connection."""
    response_us: float | None = None
    """Mean response time of an open loop; None: not known."""
    driver_system: float | None = None
    """Share of the load program's CPU time that is in the kernel; None: not known."""


def study(
    cause: Cause,
    seed: int,
    blocks: int = 6,
    noise: float = 0.03,
    short_us: float = 8000.0,
    base: Cause = Cause(),
) -> CostsRecord:
    """The costs of a study with one arm that has this cause; `base` is what the control has."""
    random = np.random.default_rng(seed)
    experiment = Experiment(
        name="causes",
        question="Which costs changed with the effect?",
        server=ServerSpec(name="mariadb-10.11"),
        control="base",
        arms=(ArmSpec(name="base"), ArmSpec(name="changed", treatments={"variables": {"innodb_io_capacity": 1}})),
        steps=(StepSpec(workload="oltp_read_write", connections=(CONNECTIONS,)),),
        design=DesignSpec(kind="interleaved", blocks=blocks),
    )
    runs, summaries, slices = [], [], []
    for block in range(1, blocks + 1):
        for arm, copy in (("base", 1), ("base", 2), ("changed", 1)):
            own = cause if arm == "changed" else base
            run, summary, made = run_of(block, arm, copy, own, random, noise, short_us)
            runs.append(run)
            summaries.append(summary)
            slices.append(made)
    found = costs_of(experiment, runs, summaries, slices, ALPHA, {"": 2})
    assert found is not None
    return found


def run_of(
    block: int, arm: str, copy: int, cause: Cause, random: np.random.Generator, noise: float, short_us: float
) -> tuple[RunRecord, RunSummary, SliceRecord]:
    """One run, its values and its only slice."""
    seconds = 16.0
    transactions_noise = float(np.exp(random.normal(0, noise)))
    per_transaction_us = (short_us + cause.longer_us) * transactions_noise
    transactions = int(CONNECTIONS * seconds * 1e6 / per_transaction_us)

    def grown(usual: Mapping[str, float], changed: Mapping[str, float]) -> dict[str, float]:
        return {
            name: random.poisson(max(0.0, changed.get(name, value)) * transactions * np.exp(random.normal(0, noise)))
            for name, value in usual.items()
        }

    cpu = {name: cause.cpu.get(name, value) * float(np.exp(random.normal(0, noise))) for name, value in CPU.items()}
    step = StepRecord(
        id=STEP,
        workload="oltp_read_write",
        connections=CONNECTIONS,
        started_unix_ns=0,
        warmup_s=0,
        measure_s=seconds,
        driver=DriverResult(
            driver="dynoload", version="", command=(), transactions=transactions, queries=20 * transactions,
            duration_s=seconds, whole={"transactions": transactions},
        ),
        server_counters=grown(USUAL, cause.server),
        connection_memory_bytes=cause.memory_bytes * float(np.exp(random.normal(0, noise))),
    )  # fmt: skip
    made = SliceRecord(
        block=block, step=STEP, cycle=1, position=1, arm=arm, copy=copy, started_unix_ns=0, length_s=seconds,
        transactions=transactions, queries=20 * transactions, whole={"transactions": transactions},
        kernel_counters=grown(KERNEL, cause.kernel),
        rates={} if cause.driver_system is None else {"driver_cpu_user_share": 1.0 - cause.driver_system},
    )  # fmt: skip
    run = RunRecord(
        block=block, position=1, arm=arm, copy=copy, folder=f"blocks/{block:02d}/{arm}-{copy}", started_unix_ns=0,
        ended_unix_ns=block, steps=(step,), valid=True,
    )  # fmt: skip
    driver = {} if cause.driver_system is None else {
        "driver_cpu_user_pct": cpu["driver"] * (1.0 - cause.driver_system),
        "driver_cpu_system_pct": cpu["driver"] * cause.driver_system,
    }  # fmt: skip
    values: dict[str, Any] = {
        **driver,
        **({} if cause.response_us is None else {"latency_mean_us": cause.response_us * transactions_noise}),
        "server_cpu_us_per_transaction": cpu["user"] + cpu["system"],
        "server_cpu_user_pct": cpu["user"],
        "server_cpu_system_pct": cpu["system"],
        "driver_cpu_us_per_transaction": cpu["driver"],
    }
    summary = RunSummary(
        block=block,
        position=1,
        arm=arm,
        copy=copy,
        valid=True,
        folder=run.folder,
        values={STEP: values},
        unadjusted={STEP: {name: 1.5 * value for name, value in values.items()}},
    )
    return run, summary, made


def named(cause: Cause, costs: CostsRecord, short_us: float = 8000.0) -> tuple[CandidateRecord, ...]:
    """The candidates that accompany a shown effect of this cause on throughput."""
    return candidates_of([effect_of(cause, short_us)], costs, None, None, None)


def shown_effect(metric: str, ratio: float, verdict: str | None = None) -> EffectRecord:
    """An effect of this size on another metric; the verdict is its direction if none is given."""
    return effect_of(Cause()).model_copy(
        update={"metric": metric, "ratio": ratio, "verdict": verdict or ("higher" if ratio > 1 else "lower")}
    )


def effect_of(cause: Cause, short_us: float = 8000.0) -> EffectRecord:
    """The effect of this cause on throughput, shown."""
    ratio = short_us / (short_us + cause.longer_us)
    return EffectRecord(
        metric="tps", step=STEP, arm="changed", control="base", n=6, ratio=ratio, ci_low=ratio * 0.97,
        ci_high=ratio * 1.03, p=0.01, verdict="lower", primary=True,
    )  # fmt: skip
