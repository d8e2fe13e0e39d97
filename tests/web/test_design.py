"""The page /design: requests without a browser, and the editor in Chromium."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from markupsafe import escape
from playwright.sync_api import Browser, Page, Route, expect
from playwright.sync_api import Error as PlaywrightError

from mydyno.experiment_file.parsing import parse_experiment
from mydyno.experiment_file.toml_source import TomlSource
from mydyno.experiments import built_in, vocabulary
from mydyno.model.definition.problems import ExperimentError
from mydyno.web.pages.design import TEMPLATES, Draft, checked, start_text
from tests.support import first_in_gate
from tests.support.web_server import Answer, WebServer
from tests.web.conftest import HOSTILE

LIMIT_MS = 60_000
"""Generous: the host may be busy."""
GOOD = """name = "flush-log"
question = "What does innodb_flush_log_at_trx_commit=2 gain?"
server.name = "mariadb-10.11"
design.time = "20m"
[arms]
control = "durable"
durable = { variables = { innodb_flush_log_at_trx_commit = 1 } }
relaxed = { variables = { innodb_flush_log_at_trx_commit = 2 } }
[[steps]]
workload = "oltp_read_write"
connections = [16, 64]
"""
BAD = GOOD.replace('"oltp_read_write"', '"oltp_read_wirte"').replace('control = "durable"', "").replace("20m", "soon")


def send(server: WebServer, path: str, sent: object, headers: Mapping[str, str] | None = None) -> Answer:
    own = {"Cookie": server.cookie, "X-Mydyno": "1", **(headers or {})}
    return server.request(path, "POST", sent if isinstance(sent, str) else json.dumps(sent), own)


def check(server: WebServer, **sent: object) -> dict[str, Any]:
    answer = send(server, "/design/check", sent)
    assert answer.status == 200, answer
    found: dict[str, Any] = json.loads(answer.text)
    return found


def test_a_good_experiment_gets_its_plan_and_command(server: WebServer) -> None:
    found = check(server, toml=GOOD, time="10m")
    assert found["mistakes"] is None
    entries = dict(found["plan"]["first"] + found["plan"]["rest"])
    difference = "relaxed: innodb_flush_log_at_trx_commit = 2 (control: 1)"
    assert entries["arms"] == ["durable (control), relaxed", difference]
    assert entries["design"][0].startswith("switchback: ")
    assert entries["time"][0] == "at most 10 min", "the option, not the file's 20 minutes"
    assert {"disk", "changes", "order", "load"} <= set(entries)
    assert [label for label, _ in found["plan"]["first"]] == ["arms", "time"]
    assert found["command"] == "mydyno run flush-log.toml --time 10m"


def test_mistakes_are_those_of_plan_with_their_lines(server: WebServer) -> None:
    with pytest.raises(ExperimentError) as failure:
        parse_experiment(TomlSource.parse("flush-log.toml", BAD), vocabulary())
    title, *lines = failure.value.message.split("\n  ")
    mistakes = check(server, toml=BAD)["mistakes"]
    assert mistakes["title"] == title and len(lines) == 3
    places = [f"flush-log.toml:{one['line']}: " if one["line"] else "flush-log.toml: " for one in mistakes["found"]]
    assert [f"{place}{one['text']}" for place, one in zip(places, mistakes["found"], strict=True)] == lines
    (wrong,) = [one for one in mistakes["found"] if "did you mean 'oltp_read_write'" in one["text"]]
    assert "oltp_read_wirte" in BAD.splitlines()[wrong["line"] - 1]


@pytest.mark.parametrize(
    ("toml", "line"), [("a = 1\nname = = 2\n", 2), ("a = 1\n\nname = [\n", 3), ('a = 1\nbase = "nothing"\n', 2)]
)
def test_a_mistake_that_no_key_has_has_a_line_too(server: WebServer, toml: str, line: int) -> None:
    assert [one["line"] for one in check(server, toml=toml)["mistakes"]["found"]] == [line]


@pytest.mark.parametrize("name", [*TEMPLATES, *built_in()])
def test_every_start_is_shown_as_it_is_written_and_valid(server: WebServer, name: str) -> None:
    text = start_text(name)
    assert text is not None
    page = server.get(f"/design?from={name}")
    assert page.status == 200 and escape(text) in page.text
    assert check(server, toml=text)["mistakes"] is None


@pytest.mark.parametrize("name", ["../../etc/passwd", "%2e%2e/app", "one-variable.toml", "/etc/passwd", "designs"])
def test_no_file_is_shown_but_templates_and_built_in_experiments(server: WebServer, name: str) -> None:
    assert server.get(f"/design?from={name}").status == 404


def test_files_of_an_experiment_are_read_with_the_option_alone(server: WebServer, tmp_path: Path) -> None:
    for name, value in (("my.cnf", "200"), ("my-new.cnf", "2000")):
        (tmp_path / name).write_text(f"[mysqld]\ninnodb_io_capacity = {value}\n")
    text = (start_text("two-option-files") or "").replace("/path/to", str(tmp_path))
    untrusted = check(server, toml=text)
    ((label, (words,)),) = untrusted["plan"]["first"]
    assert label == "files" and "--allow-run" in words and str(tmp_path) not in json.dumps(untrusted)
    trusted = checked(Draft(text), trusted=True)
    assert "new: innodb_io_capacity = 2000 (control: 200)" in dict(trusted["plan"]["first"])["arms"]
    missing = checked(Draft(start_text("my-sql") or ""), trusted=True)["mistakes"]["found"]
    assert [(one["line"], "no such file" in one["text"]) for one in missing] == [(19, True)]
    capture = check(server, toml=(start_text("my-log") or "").replace("/path/to", str(tmp_path)))
    assert "--allow-run" in json.dumps(capture["plan"]["first"])


@pytest.mark.parametrize(
    ("toml", "words"),
    [
        ("name = [", "not valid TOML"),
        ("a." * 5000 + "a = 1", "tables are nested too deeply"),
        ("x = " + "[" * 5000, "not valid TOML"),
        ('base = "nothing"', "no built-in experiment"),
        (GOOD.replace("[arms]", '[arms]\n"' + HOSTILE.replace('"', "'") + '" = {}'), "<script>"),
        (GOOD.replace("gain?", "gain?\\n  x"), ""),
        (GOOD.replace('server.name = "mariadb-10.11"', 'server.basedir = "/nowhere"'), ""),
    ],
)  # fmt: skip
def test_bad_input_is_answered_in_words(server: WebServer, toml: str, words: str) -> None:
    found = check(server, toml=toml)
    shown = json.dumps([found["mistakes"], found["plan"]], ensure_ascii=False)
    assert words in shown


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ("", 400), ("[]", 400), ("{}", 400), ("{", 400), ('{"toml": 1}', 400), ("[" * 100_000, 400),
        ('{"toml": "", "scale": 1}', 400), (json.dumps({"toml": "#" * 300_000}), 413),
    ],
)  # fmt: skip
def test_what_is_no_experiment_is_refused(server: WebServer, body: str, status: int) -> None:
    assert send(server, "/design/check", body).status == status


@pytest.mark.parametrize("path", ["/design/check", "/design/run"])
def test_other_sites_and_strangers_can_send_nothing(server: WebServer, path: str) -> None:
    sent = {"toml": GOOD}
    assert send(server, path, sent, {"Origin": "http://evil.example"}).status == 403
    assert send(server, path, sent, {"Sec-Fetch-Site": "cross-site"}).status == 403
    assert send(server, path, sent, {"Host": "evil.example"}).status == 400
    assert send(server, path, sent, {"Cookie": f"{server.cookie.partition('=')[0]}=wrong"}).status == 401
    assert server.request(path, "POST", json.dumps(sent), {"Cookie": server.cookie}).status == 403
    assert server.get(path).status == 405


def test_no_study_is_started_without_the_option(server: WebServer) -> None:
    assert send(server, "/design/run", {"toml": GOOD}).status == 403
    assert server.get("/design/started").status == server.get("/design/started/status").status == 404
    page = server.get("/design").text
    assert 'id="run"' not in page and "mydyno serve --allow-run" in page


OWN_SERVER = 'server.name = "mariadb-10.11"'


@pytest.mark.parametrize(
    ("named", "replacement"),
    [
        (OWN_SERVER, 'server.basedir = "{folder}"'),
        (OWN_SERVER, 'server."base\\u0064ir" = "{folder}"'),
        ("relaxed = {", 'relaxed = {{ server = {{ "base\\u0064ir" = "{folder}" }},'),
    ],
)
def test_no_program_of_a_draft_is_started_without_the_option(
    server: WebServer, tmp_path_factory: pytest.TempPathFactory, named: str, replacement: str
) -> None:
    """`plan` starts a base directory's server to learn its variables; a page that is only looked at does not."""
    folder = tmp_path_factory.mktemp("own")
    program = folder / "bin/mysqld"
    (folder / "share/english").mkdir(parents=True)
    (folder / "share/english/errmsg.sys").touch()
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\ntouch {folder}/started\necho 'mysqld  Ver 5.6.51 for Linux on x86_64 (x)'\n")
    program.chmod(0o755)
    folder.chmod(0o777)  # for the user that servers run as
    toml = GOOD.replace(named, replacement.format(folder=folder))
    found = check(server, toml=toml)
    assert found["mistakes"] is None, "it is an experiment that can be planned"
    assert not (folder / "started").exists()
    assert checked(Draft(toml), trusted=True)["mistakes"] is None
    assert (folder / "started").exists(), "`plan` does start it, so that the test could fail"


def test_builds_from_source_are_looked_up_with_the_option_alone(server: WebServer, tmp_path: Path) -> None:
    toml = GOOD.replace(OWN_SERVER, f'server.build = {{ git = "{tmp_path}", command = "make" }}')
    times = dict(check(server, toml=toml)["plan"]["first"])["time"]
    assert times[-1].startswith("and that of builds from source, which `mydyno plan` states")


@pytest.fixture
def page(browser: Browser, server: WebServer) -> Iterator[Page]:
    """The page with a valid experiment."""
    expect.set_options(timeout=LIMIT_MS)
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    context.set_default_timeout(LIMIT_MS)
    found = context.new_page()
    found.goto(f"http://127.0.0.1:{server.port}/design?from=variable#token={server.token}")
    expect(found.locator("#verdict")).to_have_text("valid")
    yield found
    context.close()


def test_the_check_follows_what_is_typed_and_leads_to_the_line(page: Page) -> None:
    text = page.locator("#toml").input_value()
    page.locator("#toml").fill(text.replace("tables = 4", "tables = 0"))
    expect(page.locator("#verdict")).to_have_text("not valid")
    wrong = text.splitlines().index("tables = 4") + 1
    button = page.locator("#mistakes button")
    expect(button).to_have_text(f"line {wrong}: data.tables = 0: out of range; allowed: >= 1")
    expect(page.locator("#lines .mistake")).to_have_text(str(wrong))
    button.click()
    expect(page.locator("#toml")).to_be_focused()
    page.keyboard.type("tables = 3")  # in place of the line, which is selected
    expect(page.locator("#verdict")).to_have_text("valid")
    assert page.locator("#toml").input_value() == text.replace("tables = 4", "tables = 3")
    page.get_by_text("The whole plan").click()
    expect(page.locator("#plan")).to_contain_text("3 tables")
    page.keyboard.press("Tab")
    page.locator("#time").fill("20m")
    expect(page.locator("#command")).to_have_text("mydyno run variable.toml --time 20m")
    expect(page.locator("#plan details")).to_have_attribute("open", "")


def test_a_template_replaces_what_was_written_only_if_that_is_confirmed(page: Page) -> None:
    answers: list[bool] = []
    page.on("dialog", lambda dialog: dialog.accept() if answers.pop() else dialog.dismiss())
    page.get_by_label("Begin with").select_option("two servers")
    page.locator("#toml").fill(GOOD)
    answers.append(False)
    page.get_by_role("button", name="Open").click()
    assert page.locator("#toml").input_value() == GOOD
    answers.append(True)
    page.get_by_role("button", name="Open").click()
    expect(page).to_have_url(re.compile("from=two-servers"))
    expect(page.locator("#plan")).to_contain_text("new: server = mariadb-11.4")


def test_an_answer_that_comes_late_does_not_overwrite_what_was_typed_since(page: Page) -> None:
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route("**/design/check", hold, times=1)
    with page.expect_request("**/design/check"):
        page.locator("#toml").fill("name = [")
    page.locator("#toml").fill(GOOD)
    for route in held:
        with suppress(PlaywrightError):  # the page has given the request up
            route.continue_()
    expect(page.locator("#command")).to_have_text(re.compile("flush-log.toml"))
    expect(page.locator("#verdict")).to_have_text("valid")


def test_a_hostile_experiment_is_text(page: Page) -> None:
    page.locator("#toml").fill(GOOD.replace("[arms]", "[arms]\n'" + HOSTILE.replace("'", "`") + "' = {}"))
    expect(page.locator("#mistakes")).to_contain_text("<script>")
    assert page.locator("#mistakes script, #mistakes img, #plan img").count() == 0 and page.title() != "owned"


def test_the_toml_is_copied_and_downloaded(page: Page) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy").click()
    expect(page.locator("#copied")).to_have_text("Copied.")
    assert page.evaluate("navigator.clipboard.readText()") == page.locator("#toml").input_value()
    with page.expect_download() as download:
        page.get_by_role("link", name="Download variable.toml").click()
    assert download.value.suggested_filename == "variable.toml"
    assert Path(download.value.path()).read_text() == page.locator("#toml").input_value()


@pytest.mark.parametrize("scheme", first_in_gate(["light", "dark"]))
def test_the_editor_fits_a_phone_and_is_accessible(page: Page, scheme: str) -> None:
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    page.set_viewport_size({"width": 390, "height": 844})
    page.locator("#toml").fill("tables" * 14 + " = 1")
    expect(page.locator("#mistakes")).to_contain_text("tablestables")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    serious = [
        f"{one['id']}: {one['nodes'][0]['html'][:200]}"
        for one in Axe().run(page).response["violations"]
        if one["impact"] in ("serious", "critical")
    ]
    assert serious == []
