"""Saved studies that may not be read, or whose files do not belong together: each command says so and goes on."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mydyno.across.history import find_studies
from mydyno.cli import _ended, make_app
from mydyno.errors import UserError
from mydyno.evaluation.facts import summarise
from mydyno.reports import write
from mydyno.store.study_folder import StudyFolder, studies_below
from mydyno.web.index import read_row
from tests.support.fake_study_folder import Shape, build

SMALL = Shape(arms=("glibc", "jemalloc"), workloads=("oltp_read_only",), connections=(16,), blocks=2, measure_s=5.0)
APP = make_app(["report", "compare", "list", "history", "gate", "resume"])
OF_ONE = (["report", "bad", "--format", "md"], ["compare", "bad", "good"], ["resume", "bad"],
          ["gate", "bad", "--threshold", "qps=no worse than -2%"])  # fmt: skip


@pytest.fixture
def studies(tmp_path: Path) -> Path:
    for name in ("good", "bad"):
        build(tmp_path / "studies" / name, SMALL)
    return tmp_path / "studies"


@pytest.fixture
def close() -> Iterator[Callable[[Path], None]]:
    """Takes a folder's permissions away; they hold for this thread, also if it is root's."""
    closed: list[Path] = []
    before = capabilities()

    def close(folder: Path) -> None:
        closed.append(folder)
        folder.chmod(0)
        set_capabilities([before[0] & ~DAC, *before[1:]])

    yield close
    set_capabilities(before)
    for folder in closed:
        folder.chmod(0o755)


DAC = 0b110
"""CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH (capabilities(7))."""
HEADER = (ctypes.c_uint32 * 2)(0x20080522, 0)
LIBC = ctypes.CDLL(None)


def capabilities() -> list[int]:
    """The thread's effective, permitted and inheritable ones below 32, then the others."""
    found = (ctypes.c_uint32 * 6)()
    assert LIBC.capget(HEADER, found) == 0
    return list(found)


def set_capabilities(wanted: list[int]) -> None:
    assert LIBC.capset(HEADER, (ctypes.c_uint32 * 6)(*wanted)) == 0


def said(capsys: pytest.CaptureFixture[str], studies: Path, command: list[str]) -> tuple[Any, str]:
    """(exit code, what the command printed)."""
    code = _ended(lambda: APP([*command, "--studies", str(studies)], prog_name="mydyno"))
    printed = capsys.readouterr()
    return code, printed.out + printed.err


@pytest.mark.parametrize("closed", ["bad", "bad/blocks"])
def test_a_study_that_may_not_be_read_is_named(
    studies: Path, close: Callable[[Path], None], closed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    close(studies / closed)
    for command in OF_ONE:
        code, words = said(capsys, studies, command)
        assert code in (2, 3)
        assert "bad" in words and "Permission denied" in words, (command, words)
        assert "is the study folder complete?" not in words


def test_others_are_read_beside_it(
    studies: Path, close: Callable[[Path], None], capsys: pytest.CaptureFixture[str]
) -> None:
    close(studies / "bad")
    code, words = said(capsys, studies, ["list"])
    assert code == 0
    assert "bad" in words and "cannot be read: Permission denied" in words and "complete" in words
    code, words = said(capsys, studies, ["history", "allocators"])
    assert (code, "good" in words) == (0, True), words
    assert [one.study for one in find_studies(studies).unreadable] == ["bad"]


def test_a_folder_of_studies_that_may_not_be_read_is_not_an_empty_one(
    studies: Path, close: Callable[[Path], None]
) -> None:
    close(studies)
    with pytest.raises(UserError, match="Permission denied"):
        studies_below(studies)


def renamed(path: Path, change: Callable[[Any], None]) -> None:
    document = json.loads(path.read_bytes())
    change(document)
    path.write_text(json.dumps(document))


def other_step(document: Any) -> None:
    document["steps"][0]["id"] = "oltp_point_select-3"


def other_arm(document: Any) -> None:
    document["arm"] = "other"


def other_arm_of_plan(document: Any) -> None:
    for block in document["blocks"]:
        for run in block["runs"]:
            run["arm"] = run["arm"].replace("jemalloc", "other")


def other_workload(document: Any) -> None:
    document["experiment"]["steps"][0]["workload"] = "oltp_read_write"


@pytest.mark.parametrize(
    ("file", "change"),
    [
        ("blocks/01/{run}/run.json", other_step),
        ("blocks/01/{run}/run.json", other_arm),
        ("summary.json", other_step),
        ("plan.json", other_arm_of_plan),
        ("study.json", other_workload),
    ],
)
def test_names_that_do_not_agree_are_an_error_that_names_the_file(
    studies: Path, file: str, change: Callable[[Any], None], capsys: pytest.CaptureFixture[str]
) -> None:
    run = next(path.name for path in sorted((studies / "bad/blocks/01").iterdir()) if "jemalloc" in path.name)
    renamed(studies / "bad" / file.format(run=run), change)
    code, words = said(capsys, studies, ["compare", "bad", "good"])
    assert code == 2
    assert ".json" in words and ("study.json lacks" in words or "is of block" in words), words
    code, words = said(capsys, studies, ["history", "good", "bad"])
    assert code == 0, words
    if file != "summary.json":  # `report` makes it again
        code, words = said(capsys, studies, ["report", "bad"])
        assert code == 2 and "Traceback" not in words, words


@pytest.mark.parametrize("name", ["s?", "s[1]", "a*"])
def test_a_study_whose_name_is_a_glob_has_the_values_of_its_own(studies: Path, name: str) -> None:
    shutil.copytree(studies / "good", studies / name)
    for other in ("s1", "ab"):
        build(studies / other, Shape(**{**vars(SMALL), "seed": 7}))
    wanted, found = (summarise(StudyFolder(studies / one)) for one in ("good", name))
    assert found.runs == wanted.runs
    assert str(write(StudyFolder(studies / name), "md"))
    assert Path(str(write(StudyFolder(studies / name), "html"))).is_file()


def test_a_name_too_long_and_a_loop_of_links_are_errors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, words = said(capsys, tmp_path, ["report", "a" * 300])
    assert (code, "File name too long" in words) == (3, True)
    (tmp_path / "loop").symlink_to("loop")
    code = _ended((tmp_path / "loop" / "x").resolve)
    assert code in (0, 3), "an error before Python 3.13"


def test_a_full_disk_is_the_hosts_where_the_error_names_no_file_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert _ended(lambda: Path("/dev/full").write_text("x")) == 3
    assert capsys.readouterr().err == "mydyno: error: No space left on device\n"


@pytest.mark.parametrize("place", ["summary.json", "plan.json", "blocks/01/more"])
@pytest.mark.parametrize("device", [False, True])
def test_what_cannot_be_read_to_its_end_is_named(
    studies: Path, capsys: pytest.CaptureFixture[str], place: str, device: bool
) -> None:
    path = studies / "bad" / place
    path.unlink(missing_ok=True)
    if device:
        path.symlink_to("/dev/zero")
    else:
        os.mkfifo(path)
    for command in OF_ONE:
        assert f"{path} is a special file" in str(said(capsys, studies, command))
    assert read_row(studies / "bad").state == "damaged"
