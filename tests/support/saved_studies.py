"""Saved studies in memory, from log values through the program's own decisions: what comparisons read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mydyno.across.saved import SavedStudy
from mydyno.model.definition.experiment import ArmSpec, DataSpec, DesignSpec, Experiment, ServerSpec, StepSpec
from mydyno.model.definition.plan import SIX, make_plan
from mydyno.model.definition.specs import VerdictSpec
from mydyno.model.metrics import METRICS
from mydyno.model.stored.records import RunRecord, ServerRecord, StudyRecord
from mydyno.model.stored.summary import RunSummary, StepLevel, Summary
from mydyno.results.families import families
from mydyno.store.study_folder import StudyFolder
from mydyno.verdicts import decide_study

CREATED_NS = 1_795_000_000_000_000_000
DAY_NS = 86_400_000_000_000
HOST = {"hostname": "vm-7", "kernel": "6.1.0", "cpu_model": "AMD EPYC", "cpus": 2, "memory_bytes": 4 << 30}
VARIABLES = {"innodb_buffer_pool_size": "268435456", "innodb_io_capacity": "200"}


class InMemory(StudyFolder):
    """A folder with these runs that is not on disk."""

    def __init__(self, name: str, runs: Sequence[RunRecord]) -> None:
        super().__init__(Path(name))
        self._runs = runs

    def runs(self) -> Iterator[RunRecord]:
        """The runs."""
        return iter(self._runs)


def experiment(arms: Sequence[str] = ("A", "x", "y"), steps: int = 1, **changes: Any) -> Experiment:
    """The first arm is the control; steps have 4, 8, … connections."""
    fields: dict[str, Any] = {
        "name": "allocators",
        "question": "Which one is faster?",
        "server": ServerSpec(name="mariadb-10.11"),
        "data": DataSpec(tables=4, rows=1000),
        "control": arms[0],
        "arms": tuple(ArmSpec(name=arm, treatments={"environment": {"ARM": arm}}) for arm in arms),
        "steps": (StepSpec(workload="oltp_read_only", connections=tuple(4 * (n + 1) for n in range(steps))),),
        "design": DesignSpec(blocks=8),
        "verdict": VerdictSpec(primary="qps", cost=False),
    }
    return Experiment(**{**fields, **changes})


def saved(
    logs: NDArray[np.float64],
    of: Experiment | None = None,
    *,
    name: str = "allocators-1",
    day: int = 0,
    version: str = "10.11.14-MariaDB",
    host: Mapping[str, Any] = HOST,
    variables: Mapping[str, str] = VARIABLES,
    alpha: float = 0.05,
    look: int | None = None,
    latency: bool = False,
    **changes: Any,
) -> SavedStudy:
    """A study from log values: blocks × servers (control, its copy, then the arms) × steps.

    `latency`: the 99th percentile has the inverse of the values, and no verdict.
    """
    study = of or experiment(steps=logs.shape[2])
    steps = study.resolved_steps
    arms = [arm.name for arm in study.arms]
    servers = [(arms[0], 1), (arms[0], 2), *((arm, 1) for arm in arms[1:])]
    runs = tuple(
        RunSummary(
            block=block + 1,
            position=place + 1,
            arm=arm,
            copy=copy,
            valid=True,
            folder=f"blocks/{block + 1:02d}/{place + 1}-{arm}",
            values={
                step.id: {"qps": float(np.exp(logs[block, place, index]))}
                | ({"latency_p99_us": float(np.exp(8.0 - logs[block, place, index]))} if latency else {})
                for index, step in enumerate(steps)
            },
        )
        for block in range(logs.shape[0])
        for place, (arm, copy) in enumerate(servers)
    )
    metrics = ("qps", "latency_p99_us") if latency else ("qps",)
    effects = decide_study(list(families(study, runs, metrics)), alpha, None if look is None else SIX)
    summary = Summary(
        experiment=study.name,
        question=study.question,
        study=name,
        state="complete",
        control=arms[0],
        arms=tuple(arms),
        primary=study.verdict.leading,
        margin=study.verdict.margin,
        steps=tuple(StepLevel.like(step) for step in steps),
        metrics={metric: METRICS[metric].record() for metric in metrics},
        runs=runs,
        effects=tuple(effects),
        noise_floor={},
        look=look,
        looks=None if look is None else dict(SIX.rates),
        alpha=alpha,
        **changes,
    )
    record = StudyRecord(
        study=name,
        created_unix_ns=CREATED_NS + day * DAY_NS,
        mydyno_version="0.1.0",
        experiment=study,
        host=dict(host),
        versions={"dynoload": "0.1.0", "server": version},
    )
    plan = make_plan(study, blocks=1)
    first = tuple(
        RunRecord(
            block=1,
            position=place + 1,
            arm=arm,
            folder=f"blocks/01/{place + 1}-{arm}",
            started_unix_ns=record.created_unix_ns,
            ended_unix_ns=record.created_unix_ns + 1,
            valid=True,
            servers=(ServerRecord(version=version, variables=dict(variables)),),
        )
        for place, arm in enumerate(arms)
    )
    return SavedStudy(InMemory(name, first), record, plan, summary, first)


def values(
    random: np.random.Generator,
    effects: Sequence[float] = (0.05, 0.0),
    blocks: int = 8,
    steps: int = 1,
    noise: float = 0.01,
    level: float = 9.0,
) -> NDArray[np.float64]:
    """Log values with these true log effects of the arms; a block's level wanders by 3 %."""
    shape = (blocks, 2 + len(effects), steps)
    made = level + random.normal(0.0, 0.03, (blocks, 1, 1)) + noise * random.standard_normal(shape)
    return np.asarray(made + np.array([0.0, 0.0, *effects])[None, :, None])
