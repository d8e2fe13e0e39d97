"""A study on a real server, started from the page Design of `mydyno serve --allow-run`, and seen to its end."""

from __future__ import annotations

import http.client
import json
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from mydyno.hosts.paths import HostPaths
from tests.support.patience import wait_until
from tests.support.real import ONE_ARM, SHORT_STEP, Program, experiment_text, interrupt, study_processes, wait_for

LIMIT_MS = 120_000
"""Generous: the host may be busy, and the server be fetched first."""


def status_of(port: int, path: str, headers: dict[str, str], body: str = "") -> int:
    """The status of a POST."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("POST", path, body, headers)
        return connection.getresponse().status
    finally:
        connection.close()


@pytest.mark.exhaustive
def test_a_study_is_started_from_the_browser_and_seen_to_its_end(
    browser: Browser, real_paths: HostPaths, tmp_path: Path
) -> None:
    program = Program(tmp_path, real_paths)
    program.studies.mkdir()
    before = program.leftovers()
    text = experiment_text("browser", ONE_ARM, SHORT_STEP.replace('driver = "sysbench"\n', ""))
    with program.started("serve", "--studies", str(program.studies), "--port", "0", "--allow-run") as process:
        url = wait_for(lambda: next((line for line in program.output().splitlines() if "#token=" in line), ""), process)
        port = int(url.partition("/#")[0].rpartition(":")[2])
        sent = json.dumps({"toml": text})
        assert status_of(port, "/design/run", {"X-Mydyno": "1"}, sent) == 401, "without the cookie"
        assert status_of(port, "/design/run", {"X-Mydyno": "1", "Origin": "http://evil.example"}, sent) == 403
        assert status_of(port, "/session", {"X-Mydyno": "1"}, "wrong") == 401
        assert list(program.studies.iterdir()) == []
        page = browser.new_context().new_page()
        page.set_default_timeout(LIMIT_MS)
        page.goto(url)
        expect(page.locator("h1")).to_have_text("Studies", timeout=LIMIT_MS)
        start_study(page, f"http://127.0.0.1:{port}/design", text)
        expect(page).to_have_url(f"http://127.0.0.1:{port}/studies/{study_of(program)}/live", timeout=LIMIT_MS)
        expect(page.locator("#state")).to_have_text("complete", timeout=LIMIT_MS)
        # The study's process still writes the report, and ends.
        assert wait_until((program.study() / "report.html").is_file, LIMIT_MS / 1000)
        page.get_by_role("link", name="The study, with its report").click()
        expect(page.locator("a.report")).to_be_visible(timeout=LIMIT_MS)
        page.context.close()
        assert wait_until(lambda: not study_processes(), LIMIT_MS / 1000)
        assert interrupt(process) == 0
    summary = json.loads((program.study() / "summary.json").read_text())
    assert (summary["state"], [run["valid"] for run in summary["runs"]]) == ("complete", [True, True])
    assert program.leftovers() == before


def start_study(page: Page, design: str, text: str) -> None:
    """Fill in the page and press the button."""
    page.goto(design)
    expect(page.locator("#toml")).not_to_have_value("", timeout=LIMIT_MS)  # the form has loaded
    page.locator("#toml").fill(text)
    expect(page.locator("#verdict")).to_have_text("valid", timeout=LIMIT_MS)
    page.get_by_role("button", name="Run the study on this host").click()


def study_of(program: Program) -> str:
    """The name of the only study, once it is there."""
    assert wait_until(lambda: any(program.studies.iterdir()), LIMIT_MS / 1000)
    return program.study().name
