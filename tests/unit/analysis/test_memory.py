from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from statistics import median

from mydyno.analysis import memory
from mydyno.document.parts import Cell
from mydyno.document.result import StudyResult
from mydyno.model.stored.reasons import Reason
from mydyno.model.stored.records import Evidence
from mydyno.model.stored.summary import RunSummary
from mydyno.store.samples import Sample, read_metric, write_samples
from mydyno.wording.numbers import display_unit
from tests.support.fake_study_folder import Shape, build

MIB = 1 << 20


def test_where_the_memory_sits_is_told_with_the_arms_spread_at_the_end(tmp_path: Path) -> None:
    folder = build(
        tmp_path / "memory",
        Shape(blocks=2, connections=(16,), measure_s=5, invalid={(1, 2): Reason(check="steady", text="drift")}),
    )
    result = StudyResult.load(folder)
    section = memory.part(result)
    assert section is not None
    ends: dict[str, list[float]] = {}
    for run in result.runs:
        if run.valid:
            resident = read_metric(folder.samples_path(run.folder), "instance:1", "server_rss_bytes")
            ends.setdefault(run.arm, []).append(resident[-1][1])
    middles = {arm: median(values) for arm, values in ends.items()}
    least, most = min(middles, key=middles.__getitem__), max(middles, key=middles.__getitem__)
    unit = display_unit("server_rss_bytes", middles[most])
    assert '<div class="scroll facts"' in section.html
    assert section.says.startswith("At the end of a run the arms' resident memory lies between ")
    spread = f"an end-to-end spread of {unit.text(middles[most] - middles[least])}"
    assert spread in re.sub("<[^>]*>", "", section.html)
    assert f"({least})" in section.html
    text = re.sub("<[^>]*>", "\n", section.html)
    assert [line.strip() for line in text.splitlines() if line.strip() in middles] == list(result.styles)


def test_arms_that_leave_memory_alone_have_no_section_on_it(tmp_path: Path) -> None:
    links = {"1gbit": {"network": "1gbit"}, "10gbit": {"network": "10gbit"}}
    shape = Shape(arms=("10gbit", "1gbit"), blocks=1, connections=(16,), links=links)
    assert memory.part(StudyResult.load(build(tmp_path / "links", shape))) is None


def told(run: RunSummary) -> RunSummary:
    """The run with what allocators tell after the load: glibc of itself too, the others not."""
    facts: dict[str, object] = {
        "heap_bytes": 10 * MIB,
        "anonymous_bytes": 390 * MIB,
        "other_bytes": 25 * MIB,
        "pool_data_bytes": 300 * MIB,
    }
    own = {"allocator_held_bytes": 200 * MIB, "allocator_in_use_bytes": 150 * MIB}
    facts |= own if run.arm == "glibc" else {"untold": "it reports none", "reserved_huge_bytes": 256 * MIB}
    evidence = Evidence(treatment="allocator", holds=True, text="where its memory lay", facts=facts)
    return run.model_copy(update={"evidence": (*run.evidence, evidence)})


def test_memory_is_told_by_kind_and_an_allocator_that_says_nothing_is_named(tmp_path: Path) -> None:
    folder = build(tmp_path / "kinds", Shape(blocks=1, connections=(16,), measure_s=5, arms=("glibc", "jemalloc")))
    result = StudyResult.load(folder)
    runs = tuple(told(run) for run in result.summary.runs)
    section = memory.part(replace(result, summary=result.summary.model_copy(update={"runs": runs})))
    assert section is not None
    text = re.sub("<[^>]*>", " ", section.html).replace("\xa0", " ").replace("\u202f", " ")
    table = text.partition("Its parts after the last load level")[2]
    for words in ("100 MiB", "held by the allocator", "200 MiB", "of it free", "25 %"):
        assert words in table
    assert "mapped on reserved huge pages" in table
    assert table.count("100 MiB") == 2, "glibc's, and its range: jemalloc's pool is not in its private memory"
    assert "The allocator's own figures are missing for jemalloc: it reports none." in table.replace("&#39;", "'")


def test_zeros_count_and_a_column_needs_a_value_above_0(tmp_path: Path) -> None:
    folder = build(tmp_path / "zeros", Shape(blocks=3, connections=(16,), measure_s=5, arms=("glibc", "jemalloc")))
    result = StudyResult.load(folder)
    huge = {run.folder: place * MIB for run, place in zip(_of(result, "glibc"), (0, 0, 0, 0, 2, 6), strict=True)}
    runs = []
    for run in map(told, result.summary.runs):
        facts = {**run.evidence[-1].facts, "transparent_huge_bytes": huge.get(run.folder, 0), "reserved_huge_bytes": 0}
        evidence = run.evidence[-1].model_copy(update={"facts": facts})
        runs.append(run.model_copy(update={"evidence": (*run.evidence[:-1], evidence)}))
    table = memory._kinds_table(replace(result, summary=result.summary.model_copy(update={"runs": tuple(runs)})))
    assert table is not None and "mapped on reserved huge pages" not in table.head
    cells = [row[list(table.head).index("of it on transparent huge pages")] for row in table.rows]
    assert [(cell.text, cell.below) for cell in cells if isinstance(cell, Cell)] == [
        ("0\xa0MiB", "0 … 6.00\xa0MiB"), ("0\xa0B", "0 … 0\xa0B"),
    ]  # fmt: skip


def _of(result: StudyResult, arm: str) -> list[RunSummary]:
    return [run for run in result.summary.runs if run.arm == arm]


def test_samples_of_0_are_of_a_server_without_huge_pages_or_of_one_that_ended(tmp_path: Path) -> None:
    readings = {"server_rss_bytes": (5.0, 8.0, 0.0), "server_anonymous_huge_bytes": (2.0, 0.0, 0.0)}
    samples = [
        Sample(second, "instance:1", metric, value)
        for metric, of in readings.items()
        for second, value in enumerate(of)
    ]
    path = tmp_path / "samples.parquet"
    write_samples(path, samples, 0, [])
    run = RunSummary(block=1, position=1, arm="glibc", valid=True, folder="f")
    assert memory._sessions({path: run}) == {
        ("glibc", "server_rss_bytes"): [memory.Session(5.0, 8.0, 8.0)],
        ("glibc", "server_anonymous_huge_bytes"): [memory.Session(2.0, 0.0, 2.0)],
    }


def test_runs_that_tell_no_kinds_of_memory_have_no_table_of_them(tmp_path: Path) -> None:
    folder = build(tmp_path / "untold", Shape(blocks=1, connections=(16,), measure_s=5))
    section = memory.part(StudyResult.load(folder))
    assert section is not None
    assert "Its parts after the last load level" not in section.html
