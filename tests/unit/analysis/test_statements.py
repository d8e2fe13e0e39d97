"""Statements of a capture: what differs between arms is found and named, and nothing besides."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from mydyno.analysis import gate
from mydyno.analysis.base import Examined
from mydyno.analysis.statements import always, comment, lines, part, say
from mydyno.analysis.statements.effects import analyse, is_same, steps_of
from mydyno.document.printers import of_pieces
from mydyno.document.result import StudyResult
from mydyno.errors import UserError
from mydyno.model.definition.experiment import ThresholdSpec
from mydyno.model.metrics import SLOWEST_STATEMENT
from mydyno.model.stored.analyses import GateComparison, GateRecord, StatementRecord, StatementsRecord
from mydyno.model.stored.reasons import ArmFailure, CopiesDiffer
from mydyno.reports import AnonymisedFolder
from mydyno.reports import write as folder_report
from mydyno.store.statements import STATEMENTS_FILE, read_comparison
from mydyno.store.study_folder import StudyFolder
from mydyno.wording.numbers import PERCENT
from tests.support.fake_interleaved_folder import Interleaved, build
from tests.support.fake_statements import (
    PLANTED,
    SAME,
    SERVERS,
    Change,
    Made,
    fails,
    other_rows,
    plan,
    scans,
    warns,
    write,
)


@pytest.fixture
def folder(tmp_path: Path) -> StudyFolder:
    return build(tmp_path / "study", Interleaved(planted={"old": (0.0, 0.0), "new": (0.0, 0.0)}))


def examined(folder: StudyFolder, due: bool = True, alarm: bool = False) -> StatementsRecord | None:
    summary, experiment = folder.summary(), folder.study().experiment
    assert summary is not None
    steps = tuple(step.model_copy(update={"statements": True}) for step in experiment.steps)
    return analyse(
        Examined(experiment=experiment.model_copy(update={"steps": steps}), runs=summary.runs, alpha=0.05,
                 alpha_of_causes=0.025 if due else None, due=due, path=folder.path, alarm=alarm)
    )  # fmt: skip


def of(record: StatementsRecord | None, text: str) -> StatementRecord:
    assert record is not None
    return next(one for one in record.arms[0].statements if one.text == text)


def test_each_planted_difference_is_named_and_no_other(folder: StudyFolder) -> None:
    write(folder, (*PLANTED, *SAME), starts=0.002)
    record = examined(folder)
    planned = of(record, "SELECT planned")
    assert (planned.verdict, planned.plan_changed, planned.rows_examined) == ("slower", True, (3, 5001))
    assert planned.plans == (("item: lookup by a",), ("item: scan",))
    slower = of(record, "SELECT cpu")
    assert (slower.verdict, slower.plan_changed) == ("slower", False)
    assert slower.cpu is not None and slower.cpu.ci_low is not None and slower.cpu.ci_high is not None
    assert slower.cpu.ci_low < 1.05 < slower.cpu.ci_high
    assert (of(record, "SELECT failing").verdict, of(record, "SELECT failing").why) == (
        "fails",
        "error 1055: not in GROUP BY",
    )
    assert of(record, "SELECT others").verdict == "other_rows"
    assert of(record, "SELECT broken").verdict == "not_compared"
    assert record is not None
    same = [one for one in record.arms[0].statements if "same" in one.text]
    assert {one.verdict for one in same} == {"equivalent"}


def test_equal_servers_have_no_slower_statement(folder: StudyFolder) -> None:
    for seed in range(12):
        write(folder, SAME, seed=seed)
        record = examined(folder)
        assert record is not None
        assert not record.arms[0].having("slower", "faster", "fails", "other_rows"), seed


def test_what_differs_between_the_control_s_copies_is_no_difference_of_the_arm(folder: StudyFolder) -> None:
    count = iter(range(10_000))

    def varies(once: dict[str, Any]) -> None:
        once.update(checksum=f"{next(count):x}")

    write(folder, (Made("SELECT varying", both=varies), *SAME), starts=0.001)
    assert of(examined(folder), "SELECT varying").verdict == "equivalent"


def test_results_and_plans_of_every_block_count(folder: StudyFolder) -> None:
    calls = {"both": 0, "arm": 0, "result": 0}

    def unstable(once: dict[str, Any]) -> None:
        block, calls["both"] = calls["both"] // len(SERVERS), calls["both"] + 1
        once.update(plan=plan(("ref", "ALL")[block % 2]))

    def the_other_way_round(once: dict[str, Any]) -> None:
        block, calls["arm"] = calls["arm"], calls["arm"] + 1
        once.update(plan=plan(("ALL", "ref")[block % 2]))

    def once_only(once: dict[str, Any]) -> None:
        calls["result"] += 1
        once.update(checksum="beef" if calls["result"] == 2 else "feed")

    unsteady = Made("SELECT unstable", both=unstable, change=the_other_way_round)
    write(folder, (unsteady, Made("SELECT late", change=once_only), Made("SELECT scanned", change=scans)), starts=0.001)
    record = examined(folder)
    assert not of(record, "SELECT unstable").plan_changed, "the control has it too, in another block"
    assert of(record, "SELECT scanned").plan_changed
    assert of(record, "SELECT late").verdict == "other_rows"


def test_other_warnings_and_types_of_columns_are_told_beside_the_verdict(folder: StudyFolder) -> None:
    old = Made("SELECT deprecated everywhere", both=warns)
    write(folder, (Made("SELECT deprecated", change=warns), old, *SAME), starts=0.001)
    found = of(examined(folder), "SELECT deprecated")
    assert found.verdict == "equivalent"
    assert found.notes == ("warning 1287: 'SQL_CALC_FOUND_ROWS' is deprecated", "column a is LONGLONG, not LONG")
    assert not of(examined(folder), old.text).notes
    summary = folder.summary()
    assert summary is not None
    folder.write_summary(summary.model_copy(update={"statements": examined(folder)}))
    result = StudyResult.load(folder)
    assert "; 1 with other warnings or types of columns." in say(result.summary, result.summary.primary)[0]
    assert lines(result) == [f"with new: {note}" for note in found.notes]


def test_every_table_of_a_join_is_read_where_names_repeat(folder: StudyFolder) -> None:
    tables = [json.dumps({"table_name": name, "access_type": "ALL"}) for name in "abc"]

    def repeated(once: dict[str, Any]) -> None:
        once.update(plan='{"query_block": {' + ", ".join(f'"table": {one}' for one in tables) + "}}")

    def nested(once: dict[str, Any]) -> None:
        once.update(plan=json.dumps({"query_block": {"nested_loop": [{"table": json.loads(one)} for one in tables]}}))

    def turned(once: dict[str, Any]) -> None:
        once.update(plan='{"query_block": {' + ", ".join(f'"table": {one}' for one in reversed(tables)) + "}}")

    made = (Made("SELECT same join", both=repeated, change=nested), Made("SELECT turned", both=repeated, change=turned))
    write(folder, (*made, *SAME), starts=0.001)
    assert not of(examined(folder), "SELECT same join").plan_changed
    assert of(examined(folder), "SELECT turned").plans == (
        ("a: scan", "b: scan", "c: scan"),
        ("c: scan", "b: scan", "a: scan"),
    )


def test_labels_that_are_alike_have_the_place_where_the_texts_part(folder: StudyFolder) -> None:
    texts = [f"SELECT a FROM t JOIN u WHERE {condition} = ?" for condition in ("t . a", "t . b", "u . c")]
    write(folder, (*(Made(text, label="SELECT a FROM t…") for text in texts), *SAME[:3]), starts=0.001)
    assert [of(examined(folder), text).label for text in texts] == [
        "SELECT a FROM t … t . a = ?", "SELECT a FROM t … t . b = ?", "SELECT a FROM t … u . c = ?",
    ]  # fmt: skip
    assert of(examined(folder), "SELECT same 1").label == "SELECT same 1"


def test_rows_of_an_unordered_limit_may_differ(folder: StudyFolder) -> None:
    def free(once: dict[str, Any]) -> None:
        once.update(varies={"reason": "LIMIT without ORDER BY", "of": "contents"})

    write(
        folder,
        (Made("SELECT free", both=free, change=other_rows), *SAME),
        starts=0.001,
    )
    assert of(examined(folder), "SELECT free").verdict == "equivalent"


def test_nothing_is_decided_of_times_before_a_look(folder: StudyFolder) -> None:
    write(folder, PLANTED)
    record = examined(folder, due=False)
    assert of(record, "SELECT planned").verdict == "open"
    assert of(record, "SELECT failing").verdict == "fails"


def test_the_answer_counts_and_the_report_shows_each_change(folder: StudyFolder) -> None:
    write(folder, (*PLANTED, *SAME[:20]), starts=0.001)
    summary = folder.summary()
    assert summary is not None
    record = examined(folder)
    folder.write_summary(summary.model_copy(update={"statements": record}))
    result = StudyResult.load(folder)
    answer = say(result.summary, result.summary.primary)
    assert answer[0] == (
        "Of 25 statements 2 are slower on new, 1 of them by another plan; 1 fails; 1 returns other rows; "
        f"20 are equivalent within 2{PERCENT}; 1 could not be compared."
    )
    shown = lines(result)
    assert [line.partition(":")[0] for line in shown] == ["fails", "other rows", "slower", "slower"]
    assert "another plan, 3 → 5,001 rows read" in shown[2]
    assert "% CPU (" in shown[3].partition(", ")[0], "what decides comes first"
    shorter = comment(result)
    assert shorter is not None
    rows = [line.split(" | ") for line in "\n".join(of_pieces(shorter.pieces)).splitlines() if line.startswith("| ")][
        2:
    ]
    assert [row[1].split("**")[1] for row in rows] == ["fails", "other rows", "slower", "slower"]
    section = part(result)
    assert section is not None
    assert section.finding == "", "a title of times alone would say nothing of those that fail"
    for text in (
        "item: lookup by a",
        "item: scan",
        "Handler_read_rnd_next",
        "error 1055",
        "3 (administers the server)",
    ):
        assert text in section.html, text
    folder.write_summary(summary)
    assert part(StudyResult.load(folder)) is None


def rewrite(path: Path, change: Change) -> None:
    records = [json.loads(line) for line in path.read_text().splitlines()]
    for record in records:
        change(record)
    path.write_text("".join(f"{json.dumps(record, ensure_ascii=False)}\n" for record in records))


def test_a_block_without_an_arms_server_leaves_its_times_to_the_other_blocks(folder: StudyFolder) -> None:
    write(folder, (*PLANTED, *SAME))
    rewrite(folder.block_path(1) / STATEMENTS_FILE, without_the_arm)
    planted = of(examined(folder), "SELECT planned")
    assert planted.verdict == "slower"
    assert planted.service is not None and planted.service.ci_low is not None


def test_a_text_that_fails_with_the_control_too_hides_no_other_text(folder: StudyFolder) -> None:
    write(folder, (*PLANTED, *SAME))
    for block in {run.block for run in folder.runs()}:
        path = folder.block_path(block) / STATEMENTS_FILE
        lines = path.read_text().splitlines()
        place = next(at for at, line in enumerate(lines) if '"once"' in line and '"error": 1055' in line)
        second = json.loads(lines[place])
        for server in second["servers"]:
            server |= {"error": 1062, "message": "Duplicate entry"}
        path.write_text("\n".join([*lines[:place], json.dumps(second), *lines[place:]]) + "\n")
    found = of(examined(folder), "SELECT failing")
    assert (found.verdict, found.why) == ("fails", "error 1055: not in GROUP BY")


def test_a_literal_may_have_any_separator_of_lines(folder: StudyFolder) -> None:
    text = "SELECT 'Ã\x85rhus\u2028\u2029'"
    write(folder, (Made(text), *SAME))
    path = folder.block_path(1) / STATEMENTS_FILE
    rewrite(path, lambda _record: None)
    comparison = read_comparison(path)
    assert comparison is not None and comparison.statements[0].text == text
    folder.journal.append("note", text=text)
    assert folder.journal.read()[-1]["text"] == text


def test_damaged_records_are_named(tmp_path: Path) -> None:
    path = tmp_path / STATEMENTS_FILE
    assert read_comparison(path) is None
    path.write_text('{"record": "header", "servers": [], "left_out": {}}\n')
    with pytest.raises(UserError, match=r"statements\.jsonl: damaged: it ends before"):
        read_comparison(path)


@pytest.mark.parametrize(
    ("explained", "steps"),
    [
        # MySQL 5.6 to 9
        ({"query_block": {"ordering_operation": {"using_filesort": True, "nested_loop": [
            {"table": {"table_name": "a", "access_type": "ALL", "rows_examined_per_scan": 5}},
            {"table": {"table_name": "b", "access_type": "eq_ref", "key": "PRIMARY"}}]}}},
         ("a: scan", "b: lookup by PRIMARY", "sort")),
        # MariaDB
        ({"query_block": {"filesort": {"sort_key": "x", "temporary_table": {"nested_loop": [
            {"table": {"table_name": "a", "access_type": "range", "key": "k", "index_condition": "a.k % 7 = 1"}}]}}}},
         ("a: range by k with an index condition", "sort", "temporary table")),
        # MySQL 5.5, without JSON
        ([{"id": "1", "select_type": "SIMPLE", "table": "a", "type": "ref", "key": "k",
           "Extra": "Using index condition; Using filesort"}],
         ("a: lookup by k with an index condition", "sort")),
        # MySQL 9, with or without the hypergraph optimizer
        ({"query_plan": {"access_type": "sort", "inputs": [{"access_type": "join", "inputs": [
            {"access_type": "index", "index_access_type": "index_scan", "table_name": "a", "index_name": "PRIMARY"},
            {"access_type": "index", "index_access_type": "index_lookup", "table_name": "b", "index_name": "k",
             "pushed_index_condition": "b.k > 3"}]}]}},
         ("a: scan", "b: lookup by k with an index condition", "sort")),
        (None, ()),
    ],
)  # fmt: skip
def test_plans_of_all_servers_are_the_same_lines(explained: Any, steps: tuple[str, ...]) -> None:
    assert steps_of(explained) == steps


def test_sorts_are_no_other_plan_and_tables_that_a_server_makes_have_no_number() -> None:
    assert is_same(("a: scan", "sort"), ("a: scan", "temporary table"))
    assert not is_same(("a: scan", "b: lookup by k"), ("b: scan", "a: lookup by k"))
    tables = [{"table_name": name, "access_type": "ALL"} for name in ("<derived2>", "<subquery3>", "<temporary>")]
    assert steps_of({"query_block": {"nested_loop": tables}}) == ("<derived>: scan", "<subquery>: scan")


@pytest.mark.parametrize(
    ("made", "limit", "outcome", "words"),
    [
        (SAME, 0.2, "passed", ""),
        ((Made("SELECT planned", slower=4.0), *SAME), 0.2, "worse", "SELECT planned"),
        ((Made("SELECT cpu", slower=1.05), *SAME), 0.2, "passed", ""),
        ((Made("SELECT failing", change=fails), *SAME), 0.2, "failed", "new fails in 1 statement, e.g. SELECT failing"),
        ((Made("SELECT others", change=other_rows), *SAME), 0.2, "failed", "new returns other rows in 1 statement"),
        ((Made("SELECT noisy", noise=0.5), *SAME), 0.01, "undecided", "of 61 statements may be beyond it"),
    ],
)
def test_the_gate_holds_every_statement_to_its_limit(
    folder: StudyFolder, made: tuple[Made, ...], limit: float, outcome: str, words: str
) -> None:
    write(folder, made, starts=0.001)
    result = gated(folder, examined(folder), limit)
    assert result.outcome == outcome and words in result.reason, result
    assert outcome != "passed" or (result.high or 9.0) <= 1 + limit, "no statement is shown beyond the limit"


def gated(
    folder: StudyFolder, record: StatementsRecord | None, limit: float, alarm: bool = False, **more: Any
) -> GateComparison:
    summary, study = folder.summary(), folder.study()
    assert summary is not None
    threshold = ThresholdSpec(metric=SLOWEST_STATEMENT, limit=limit, steps=(study.experiment.steps[0].workload,))
    differ = CopiesDiffer(control="old", step=summary.steps[0].id, of="qps", difference=0.1, p=0.001)
    details = summary.effects[0].details.model_copy(update={"alarm": differ if alarm else None} | more)
    result = gate.analyse(
        Examined(experiment=study.experiment, runs=summary.runs, alpha=0.05, plan=folder.plan(), thresholds=[threshold],
                 found={"statements": record}, effects=[summary.effects[0].model_copy(update={"details": details})])
    )  # fmt: skip
    assert result is not None
    (comparison,) = result.comparisons
    return comparison


def test_the_gate_decides_no_time_under_an_alarm_and_passes_none_on_few_blocks(folder: StudyFolder) -> None:
    write(folder, (Made("SELECT planned", slower=4.0), *SAME), starts=0.001)
    found = gated(folder, examined(folder, alarm=True), 0.2, alarm=True)
    assert (found.outcome, found.why) == ("undecided", "alarm") and "two copies of old differ" in found.reason
    write(folder, (Made("SELECT failing", change=fails), *SAME), starts=0.001)
    assert gated(folder, examined(folder, alarm=True), 0.2, alarm=True).outcome == "failed"
    write(folder, SAME, starts=0.001)
    for block in (1, 2, 3):
        rewrite(folder.block_path(block) / STATEMENTS_FILE, without_the_arm)
    found = gated(folder, examined(folder), 0.2)
    assert (found.outcome, found.reason) == ("undecided", "only 3 of the 6 blocks required")


def test_the_gate_fails_where_the_arm_did(folder: StudyFolder) -> None:
    write(folder, SAME, starts=0.001)
    failure = ArmFailure(who="arm", blocks=2, tried=8, why={"the server ended": 2})
    found = gated(folder, examined(folder), 0.2, failure=failure)
    assert (found.outcome, found.reason) == ("failed", "new failed in 2 of 8 blocks (the server ended)")
    found = gated(folder, None, 0.2, failure=failure.model_copy(update={"who": "control"}))
    assert (found.outcome, found.why) == ("undecided", "failure")


def without_the_arm(record: dict[str, Any]) -> None:
    for name in ("servers", "service_us", "cpu_us"):
        if name in record:
            record[name] = record[name][:2]


def test_a_statement_that_differs_between_the_control_s_copies_decides_no_gate(folder: StudyFolder) -> None:
    write(folder, (Made("SELECT planned", slower=4.0), *SAME), starts=0.001)
    for block in {run.block for run in folder.runs()}:
        rewrite(folder.block_path(block) / STATEMENTS_FILE, slow_copy)
    record = examined(folder)
    planned = of(record, "SELECT planned")
    assert (planned.verdict, planned.why) == ("open", "the control's two copies differ")
    found = gated(folder, record, 0.2)
    assert (found.outcome, found.reason) == ("undecided", "1 of 61 statements may be beyond it")


def slow_copy(record: dict[str, Any]) -> None:
    """The control's second copy takes ten times as long for the first statement."""
    if record["record"] == "visit" and record["statement"] == 0:
        for name in ("service_us", "cpu_us"):
            record[name][1] *= 10


def test_an_error_of_the_control_s_second_copy_is_no_difference_of_the_arm(folder: StudyFolder) -> None:
    def of_copy(record: dict[str, Any]) -> None:
        if record["record"] == "once" and record["statement"] == 0:
            record["servers"][1].update(error=3024, message="time limit")

    write(folder, (Made("SELECT failing", change=fails), *SAME), starts=0.001)
    for block in {run.block for run in folder.runs()}:
        rewrite(folder.block_path(block) / STATEMENTS_FILE, of_copy)
    assert of(examined(folder), "SELECT failing").verdict == "not_compared"


def test_shares_of_the_time_add_up_to_all_of_it(folder: StudyFolder) -> None:
    write(folder, (Made("SELECT planned", slower=4.0), *SAME), starts=0.1)
    record = examined(folder)
    assert record is not None
    assert sum(one.control_share or 0.0 for one in record.arms[0].statements) == pytest.approx(1.0)


def test_where_the_control_s_copies_differ_results_stand_and_times_do_not(folder: StudyFolder) -> None:
    write(folder, (*PLANTED, *SAME))
    record = examined(folder, alarm=True)
    assert of(record, "SELECT planned").verdict == "open"
    assert (of(record, "SELECT failing").verdict, of(record, "SELECT others").verdict) == ("fails", "other_rows")
    summary = folder.summary()
    assert summary is not None
    assert always(summary) == []
    (sentence,) = always(summary.model_copy(update={"statements": record}))
    assert sentence.startswith("Of 65 statements 1 fails; 1 returns other rows; 62 are not decided")


def test_an_anonymised_report_has_no_value(folder: StudyFolder) -> None:
    tree = "-> Filter: (t1.a = 'O''Hara') (cost=0.35 rows=71)\n -> Index range scan on t1 over (4711 <= id)"
    as_json = '{"r_rows": 9, "key": "k_1", "attached_condition": "t1.`id` = 4711 and t1.a = \'O\\"Hara'
    warning = (1292, "Incorrect date value: 'O'Hara' for column `d` at row 1")
    write(folder, PLANTED)
    record = examined(folder)
    summary = folder.summary()
    assert record is not None and summary is not None
    told = of(record, "SELECT planned").model_copy(
        update={"executed": (tree, as_json), "notes": (f"warning {warning[0]}: {warning[1]}",)}
    )
    arm = record.arms[0].model_copy(update={"statements": (told, *record.arms[0].having("fails"))})
    failed = GateComparison(
        metric=SLOWEST_STATEMENT, step=summary.steps[0].id, arm="new", control="old", limit=1.2, outcome="failed", n=6,
        reason="new fails in 1 statement, e.g. SELECT failing (error 1062: Duplicate entry 'O'Hara' for key 'k')",
    )  # fmt: skip
    decided = GateRecord(outcome="worse", comparisons=(failed,))
    statements = record.model_copy(update={"arms": (arm,)})
    folder.write_summary(summary.model_copy(update={"statements": statements, "gate": decided}))
    plain = folder_report(folder, "json", anonymise=False)
    assert "4711" in plain and "Hara" in plain and "planned 1" in plain
    for format_ in ("json", "md", "html"):
        made = str(folder_report(folder, format_, anonymise=True))
        text = Path(made).read_text() if format_ == "html" else made
        assert not re.search("4711|Hara|planned 1", text), format_
    without = of(AnonymisedFolder(folder.path).summary().statements, "SELECT planned")  # type: ignore[union-attr]
    assert without.executed == (
        "-> Filter: (t1.a = ?) (cost=0.35 rows=71)\n -> Index range scan on t1 over (? <= id)",
        '{"r_rows": 9, "key": "k_1", "attached_condition": "t1.`id` = ? and t1.a = ?',
    )
    assert without.notes == ("warning 1292: Incorrect date value: ?",)
    assert "e.g. SELECT failing (error 1062: Duplicate entry ?)" in str(folder_report(folder, "md", anonymise=True))
