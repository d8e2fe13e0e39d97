# mypy: disable-error-code="arg-type"
"""What reports say of keys and values alone: latency as memaslap tabulates it, what a crash took, memory per get."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mydyno.analysis import key_values as section
from mydyno.analysis.key_values import CrashSurvival, Growth, crash_survival, growth_of, log2_of, spread_of
from mydyno.document.result import StudyResult
from mydyno.model.definition.experiment import ArmSpec, DataSpec, DesignSpec, Experiment, ServerSpec, StepSpec
from mydyno.model.definition.plan import make_plan
from mydyno.model.stored.reasons import Reason
from mydyno.model.stored.records import DriverResult, Evidence, RunRecord, StepRecord, StudyRecord
from mydyno.model.stored.summary import RunSummary, Summary
from mydyno.store.study_folder import StudyFolder

VALUES = {
    "cmd_get": 900.0, "cmd_set": 100.0, "get_hits": 450.0, "get_misses": 450.0,
    "min_us": 10.0, "max_us": 500.0, "mean_us": 100.0, "geometric_mean_us": 80.0, "std_us": 30.0,
}  # fmt: skip


def step(id_: str = "kv_get-4", log2: tuple[tuple[float, int], ...] = (), valid: bool = True, **values: float) -> Any:
    driver = DriverResult(
        driver="dynoload", version="0", command=(), transactions=1000, queries=1000, duration_s=2.0,
        key_values={**VALUES, **values}, latency_log2_us=log2,
    )  # fmt: skip
    return StepRecord(
        id=id_, workload=id_.partition("-")[0], connections=4, started_unix_ns=0, warmup_s=0, measure_s=2,
        driver=driver, valid=valid,
    )  # fmt: skip


def run(arm: str, steps: list[StepRecord], *facts: dict[str, Any], block: int = 1, position: int = 1) -> RunRecord:
    return RunRecord(
        block=block, position=position, arm=arm, folder=f"blocks/{block}/{position}-{arm}", started_unix_ns=0,
        ended_unix_ns=1, valid=True, steps=tuple(steps),
        evidence=tuple(Evidence(treatment="memcached", holds=True, text="", facts=one) for one in facts),
    )  # fmt: skip


def growth(bytes_: float, step_id: str = "kv_get-4") -> dict[str, Any]:
    return {"step": step_id, "server_rss_growth_bytes_per_million_gets": bytes_}


def crash(found: int, keys_after: int) -> dict[str, Any]:
    return {"acknowledged": 200, "found": found, "keys_before": 1000, "keys_after": keys_after}


def test_latency_is_the_extreme_of_all_runs_and_the_mean_of_the_others() -> None:
    spread = spread_of([step(), step(min_us=8, max_us=700, mean_us=200, geometric_mean_us=100, get_hits=900)])
    assert spread is not None
    assert (spread.min_us, spread.max_us, spread.mean_us, spread.geometric_mean_us) == (8, 700, 150, 90)
    assert spread.ops_per_s == 500
    assert spread.hit_share == pytest.approx(0.75)


def test_sets_have_no_hits_and_what_no_driver_told_is_absent() -> None:
    spread = spread_of([step("kv_set-4", cmd_get=0, get_hits=0)])
    assert spread is not None
    assert spread.hit_share is None
    silent = step().model_copy(update={"driver": step().driver.model_copy(update={"key_values": {"cmd_get": 1.0}})})
    assert spread_of([silent]) is None
    assert spread_of([]) is None


def test_distributions_add_up_and_lose_only_their_empty_ends() -> None:
    first = step(log2=((8, 0), (16, 5), (32, 0), (64, 1), (128, 0)))
    assert log2_of([first, step(log2=((16, 1), (64, 2)))]) == {16: 6, 32: 0, 64: 3}
    assert log2_of([step()]) == {}


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ([5e6, 5.1e6, 4.9e6], "grows"),
        ([-5e6, -5.1e6, -4.9e6], "shrinks"),
        ([5e6, -5e6, 1e6], "no growth shown"),
        ([5e6], "one run: no interval"),
    ],
)
def test_memory_grows_only_where_the_interval_says_so(values: list[float], verdict: str) -> None:
    found = growth_of([run("a", [], growth(one), growth(1e12, "kv_set-4")) for one in values], ["kv_get-4"])
    assert found is not None
    assert found.verdict == verdict
    assert found.mean_bytes == pytest.approx(sum(values) / len(values))


def test_the_interval_is_students() -> None:
    found = growth_of([run("a", [], growth(one)) for one in (1.0, 2.0, 3.0)], ["kv_get-4"])
    assert found == Growth(3, 2.0, pytest.approx(2 - 2.4841, abs=1e-3), pytest.approx(2 + 2.4841, abs=1e-3))
    assert growth_of([run("a", [])], ["kv_get-4"]) is None


def test_crashes_add_up() -> None:
    assert crash_survival([run("a", [], crash(200, 1000)), run("a", [], crash(150, 900))]) == CrashSurvival(
        400, 350, 2000, 1900
    )
    assert crash_survival([run("a", [], growth(1))]) is None


def result(records: list[RunRecord], workload: str = "kv") -> StudyResult:
    experiment = Experiment(
        name="keys", question="What is kept?", server=ServerSpec(name="mysql-5.6"), data=DataSpec(workload=workload),
        control="memcached", arms=(ArmSpec(name="memcached"), ArmSpec(name="caching")),
        steps=(StepSpec(workload="kv_get", connections=(4,), driver="dynoload"),), design=DesignSpec(blocks=1),
    )  # fmt: skip
    runs = tuple(
        RunSummary(
            block=one.block, position=one.position, arm=one.arm, valid=one.valid, folder=one.folder,
            invalid_steps={step.id: (Reason(check="errors", text="3"),) for step in one.steps if not step.valid},
        )
        for one in records
    )  # fmt: skip
    summary = Summary(
        experiment="keys", study="s", state="complete", control="memcached", arms=("memcached", "caching"),
        primary="ops", margin=0.02, steps=({"id": "kv_get-4", "workload": "kv_get", "connections": 4},), metrics={},
        runs=runs, effects=(), noise_floor={},
    )  # fmt: skip
    study = StudyRecord(study="s", created_unix_ns=0, mydyno_version="0", experiment=experiment)
    by_folder = {record.folder: record for record in records}
    return StudyResult(StudyFolder(Path("nowhere")), study, make_plan(experiment), by_folder, summary)


def cells(html: str) -> list[list[str]]:
    rows = re.findall(r"<tr>(.*?)</tr>", html, re.DOTALL)
    return [[re.sub(r"<[^>]+>", "", c).strip() for c in re.findall(r"<t[dh].*?</t[dh]>", r, re.DOTALL)] for r in rows]


def test_the_report_shows_speed_beside_what_is_kept() -> None:
    log2 = ((16.0, 900), (32.0, 100))
    records = [
        run("memcached", [step(log2=log2)], growth(2e6), crash(0, 0)),
        run("caching", [step(log2=log2)], growth(-1e6), growth(-3e6), crash(200, 1200), position=2),
    ]
    made = section.part(result(records))
    assert made is not None
    assert made.finding == "Acknowledged sets lost: memcached 200 of 200, caching 0 of 200"
    rows = cells(made.html)
    (native,) = [row for row in rows if "memcached" in row[0] and "200 of 200" in row]
    assert native[1:] == ["500", "200 of 200", "100%", "+2.00 MB (one run: no interval)"]
    (kept,) = [row for row in rows if "caching" in row[0] and "0 of 200" in row]
    assert kept[-1].startswith("−2.00 MB (−14.71 … +10.71): no growth shown")
    assert ["8 – 16", "90.00 %", "90.00 %"] in rows
    assert any(row[1:] == ["500", "50.0%", "10", "500", "100", "80.0", "30.0"] for row in rows)


def test_the_throughput_is_that_of_the_effects_where_there_is_one() -> None:
    plain = result([run("memcached", [step()]), run("caching", [step()], position=2)])
    runs = [
        one.model_copy(update={"values": {"kv_get-4": {"ops": 4321.0}}} if one.arm == "caching" else {})
        for one in plain.summary.runs
    ]
    made = section.part(replace(plain, summary=plain.summary.model_copy(update={"runs": tuple(runs)})))
    assert made is not None
    rows = [row[:2] for row in cells(made.html) if len(row) > 2]
    assert [[row[1] for row in rows if name in row[0]] for name in ("memcached", "caching")] == [
        ["500", "500"], ["4,321", "4,321"],
    ]  # fmt: skip


def test_steps_that_do_not_count_are_not_shown_and_other_studies_have_no_such_section() -> None:
    made = section.part(result([run("memcached", [step(valid=False, log2=((16.0, 1),))])]))
    assert made is not None
    assert "powers of two" not in made.html
    assert section.part(result([], "oltp")) is None
