"""The kernel view in the report and on the terminal: what is named, in which words, and what came with an effect."""

from __future__ import annotations

from pathlib import Path

from mydyno.analysis.kernel import _tables, leading
from mydyno.model.stored.counted import KernelContrast, KernelRecord, KernelRow
from mydyno.model.stored.reasons import CopiesDiffer
from mydyno.reports.formats import markdown_text
from mydyno.reports.page import render_page
from mydyno.store.study_folder import StudyFolder
from tests.support.counted_report import STEP, counted_folder, page, printed
from tests.support.fake_interleaved_folder import build


def time_row(measure: str, control_us: float, arm_us: float, beyond_noise: bool = False) -> KernelRow:
    return KernelRow(
        measure=measure, control_count=2.0, arm_count=2.5, control_us=control_us, arm_us=arm_us,
        low_us=arm_us - control_us - 30.0, high_us=arm_us - control_us + 30.0, beyond_noise=beyond_noise,
        control_percentiles_us={"p50": 12.0, "p95": 80.0, "p99": 250.0},
        arm_percentiles_us={"p50": 15.0, "p95": 90.0, "p99": 4100.0},
    )  # fmt: skip


def count_row(measure: str, control: float, arm: float, beyond_noise: bool = False) -> KernelRow:
    return KernelRow(
        measure=measure, control_count=control, arm_count=arm, low_count=arm - control - 0.5,
        high_count=arm - control + 0.5, beyond_noise=beyond_noise,
    )  # fmt: skip


QUEUE = time_row("run_queue", 100.0, 700.0, beyond_noise=True)
SYNC = time_row("file_sync", 50.0, 300.0, beyond_noise=True)
BACKGROUND = time_row("run_queue_background", 10.0, 2000.0, beyond_noise=True)
FUTEX = time_row("futex", 400.0, 410.0)
RETRANSMITS = count_row("retransmits_to_server", 0.0, 0.0)
CALLS = count_row("system_call/sched_yield", 1.0, 9.0, beyond_noise=True)


def record(*rows: KernelRow, **more: object) -> KernelRecord:
    contrast = KernelContrast(
        step=STEP, arm="jemalloc", control="glibc", blocks=6, control_us=4000.0, arm_us=4600.0, rows=rows
    )
    plain = {"contrasts": (contrast,), "slices": 18, "tracer": "bpftrace v0.17.0", "throughput_ratio": 0.97,
             "throughput_low": 0.95, "throughput_high": 0.99}  # fmt: skip
    return KernelRecord.model_validate({**plain, **more})


def folder(path: Path, kernel: KernelRecord, verdict: str = "lower") -> StudyFolder:
    return counted_folder(path, verdict, kernel=kernel)


def section(made: StudyFolder) -> str:
    text = page(made)
    text = text[text.index('id="kernel"') :]
    return text[: text.index("</section>")]


def test_at_a_rate_connections_are_idle_and_their_time_is_not_stated() -> None:
    (contrast,) = record(QUEUE).contrasts
    closed, paced = (_tables(contrast, one)[0].note for one in (False, True))
    assert "of a connection's time" in closed
    assert not paced


def test_the_largest_time_that_transactions_wait_for_is_the_answer(tmp_path: Path) -> None:
    made = folder(tmp_path / "s", record(QUEUE, BACKGROUND, FUTEX, SYNC, RETRANSMITS, CALLS))
    words = "Run queue: 100 µs → 700 µs per transaction (+570 … +630 µs). This is the largest difference in time."
    text = section(made)
    assert "</small> Run queue: 100 µs → 700 µs per transaction</h3>" in text
    assert words in text
    assert text.index(words) < text.index("<table>")
    assert "sched_yield()" in text
    assert "4.10 ms" in text, "p99 of single events"
    assert "Cost of the tracing: throughput −3.0 % (−5.0 … −1.0 %)" in text
    assert words in printed(made)


def test_an_effect_is_accompanied_by_what_leads_and_names_what_tests_it(tmp_path: Path) -> None:
    text = markdown_text(folder(tmp_path / "s", record(SYNC, FUTEX))).replace("\u00a0", " ")
    assert "In the kernel, fsync and fdatasync: 50.0 µs → 300 µs per transaction" in text
    assert "innodb_flush_log_at_trx_commit = 2" in text
    assert "This accounts for about 25 % of the change" in text.replace("\u202f", " "), "4,000 µs / 0.8 are 5,000"


def test_what_nobody_waits_for_or_moved_the_other_way_did_not_accompany_it(tmp_path: Path) -> None:
    assert "In the kernel," not in markdown_text(folder(tmp_path / "b", record(BACKGROUND)))
    assert "In the kernel," not in markdown_text(folder(tmp_path / "a", record(QUEUE), verdict="higher"))


def test_without_a_difference_nothing_is_named(tmp_path: Path) -> None:
    made = folder(tmp_path / "s", record(FUTEX, RETRANSMITS))
    assert "No time and no count of the kernel differs beyond noise." in section(made)
    assert leading(record(FUTEX).contrasts[0]) is None
    assert "kernel" not in printed(made)
    counted = section(folder(tmp_path / "c", record(FUTEX, CALLS)))
    assert "but a count does: sched_yield(), 1.00 → 9.00 per transaction (+7.5 … +8.5)" in counted
    alarmed = folder(
        tmp_path / "t", record(QUEUE, alarm=CopiesDiffer(control="glibc", step="s", kind="event", of="run_queue"))
    )
    assert "No difference is claimed: two copies of glibc differ in run_queue at s." in section(alarmed)


def test_what_the_kernel_cannot_measure_is_named_with_the_reason(tmp_path: Path) -> None:
    why = "the kernel has no tracepoint block:block_rq_issue"
    text = section(folder(tmp_path / "s", record(FUTEX, absent={"block_io": why})))
    assert f"Not measured: block reads, block writes, cache flushes of disks ({why})." in text


def test_a_study_without_the_kernel_view_has_no_section(tmp_path: Path) -> None:
    assert 'id="kernel"' not in render_page(build(tmp_path / "s"))
