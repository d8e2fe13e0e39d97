"""What a fake world does: every number and every mishap of a test, and a small experiment for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mydyno.drivers.held import SliceOrder
from mydyno.model.definition.experiment import ArmSpec, DataSpec, Experiment, ServerSpec, Step, StepSpec
from mydyno.model.definition.plan import PlannedRun
from mydyno.model.stored.counted import KernelEvent
from mydyno.model.stored.records import DriverFinding, Evidence, ProfileMethod
from mydyno.servers.wait_counting import Counted, Counts


def experiment(arms: Sequence[str] = ("glibc", "jemalloc"), **changes: Any) -> Experiment:
    """A small valid experiment; arms are only names unless `treatments`, or `said` (instances, control), say more."""
    treatments: Mapping[str, dict[str, Any]] = changes.pop("treatments", {})
    said: Mapping[str, dict[str, Any]] = changes.pop("said", {})
    plain: dict[str, Any] = {
        "name": "fake",
        "question": "Does the fake arm change anything?",
        "server": ServerSpec(name="mariadb-10.11"),
        "data": DataSpec(tables=1, rows=1000),
        "control": arms[0],
        "arms": tuple(ArmSpec(name=name, treatments=treatments.get(name, {}), **said.get(name, {})) for name in arms),
        "steps": (StepSpec(workload="oltp_read_only", connections=(4, 8), warmup=2, measure=20),),
    }
    changes["design"] = {"kind": "blocks", **changes.get("design", {})}
    return Experiment.model_validate({**plain, **changes})


@dataclass
class Script:
    """What the fake world does: every number and every mishap is said here."""

    qps: Callable[[PlannedRun | None, Step, int], float] = lambda _run, _step, _second: 1000.0
    """(the run, the step, the second) → queries in that second."""
    driver_error: Callable[[PlannedRun | None, Step], str | None] = lambda _run, _step: None
    findings: Callable[[Any, Step], tuple[DriverFinding, ...]] = lambda _run, _step: ()
    """(the run, in slices the instance; the step) → what the load program's own rules find in its result."""
    unsampled: dict[str, str] = field(default_factory=dict)
    """What the probe never reads, and why."""
    probe_error: str = ""
    """What ends the sampler's stop(); empty: nothing."""
    newest: dict[str, dict[str, float]] = field(default_factory=dict)
    """{scope: {metric: value}} of each second that the probe samples."""
    profile_method: ProfileMethod = "perf"
    evidence: Callable[[PlannedRun | None], Evidence] | None = None
    on_run: Callable[[PlannedRun], None] = lambda _run: None
    """Called when a run begins; may raise to end the program there."""
    instance_share: Callable[[int], float] = lambda _instance: 1.0
    """What one of several instances gets of the script's qps."""
    late_s: Callable[[int], float] = lambda _instance: 0.0
    """How much later than the first one's an instance's load begins."""
    counted_share: Callable[[int], float] = lambda _instance: 1.0
    """What share of its reads an instance's server counts."""
    counted: Callable[[int], float] = float
    """What the server counts of so many reads."""
    events: list[str] = field(default_factory=list)
    """Everything that was done, in order."""
    current: PlannedRun | None = None
    slice_qps: Callable[[str, int, Step, SliceOrder], float] = lambda _arm, _copy, _step, _order: 1000.0
    """(arm, copy, step, slice) → queries per second in that slice of an interleaved study."""
    slice_response_us: Callable[[Step, float], float] = lambda _step, qps: 1e6 / max(qps, 1e-9)
    """The mean response time of a slice with this number of queries per second."""
    busiest_share: Callable[[str], float] = lambda _arm: 0.0
    """What a slice's busiest thread of the load program used of a CPU."""
    slice_error: Callable[[str, int, Step, SliceOrder], str | None] = lambda _arm, _copy, _step, _order: None
    hold_error: Callable[[str, int], str | None] = lambda _arm, _copy: None
    """(arm, copy) → why its load is not connected."""
    measured_share: Callable[[str, int, SliceOrder], float] = lambda _arm, _copy, _order: 1.0
    ignored_errors: Callable[[str, int, SliceOrder], int] = lambda _arm, _copy, _order: 0
    """What share of a slice's measured part took place; 0: the connections were lost in the washout."""
    replayed: Callable[[str], dict[str, Any]] = lambda _arm: {}
    """An arm's `digests` and `named` of a slice, as a replay has them."""
    unfinished: Callable[[str, int, SliceOrder], int] = lambda _arm, _copy, _order: 0
    """(arm, copy, slice) → operations of a step's rate that never started in that slice."""
    start_error: Callable[[str, int], str | None] = lambda _arm, _copy: None
    """(arm, copy) → why its server does not start in an interleaved study."""
    unprepared: dict[str, str] = field(default_factory=dict)
    """{arm: why its data cannot be prepared}."""
    executed: Callable[[str, int], dict[str, Any]] = lambda _arm, _queries: {"server": None, "load": None}
    """(arm, queries) → what the processor counted of server and load; None: it does not count."""
    host_speed: Callable[[], float] = lambda: 1.0
    """Speed of the fake host in the current slice: rates are multiplied by it, CPU times divided."""
    driver_cost: Callable[[str], float] = lambda _arm: 10e-6
    """CPU seconds of the load program for a query of this arm."""
    steal: Callable[[], float] = lambda: 0.0
    capacity: Callable[[str, int, SliceOrder], float] = lambda _arm, _copy, _order: 1000.0
    """(arm, copy, slice) → transactions per second that its server carries in that slice of a capacity search."""
    stacks: Callable[[str, int], dict[tuple[str, ...], int]] | None = None
    """(arm, copy) → the stacks that a profile of its server finds in one slice; may raise HostError. None: no profiler.
    """
    waits: Callable[[str, int], Counts | Counted] | None = None
    """(arm, copy) → what is counted of its server's waits in one slice; may raise ServerError. None: nothing is
    counted."""
    kernel: Callable[[str, int], tuple[KernelEvent, ...]] | None = None
    """(arm, copy) → the kernel's events of its server in one slice; may raise HostError. None: nothing is traced."""
