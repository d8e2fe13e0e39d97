"""The command that tests a candidate: it is read by the real command line and loader, and keeps the study's load."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
import typer

from mydyno.analysis.costs.suggested import OF_KERNEL, OF_WAIT, suggestion
from mydyno.cli import make_app
from mydyno.cli.arguments import all_settings
from mydyno.experiments import load
from mydyno.model.definition.experiment import DesignSpec, Experiment
from mydyno.model.stored.analyses import CandidateKind, CandidateRecord
from mydyno.model.stored.costs import COSTS
from mydyno.model.stored.records import StudyRecord
from mydyno.store.study_folder import StudyFolder
from mydyno.treatments.coexistence import SLICE_S, WASHOUT_S
from mydyno.wording.stored_result import StoredResult
from tests.support.fake_interleaved_folder import Interleaved, build

OWN = """
name = "own"
question = "What does the flush of the log cost?"

[server]
name = "mariadb-10.11"

[server.variables]
innodb_buffer_pool_size = "64M"

[data]
workload = "oltp"
tables = 3
rows = 5_000

[arms]
control = "plain"
plain = { allocator = "glibc", variables = { innodb-flush-log-at-trx-commit = 2 } }
other = { allocator = "jemalloc", variables = { sync_binlog = 1 } }
third = { control = "other", allocator = "tcmalloc" }

[[steps]]
workload = "oltp_read_write"
connections = [4, 8]
measure = "7s"
options = { range_size = 50 }

[[steps]]
workload = "oltp_read_only"
rate = [100]

[verdict]
primary = "latency_p99_us"

[[verdict.compare]]
metrics = "qps"
arms = "third"
control = "plain"

[thresholds]
latency_p99_us = "no worse than +5% for third"

[scale.tiny]
data.rows = 1_000
"""


def candidate(
    kind: CandidateKind, name: str, arm: str = "other", control: str = "plain", step: str = "oltp_read_write-4"
) -> CandidateRecord:
    return CandidateRecord(
        metric="tps", step=step, arm=arm, control=control, kind=kind, name=name, explains=1.0, measured=True
    )


class Study:
    """A saved study of an experiment that is run by a command."""

    def __init__(self, folder: Path, command: str, facts: dict[str, Any] | None = None) -> None:
        words = tuple(shlex.split(command))
        self.experiment = loaded(words) if words[1] == "run" else load(str(folder / "own.toml"))[0]
        planted = {arm.name: (0.0, 0.0) for arm in self.experiment.arms}
        made = build(folder / "study", Interleaved(planted=planted, blocks=2, experiment=self.experiment))
        record = made.study()
        changed = StudyRecord.model_validate(
            {**record.model_dump(), "command": words, "host": {**record.host, **(facts or {})}}
        )  # fmt: skip
        (made.path / "study.json").write_text(changed.model_dump_json())
        self.folder: StudyFolder = made

    def command(self, one: CandidateRecord) -> str:
        return suggestion(StoredResult.load(self.folder), one).removeprefix("To test it: ").strip("`")


def loaded(words: tuple[str, ...]) -> Experiment:
    """As `mydyno run` reads its command line and the experiment."""
    command = typer.main.get_command(make_app(["run", "plan"]))
    run = command.commands["run"]  # type: ignore[attr-defined]
    values = run.make_context("run", list(words[2:])).params
    settings = all_settings(
        values["settings"], values["blocks"], values["time"], values["profile"], values["waits"], values["kernel"]
    )
    return load(values["experiment"], values["scale"], settings)[0]


def suggested(study: Study, one: CandidateRecord) -> Experiment:
    """The experiment that the printed command runs."""
    words = tuple(shlex.split(study.command(one)))
    assert words[:2] == ("mydyno", "run")
    return loaded(words)


def switched(study: Study) -> DesignSpec:
    """The study's design, with the slices of arms that one server takes in turn."""
    return study.experiment.design.model_copy(update={"slice": SLICE_S, "washout": WASHOUT_S})


@pytest.fixture
def own(tmp_path: Path) -> Path:
    path = tmp_path / "own.toml"
    path.write_text(OWN)
    return path


def test_the_command_runs_the_studys_own_experiment_with_the_variable_around_the_controls_value(own: Path) -> None:
    options = "--scale tiny --set data.tables=2 --set 'arms.other.variables.sync_binlog=0' --waits --json"
    study = Study(own.parent, f"mydyno run --blocks 4 {own} {options}")
    found = suggested(study, candidate("cost", "fsyncs"))
    assert (found.server, found.data, found.steps) == (
        study.experiment.server, study.experiment.data, study.experiment.steps,
    )  # fmt: skip
    assert (found.design, found.profile, found.scale) == (switched(study), study.experiment.profile, "tiny")
    assert (found.data.rows, found.data.tables, found.design.blocks, found.profile.waits) == (1000, 2, 4, True)
    assert found.control == "plain"
    first, second = found.arms
    assert first.treatments == {"allocator": "glibc", "variables": {"innodb_flush_log_at_trx_commit": 2}}
    assert second.treatments == {"allocator": "glibc", "variables": {"innodb_flush_log_at_trx_commit": 1}}
    assert "--json" not in study.command(candidate("cost", "fsyncs"))


def test_the_control_is_that_of_the_effect(own: Path) -> None:
    found = suggested(Study(own.parent, f"mydyno run {own}"), candidate("cost", "fsyncs", "third", "other"))
    assert found.control == "other"
    assert found.arms[0].treatments["allocator"] == "jemalloc"


def test_a_variable_that_the_arm_set_is_varied_to_the_arms_value(own: Path) -> None:
    study = Study(own.parent, f"mydyno run {own} --set arms.other.variables.innodb_buffer_pool_size=96M")
    found = suggested(study, candidate("cost", "buffer_pool_reads"))
    assert [one.treatments["variables"]["innodb_buffer_pool_size"] for one in found.arms] == ["64M", "96M"]


def test_a_study_that_varies_the_setting_alone_is_not_proposed_again(tmp_path: Path) -> None:
    study = Study(tmp_path, 'mydyno run variable --set vary.variables.innodb_buffer_pool_size=\'["96M","256M"]\'')
    name, other = (arm.name for arm in study.experiment.arms)
    one = candidate("cost", "buffer_pool_reads", other, name, "oltp_read_write-16")
    found = suggestion(StoredResult.load(study.folder), one)
    assert found == f"{other} differs from {name} in innodb_buffer_pool_size alone: this study is its test."


def test_a_pool_that_the_host_has_no_memory_for_is_made_smaller(own: Path) -> None:
    def sizes(memory_bytes: int, folder: str) -> list[str]:
        (own.parent / folder).mkdir()
        study = Study(own.parent / folder, f"mydyno run {own}", {"memory_bytes": memory_bytes})
        found = suggested(study, candidate("kernel", "block_read"))
        return [one.treatments["variables"]["innodb_buffer_pool_size"] for one in found.arms]

    assert sizes(4 << 30, "large") == ["64M", "256M"]
    assert sizes(1 << 29, "small") == ["64M", "16M"]


def test_an_experiment_of_another_command_is_repeated_by_its_values(own: Path) -> None:
    study = Study(own.parent, f"mydyno bisect {own} --good 1 --bad 2")
    found = suggested(study, candidate("cost", "fsyncs"))
    same = ("name", "question", "server", "data", "steps", "validity")
    assert [getattr(found, one) for one in same] == [getattr(study.experiment, one) for one in same]
    assert found.design == switched(study)
    assert found.verdict == study.experiment.verdict.model_copy(update={"compare": ()})


def test_a_gate_that_ran_an_experiment_is_repeated_without_its_thresholds(own: Path) -> None:
    study = Study(own.parent, f"mydyno gate --json out.json {own} --threshold qps=-2% --scale tiny")
    found = suggested(study, candidate("cost", "fsyncs"))
    assert (found.scale, found.thresholds) == ("tiny", ())


SETTINGS: list[tuple[CandidateKind, str]] = [
    *(("cost", name) for name, cost in COSTS.items() if cost.test and "." not in cost.test),
    *(("stage" if name.startswith("stage/") else "wait", name) for name in OF_WAIT),
    *(("kernel", name) for name in OF_KERNEL),
]


@pytest.mark.parametrize(("kind", "name"), SETTINGS)
def test_every_suggested_command_can_be_run(own: Path, kind: CandidateKind, name: str) -> None:
    found = suggested(Study(own.parent, f"mydyno run {own}"), candidate(kind, name))
    assert len(found.arms) == 2
    first, second = (one.treatments for one in found.arms)
    assert first != second


@pytest.mark.parametrize("name", ["screen", "cgroup-isolation", "network", "tls-handshake", "server-versions"])
def test_experiments_with_factors_or_a_screen_can_be_repeated_too(tmp_path: Path, name: str) -> None:
    study = Study(tmp_path, f"mydyno run {name}")
    control = study.experiment.control
    found = suggested(study, candidate("cost", "fsyncs", study.experiment.arms[-1].name, control))
    assert (found.data, found.steps) == (study.experiment.data, study.experiment.steps)
    assert (
        found.arms[0].treatments.items()
        >= {key: value for key, value in study.experiment.arm(control).treatments.items() if key != "variables"}.items()
    )
    assert found.arms[0].instances == study.experiment.arm(control).instances


def test_where_no_setting_exists_an_arm_is_named(own: Path) -> None:
    study = Study(own.parent, f"mydyno run {own}")
    found = suggestion(StoredResult.load(study.folder), candidate("function", "row_search_mvcc"))
    assert found == (
        "No setting is known to change row_search_mvcc alone. To test it, add an arm with another build of the server, "
        'e.g. { server = { basedir = "/opt/other-build" } }.'
    )
    assert suggestion(StoredResult.load(study.folder), candidate("cost", "rows_read")) == ""


def test_the_variables_of_an_external_server_are_the_users_to_change(own: Path) -> None:
    own.write_text(OWN.replace('name = "mariadb-10.11"', 'dsn = "mysql://bench@db/test"').replace(
        "[server.variables]\ninnodb_buffer_pool_size", "# pool"))  # fmt: skip
    study = Study(own.parent, f"mydyno run {own}")
    found = suggestion(StoredResult.load(study.folder), candidate("cost", "fsyncs"))
    assert found.startswith("To test it, change innodb_flush_log_at_trx_commit of the external server")


def test_synced_writes_are_tested_by_the_setting_in_which_the_servers_differ(own: Path) -> None:
    study = Study(own.parent, f"mydyno run {own}")
    summary = study.folder.summary()
    assert summary is not None
    differences = {"innodb_doublewrite": {"plain": "ON", "other": "ON"}, "log_bin": {"plain": "OFF", "other": "ON"}}
    study.folder.write_summary(summary.model_copy(update={"server_differences": differences}))
    for one in (candidate("cost", "fsyncs"), candidate("kernel", "file_sync")):
        first, second = suggested(study, one).arms
        assert first.treatments["variables"]["log_bin"] is False
        assert second.treatments["variables"]["log_bin"] == "binlog"
    assert "log_bin" not in study.command(candidate("kernel", "block_read"))
