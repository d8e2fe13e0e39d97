"""Arms side by side, studies side by side and histories, as they are chosen on the pages; and marks in the list."""

from __future__ import annotations

import json
import re
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from tests.support import first_in_gate
from tests.support.web_server import WebServer
from tests.web.conftest import COMPLETE, HOSTILE
from tests.web.test_browser import LIMIT_MS, at, serious_violations

STEP = "oltp_read_write-64"


@pytest.mark.parametrize("arms", ["arms=glibc,jemalloc", "arm=glibc&arm=jemalloc", "arms=glibc&arm=jemalloc&arm=glibc"])
def test_arms_of_one_study_are_compared(server: WebServer, arms: str) -> None:
    page = server.get(f"/compare?study={COMPLETE}&{arms}")
    assert page.status == 200, page.text
    assert "jemalloc against glibc" in page.text and "<iframe" not in page.text
    assert '<nav class="site"' in page.text and '<nav aria-label="Sections"' in page.text


@pytest.mark.parametrize(
    ("query", "status", "words"),
    [
        ("arms=glibc,jemaloc", 404, "has no arm jemaloc. It has glibc, jemalloc."),
        ("arms=jemalloc", 422, "two arms or more"),
        ("arm=jemalloc&arm=jemalloc", 422, "two arms or more"),
        (f"study={quote('flush-20261120T040000Z')}&arms=glibc,jemalloc", 422, "Arms are compared within one study"),
        ("arms=,,", 422, "two studies or more"),
        ("arm=<script>", 404, "has no arm &lt;script&gt;"),
    ],
)
def test_arms_that_cannot_be_compared_are_refused_in_words(
    server: WebServer, comparable: list[str], query: str, status: int, words: str
) -> None:
    answer = server.get(f"/compare?study={COMPLETE}&{query}")
    assert (answer.status, words in answer.text) == (status, True), answer.text


def test_a_history_is_of_the_series_that_is_chosen(server: WebServer, comparable: list[str]) -> None:
    query = f"study={comparable[0]}&arm=jemalloc&step={STEP}&metric=tps"
    page = server.get(f"/history?{query}")
    assert page.status == 200, page.text
    chosen = re.findall(r'<option value="([^"]*)" selected>', page.text)
    assert chosen == ["jemalloc", STEP, "tps"]
    assert "TPS, oltp_read_write" in page.text
    standard = server.get(f"/history?study={comparable[0]}&arm=&step=&metric=").text
    assert re.findall(r'<option value="([^"]*)" selected>', standard) == ["", "", "qps"]
    assert "QPS, oltp_read_write" in standard and "TPS, oltp_read_write" not in standard


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("arm=jemaloc", "The newest study has no arm jemaloc. It has glibc, jemalloc."),
        ("step=8", f"The newest study has no load level 8. It has {STEP}."),
        ("metric=qpss", "latency_p99_us. Did you mean qps?"),
        ("metric=nothing", "The newest study has no metric nothing."),
    ],
)
def test_a_series_that_is_not_there_is_missed_in_words(
    server: WebServer, comparable: list[str], query: str, words: str
) -> None:
    answer = server.get(f"/history?study={comparable[0]}&{query}")
    assert (answer.status, words in answer.text) == (404, True), answer.text


def test_arms_are_chosen_on_the_page_of_a_study(page: Page, server: WebServer) -> None:
    page.goto(at(server, f"/studies/{COMPLETE}"))
    page.get_by_label("Reference").select_option("jemalloc")
    page.get_by_role("checkbox", name="glibc").check()
    page.get_by_role("button", name="Compare arms").click()
    expect(page.locator("#answer")).to_contain_text("glibc against jemalloc")
    assert page.url == at(server, f"/compare?study={COMPLETE}&arm=jemalloc&arm=glibc")


def test_a_series_is_chosen_above_the_history(page: Page, server: WebServer, comparable: list[str]) -> None:
    page.goto(at(server, f"/history?study={comparable[0]}"))
    page.get_by_label("Metric").select_option("TPS")
    page.get_by_label("Arm").select_option("jemalloc")
    page.get_by_role("button", name="Show").click()
    expect(page.get_by_label("Metric")).to_have_value("tps")
    expect(page.locator("main")).to_contain_text("TPS, oltp_read_write")


def test_marks_remain_while_the_list_changes(page: Page, server: WebServer, comparable: list[str]) -> None:
    first, second = comparable
    page.goto(at(server, "/"))
    page.get_by_role("checkbox", name=f"compare {first}").check()
    page.get_by_role("searchbox").fill(second)
    expect(page.locator(".studies .study")).to_have_count(1)
    expect(page.locator("#marked")).to_contain_text(first)
    page.get_by_role("checkbox", name=f"compare {second}").check()
    page.goto(at(server, "/?q=nothing+matches"))  # another page of the list
    expect(page.locator("#marked input")).to_have_count(2)
    page.goto(at(server, "/"))
    for name in comparable:
        expect(page.get_by_role("checkbox", name=f"compare {name}")).to_be_checked()
    page.get_by_role("searchbox").fill(first)
    expect(page.locator("#marked")).to_contain_text(second)
    page.get_by_role("button", name="Compare the marked studies").click()
    expect(page.locator("#answer-title")).to_be_visible()
    assert {f"study={name}" for name in comparable} == set(page.url.partition("?")[2].split("&"))
    page.goto(at(server, f"/?q={first}"))
    page.locator("#marked").get_by_label(second).uncheck()
    page.get_by_role("button", name="Unmark all").click()
    page.goto(at(server, "/"))
    expect(page.locator(".studies input:checked, #marked input")).to_have_count(0)


def test_a_mark_that_is_set_before_the_script_is_there_remains(
    page: Page, server: WebServer, comparable: list[str]
) -> None:
    first, _ = comparable
    held: list[Route] = []
    page.route("**/studies.js*", lambda route: held.append(route))  # noqa: PLW0108 (Playwright wraps no built-in)
    page.goto(at(server, "/"), wait_until="commit")
    page.get_by_role("checkbox", name=f"compare {first}").check()
    expect(page.locator("#unmark")).to_be_hidden()
    held[0].continue_()
    expect(page.locator("#unmark")).to_be_visible()
    page.unroute("**/studies.js*")
    page.goto(at(server, "/?q=nothing+matches"))
    expect(page.locator("#marked")).to_contain_text(first)


def test_a_mark_is_a_text_whatever_it_is(page: Page, server: WebServer, studies: Path) -> None:
    (hostile,) = [path.name for path in studies.iterdir() if path.name.startswith("<")]
    page.get_by_label(f"compare {hostile}").check()
    page.goto(at(server, "/?q=nothing+matches"))
    expect(page.locator("#marked")).to_contain_text(hostile)
    expect(page.locator("#marked script, #marked img")).to_have_count(0)


def test_a_comparison_and_a_history_are_drawn_and_obey_the_policy_of_all_pages(
    page: Page, server: WebServer, comparable: list[str]
) -> None:
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(at(server, f"/compare?study={comparable[0]}&study={comparable[1]}"))
    page.get_by_role("navigation", name="Sections").get_by_role("link", name="Settings").click()
    expect(page.locator("#settings-title")).to_be_in_viewport()
    page.get_by_role("navigation", name="Pages").get_by_role("link", name="Studies").click()
    page.goto(at(server, f"/history?study={comparable[0]}"))
    chart = page.locator("svg.wide").first.bounding_box()
    assert chart is not None and 500 < chart["width"] <= 560
    assert complaints == []


def test_hostile_texts_in_a_comparison_and_a_history_run_nothing(
    page: Page, server: WebServer, studies: Path, comparable: list[str]
) -> None:
    summaries = {name: studies / name / "summary.json" for name in comparable}
    before = {name: path.read_text() for name, path in summaries.items()}
    for name, path in summaries.items():
        path.write_text(json.dumps({**json.loads(before[name]), "question": HOSTILE}))
    try:
        for place in (f"/compare?study={comparable[0]}&study={comparable[1]}", f"/history?study={comparable[0]}"):
            page.goto(at(server, place), wait_until="networkidle")
            assert HOSTILE[:20] in page.inner_text("body") and page.title() != "owned"
            assert page.locator("img").count() == 0
    finally:
        for name, path in summaries.items():
            path.write_text(before[name])


@pytest.mark.parametrize(
    ("scheme", "width"), first_in_gate([("dark", 390), ("light", 1280), ("light", 390), ("dark", 1280)])
)
def test_documents_are_accessible(
    browser: Browser, server: WebServer, comparable: list[str], scheme: str, width: int
) -> None:
    marked = "&".join(f"study={name}" for name in comparable)
    context = browser.new_context(
        viewport={"width": width, "height": 844}, color_scheme="dark" if scheme == "dark" else "light"
    )
    page = context.new_page()
    page.goto(server.url)
    expect(page.locator("h1")).to_have_text("Studies", timeout=LIMIT_MS)
    found = {}
    for path in (
        f"/compare?{marked}", f"/compare?study={COMPLETE}&arms=glibc,jemalloc", f"/history?study={comparable[0]}",
        f"/studies/{COMPLETE}/report.html",
    ):  # fmt: skip
        page.goto(at(server, path))
        expect(page.locator("h1").first).to_be_visible(timeout=LIMIT_MS)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
        page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
        found[path] = serious_violations(page)
    assert found == {path: [] for path in found}
    context.close()
