"""Several instances in a run: plan, load, gates, values in sum and apart, verdicts per control; on the fake host."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from mydyno.drivers.base import DriverOutcome, merged, merged_types
from mydyno.drivers.held import interval_values, result_of
from mydyno.errors import StudyError, UserError
from mydyno.execution.study_record import Request
from mydyno.experiment_file.parsing import parse_experiment
from mydyno.experiment_file.toml_source import TomlSource
from mydyno.experiments import vocabulary
from mydyno.hosts.local import all_or_none
from mydyno.hosts.paths import HostPaths
from mydyno.model.definition.experiment import Experiment
from mydyno.model.definition.plan import PlannedRun, make_plan
from mydyno.model.metrics import metric_source, ordered, split_instance
from mydyno.model.stored.records import Digest, DriverResult
from mydyno.model.stored.summary import Summary
from mydyno.reports import write
from mydyno.results.values.blocks import _together
from mydyno.results.values.interleaved import RATIOS
from mydyno.store.study_folder import StudyFolder
from mydyno.study import run_study
from mydyno.wording.verdicts import note_of
from mydyno.workloads.reconcile import disagreements
from tests.support.fake_environment import Watched, opener
from tests.support.fake_script import Script, experiment
from tests.support.fake_slices import Simulation

TWO = {"none-2": {"instances": 2}, "limited-2": {"instances": 2, "control": "none-2"}}
ARMS = ("none-1", "limited-1", "none-2", "limited-2")


async def study(script: Script, paths: HostPaths, tmp_path: Path, asked: Experiment) -> tuple[StudyFolder, Summary]:
    request = Request(asked, "name = 'fake'", tmp_path / "studies", ("mydyno", "run", "fake"))
    return await run_study(request, paths, Watched(script), opener(script))


def parsed(text: str) -> Experiment:
    head = 'name = "x"\nquestion = "what now?"\n'
    tail = '[server]\nname = "mariadb-10.11"\n[[steps]]\nworkload = "oltp_read_only"\n'
    return parse_experiment(TomlSource.parse("x.toml", head + text + tail), vocabulary())


def test_an_experiment_and_its_arms_say_how_many_instances() -> None:
    asked = parsed('instances = 2\n[arms]\ncontrol = "a"\na = {}\nb = { instances = 4, control = "a" }\n')
    assert [asked.instances_of(arm) for arm in asked.arms] == [2, 4]
    assert asked.arms[1].treatments == {}
    assert asked.most_instances == 4


def test_instances_can_be_a_factor() -> None:
    asked = parsed('[factors]\ncontrol = "1"\ninstances = [1, 2, 4]\n')
    assert {arm.name: asked.instances_of(arm) for arm in asked.arms} == {"1": 1, "2": 2, "4": 4}


@pytest.mark.parametrize(
    ("arm", "words"),
    [
        ("{ instances = 0 }", r"arms\.b\.instances = 0: not a number of servers; allowed: 1 to 64"),
        ("{ instances = true }", r"arms\.b\.instances = True: not a number of servers"),
        ('{ control = "aa" }', r"arms\.b\.control = \"aa\": unknown other arm; allowed: a"),
        ('{ control = "b" }', r"arms\.b\.control"),
    ],
)
def test_what_an_arm_cannot_say_is_told(arm: str, words: str) -> None:
    with pytest.raises(UserError, match=words):
        parsed(f'[arms]\ncontrol = "a"\na = {{}}\nb = {arm}\n')


def test_a_comparison_of_unknown_arms_or_metrics_is_told() -> None:
    text = '[arms]\ncontrol = "a"\na = {}\nb = {}\n[[verdict.compare]]\nmetrics = ["tpmx_instance_1", "cpu_user_pct"]\n'
    with pytest.raises(UserError) as told:
        parsed(text + 'arms = ["c"]\ncontrol = "a"\n')
    assert all(words in str(told.value) for words in ("tpmx_instance_1", "cpu_user_pct", 'arms = "c": unknown arm'))


def test_a_control_of_others_is_compared_with_nothing_unless_it_says_so() -> None:
    asked = experiment(ARMS, said=TWO)
    assert asked.contrasts() == {"none-1": ("limited-1",), "none-2": ("limited-2",)}
    chained = experiment(ARMS, said={**TWO, "none-2": {"instances": 2, "control": "none-1"}})
    assert chained.contrasts() == {"none-1": ("limited-1", "none-2"), "none-2": ("limited-2",)}


def test_places_swap_so_that_each_instance_is_everywhere_equally_often_and_arms_of_a_block_agree() -> None:
    arms = ("one", "three")
    asked = experiment(arms, said={"three": {"instances": 3}}, design={"blocks": 6, "seed": 5})
    plan = make_plan(asked)
    seen: Counter[tuple[int, int]] = Counter()
    for block in plan.blocks:
        places = {run.arm: run.places for run in block.runs}
        assert sorted(places["three"]) == [1, 2, 3]
        assert places["one"] == places["three"][:1]
        seen.update(enumerate(places["three"], 1))
    assert set(seen.values()) == {2}
    assert make_plan(asked) == plan


def test_with_one_instance_the_plan_is_what_it_was() -> None:
    plan = make_plan(experiment(design={"blocks": 2, "seed": 1}))
    assert {run.places for run in plan.runs} == {(1,)}
    assert PlannedRun(block=1, position=1, arm="a").places == (1,)


async def test_values_are_there_per_instance_in_sum_and_as_spread(
    script: Script, paths: HostPaths, tmp_path: Path
) -> None:
    script.instance_share = lambda instance: {1: 0.6, 2: 0.4}[instance]
    folder, summary = await study(
        script, paths, tmp_path, experiment(("two",), said={"two": {"instances": 2}}, design={"blocks": 1})
    )
    values = summary.runs[0].values["oltp_read_only-4"]
    assert values["qps"] == pytest.approx(1000)
    assert (values["qps_instance_1"], values["qps_instance_2"]) == (pytest.approx(600), pytest.approx(400))
    assert values["qps_spread_pct"] == pytest.approx(40)
    assert values["server_rss_bytes"] == pytest.approx(2 * values["server_rss_bytes_instance_2"])
    assert summary.metrics["qps_instance_2"].unit == "1/s"
    record = next(folder.runs()).steps[0]
    assert record.driver.queries == sum(part.driver.queries for part in record.instances) == 20_000
    assert [server.place for server in next(folder.runs()).servers] == list(folder.plan().runs[0].places)


async def test_one_instance_has_no_instance_metrics_and_no_parts(
    script: Script, paths: HostPaths, tmp_path: Path
) -> None:
    folder, summary = await study(script, paths, tmp_path, experiment(design={"blocks": 1}))
    assert not any(split_instance(metric)[1] for metric in summary.metrics)
    assert all(not step.instances for run in folder.runs() for step in run.steps)
    assert not list(folder.path.rglob("*-2.log"))


async def test_every_instance_is_loaded_at_once_and_logged_apart(
    script: Script, paths: HostPaths, tmp_path: Path
) -> None:
    folder, _ = await study(
        script, paths, tmp_path, experiment(("two",), said={"two": {"instances": 2}}, design={"blocks": 1})
    )
    loads = [event for event in script.events if event.startswith("load")]
    assert len(loads) == 2 * 2 * len(list(folder.runs()))
    assert {loads[0][-1], loads[1][-1]} == {"1", "2"}
    run = folder.path / next(folder.runs()).folder
    assert {path.name for path in run.glob("*.log")} == {"server.log", "server-2.log", "driver.log", "driver-2.log"}


async def test_an_instance_that_fails_a_gate_makes_the_step_invalid_and_is_named(
    script: Script, paths: HostPaths, tmp_path: Path
) -> None:
    script.counted_share = lambda instance: {1: 1.0, 2: 0.5}[instance]
    asked = experiment(("two",), said={"two": {"instances": 2}}, design={"blocks": 2})
    with pytest.raises(StudyError, match="counters disagree: instance 2: "):
        await study(script, paths, tmp_path, asked)


async def test_drivers_that_began_apart_did_not_load_together(script: Script, paths: HostPaths, tmp_path: Path) -> None:
    script.late_s = lambda instance: 1.5 if instance == 2 else 0.0
    asked = experiment(("two",), said={"two": {"instances": 2}}, design={"blocks": 2})
    with pytest.raises(StudyError, match=r"no common start: the drivers began 1\.5 s apart"):
        await study(script, paths, tmp_path, asked)


@pytest.mark.slow
async def test_verdicts_are_given_per_control_and_on_declared_comparisons(
    script: Script, paths: HostPaths, tmp_path: Path
) -> None:
    noise = [0.001, -0.002, 0.0015, -0.001, 0.002, -0.0005, 0.0008, -0.0012]

    def qps(run: PlannedRun | None, _step: object, _second: int) -> float:
        assert run is not None
        wobble = 1 + noise[(run.block + 3 * run.position + run.copy_number) % 8]
        return wobble * {"none-1": 1000.0, "limited-1": 900.0, "none-2": 700.0, "limited-2": 770.0}[run.arm]

    script.qps = qps
    compare = [{"metrics": "qps_instance_1", "arms": "limited-2", "control": "limited-1"}]
    asked = experiment(ARMS, said=TWO, design={"blocks": 8}, verdict={"compare": compare})
    _, summary = await study(script, paths, tmp_path, asked)
    judged = {(e.metric, e.arm, e.control): e for e in summary.effects if e.step == "oltp_read_only-4" and e.verdict}
    assert {key: effect.verdict for key, effect in judged.items()} == {
        ("qps", "limited-1", "none-1"): "lower",
        ("qps", "limited-2", "none-2"): "higher",
        ("qps_instance_1", "limited-2", "limited-1"): "lower",
    }
    assert judged["qps", "limited-2", "none-2"].ratio == pytest.approx(1.1, rel=0.01)
    assert judged["qps_instance_1", "limited-2", "limited-1"].ratio == pytest.approx(770 / 900, rel=0.01)
    assert "the A/A comparison is that of none-1" in note_of(judged["qps", "limited-2", "none-2"], 0.02)
    assert "the A/A comparison is that of" not in note_of(judged["qps", "limited-1", "none-1"], 0.02)
    explored = [e for e in summary.effects if e.metric == "qps_instance_2" and e.arm == "limited-2"]
    assert explored
    assert all(e.verdict is None for e in explored)


def test_latencies_of_several_drivers_come_from_their_histograms_merged() -> None:
    def outcome(latency_us: float, count: int) -> DriverOutcome:
        result = DriverResult(
            driver="fake", version="1", command=(), transactions=count, queries=count, duration_s=1.0,
            latency_us={"mean": latency_us, "min": latency_us, "max": latency_us, "p99": latency_us},
            latency_histogram_us=((latency_us, count),),
        )  # fmt: skip
        return DriverOutcome(result, (), 0)

    together = merged([outcome(100, 99_000), outcome(5000, 1_500)], 1.0, 1.0).latency_us
    assert together["mean"] == pytest.approx((100 * 99_000 + 5000 * 1_500) / 100_500)
    assert together["p50"] == pytest.approx(100, rel=0.01)
    assert together["p99"] == pytest.approx(5000, rel=0.01)
    assert (together["min"], together["max"]) == (100, 5000)


def test_percentiles_without_histograms_are_absent_never_averaged() -> None:
    result = DriverResult(driver="f", version="1", command=(), transactions=1, queries=1, duration_s=1.0,
                          latency_us={"mean": 10.0, "p99": 20.0})  # fmt: skip
    assert merged([DriverOutcome(result, (), 0)] * 2, None, None).latency_us == {"mean": 10.0}


def test_instance_metrics_have_their_base_metrics_meaning() -> None:
    source = metric_source("tpmc_instance_12")
    assert source is not None
    assert (source.unit, source.better) == ("1/min", "higher")
    assert metric_source("cpu_user_pct_instance_1") is None
    assert metric_source("qps_spread_pct_instance_1") is None
    assert metric_source("nonsense") is None
    assert ordered(["tps", "qps_instance_2", "qps", "qps_instance_10"]) == [
        "qps", "qps_instance_2", "qps_instance_10", "tps"
    ]  # fmt: skip


async def test_the_first_failure_ends_the_others_before_it_is_raised() -> None:
    import asyncio

    ended = []

    async def endless() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    async def failing() -> None:
        raise UserError("no")

    with pytest.raises(UserError, match="no"):
        await all_or_none([endless(), failing(), endless()])
    assert len(ended) == 2


async def test_the_report_shows_each_instance_and_names_each_control(
    script: Script, paths: HostPaths, tmp_path: Path
) -> None:
    script.qps = lambda run, _step, second: 1000.0 + second % 3 + (run.block if run else 0)
    compare = [{"metrics": ["qps_instance_1", "qps_instance_2"], "arms": "limited-2", "control": "none-2"}]
    asked = experiment(ARMS, said=TWO, design={"blocks": 3}, verdict={"compare": compare})
    folder, _ = await study(script, paths, tmp_path, asked)
    page = Path(str(write(folder, "html"))).read_text()
    assert "limited-2 against none-2" in page
    assert "QPS, instance 2" in page


@pytest.mark.parametrize("tpmc", [(600.0,), (600.0, 400.0)])
def test_tpmc_per_instance_is_the_mean(tpmc: tuple[float, ...]) -> None:
    driver = DriverResult(
        driver="dynoload", version="1", command=(), transactions=1, queries=1, duration_s=1.0, latency_us={}
    )
    values = _together([{"tpmc": rate} for rate in tpmc], driver)
    assert values["tpmc"] == sum(tpmc)
    assert values["tpmc_per_instance"] == sum(tpmc) / len(tpmc)
    assert "tpmc_per_instance" not in _together([{"tpmc": 1.0}, {}], driver)
    assert metric_source("tpmc_per_instance_instance_1") is None


@pytest.mark.parametrize("apart", [{}, {"tps_instance_1": 30.0, "tps_instance_2": 20.0}])
def test_tpmc_per_instance_of_slices_is_the_mean(apart: dict[str, float]) -> None:
    one = next(Simulation(blocks=1).slices(1)).model_copy(update={"rates": {"tpmc": 1000.0, **apart}})
    ratio = RATIOS["tpmc_per_instance"]
    over, under = ratio.over(one), ratio.under(one)
    assert over is not None and under is not None
    assert over / under == pytest.approx(500 if apart else 1000)


def test_dynoloads_tpcc_records_become_tpmc_and_types() -> None:
    counts = {
        "transactions": 10,
        "reads": 5,
        "writes": 4,
        "other": 3,
        "errors": 0,
        "ignored_errors": 0,
        "reconnects": 0,
    }
    response = {"count": 0} | {f"{n}_us": 1.0 for n in ("mean", "min", "max", "p50", "p90", "p95", "p99", "p999")}
    interval = {"length_s": 1.0, "qps": 12, "tps": 10, "counts": counts, "response": response,
                "tpcc": {"committed": {"new_order": 4}, "tpmc_like": 240.0}}  # fmt: skip
    assert interval_values(interval)["tpmc"] == 240.0
    assert "tpmc" not in interval_values({**interval, "tpcc": {"committed": {}}})
    stalled = {key: value for key, value in interval.items() if key != "response"}
    assert "latency_p99_us" not in interval_values(stalled)
    final = {
        "counts": counts, "whole_load_counts": counts, "queries": 12, "duration_s": 1.0,
        "response": response, "cpu": {},
        "verdict": {"verdict": "SUSPECT", "findings": [{"rule": "cpu", "level": "SUSPECT", "text": "it waited"}]},
        "tpcc": {"transactions": {
            "payment": {"committed": 4, "rolled_back": 1, "retries": 2, "service": {"count": 5, "mean_us": 7.0}},
            "delivery": {"committed": 0, "rolled_back": 0, "retries": 0},
        }},
        "named": {
            "look": {"count": 2, "mean_us": 9.0, "p99_us": 12.0, "reads": 2, "empty_reads": 0,
                     "rows": {"sum": 7, "least": 3, "most": 4}},
            "add": {"count": 0, "errors": 3},
        },
        "settings": {"options": {"digests": [
            {"name": "look", "digest": "07", "text": "SELECT ?"}, {"name": "other (2 digests)"},
        ]}},
    }  # fmt: skip
    result = result_of(final, "1", ())
    assert result.health_reasons == ("it waited",)
    look = {"count": 2.0, "mean_us": 9.0, "rows": 7.0, "least_rows": 3.0, "most_rows": 4.0}
    add = {"count": 0.0, "mean_us": 0.0, "errors": 3.0}
    types = {"payment": {"count": 5.0, "mean_us": 7.0, "errors": 2.0}, "look": look, "add": add}
    assert result.transaction_types == types, "what never ended has no mean"
    assert result.digests == (Digest(name="look", digest="07", text="SELECT ?"),)
    more = {"look": {**look, "count": 6.0, "mean_us": 5.0, "rows": 6.0, "least_rows": 0.0}, "add": add}
    merged = merged_types([types, more])
    assert merged["look"] == {"count": 8.0, "mean_us": 6.0, "rows": 13.0, "least_rows": 0.0, "most_rows": 4.0}
    assert merged["add"] == {"count": 0.0, "mean_us": 0.0, "errors": 6.0}


def test_stored_procedures_are_held_against_the_servers_calls() -> None:
    counts = {"transactions": 5000, "reads": 0, "writes": 0, "other": 5000, "errors": 0, "ignored_errors": 0}
    final = {
        "counts": {**counts, "reconnects": 0}, "whole_load_counts": counts, "queries": 5000, "duration_s": 10.0,
        "cpu": {}, "verdict": {"verdict": "VALID", "findings": []},
        "settings": {"options": {"stored_procedures": True}},
    }  # fmt: skip
    whole = result_of(final, "1", ()).whole
    assert disagreements("tpcc", whole, {"Com_select": 90_000.0, "Com_call_procedure": 5000.0}) == []
    (words,) = disagreements("tpcc", whole, {"Com_select": 90_000.0, "Com_call_procedure": 2500.0})
    assert words == "the driver counted 5000 calls, the server 2500 (Com_call_procedure)"
