"""Summaries with chosen verdicts, for tests of the words around them. Nothing here is computed from runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mydyno.evaluation.answer import answer_study
from mydyno.model.definition.experiment import ArmSpec, DataSpec, DesignSpec, Experiment, ServerSpec, StepSpec
from mydyno.model.metrics import Metric
from mydyno.model.stored.records import RunRecord, ServerRecord, StudyRecord
from mydyno.model.stored.summary import EffectRecord, InterleavingRecord, RunSummary, Summary

START_NS = 1_795_000_000_000_000_000
MINUTE_NS = 60_000_000_000
VARIABLES = {"innodb_buffer_pool_size": "1073741824", "innodb_flush_log_at_trx_commit": "1", "sync_binlog": "0"}
COST = "server_cpu_us_per_query"
METRICS = {"qps": Metric(unit="1/s", better="higher"), COST: Metric(unit="us", better="lower")}


def experiment(arms: Sequence[str] = ("glibc", "jemalloc", "tcmalloc"), connections: tuple[int, ...] = (64,),
               specs: Sequence[ArmSpec] = (), **changes: Any) -> Experiment:  # fmt: skip
    """Allocators read-only, or these arms as they are."""
    chosen = tuple(specs) or tuple(ArmSpec(name=arm, treatments={"allocator": arm}) for arm in arms)
    values: dict[str, Any] = {
        "name": "allocators",
        "question": "Which allocator serves most queries?",
        "server": ServerSpec(name="mariadb-10.11"),
        "data": DataSpec(tables=8, rows=100_000),
        "control": chosen[0].name,
        "arms": chosen,
        "steps": (StepSpec(workload="oltp_read_only", connections=connections),),
        "design": DesignSpec(blocks=6, time=600),
    }
    return Experiment(**values | changes)


def effect(arm: str, verdict: str | None, percent: float | None = None, half: float = 1.0, **changes: Any
           ) -> EffectRecord:  # fmt: skip
    """An effect of so many percent with an interval of about ± half, of QPS at the first step."""
    ratio = None if percent is None else 1 + percent / 100
    values: dict[str, Any] = {
        "metric": "qps",
        "step": "oltp_read_only-64",
        "arm": arm,
        "control": "glibc",
        "n": 6,
        "ratio": ratio,
        "ci_low": None if ratio is None else ratio / (1 + half / 100),
        "ci_high": None if ratio is None else ratio * (1 + half / 100),
        "p": 0.01,
        "verdict": verdict,
        "primary": verdict is not None,
    }
    return EffectRecord(**values | changes)


def runs(of: Experiment, blocks: int = 6, failures: Mapping[tuple[int, str], str] | None = None,
         **changes: Any) -> tuple[RunSummary, ...]:  # fmt: skip
    """Every arm and the control's copy once in each block; `failures` are {(block, arm): reason}."""
    step = of.resolved_steps[0].id
    found = []
    for block in range(1, blocks + 1):
        for position, (arm, copy) in enumerate([*((arm.name, 1) for arm in of.arms), (of.control, 2)], 1):
            reason = (failures or {}).get((block, arm)) if copy == 1 else None
            values: dict[str, Any] = {
                "block": block,
                "position": position,
                "arm": arm,
                "copy": copy,
                "valid": True,
                "folder": f"blocks/{block:02d}/{position}-{arm}",
                "failures": {step: reason} if reason else {},
            }
            found.append(RunSummary(**values | changes))
    return tuple(found)


def summary(of: Experiment, effects: Sequence[EffectRecord], blocks: int = 6, **changes: Any) -> Summary:
    """A complete interleaved study at its first look, unless said otherwise."""
    steal, strangers = changes.pop("steal", 0.01), changes.pop("strangers", None)
    values: dict[str, Any] = {
        "experiment": of.name,
        "question": of.question,
        "study": "allocators-1",
        "state": "complete",
        "control": of.control,
        "arms": tuple(arm.name for arm in of.arms),
        "primary": "qps",
        "margin": 0.02,
        "steps": tuple({"id": s.id, "workload": s.workload, "connections": s.connections} for s in of.resolved_steps),
        "metrics": {"qps": Metric(unit="1/s", better="higher")},
        "runs": runs(of, blocks, changes.pop("failures", None)),
        "effects": tuple(effects),
        "noise_floor": {},
        "design": "interleaved",
        "look": blocks if blocks >= 6 else None,
        "due": blocks >= 6 or "look" in changes,
        "alpha": 0.03125,
        "interleaving": InterleavingRecord(
            slice_s=2, washout_s=0.5, cycles=60, steal_mean=steal, steal_max=2 * steal, strangers_mean=strangers
        ),
    }
    return Summary(**values | changes)


def study(of: Experiment) -> StudyRecord:
    """On a host of two CPUs."""
    host = {"hostname": "vm-1", "cpus_usable": 2, "memory_bytes": 4 << 30}
    return StudyRecord(study="allocators-1", created_unix_ns=START_NS, mydyno_version="0.1.0", experiment=of, host=host)


def records(of: Experiment, blocks: int = 6, block_minutes: float = 2.0) -> tuple[RunRecord, ...]:
    """Blocks one after another, all servers of a block for its whole length."""
    server = ServerRecord(version="10.11.14-MariaDB", variables=VARIABLES)
    return tuple(
        RunRecord(
            block=run.block,
            position=run.position,
            arm=run.arm,
            copy=run.copy_number,
            folder=run.folder,
            started_unix_ns=START_NS + int((run.block - 1) * block_minutes * MINUTE_NS),
            ended_unix_ns=START_NS + int(run.block * block_minutes * MINUTE_NS),
            valid=True,
            servers=(server,),
        )
        for run in runs(of, blocks)
    )


def answer(effects: Sequence[EffectRecord], of: Experiment | None = None, blocks: int = 6, **changes: Any) -> str:
    """The answer's sentences, of at most three, which never claim that there is no difference."""
    of = of or experiment()
    made = summary(of, effects, blocks, metrics=METRICS, **changes)
    found = answer_study(made, study(of), records(of, blocks))
    assert 1 <= len(found.answer) <= 3
    assert "no difference" not in " ".join(found.answer).lower()
    return " ".join(found.answer)


def cost(arm: str, verdict: str, percent: float, half: float = 1.0, **changes: Any) -> EffectRecord:
    """A verdict on CPU per query."""
    return effect(arm, verdict, percent, half, metric=COST, **changes)
