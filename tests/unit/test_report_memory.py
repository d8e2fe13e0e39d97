from __future__ import annotations

import re
from pathlib import Path
from statistics import median

import pyarrow.parquet as pq

from mydyno.reports.numbers import display_unit
from mydyno.reports.result import StudyResult
from mydyno.reports.sections import memory
from tests.support.synthetic_study import Shape, build


def test_where_the_memory_sits_is_told_with_the_arms_spread_at_the_end(tmp_path: Path) -> None:
    folder = build(
        tmp_path / "memory", Shape(blocks=2, connections=(16,), measure_s=5, invalid={(1, 2): "not steady: drift"})
    )
    result = StudyResult.load(folder)
    section = memory.build(result)
    assert section is not None
    ends: dict[str, list[float]] = {}
    for run in result.runs:
        if run.valid:
            table = pq.read_table(folder.samples_path(run.folder)).to_pylist()
            resident = [one for one in table if one["metric"] == "server_rss_bytes" and one["scope"] == "instance:1"]
            ends.setdefault(run.arm, []).append(max(resident, key=lambda one: one["unix_ns"])["value"])
    middles = {arm: median(values) for arm, values in ends.items()}
    least, most = min(middles, key=middles.__getitem__), max(middles, key=middles.__getitem__)
    unit = display_unit("server_rss_bytes", middles[most])
    assert f"an end-to-end spread of {unit.text(middles[most] - middles[least])}" in section.html
    assert f"({least})" in section.html
    text = re.sub("<[^>]*>", "\n", section.html)
    assert [line.strip() for line in text.splitlines() if line.strip() in middles] == list(result.styles)


def test_arms_that_leave_memory_alone_have_no_section_on_it(tmp_path: Path) -> None:
    links = {"1gbit": {"network": "1gbit"}, "10gbit": {"network": "10gbit"}}
    shape = Shape(arms=("10gbit", "1gbit"), blocks=1, connections=(16,), links=links)
    assert memory.build(StudyResult.load(build(tmp_path / "links", shape))) is None
