"""commands.jsonl and --verbose: every program that is started, with its end, and never a password."""

from __future__ import annotations

import asyncio
import re
import signal
from pathlib import Path
from typing import Any

import pytest

import mydyno
from mydyno.cli.streams import set_verbosity
from mydyno.errors import HostError
from mydyno.hosts.commands import protect, recorded_commands, run_command
from mydyno.hosts.local import LocalHost
from mydyno.store.logs import COMMANDS_FILE, read_commands
from tests.support.patience import HANG_S

PASSWORD = "c0ffee" * 5


@pytest.fixture
def host() -> LocalHost:
    return LocalHost("test-command-log", None)


@pytest.fixture(autouse=True)
def known_password() -> None:
    protect(PASSWORD)


def started(folder: Path) -> dict[int, dict[str, Any]]:
    return {line["id"]: line for line in read_commands(folder) if line["event"] == "started"}


def ended(folder: Path) -> dict[int, dict[str, Any]]:
    return {line["id"]: line for line in read_commands(folder) if line["event"] == "ended"}


async def test_what_a_host_runs_is_recorded_with_its_end(host: LocalHost, tmp_path: Path) -> None:
    with recorded_commands() as log:
        log.keep_in(tmp_path)
        await host.run(["sh", "-c", "exit 3"], cwd=Path("/"))
        process = await host.start(["sleep", "60"], entering=["env"])
        process.send(signal.SIGKILL)
        await process.wait(HANG_S)
    assert read_commands(tmp_path)[0] | {"unix_ns": 0} == {"event": "opened", "format": 1, "unix_ns": 0}
    first, second = started(tmp_path).values()
    assert (first["argv"], first["cwd"]) == (["sh", "-c", "exit 3"], "/")
    assert (second["argv"], second["entering"]) == (["sleep", "60"], ["env"])
    ends = ended(tmp_path)
    assert [ends[line["id"]]["exit_code"] for line in (first, second)] == [3, -signal.SIGKILL]
    for line in (first, second):
        lasted_s = (ends[line["id"]]["unix_ns"] - line["unix_ns"]) / 1e9
        assert ends[line["id"]]["duration_s"] == pytest.approx(lasted_s, abs=0.1)


async def test_short_programs_of_other_threads_and_tasks_are_recorded_too(host: LocalHost, tmp_path: Path) -> None:
    with recorded_commands() as log:
        log.keep_in(tmp_path)
        await asyncio.gather(asyncio.to_thread(run_command, ["true"]), host.run(["false"]))
    run_command(["echo", "after the study"])
    codes = {line["argv"][0]: ended(tmp_path)[number]["exit_code"] for number, line in started(tmp_path).items()}
    assert codes == {"true": 0, "false": 1}


async def test_what_was_started_before_the_folder_was_made_comes_first(host: LocalHost, tmp_path: Path) -> None:
    with recorded_commands() as log:
        await host.run(["true"])
        assert not (tmp_path / COMMANDS_FILE).exists()
        log.keep_in(tmp_path)
        await host.run(["false"])
    assert [line["argv"] for line in started(tmp_path).values()] == [["true"], ["false"]]
    with recorded_commands() as resumed:
        resumed.keep_in(tmp_path)
    assert [line["event"] for line in read_commands(tmp_path)].count("opened") == 2


async def test_a_program_that_cannot_be_started_ends_with_127(host: LocalHost, tmp_path: Path) -> None:
    with recorded_commands() as log:
        log.keep_in(tmp_path)
        with pytest.raises(HostError):
            await host.run(["true"], cwd=tmp_path / "absent")
        with pytest.raises(FileNotFoundError):
            run_command([str(tmp_path / "absent")])
        with pytest.raises(TimeoutError):
            run_command(["sleep", "60"], timeout_s=0.01)
    assert [line["exit_code"] for line in ended(tmp_path).values()] == [127, 127, 124]


async def test_an_argument_with_a_password_is_in_no_log(
    host: LocalHost, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    set_verbosity(True)
    try:
        with recorded_commands() as log:
            log.keep_in(tmp_path)
            await host.run(["true", f"--password={PASSWORD}", "--user=dyno"], environment={"PASSWORD": PASSWORD})
            run_command(["true", PASSWORD])
    finally:
        set_verbosity(False)
    assert [line["argv"] for line in started(tmp_path).values()] == [["true", "***", "--user=dyno"], ["true", "***"]]
    assert PASSWORD not in (tmp_path / COMMANDS_FILE).read_text()
    printed = capsys.readouterr()
    assert PASSWORD not in printed.out + printed.err
    assert "mydyno.commands: true '***' --user=dyno" in printed.err
    assert "true ended with exit code 0 after" in printed.err


async def test_without_verbose_nothing_is_printed(host: LocalHost, capsys: pytest.CaptureFixture[str]) -> None:
    set_verbosity(False)
    await host.run(["true"])
    assert capsys.readouterr() == ("", "")


async def test_a_log_that_cannot_be_written_ends_nothing(host: LocalHost, tmp_path: Path) -> None:
    with recorded_commands() as log:
        log.keep_in(tmp_path / "absent")
        assert (await host.run(["true"])).exit_code == 0
    assert read_commands(tmp_path / "absent") == []


def test_a_line_cut_short_by_a_crash_is_dropped(tmp_path: Path) -> None:
    (tmp_path / COMMANDS_FILE).write_text('{"event": "opened"}\n{"event": "start')
    assert read_commands(tmp_path) == [{"event": "opened"}]


STARTERS = re.compile(
    r"^(?:from|import) (?:subprocess|multiprocessing)\b|create_subprocess|subprocess_exec|subprocess\.(?:run|Popen)"
    r"|os\.(?:system|popen|fork|exec|spawn|posix_spawn)",
    re.MULTILINE,
)


def test_no_other_module_starts_programs() -> None:
    """What would start one past the log."""
    root = Path(mydyno.__file__).parent
    found = {path for path in root.rglob("*.py") if STARTERS.search(path.read_text())}
    # A program of its own that a build starts in place of the compiler, and that becomes the compiler.
    found.remove(root / "servers/compiled/link_order.py")
    found.remove(root / "cli/load.py")  # becomes dynoload, outside of any study
    known = {
        "fleet/batch/system.py", "fleet/links.py", "hosts/commands.py", "hosts/local.py", "servers/running/external.py",
    }  # fmt: skip
    assert {str(path.relative_to(root)) for path in found} == known
    assert all("report_start" in path.read_text() for path in found)
