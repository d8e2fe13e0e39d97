"""Saved studies and experiments with random mistakes: commands end with an answer or an error of mydyno's own."""

from __future__ import annotations

import contextlib
import copy
import io
import json
import shutil
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import typer
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mydyno.cli import make_app
from mydyno.errors import MydynoError
from mydyno.experiment_file.parsing import parse_experiment
from mydyno.experiments import built_in, source_of, vocabulary
from tests.support import ALL
from tests.support.fake_interleaved_folder import Interleaved
from tests.support.fake_interleaved_folder import build as build_interleaved
from tests.support.fake_study_folder import Shape, build

COMMANDS = (["report", "bad", "--format", "md"], ["report", "bad", "--format", "csv"], ["compare", "bad", "good"],
            ["list"], ["history", "allocators"], ["history", "good", "bad"], ["gate", "bad"],
            ["gate", "bad", "--threshold", "qps=no worse than -2%"])  # fmt: skip
APP = make_app(["report", "compare", "list", "history", "gate"])
VALUES = st.one_of(
    st.sampled_from([None, True, "", "x", "\ud800", [], {}, [None], {"x": 1}, 0, -1, 1e308, -1e308, 10**30, 0.5]),
    st.sampled_from([float("nan"), float("inf"), "NaN", "oltp_read_only-16", "glibc", "1/2", "🙂" * 9]),
)
ENDS = contextlib.suppress(MydynoError, typer.Exit)
FEW = settings(max_examples=300 if ALL else 12, suppress_health_check=list(HealthCheck))


def paths_in(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every value of a document."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [at, *(path for key, one in inner for path in paths_in(one, (*at, key)))]


def changed(data: st.DataObject, document: Any) -> Any:
    """The document with one value replaced, removed or doubled."""
    path = data.draw(st.sampled_from(paths_in(document)))
    if not path:
        return data.draw(VALUES)
    place = document
    for key in path[:-1]:
        place = place[key]
    how = data.draw(st.sampled_from(["replace", "remove", "rename", "negate"]))
    before = place[path[-1]]
    if how == "remove":
        del place[path[-1]]
    elif how == "rename" and isinstance(place, dict):
        place[f"{path[-1]}x"] = place.pop(path[-1])
    elif how == "negate" and isinstance(before, int | float):
        place[path[-1]] = -before
    else:
        place[path[-1]] = data.draw(VALUES)
    return document


def damage(data: st.DataObject, study: Path) -> None:
    files = sorted(path for path in study.rglob("*") if path.suffix in (".json", ".jsonl"))
    path = data.draw(st.sampled_from(files))
    text = path.read_text(encoding="utf-8")
    if data.draw(st.sampled_from([False] * 5 + [True])):
        path.write_text(text[: data.draw(st.integers(0, len(text)))], encoding="utf-8")
        return
    if path.suffix == ".json":
        path.write_text(json.dumps(changed(data, json.loads(text))))
        return
    lines = text.splitlines()
    if lines:
        place = data.draw(st.integers(0, len(lines) - 1))
        lines[place] = json.dumps(changed(data, json.loads(lines[place])))
    path.write_text("".join(f"{line}\n" for line in lines))


def small(folder: Path) -> None:
    build(folder, Shape(arms=("glibc", "jemalloc"), workloads=("oltp_read_only",), connections=(16,), blocks=2,
                        measure_s=3.0))  # fmt: skip


def interleaved(folder: Path) -> None:
    build_interleaved(folder, Interleaved(blocks=6))


@pytest.mark.slow
@pytest.mark.parametrize("make", [small, interleaved])
def test_commands_say_what_is_wrong(make: Callable[[Path], Any], tmp_path: Path) -> None:
    sound, studies = tmp_path / "sound", tmp_path / "studies"
    make(sound)
    shutil.copytree(sound, studies / "good")

    @FEW
    @given(st.data())
    def check(data: st.DataObject) -> None:
        shutil.rmtree(studies / "bad", ignore_errors=True)
        shutil.copytree(sound, studies / "bad")
        for _ in range(data.draw(st.integers(1, 2))):
            damage(data, studies / "bad")
        for command in COMMANDS if ALL else [data.draw(st.sampled_from(COMMANDS))]:
            with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()), ENDS:
                APP([*command, "--studies", str(studies)], prog_name="mydyno", standalone_mode=False)

    check()


@FEW
@given(st.data())
def test_an_experiment_with_mistakes_is_refused_with_words(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(built_in())))
    source = source_of(name)
    tree = copy.deepcopy(source.tree)
    for _ in range(data.draw(st.integers(1, 3))):
        tree = changed(data, tree)
        if not isinstance(tree, dict):
            return  # no TOML document
    with contextlib.suppress(MydynoError):
        parse_experiment(
            replace(source, tree=tree), vocabulary(), data.draw(st.sampled_from([None, "quick", "standard"]))
        )
