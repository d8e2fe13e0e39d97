"""Which files of an experiment go to the hosts of a study, and what they are called there."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import pytest

from mydyno.errors import HostError, UserError
from mydyno.fleet import study_files
from mydyno.fleet.study_files import StudyFiles, find_files, on_host
from mydyno.model.definition.experiment import ArmSpec, DataSpec, Experiment, StepSpec
from mydyno.model.stored.records import StudyRecord
from tests.support.fake_script import experiment

CAPTURE = '{"format": "dynoload-capture"}\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A user's files; the folder's path has a space and a quote, as folders may."""
    folder = tmp_path / "ann's load"
    for name, text in {
        "shop.lua": 'require("common") require "lib.more"\nrequire("socket")\nio.open(here .. "words.txt")',
        "common.lua": "",
        "lib/more.lua": 'dofile(here .. "lib/last.lua")',
        "lib/last.lua": "",
        "words.txt": "one",
        "other.lua": "",
        "shop.sql": "SELECT {csv('towns.csv', 'name')}; SELECT {csv(\"../far.csv\", 'name')}",
        "tables.toml": "values = \"csv('towns.csv', 'name')\"",
        "towns.csv": "name",
        "dump.sql": "INSERT INTO t VALUES ('csv(''none.csv'', 1)');",
        "log.jsonl": CAPTURE,
        "libown.so": "ELF",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (tmp_path / "far.csv").write_text("name")
    return folder


def of(
    *steps: tuple[str, Path], data: DataSpec | None = None, arms: dict[str, dict[str, Any]] | None = None
) -> Experiment:
    made = tuple(StepSpec.model_validate({kind: str(path)}) for kind, path in steps)
    plain = experiment()
    return plain.model_copy(
        update={
            "steps": made or plain.steps,
            "data": data or plain.data,
            "arms": tuple(ArmSpec(name=name, treatments=value) for name, value in arms.items()) if arms else plain.arms,
        }
    )


def names(found: StudyFiles, folder: Path) -> set[str]:
    """Without the folder's own path."""
    return {os.path.relpath(f"/{one.name}", folder) for one in found.files}


def test_an_experiment_without_files_copies_nothing() -> None:
    assert find_files(experiment()) == StudyFiles()


def test_a_script_comes_with_its_modules_and_what_it_names_beside_it(folder: Path) -> None:
    found = find_files(of(("script", folder / "shop.lua")))
    assert names(found, folder) == {"shop.lua", "common.lua", "lib/more.lua", "lib/last.lua", "words.txt"}
    (script,) = [one for one in found.files if one.path.name == "shop.lua"]
    assert script.sha256 == hashlib.sha256((folder / "shop.lua").read_bytes()).hexdigest()
    assert f"/there/{script.name}" == f"/there{folder}/shop.lua"
    assert found.lua_path("/there") == {"LUA_PATH": f"/there{folder}/?.lua;;"}
    assert found.lua_path(None) == {"LUA_PATH": f"{folder}/?.lua;;"}


def test_modules_of_other_folders_lie_beside_the_script(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host may have no package of sysbench, and another LUA_PATH."""
    (folder / "mine.lua").write_text('require("oltp_common") require("deep.own")')
    for name in ("sysbench/oltp_common.lua", "lua/deep/own.lua"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text("")
    monkeypatch.setenv("LUA_PATH", f"{tmp_path}/lua/?.lua;;")
    found = find_files(of(("script", folder / "mine.lua")), sysbench=[tmp_path / "sysbench"])
    assert names(found, folder) == {"mine.lua", "oltp_common.lua", "deep/own.lua"}
    assert {str(one.path.relative_to(tmp_path)) for one in found.files if one.path.name != "mine.lua"} == {
        "sysbench/oltp_common.lua", "lua/deep/own.lua",
    }  # fmt: skip


def test_sql_comes_with_its_csv_files_and_dumps_and_captures_come_alone(folder: Path) -> None:
    found = find_files(of(("sql", folder / "shop.sql"), data=DataSpec(sql=str(folder / "tables.toml"), workload="sql")))
    assert names(found, folder) == {"shop.sql", "towns.csv", "../far.csv", "tables.toml"}
    found = find_files(
        of(("replay", folder / "log.jsonl"), data=DataSpec(sql=str(folder / "dump.sql"), workload="sql"))
    )
    assert names(found, folder) == {"log.jsonl", "dump.sql"}
    assert found.of_scripts.files == (), "an agent gets them with its job"


def test_a_study_on_a_host_has_the_paths_of_the_copies(folder: Path, tmp_path: Path) -> None:
    library = tmp_path / "libown.so"
    library.write_text("ELF")
    asked = of(
        ("script", folder / "shop.lua"),
        ("sql", folder / "shop.sql"),
        data=DataSpec(script=str(folder / "shop.lua"), workload="script"),
        arms={
            "glibc": {"allocator": {"name": "jemalloc", "library": str(library)}},
            "other": {"environment": {"LD_PRELOAD": f"libm.so.6:{library}", "A": "1"}, "variables": {"b": 2}},
        },
    )
    found = find_files(asked)
    versions = {"mariadb": "10.11", str(library): "5.3"}
    study = StudyRecord(study="s", created_unix_ns=0, mydyno_version="1", experiment=asked, versions=versions)
    there = on_host(study, found.at("/host/files"))
    assert [step.script or step.sql for step in there.experiment.steps] == [
        f"/host/files{folder}/shop.lua", f"/host/files{folder}/shop.sql",
    ]  # fmt: skip
    assert there.experiment.data.script == f"/host/files{folder}/shop.lua"
    first, second = there.experiment.arms
    assert first.treatments == {"allocator": {"name": "jemalloc", "library": f"/host/files{library}"}}
    assert second.treatments == {
        "environment": {"LD_PRELOAD": f"libm.so.6:/host/files{library}", "A": "1"}, "variables": {"b": 2},
    }  # fmt: skip
    assert there.versions == {"mariadb": "10.11", f"/host/files{library}": "5.3"}
    assert on_host(study, {}).experiment == asked


@pytest.mark.parametrize(
    ("broken", "words"),
    [("shop.lua", r"steps\[0\]\.script: .*shop\.lua: no such file"), ("towns.csv", r"data\.sql: csv: .*towns\.csv")],
)
def test_a_missing_file_is_an_error_that_names_its_key(folder: Path, broken: str, words: str) -> None:
    asked = of(("script", folder / "shop.lua"), data=DataSpec(sql=str(folder / "tables.toml"), workload="sql"))
    (folder / broken).unlink()
    with pytest.raises(UserError, match=words):
        find_files(asked)


def test_a_file_that_changed_since_the_study_began_is_an_error(folder: Path) -> None:
    asked = of(("script", folder / "shop.lua"))
    checksums = find_files(asked).checksums
    study = StudyRecord(study="s", created_unix_ns=0, mydyno_version="1", experiment=asked, files=checksums)
    find_files(asked).check_unchanged(study)
    (folder / "common.lua").write_text("-- changed")
    with pytest.raises(UserError, match=r"common\.lua was changed after the study began"):
        find_files(asked).check_unchanged(study)


def test_a_capture_that_is_too_large_for_agents_is_refused_only_where_there_are_clients(
    folder: Path,
) -> None:
    line_bytes = study_files.LINE_RESERVE_BYTES + 1000
    (folder / "log.jsonl").write_text(CAPTURE + "x" * 900)
    asked = of(("replay", folder / "log.jsonl"))
    find_files(asked, agents=True, line_bytes=line_bytes)
    (folder / "log.jsonl").write_text(CAPTURE + '"' * 300)  # three backslashes each
    find_files(asked)
    with pytest.raises(UserError, match=r"steps\[0\]\.replay: .* at most"):
        find_files(asked, agents=True, line_bytes=line_bytes)


def test_copies_in_a_shared_folder_are_checked(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = find_files(of(("script", folder / "shop.lua")))
    found.copy_to(tmp_path / "shared")
    assert (tmp_path / f"shared{folder}/lib/last.lua").is_file()
    (folder / "common.lua").write_text("-- changed")
    with pytest.raises(HostError, match=r"common\.lua is damaged"):
        found.copy_to(tmp_path / "again")
