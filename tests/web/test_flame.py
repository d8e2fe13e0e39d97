"""The flame graph of a report in Chromium: folding by mouse, keyboard and share; search in folded frames; widths."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from mydyno.reports import write
from tests.support import first_in_gate
from tests.unit.analysis.test_profiles_report import SAME, SPIN, profiled, record
from tests.web.test_browser import LIMIT_MS, serious_violations


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("flame") / "s"
    write(profiled(folder, record(SPIN, SAME)), "html")
    return folder / "report.html"


@pytest.fixture
def page(browser: Browser, report: Path) -> Iterator[Page]:
    expect.set_options(timeout=LIMIT_MS)
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    context.set_default_timeout(LIMIT_MS)
    found = context.new_page()
    failures: list[str] = []
    found.on("pageerror", lambda error: failures.append(str(error)))
    found.goto(report.as_uri())
    expect(found.locator("#flame")).to_be_visible()
    yield found
    assert failures == []
    context.close()


def frame(page: Page, function: str) -> Locator:
    return page.locator("button.frame").filter(has_text=function)


def shown(page: Page) -> set[str]:
    return {text.lstrip("▸▾") for text in page.locator("button.frame").all_text_contents()}


EVERYTHING = {"all", "clone3", "do_command", "row_<search>", "</script>", "send", "plant_spin"}


def test_a_click_on_its_sign_folds_a_frame_and_opens_it(page: Page) -> None:
    assert shown(page) == EVERYTHING
    send = frame(page, "send")
    expect(send).to_have_attribute("aria-expanded", "true")
    send.locator(".fold-sign").click()
    assert shown(page) == EVERYTHING - {"plant_spin"}
    expect(send).to_have_attribute("aria-expanded", "false")
    expect(send).to_have_text("▸send")
    expect(send).to_have_attribute("aria-label", page.locator("#flame-details").inner_text())
    expect(page.locator("#flame-details")).to_contain_text("folded, frames in it: 1")
    expect(page.locator("#flame-reset")).to_be_disabled()  # it did not zoom
    send.locator(".fold-sign").click()
    assert shown(page) == EVERYTHING
    assert frame(page, "plant_spin").get_attribute("aria-expanded") is None


def test_space_folds_and_opens_and_keeps_the_focus(page: Page) -> None:
    frame(page, "all").focus()
    for key in ("ArrowDown", "ArrowDown", "Space"):
        page.keyboard.press(key)
    assert shown(page) == {"all", "clone3", "do_command"}
    expect(frame(page, "do_command")).to_be_focused()
    expect(page.locator("#flame-fold")).to_have_text("Open frame")
    page.keyboard.press("ArrowUp")
    expect(frame(page, "clone3")).to_be_focused()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Space")
    expect(frame(page, "do_command")).to_be_focused()
    assert shown(page) == EVERYTHING
    assert page.locator('button.frame[tabindex="0"]').count() == 1


def test_a_zoom_opens_a_folded_frame_and_folding_a_caller_leaves_the_zoom(page: Page) -> None:
    frame(page, "send").locator(".fold-sign").click()
    frame(page, "send").press("Enter")
    assert shown(page) == {"all", "clone3", "do_command", "send", "plant_spin"}
    frame(page, "clone3").focus()
    page.keyboard.press("Space")
    assert shown(page) == {"all", "clone3"}
    page.keyboard.press("Escape")
    assert shown(page) == {"all", "clone3"}
    page.locator("#flame-open-all").click()
    assert shown(page) == EVERYTHING


def test_frames_below_a_share_and_all_frames_are_folded(page: Page) -> None:
    page.locator("#flame-least").select_option("0.2")  # send has 17 % of its arm's CPU time
    assert shown(page) == EVERYTHING - {"plant_spin"}
    page.locator("#flame-fold-all").click()
    expect(page.locator("#flame-least")).to_have_value("0")
    assert shown(page) == {"all", "clone3"}
    page.locator("#flame-open-all").click()
    assert shown(page) == EVERYTHING
    page.locator("#flame-fold").click()
    assert shown(page) == {"all"}
    page.locator("#flame-fold").click()
    assert shown(page) == EVERYTHING


def test_a_search_marks_folded_frames_with_a_match_in_them(page: Page) -> None:
    frame(page, "send").locator(".fold-sign").click()
    page.locator("#flame-search").fill("plant_spin")
    expect(page.locator(".hit-inside")).to_have_text("▸send")
    expect(page.locator("#flame-details")).to_contain_text("“plant_spin” and what it calls: ")


@pytest.mark.parametrize(("scheme", "width"), first_in_gate([("dark", 390), ("light", 390), ("dark", 1280)]))
def test_a_phone_and_a_dark_page_show_the_folded_graph_and_it_is_accessible(
    browser: Browser, report: Path, scheme: str, width: int
) -> None:
    context = browser.new_context(viewport={"width": width, "height": 844}, color_scheme=scheme)  # type: ignore[arg-type]
    page = context.new_page()
    page.goto(report.as_uri())
    page.locator("#flame-fold-all").click()
    assert shown(page) == {"all", "clone3"}
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert [one for one in serious_violations(page) if "flame" in one or "frame" in one] == []
    context.close()
