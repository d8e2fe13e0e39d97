"""The whole program on a fake host: order of steps, journal, gates, resume, verdicts; exact numbers, no server."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Literal

import pytest
import typer

from mydyno import __version__
from mydyno.cli.study_runner import finish
from mydyno.errors import HostError, StudyError, UserError
from mydyno.execution.study_record import Request
from mydyno.files.atomic import sha256_of
from mydyno.fleet.study_files import FOLDER, KEPT_BYTES
from mydyno.hosts.lock import study_lock
from mydyno.hosts.paths import HostPaths
from mydyno.model.definition.experiment import DataSpec, Experiment, Step, StepSpec
from mydyno.model.definition.plan import PlannedRun
from mydyno.model.stored.records import DriverFinding, Evidence
from mydyno.model.stored.summary import Summary
from mydyno.reports import write
from mydyno.store.study_folder import StudyFolder
from mydyno.study import resume_study, run_study
from mydyno.wording.verdicts import recorded_failure
from tests.support.fake_environment import Watched, opener
from tests.support.fake_script import Script, experiment
from tests.support.worded import worded


async def study(
    script: Script, paths: HostPaths, tmp_path: Path, asked: Experiment
) -> tuple[StudyFolder, Summary, Watched]:
    watcher = Watched(script)
    request = Request(asked, "name = 'fake'", tmp_path / "studies", ("mydyno", "run", "fake"))
    folder, summary = await run_study(request, paths, watcher, opener(script))
    return folder, summary, watcher


async def test_a_study_goes_through_its_steps_in_order(script: Script, paths: HostPaths, tmp_path: Path) -> None:
    asked = experiment(design={"blocks": 1, "seed": 3}, treatments={"jemalloc": {"fake": 1}})
    folder, _, _ = await study(script, paths, tmp_path, asked)
    plan = folder.plan()
    expected = []
    for planned in plan.runs:
        treated = planned.arm == "jemalloc"
        expected += [f"run {planned.folder}", "restore", *(["apply"] if treated else []), "start"]
        expected += [*(["evidence"] if treated else []), "prewarm", "probe"]
        expected += [f"load {step}" for step in plan.blocks[0].step_order]
        expected += ["stop", *(["undo"] if treated else [])]
    assert script.events == [*expected, "close"]


async def test_a_planted_difference_is_found_and_its_size_is_right(
    script: Script, paths: HostPaths, tmp_path: Path
) -> None:
    noise = [0.001, -0.002, 0.0015, -0.001, 0.002, -0.0005, 0.0008, -0.0012]

    def qps(run: PlannedRun | None, _step: object, _second: int) -> float:
        assert run is not None
        base = 1000.0 * (1 + 0.01 * run.block)
        base *= 1 + noise[(run.block + run.copy_number) % 8] * (1 if run.arm == "glibc" else -0.5)
        return base * (1.05 if run.arm == "jemalloc" else 1.0)

    script.qps = qps
    _, summary, _ = await study(script, paths, tmp_path, experiment(design={"blocks": 8}))
    effects = [effect for effect in summary.effects if effect.primary]
    assert [effect.verdict for effect in effects] == ["higher", "higher"]
    assert all(effect.ratio == pytest.approx(1.05, rel=0.003) for effect in effects)
    assert summary.state == "complete"


async def test_the_control_alone_is_a_study_of_the_hosts_noise(
    script: Script, paths: HostPaths, tmp_path: Path
) -> None:
    _, summary, _ = await study(script, paths, tmp_path, experiment(("glibc",), design={"blocks": 3}))
    assert (summary.state, summary.effects) == ("complete", ())
    assert summary.noise_floor["qps"]["oltp_read_only-4"] == pytest.approx(1.0)


async def test_without_a_difference_none_is_claimed(script: Script, paths: HostPaths, tmp_path: Path) -> None:
    script.qps = lambda run, _step, _second: 1000.0 + (hash((run.block, run.position)) % 7 if run else 0)
    _, summary, _ = await study(script, paths, tmp_path, experiment(design={"blocks": 8}))
    assert {effect.verdict for effect in summary.effects if effect.primary} <= {"equivalent", "inconclusive"}


async def test_values_are_the_means_of_the_measured_window_alone(
    script: Script, paths: HostPaths, tmp_path: Path
) -> None:
    script.qps = lambda _run, step, second: 5.0 if second <= step.warmup_s else 1000.0 + second % 2
    asked = experiment(design={"blocks": 1})
    _, summary, _ = await study(script, paths, tmp_path, asked)
    assert all(run.values["oltp_read_only-4"]["qps"] == pytest.approx(1000.5) for run in summary.runs)


async def test_a_run_that_settles_late_moves_the_window_of_no_run(
    script: Script, paths: HostPaths, tmp_path: Path
) -> None:
    """The window is fixed before the first block: a cut of the throughput is a doubt, not another window."""

    def qps(run: PlannedRun | None, _step: object, second: int) -> float:
        late = run is not None and (run.block, run.arm) == (1, "jemalloc") and second <= 40
        return (500.0 if late else 1000.0) + second % 3

    script.qps = qps
    steps = [{"workload": "oltp_read_only", "connections": [4], "warmup": 2, "measure": 148}]
    folder, summary, _ = await study(script, paths, tmp_path, experiment(design={"blocks": 2}, steps=steps))
    cuts = [step.steady.mser5_cut_s for run in folder.runs() for step in run.steps if step.steady]
    assert max(cuts) == 40
    assert summary.windows["oltp_read_only-4"].model_dump() == {"from_s": 2.0, "to_s": 150.5}
    late = next(run for run in summary.runs if (run.block, run.arm) == (1, "jemalloc"))
    assert late.values["oltp_read_only-4"]["qps"] == pytest.approx(1001 - 500 * 38 / 148, abs=0.1)


async def test_a_treatment_that_is_not_proved_never_gives_a_number(
    script: Script, paths: HostPaths, tmp_path: Path
) -> None:
    script.evidence = lambda _run: Evidence(treatment="fake", holds=False, text="the library is not mapped")
    asked = experiment(design={"blocks": 2}, treatments={"jemalloc": {"fake": 1}})
    _, summary, _ = await study(script, paths, tmp_path, asked)
    sabotaged = [run for run in summary.runs if run.arm == "jemalloc"]
    assert all(not run.valid and not run.values for run in sabotaged)
    assert all("the library is not mapped" in run.reasons[0].text for run in sabotaged)
    assert {effect.verdict for effect in summary.effects if effect.primary} == {"not_measurable"}
    assert "load" not in " ".join(script.events[script.events.index("evidence") : script.events.index("evidence") + 2])


async def test_a_setting_that_the_server_rounds_is_said_below_the_answer(
    script: Script, paths: HostPaths, tmp_path: Path
) -> None:
    words = "table_open_cache is 10, wanted 5"
    script.evidence = lambda run: Evidence(treatment="variables", holds=run is not None and run.block == 1, text=words)
    asked = experiment(design={"blocks": 2}, treatments={"jemalloc": {"fake": 1}})
    folder, _, _ = await study(script, paths, tmp_path, asked)
    assert worded(folder).sharpen.count(f"jemalloc does not run with the settings that it declares: {words}.") == 1


@pytest.mark.parametrize("kind", ["blocks", "interleaved"])
async def test_a_variable_that_is_not_as_it_was_set_ends_the_study_in_its_first_block(
    script: Script, paths: HostPaths, tmp_path: Path, kind: str
) -> None:
    words = "table_open_cache is 10, wanted 5"
    script.evidence = lambda _run: Evidence(treatment="variables", holds=False, text=words)
    asked = experiment(design={"kind": kind, "blocks": 2}, treatments={"jemalloc": {"fake": 1}})
    with pytest.raises(StudyError, match=f"^arm jemalloc: variables: {words}"):
        await study(script, paths, tmp_path, asked)
    folder = StudyFolder.open(next((tmp_path / "studies").iterdir()))
    assert {run.block for run in folder.runs()} <= {1}


async def test_a_driver_that_fails_makes_an_invalid_run_with_its_own_words(
    script: Script, paths: HostPaths, tmp_path: Path
) -> None:
    script.driver_error = lambda run, _step: "FATAL: no" if run and run.arm == "jemalloc" and run.block == 1 else None
    folder, summary, watcher = await study(script, paths, tmp_path, experiment(design={"blocks": 2}))
    invalid = [run for run in summary.runs if not run.valid]
    assert [(run.block, run.arm) for run in invalid] == [(1, "jemalloc")]
    assert "FATAL: no" in invalid[0].reasons[0].text
    assert len(watcher.ended) == 6
    assert worded(folder).answer[-1].startswith("jemalloc failed in 1 of 2 blocks (")


@pytest.mark.parametrize(
    ("arm", "copy", "cell", "sentence", "code"),
    [
        ("glibc", 2, "glibc′ failed", "The control's copy glibc′ failed in 1 of 1 block (", 1),
        ("glibc", 1, "glibc failed", "The control glibc failed in 1 of 1 block (", 1),
        ("jemalloc", 1, "failed", "jemalloc failed in 1 of 1 block (", 0),
    ],
)
async def test_who_failed_is_named_and_a_study_without_an_answer_does_not_end_with_0(
    script: Script, paths: HostPaths, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    arm: str, copy: int, cell: str, sentence: str, code: int,
) -> None:  # fmt: skip
    def findings(run: PlannedRun | None, _step: Step) -> tuple[DriverFinding, ...]:
        return of_rule("unfinished") if run is not None and (run.arm, run.copy_number) == (arm, copy) else ()

    script.findings = findings
    folder, summary, _ = await study(script, paths, tmp_path, experiment(design={"blocks": 1}))
    if code:
        with pytest.raises(typer.Exit) as ended:
            finish(folder, summary, as_json=False)
        assert ended.value.exit_code == code
    else:
        finish(folder, summary, as_json=False)
    told = capsys.readouterr().out
    assert sentence in " ".join(told.split())
    assert f"jemalloc  ✕ {cell} (1 of 1 block)" in told
    assert f"✕ {cell} (1 of 1 block)" in str(write(folder, "md"))
    assert f"✕ {cell}" in Path(write(folder, "html")).read_text()


async def test_a_study_whose_control_is_never_proved_has_no_answer_and_ends_with_1(
    script: Script, paths: HostPaths, tmp_path: Path
) -> None:
    script.evidence = lambda _run: Evidence(treatment="fake", holds=False, text="no")
    asked = experiment(design={"blocks": 2}, treatments={"glibc": {"fake": 1}})
    folder, summary, _ = await study(script, paths, tmp_path, asked)
    assert summary.state == "complete"
    with pytest.raises(typer.Exit) as ended:
        finish(folder, summary, as_json=False)
    assert ended.value.exit_code == 1


async def test_a_server_that_counts_something_else_closes_the_gate(
    script: Script, paths: HostPaths, tmp_path: Path
) -> None:
    script.counted = lambda reads: reads / 2
    with pytest.raises(StudyError, match="counters disagree"):
        await study(script, paths, tmp_path, experiment(design={"blocks": 2}))


async def test_many_invalid_runs_in_a_row_stop_the_study_and_it_can_be_resumed(
    script: Script, paths: HostPaths, tmp_path: Path
) -> None:
    script.driver_error = lambda _run, _step: "FATAL: error 1045: Access denied"
    with pytest.raises(StudyError, match="Access denied"):
        await study(script, paths, tmp_path, experiment(design={"blocks": 2}))
    path = next((tmp_path / "studies").iterdir())
    script.driver_error = lambda _run, _step: None
    watcher = Watched(script)
    _, summary = await resume_study(path, paths, watcher, opener(script))
    assert (len(watcher.ended), summary.state) == (2, "complete")


@pytest.mark.parametrize("killed_at", range(6))
async def test_a_killed_study_resumes_at_the_next_run(
    script: Script, paths: HostPaths, tmp_path: Path, killed_at: int
) -> None:
    class Killed(BaseException):
        pass

    begun = []

    def kill(planned: PlannedRun) -> None:
        if len(begun) == killed_at:
            raise Killed
        begun.append(planned.folder)

    script.on_run = kill
    with pytest.raises(Killed):
        await study(script, paths, tmp_path, experiment(design={"blocks": 2}))
    path = next((tmp_path / "studies").iterdir())
    before = {file: file.read_bytes() for file in path.glob("blocks/*/*/run.json")}
    assert len(before) == killed_at
    unfinished = path / "blocks/01/.1-glibc.unfinished"
    unfinished.mkdir(parents=True, exist_ok=True)
    script.on_run = lambda _run: None
    watcher = Watched(script)
    folder, summary = await resume_study(path, paths, watcher, opener(script))
    assert [record.folder for record in watcher.ended] == [run.folder for run in folder.plan().runs][killed_at:]
    assert all(file.read_bytes() == content for file, content in before.items())
    assert summary.state == "complete"
    assert not unfinished.exists()


async def test_a_study_keeps_its_files_and_does_not_continue_with_others(
    script: Script, paths: HostPaths, tmp_path: Path
) -> None:
    load = tmp_path / "mine.sql"
    load.write_text("SELECT 1;\n")
    data = DataSpec(workload="sql", sql=str(tmp_path / "tables.toml"))
    (tmp_path / "tables.toml").write_text("#" * (KEPT_BYTES + 1) + "\n[[tables]]\n")
    steps = (StepSpec(workload="sql", sql=str(load), connections=(4,), warmup=2, measure=20),)

    def end(_planned: PlannedRun) -> None:
        raise KeyboardInterrupt

    script.on_run = end
    with pytest.raises(KeyboardInterrupt):
        await study(script, paths, tmp_path, experiment(design={"blocks": 2}, data=data, steps=steps))
    path = next((tmp_path / "studies").iterdir())
    recorded = StudyFolder.open(path).study().files
    assert recorded[str(load)] == sha256_of(load)
    assert set(recorded) == {str(load), data.sql}
    kept = [one for one in (path / FOLDER).rglob("*") if one.is_file()]
    assert [one.read_text() for one in kept] == ["SELECT 1;\n"], "what is large has its checksum alone"
    load.write_text("SELECT 2;\n")
    with pytest.raises(UserError, match=r"mine\.sql was changed after the study began"):
        await resume_study(path, paths, Watched(script), opener(script))


async def test_a_finished_study_resumed_does_nothing_again(script: Script, paths: HostPaths, tmp_path: Path) -> None:
    folder, _, _ = await study(script, paths, tmp_path, experiment(design={"blocks": 1}))
    watcher = Watched(script)
    await resume_study(folder.path, paths, watcher, opener(script))
    assert watcher.ended == []
    (words,) = watcher.said
    assert words == (
        f"{folder.name} is finished: nothing was run; `mydyno report {folder.path}` writes its report again; "
        "for more blocks begin a new study"
    )


async def test_a_study_resumed_by_another_mydyno_says_so(script: Script, paths: HostPaths, tmp_path: Path) -> None:
    folder, _, _ = await study(script, paths, tmp_path, experiment(design={"blocks": 1}))
    stored = json.loads((folder.path / "study.json").read_text())
    stored["mydyno_version"] = "0.0.1"
    shutil.rmtree(folder.path / folder.plan().runs[-1].folder)
    (folder.path / "study.json").write_text(json.dumps(stored))
    watcher = Watched(script)
    await resume_study(folder.path, paths, watcher, opener(script))
    assert any("was begun by mydyno 0.0.1 and is resumed by" in words for words in watcher.said)
    resumed = next(event for event in folder.journal.read() if event["event"] == "study_resumed")
    assert resumed["mydyno_version"] == __version__


async def test_other_versions_do_not_join_a_study(script: Script, paths: HostPaths, tmp_path: Path) -> None:
    folder, _, _ = await study(script, paths, tmp_path, experiment(design={"blocks": 1}))
    stored = json.loads((folder.path / "study.json").read_text())
    stored["versions"]["server"] = "10.11.18-MariaDB"
    shutil.rmtree(folder.path / folder.plan().runs[-1].folder)
    (folder.path / "study.json").write_text(json.dumps(stored))
    with pytest.raises(UserError, match=r"server is 10\.11\.19-MariaDB, the study has 10\.11\.18-MariaDB"):
        await resume_study(folder.path, paths, Watched(script), opener(script))


async def test_the_second_study_on_a_host_is_refused_and_told_which_is_first(
    script: Script, paths: HostPaths, tmp_path: Path
) -> None:
    with study_lock("the-first-study", paths.study_lock_address), pytest.raises(HostError, match="the-first-study"):
        await study(script, paths, tmp_path, experiment())


async def test_nothing_is_left_behind_and_no_password_is_kept(script: Script, paths: HostPaths, tmp_path: Path) -> None:
    folder, _, _ = await study(script, paths, tmp_path, experiment(design={"blocks": 1}))
    assert list(paths.undo.iterdir()) == []
    assert not (paths.data / "runs").exists()
    assert all(b"secret-word" not in file.read_bytes() for file in folder.path.rglob("*") if file.is_file())
    assert not list(folder.path.rglob(".*"))


async def test_a_window_that_is_not_steady_counts_and_is_reported(
    script: Script, paths: HostPaths, tmp_path: Path
) -> None:
    """Leaving such windows out, or loading again until one is steady, would leave out an arm's stalls."""
    script.qps = lambda _run, _step, second: 1000.0 + 40.0 * second
    folder, summary, _ = await study(script, paths, tmp_path, experiment(design={"blocks": 2}))
    first_run = script.events[: script.events.index("stop")]
    assert first_run.count("load oltp_read_only-4") == 1
    steps = [step for run in folder.runs() for step in run.steps]
    assert {step.steady and step.steady.steadiness for step in steps} == {"not steady"}
    assert all(step.valid and not step.reasons for step in steps)
    assert all("qps" in values for run in summary.runs for values in run.values.values())


async def test_the_steady_gate_is_closed_where_the_experiment_wants_it_strict(
    script: Script, paths: HostPaths, tmp_path: Path
) -> None:
    script.qps = lambda _run, _step, second: 1000.0 + 40.0 * second
    with pytest.raises(StudyError, match="not steady"):
        await study(script, paths, tmp_path, experiment(design={"blocks": 2}, validity={"steady": "strict"}))


async def test_a_single_arm_shows_its_noise_floor_and_compares_nothing(
    script: Script, paths: HostPaths, tmp_path: Path
) -> None:
    folder, summary, _ = await study(script, paths, tmp_path, experiment(("only",), design={"blocks": 2}))
    assert (summary.state, summary.effects) == ("complete", ())
    assert summary.noise_floor["qps"]["oltp_read_only-4"] == pytest.approx(1.0)
    assert "shows the noise of this host" in worded(folder).answer[0]


def of_rule(rule: str, level: Literal["suspect", "invalid"] = "invalid") -> tuple[DriverFinding, ...]:
    return (DriverFinding(rule=rule, level=level, text=f"{rule}: 12.34 %"),)


RATE = [{"workload": "oltp_read_only", "connections": [4], "rate": [100], "warmup": 2, "measure": 20}]


@pytest.mark.parametrize("rule", ["unfinished", "dropped"])
async def test_an_arm_that_stalls_under_a_rate_has_failed_and_gets_no_ratio_of_its_good_blocks(
    script: Script, paths: HostPaths, tmp_path: Path, rule: str
) -> None:
    def findings(run: PlannedRun | None, _step: object) -> tuple[DriverFinding, ...]:
        return of_rule(rule) if run is not None and run.arm == "jemalloc" and run.block % 3 == 1 else ()

    script.findings = findings
    script.qps = lambda run, _step, _second: 1050.0 if run is not None and run.arm == "jemalloc" else 1000.0
    folder, summary, _ = await study(script, paths, tmp_path, experiment(design={"blocks": 10}, steps=RATE))
    assert summary.state == "complete"
    effects = [effect for effect in summary.effects if effect.primary]
    assert [(effect.verdict, effect.ratio) for effect in effects] == [("not_measurable", None)]
    assert "failed in 4 of 10 blocks (it did not keep up: " in recorded_failure(effects[0])
    stalled = next(step for run in folder.runs() for step in run.steps if step.failed)
    assert (stalled.valid, stalled.reasons) == (False, ())


@pytest.mark.parametrize("rule", ["lag", "cpu_wait", "network"])
async def test_what_the_host_does_to_the_driver_is_a_warning_and_the_step_counts(
    script: Script, paths: HostPaths, tmp_path: Path, rule: str
) -> None:
    script.findings = lambda _run, _step: of_rule(rule)
    folder, summary, _ = await study(script, paths, tmp_path, experiment(design={"blocks": 6}, steps=RATE))
    assert summary.state == "complete"
    assert {effect.verdict for effect in summary.effects if effect.primary} == {"equivalent"}
    assert all(step.warnings == (f"{rule}: 12.34 %",) for run in folder.runs() for step in run.steps)
    assert summary.runs[0].warnings == (f"oltp_read_only-4-at-100: {rule}: 12.34 %",)


async def test_a_doubt_about_lag_is_no_warning(script: Script, paths: HostPaths, tmp_path: Path) -> None:
    script.findings = lambda _run, _step: of_rule("lag", "suspect")
    _, summary, _ = await study(script, paths, tmp_path, experiment(design={"blocks": 1}, steps=RATE))
    assert summary.runs[0].warnings == ()


async def test_wrong_values_still_close_the_gate_of_the_drivers_own_checks(
    script: Script, paths: HostPaths, tmp_path: Path
) -> None:
    script.findings = lambda _run, _step: (*of_rule("wrong_values"), *of_rule("lag"))
    with pytest.raises(StudyError, match=r"by the driver's own checks: fake: wrong_values: 12\.34 %\n"):
        await study(script, paths, tmp_path, experiment(design={"blocks": 2}))


async def test_a_study_on_a_host_too_busy_for_every_run_is_partial_and_no_error(
    script: Script, paths: HostPaths, tmp_path: Path
) -> None:
    script.findings = lambda _run, _step: of_rule("cpu")
    folder, summary, watcher = await study(script, paths, tmp_path, experiment(design={"blocks": 2}))
    assert len(watcher.ended) == 6
    assert {reason.check for run in folder.runs() for step in run.steps for reason in step.reasons} == {"driver_cpu"}
    assert not any(run.valid for run in summary.runs)
    assert summary.state == "partial"
    finish(folder, summary, as_json=False)  # raises typer.Exit for exit code 1
