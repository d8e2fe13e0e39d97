"""Commands whose output nobody reads, or whose encoding lacks what they print."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mydyno.cli.arguments import study_path
from mydyno.cli.streams import DEFAULT_STUDIES, STARTED_AS, as_typed, use_studies
from mydyno.visible import VisibleText, styled
from tests.support import ROOT, first_in_gate

COMMANDS = {"plan allocators": 0, "no-such-command": 2, "list": 0, "schema": 0, "--help": 0}
CLOSED = 'exec "$0" "$@" >&- 2>&-'


@pytest.fixture(autouse=True)
def studies() -> Iterator[None]:
    yield
    use_studies(DEFAULT_STUDIES)


def program(tmp_path: Path, **variables: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT / "src"), "MYDYNO_CACHE": str(tmp_path), **variables}


def arguments(command: list[str]) -> list[str]:
    return [sys.executable, "-m", "mydyno.cli", *command]


@pytest.mark.slow
@pytest.mark.parametrize(("words", "code"), first_in_gate(COMMANDS.items(), 2), ids=COMMANDS)
def test_the_exit_code_does_not_depend_on_who_reads(tmp_path: Path, words: str, code: int) -> None:
    command, environment = words.split(), program(tmp_path)
    read = subprocess.run(arguments(command), cwd=tmp_path, env=environment, capture_output=True, check=False)
    reader, writer = os.pipe()
    os.close(reader)
    try:
        unread = subprocess.run(
            arguments(command), cwd=tmp_path, env=environment, stdout=writer, stderr=writer, check=False
        )
    finally:
        os.close(writer)
    closed = subprocess.run(["bash", "-c", CLOSED, *arguments(command)], cwd=tmp_path, env=environment, check=False)
    assert (read.returncode, unread.returncode, closed.returncode) == (code, code, code), read.stderr


@pytest.mark.slow
@pytest.mark.parametrize("words", first_in_gate(["schema", "list", "plan allocators", "doctor", "--help", "--version"]))
def test_output_for_which_the_disk_has_no_room_is_an_error(tmp_path: Path, words: str) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            arguments(words.split()),
            cwd=tmp_path,
            env=program(tmp_path),
            stdout=full,
            stderr=-1,
            text=True,
            check=False,
        )
    assert (done.returncode, done.stderr) == (3, "mydyno: error: standard output: No space left on device\n")


@pytest.mark.slow
def test_an_error_that_cannot_be_printed_keeps_its_exit_code(tmp_path: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            arguments(["report", "none"]), cwd=tmp_path, env=program(tmp_path), stdout=full, stderr=full, check=False
        )
    assert done.returncode == 2


@pytest.mark.slow
def test_a_character_that_the_encoding_lacks_is_escaped(tmp_path: Path) -> None:
    ascii_only = program(tmp_path, PYTHONIOENCODING="ascii")
    done = subprocess.run(
        arguments(["plan", "allocators"]), cwd=tmp_path, env=ascii_only, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "--time \\u2026" in done.stdout, "the ellipsis of a command"


@pytest.mark.slow
def test_control_characters_of_others_texts_are_escaped(tmp_path: Path) -> None:
    file = tmp_path / "\x1b]0;title\x07.toml"
    file.write_text(
        'name = "own"\nquestion = "Is it \\u001b[31mred\\u009b?"\n[server]\nname = "mariadb-10.11"\n'
        '[arms]\ncontrol = "a"\na = {}\nb = {}\n[[steps]]\nworkload = "oltp_read_only"\n'
    )
    for command in (["plan", file.name], ["run", file.name, "--set", "nonsense=1"]):
        done = subprocess.run(
            arguments(command), cwd=tmp_path, env=program(tmp_path), capture_output=True, text=True, check=False
        )
        printed = done.stdout + done.stderr
        assert "\\x1b" in printed, command
        assert not {letter for letter in printed if not letter.isprintable()} - set("\n\t"), command


def test_a_stream_has_styles_of_its_own_program_alone() -> None:
    raw = io.BytesIO()
    stream = VisibleText(io.BufferedWriter(raw), "utf-8", line_buffering=False)  # type: ignore[arg-type]
    stream.write("one\x1b[1m\n")
    styled(stream).write("\x1b[1mtwo\n")
    stream.write("\x9b three\t\n")
    stream.flush()
    assert raw.getvalue().decode() == "one\\x1b[1m\n\x1b[1mtwo\n\\x9b three\t\n"


def test_commands_are_printed_as_they_can_be_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "allocators-1").mkdir()
    (tmp_path / "allocators-1" / "study.json").write_text("{}")
    text = "to continue: mydyno resume allocators-1 --time 30m; `mydyno plan allocators`; mydyno resume STUDY --time …"
    monkeypatch.delenv(STARTED_AS, raising=False)
    assert as_typed(text) == text
    monkeypatch.setenv(STARTED_AS, "./mydyno")
    assert as_typed(text) == text.replace("mydyno ", "./mydyno ")
    assert as_typed(as_typed(text)) == as_typed(text)
    assert as_typed("mydyno: error: mydyno 0.1.0; /usr/bin/mydyno run x") == (
        "mydyno: error: mydyno 0.1.0; /usr/bin/mydyno run x"
    )
    use_studies(tmp_path)
    assert as_typed(text) == (
        f"to continue: ./mydyno resume {tmp_path}/allocators-1 --time 30m; `./mydyno plan allocators`; "
        "./mydyno resume STUDY --time …"
    )
    path = f"mydyno resume {tmp_path}/allocators-1."
    assert as_typed(path) == f"./{path}", "a path stays as it is"


def test_a_study_that_was_named_by_its_path_is_printed_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "study.json").write_text("{}")
    assert study_path(str(tmp_path / "one"), DEFAULT_STUDIES) == tmp_path / "one"
    monkeypatch.setenv(STARTED_AS, "mydyno")
    assert as_typed("`mydyno report one`").endswith(f"mydyno report {tmp_path}/one`")


def test_people_read_commands_as_they_type_them_and_programs_get_documents_as_they_are(tmp_path: Path) -> None:
    code = (
        "import sys; from mydyno.cli.streams import use_best_effort_streams; use_best_effort_streams()\n"
        "for stream in (sys.stdout, sys.stderr): print('\"mydyno run x\"', file=stream)"
    )
    environment = {**program(tmp_path), STARTED_AS: './"m"'}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ('"mydyno run x"\n', '"./"m" run x"\n')
