"""A folder of made-up studies and one server for all tests of a file."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from mydyno.reports import write
from mydyno.store.logs import LIVE_FILE
from mydyno.store.study_folder import StudyFolder
from tests.support.browser import ARGUMENTS, NONE, browser_path
from tests.support.fake_interleaved_folder import Interleaved
from tests.support.fake_interleaved_folder import build as build_interleaved
from tests.support.fake_study_folder import Shape, build
from tests.support.web_server import WebServer

HOSTILE = "<script>document.title='owned'</script><img src=x onerror=alert(1)>\"'&"
LIMIT_MS = 60_000
"""Generous: the host may be busy."""
COMPLETE = "allocators-20261120T100000Z"
RUNNING = "allocators-20261120T120000Z"
PLANTED = {"glibc": (0.0, 0.0), "jemalloc": (0.05, -0.04)}


@pytest.fixture(scope="module")
def studies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Complete, unfinished, hostile, half-written, and of a newer mydyno."""
    folder = tmp_path_factory.mktemp("served") / "studies"
    folder.mkdir()
    small = Interleaved(planted=PLANTED, workloads=("oltp_read_write",), blocks=2, planned=6, cycles=3)
    running = build_interleaved(folder / RUNNING, small)
    (running.path / "summary.json").unlink()
    shape = Shape(arms=("glibc", "jemalloc"), workloads=("oltp_read_only",), connections=(8,), blocks=2,
                  warmup_s=2, measure_s=8)  # fmt: skip
    write(build(folder / COMPLETE, shape), "html")
    hostile = build(folder / HOSTILE.replace("/", "∕"), shape)
    _make_hostile(hostile)
    half = folder / "half-20261120T090000Z"
    half.mkdir()
    text = (running.path / "study.json").read_text()
    (half / "study.json").write_text(text[: len(text) // 2])
    (folder / "empty-20261120T080000Z").mkdir()
    (folder / "empty-20261120T080000Z" / "journal.jsonl").write_text('{"event": "study_cre')
    newer = folder / "newer-20261120T070000Z"
    shutil.copytree(running.path, newer)
    (newer / "study.json").write_text(text.replace('"format": 6', '"format": 99', 1))
    noplan = folder / "noplan-20261120T060000Z"
    shutil.copytree(running.path, noplan)
    (noplan / "plan.json").write_text("[")
    (folder / "not-a-study").mkdir()
    return folder


@pytest.fixture(scope="module")
def finished(studies: Path) -> Path:
    """A folder aside with two finished studies of one experiment."""
    aside = studies.parent / "finished"
    for name in ("flush-20261120T040000Z", "flush-20261120T050000Z"):
        build_interleaved(aside / name, Interleaved(planted=PLANTED, workloads=("oltp_read_write",), cycles=3))
    return aside


@pytest.fixture
def comparable(studies: Path, finished: Path) -> Iterator[list[str]]:
    """The names of two finished studies, which are in the folder during this test."""
    names = sorted(path.name for path in finished.iterdir())
    for name in names:
        (finished / name).rename(studies / name)
    yield names
    for name in names:
        (studies / name).rename(finished / name)


@pytest.fixture
def running(studies: Path) -> Iterator[Path]:
    """The study RUNNING, whose live.jsonl this test writes."""
    yield studies / RUNNING
    (studies / RUNNING / LIVE_FILE).unlink(missing_ok=True)


def _make_hostile(study: StudyFolder) -> None:
    summary = study.summary()
    assert summary is not None
    effects = tuple(one.model_copy(update={"arm": HOSTILE, "verdict": "higher"}) for one in summary.effects)
    study.write_summary(summary.model_copy(update={"question": HOSTILE, "effects": effects}))
    record = study.study()
    named = record.model_copy(update={"host": {**record.host, "hostname": HOSTILE}})
    (study.path / "study.json").write_text(named.model_dump_json(by_alias=True))
    run = next(iter(study.path.glob("blocks/01/1-*")))
    (run / "server.log").write_text(HOSTILE)
    (run / "my.cnf").write_text(HOSTILE)
    (study.path / "report.html").write_text(
        "<html lang=\"en\"><script>if (top !== self) { try { top.location = '/assets/web.css' } catch (error) { } "
        "parent.document.title = 'owned' }</script>"
    )


@pytest.fixture(scope="module")
def server(studies: Path) -> Iterator[WebServer]:
    with WebServer(studies, "--metrics") as found:
        found.log_in()
        yield found


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    path = browser_path()
    if path is None:
        pytest.skip(NONE)
    # pytest-asyncio keeps a loop in the main thread, beside which Playwright's own cannot be made.
    assert not asyncio._get_running_loop()
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=path, args=list(ARGUMENTS))
        yield found
        found.close()


@pytest.fixture
def page(browser: Browser, server: WebServer) -> Iterator[Page]:
    """A browser that has logged in by the printed URL."""
    expect.set_options(timeout=LIMIT_MS)
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    context.set_default_timeout(LIMIT_MS)
    found = context.new_page()
    found.goto(server.url)
    expect(found.locator("h1")).to_have_text("Studies")
    assert "token" not in found.url, "the token does not stay in the address"
    yield found
    context.close()
