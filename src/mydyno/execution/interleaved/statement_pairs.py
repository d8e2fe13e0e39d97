"""A block of a study that compares statements: all servers are up, and one program sends each statement to all of them.

What each server takes for the whole capture, by its own counts of statements, is the block's one slice of its lane: it
enters the verdicts as every slice does.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from mydyno import clock
from mydyno.drivers.dynoload import ComparedServer, ComparisonOrder, Dynoload
from mydyno.errors import BugError, StudyError
from mydyno.execution.environments.environment import StudyEnvironment
from mydyno.execution.interleaved.lane import Lane
from mydyno.model.definition.experiment import Step
from mydyno.model.stored.records import SliceRecord
from mydyno.servers.running.base import LOAD_USER
from mydyno.store.statements import STATEMENTS_FILE, Comparison, read_comparison, server_name

FEWEST_SERVERS = 2


async def compare_statements(
    environment: StudyEnvironment, every_lane: Sequence[Lane], step: Step, folder: Path, duration_s: float
) -> list[SliceRecord]:
    """Compare the step's statements on the lanes that are up; what each of them takes for all statements.

    A server that is lost fails its lane; without it there is no comparison in this block, nor without the control. What
    the program wrote until then is kept beside, under another name.
    Raises HostError if the load's own host is lost.
    """
    control = (environment.experiment.control, 1)
    lanes = [lane for lane in every_lane if lane.runs_step(step)]
    lanes.sort(key=lambda lane: lane.key != control)
    if len(lanes) < FEWEST_SERVERS or lanes[0].key != control:
        return []
    driver, block = environment.drivers[step.driver], lanes[0].planned.block
    if not isinstance(driver, Dynoload):
        raise BugError(f"the driver {step.driver} cannot compare statements")
    began_ns, records = clock.unix_ns(), folder / STATEMENTS_FILE
    order = ComparisonOrder(
        str(step.replay),
        duration_s,
        environment.experiment.design.seed * 1000 + block,
        records,
        environment.experiment.server.dsn is not None or step.options.get("read_only") is True,
    )
    try:
        for lane in lanes:
            await lane.begin_counting()
        await driver.compare([_compared(environment, lane) for lane in lanes], order)
        found = read_comparison(records)
    except StudyError as error:
        if records.exists():
            records.rename(records.with_suffix(".incomplete"))
        lost = [lane for lane in lanes if f"dynoload: {_name(lane)}:" in error.message] or lanes
        for lane in lost:
            await lane.step_failed(step, error)
        return []
    assert found is not None
    return _slices(found, lanes, step, block, began_ns)


def _name(lane: Lane) -> str:
    return server_name(*lane.key)


def _compared(environment: StudyEnvironment, lane: Lane) -> ComparedServer:
    instance = lane.instances[0]
    private = environment.sockets / f"load-{lane.first_number}"
    private.mkdir(mode=0o700, parents=True, exist_ok=True)
    pid = None if instance.process is None else instance.pid
    return ComparedServer(_name(lane), instance.address(LOAD_USER), private, pid)


def _slices(found: Comparison, lanes: Sequence[Lane], step: Step, block: int, began_ns: int) -> list[SliceRecord]:
    compared = [one for one in found.statements if one.service_us and not one.not_repeated]
    counts = np.array([one.count for one in compared], dtype=np.float64)
    weights = [np.array(one.executions, dtype=np.float64) for one in compared]

    def total_us(of: str, place: int) -> float | None:
        means = []
        for one, weight in zip(compared, weights, strict=True):
            visits = one.service_us if of == "service" else one.cpu_us
            values = [visit[place] for visit in visits if visit is not None]
            if len(values) < len(visits):
                return None
            means.append(float(np.average(values, weights=weight)))
        return float(counts @ np.array(means))

    slices = []
    for place, lane in enumerate(lanes):
        service_us, cpu_us = total_us("service", place), total_us("cpu", place)
        amount = int(counts.sum())
        slices.append(
            SliceRecord(
                block=block,
                step=step.id,
                cycle=1,
                position=place + 1,
                arm=lane.planned.arm,
                copy=lane.planned.copy_number,
                started_unix_ns=began_ns,
                length_s=(service_us or 0.0) / 1e6,
                washout_s=0.0,
                transactions=amount,
                queries=amount,
                latency_us={"mean": service_us / amount} if service_us and amount else {},
                server_cpu_s=None if cpu_us is None else cpu_us / 1e6,
                failed="" if amount else "no statement could be compared",
            )
        )
    return slices
