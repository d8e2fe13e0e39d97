"""Requests without a browser: every page, and what is refused."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import quote

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from mydyno.hosts.identity import ProcessIdentity
from mydyno.store.logs import LIVE_FILE, read_live
from mydyno.store.study_folder import StudyFolder
from tests.support import ROOT
from tests.support.live_writer import LiveWriter
from tests.support.patience import HANG_S, ended, first_line
from tests.support.web_server import WebServer
from tests.support.worded import worded
from tests.web.conftest import COMPLETE, HOSTILE, RUNNING


def test_every_study_is_listed_also_those_with_something_wrong(server: WebServer, studies: Path) -> None:
    page = server.get("/").text
    assert "7 studies in" in page and "not-a-study" not in page
    assert "study.json cannot be read" in page, "half-written and empty"
    assert "format 99; this mydyno reads format 6" in page
    assert "plan.json" not in server.get("/?q=nothing+matches").text


@pytest.mark.parametrize("part", ["", "&part=results"])
def test_the_list_is_searched_and_filtered(server: WebServer, part: str) -> None:
    assert "2 of 7 studies" in server.get(f"/?state=complete{part}").text
    assert "1 of 7 studies" in server.get(f"/?q=allocators+VM-7+20261120T12{part}").text
    assert "No study matches" in server.get(f"/?state=complete&host=nowhere&page=99{part}").text


def test_many_studies_are_listed_by_experiment_and_in_the_order_of_a_heading(
    server: WebServer, studies: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "studies"
    for number in range(200):
        place = folder / f"allocators-20261119T{number:06d}Z"
        place.mkdir(parents=True)
        for name in ("study.json", "plan.json", "summary.json"):
            (place / name).symlink_to(studies / COMPLETE / name)
    shutil.copytree(studies / RUNNING, folder / RUNNING)
    with WebServer(folder) as many, LiveWriter(folder / RUNNING) as writer:
        writer.write("second", state="slice", block=2, blocks=6, left_s=90.0)
        many.log_in()
        page = many.get("/").text
        assert page.count("<tr") == 3, "two hosts, and the headings"
        assert (
            "block 2 of 6, about 1 min 30 s left" in page and 'href="?experiment=allocators&amp;host=bench-1"' in page
        )
        one = many.get("/?experiment=allocators&host=bench-1").text
        assert one.count('class="study"') == 100 and "page 1 of 2" in one
        by_host = many.get("/?sort=-host").text
        assert 'aria-sort="descending"><a href="?sort=host">Host' in by_host
        assert many.get("/?sort=../..").text.count('aria-sort="descending"><a href="?sort=date">Date') == 1


def test_no_page_of_any_study_fails(server: WebServer, studies: Path) -> None:
    for folder in studies.iterdir():
        pages = [f"/studies/{quote(folder.name)}{rest}" for rest in ("", "/live", "/live/history")]
        pages += [
            f"/studies/{quote(folder.name)}/runs/{quote(str(run.relative_to(folder / 'blocks')))}{rest}"
            for run in folder.glob("blocks/01/*")
            if run.is_dir()
            for rest in ("", "/telemetry")
        ]
        answers = {page: server.get(page) for page in pages}
        expected = {404} if folder.name == "not-a-study" else {200, 422}
        assert {page: one.status for page, one in answers.items() if one.status not in expected} == {}


def test_the_page_of_a_study_begins_with_its_answer(server: WebServer, studies: Path) -> None:
    answer = worded(StudyFolder.open(studies / COMPLETE)).answer
    page = server.get(f"/studies/{COMPLETE}").text
    positions = [page.find(text) for text in ('class="lead"', answer[0][:30], 'class="report"', 'id="runs-title"')]
    assert -1 not in positions and positions == sorted(positions)
    assert "<iframe" not in page, "the report has the answer again: it is a page of its own"


def test_marked_studies_are_compared(server: WebServer, comparable: list[str]) -> None:
    marked = "&".join(f"study={quote(name)}" for name in comparable)
    page = server.get(f"/compare?{marked}")
    assert page.status == 200, page.text
    assert all(name in page.text for name in comparable)
    assert "unsafe" not in page.headers["content-security-policy"]
    assert all(f'value="{name}"' in server.get("/").text for name in comparable)


def test_an_experiment_has_a_history(server: WebServer, comparable: list[str]) -> None:
    assert f'href="/history?study={comparable[0]}"' in server.get(f"/studies/{comparable[0]}").text
    document = server.get(f"/history?study={comparable[0]}")
    assert document.status == 200 and all(name in document.text for name in comparable)


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/compare", 422, "two studies or more"),
        (f"/compare?study={COMPLETE}&study={COMPLETE}", 422, "two studies or more"),
        (f"/compare?study={COMPLETE}&study=../../etc", 404, "no study of this name"),
        (f"/compare?study={COMPLETE}&study=half-20261120T090000Z", 422, "half-20261120T090000Z"),
        ("/compare?" + "&".join(f"study={number}" for number in range(13)), 422, "At most 12"),
        ("/history", 422, "one experiment"),
        ("/history?study=noplan-20261120T060000Z", 422, "plan.json"),
    ],
)
def test_what_cannot_be_compared_is_refused_in_words(server: WebServer, path: str, status: int, words: str) -> None:
    answer = server.get(path)
    assert (answer.status, words in answer.text) == (status, True), answer.text


def test_a_run_shows_its_files_evidence_and_telemetry(server: WebServer, studies: Path) -> None:
    (run,) = (studies / COMPLETE / "blocks/01").glob("1-*")
    place = f"/studies/{COMPLETE}/runs/01/{run.name}"
    page = server.get(place).text
    record = json.loads((run / "run.json").read_text())
    assert record["evidence"][0]["treatment"] in page and "Option file and logs" in page
    whole = json.loads(server.get(f"{place}/telemetry").text)
    assert {"qps", "cpu_user_pct"} <= {one["metric"] for one in whole["series"]}
    from_s, to_s = whole["from_s"] + 1, whole["from_s"] + 4
    part = json.loads(server.get(f"{place}/telemetry?from={from_s}&to={to_s}").text)
    assert (part["from_s"], part["to_s"]) == (from_s, to_s)
    assert part["series"] and all(from_s <= t_s <= to_s for one in part["series"] for t_s in one["t_s"])
    assert server.get(f"{place}/telemetry?from=nan").status == 400


def test_without_the_cookie_nothing_is_shown(server: WebServer) -> None:
    for path in ("/", f"/studies/{COMPLETE}", f"/studies/{COMPLETE}/report.html", f"/studies/{COMPLETE}/live/events",
                 "/nowhere"):  # fmt: skip
        answer = server.request(path)
        assert answer.status == 401
        assert "allocators" not in answer.text
        wrong = {"Cookie": f"{server.cookie.partition('=')[0]}={'x' * 43}"}
        assert server.request(path, headers=wrong).status == 401
    assert server.request("/assets/session.js").status == 200, "what the log-in page needs"


@pytest.mark.parametrize("token", ["", "wrong", "é" * 40, "x" * 5000])
def test_a_wrong_token_gives_no_cookie(server: WebServer, token: str) -> None:
    answer = server.request("/session", "POST", quote(token), {"X-Mydyno": "1"})
    assert answer.status in (401, 413)
    assert "set-cookie" not in answer.headers


def test_the_cookie_is_not_for_scripts_or_other_sites(server: WebServer) -> None:
    answer = server.request("/session", "POST", server.token, {"X-Mydyno": "1"})
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie and "samesite=strict" in cookie and f"mydyno_session_{server.port}" in cookie
    assert server.token.lower() not in cookie


@pytest.mark.parametrize(
    "host", ["evil.example", f"evil.example:{80}", "127.0.0.1.evil.example", "localhost.evil.example", "", "[::1", "0"]
)
def test_another_host_is_refused(server: WebServer, host: str) -> None:
    answer = server.request("/", headers={"Host": host, "Cookie": server.cookie})
    assert answer.status == 400
    assert "allocators" not in answer.text


def test_this_host_may_be_reached_through_a_tunnel_from_another_port(server: WebServer) -> None:
    assert server.request("/", headers={"Host": "localhost:9999", "Cookie": server.cookie}).status == 200


@pytest.mark.parametrize(
    "headers",
    [{"X-Mydyno": ""}, {"Origin": "http://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"},
     {"Sec-Fetch-Site": "same-site"}],
)  # fmt: skip
def test_a_post_from_another_site_is_refused(server: WebServer, headers: dict[str, str]) -> None:
    sent = {"Cookie": server.cookie, "X-Mydyno": "1"} | headers
    if not sent["X-Mydyno"]:
        del sent["X-Mydyno"]
    assert server.request(f"/studies/{RUNNING}/stop", "POST", "", sent).status == 403


def test_what_is_not_a_page_cannot_be_changed(server: WebServer) -> None:
    assert server.post("/").status == 405
    assert server.request(f"/studies/{RUNNING}/stop", headers={"Cookie": server.cookie}).status == 405


@pytest.fixture
def linked(studies: Path) -> Iterator[None]:
    """A study outside of the folder, and links to it."""
    secret = studies.parent / "secret"
    links = (studies / "linked", studies / COMPLETE / "blocks/01/linked")
    secret.mkdir()
    (secret / "study.json").write_text((studies / COMPLETE / "study.json").read_text())
    (secret / "report.html").write_text("SECRET")
    (secret / "my.cnf").write_text("SECRET")
    for link in links:
        link.symlink_to(secret)
    yield
    for link in links:
        link.unlink()
    shutil.rmtree(secret)


@pytest.mark.parametrize(
    "path",
    [
        "/assets/../access.py", "/assets/..%2faccess.py", "/assets/%2e%2e/app.py", "/assets//etc/passwd",
        "/studies/..", "/studies/%2e%2e", "/studies/..%2fsecret", "/studies/%2e%2e%2fsecret/report.html",
        "/studies//etc", "/studies/secret", "/studies/linked", "/studies/.hidden",
        f"/studies/{COMPLETE}/runs/../../secret", f"/studies/{COMPLETE}/runs/01/..",
        f"/studies/{COMPLETE}/runs/01/linked",
        f"/studies/{COMPLETE}/runs/01/%2e%2e%2f%2e%2e", f"/studies/{COMPLETE}/runs/..%2f../01",
        f"/studies/{COMPLETE}/runs/01/linked/telemetry", f"/studies/{COMPLETE}/study.json",
    ],
)  # fmt: skip
def test_no_path_leads_out_of_the_folder(server: WebServer, linked: None, path: str) -> None:
    answer = server.get(path)
    assert answer.status == 404, answer.text[:200]
    assert "SECRET" not in answer.text


def test_a_linked_file_is_not_followed(server: WebServer, studies: Path) -> None:
    (run,) = (studies / RUNNING / "blocks/01").glob("2-*")
    link = run / "server-9.log"
    link.symlink_to("/etc/passwd")
    try:
        page = server.get(f"/studies/{RUNNING}/runs/01/{run.name}").text
    finally:
        link.unlink()
    assert "server-9.log" not in page and "root:" not in page


def test_the_output_of_an_external_servers_hooks_is_shown(server: WebServer, studies: Path) -> None:
    run = next((studies / COMPLETE / "blocks/01").glob("1-*"))
    log, other = run / "hooks.log", run / "hooks.log.old"
    log.write_text("$ systemctl restart mariadb\n<stopped>\n")
    other.write_text("SECRET")
    try:
        page = server.get(f"/studies/{COMPLETE}/runs/01/{run.name}").text
    finally:
        log.unlink()
        other.unlink()
    assert "hooks.log" in page and "$ systemctl restart mariadb\n&lt;stopped&gt;" in page
    assert "SECRET" not in page


def test_every_response_has_the_security_headers(server: WebServer) -> None:
    for path in ("/", f"/studies/{COMPLETE}", "/nowhere", "/assets/web.css"):
        headers = server.get(path).headers
        assert "default-src 'self'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
    report = server.get(f"/studies/{COMPLETE}/report.html").headers["content-security-policy"]
    assert report.startswith("sandbox allow-scripts;") and "default-src 'none'" in report
    assert "allow-same-origin" not in report


def test_hostile_names_are_text(server: WebServer, studies: Path) -> None:
    name = quote(HOSTILE.replace("/", "∕"))
    (run,) = (studies / HOSTILE.replace("/", "∕") / "blocks/01").glob("1-*")
    query = quote(HOSTILE)
    for path in (
        "/",
        f"/?host={query}&sort={query}&q=script",
        f"/studies/{name}",
        f"/studies/{name}/runs/01/{run.name}",
    ):
        page = server.get(path).text
        assert "&lt;script&gt;" in page
        assert "<script>document" not in page and "<img" not in page


def test_fifty_clients_at_once_all_get_every_line(server: WebServer, running: Path) -> None:
    with LiveWriter(running) as writer, ThreadPoolExecutor(51) as pool:
        from_ = (running / LIVE_FILE).stat().st_size
        listening = [pool.submit(_notes, server, f"/studies/{RUNNING}/live/events?from={from_}") for _ in range(50)]
        for number in range(20):
            writer.write("note", text=f"note {number}")
        assert server.get("/").status == 200
        assert [one.result(HANG_S) for one in listening] == [[f"note {number}" for number in range(20)]] * 50


def _notes(server: WebServer, path: str, last_event_id: str = "") -> list[str]:
    """The texts of the first 20 notes of a stream; each event's id is checked to lead to the next line."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=HANG_S) as connection:
        extra = f"Last-Event-ID: {last_event_id}\r\n" if last_event_id else ""
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nCookie: {server.cookie}\r\n{extra}\r\n".encode())
        found: list[str] = []
        with connection.makefile("r") as stream:
            for line in stream:
                if line.startswith("data: ") and '"note"' in line:
                    found.append(json.loads(line[6:])["text"])
                if len(found) == 20:
                    break
    return found


def test_a_client_goes_on_after_the_last_event_that_it_has(server: WebServer, running: Path) -> None:
    with LiveWriter(running) as writer:
        for number in range(30):
            writer.write("note", text=f"note {number}")
        tenth = read_live(running / LIVE_FILE)[10].end
        found = _notes(server, f"/studies/{RUNNING}/live/events?from=0", str(tenth))
    assert found == [f"note {number}" for number in range(10, 30)]


def test_the_stream_of_a_study_that_has_ended_ends(server: WebServer, running: Path) -> None:
    with LiveWriter(running) as writer:
        writer.write("note", text="the last one")
        writer.write("ended", state="complete")
        stream = server.get(f"/studies/{RUNNING}/live/events?from=0")  # reads to the end of the response
    assert stream.status == 200 and "the last one" in stream.text
    assert stream.text.split("event: ")[-1].startswith("process") and '"kind": "ended"' in stream.text


def test_metrics_are_of_studies_that_run_alone(server: WebServer, running: Path) -> None:
    assert server.request("/metrics").status == 200, "the scraper has no cookie"
    with LiveWriter(running) as writer:
        writer.write("second", state="slice", arm="glibc", step="a-8", qps=1234.5, latency_us={"p99": 2500.0})
        text = server.request("/metrics").text
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    rates = {one.name: one.value for one in samples if one.labels.get("step") == "a-8"}
    assert rates == {"mydyno_queries_per_second": 1234.5, "mydyno_latency_seconds": 0.0025}
    assert {one.labels["study"] for one in samples} == {RUNNING}


def test_metrics_without_a_token_open_nothing_else(server: WebServer, studies: Path) -> None:
    for path in ("/", "/metrics/", "/metrics/x", "//metrics", "/metrics%2f..%2f", f"/studies/{RUNNING}"):
        assert server.request(path).status == 401, path
    assert server.request("/metrics", headers={"Host": "attacker.example"}).status == 400, "DNS rebinding"
    assert server.request("/metrics", "POST").status == 403
    with WebServer(studies) as closed:
        assert closed.request("/metrics").status == 401
        closed.log_in()
        answer = closed.get("/metrics")
        assert answer.status == 404 and "without --metrics" in answer.text


def test_only_the_studys_own_process_is_ever_stopped(server: WebServer, studies: Path) -> None:
    """A live.jsonl that was copied, or made up, may name any process."""
    victim = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    try:
        identity = ProcessIdentity.of(victim.pid)
        assert identity is not None
        with LiveWriter(studies / RUNNING) as writer:
            text = (studies / RUNNING / LIVE_FILE).read_text()
            own = json.loads(text.splitlines()[0])
            named = {**own, "pid": victim.pid, "start_ticks": identity.start_ticks}
            (studies / COMPLETE / LIVE_FILE).write_text(json.dumps(named, separators=(",", ":")) + "\n")
            answer = server.post(f"/studies/{COMPLETE}/stop")
            assert answer.status == 409 and "does not write this study" in answer.text
            assert victim.poll() is None
            assert server.post(f"/studies/{RUNNING}/stop").status == 202
            assert ended(writer.process, "the study") == 130
        again = server.post(f"/studies/{RUNNING}/stop")
        assert again.status == 409 and "has ended" in again.text
    finally:
        victim.kill()
        victim.wait()
        for study in (COMPLETE, RUNNING):
            (studies / study / LIVE_FILE).unlink(missing_ok=True)


def test_a_unix_socket_is_for_its_owner_alone(studies: Path, short_folder: Path) -> None:
    path = short_folder / "serve.sock"
    command = [sys.executable, "-m", "mydyno.cli", "serve", "--studies", str(studies), "--socket", str(path)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "MYDYNO_CACHE": str(studies.parent / "cache")}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    try:
        assert first_line(process, "mydyno serve").startswith("http://localhost/#token=")
        assert path.stat().st_mode & 0o777 == 0o600
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(HANG_S)
            client.connect(str(path))
            client.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert b"401" in client.recv(100)
    finally:
        process.terminate()
        process.communicate(timeout=HANG_S)
    assert not path.exists()
