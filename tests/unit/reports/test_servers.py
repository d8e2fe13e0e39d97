"""Arms that run different servers: the report names the settings that differ."""

from __future__ import annotations

from pathlib import Path

from mydyno import reports
from mydyno.reports.result import StudyResult
from mydyno.reports.sections import servers
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
    markdown = str(reports.write(folder, "md"))
    assert "| innodb\\_change\\_buffering | all | none |" in markdown
    assert "| sql\\_mode | (empty) | &lt;STRICT&gt; |" in markdown


def test_arms_of_one_server_have_no_such_section(tmp_path: Path) -> None:
    folder = build(tmp_path / "one", SHAPE)
    assert servers.build(StudyResult.load(folder)) is None
    assert "settings differ" not in str(reports.write(folder, "md"))
