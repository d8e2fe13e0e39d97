"""Real namespaces, a real server in one and a real load in the other. Needs root, and says so where it has none."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mydyno.hosts.network import namespace
from mydyno.hosts.network.link import (
    LOAD_INTERFACE,
    SERVER_INTERFACE,
    LinkEnd,
    Shape,
    disciplines,
    free_addresses,
    make_link,
    shape_link,
    taken_networks,
    timed_transfer,
)
from mydyno.hosts.undo import UndoJournal
from mydyno.model.definition.quantities import parse_bits_per_s
from mydyno.treatments.link_proof import judge
from tests.support.network_study import NetworkStudy, means_or_words, network_study
from tests.support.not_run import note_not_run
from tests.support.worded import worded_json

CIPHER = "ECDHE-ECDSA-AES128-GCM-SHA256"
ATTEMPTS = 3
"""On a host whose CPUs are taken away for a while a proof may be refused, as it should be."""
EXPERIMENT = f"""
name = "netserver"
question = "Does every part of the path hold?"
server.name = "mariadb-10.11"
server.variables = {{ innodb_buffer_pool_size = "64M" }}
data = {{ tables = 1, rows = 1000 }}
validity = {{ steady = "report", driver_cpu = 1, steal = "99%" }}
[arms]
control = "plain"
plain = {{ network = "20mbit", tls = "off", compression = "off" }}
chosen.network = "10mbit"
chosen.tls = {{ version = "1.2", cipher = "{CIPHER}", verify = "identity", key = "ecdsa-p256" }}
chosen.compression = "zlib"
loopback = {{ tls = {{ version = "1.3", resumption = false }}, compression = {{ algorithm = "zlib", level = 1 }} }}
[[steps]]
workload = "oltp_read_only"
connections = 4
warmup = "0s"
measure = "2s"
driver = "dynoload"
[[steps]]
workload = "oltp_update_index"
connections = 2
warmup = "0s"
measure = "1s"
driver = "dynoload"
[[steps]]
workload = "connect"
connections = 2
warmup = "0s"
measure = "2s"
driver = "dynoload"
[design]
kind = "blocks"
blocks = 1
"""


def host_view() -> list[str]:
    """The host's own interfaces and disciplines, which no test may change."""
    views = (["ip", "-o", "link", "show"], ["ip", "-o", "address", "show"], ["tc", "qdisc", "show"])
    return [subprocess.run(view, capture_output=True, text=True, check=True).stdout for view in views]


@pytest.mark.needs_cpus
@pytest.mark.alone
def test_a_shaped_link_delivers_what_its_speed_does_and_leaves_nothing(tmp_path: Path) -> None:
    if not means_or_words():
        return
    before = host_view()
    study = f"linktest-{os.getpid()}"
    journal = UndoJournal.begin(tmp_path / "undo", study, tmp_path)
    server_address, load_address = free_addresses(taken_networks())
    ends = (
        LinkEnd(namespace.namespace_path(study, "server"), SERVER_INTERFACE, server_address),
        LinkEnd(namespace.namespace_path(study, "load"), LOAD_INTERFACE, load_address),
    )
    shape = Shape(parse_bits_per_s("100mbit"))
    try:
        for end in ends:
            journal.will_change("namespace", path=str(end.namespace), interfaces=[end.interface])
            namespace.make_namespace(end.namespace)
        make_link(*ends)
        bare = timed_transfer(ends[0].namespace, ends[1].namespace, load_address)
        shape_link(ends, shape)
        down = timed_transfer(ends[0].namespace, ends[1].namespace, load_address)
        up = timed_transfer(ends[1].namespace, ends[0].namespace, server_address)
        assert bare.bits_per_s > 3 * down.bits_per_s
        proof = judge(shape, bare.bits_per_s, down, up)
        assert proof.holds, proof.text
        assert proof.reached
        assert [one["kind"] for one in disciplines(ends[0])] == ["tbf"]
        assert host_view() == before, "the host's own namespace is untouched"
    finally:
        left = journal.undo_all()
    assert left == []
    assert not any(end.namespace.exists() for end in ends)
    assert host_view() == before


@pytest.fixture(scope="module")
def study(apart: list[str]) -> Iterator[tuple[NetworkStudy, dict[str, Any]] | None]:
    """{arm: run.json} of one block, and its summary under "summary"."""
    if not means_or_words():
        yield None
        return
    with network_study("netserver", EXPERIMENT, apart) as made:
        for attempt in range(1, ATTEMPTS + 1):
            studies = made.studies / str(attempt)
            exit_code, output = made.finish("run", str(made.file), "--studies", str(studies))
            assert exit_code == 0, output
            (folder,) = studies.iterdir()
            files = folder.glob("blocks/*/*/run.json")
            runs = {run["arm"]: run for file in files if (run := json.loads(file.read_text()))}
            refused = [words for run in runs.values() for words in unproved(run)]
            if not refused:
                break
            note_not_run(f"attempt {attempt} of {ATTEMPTS} at the network study: {'; '.join(refused)}")
        yield made, {**runs, "summary": worded_json(folder)}


def unproved(run: dict[str, Any]) -> list[str]:
    return [f"{run['arm']}: {evidence['text']}" for evidence in run["evidence"] if not evidence["holds"]]


def texts(run: dict[str, Any], treatment: str) -> str:
    assert unproved(run) == []
    return "\n".join(evidence["text"] for evidence in run["evidence"] if evidence["treatment"] == treatment)


def test_plain_and_raw_are_proved_like_anything_else(study: tuple[NetworkStudy, dict[str, Any]] | None) -> None:
    if study is None:
        return
    run = study[1]["plain"]
    assert "Ethernet of 20 Mbit/s delivers 19" in texts(run, "network")
    assert "Ssl_cipher is empty" in texts(run, "tls")
    assert "made a TLS handshake" in texts(run, "tls")
    assert "Compression OFF" in texts(run, "compression")
    assert run["valid"], run["reasons"]


def test_a_chosen_suite_with_a_verified_certificate_and_zlib_is_proved(
    study: tuple[NetworkStudy, dict[str, Any]] | None,
) -> None:
    if study is None:
        return
    run = study[1]["chosen"]
    assert f"Ssl_version TLSv1.2, Ssl_cipher {CIPHER}" in texts(run, "tls")
    assert "Compression ON" in texts(run, "compression")
    assert "connect-2: connections end with their login" in texts(run, "compression")
    counted = [e for e in run["evidence"] if e["treatment"] == "compression" and "received_share" in e["facts"]]
    load, writing = sorted(counted, key=lambda one: str(one["facts"]["step"]))
    assert "the packets are too small to be compressed" in writing["text"]
    assert load["facts"]["received_share"] < 0.8
    carried, wire = load["facts"]["interface_bytes"], load["facts"]["wire_received_bytes"]
    assert 0.7 < carried / wire < 1.5, "the interface saw what the driver received, and headers"


def test_without_a_link_the_load_comes_over_loopback(study: tuple[NetworkStudy, dict[str, Any]] | None) -> None:
    if study is None:
        return
    run = study[1]["loopback"]
    assert "Ssl_version TLSv1.3" in texts(run, "tls")
    assert any(word.startswith("--host=127.0.0.1") for word in run["steps"][0]["driver"]["command"])
    assert "--compression=zlib:1" in run["steps"][0]["driver"]["command"]


def test_connections_that_come_and_go_are_counted_by_the_server_and_cost_more_with_tls(
    study: tuple[NetworkStudy, dict[str, Any]] | None,
) -> None:
    if study is None:
        return
    made = {}
    for arm in ("plain", "chosen", "loopback"):
        (step,) = [step for step in study[1][arm]["steps"] if step["id"] == "connect-2"]
        whole = step["driver"]["whole"]["transactions"]
        assert abs(step["server_counters"]["Connections"] - whole) <= 10
        assert step["valid"], step["reasons"]
        made[arm] = step["driver"]["transactions"]
    assert made["plain"] > made["chosen"]
    assert "the server resumes sessions, and the load offers its own" in texts(study[1]["chosen"], "tls")
    assert "the server resumes sessions, the load offers no session" in texts(study[1]["loopback"], "tls")


def test_bytes_and_cpu_per_transaction_and_a_limit_are_told(study: tuple[NetworkStudy, dict[str, Any]] | None) -> None:
    if study is None:
        return
    summary = study[1]["summary"]
    for run in summary["runs"]:
        values = run["values"]["oltp_read_only-4"]
        assert values["server_cpu_us_per_transaction"] > 0
        if run["arm"] == "plain":
            assert 30_000 < values["network_bytes_per_transaction"] < 60_000, "published: 42,400 bytes"
        told = "network_bytes_per_transaction" in values
        assert told == (run["arm"] != "loopback"), "no sampled interface sees loopback"
    assert {limit["arm"] for limit in summary["limits"]} == {"plain", "chosen"}
    assert {limit["step"] for limit in summary["limits"]} == {"connect-2", "oltp_read_only-4", "oltp_update_index-2"}


def test_nothing_is_left_of_the_study(study: tuple[NetworkStudy, dict[str, Any]] | None) -> None:
    if study is None:
        return
    assert study[0].namespaces() == []
    assert study[0].processes() == []
    assert list((study[0].cache / "undo").glob("*")) == []
