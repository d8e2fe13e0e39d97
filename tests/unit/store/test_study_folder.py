"""The store: a run's folder is complete or absent, whatever moment a crash picks; samples and histograms read back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb
import pytest

from mydyno import clock
from mydyno.errors import UserError
from mydyno.execution.environments.probe import read_samples
from mydyno.files import atomic
from mydyno.model.definition.plan import make_plan
from mydyno.model.stored.records import DriverResult, RunRecord, StepRecord, StudyRecord
from mydyno.results.values.blocks import declared_windows, values_of
from mydyno.store.logs import Journal
from mydyno.store.samples import Sample, window_means, write_samples
from mydyno.store.study_folder import StudyFolder
from tests.support.fake_script import experiment
from tests.support.full_disk import full_disk

SECOND_NS = 1_000_000_000
START_NS = 1_800_000_000 * SECOND_NS


class Crash(BaseException):
    """The power goes."""


def step_record(step_id: str = "oltp_read_only-4", begin_s: float = 10, **changes: Any) -> StepRecord:
    driver = DriverResult(driver="fake", version="1", command=("fake",), transactions=100, queries=1600, duration_s=4)
    driver = driver.model_copy(update=changes.pop("driver", {}))
    return StepRecord(
        id=step_id,
        workload="oltp_read_only",
        connections=4,
        started_unix_ns=START_NS + int(begin_s * SECOND_NS),
        warmup_s=2,
        measure_s=4,
        driver=driver,
        **changes,
    )


def run_record(folder: str, *steps: StepRecord, valid: bool = True) -> RunRecord:
    return RunRecord(
        block=1,
        position=1,
        arm="glibc",
        copy_number=2 if folder.endswith(".2") else 1,
        folder=folder,
        started_unix_ns=START_NS,
        ended_unix_ns=START_NS + 30 * SECOND_NS,
        valid=valid,
        steps=steps,
    )


@pytest.fixture
def folder(tmp_path: Path) -> StudyFolder:
    asked = experiment(design={"blocks": 1})
    study = StudyRecord(study="fake-1", created_unix_ns=START_NS, mydyno_version="0", experiment=asked)
    return StudyFolder.create(tmp_path / "fake-1", study, make_plan(asked))


def begin(folder: StudyFolder) -> str:
    """Begin the plan's first run and put a file into it."""
    name = folder.plan().runs[0].folder
    aside = folder.begin_run(name)
    (aside / "server.log").write_text("hello")
    return name


@pytest.mark.parametrize("syscall", ["fsync", "rename", "sync_folder"])
@pytest.mark.parametrize("nth", range(4))
def test_a_crash_while_a_run_is_saved_leaves_it_complete_or_absent(
    folder: StudyFolder, monkeypatch: pytest.MonkeyPatch, syscall: str, nth: int
) -> None:
    name = begin(folder)
    calls = 0

    def crashing(real: Any) -> Any:
        def call(*arguments: Any, **named: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls > nth:
                raise Crash
            return real(*arguments, **named)

        return call

    with monkeypatch.context() as patches:
        if syscall == "fsync":
            patches.setattr(atomic.os, "fsync", crashing(atomic.os.fsync))  # type: ignore[attr-defined]
        elif syscall == "rename":
            patches.setattr(Path, "rename", crashing(Path.rename))
        else:
            patches.setattr("mydyno.store.study_folder.sync_folder", crashing(atomic.sync_folder))
        try:
            folder.commit_run(run_record(name))
        except Crash:
            assert calls == nth + 1
    again = StudyFolder.open(folder.path)
    finished = [record.folder for record in again.runs()]
    assert finished in ([], [name])
    if finished:
        assert (folder.path / name / "server.log").read_text() == "hello"
    else:
        assert not (folder.path / name).exists()
        assert again.discard_unfinished() == [f".{Path(name).name}.unfinished"]
        begin(again)
        again.commit_run(run_record(name))
        assert [record.folder for record in again.runs()] == [name]


def test_a_run_begun_again_starts_from_nothing(folder: StudyFolder) -> None:
    name = begin(folder)
    assert list(folder.begin_run(name).iterdir()) == []


def test_the_old_content_stays_until_the_new_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "summary.json"
    atomic.write_text(path, "old")

    with full_disk(2), pytest.raises(OSError, match="too large") as raised:
        atomic.write_text(path, "new")
    assert raised.value.filename == str(path)
    assert [(one, one.read_text()) for one in tmp_path.iterdir()] == [(path, "old")]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("study.json", "{", "cannot be read"),
        ("study.json", '{"format": 7}', "has format 7; this mydyno reads format 6"),
        ("study.json", '{"format": 6}', r"study\.json cannot be read"),
        ("study.json", "[]", "has format None"),
        ("plan.json", "", r"plan\.json cannot be read"),
    ],
)
def test_a_damaged_study_is_told_and_never_half_read(folder: StudyFolder, name: str, content: str, words: str) -> None:
    (folder.path / name).write_text(content)
    with pytest.raises(UserError, match=words):
        opened = StudyFolder.open(folder.path)
        opened.study()
        opened.plan()


def test_a_folder_without_study_json_is_no_study(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is not a study"):
        StudyFolder.open(tmp_path)


def test_studies_of_the_same_second_have_folders_of_their_own(tmp_path: Path) -> None:
    studies = tmp_path / "studies"
    name = "one-20261128T000000Z"
    with StudyFolder.claimed(studies, name) as first, StudyFolder.claimed(studies, name) as second:
        assert [first.name, second.name] == [name, f"{name}-2"]
        (second / "study.json").touch()
    assert list(studies.iterdir()) == [second], "what was not begun leaves no folder"


def test_a_study_is_never_written_over_another(folder: StudyFolder) -> None:
    with pytest.raises(UserError, match="exists already"):
        StudyFolder.create(folder.path, folder.study(), folder.plan())


def test_samples_are_placed_into_the_step_and_phase_they_ended_in(tmp_path: Path) -> None:
    path = tmp_path / "samples.parquet"
    times_s = [9.9, 10.0, 10.5, 12.0, 12.1, 16.0, 16.5, 16.6, 20.5]
    samples = [Sample(START_NS + int(t * SECOND_NS), "host", "x", t) for t in times_s]
    write_samples(path, samples, START_NS, [step_record("a", 10), step_record("b", 20)])
    table = duckdb.read_parquet(str(path)).fetchnumpy()
    placed = {step: table["value"][table["step"] == step].tolist() for step in ("a", "b")}
    assert placed == {"a": [10.5, 12.0, 12.1, 16.0, 16.5], "b": [20.5]}
    assert sorted(table["t_s"]) == pytest.approx(times_s)
    assert window_means(path, {"a": (2.0, 6.5)})["a"][("host", "x")] == pytest.approx((12.1 + 16.0 + 16.5) / 3)


def test_a_metric_without_samples_has_no_mean(tmp_path: Path) -> None:
    path = tmp_path / "samples.parquet"
    write_samples(path, [], START_NS, [step_record()])
    assert window_means(path, {"oltp_read_only-4": (0, 9)}) == {"oltp_read_only-4": {}}


def test_values_are_means_over_the_common_window_by_the_metrics_scope(folder: StudyFolder) -> None:
    name = begin(folder)
    record = step_record(driver={"latency_us": {"p99": 5.0, "p95": 4.0}})
    samples = [
        Sample(record.started_unix_ns + second * SECOND_NS, scope, metric, value)
        for second, value in ((1, 1.0), (2, 2.0), (3, 30.0), (6, 60.0))
        for scope, metric in (("driver:1", "qps"), ("host", "qps"), ("host", "cpu_user_pct"))
    ]
    write_samples(folder.path / name / "samples.parquet", samples, START_NS, [record])
    run = run_record(name, record)
    windows = declared_windows([make_step()])
    assert windows["oltp_read_only-4"].model_dump() == {"from_s": 2.0, "to_s": 6.5}
    values = values_of(folder, run, windows)["oltp_read_only-4"]
    assert values == {"qps": 45.0, "cpu_user_pct": 45.0, "latency_p99_us": 5.0, "latency_p95_us": 4.0}


def make_step(warmup_s: float = 2.0) -> Any:
    return experiment().resolved_steps[0].model_copy(update={"warmup_s": warmup_s, "measure_s": 4.0})


def test_no_part_of_a_warm_up_of_a_fraction_of_a_second_is_in_the_window() -> None:
    assert declared_windows([make_step(2.9)])["oltp_read_only-4"].from_s == 2.9


def test_the_probes_lines_become_samples_and_its_complaints_warnings(tmp_path: Path) -> None:
    path = tmp_path / "probe.jsonl"
    lines = [
        json.dumps({"record": "header", "format_version": 1}),
        json.dumps(
            {"record": "sample", "monotonic_ns": 5, "metrics": {"host": {"cpu_user_pct": 1}, "instance:1": {"x": 2.5}}}
        ),
        json.dumps({"record": "error", "scope": "instance:1", "family": "smaps", "message": "denied"}),
        json.dumps({"record": "error", "scope": "instance:1", "family": "smaps", "message": "denied"}),
        json.dumps({"record": "footer", "missed": 2, "samples": 9}),
        '{"record": "sample", "unix_n',
    ]
    path.write_text("\n".join(lines))
    samples, warnings = read_samples(path)
    at_ns = clock.of_monotonic(5)
    assert samples == [Sample(at_ns, "host", "cpu_user_pct", 1.0), Sample(at_ns, "instance:1", "x", 2.5)]
    assert warnings == [
        "dynoprobe: instance:1 smaps: denied",
        "dynoprobe: 2 of 9 samples were missed (a busy host)",
    ]
    assert read_samples(tmp_path / "none") == ([], ["dynoprobe wrote no samples"])


def test_samples_that_are_missing_or_damaged_are_named(tmp_path: Path) -> None:
    path = tmp_path / "samples.parquet"
    with pytest.raises(UserError, match=r"samples\.parquet is missing"):
        window_means(path, {"a": (0.0, 1.0)})
    path.write_bytes(b"PAR1 but no more")
    with pytest.raises(UserError, match=r"samples\.parquet cannot be read"):
        window_means(path, {"a": (0.0, 1.0)})


def test_a_damaged_journal_is_told_from_one_that_a_crash_cut_short(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    assert "No such file" in journal.damage()
    journal.append("study_created", study="x")
    assert journal.damage() == ""
    whole = journal.path.read_bytes()
    journal.path.write_bytes(whole + b'{"event": "run_fin')
    assert journal.damage() == f"{journal.path}: its last line is cut short"
    journal.append("study_resumed")
    assert journal.damage() == ""
    journal.path.write_bytes(b"7\n" + journal.path.read_bytes())
    assert journal.damage() == f"{journal.path} is damaged: 1 of its lines cannot be read"
    journal.path.write_bytes(whole[:10])
    assert "it has no whole line" in journal.damage()
