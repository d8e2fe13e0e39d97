# mypy: disable-error-code="arg-type"
"""Waits on a real server: a planted row lock hot spot leads, and instruments read back as they were set."""

from __future__ import annotations

from pathlib import Path

import pytest

from mydyno.errors import ServerError
from mydyno.hosts.paths import HostPaths
from mydyno.model.stored.counted import CLIENT, WaitTotals
from mydyno.servers.running.mysqld import MysqldServer
from mydyno.servers.wait_counting import WaitCounting, instrument_setting, read_counts
from mydyno.store.samples import WAITS_FILE, read_slices, read_totals
from mydyno.store.study_folder import StudyFolder
from mydyno.treatments.variables import VariablesTreatment
from tests.support.interleaved import interleaved_text, slices_of, summary_of
from tests.support.real import Program

ARMS = """\
control = "committed"
committed = { variables = { transaction_isolation = "READ-COMMITTED" } }
serializable = { variables = { transaction_isolation = "SERIALIZABLE" } }
"""
"""On few rows serializable reads wait for writes, and writes for reads."""
HOT = "rows = 200\n"


@pytest.mark.exhaustive
def test_a_row_lock_hot_spot_leads(tmp_path: Path, real_paths: HostPaths, apart: list[str]) -> None:
    program = Program(tmp_path, real_paths, apart)
    before = program.leftovers()
    text = interleaved_text("waits", ARMS, [("oltp_read_write", 8)], blocks=2, cycles=1, slice_s=0.4)
    text = text.replace("rows = 2000\n", HOT).replace("per_transaction = 1\n", "per_transaction = 1000\n")
    done = program.run("run", program.write(text), "--waits")
    assert done.returncode == 0, done.stderr
    assert program.leftovers() == before
    study = program.study()
    apart_slices = [one for path in study.glob(f"blocks/*/{WAITS_FILE}") for one in read_slices(path)]
    assert len(apart_slices) == 2 * 3
    assert not any(one.profiled for one in slices_of(study))
    for run in StudyFolder(study).runs():
        (step,) = run.steps
        assert step.connection_memory_bytes is not None
        assert 10e3 < step.connection_memory_bytes < 10e6
    waits = summary_of(study)["waits"]
    assert waits.get("missing", []) == []
    (contrast,) = waits["contrasts"]
    classes = {one["name"]: one for one in contrast["events"] if one["kind"] == "wait" and not one["of_class"]}
    classes.pop(CLIENT)  # the load program also waits for a CPU, on a busy host longer than transactions for each other
    longest = max(classes.values(), key=lambda one: one["arm_us"] - one["control_us"])
    assert longest["name"] == "row locks"
    assert longest["arm_us"] > 2 * longest["control_us"]
    assert {"stage", "statement"} < {one["kind"] for one in contrast["events"]}
    active, *others = contrast["sessions"]
    assert active["kind"] == "active"
    assert 0.1 < active["control"] <= 8.0
    assert {"wait", "state"} == {one["kind"] for one in others}
    assert sum(one["control"] for one in others if one["kind"] == "wait") <= active["control"] + 0.01
    assert contrast["metrics_compared"] > 3
    totals = [read_totals(path, WaitTotals) for path in study.glob("blocks/*/*/waits/*.json")]
    assert all(one.samples and one.metrics for one in totals)
    locks = {lock.name: lock for one in totals for lock in one.locks}
    assert all(0.0 < lock.hottest_us <= lock.time_us for lock in locks.values())
    assert any(lock.instances > 1 for lock in locks.values())
    assert "What the server waits for" in (study / "report.html").read_text()


async def test_nothing_is_counted_before_and_after_and_instruments_read_back(instance: MysqldServer) -> None:
    wanted = {"performance_schema": True, "performance_schema_instrument": "%=OFF"}
    treatment = VariablesTreatment(wanted)
    await treatment.apply(instance)
    await instance.start()
    evidence = await treatment.evidence(instance)
    assert evidence.holds, evidence.text
    counting = WaitCounting([instance])
    await counting.begin()
    async with instance.control() as control:
        assert await instrument_setting(control, "wait/io/file/%=ON") == "wait/io/file/%=ON"
        assert await instrument_setting(control, "wait/io/table/%=ON") == "wait/io/table/%=OFF"
        assert " of " in await instrument_setting(control, "wait/%=ON")
        await control.rows("SELECT COUNT(*) FROM sbtest.sbtest1")
    counted = await counting.end()
    assert not any(name.startswith("SELECT") for _, name in counted.events)  # the load's statements alone
    async with instance.control() as control:
        before = await read_counts(control)
        await control.rows("SELECT COUNT(*) FROM sbtest.sbtest1")
        assert await read_counts(control) == before  # instruments stay on, but nothing is counted
    other = VariablesTreatment({"performance_schema_instrument": "%=ON"})
    evidence = await other.evidence(instance)
    assert not evidence.holds
    assert "wanted %=ON" in evidence.text


async def test_a_server_without_performance_schema_is_refused(instance: MysqldServer) -> None:
    instance.settings.variables["performance_schema"] = False
    await instance.start()
    with pytest.raises(ServerError, match="performance_schema off"):
        await WaitCounting([instance]).begin()
