"""Instructions per query, which the processor counts: from the load program's record to a verdict."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from mydyno.errors import HostError, UserError
from mydyno.hosts.paths import HostPaths
from mydyno.model.definition.experiment import Experiment
from tests.support.fake_script import Script
from tests.unit.execution.interleaved.test_study import STEP, interleaved, noisy, study

SERVER, DRIVER = "server_instructions_per_query", "driver_instructions_per_query"


def counting(script: Script) -> None:
    """jemalloc's server executes 2 % more instructions for a query; each slice differs by .1 %."""
    random = Random(3)

    def executed(arm: str, queries: int) -> dict[str, Any]:
        each = queries * random.gauss(1, 0.001)
        user = each * 50_000 * (1.02 if arm == "jemalloc" else 1.0)
        server = {"user_instructions": user, "kernel_instructions": each * 30_000, "cycles": each * 60_000}
        return {"server": server, "load": {name: value / 10 for name, value in server.items()}}

    script.executed = executed


def of_instructions(kind: str = "interleaved") -> Experiment:
    asked = interleaved(kind=kind)
    return asked.model_copy(update={"verdict": asked.verdict.model_copy(update={"primary": ("qps", SERVER)})})


async def test_a_small_difference_in_instructions_is_found_on_a_host_whose_speed_wanders(
    script: Script, paths: HostPaths, tmp_path: Path
) -> None:
    noisy(script, effect=0.0)
    counting(script)
    (paths.root.folder / "sys/bus/event_source/devices/cpu").mkdir(parents=True)
    _, summary, _ = await study(script, paths, tmp_path, of_instructions())
    found = {one.metric: one for one in summary.effects if (one.arm, one.step) == ("jemalloc", STEP)}
    assert found[SERVER].verdict == "higher" and found[SERVER].ratio == pytest.approx(1 + 0.02 * 5 / 8, abs=5e-4)
    assert found[SERVER].details.detectable is not None and found[SERVER].details.detectable < 0.01
    assert found[DRIVER].verdict is None
    of_control = next(run for run in summary.runs if run.arm == "glibc")
    values = of_control.values[STEP]
    assert values[SERVER] == pytest.approx(80_000, rel=1e-3)
    assert values["server_kernel_instructions_per_query"] == pytest.approx(30_000, rel=1e-3)
    assert values["server_cycles_per_query"] == pytest.approx(60_000, rel=1e-3)


async def test_without_such_counters_there_is_no_such_metric(script: Script, paths: HostPaths, tmp_path: Path) -> None:
    _, summary, _ = await study(script, paths, tmp_path, interleaved(blocks=1))
    assert not [name for run in summary.runs for step in run.values.values() for name in step if "instructions" in name]


async def test_a_question_about_what_is_not_counted_is_refused_before_anything_starts(
    script: Script, paths: HostPaths, tmp_path: Path
) -> None:
    with pytest.raises(HostError, match=f"{SERVER}: the processor's counters are not visible here"):
        await study(script, paths, tmp_path, of_instructions())
    with pytest.raises(UserError, match=f"{SERVER} is measured in the interleaved design only"):
        await study(script, paths, tmp_path, of_instructions(kind="blocks"))
    assert script.events == []
