"""The page /design: requests without a browser, and the form in Chromium."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, Route, expect
from playwright.sync_api import Error as PlaywrightError

from mydyno.experiment_file.parsing import parse_experiment
from mydyno.experiment_file.schema import experiment_schema
from mydyno.experiment_file.toml_source import TomlSource
from mydyno.experiments import built_in, vocabulary
from mydyno.model.definition.problems import ExperimentError
from mydyno.web.designing import Draft, checked
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
    entries = {entry["label"]: entry["lines"] for part in found["plan"]["parts"] for entry in part}
    difference = "relaxed: innodb_flush_log_at_trx_commit = 2 (control: 1)"
    assert entries["arms"] == ["durable (control), relaxed", difference]
    assert entries["design"][0].startswith("switchback: ")
    assert entries["time"][0] == "at most 10 min", "the option, not the file's 20 minutes"
    assert {"disk", "changes", "order", "step"} <= set(entries)
    assert found["command"] == "mydyno run flush-log.toml --time 10m"


def test_mistakes_are_those_of_plan_in_the_same_words(server: WebServer) -> None:
    with pytest.raises(ExperimentError) as failure:
        parse_experiment(TomlSource.parse("flush-log.toml", BAD), vocabulary())
    title, *lines = failure.value.message.split("\n  ")
    mistakes = check(server, toml=BAD)["mistakes"]
    assert [mistakes["title"], *(one["text"] for one in mistakes["found"])] == [title, *lines]
    assert [one["key"] for one in mistakes["found"]] == [list(one.key) for _, one in failure.value.mistakes]
    assert len(lines) == 3
    assert any("did you mean 'oltp_read_write'" in one["words"] for one in mistakes["found"])


@pytest.mark.parametrize("name", built_in())
def test_every_built_in_experiment_can_be_the_start(server: WebServer, name: str) -> None:
    found = check(server, start=name)
    assert tomllib.loads(found["toml"]) == tomllib.loads(built_in()[name].read_text())
    assert found["mistakes"] is None
    again = check(server, tree=found["tree"])
    assert tomllib.loads(again["toml"]) == tomllib.loads(found["toml"]), "the form loses nothing"


def test_an_empty_start_lacks_the_question_alone(server: WebServer) -> None:
    assert [one["key"] for one in check(server, start="")["mistakes"]["found"]] == [["question"]]


@pytest.mark.parametrize(
    ("toml", "words"),
    [
        ("name = [", "experiment.toml: not valid TOML"),
        ("a." * 5000 + "a = 1", "experiment.toml: tables are nested too deeply"),
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
        ("", 400), ("[]", 400), ("{}", 400), ("{", 400), ('{"toml": 1}', 400), ('{"tree": {"a": 1}}', 400),
        ('{"tree": {"a": [[1]]}}', 400), ("[" * 100_000, 400), ('{"start": "../../etc/passwd"}', 404),
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
    assert checked(Draft(toml), start_programs=True)["mistakes"] is None
    assert (folder / "started").exists(), "`plan` does start it, so that the test could fail"


def test_builds_from_source_are_looked_up_with_the_option_alone(server: WebServer, tmp_path: Path) -> None:
    toml = GOOD.replace(OWN_SERVER, f'server.build = {{ git = "{tmp_path}", command = "make" }}')
    (times,) = [entry["lines"] for part in check(server, toml=toml)["plan"]["parts"] for entry in part
                if entry["label"] == "time"]  # fmt: skip
    assert times[-1].startswith("and that of builds from source, which `mydyno plan` states")


def test_the_schema_is_that_of_the_command(server: WebServer) -> None:
    assert json.loads(server.get("/design/schema").text) == experiment_schema(vocabulary())


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


def test_form_and_toml_follow_each_other(page: Page) -> None:
    page.get_by_label("tables", exact=True).fill("0")
    expect(page.locator("#mistakes")).to_contain_text("data.tables = 0: out of range; allowed: >= 1")
    expect(page.get_by_label("tables", exact=True)).to_have_attribute("aria-invalid", "true")
    page.locator("#mistakes button").click()
    expect(page.get_by_label("tables", exact=True)).to_be_focused()
    page.keyboard.press("Control+A")
    page.keyboard.type("3")
    expect(page.locator("#verdict")).to_have_text("valid")
    expect(page.locator("#plan")).to_contain_text("3 tables")
    text = page.locator("#toml").input_value()
    assert "tables = 3\n" in text
    page.locator("#toml").fill(text.replace("tables = 3", "tables = 5"))
    expect(page.get_by_label("tables", exact=True)).to_have_value("5")
    page.locator("#toml").fill("name = [")
    expect(page.locator("#mistakes")).to_contain_text("not valid TOML")
    assert page.get_by_label("tables", exact=True).input_value() == "5", "the form keeps what it could read"


def test_a_list_is_typed_with_commas_and_an_arm_s_server_is_suggested(page: Page) -> None:
    page.get_by_label("connections", exact=True).fill("16, 64")
    expect(page.locator("#toml")).to_have_value(re.compile(r"connections = \[16, 64\]"))
    expect(page.locator("#verdict")).to_have_text("valid")
    page.get_by_label("primary", exact=True).fill("qps, rss")
    expect(page.locator("#toml")).to_have_value(re.compile(r'primary = \["qps", "rss"\]'))
    page.get_by_label("What differs is given by").select_option("arms")
    page.get_by_label("Add an arm").fill("new")
    page.keyboard.press("Enter")
    page.locator('select[data-adds=\'["arms","new"]\']').select_option("server")
    server = page.locator('input[data-path=\'["arms","new","server"]\']')
    known = page.locator(f"datalist#{server.get_attribute('list')} option")
    assert "mariadb-11.4" in known.evaluate_all("all => all.map((one) => one.value)")


def test_an_answer_that_comes_late_does_not_overwrite_what_was_typed_since(page: Page) -> None:
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route("**/design/check", hold, times=1)
    with page.expect_request("**/design/check"):
        page.get_by_label("tables", exact=True).fill("3")
    page.locator("#toml").fill(GOOD)
    for route in held:
        with suppress(PlaywrightError):  # the page has given the request up
            route.continue_()
    expect(page.locator("#command")).to_have_text(re.compile("flush-log.toml"))
    assert page.locator("#toml").input_value() == GOOD


def test_arms_and_steps_are_added_by_keyboard(page: Page) -> None:
    page.get_by_label("What differs is given by").select_option("arms")
    for arm in ("slow", HOSTILE[:8]):
        page.get_by_label("Add an arm").fill(arm)
        page.keyboard.press("Enter")
        expect(page.locator("fieldset fieldset > legend", has_text=arm)).to_have_count(1)
    expect(page.locator("#mistakes")).to_contain_text(HOSTILE[:8])
    page.get_by_role("button", name=f"remove arms.{HOSTILE[:8]}").click()
    page.locator('select[data-adds=\'["arms","slow"]\']').select_option("tls")
    page.get_by_label("tls", exact=True).fill("1.2")
    page.get_by_label("control", exact=True).first.fill("slow")
    expect(page.locator("#verdict")).to_have_text("valid")
    page.get_by_role("button", name="Add another to steps").click()
    expect(page.locator("#plan")).to_contain_text("oltp_read_write-16-2")
    tree = tomllib.loads(page.locator("#toml").input_value())
    assert tree["arms"] == {"slow": {"tls": "1.2"}, "control": "slow"}
    assert len(tree["steps"]) == 2 and "vary" not in tree


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
def test_the_form_fits_a_phone_and_is_accessible(page: Page, scheme: str) -> None:
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    page.set_viewport_size({"width": 390, "height": 844})
    page.get_by_label("tables", exact=True).fill("tables" * 14)
    expect(page.locator("#mistakes")).to_contain_text("tablestables")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    serious = [
        f"{one['id']}: {one['nodes'][0]['html'][:200]}"
        for one in Axe().run(page).response["violations"]
        if one["impact"] in ("serious", "critical")
    ]
    assert serious == []
