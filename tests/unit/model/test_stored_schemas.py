"""Every file that a study writes is valid by its schema: simulated studies of both designs, whole and killed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import jsonschema
import pytest

from mydyno.hosts.paths import HostPaths
from mydyno.model.experiment import ThresholdSpec
from mydyno.model.stored_schemas import STORED, schema_id, stored_schema
from mydyno.store.study_folder import StudyFolder
from mydyno.study import Request, run_study
from tests.support.fake_environment import Script, Watched, experiment, opener

NOT_JSON = (".parquet", ".cnf", ".log", ".html", ".hlog", ".err")
GATE = (ThresholdSpec(metric="qps", limit=-0.02),)
DESIGNS = {
    "blocks": {"kind": "blocks", "blocks": 2},
    "interleaved": {"kind": "interleaved", "blocks": 6, "cycles": 2, "quiet_wait": 0, "slice": 2, "washout": 0.5},
}


def validator(name: str) -> jsonschema.Draft202012Validator:
    schema = stored_schema(name)
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def documents(folder: Path) -> Iterator[tuple[str, Path, object]]:
    """(name of the schema, file, document) of every JSON document of a study; every file is known or not JSON."""
    left = {path for path in folder.rglob("*") if path.is_file() and path.suffix not in NOT_JSON}
    for name, stored in STORED.items():
        for path in (path for pattern in stored.files for path in sorted(folder.glob(pattern))):
            left.discard(path)
            texts = path.read_text().splitlines() if stored.lines else [path.read_text()]
            yield from ((name, path, json.loads(text)) for text in texts)
    assert left == set(), "files without a schema"


def check(folder: Path) -> set[str]:
    """Every document is valid; the names of the schemas that were used."""
    made = {name: validator(name) for name in STORED}
    used = set()
    for name, path, document in documents(folder):
        errors = [f"{path.relative_to(folder)}: {error.json_path}: {error.message[:200]}"
                  for error in made[name].iter_errors(document)]  # fmt: skip
        assert errors == []
        used.add(name)
    return used


@pytest.mark.parametrize("design", DESIGNS)
async def test_every_file_of_a_study_is_valid(script: Script, paths: HostPaths, tmp_path: Path, design: str) -> None:
    asked = experiment(design=DESIGNS[design], gate=GATE)
    request = Request(asked, "name = 'fake'", tmp_path / "studies", ("mydyno", "run", "fake"))
    folder, _ = await run_study(request, paths, Watched(script), opener(script))
    expected = {"blocks": {"driver"}, "interleaved": {"slices"}}[design]
    assert check(folder.path) == {"summary", "run", "study", "plan", "journal", "live", "commands"} | expected


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
    text = (Path(__file__).parents[3] / "docs/reference/study-folder.md").read_text()
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


def test_the_format_is_part_of_the_schema_and_of_its_id() -> None:
    schema = stored_schema("summary")
    assert schema["properties"]["format"]["const"] == 2
    assert schema["title"] == "mydyno summary, format 2"
    assert schema["$id"] == schema_id("summary", 2)
    assert schema["$id"].startswith("urn:uuid:")
    assert len({schema_id(name, number) for name in STORED for number in (1, 2)}) == 2 * len(STORED)


def test_a_study_of_format_1_is_not_valid_by_the_schema_of_format_2_until_it_is_summarised_anew(
    tmp_path: Path,
) -> None:
    old = Path(__file__).parents[2] / "support/data/format-1"
    shutil.copytree(old, tmp_path / "old")
    summary = validator("summary")
    assert not summary.is_valid(json.loads((tmp_path / "old/summary.json").read_text()))
    from mydyno.results.summarise import summarise  # scipy takes most of a second to load

    summarise(StudyFolder.open(tmp_path / "old"))
    assert summary.is_valid(json.loads((tmp_path / "old/summary.json").read_text()))
    assert validator("journal").is_valid(json.loads((tmp_path / "old/journal.jsonl").read_text().splitlines()[1]))
