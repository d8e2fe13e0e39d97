"""Arms that run different servers: the report names the settings that differ."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from mydyno import reports
from mydyno.analysis import servers
from mydyno.analysis.servers import most_explaining, settings_compared
from mydyno.document.result import StudyResult
from mydyno.evaluation.answer import answer_of
from tests.support.fake_study_folder import Shape, build
from tests.unit.reports.test_html import assert_clean, make

SHAPE = Shape(
    arms=("glibc", "jemalloc"), workloads=("oltp_read_only",), connections=(16,), blocks=1, warmup_s=2, measure_s=3
)
DIFFERENCES: dict[str, dict[str, str | None]] = {
    "innodb_change_buffering": {"glibc": "all", "jemalloc": "none"},
    "query_cache_size": {"glibc": "1048576", "jemalloc": None},
    "sql_mode": {"glibc": "", "jemalloc": "<STRICT>"},
}


def test_settings_that_differ_stand_in_a_section_of_their_own(tmp_path: Path) -> None:
    folder = build(tmp_path / "servers", SHAPE)
    summary = folder.summary()
    assert summary is not None
    folder.write_summary(summary.model_copy(update={"server_differences": DIFFERENCES}))
    _, page = make(folder)
    assert_clean(page)
    assert "servers" in page.ids
    assert "3 further settings that shape performance have another value" in page.visible
    assert "version 10.11.14-MariaDB 10.11.14-MariaDB" in page.visible
    assert "query_cache_size 1048576 has none" in page.visible
    assert "sql_mode (empty) <STRICT>" in page.visible
    lead = (
        "3 settings that shape performance differ: innodb_change_buffering (all → none), "
        "query_cache_size (1048576 → has none) and sql_mode ((empty) → <STRICT>)."
    )
    assert page.visible.index(answer_of(StudyResult.load(folder)).answer[0]) < page.visible.index(lead)
    section = servers.part(StudyResult.load(folder))
    assert section is not None and '<div class="scroll facts"' in section.html, "a long value is wrapped"
    markdown = str(reports.write(folder, "md"))
    assert "3 settings that shape performance differ" in markdown
    assert "| innodb\\_change\\_buffering | all | none |" in markdown
    assert "| sql\\_mode | (empty) | &lt;STRICT&gt; |" in markdown


def test_arms_of_one_server_have_no_such_section(tmp_path: Path) -> None:
    folder = build(tmp_path / "one", SHAPE)
    assert servers.part(StudyResult.load(folder)) is None
    assert "settings differ" not in str(reports.write(folder, "md"))


def test_settings_that_all_servers_report_alike_are_counted(tmp_path: Path) -> None:
    found = StudyResult.load(build(tmp_path / "alike", SHAPE))
    experiment = found.study.experiment
    names = {"innodb_io_capacity": 100, "query_cache_size": 0, "loose_log_bin": False}
    server = experiment.server.model_copy(update={"variables": names})
    reported: list[dict[str, str]] = [
        {"innodb_io_capacity": "100", "log_bin": "OFF", "query_cache_size": "0"},
        {"innodb_io_capacity": "100", "log_bin": "off"},
    ]
    by_arm = dict(zip([arm.name for arm in experiment.arms], reported, strict=True))
    records = {
        folder: record.model_copy(
            update={"servers": [one.model_copy(update={"variables": by_arm[record.arm]}) for one in record.servers]}
        )
        for folder, record in found.records.items()
    }
    summary = found.summary.model_copy(
        update={"server_differences": {name: {} for name in ("binlog", *(f"innodb_{n}" for n in range(8)))}}
    )
    study = found.study.model_copy(update={"experiment": experiment.model_copy(update={"server": server})})
    assert settings_compared(replace(found, study=study, records=records, summary=summary)) == (
        "The servers report the same value of 2 of the experiment's 3 settings (1 does not exist on every server). "
        "9 settings that shape performance differ: innodb_0, innodb_1, innodb_2 and 6 more."
    )


def test_what_explains_most_comes_first() -> None:
    names = ["innodb_adaptive_flushing", "innodb_doublewrite", "log_bin", "sql_mode", "sync_binlog"]
    assert most_explaining(names) == [
        "log_bin", "sync_binlog", "innodb_doublewrite", "innodb_adaptive_flushing", "sql_mode",
    ]  # fmt: skip
