"""A study of format 1, in which reasons and deviations were sentences, still reads, evaluates and reports."""

import json
import shutil
from pathlib import Path

import pytest

from mydyno import reports
from mydyno.errors import UserError
from mydyno.hosts.paths import HostPaths
from mydyno.model.stored.reasons import GATE_LABELS, Reason, joined
from mydyno.model.stored.records import READ_FORMATS
from mydyno.model.stored.summary import CostsRecord, EffectDetails, EffectRecord
from mydyno.results.facts import summarise
from mydyno.results.precision import alarm_of
from mydyno.store.study_folder import StudyFolder
from mydyno.study import resume_study
from mydyno.wording.reasons import alarm_clause, lost_blocks, recorded_failure
from mydyno.wording.stored_result import StoredResult
from tests.support.fake_environment import Watched, opener
from tests.support.fake_script import Script
from tests.support.worded import worded
from tests.unit.cli.test_command_line import mydyno

NO_FULL_LINK = "the published ratio is that of a full link, and at this load no link was full in this study"
SAVED = Path(__file__).parents[3] / "support/data/format-1"


@pytest.fixture
def old(tmp_path: Path) -> StudyFolder:
    shutil.copytree(SAVED, tmp_path / "old")
    return StudyFolder.open(tmp_path / "old")


def test_the_saved_study_is_of_format_1() -> None:
    study = json.loads((SAVED / "study.json").read_bytes())
    run = json.loads((SAVED / "blocks/01/1-glibc.2/run.json").read_bytes())
    assert study["format"] == 1
    assert run["reasons"] == ["treatment not proved: allocator: malloc binds to libc.so.6"]


def test_its_reasons_read_as_gates(old: StudyFolder) -> None:
    runs = {run.folder: run for run in old.runs()}
    assert runs["blocks/01/1-glibc.2"].reasons == (
        Reason(gate="unproved", text="allocator: malloc binds to libc.so.6"),
    )
    assert runs["blocks/02/1-glibc"].reasons == (Reason(gate="steady", instance=2, text="throughput drifts by +5.2 %"),)
    step = next(step for step in runs["blocks/01/2-glibc"].steps if step.id == "oltp_read_only-16")
    assert step.reasons == (Reason(gate="driver_health", text="dynoload: the generator was late"),)
    summary = old.summary()
    assert summary is not None
    assert summary.runs[0].reasons == runs["blocks/01/1-glibc.2"].reasons
    assert summary.runs[1].invalid_steps == {"oltp_read_only-16": step.reasons}


def test_its_summary_and_reports_are_made_anew(old: StudyFolder) -> None:
    summary = summarise(old)
    written = json.loads((old.path / "summary.json").read_bytes())
    assert written["format"] == summary.format == 4
    assert written["runs"][0]["reasons"] == [
        {"gate": "unproved", "instance": None, "text": "allocator: malloc binds to libc.so.6"}
    ]
    assert any("treatment not proved (1), not steady (1)" in sentence for sentence in worded(old).sentences)
    assert [[off.reading for off in canary.off] for canary in summary.canaries] == [["cpu_bytes_per_s", "fsyncs_per_s"]]
    for name in reports.FORMATS:
        made = reports.write(old, name)
        text = made.read_text() if isinstance(made, Path) else made
        if name != "json":
            assert "treatment not proved: allocator: malloc binds to libc.so.6" in text, name


@pytest.mark.parametrize("found", [0, 5, None, "2"])
def test_another_format_is_refused(old: StudyFolder, found: object) -> None:
    document = json.loads((old.path / "study.json").read_bytes())
    (old.path / "study.json").write_text(json.dumps({**document, "format": found}))
    with pytest.raises(UserError, match=f"has format {found}; this mydyno reads formats 1, 2, 3, 4"):
        StudyFolder.open(old.path)
    assert found not in READ_FORMATS


@pytest.mark.parametrize(
    ("sentence", "reason"),
    [
        ("swap: the host swapped 3 MB", Reason(gate="swap", text="the host swapped 3 MB")),
        ("sysbench calls its result invalid: late", Reason(gate="driver_health", text="sysbench: late")),
        ("counters disagree: instance 3: a; b", Reason(gate="counters", instance=3, text="a; b")),
        (
            "no step is valid: not steady: instance 2: drift",
            Reason(gate="no_valid_step", text="not steady: instance 2: drift"),
        ),
        ("the server ended: error log: x", Reason(gate="other", text="the server ended: error log: x")),
        ("not steady", Reason(gate="other", text="not steady")),
    ],
)
def test_a_sentence_of_format_1_is_split_once(sentence: str, reason: Reason) -> None:
    assert Reason.model_validate(sentence) == reason


def test_a_summary_that_stored_words_is_read_and_printed_with_them(old: StudyFolder) -> None:
    path = old.path / "summary.json"
    summary = json.loads(path.read_bytes())
    entry = {**summary["published"][0], "because": NO_FULL_LINK, "note": "table 1"}
    claim = {"study": "study-4", "part": "N1", "claim": "TLS costs", "answer": "agrees", "because": "+1 %"}
    screening = {
        "metric": "qps", "step": "a", "design": "Plackett–Burman, 8 runs", "runs": 8, "blocks": 2, "method": "blocks",
        "standard_error": 0.1, "factors": [{"name": "x", "first": "1", "last": "2", "ratio": 1.0, "active": False}],
        "alarm": "the two copies of glibc differ at a",
    }  # fmt: skip
    alarmed = {
        **summary["effects"][0], "verdict": "not_measurable", "details": {},
        "sentence": "Not measurable here: x; two copies differ although they are identical, so nothing is claimed.",
    }  # fmt: skip
    stored = {
        "effects": [alarmed],
        "translations": {"zh": {"answer": ["一"], "scope": "二", "sharpen": []}},
        "answer": ["An old answer."],
    }
    words = {"published": [entry], "conclusions": [claim], "screening": [screening]}
    path.write_text(json.dumps({**summary, **stored, **words}))
    found = old.summary()
    assert found is not None and found.screening[0].copies_differ
    assert [one.fact for one in found.published[0].facts] == ["no link full"]
    assert alarm_clause(alarm_of(found.effects)) == "two copies differ"
    again = type(found).model_validate_json(found.model_dump_json(by_alias=True))
    assert again == found
    printed = worded(old)
    assert printed.effects[0].sentence == alarmed["sentence"]
    assert (printed.published[0].because, printed.published[0].note) == (NO_FULL_LINK, "table 1")
    assert printed.conclusions[0].because == "+1 %"
    assert printed.answer == StoredResult.load(old).answer.answer != ("An old answer.",)
    assert printed.answer == ("The control differs from its own copy, so no conclusion is drawn: two copies differ.",)
    old.write_summary(found)
    assert not {"answer", "scope", "sharpen", "sentences", "translations"} & json.loads(path.read_bytes()).keys()


@pytest.mark.parametrize("effects", ['[{"arm": "x"}]', '["x"]', "3", "[", "null"])
def test_a_damaged_summary_that_stored_words_is_the_users_to_repair(old: StudyFolder, effects: str) -> None:
    (old.path / "summary.json").write_text('{"sentences": [], "effects": ' + effects + "}")
    with pytest.raises(UserError, match=r"summary\.json cannot be read"):
        old.summary()


def test_the_words_of_a_reason_do_not_decide_what_it_counts_as() -> None:
    reasons = [Reason(gate="failed", text="not steady: swap: x"), Reason(gate="steady", instance=2, text="drift")]
    assert [reason.label for reason in reasons] == ["failed", "not steady"]
    assert joined(reasons) == "not steady: swap: x; not steady: instance 2: drift"
    assert len(set(GATE_LABELS.values())) == len(GATE_LABELS)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("report", "old"), 0, "studies/old/report.html"),
        (("report", "old", "--format", "md"), 0, "treatment not proved"),
        (("report", "old", "--format", "csv"), 0, "jemalloc"),
        (("report", "old", "--format", "json"), 0, '"format": 4'),
        (("list",), 0, "old"),
        (("gate", "old", "--threshold", "qps=no worse than -2%"), 5, "Undecided."),
        (("compare", "old", "other"), 0, "allocators"),
        (("compare", "old", "--arms", "glibc,jemalloc"), 0, "jemalloc"),
        (("history", "allocators"), 0, "old"),
    ],
)
def test_every_command_opens_it(tmp_path: Path, arguments: tuple[str, ...], code: int, words: str) -> None:
    for name in ("old", "other"):
        shutil.copytree(SAVED, tmp_path / "studies" / name)
    path = tmp_path / "studies/other/study.json"
    record = json.loads(path.read_text())
    path.write_text(json.dumps({**record, "created_unix_ns": record["created_unix_ns"] + 1}))  # else it is a copy
    done = mydyno(tmp_path, *arguments)
    assert done.returncode == code, done.stdout + done.stderr
    assert words in done.stdout
    assert done.stderr == ""


async def test_it_is_resumed(script: Script, paths: HostPaths, old: StudyFolder) -> None:
    last = list(old.plan().runs)[-1].folder
    shutil.rmtree(old.path / last)
    folder, summary = await resume_study(old.path, paths, Watched(script), opener(script))
    assert summary.state == "complete"
    assert {run.folder for run in folder.runs()} == {run.folder for run in folder.plan().runs}
    assert folder.run(last).format == 4


@pytest.mark.parametrize(
    "failure",
    [
        "{} failed in 1 of 8 blocks (crashed)",
        "{} failed in 5 of 10 blocks (crashed (signal 11): 4, it served nothing: 1)",
    ],
)
@pytest.mark.parametrize("who", ["jemalloc", "the control glibc", "the control's copy glibc′"])
def test_details_that_were_clauses_are_read_and_said_as_they_were(who: str, failure: str) -> None:
    stored = failure.format(who.replace("jemalloc", "the arm"))
    alarm = "two copies of glibc differ by 3 % in queries per second at step a (adjusted p = 0.001)"
    lost = ("arm and control both failed (1 block)", "glibc: not steady, one of two copies (2 blocks)")
    details = EffectDetails.model_validate(
        {"failure": stored, "failed_arm": "x", "alarm": f"{alarm} although they are identical, so nothing is claimed",
         "reasons": [stored, *lost], "lost": {"arm and control both failed": 1}}
    )  # fmt: skip
    effect = EffectRecord(
        metric="qps", step="a", arm="jemalloc", control="glibc", n=8, ratio=None, ci_low=None, ci_high=None, p=None,
        verdict="not_measurable", details=details,
    )  # fmt: skip
    assert recorded_failure(effect) == failure.format(who)
    assert (tuple(lost_blocks(details)), alarm_clause(details.alarm)) == (lost, alarm)
    assert EffectDetails.model_validate_json(details.model_dump_json()) == details


def test_an_alarm_that_was_empty_is_none() -> None:
    assert CostsRecord.model_validate({"alarm": ""}).alarm is None
    assert EffectDetails.model_validate({"alarm": "", "failure": "", "reasons": []}).failure is None
