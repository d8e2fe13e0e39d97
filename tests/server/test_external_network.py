"""Bandwidth, TLS and compression to a server on another host: a namespace with a server that mydyno did not start."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mydyno.servers.build import ServerBuild
from tests.support.network_study import NetworkStudy, means_or_words, network_study
from tests.support.patience import HANG_S
from tests.support.second_host import CARD, PASSWORD, SecondHost, second_host

pytestmark = [pytest.mark.needs_cpus, pytest.mark.alone, pytest.mark.exhaustive]
EXPERIMENT = """
name = "farserver"
question = "What can the load's side alone do?"
server = { name = "mariadb-10.11", variables = { innodb_buffer_pool_size = "64M" } }
data = { tables = 1, rows = 1000 }
validity = { steady = "report", driver_cpu = 1, steal = "99%" }
verdict.primary = "tps"
published = ["study-4"]
[factors]
control = "slow-plain"
[factors.bandwidth]
slow = { network = "100mbit" }
[factors.spoken]
plain = { tls = "off", compression = "off" }
zlib = { tls = "off", compression = "zlib" }
tls = { tls = { version = "1.3", cipher = "TLS_AES_128_GCM_SHA256" }, compression = "off" }
[[steps]]
workload = "oltp_read_only"
connections = 4
warmup = "1s"
measure = "2s"
driver = "dynoload"
[design]
blocks = 1
"""


class FarStudy:
    """The program on the first host, with the second one's server as its own."""

    def __init__(self, study: NetworkStudy, host: SecondHost) -> None:
        self.study = study
        self.host = host

    def finish(self, command: str, *arguments: str) -> tuple[int, str]:
        words = [
            sys.executable,
            "-m",
            "mydyno.cli",
            command,
            str(self.study.file),
            "--set",
            f"server.dsn={self.host.dsn}",
        ]
        done = subprocess.run(
            [*self.host.entering, *words, *arguments],
            env={**self.study.environment, **self.host.ethtool.environment, "MYDYNO_DSN_PASSWORD": PASSWORD},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=HANG_S,
        )
        return done.returncode, done.stdout


@pytest.fixture(scope="module")
def far(build: ServerBuild) -> Iterator[FarStudy | None]:
    """The two hosts, and an experiment for them."""
    if not means_or_words():
        yield None
        return
    with network_study("farserver", EXPERIMENT) as study, second_host(build, study.folder) as host:
        yield FarStudy(study, host)


@pytest.fixture(scope="module")
def runs(far: FarStudy | None) -> dict[str, Any] | None:
    """{arm: run.json} of the whole study, its summary under "summary", its report under "report"."""
    if far is None:
        return None
    exit_code, told = far.finish(
        "run", "--set", f"server.card={CARD}", "--allow-writes", "--studies", str(far.study.studies)
    )
    assert exit_code == 0, told
    (folder,) = far.study.studies.iterdir()
    found = {run["arm"]: run for file in folder.glob("blocks/*/*/run.json") if (run := json.loads(file.read_text()))}
    found["summary"] = json.loads((folder / "summary.json").read_text())
    return found | {"report": (folder / "report.html").read_text()}


def evidence(run: dict[str, Any], treatment: str) -> list[dict[str, Any]]:
    assert run["valid"], run["reasons"]
    return [one for one in run["evidence"] if one["treatment"] == treatment]


def test_plan_says_which_factors_need_the_server_s_host(far: FarStudy | None) -> None:
    if far is None:
        return
    exit_code, told = far.finish("plan")
    assert exit_code == 3, told
    assert "network: shaping both directions needs the server's host" in told
    assert f"--set server.card={CARD}" in told
    assert "tls:" not in told
    assert "compression:" not in told
    exit_code, told = far.finish("plan", "--set", f"server.card={CARD}")
    assert exit_code == 0, told
    assert f"{CARD} set to 100 Mb/s by ethtool" in told
    assert far.host.dsn in told


def test_the_card_s_speed_is_proved_by_reading_it_back_and_by_a_transfer(runs: dict[str, Any] | None) -> None:
    if runs is None:
        return
    (proof,) = evidence(runs["slow-plain"], "network")
    assert proof["text"].startswith(f"ethtool reports 100 Mb/s, full duplex of {CARD}; ")
    assert "Ethernet of 100 Mbit/s delivers" in proof["text"]
    for way in ("to_load", "to_server"):
        assert proof["facts"][f"{way}_bits_per_s"] == pytest.approx(100e6 * 1448 / 1538, rel=0.05)


def test_the_card_is_given_back_after_each_run(far: FarStudy | None, runs: dict[str, Any] | None) -> None:
    if far is None or runs is None:
        return
    assert far.host.ethtool.state == (10000, "on")
    changes = far.host.ethtool.changes
    assert len(changes) == 2 * 4, "four runs, each set and given back"
    assert all("autoneg on advertise" in change for change in changes[1::2])
    assert list((far.study.cache / "undo").glob("*")) == []


def test_compression_and_plain_text_are_proved_from_the_load_s_side(runs: dict[str, Any] | None) -> None:
    if runs is None:
        return
    session, load = evidence(runs["slow-zlib"], "compression")
    assert "Compression ON" in session["text"]
    assert load["facts"]["received_share"] < 0.8
    plain, counted = evidence(runs["slow-zlib"], "tls")
    assert "Ssl_cipher is empty" in plain["text"]
    assert counted["text"] == "oltp_read_only-4: dynoload counted 0 TLS handshakes"


def test_tls_is_proved_by_the_load_s_own_count(runs: dict[str, Any] | None) -> None:
    if runs is None:
        return
    session, counted = evidence(runs["slow-tls"], "tls")
    assert "Ssl_version TLSv1.3" in session["text"]
    assert "(4 with TLSv1.3 TLS_AES_128_GCM_SHA256)" in counted["text"]
    assert "sessions with TLS," not in counted["text"], "the server's count has other people's sessions in it"


def test_limits_speak_of_the_link_and_this_host_alone(runs: dict[str, Any] | None) -> None:
    if runs is None:
        return
    limits = {limit["arm"]: limit for limit in runs["summary"]["limits"]}
    assert set(limits) == {"slow-plain", "slow-zlib", "slow-tls"}
    assert limits["slow-plain"]["shares"]["link"] > 0.3, "what came in by the load's own interface"
    assert all("server" not in limit["shares"] for limit in limits.values())
    assert "host is not measured" in runs["report"]
    assert "the load&#39;s interface received" in runs["report"] or "the load's interface received" in runs["report"]


def test_a_version_that_the_server_does_not_speak_makes_its_runs_invalid(far: FarStudy | None) -> None:
    if far is None:
        return
    asked = '--set=factors.spoken={plain={tls="off"},zlib={tls="1.2"}}'
    exit_code, told = far.finish(
        "run", asked, "--set", "factors.bandwidth={slow={network={}}}", "--allow-writes", "--studies",
        str(far.study.folder / "refused"),
    )  # fmt: skip
    assert exit_code in (0, 1), told
    assert "INVALID: treatment not proved: tls: a session on the load's path" in told


def test_a_card_that_nobody_has_is_an_obstacle(far: FarStudy | None) -> None:
    if far is None:
        return
    exit_code, told = far.finish("plan", "--set", "server.card=lo")
    assert exit_code == 3, told
    assert f"server.card is lo, but to 198.51.100.2 leads {CARD}" in told
    file = Path(far.study.file)
    assert "mariadb-10.11" in file.read_text(), "the same file, whose own server the DSN took the place of"
