"""A fake but plausible study folder, written through the store's own API: seeded, the same bytes on every machine.

The shape follows studies 1 and 3: allocators, read-only and read-write, connections swept, blocks with an A/A copy. The
numbers have a run-to-run spread of 1 %, a drift over blocks, ramps, checkpoints and a planted effect per allocator.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from mydyno.model.definition.experiment import ArmSpec, DataSpec, DesignSpec, Experiment, ServerSpec, Step, StepSpec
from mydyno.model.definition.plan import PlannedRun, make_plan
from mydyno.model.stored.reasons import Reason
from mydyno.model.stored.records import (
    DriverResult,
    Evidence,
    RunRecord,
    ServerRecord,
    StepRecord,
    StudyRecord,
    WindowSteadiness,
)
from mydyno.store.samples import Sample, write_samples
from mydyno.store.study_folder import StudyFolder
from tests.support.fake_summary import summarise

CREATED_NS = 1_795_000_000_000_000_000
GIB = float(1 << 30)
EFFECTS = {"glibc": 0.0, "jemalloc": 0.085, "tcmalloc": 0.048, "mimalloc": 0.012}
MEMORY = {"glibc": 1.0, "jemalloc": 0.93, "tcmalloc": 1.04, "mimalloc": 0.97}
SPACE = {"glibc": 1.0, "jemalloc": 0.86, "tcmalloc": 0.94, "mimalloc": 1.31}


@dataclass(frozen=True)
class Shape:
    """What to make: small by default so that tests are fast."""

    arms: tuple[str, ...] = ("glibc", "jemalloc", "tcmalloc", "mimalloc")
    workloads: tuple[str, ...] = ("oltp_read_only", "oltp_read_write")
    connections: tuple[int, ...] = (16, 32, 64, 128)
    blocks: int = 4
    warmup_s: float = 5.0
    measure_s: float = 15.0
    seed: int = 1
    absent_metrics: tuple[str, ...] = ()
    invalid: dict[tuple[int, int], Reason] = field(default_factory=dict)
    """{(block, position): reason}."""
    invalid_steps: dict[tuple[int, int, str], Reason] = field(default_factory=dict)
    """{(block, position, step): reason} of steps whose run is valid."""
    finished_runs: int | None = None
    """Stop after so many runs: a study that was interrupted."""
    question: str = "Does the memory allocator change MySQL's throughput and memory use?"
    name: str = "allocators"
    summarise: bool = True
    links: dict[str, dict[str, Any]] = field(default_factory=dict)
    """{arm: its treatments} of a study over links; the arms are allocators where this is empty."""
    hosts: tuple[str, ...] = ()
    """Host groups, which execute the blocks in turn; empty: one host."""
    host_effects: dict[tuple[str, str], float] = field(default_factory=dict)
    """{(host group, arm): further effect on throughput, a share of 1}; hosts also differ in speed."""


def build(folder: Path, shape: Shape | None = None) -> StudyFolder:
    """Write the study into `folder` (which must not exist) and give it."""
    shape = shape or Shape()
    experiment = _experiment(shape)
    plan = make_plan(experiment)
    study = StudyFolder.create(
        folder,
        StudyRecord(
            study=folder.name,
            created_unix_ns=CREATED_NS,
            mydyno_version="0.1.0",
            command=("mydyno", "run", shape.name, "--scale", "standard"),
            experiment=experiment,
            experiment_source=_source(shape),
            host={
                "hostname": "bench-1",
                "kernel": "6.1.0-28-amd64",
                "cpu_model": "AMD EPYC 7302P 16-Core Processor",
                "cpus": 16,
                "memory_bytes": 68719476736,
                "filesystem": "ext4",
                "thp": "madvise",
                "glibc": "2.36",
            },
            hosts={name: _host_facts(place, name) for place, name in enumerate(shape.hosts)},
            versions={"mariadb-10.11": "10.11.14", "sysbench": "1.0.20", "jemalloc": "5.3.0", "tcmalloc": "2.10"},
        ),
        plan,
    )
    clock = CREATED_NS + 60_000_000_000
    for planned in plan.runs[: shape.finished_runs]:
        order = plan.blocks[planned.block - 1].step_order
        clock = _write_run(study, experiment, shape, planned, order, clock)
    if shape.summarise:
        study.write_summary(summarise(study))
    return study


def _host_facts(place: int, name: str) -> dict[str, Any]:
    """Every second host has another kernel and CPU; only the first has the governor performance."""
    return {
        "hostname": name,
        "kernel": ("6.1.0-28-amd64", "6.12.9+bpo-amd64")[place % 2],
        "cpu_model": ("AMD EPYC 7302P 16-Core Processor", "Intel(R) Xeon(R) Gold 6338 CPU @ 2.00GHz")[place % 2],
        "cpus": 16,
        "cpus_usable": 16,
        "cpu_governor": "performance" if place == 0 else "schedutil",
        "memory_bytes": 68719476736,
        "glibc": "2.36",
        "load_average_before": 0.1 * place,
        "synced_writes_per_s": 700.0 + place,
    }


def host_of(shape: Shape, block: int) -> str:
    """The host group that executes a block, "" where there is one."""
    return shape.hosts[(block - 1) % len(shape.hosts)] if shape.hosts else ""


def _experiment(shape: Shape) -> Experiment:
    return Experiment(
        name="allocators",
        question=shape.question,
        published=("study-1", "study-3"),
        server=ServerSpec(
            name="mariadb-10.11", variables={"innodb_buffer_pool_size": "1G", "innodb_flush_method": "O_DIRECT"}
        ),
        data=DataSpec(tables=8, rows=100_000),
        control=shape.arms[0],
        arms=tuple(
            ArmSpec.model_construct(name=arm, treatments=shape.links.get(arm, {"allocator": arm})) for arm in shape.arms
        ),
        steps=tuple(
            StepSpec(
                workload=workload,
                connections=shape.connections,
                warmup=shape.warmup_s,
                measure=shape.measure_s,
            )
            for workload in shape.workloads
        ),
        design=DesignSpec(blocks=shape.blocks, seed=shape.seed),
        scale="standard",
    )


def _source(shape: Shape) -> str:
    arms = "\n".join(f'"{arm}" = {{ allocator = "{arm}" }}' for arm in shape.arms)
    return f'name = "{shape.name}"\nquestion = "{shape.question}"\n[arms]\ncontrol = "{shape.arms[0]}"\n{arms}\n'


def _random(shape: Shape, *parts: object) -> np.random.Generator:
    text = "/".join(str(part) for part in (shape.seed, *parts))
    return np.random.default_rng(list(text.encode()))


def _write_run(
    study: StudyFolder,
    experiment: Experiment,
    shape: Shape,
    planned: PlannedRun,
    order: tuple[str, ...],
    clock: int,
) -> int:
    """One run's folder; gives the time at which the next run begins."""
    aside = study.begin_run(planned.folder)
    by_id = {step.id: step for step in experiment.resolved_steps}
    started, at = clock, clock + 4_000_000_000
    steps, samples = [], []
    for place, step_id in enumerate(order):
        step = by_id[step_id]
        lines = dict(_step_lines(shape, planned, step, place, len(order)))
        for (scope, metric), values in lines.items():
            if metric not in shape.absent_metrics:
                samples += [
                    Sample(at + round((second + 1) * 1e9), scope, metric, float(value))
                    for second, value in enumerate(values)
                ]
        steps.append(_step_record(step, lines, at, shape.invalid_steps.get((planned.block, planned.position, step_id))))
        at += round((step.warmup_s + step.measure_s + 3) * 1e9)
    samples.sort(key=lambda sample: sample.unix_ns)
    write_samples(aside / "samples.parquet", samples, started, steps)
    (aside / "my.cnf").write_text(
        f"[mysqld]\ndatadir = /studies/{planned.folder}/data\ninnodb_buffer_pool_size = 1G\n"
        "innodb_flush_method = O_DIRECT\ninnodb_flush_log_at_trx_commit = 1\n"
    )
    reason = shape.invalid.get((planned.block, planned.position))
    study.commit_run(
        RunRecord(
            block=planned.block,
            host_group=host_of(shape, planned.block),
            position=planned.position,
            arm=planned.arm,
            copy=planned.copy_number,
            folder=planned.folder,
            started_unix_ns=started,
            ended_unix_ns=at,
            valid=not reason,
            reasons=(reason,) if reason else (),
            warnings=("CPU frequency governor is powersave",) if planned.block == 1 else (),
            evidence=(
                _link(shape, planned.arm)
                or _evidence(planned.arm, proved=reason is None or reason.check != "unproved"),
            ),
            servers=(_server(planned),),
            steps=tuple(steps),
        )
    )
    return at + 8_000_000_000


def _link(shape: Shape, arm: str) -> Evidence | None:
    """A link that delivers 941 Mbit/s, or of 10gbit that this host does not reach."""
    if arm not in shape.links:
        return None
    bandwidth = shape.links[arm]["network"]
    facts = {"bandwidth": bandwidth, "to_load_bits_per_s": 941e6, "reached": bandwidth != "10gbit"}
    return Evidence(treatment="network", holds=True, text="941 Mbit/s from server to load", facts=facts)


def _evidence(arm: str, proved: bool) -> Evidence:
    library = "libc.so.6" if arm == "glibc" else f"lib{arm}.so.2"
    return Evidence(
        treatment="allocator",
        holds=proved,
        text=f"malloc of mariadbd binds to {library if proved else 'libc.so.6'}",
        facts={"binding": library if proved else "libc.so.6", "maps": [f"/parts/lib/{library}"], "version": "5.3.0"},
    )


def _server(planned: PlannedRun) -> ServerRecord:
    return ServerRecord(
        version="10.11.14-MariaDB",
        version_comment="Debian 12",
        binary="/parts/usr/sbin/mariadbd",
        command=("/parts/usr/sbin/mariadbd", f"--defaults-file=/studies/{planned.folder}/my.cnf"),
        environment={"LD_PRELOAD": "" if planned.arm == "glibc" else f"/parts/lib/lib{planned.arm}.so.2"},
        variables={"innodb_buffer_pool_size": "1073741824", "innodb_flush_log_at_trx_commit": "1", "sync_binlog": "0"},
        pid=4000 + planned.block * 10 + planned.position,
        start_s=2.4,
    )


def _step_record(step: Step, lines: dict[tuple[str, str], np.ndarray], at: int, invalid: Reason | None) -> StepRecord:
    warm = int(step.warmup_s)
    tps, qps = lines["driver:1", "tps"][warm:], lines["driver:1", "qps"][warm:]
    return StepRecord(
        id=step.id,
        workload=step.workload,
        connections=step.connections,
        started_unix_ns=at,
        warmup_s=step.warmup_s,
        measure_s=step.measure_s,
        driver=DriverResult(
            driver="sysbench",
            version="1.0.20",
            command=("sysbench", step.workload, f"--threads={step.connections}", "--report-interval=1", "run"),
            transactions=int(tps.sum()),
            queries=int(qps.sum()),
            duration_s=step.measure_s,
            latency_us={"p99": float(np.median(lines["driver:1", "latency_p99_us"][warm:]))},
        ),
        server_counters={"Questions": float(qps.sum())},
        steady=WindowSteadiness(mser5_cut_s=3, reasons=(invalid.text,) if invalid else ()),
        valid=not invalid,
        reasons=(invalid,) if invalid else (),
    )


def _step_lines(
    shape: Shape, planned: PlannedRun, step: Step, place: int, places: int
) -> Iterator[tuple[tuple[str, str], np.ndarray]]:
    """Every metric of one step, one value a second from the start of its load."""
    random = _random(shape, planned.block, planned.arm, planned.copy_number, step.id)
    seconds = np.arange(1, int(step.warmup_s + step.measure_s) + 1)
    writes = "write" in step.workload
    arm = planned.arm if planned.arm in EFFECTS else "mimalloc"
    growth = (math.log2(step.connections) - 3) / 4
    level = (52_000 if not writes else 30_000) * (1 - math.exp(-step.connections / 40)) + 3_000
    drift = 1 + 0.012 * math.sin(planned.block * 1.7) - 0.002 * planned.block
    host = host_of(shape, planned.block)
    if host:
        level *= (1 + 0.4 * shape.hosts.index(host)) * (1 + shape.host_effects.get((host, planned.arm), 0.0))
    run = drift * math.exp(random.normal(0, 0.010)) * (1 + EFFECTS[arm] * max(0.2, growth))
    ramp = 1 - 0.35 * np.exp(-seconds / (4 + 2 * writes))
    checkpoint = 1 - (0.12 * (np.sin(seconds / 5.5 + planned.block) > 0.82) if writes else 0.0)
    qps = level * run * ramp * checkpoint * np.exp(random.normal(0, 0.02, seconds.size))
    tps = qps / (20 if writes else 16)
    rss_step = (1.02 + 0.42 * (place + 1 - np.exp(-seconds / 9)) / places) * GIB
    stack = step.connections * 0.6e6
    yield ("driver:1", "qps"), qps
    yield ("driver:1", "tps"), tps
    tail = np.exp(random.normal(0, 0.06, seconds.size))
    yield ("driver:1", "latency_p99_us"), step.connections / tps * 1e6 * 2.4 * tail / checkpoint
    user = 96 * (1 - math.exp(-step.connections / 30)) * (1 - 0.04 * EFFECTS[arm] / 0.085)
    yield ("host", "cpu_user_pct"), np.clip(user * ramp + random.normal(0, 0.8, seconds.size), 0, 100) * 0.82
    yield ("host", "cpu_system_pct"), np.clip(user * 0.17 * ramp + random.normal(0, 0.4, seconds.size), 0, 100)
    yield ("host", "cpu_steal_pct"), np.zeros(seconds.size)
    yield ("instance:1", "cpu_user_pct"), np.clip(user * 0.7 * ramp + random.normal(0, 0.8, seconds.size), 0, 100)
    yield ("instance:1", "qps"), qps * 1.0005
    rss = (rss_step + stack) * MEMORY[arm] * math.exp(random.normal(0, 0.004))
    yield ("instance:1", "server_rss_bytes"), rss
    yield (
        ("instance:1", "server_vsize_bytes"),
        (2.9 * GIB + stack * 6 + seconds * 1e5) * SPACE[arm] * math.exp(random.normal(0, 0.003)),
    )
    saw = (seconds * 3.1 + planned.position * 7 + random.uniform(0, 34)) % 34 / 34
    age = (saw if writes else saw * 0.01) * 190e6
    yield ("instance:1", "innodb_checkpoint_age_bytes"), age
    yield ("instance:1", "innodb_dirty_pages_pct"), 4 + saw * (22 if writes else 0.5)
    flush = (38e6 if writes else 0.2e6) * np.exp(random.normal(0, 0.25, seconds.size))
    yield ("host", "disk_write_bytes_per_s"), flush
    if shape.links:
        yield ("host", "network_tx_bytes_per_s"), np.minimum(tps * 42_000, 122.9e6)
        yield ("host", "network_bytes_per_transaction"), np.full(seconds.size, 42_000.0)
