"""`compare` and `history` as commands: formats, files, exit codes, what a wrong argument is answered with."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from mydyno.model.stored.comparison import ArmComparison, Comparison, History
from tests.support.fake_interleaved_folder import Interleaved, build
from tests.unit.cli.test_command_line import mydyno

TWO = {"glibc": (0.0, 0.0), "jemalloc": (0.042, -0.045)}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with studies/: two whole studies, one of an older format, one half-written."""
    folder = tmp_path_factory.mktemp("across")
    for seed in (1, 2):
        build(folder / f"studies/allocators-{seed}", Interleaved(TWO, workloads=("oltp_read_only",), seed=seed))
    old = folder / "studies/allocators-old"
    shutil.copytree(folder / "studies/allocators-1", old)
    (old / "study.json").write_text((old / "study.json").read_text().replace('"format": 6', '"format": 0'))
    half = folder / "studies/allocators-half"
    shutil.copytree(folder / "studies/allocators-1", half)
    os.truncate(half / "summary.json", 2000)
    return folder


def test_studies_are_compared_in_every_format(made: Path) -> None:
    text = mydyno(made, "compare", "allocators-1", "allocators-2")
    assert (text.returncode, text.stderr) == (0, "")
    assert text.stdout.startswith("allocators: 2 studies compared\nWhich memory allocator ")
    found = Comparison.model_validate_json(
        mydyno(made, "compare", "allocators-1", "allocators-2", "--format", "json").stdout
    )
    assert [one.study for one in found.studies] == ["allocators-1", "allocators-2"]
    markdown = mydyno(made, "compare", "allocators-1", "studies/allocators-2", "--format", "md").stdout
    assert markdown.startswith("## allocators: 2 studies compared\n")
    done = mydyno(made, "compare", "allocators-1", "allocators-2", "-o", "page.html")
    assert done.stdout == "page.html\n"
    assert (made / "page.html").read_text().startswith("<!DOCTYPE html>")


def test_arms_of_one_study_are_compared(made: Path) -> None:
    done = mydyno(made, "compare", "allocators-1", "--arms", "jemalloc, glibc", "--format", "json")
    assert ArmComparison.model_validate_json(done.stdout).arms == ("jemalloc", "glibc")
    assert (
        "glibc against jemalloc in allocators-1"
        in mydyno(made, "compare", "allocators-1", "--arms", "jemalloc,glibc").stdout
    )


def test_a_history_names_the_studies_that_it_leaves_out(made: Path) -> None:
    found = History.model_validate_json(mydyno(made, "history", "allocators", "--format", "json").stdout)
    assert found.studies == ("allocators-1", "allocators-2")
    reasons = {one.study: one.reason for one in found.left_out}
    assert reasons["allocators-old"] == "it has format 0; this mydyno reads format 6"
    assert reasons["allocators-half"].startswith("summary.json cannot be read")
    of_study = json.loads(mydyno(made, "history", "allocators-2", "--format", "json").stdout)
    assert of_study["studies"] == ["allocators-1", "allocators-2"]
    named = json.loads(mydyno(made, "history", "allocators-2", "allocators-1", "--format", "json").stdout)
    assert (named["studies"], named["left_out"]) == (["allocators-1", "allocators-2"], [])


@pytest.mark.parametrize("link", [False, True])
def test_a_copy_of_a_study_counts_once_under_any_name(made: Path, tmp_path: Path, link: bool) -> None:
    studies = tmp_path / "studies"
    shutil.copytree(made / "studies/allocators-1", studies / "allocators-1")
    shutil.copytree(made / "studies/allocators-2", studies / "allocators-2")
    if link:
        (studies / "allocators-9").symlink_to("allocators-1")
    else:
        shutil.copytree(studies / "allocators-1", studies / "allocators-9")
    refused = mydyno(tmp_path, "compare", "allocators-1", "allocators-2", "allocators-9")
    words = (
        "allocators-1 is named twice"
        if link
        else "studies/allocators-9 is a copy of studies/allocators-1: they are one"
    )
    assert (refused.returncode, refused.stdout) == (2, "")
    assert words in refused.stderr
    made_of_two = mydyno(tmp_path, "compare", "allocators-1", "allocators-2", "--format", "json").stdout
    effects = Comparison.model_validate_json(made_of_two).effects
    assert {of.sessions for one in effects if one.primary for of in one.differences} == {2}
    for what in (("allocators",), ("allocators-9", "allocators-2", "allocators-1")):
        found = History.model_validate_json(mydyno(tmp_path, "history", *what, "--format", "json").stdout)
        assert found.studies == ("allocators-1", "allocators-2")
        assert [(one.study, one.reason) for one in found.left_out] == [
            ("allocators-9", "it is the same study as allocators-1")
        ]
    text = mydyno(tmp_path, "history", "allocators").stdout
    assert "allocators-9: it is the same study as allocators-1" in " ".join(text.split())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("compare", "allocators-1"), "compare needs two studies or more"),
        (("compare", "allocators-1", "allocators-1"), "allocators-1 is named twice"),
        (("compare", "allocators-1", "none"), "studies/none is not a study"),
        (("compare", "allocators-1", "allocators-old"), "has format 0; this mydyno reads format 6"),
        (("compare", "allocators-1", "allocators-half"), "summary.json cannot be read"),
        (("compare", "allocators-1", "allocators-2", "--arms", "glibc,jemalloc"), "--arms compares arms of one study"),
        (("compare", "allocators-1", "--arms", "glibc,jemaloc"), "did you mean 'jemalloc'?"),
        (("compare", "allocators-1", "allocators-2", "--format", "htm"), "did you mean 'html'?"),
        (("compare", "allocators-1", "allocators-2", "-o", "none/x.html"), "there is no folder none"),
        (("history", "alocators"), "did you mean 'allocators'?"),
        (("history", "allocators", "--arm", "jemaloc"), "did you mean 'jemalloc'?"),
        (("history", "allocators", "--host", "vm-8"), "--host vm-8"),
        (("history", "studies/none"), "is not a study"),
        (("history", "allocators-1", "none"), "is not a study"),
        (("history", "allocators", "--studies", "nowhere"), "nowhere, does not exist"),
        (("history", "allocators", "--format", "pdf"), "unknown; allowed: text, html, json, md"),
    ],
)
def test_a_wrong_argument_ends_with_2_and_a_message(made: Path, arguments: tuple[str, ...], words: str) -> None:
    done = mydyno(made, *arguments)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert words in done.stderr
    assert "Traceback" not in done.stderr
