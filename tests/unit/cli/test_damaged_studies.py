"""Every file of a finished study cut at half, empty, or garbage: each reading command names it, and none breaks."""

from __future__ import annotations

import asyncio
import itertools
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import typer
from starlette.types import Message

from mydyno.cli import make_app
from mydyno.errors import MydynoError
from mydyno.evaluation.facts import summarise
from mydyno.execution.study_record import Request
from mydyno.hosts.paths import HostPaths
from mydyno.model.definition.experiment import StepSpec
from mydyno.model.definition.specs import ProfileSpec
from mydyno.model.stored.counted import KernelEvent
from mydyno.reports import write
from mydyno.study import run_study
from mydyno.web.access import Access
from mydyno.web.index import StudyIndex
from mydyno.web.server import make_app as make_web_app
from tests.support import first_in_gate
from tests.support.fake_environment import Watched, opener
from tests.support.fake_script import Script, experiment

DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "half": lambda content: content[: len(content) // 2],
    "empty": lambda _: b"",
    "garbage": lambda _: b"\x00\xff{]\x80\n7\n[]\n{}\nnull\n",
}
COMMANDS = (
    *(("report", "fake-1", "--format", name) for name in ("md", "html", "json", "csv")),
    ("compare", "fake-1", "fake-2"),
    ("list",),
    ("history", "fake"),
    ("gate", "fake-1", "--threshold", "qps=no worse than -2%"),
)
PAGES = (
    "/", "/studies/fake-1", "/studies/fake-1/report.html", "/studies/fake-1/live", "/studies/fake-1/live/history",
    "/studies/fake-1/runs/01/{run}", "/studies/fake-1/runs/01/{run}/telemetry",
    "/compare/page?study=fake-1&study=fake-2", "/history/page?study=fake-1",
)  # fmt: skip
UNREAD = {
    "blocks": {"summary.json", "live.jsonl", "commands.jsonl", "driver.json", "driver.log",
               "server.log", "my.cnf"},
    "interleaved": {"samples.parquet", "waits.jsonl", "kernel.jsonl", "profiled.jsonl"},
}  # fmt: skip
"""Files that the short report is not made of (a summary is made again), or whose end it does not need."""
SAID_BY = {
    "study.json": {"report", "compare", "list", "history", "gate"},
    "plan.json": {"report", "compare", "list", "history", "gate"},
    "journal.jsonl": {"report", "compare", "list", "history", "gate"},
    "summary.json": {"compare", "list", "history"},
    "run.json": {"report", "compare", "list", "history", "gate"},
    "samples.parquet": {"list"},
}


@dataclass(frozen=True)
class Finished:
    """Two studies that ran on the fake host; the first one is damaged in turn."""

    studies: Path
    sound: Path
    """A copy of the first one."""
    design: str

    @property
    def study(self) -> Path:
        return self.studies / "fake-1"

    @property
    def files(self) -> list[Path]:
        """One of each kind, below the study."""
        found: dict[str, Path] = {}
        for path in sorted(self.sound.rglob("*")):
            inside = path.relative_to(self.sound)
            if path.is_file() and path.suffix != ".html":
                found.setdefault(inside.parts[3] if len(inside.parts) > 3 else inside.name, inside)
        return list(found.values())

    def damage(self, file: Path, how: str) -> None:
        shutil.rmtree(self.study)
        shutil.copytree(self.sound, self.study)
        (self.study / file).write_bytes(DAMAGES[how]((self.sound / file).read_bytes()))


@pytest.fixture(params=first_in_gate(["interleaved", "blocks"]))
def finished(request: pytest.FixtureRequest, script: Script, paths: HostPaths, tmp_path: Path) -> Finished:
    design = {"kind": request.param, "blocks": 1}
    profile = ProfileSpec()
    if request.param == "interleaved":
        design |= {"cycles": 2, "quiet_wait": 0, "slice": 2, "washout": 0.5}
        profile = ProfileSpec(cpu=True, waits=True, kernel=True)
        script.stacks = lambda _arm, _copy: {("mysqld`work",): 100}
        script.waits = lambda _arm, _copy: {("stage", "stage/sql/Updating"): (10, 500.0)}
        script.kernel = lambda _arm, _copy: (KernelEvent(measure="system_calls", count=9),)
    step = StepSpec(workload="oltp_read_only", connections=(4,), warmup=2, measure=20)
    asked = experiment(design=design, profile=profile, steps=(step,))
    studies = tmp_path / "studies"
    for name in ("fake-1", "fake-2"):
        given = Request(asked, "name = 'fake'", tmp_path / name, ("mydyno", "run", "fake"))
        folder, _ = asyncio.run(run_study(given, paths, Watched(script), opener(script)))
        shutil.copytree(folder.path, studies / name)
    sound = tmp_path / "sound"
    shutil.copytree(studies / "fake-1", sound)
    return Finished(studies, sound, request.param)


def told(capsys: pytest.CaptureFixture[str], studies: Path, command: tuple[str, ...]) -> str:
    """What a command prints, with the words of its error. Raises what is no error of mydyno."""
    error = ""
    try:
        APP([*command, "--studies", str(studies)], prog_name="mydyno", standalone_mode=False)
    except typer.Exit:
        pass
    except MydynoError as found:
        error = str(found)
    captured = capsys.readouterr()
    return captured.out + captured.err + error


APP = make_app(sorted({command[0] for command in COMMANDS}))


def page(studies: Path, url: str) -> tuple[int, str]:
    """(status, text) of a page. Raises what the page raised."""
    access = Access()
    path, _, query = url.partition("?")
    cookie = f"{access.cookie}={access.session}".encode()
    scope = {
        "type": "http", "method": "GET", "scheme": "http", "path": path, "raw_path": path.encode(), "root_path": "",
        "query_string": query.encode(), "headers": [(b"host", b"localhost"), (b"cookie", cookie)],
        "http_version": "1.1", "server": ("localhost", 80), "client": ("127.0.0.1", 1),
    }  # fmt: skip
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message)

    asyncio.run(make_web_app(StudyIndex(studies), access)(scope, receive, send))
    body = b"".join(message.get("body", b"") for message in sent)
    return int(sent[0]["status"]), body.decode()


@pytest.mark.slow
def test_a_report_names_the_damaged_file(finished: Finished, capsys: pytest.CaptureFixture[str]) -> None:
    silent = set()
    for file, how in itertools.product(finished.files, DAMAGES):
        finished.damage(file, how)
        if file.name not in told(capsys, finished.studies, COMMANDS[0]):
            silent.add(file.name)
    assert silent <= UNREAD["blocks"] | UNREAD[finished.design]


@pytest.mark.slow
@pytest.mark.parametrize("finished", ["blocks"], indirect=True)
def test_every_command_names_the_damaged_file(finished: Finished, capsys: pytest.CaptureFixture[str]) -> None:
    for file in finished.files:
        for command in COMMANDS if file.name in SAID_BY or file.suffix == ".parquet" else COMMANDS[1:2]:
            finished.damage(file, "half")
            words = told(capsys, finished.studies, command)
            assert file.name in words or command[0] not in SAID_BY.get(file.name, ()), (file, command)


@pytest.mark.slow
def test_no_page_breaks(finished: Finished) -> None:
    run = next(file for file in finished.files if file.name == "run.json").parent.name
    for file in finished.files:
        finished.damage(file, "half")
        for url in PAGES:
            status, text = page(finished.studies, url.format(run=run))
            assert status in (200, 404, 422), (file, url)
            if url == "/studies/fake-1" and file.name in SAID_BY and file.suffix != ".parquet":
                assert file.name in text


def test_of_a_run_whose_samples_are_cut_the_report_says_so(script: Script, paths: HostPaths, tmp_path: Path) -> None:
    given = Request(experiment(design={"blocks": 2}), "", tmp_path, ())
    folder, _ = asyncio.run(run_study(given, paths, Watched(script), opener(script)))
    run = next(run for run in folder.runs() if run.copy_number == 2)
    path = folder.samples_path(run.folder)
    path.write_bytes(path.read_bytes()[:500])
    invalid = [one for one in summarise(folder).runs if not one.valid]
    assert [one.folder for one in invalid] == [run.folder]
    assert invalid[0].reasons[0].text.startswith(f"{path} cannot be read: ")
    for format_ in ("md", "json"):
        assert "samples.parquet cannot be read" in str(write(folder, format_))
