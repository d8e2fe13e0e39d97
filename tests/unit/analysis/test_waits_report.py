"""Waits in the report and on the terminal: what is named, in which words, and what came with an effect."""

from __future__ import annotations

import re
from pathlib import Path

from mydyno.analysis.waits import leading
from mydyno.model.stored.counted import ROW_LOCKS, AmountRecord, WaitRecord, WaitsContrast, WaitsRecord
from mydyno.model.stored.reasons import CopiesDiffer
from mydyno.model.stored.summary import CostRecord, CostsRecord, OperationTime
from mydyno.reports.formats import markdown_text
from mydyno.reports.page import render_page
from mydyno.store.study_folder import StudyFolder
from tests.support.counted_report import COSTS, STEP, counted_folder, page, printed
from tests.support.fake_interleaved_folder import build


def event(name: str, control_us: float, arm_us: float, **more: object) -> WaitRecord:
    plain = {"kind": "wait", "name": name, "control_us": control_us, "arm_us": arm_us, "control_count": 2.0,
             "arm_count": 2.0, "low_us": arm_us - control_us - 30.0, "high_us": arm_us - control_us + 30.0}  # fmt: skip
    return WaitRecord.model_validate({**plain, **more})


MUTEXES = event("mutexes", 100.0, 700.0, beyond_noise=True)
POOL = event("wait/synch/mutex/innodb/buf_pool_<mutex>", 50.0, 640.0, of_class="mutexes", beyond_noise=True)
COMMIT = event("stage/sql/Commit", 900.0, 100.0, kind="stage", beyond_noise=True)
NETWORK = event("network", 400.0, 410.0)


def record(*events: WaitRecord, **more: object) -> WaitsRecord:
    contrast = WaitsContrast(
        step=STEP, arm="jemalloc", control="glibc", blocks=6, control_us=4000.0, arm_us=4600.0, events=events
    )
    plain = {"contrasts": (contrast,), "slices": 18, "throughput_ratio": 0.9, "throughput_low": 0.85,
             "throughput_high": 0.95}  # fmt: skip
    return WaitsRecord.model_validate({**plain, **more})


def folder(path: Path, waits: WaitsRecord, verdict: str = "lower", costs: CostsRecord = COSTS) -> StudyFolder:
    return counted_folder(path, verdict, costs, waits)


def test_the_leading_class_is_the_answer_with_its_event(tmp_path: Path) -> None:
    made = folder(tmp_path / "s", record(MUTEXES, POOL, NETWORK))
    text = page(made)
    section = text[text.index('id="waits"') :]
    words = (
        "Waits for mutexes are 600 µs longer per transaction (+570 … +630 µs). Most of it: "
        "wait/synch/mutex/innodb/buf_pool_"
    )
    title = '<small class="soft">What the server waits for</small> Waits for mutexes are 600 µs longer per transaction'
    assert f"<h3>{title}</h3>" in section
    assert words in section
    assert "buf_pool_<mutex>" not in section
    assert "those that differ beyond noise first" in section
    assert "Cost of the instruments: throughput −10.0 % (−15.0 … −5.0 %)" in section
    assert words in printed(made)


def test_an_effect_is_accompanied_by_the_leading_wait_and_names_what_tests_it(tmp_path: Path) -> None:
    locks = event("row locks", 100.0, 700.0, beyond_noise=True)
    made = folder(tmp_path / "s", record(locks, event(ROW_LOCKS, 100.0, 700.0, of_class="row locks")))
    text = markdown_text(made)
    assert "Waits for row locks: 100 µs → 700 µs per transaction" in text.replace("\u00a0", " ")
    assert 'transaction_isolation = "READ-COMMITTED"' in text
    assert "This accounts for about 60 % of the change" in text.replace("\u202f", " "), "4,000 µs / 0.8 are 5,000"


def test_a_wait_that_moved_with_the_effect_or_too_little_did_not_accompany_it(tmp_path: Path) -> None:
    assert "Waits for mutexes:" not in markdown_text(folder(tmp_path / "a", record(MUTEXES, POOL), verdict="higher"))
    little = event("mutexes", 100.0, 200.0, beyond_noise=True)
    assert "Waits for mutexes:" not in markdown_text(folder(tmp_path / "b", record(little)))


def test_the_same_time_is_not_named_as_a_cost_and_as_a_wait(tmp_path: Path) -> None:
    cost = CostRecord(
        cost="row_lock_time_us", step=STEP, arm="jemalloc", control="glibc", control_value=100, arm_value=700,
        ratio=7.0, ci_low=6.0, ci_high=8.0, beyond_noise=True,
    )  # fmt: skip
    times = tuple(
        OperationTime(step=STEP, arm=arm, connection_us=us, crowding=1.0)
        for arm, us in (("glibc", 4000.0), ("jemalloc", 5000.0))
    )
    costs = CostsRecord(costs=(cost,), times=times)
    text = markdown_text(
        folder(tmp_path / "s", record(event("row locks", 100.0, 700.0, beyond_noise=True)), costs=costs)
    )
    assert "Row lock wait:" in text
    assert "Waits for row locks:" not in text


def test_a_stage_leads_where_no_wait_event_differs(tmp_path: Path) -> None:
    waits = record(COMMIT, NETWORK)
    assert leading(waits.contrasts[0]) == COMMIT
    text = page(folder(tmp_path / "s", waits))
    assert "No class of waits differs beyond noise, but the stage Commit is 800 µs shorter per transaction" in text


LOCK = event(
    "wait/synch/rwlock/innodb/hash_table_locks", 20.0, 25.0, of_class="read-write locks",
    control_lock={"instances": 16, "hottest": 0.25}, arm_lock={"instances": 16, "hottest": 0.9},
)  # fmt: skip
SESSIONS = (
    AmountRecord(kind="active", control=5.0, arm=7.5, low=1.0, high=4.0, beyond_noise=True),
    AmountRecord(kind="wait", name="mutexes", control=0.5, arm=3.0, low=1.5, high=3.5, beyond_noise=True),
    AmountRecord(kind="wait", control=4.0, arm=4.1),
    AmountRecord(kind="state", name="Commit", control=1.0, arm=1.0),
)
FSYNCS = AmountRecord(
    kind="metric", name="os_log_fsyncs", control=0.9, arm=0.02, low=-1.0, high=-0.7, beyond_noise=True
)


def detailed(**more: object) -> WaitsRecord:
    waits = record(LOCK, MUTEXES, POOL, event("stage/sql/Updating", 90.0, 95.0, kind="stage"), samples=240, **more)
    contrast = waits.contrasts[0].model_copy(
        update={"sessions": SESSIONS, "metrics": (FSYNCS,), "metrics_compared": 31}
    )
    return waits.model_copy(update={"contrasts": (contrast,)})


def test_locks_sessions_and_counters_of_innodb_have_their_tables(tmp_path: Path) -> None:
    made = page(folder(tmp_path / "s", detailed(lost={"Performance_schema_mutex_instances_lost": 7})))
    text = " ".join(re.sub(r"<[^>]*>", " ", made[made.index('id="waits"') :]).split())
    assert "Mutexes and read-write locks: those that differ beyond noise first" in text
    assert "innodb/hash_table_locks" in text
    assert "90 % in one of 16" in text
    assert "active sessions all 5.00 7.50 +2.5 +1.0 … +4.0" in text
    assert "in no wait event wait 4.00 4.10" in text
    assert "Counters of InnoDB per transaction that differ beyond noise, of 31 compared" in text
    assert "os_log_fsyncs 0.900 0.0200 −0.88" in text
    assert "Sessions were sampled 240 times, every 100 ms." in text
    assert "Performance_schema_mutex_instances_lost is 7." in text
    events = text[text.index("Events, stages and statements") :]
    assert "hash_table_locks" not in events[: events.index("What sessions do")]


def test_a_lock_without_its_class_leads_where_neither_class_nor_stage_differs(tmp_path: Path) -> None:
    assert leading(record(POOL, NETWORK).contrasts[0]) == POOL
    text = page(folder(tmp_path / "s", record(POOL, NETWORK)))
    assert (
        "No class of waits differs beyond noise, but wait/synch/mutex/innodb/buf_pool_&lt;mutex&gt; is 590 µs longer"
        in text
    )


def test_markdown_has_the_sentence_the_classes_and_what_differs(tmp_path: Path) -> None:
    text = markdown_text(folder(tmp_path / "s", detailed())).replace("\u00a0", " ")
    part = text[text.index("### What the server waits for") :]
    assert "Waits for mutexes are 600 µs longer per transaction" in part
    assert "| **+600 µs** | +570 … +630 µs |" in part
    assert "| 5.00 | 7.50 | **+2.5** | +1.0 … +4.0 |" in part
    assert "| 0.500 | 3.00 |" in part
    assert "buf\\_pool\\_&lt;mutex&gt;" in part
    for name in ("innodb/hash\\_table\\_locks", "Updating", "os\\_log\\_fsyncs", "Commit"):
        assert f"| {name} |" in part, "every row of every table of the page"
    assert "### What the server waits for" not in markdown_text(build(tmp_path / "t"))


def test_without_a_difference_nothing_is_named(tmp_path: Path) -> None:
    made = folder(tmp_path / "s", record(NETWORK))
    assert "No wait differs beyond noise, and no stage of a statement." in page(made)
    assert "Waits" not in printed(made)
    alarmed = folder(
        tmp_path / "t", record(MUTEXES, alarm=CopiesDiffer(control="glibc", step="s", kind="event", of="mutexes"))
    )
    assert "No difference is claimed: two copies of glibc differ in mutexes at s." in page(alarmed)
    assert "<h3>What the server waits for</h3>" in page(alarmed)
    assert "Waits" not in printed(alarmed)


def test_the_title_of_several_comparisons_has_the_number_of_those_that_differ(tmp_path: Path) -> None:
    contrasts = (*record(MUTEXES).contrasts, *record(NETWORK).contrasts)
    assert "</small> Differences beyond noise in 1 of 2 comparisons</h3>" in page(
        folder(tmp_path / "s", record(contrasts=contrasts))
    )


def test_a_study_without_waits_has_no_section(tmp_path: Path) -> None:
    assert 'id="waits"' not in render_page(build(tmp_path / "s"))
