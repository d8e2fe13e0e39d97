"""The formats of a gate: golden files of each outcome, JUnit and Bencher's by their own rules."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import jsonschema
import pytest

from mydyno.cli.gate_runner import markdown
from mydyno.document.printers import Paper
from mydyno.evaluation.answer import answer_of
from mydyno.model.definition.experiment import ThresholdSpec
from mydyno.reports.gate import bencher, gate_document, junit
from mydyno.reports.page import render_page
from mydyno.store.study_folder import StudyFolder
from mydyno.verdicts import Metric
from mydyno.verdicts.threshold import Comparison, Outcome
from mydyno.wording.gate import GateResult, gate_study
from mydyno.wording.stored_result import StoredResult
from tests.support.fake_interleaved_folder import build
from tests.support.golden import check_golden

QPS, P99 = Metric("qps", "1/s", "higher"), Metric("latency_p99_us", "µs", "lower")
FINE = Comparison(QPS, "oltp_read_write-16", "new", "old", 0.98, Outcome.PASSED, 10, 1.003, 0.991, 1.0154,
                  10432.5)  # fmt: skip
WORSE = Comparison(P99, "oltp_read_write-16", "new", "old", 1.1, Outcome.WORSE, 10, 1.31, 1.19, 1.44,
                   9123.0)  # fmt: skip
OPEN = replace(FINE, step="oltp_read_write-64", outcome=Outcome.UNDECIDED, reason="the interval contains the limit",
               ratio=0.985, low=0.96, high=1.01, blocks_needed=40, plain=0.973)  # fmt: skip
FAILED = Comparison(QPS, "oltp_read_write-16", "other|<b>", "old", 0.98, Outcome.FAILED, 0,
                    reason="other|<b> failed in 2 of 10 blocks (signal 11\x07)")  # fmt: skip
BMF = {
    "type": "object",
    "patternProperties": {
        ".+": {
            "type": "object",
            "patternProperties": {
                "^.{1,64}$": {
                    "type": "object",
                    "properties": {name: {"type": "number"} for name in ("value", "lower_value", "upper_value")},
                    "required": ["value"],
                    "additionalProperties": False,
                }
            },
            "additionalProperties": False,
        }
    },
}
"""Bencher's own schema, with its limit on the length of names, and nothing beyond it."""


def result(*comparisons: Comparison, **changes: object) -> GateResult:
    found = {one.outcome for one in comparisons}
    outcome = (
        Outcome.WORSE
        if found & {Outcome.WORSE, Outcome.FAILED}
        else Outcome.PASSED
        if found == {Outcome.PASSED}
        else Outcome.UNDECIDED
    )
    plain = GateResult(
        study="flush-20261123T060000Z",
        experiment="flush",
        question="Is the new build as fast as the old one?",
        outcome=outcome,
        comparisons=comparisons,
        obstacle="",
        alpha=0.004,
        error_rate=0.05,
        look=10,
        blocks=10,
        next_step="",
        scope="Host bench-1 (16 CPUs, 64.0 GiB); MariaDB 10.11.14; 10 blocks.",
        late=False,
        duration_s=1800.0,
    )
    return replace(plain, **changes)  # type: ignore[arg-type]


RESULTS = {
    "passed": result(FINE, alpha=0.05, look=None),
    "worse": result(FINE, WORSE, OPEN, FAILED, late=True, builds="new: a8a67d39836c (Fix), old: d9e1d3b3763d (Begin)"),
    "undecided": result(
        FINE, OPEN, next_step="If the effects are as estimated, a decision takes about 1 hour more: "
            "mydyno resume flush-20261123 --time 1h",
    ),
    "interrupted": result(
        replace(FINE, outcome=Outcome.UNDECIDED, reason="no interim analysis has been reached yet", ratio=None,
                low=None, high=None, arm_value=None),
        obstacle="the study is interrupted: 3 of 10 blocks are finished", next_step="To continue: mydyno resume flush",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", RESULTS)
def test_the_terminal_and_the_markdown_are_as_the_golden_files(name: str) -> None:
    out = io.StringIO()
    Paper(out, 80).document(gate_document(RESULTS[name]))
    text = "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"
    check_golden(f"gate-{name}.txt", text)
    check_golden(f"gate-{name}.md", markdown(RESULTS[name]))
    assert max(map(len, text.splitlines())) <= 80


def test_the_report_of_a_study_with_limits_has_their_outcome(tmp_path: Path) -> None:
    plain = build(tmp_path / "plain")
    assert 'id="gate"' not in render_page(plain)
    limits = (ThresholdSpec(metric="qps", limit=-0.1, arms=("jemalloc",)),)
    study = plain.study()
    made = study.model_copy(update={"experiment": study.experiment.model_copy(update={"thresholds": limits})})
    (plain.path / "study.json").write_text(made.model_dump_json(by_alias=True))
    page = render_page(StudyFolder.open(plain.path))
    summary = plain.summary()
    assert summary is not None
    found = gate_study(StudyFolder.open(plain.path), summary)
    assert found.outcome is Outcome.PASSED, found
    assert "Both comparisons are within their limits." in page
    assert answer_of(StoredResult.load(StudyFolder.open(plain.path))).answer[0] == (
        "Passed: Both comparisons are within their limits."
    ), "a gate's decision comes first"
    assert page.count(">passed<") == len(found.comparisons) == 2
    plain = {(one.metric, one.step, one.arm): one.unadjusted for one in summary.effects}
    for one in found.comparisons:
        before = plain[one.metric.name, one.step, one.arm]
        assert before is not None and one.plain == before[0] != one.ratio
    assert ">plain</th>" in page
    assert 'id="gate"' in page


def test_junit_counts_failures_and_errors_and_is_well_formed() -> None:
    root = ET.fromstring(junit(RESULTS["worse"]))
    suite = root[0]
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors"), suite.get("skipped")) == (
        "4",
        "2",
        "1",
        "0",
    )
    cases = suite.findall("testcase")
    assert [[child.tag for child in case] for case in cases] == [["system-out"], ["failure"], ["error"], ["failure"]]
    failure = cases[1].find("failure")
    assert failure is not None
    assert failure.get("type") == "worse"
    assert failure.get("message") == "effect +31 %, bounds +19 % … +44 %, limit +10 %"
    assert cases[3].get("name") == "qps: other|<b> no worse than −2 % against old"
    assert len({(case.get("classname"), case.get("name")) for case in cases}) == 4
    interrupted = ET.fromstring(junit(RESULTS["interrupted"]))[0].find("testcase/error")
    assert interrupted is not None
    assert "the study is" in (interrupted.text or "").lower()


@pytest.mark.parametrize("name", RESULTS)
def test_the_json_is_what_bencher_takes(name: str) -> None:
    document = json.loads(bencher(RESULTS[name]))
    jsonschema.validate(document, BMF)
    if name == "passed":
        assert document == {
            "flush: new against old, oltp_read_write-16": {
                "qps": {"value": 10432.5},
                "qps-ratio": {"value": 1.003, "lower_value": 0.991, "upper_value": 1.0154},
            }
        }
    if name == "interrupted":
        assert document == {}


def test_markup_from_outside_stays_text() -> None:
    assert "other\\|&lt;b&gt;" in markdown(RESULTS["worse"])


def test_a_stream_without_signs_gets_plain_letters() -> None:
    raw = io.BytesIO()
    with io.TextIOWrapper(raw, encoding="ascii", write_through=True) as out:
        Paper(out).document(gate_document(RESULTS["worse"]))
        assert b"-2 %" in raw.getvalue()
