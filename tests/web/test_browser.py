"""The pages in Chromium: live update, reconnect, a killed study, keyboard, widths, dark, accessibility."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, Route, expect

from mydyno.store.logs import LIVE_FILE
from tests.support import first_in_gate
from tests.support.breaking_proxy import BreakingProxy
from tests.support.live_writer import LiveWriter
from tests.support.patience import ended
from tests.support.web_server import WebServer
from tests.web.conftest import COMPLETE, HOSTILE, LIMIT_MS, RUNNING

LIVE = f"/studies/{RUNNING}/live"
LOADED = {"state": "slice", "block": 2, "blocks": 6, "arm": "jemalloc", "copy": 1, "step": "oltp_read_write-64",
          "cycle": 3, "left_s": 90.0, "tps": 60.0, "latency_us": {"p50": 1e3, "p95": 2e3, "p99": 3e3},
          "cpu_busy_pct": 80.0, "cpu_steal_pct": 1.0, "server": {"innodb_buffer_pool_hit_pct": 99.0}}  # fmt: skip


@pytest.fixture
def writer(studies: Path) -> Iterator[LiveWriter]:
    with LiveWriter(studies / RUNNING) as found:
        yield found
    (studies / RUNNING / LIVE_FILE).unlink()


def at(server: WebServer, path: str, port: int | None = None) -> str:
    return f"http://127.0.0.1:{port or server.port}{path}"


def tile(page: Page, name: str) -> str:
    return page.locator("#tiles div").filter(has=page.get_by_text(name, exact=True)).locator("dd").inner_text()


def serious_violations(page: Page) -> list[str]:
    """What axe finds in the page."""
    found = Axe().run(page).response
    assert found["passes"], "it has looked"
    return [
        f"{one['id']}: {one['nodes'][0]['html'][:200]}"
        for one in found["violations"]
        if one["impact"] in ("serious", "critical")
    ]


def test_without_the_token_a_browser_is_told_how_to_get_access(browser: Browser, server: WebServer) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.goto(at(server, "/#token=wrong"))
    expect(page.locator("#why")).to_contain_text("not that of the running server", timeout=LIMIT_MS)
    context.close()


def test_a_permalink_with_the_token_leads_to_its_page(browser: Browser, server: WebServer) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.goto(at(server, f"/studies/{COMPLETE}#token={server.token}"))
    expect(page.locator("a.report")).to_be_visible(timeout=LIMIT_MS)
    context.close()


def test_the_live_page_follows_the_study_and_stops_it(page: Page, server: WebServer, writer: LiveWriter) -> None:
    writer.write("second", **LOADED, qps=1000.0)
    page.goto(at(server, LIVE))
    expect(page.locator("#now")).to_contain_text("Block 2 of 6 · jemalloc · oltp_read_write-64, cycle 3")
    expect(page.locator("#now")).to_contain_text("About 1 min 30 s left")
    for number in range(3):
        writer.write("second", **LOADED, qps=2000.0 + number)
        expect(page.locator("#tiles dd").first).to_contain_text(f"{2000 + number:,}")
    assert tile(page, "p99") == "3.00 ms"
    writer.write("precision", blocks=6, made=2, half_widths={"server_cpu_us_per_query": 0.012, "CPU per query": 0.01})
    expect(page.locator("#precision li")).to_have_text(["±1.2 % of CPU per query", "±1.0 % of CPU per query"])
    reason = {"check": "unproved", "text": "the library is not mapped"}
    writer.write("run", block=1, arm="jemalloc", folder="blocks/01/1-jemalloc", valid=False, reasons=[reason])
    expect(page.locator("#invalid")).to_contain_text("block 1, jemalloc, not used: the library is not mapped")
    page.get_by_role("button", name="Stop the study").click()
    page.get_by_role("dialog").get_by_role("button", name="Stop the study").click()
    expect(page.locator("#ended")).to_contain_text("interrupted; finished runs are kept")
    assert ended(writer.process, "the study") == 130


SOURCES = """window.sources = []; window.EventSource = class extends EventSource {
  constructor(url) { super(url); sources.push(this); } };
  window.isHidden = false; Object.defineProperty(document, "hidden", { get: () => isHidden });"""
OPEN = "sources.filter((one) => one.readyState !== EventSource.CLOSED).length"
HIDE = "(hides) => { isHidden = hides; document.dispatchEvent(new Event('visibilitychange')); }"


def test_a_hidden_page_and_one_of_an_ended_study_hold_no_connection(
    page: Page, server: WebServer, writer: LiveWriter
) -> None:
    page.add_init_script(SOURCES)
    writer.write("second", **LOADED, qps=1000.0)
    page.goto(at(server, LIVE))
    expect(page.locator("#connection")).to_have_text("connected")
    page.evaluate(HIDE, True)
    assert page.evaluate(OPEN) == 0
    writer.write("second", **LOADED, qps=2000.0)
    page.evaluate(HIDE, False)
    expect(page.locator("#tiles dd").first).to_contain_text("2,000")
    expect(page.locator("#connection")).to_have_text("connected")
    assert page.evaluate(OPEN) == 1
    writer.write("ended", state="complete")
    expect(page.locator("#connection")).to_have_text("ended")
    assert page.evaluate(OPEN) == 0


def test_a_page_that_is_opened_in_the_background_listens_once_it_is_shown(
    page: Page, server: WebServer, writer: LiveWriter
) -> None:
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url.rpartition("/")[2]))
    page.add_init_script(SOURCES.replace("isHidden = false", "isHidden = true"))
    writer.write("second", **LOADED, qps=1000.0)
    page.goto(at(server, LIVE), wait_until="networkidle")
    assert page.evaluate("sources.length") == 0 and "history" not in requests
    page.evaluate(HIDE, False)
    expect(page.locator("#connection")).to_have_text("connected")
    assert page.evaluate(OPEN) == 1


def test_a_hidden_page_of_a_study_that_starts_sends_no_request(browser: Browser, studies: Path) -> None:
    with WebServer(studies, "--allow-run") as server:
        page = browser.new_page()
        requests: list[str] = []
        page.on("request", lambda request: requests.append(request.url.rpartition("/")[2]))
        page.goto(server.url)
        expect(page.locator("h1")).to_have_text("Studies", timeout=LIMIT_MS)
        page.add_init_script(SOURCES.replace("isHidden = false", "isHidden = true"))
        page.goto(at(server, "/design/started"), wait_until="networkidle")
        assert "status" not in requests
        page.evaluate(HIDE, False)
        expect(page.locator("#started")).to_contain_text("No study was started", timeout=LIMIT_MS)
        page.close()


def test_values_between_gaps_are_drawn(page: Page, server: WebServer, writer: LiveWriter) -> None:
    for number in range(80):
        writer.write("second", **LOADED, **({"qps": 1000.0} if number % 2 else {}))
    page.goto(at(server, LIVE))
    expect(page.locator("#tiles dd").first).to_contain_text("1,000")
    page.wait_for_function(COLOURED)


COLOURED = """() => {
  const canvas = document.querySelector("#charts canvas");
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  let found = 0;
  for (let at = 0; at < data.length; at += 4) {
    const colours = data.slice(at, at + 3);
    if (data[at + 3] > 99 && Math.max(...colours) - Math.min(...colours) > 60) found += 1;
  }
  return found > 100;
}"""
"""Lines and dots have colours, axes are grey."""


def test_host_groups_are_shown_and_one_of_them_is_chosen(page: Page, server: WebServer, writer: LiveWriter) -> None:
    writer.write("second", state="hosts", made=1, blocks=6, left_s=90.0)
    for group, qps in (("vm01", 1000.0), ("vm02", 2000.0)):
        writer.write("second", **LOADED, group=group, qps=qps)
    page.goto(at(server, LIVE))
    expect(page.locator("#now")).to_contain_text("1 of 6 blocks finished")
    expect(page.locator("#now")).to_contain_text("Host groups execute the blocks. About 1 min 30 s left")
    rows = page.locator("#group-rows tr")
    expect(rows).to_have_count(2)
    expect(rows.nth(1)).to_contain_text("jemalloc, oltp_read_write-64")
    expect(page.locator("#tiles dd").first).to_contain_text("1,000")
    page.get_by_role("button", name="vm02").click()
    expect(page.locator("#figures-title")).to_have_text("Now: vm02")
    expect(page.locator("#tiles dd").first).to_contain_text("2,000")
    writer.write("second", state="lost", group="vm02")
    expect(rows.nth(1).locator("td").first).to_have_text("lost")
    found = Axe().run(page)
    assert not [one for one in found.response["violations"] if one["impact"] in ("serious", "critical")]


def test_a_connection_that_breaks_loses_no_line(browser: Browser, server: WebServer, writer: LiveWriter) -> None:
    with BreakingProxy(server.port) as proxy:
        context = browser.new_context()
        page = context.new_page()
        page.goto(at(server, f"{LIVE}#token={server.token}", proxy.port))
        writer.write("second", **LOADED, qps=1.0)
        writer.write("note", text="note 0")
        expect(page.locator("#notes li")).to_have_count(1, timeout=LIMIT_MS)
        proxy.breaks()
        expect(page.locator("#connection")).to_contain_text("connection lost", timeout=LIMIT_MS)
        for number in range(1, 6):
            writer.write("note", text=f"note {number}")
        proxy.heals()
        expect(page.locator("#connection")).to_have_text("connected", timeout=LIMIT_MS)
        expect(page.locator("#notes li")).to_have_count(6, timeout=LIMIT_MS)
        notes = [text[8:] for text in page.locator("#notes li").all_inner_texts()]
        assert [note.strip() for note in notes] == [f"note {number}" for number in range(5, -1, -1)]
        context.close()


def test_a_study_that_is_killed_is_seen_as_such(page: Page, server: WebServer, writer: LiveWriter) -> None:
    writer.write("second", **LOADED, qps=1000.0)
    page.goto(at(server, LIVE))
    expect(page.locator("#state")).to_have_text("slice")
    writer.kill()
    expect(page.locator("#alarm")).to_contain_text("was killed, or it crashed")
    expect(page.locator("#alarm")).to_contain_text(f"mydyno resume {RUNNING}")
    expect(page.get_by_role("button", name="Stop the study")).to_be_disabled()
    page.goto(at(server, "/"))
    expect(page.locator(".studies .study").filter(has_text=RUNNING[-16:]).locator(".chip")).to_have_text("killed")


def test_hostile_names_and_reports_run_nothing(page: Page, server: WebServer, studies: Path) -> None:
    dialogs: list[str] = []
    page.on("dialog", lambda dialog: dialogs.append(dialog.message))
    name = quote(HOSTILE.replace("/", "∕"))
    (run,) = (studies / HOSTILE.replace("/", "∕") / "blocks/01").glob("1-*")
    for path in ("/", f"/studies/{name}", f"/studies/{name}/runs/01/{run.name}"):
        page.goto(at(server, path), wait_until="networkidle")
        assert HOSTILE.replace("/", "∕")[:20] in page.inner_text("body")
        assert page.title() != "owned" and page.url == at(server, path)
    assert dialogs == []
    page.goto(at(server, f"/studies/{name}/report.html"))  # by itself
    assert page.evaluate("origin") == "null", "it has no access to the pages' origin"


def test_the_page_of_a_study_leads_to_its_report(page: Page, server: WebServer) -> None:
    page.goto(at(server, f"/studies/{COMPLETE}"))
    page.get_by_role("link", name="Report: picture, tables, evidence").click()
    expect(page.locator("#answer-title")).to_be_visible()
    expect(page.locator("html.explorer-runs")).to_have_count(1)  # its script runs in the sandbox


def test_the_answer_of_a_report_fits_the_first_screen_and_a_phone(page: Page, server: WebServer) -> None:
    for width in (1280, 390):
        page.set_viewport_size({"width": width, "height": 900})
        page.goto(at(server, f"/studies/{COMPLETE}/report.html"))
        box = page.locator("#answer :is(svg.picture, .verdicts)").locator("visible=true").first.bounding_box()
        assert box is not None and box["y"] < 900 and box["x"] + box["width"] <= width
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_click_on_a_heading_sorts_the_table_of_metrics_and_a_link_opens_its_fold(
    page: Page, server: WebServer
) -> None:
    page.goto(at(server, f"/studies/{COMPLETE}/report.html#metrics"))
    table = page.locator("table.sortable")
    expect(table).to_be_visible()
    names = table.locator("tbody th").all_inner_texts()
    heading = table.get_by_role("button", name="metric")
    heading.click()
    assert table.locator("tbody th").all_inner_texts() == sorted(names, key=str.casefold)
    expect(table.locator("thead th").first).to_have_attribute("aria-sort", "ascending")
    heading.click()
    heading.click()
    assert table.locator("tbody th").all_inner_texts() == names
    table.get_by_role("button", name="jemalloc").click()
    column = table.locator("thead th").all_inner_texts().index("jemalloc")
    cells = table.locator(f"tbody tr > :nth-child({column + 1})").all_inner_texts()
    texts = [text.split("%")[0].strip(" ▲▼≈?\u202f") for text in cells if "%" in text]
    changes = [float(text.replace("\u2212", "-")) for text in texts]
    assert len(changes) > 3 and changes == sorted(changes, reverse=True)


def test_the_list_follows_what_is_typed(page: Page, server: WebServer) -> None:
    page.get_by_role("searchbox").press_sequentially("20261120T12")
    expect(page.locator("#results .note")).to_contain_text("1 of 7 studies")
    assert page.url.endswith("/?q=20261120T12"), "what is shown has an address"
    page.reload()
    expect(page.locator(".studies .study")).to_have_count(1)


def test_the_list_is_looked_up_again_when_the_tab_is_shown(page: Page, server: WebServer, studies: Path) -> None:
    page.add_init_script(SOURCES)
    page.goto(at(server, "/?page=2"), wait_until="networkidle")
    assert page.url.endswith("/?page=2"), "the script leaves the page as it is"
    expect(page.locator(".running")).to_have_count(0)
    page.evaluate(HIDE, True)
    with LiveWriter(studies / RUNNING) as writer:
        writer.write("second", **LOADED, qps=1000.0)
        page.evaluate(HIDE, False)
        expect(page.locator(".running")).to_contain_text("block 2 of 6, about 1 min 30 s left")
        expect(page.locator(".studies .study").filter(has_text=RUNNING[-16:]).locator(".chip")).to_have_text("running")
        assert page.url.endswith("/?page=2")
    (studies / RUNNING / LIVE_FILE).unlink()


def test_the_list_follows_what_was_typed_before_its_script_had_come(page: Page, server: WebServer) -> None:
    held: list[Route] = []

    def hold(route: Route) -> None:  # a built-in function has no signature, which Playwright asks for
        held.append(route)

    page.route("**/assets/studies.js", hold)
    page.goto(at(server, "/"), wait_until="commit")
    page.get_by_role("searchbox").press_sequentially("20261120T12")
    while not held:
        page.wait_for_timeout(10)
    held[0].continue_()
    expect(page.locator("#results .note")).to_contain_text("1 of 7 studies")


def test_the_telemetry_is_enlarged_and_moved_by_keys(page: Page, server: WebServer, studies: Path) -> None:
    (run,) = (studies / COMPLETE / "blocks/01").glob("1-*")
    page.goto(at(server, f"/studies/{COMPLETE}/runs/01/{run.name}"))
    state = page.locator("#telemetry-state")
    expect(state).to_contain_text("every sample is shown")
    whole = state.inner_text()
    chart = page.locator("#telemetry > div").first
    chart.focus()
    page.keyboard.press("+")
    expect(state).not_to_have_text(whole)
    part = state.inner_text()
    page.keyboard.press("ArrowRight")
    expect(state).not_to_have_text(part)
    page.keyboard.press("Escape")
    expect(state).to_have_text(whole)


def test_the_keyboard_reaches_everything_and_opens_a_study(page: Page, server: WebServer) -> None:
    page.goto(at(server, "/?q=20261120T10"))
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "To the content"
    seen = set()
    for _ in range(25):
        page.keyboard.press("Tab")
        seen.add(page.evaluate("document.activeElement.name || document.activeElement.textContent.trim()"))
        if page.evaluate("document.activeElement.matches('.studies tbody a')"):
            break
    assert {"q", "state", "Show"} <= seen
    page.keyboard.press("Enter")
    expect(page.locator("a.report")).to_be_visible()


@pytest.mark.parametrize(
    ("scheme", "width"), first_in_gate([("dark", 390), ("light", 1280), ("light", 390), ("dark", 1280)], 2)
)
def test_pages_fit_a_phone_and_a_desk_and_are_accessible(
    browser: Browser, server: WebServer, studies: Path, writer: LiveWriter, scheme: str, width: int
) -> None:
    writer.write("second", **LOADED, qps=1000.0)
    writer.write("note", text="a message " * 30)
    reason = {"check": "unproved", "text": "x" * 300}
    writer.write("run", block=1, arm="jemalloc", folder="blocks/01/1-jemalloc", valid=False, reasons=[reason])
    (run,) = (studies / COMPLETE / "blocks/01").glob("1-*")
    hostile = quote(HOSTILE.replace("/", "∕"))
    context = browser.new_context(
        viewport={"width": width, "height": 844}, color_scheme="dark" if scheme == "dark" else "light"
    )
    page = context.new_page()
    page.goto(server.url)
    expect(page.locator("h1")).to_have_text("Studies", timeout=LIMIT_MS)
    backgrounds = set()
    pages = ("/", f"/studies/{COMPLETE}", f"/studies/{hostile}", f"/studies/{COMPLETE}/runs/01/{run.name}", LIVE)
    for path in pages:
        page.goto(at(server, path))
        expect(page.locator("#connection, #telemetry-state, .studies, #runs-title").first).not_to_contain_text(
            "Reading", timeout=LIMIT_MS
        )
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
        backgrounds.add(page.evaluate("getComputedStyle(document.body).backgroundColor"))
        assert serious_violations(page) == [], path
    assert len(backgrounds) == 1
    (colour,) = backgrounds
    levels = [int(level) for level in colour.removeprefix("rgb(").removesuffix(")").split(",")]
    assert (sum(levels) < 200) == (scheme == "dark"), colour
    context.close()
