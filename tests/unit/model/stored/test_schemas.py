"""Every file that a study writes is valid by its schema: simulated studies of both designs, whole and killed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mydyno.execution.study_record import Request
from mydyno.hosts.paths import HostPaths
from mydyno.model.definition.experiment import ThresholdSpec
from mydyno.model.stored.records import SliceRecord
from mydyno.model.stored.schemas import STORED, schema_id, stored_schema
from mydyno.study import run_study
from tests.support.fake_environment import Watched, opener
from tests.support.fake_script import Script, experiment
from tests.support.stored_schemas import check, validator

GATE = (ThresholdSpec(metric="qps", limit=-0.02),)
DESIGNS = {
    "blocks": {"kind": "blocks", "blocks": 2},
    "interleaved": {"kind": "interleaved", "blocks": 6, "cycles": 2, "quiet_wait": 0, "slice": 2, "washout": 0.5},
}


@pytest.mark.parametrize("design", DESIGNS)
async def test_every_file_of_a_study_is_valid(script: Script, paths: HostPaths, tmp_path: Path, design: str) -> None:
    asked = experiment(design=DESIGNS[design], thresholds=GATE)
    request = Request(asked, "name = 'fake'", tmp_path / "studies", ("mydyno", "run", "fake"))
    folder, _ = await run_study(request, paths, Watched(script), opener(script))
    expected = {"blocks": {"driver"}, "interleaved": {"slices"}}[design]
    assert check(folder.path) == {"summary", "run", "study", "plan", "journal", "live", "commands"} | expected


@pytest.mark.slow
async def test_a_study_with_failures_and_lost_treatments_is_valid(
    script: Script, paths: HostPaths, tmp_path: Path
) -> None:
    script.slice_error = lambda arm, _copy, _step, order: (
        "lost connection" if arm == "jemalloc" and order.stream % 3 == 0 else None
    )
    request = Request(experiment(design=DESIGNS["interleaved"]), "", tmp_path / "studies")
    folder, _ = await run_study(request, paths, Watched(script), opener(script))
    check(folder.path)


def test_the_journal_schema_has_every_event_that_the_docs_describe() -> None:
    text = (Path(__file__).parents[4] / "docs/reference/study-folder.md").read_text()
    rows = text.partition("\n## journal.jsonl\n")[2].partition("\n## ")[0].splitlines()
    described = {word for row in rows if row.startswith("| `") for word in row.split("|")[1].split("`")[1::2]}
    mapping = stored_schema("journal")["discriminator"]["mapping"]
    assert set(mapping) == described


def test_a_line_that_lacks_a_field_or_has_a_wrong_one_is_not_valid() -> None:
    journal, slices = validator("journal"), validator("slices")
    whole = {"event": "precision", "unix_ns": 1, "block": 2, "of": 6, "half_widths": {"qps": 0.02}}
    assert journal.is_valid(whole)
    assert journal.is_valid({**whole, "later": "addition"})
    assert not journal.is_valid({name: value for name, value in whole.items() if name != "of"})
    assert not journal.is_valid({**whole, "half_widths": ["qps"]})
    assert not journal.is_valid({**whole, "event": "precison"})
    assert not slices.is_valid({"block": 1})


def test_slices_of_a_search_and_of_a_replay_at_captured_times_are_valid() -> None:
    plain = {
        "block": 1,
        "step": "monday-7",
        "cycle": 1,
        "position": 1,
        "arm": "old",
        "started_unix_ns": 1,
        "length_s": 2,
    }
    captured = {"begin_s": 7.5, "end_s": 10.0, "length_s": 600.0, "own_lag_p99_us": 80.0}
    search = {"rate": 900.0, "met": True, "value_us": 9000.0}
    for more in ({"captured": captured}, {"search": search}):
        one = SliceRecord.model_validate({**plain, **more})
        assert more.keys() <= json.loads(one.model_dump_json(by_alias=True)).keys()
        validator("slices").validate(json.loads(one.model_dump_json(by_alias=True)))
        assert not validator("slices").is_valid({**plain, **dict.fromkeys(more, "text")})


def test_the_format_is_part_of_the_schema_and_of_its_id() -> None:
    schema = stored_schema("summary")
    assert schema["properties"]["format"]["const"] == 6
    assert schema["title"] == "mydyno summary, format 6"
    assert schema["$id"] == schema_id("summary", 6)
    assert schema["$id"].startswith("urn:uuid:")
    assert len({schema_id(name, number) for name in STORED for number in (1, 2, 3, 4)}) == 4 * len(STORED)


def test_fields_are_described_by_their_docstrings() -> None:
    fields = stored_schema("slices")["properties"]
    assert fields["started_unix_ns"]["description"] == "When the measured part began."
    run = stored_schema("summary")["$defs"]["RunSummary"]["properties"]
    assert run["invalid_steps"]["description"] == "Steps of a valid run that are not used, with the reasons."
