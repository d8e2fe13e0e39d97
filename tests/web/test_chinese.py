"""The pages in Chinese: how a reader gets them, that nothing in them is English, and that they are accessible."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, expect
from starlette.datastructures import Headers

from mydyno.store.live_log import LIVE_FILE
from mydyno.web.languages import wanted_language
from tests.support.live_writer import LiveWriter
from tests.support.visible_text import visible_texts
from tests.support.web_server import WebServer
from tests.web.conftest import COMPLETE, RUNNING
from tests.web.test_browser import LIMIT_MS, LIVE, LOADED, at

ENGLISH = re.compile(
    r"\b(?:the|of|and|with|is|are|at|more|this|that|in|on|for|no|not|to|from|by|all|arms?|blocks?|runs?|steps?|studies|"
    r"report|show|state|complete|failed|search|design)\b",
    re.IGNORECASE,
)
NAMES = re.compile(r"[\w.-]*/[\w./-]+|https?://\S+|run\.json|allow-run|mydyno \w+|mydyno design \S+")
"""Paths, files and commands."""


def english_texts(page: str, own: Iterable[str] = ()) -> list[str]:
    left = (NAMES.sub("", text) for text in visible_texts(page) if not any(one in text for one in own))
    return [text for text in left if ENGLISH.search(text)]


@pytest.fixture(scope="module")
def questions(server: WebServer) -> list[str]:
    """What the studies say themselves: questions, and the name of the language that may be chosen."""
    found = re.findall(r'<h2><a href="/studies/[^"]+">([^<]+)</a></h2>', server.get("/").text)
    return [*(one.replace("&#39;", "'") for one in found), "English"]


@pytest.mark.parametrize(
    ("accepted", "cookie", "chosen", "language"),
    [
        ("", "", "", "en"),
        ("zh-CN,zh;q=0.9,en;q=0.8", "", "", "zh"),
        ("en-US,en;q=0.9,zh;q=0.8", "", "", "en"),
        ("de, zh;q=0.5", "", "", "zh"),
        ("fr;q=x, *", "", "", "en"),
        ("zh", "en", "", "en"),
        ("en", "en", "zh", "zh"),
        ("en", "zh", "tlh", "zh"),
    ],
)
def test_the_choice_of_the_reader_comes_before_that_of_the_browser(
    accepted: str, cookie: str, chosen: str, language: str
) -> None:
    headers = Headers({"accept-language": accepted, "cookie": f"mydyno_language={cookie}"})
    assert wanted_language(chosen, headers) == language


def test_a_chosen_language_is_remembered(server: WebServer) -> None:
    first = server.get("/?language=zh")
    assert '<html lang="zh-CN">' in first.text
    remembered = first.headers["set-cookie"].partition(";")[0]
    second = server.request("/", headers={"Cookie": f"{server.cookie}; {remembered}"})
    assert "<h1>研究列表</h1>" in second.text
    assert '<a href="?language=en" lang="en" hreflang="en">English</a>' in second.text
    assert '<html lang="en">' in server.get("/").text


def test_no_english_is_left_in_the_pages(server: WebServer, studies: Path, questions: list[str], running: Path) -> None:
    (run,) = (studies / COMPLETE / "blocks/01").glob("1-*")
    with LiveWriter(running) as writer:
        writer.write("second", **LOADED, qps=1.0)
        paths = ("/", f"/studies/{COMPLETE}", f"/studies/{COMPLETE}/runs/01/{run.name}", LIVE, "/design", "/compare")
        pages = {path: server.request(path, headers=_in_chinese(server)).text for path in paths}
    assert {path: english_texts(text, questions) for path, text in pages.items()} == {path: [] for path in paths}
    assert english_texts(server.get("/design").text), "the pattern finds English where it is"


def test_comparisons_and_histories_are_in_the_language_of_the_page(
    server: WebServer, comparable: list[str], questions: list[str]
) -> None:
    marked = "&".join(f"study={name}" for name in comparable)
    for path, words in (
        (f"/compare/page?{marked}", "可以得出什么结论"),
        (f"/history/page?study={comparable[0]}", "全部研究"),
    ):
        assert '<html lang="en">' in server.get(path).text
        page = server.request(path, headers=_in_chinese(server)).text
        assert '<html lang="zh-CN">' in page
        assert words in page
        assert english_texts(page.replace('<td class="">on</td>', ""), questions) == []


def test_a_killed_study_is_reported_in_chinese(browser: Browser, server: WebServer, running: Path) -> None:
    with LiveWriter(running) as writer:
        writer.write("second", **LOADED, qps=1000.0)
        context = browser.new_context(locale="zh-CN")
        page = context.new_page()
        page.goto(at(server, f"{LIVE}#token={server.token}"))
        expect(page.locator("#state")).to_have_text("时间片", timeout=LIMIT_MS)
        writer.kill()
        expect(page.locator("#alarm")).to_contain_text("被终止或已崩溃", timeout=LIMIT_MS)
        expect(page.locator("#alarm")).to_contain_text(f"mydyno resume {RUNNING}")
        assert english_texts(page.content(), [*_names(page.title())]) == []
        context.close()


def test_a_refused_stop_says_why_in_chinese(server: WebServer, running: Path) -> None:
    with LiveWriter(running) as writer:
        writer.kill()
    answer = server.post(f"/studies/{RUNNING}/stop", {"Accept-Language": "zh-CN"})
    assert (answer.status, json.loads(answer.text)) == (409, {"problem": "研究的进程已结束"})
    (running / LIVE_FILE).unlink()
    answer = server.post(f"/studies/{RUNNING}/stop", {"Accept-Language": "zh-CN"})
    assert (answer.status, json.loads(answer.text)) == (409, {"problem": "该研究没有 live.jsonl"})


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/studies/nowhere", "此文件夹中没有这个名称的研究。"),
        (f"/studies/{COMPLETE}/runs/09/1-glibc", "该研究没有这个已完成的运行。"),
        ("/assets/nowhere.css", "没有这个文件。"),
        ("/nowhere", "没有这个页面。"),
        (f"/studies/{COMPLETE}/stop", "此页面不接受这种请求。"),
    ],
)
def test_what_is_not_there_is_missed_in_chinese(server: WebServer, path: str, words: str) -> None:
    answer = server.request(path, headers=_in_chinese(server))
    assert answer.status in (404, 405) and words in answer.text
    assert english_texts(answer.text, ["English"]) == []


def test_without_access_the_reason_is_chinese(server: WebServer) -> None:
    answer = server.request("/", headers={"Accept-Language": "zh-CN"})
    assert answer.status == 401
    assert "此浏览器尚无访问权限" in answer.text
    assert "<code>mydyno serve</code>" in answer.text


def test_the_report_is_in_the_language_of_the_page(server: WebServer) -> None:
    path = f"/studies/{COMPLETE}/report.html"
    assert '<html lang="en">' in server.get(path).text
    answer = server.request(path, headers=_in_chinese(server))
    assert '<html lang="zh-CN">' in answer.text
    assert "sandbox" in answer.headers["content-security-policy"]


def test_pages_in_chinese_fit_a_phone_and_are_accessible(browser: Browser, server: WebServer, running: Path) -> None:
    with LiveWriter(running) as writer:
        writer.write("second", **LOADED, qps=1000.0)
        context = browser.new_context(viewport={"width": 390, "height": 844}, locale="zh-CN")
        page = context.new_page()
        page.goto(server.url)
        expect(page.locator("h1")).to_have_text("研究列表", timeout=LIMIT_MS)
        for path, ready in (
            (LIVE, "#tiles dd"),
            ("/design", "#form fieldset"),
            (f"/studies/{COMPLETE}", "#runs-title"),
        ):
            page.goto(at(server, path))
            expect(page.locator(ready).first).to_be_visible(timeout=LIMIT_MS)
            if path == LIVE:
                expect(page.locator("#now")).to_contain_text("区组 2/6", timeout=LIMIT_MS)
                assert english_texts(page.content(), [*_names(page.title())]) == []
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
            found = Axe().run(page, options={"iframes": False}).response["violations"]
            assert [one["id"] for one in found if one["impact"] in ("serious", "critical")] == [], path
        context.close()


def _names(title: str) -> list[str]:
    return [title.partition("：")[2], "English"]


def _in_chinese(server: WebServer) -> dict[str, str]:
    return {"Cookie": server.cookie, "Accept-Language": "zh-CN,zh;q=0.9"}
