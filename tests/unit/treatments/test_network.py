"""network, tls, compression: settings, obstacles, and what counts as proof."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mydyno.drivers.dynoload import OltpArguments, protocol_arguments
from mydyno.drivers.held import interval_values, result_of
from mydyno.errors import HostError, ServerError, UserError
from mydyno.execution.planning.design_choice import choose_design
from mydyno.execution.planning.forecast import forecast
from mydyno.experiments import load
from mydyno.hosts.local import LocalHost
from mydyno.hosts.network.link import LinkEnd, Shape, Transfer
from mydyno.hosts.paths import HostPaths
from mydyno.hosts.undo import UndoJournal
from mydyno.model.definition.experiment import ServerSpec, StepSpec
from mydyno.model.definition.plan import make_plan
from mydyno.model.server_version import ServerVersion
from mydyno.model.stored.records import DriverResult, Evidence, StepRecord
from mydyno.servers.running.base import ClientPath, InstanceSettings
from mydyno.servers.sql import Address, ClientTls
from mydyno.store.samples import Sample
from mydyno.treatments.compression import CompressionTreatment
from mydyno.treatments.link_proof import LinkProof, judge
from mydyno.treatments.network import NetworkTreatment
from mydyno.treatments.tls import TlsSetting, TlsTreatment, off_variables, server_variables
from mydyno.workloads.data import kind_of
from tests.support.fake_host import FakeHost, of_network
from tests.support.fake_script import experiment

MARIADB = ServerVersion.parse("10.11.19-MariaDB")
SERVER = ServerSpec(name="mariadb-10.11")
EXTERNAL = ServerSpec(dsn="mysql://user@host/sbtest")


TBF_100_MBIT = {"kind": "tbf", "options": {"rate": 12304942}}


def transfer(mbit_per_s: float, busy: float = 0.3) -> Transfer:
    return Transfer(mbit_per_s * 1e6, busy)


def handshakes(full: int, resumed: int, version: str = "1.3", suite: str = "TLS_AES_128_GCM_SHA256") -> dict[str, Any]:
    """As dynoload tells them."""
    agreed = {"version": f"TLSv{version}", "cipher_suite": suite, "connections": full + resumed}
    return {"whole_load": {"full": full, "resumed": resumed, "negotiated": [agreed] if full + resumed else []}}


def step(
    counters: dict[str, float] | None = None, traffic: dict[str, int] | None = None, tls: dict[str, Any] | None = None
) -> StepRecord:
    result = DriverResult(
        driver="dynoload",
        version="1",
        command=("dynoload", "--ssl-mode=required"),
        transactions=1,
        queries=16,
        duration_s=2,
        traffic=traffic or {},
        tls=tls or {},
    )
    return StepRecord(
        id="oltp_read_only-64",
        workload="oltp_read_only",
        connections=64,
        started_unix_ns=0,
        warmup_s=1,
        measure_s=2,
        driver=result,
        server_counters=counters or {},
    )


def test_a_link_within_five_percent_of_ethernet_holds() -> None:
    proof = judge(Shape(1e9), 20e9, transfer(941), transfer(939))
    assert (proof.holds, proof.reached) == (True, True)
    assert proof.text == (
        "941 Mbit/s from server to load, 939 Mbit/s back (TCP payload, timed); Ethernet of 1000 Mbit/s delivers 941"
    )


@pytest.mark.parametrize(("down", "up"), [(1000, 941), (941, 1400), (850, 941), (941, 600)])
def test_a_link_that_is_off_in_either_direction_does_not_hold(down: float, up: float) -> None:
    proof = judge(Shape(1e9), 20e9, transfer(down, busy=1.0), transfer(up, busy=1.0))
    assert (proof.holds, proof.reached) == (False, False)


def test_a_cap_beyond_the_host_is_said_and_never_pretended() -> None:
    proof = judge(Shape(10e9), 20e9, transfer(7600, busy=0.97), transfer(7500, busy=0.95))
    assert (proof.holds, proof.reached) == (True, False)
    assert "the bandwidth was not reached" in proof.text
    assert "its CPUs are the limit, not the link" in proof.text
    idle = judge(Shape(10e9), 20e9, transfer(7600), transfer(7500))
    assert not idle.holds, "CPUs that were idle explain nothing"


def test_a_bare_pair_is_told_as_it_is() -> None:
    assert judge(Shape(), 20e9, transfer(20_000), transfer(19_000)) == LinkProof(
        True,
        True,
        "20000 Mbit/s from server to load, 19000 Mbit/s back (TCP payload, timed), not shaped",
    )


def test_a_latency_is_said_and_explains_a_slow_connection() -> None:
    assert judge(Shape(None, "1ms"), 20e9, transfer(900), transfer(800)).text.endswith("timed), 1ms added each way")
    proof = judge(Shape(1e8, "50ms"), 20e9, transfer(60), transfer(30))
    assert (proof.holds, proof.reached) == (True, True)
    assert proof.text.endswith("limits a single connection; Ethernet of 100 Mbit/s delivers 94, 50ms added each way")
    assert not judge(Shape(1e8, "50ms"), 20e9, transfer(110), transfer(30)).holds
    assert not judge(Shape(1e8, "50us"), 20e9, transfer(60), transfer(30)).holds, (
        "its round trip is that of any network"
    )
    assert not judge(Shape(1e10, "2ms"), 941e6, transfer(900), transfer(900)).holds, "the network itself is too slow"


@pytest.mark.parametrize(
    ("kinds", "holds"), [(("netem", "tbf"), True), (("tbf",), False), (("netem",), False), ((), False)]
)
async def test_a_link_is_proved_by_its_disciplines_too(kinds: tuple[str, ...], holds: bool) -> None:
    treatment = Timed({"bandwidth": "100mbit", "latency": "50ms"}, transfer(60), transfer(40))
    reported = [{"kind": "netem", "options": {"delay": {"delay": 0.05}}}, TBF_100_MBIT]
    found = json.dumps([one for one in reported if one["kind"] in kinds])
    treatment.root = FakeHost(answer=lambda argv: found if "-json" in argv else "")

    class Instance:
        number = 1
        host = LocalHost("study", None)

    evidence = await treatment.evidence(Instance())  # type: ignore[arg-type]
    assert evidence.holds is holds
    assert ("not as requested" in evidence.text) is not holds
    assert treatment.results == [], "a slow transfer is not made again"


@pytest.mark.parametrize(
    ("setting", "taken", "is_root", "words"),
    [
        ({"bandwidth": "1gbit"}, "127.0.0.1/8", True, ""),
        ({"latency": "50us"}, "127.0.0.1/8", True, "netem"),
        ({}, "198.18.0.0/15", True, "in use on this host"),
        ({}, "127.0.0.1/8", False, "needs root"),
    ],
)
def test_obstacles_of_a_link(setting: dict[str, str], taken: str, is_root: bool, words: str) -> None:
    treatment = NetworkTreatment(setting)
    treatment.root = host = of_network(taken, "namespaces veth tbf htb")
    host.is_root = is_root
    obstacle = treatment.obstacle(SERVER)
    assert words in obstacle if obstacle else not words


async def test_an_arm_shapes_the_link_that_another_made_and_reads_it_back() -> None:
    server, load = (LinkEnd(Path(f"/run/netns/x-{one}"), f"dyno-{one}", "198.18.0.1") for one in ("server", "load"))
    host = FakeHost(answer=lambda argv: json.dumps([TBF_100_MBIT]) if "-json" in argv else "")
    instance: Any = SimpleNamespace(
        settings=InstanceSettings(link=(server, load)), host=SimpleNamespace(bare_link=Transfer(2e10, 0.5)), number=1
    )
    for bandwidth, holds in (("100mbit", True), ("1gbit", False)):
        treatment = NetworkTreatment(bandwidth)
        treatment.root = host
        await treatment.switch_on(instance)
        assert (await treatment.in_force(instance)).holds is holds
    assert [f"dyno-{end}" in line for line in host.ran[:2] for end in ("server", "load")] == [True, False, False, True]
    instance.settings.link = None
    with pytest.raises(HostError, match="only a link within this host is switched"):
        await treatment.switch_on(instance)
    assert not NetworkTreatment({"bandwidth": "1gbit", "by": "card"}).switches


@pytest.mark.parametrize(
    ("treatments", "words"),
    [
        ('{ network = { bandwidth = "1G" } }', 'a bandwidth such as "1gbit"'),
        ('{ network = { bandwith = "1gbit" } }', "bandwith"),
        ('{ network = { latency = "50" } }', "latency"),
        ('{ tls = "1.1" }', "tls"),
        ('{ tls = { version = "1.3", verify = "full" } }', "verify"),
        ('{ compression = "gzip" }', "compression"),
        ('{ compression = { algorithm = "zlib", level = 12 } }', "no level 12"),
    ],
)
def test_mistakes_in_settings_are_told_with_their_place(tmp_path: Path, treatments: str, words: str) -> None:
    file = tmp_path / "mistake.toml"
    file.write_text(
        'name = "mistake"\nquestion = "Is it found?"\nserver.name = "mariadb-10.11"\n'
        f'[arms]\ncontrol = "a"\na = {{}}\nb = {treatments}\n[[steps]]\nworkload = "oltp_read_only"\n'
    )
    with pytest.raises(Exception, match="mistake") as caught:
        load(str(file))
    assert words in str(caught.value)


def test_a_driver_that_cannot_prove_tls_or_compression_is_refused_before_anything_starts(paths: HostPaths) -> None:
    asked = experiment(
        arms=("off", "on"),
        treatments={"off": {"tls": "off", "compression": "off"}, "on": {"tls": "1.3", "compression": "zlib"}},
        steps=(StepSpec(workload="oltp_read_only", driver="sysbench", connections=(4,)),),
    )
    obstacles = forecast(asked, make_plan(asked), paths).obstacles
    assert [words.split(":")[0:2] for words in obstacles] == [["arm on", " tls"], ["arm on", " compression"]]
    assert 'driver = "dynoload"' in obstacles[0]


def test_a_link_between_hosts_is_not_switched_between_slices(paths: HostPaths) -> None:
    asked = experiment(
        treatments={"glibc": {"network": "1gbit"}, "jemalloc": {"network": "10gbit"}}, design={"kind": "switchback"}
    )
    plan = make_plan(asked, choose_design(asked, paths))
    found = [
        [words for words in forecast(asked, plan, paths, apart=apart).obstacles if "is switched" in words]
        for apart in (False, True)
    ]
    assert (len(found[0]), len(found[1])) == (0, 1)


def test_tls_is_held_to_one_version_in_each_servers_words() -> None:
    assert server_variables(MARIADB, TlsSetting(version="1.2", cipher="ECDHE-RSA-AES128-GCM-SHA256")) == {
        "tls_version": "TLSv1.2",
        "ssl_cipher": "ECDHE-RSA-AES128-GCM-SHA256",
        "require_secure_transport": "ON",
    }
    mysql = ServerVersion.parse("8.4.2")
    assert server_variables(mysql, TlsSetting(version="1.3", cipher="TLS_AES_128_GCM_SHA256"))["tls_ciphersuites"]
    with pytest.raises(ServerError, match=r"cannot be restricted to TLS 1\.3"):
        server_variables(ServerVersion.parse("5.7.44"), TlsSetting(version="1.3"))
    assert off_variables(MARIADB) == {"ssl": "OFF"}
    assert off_variables(mysql) == {"tls_version": ""}


@pytest.mark.parametrize(
    ("version", "begun", "encrypted", "holds"),
    [("1.3", 66, 65, True), ("1.3", 66, 10, False), ("1.3", 66, 0, False), ("off", 66, 0, True), ("off", 66, 1, False)],
)
def test_every_session_of_the_load_is_counted(version: str, begun: int, encrypted: int, holds: bool) -> None:
    counters = {"Connections": float(begun), "Ssl_accepts": float(encrypted), "Ssl_finished_accepts": float(encrypted)}
    counted = handshakes(64, 0) if version != "off" else None
    assert TlsTreatment(version).load_evidence(step(counters, tls=counted), []).holds is holds


SUITE = "TLS_AES_256_GCM_SHA384"


@pytest.mark.parametrize(
    ("setting", "workload", "counted", "holds", "words"),
    [
        (
            {"version": "1.3"},
            "oltp_read_only",
            handshakes(64, 0),
            True,
            "64 full handshakes and 0 resumed ones (64 with TLSv1.3",
        ),
        ({"version": "1.3"}, "oltp_read_only", handshakes(63, 0), False, "63 full"),
        ({"version": "1.2"}, "oltp_read_only", handshakes(64, 0), False, "64 with TLSv1.3"),
        ({"version": "1.3", "cipher": SUITE}, "oltp_read_only", handshakes(64, 0, suite=SUITE), True, SUITE),
        ({"version": "1.3", "cipher": SUITE}, "oltp_read_only", handshakes(64, 0), False, "TLS_AES_128"),
        ({"version": "1.3"}, "oltp_read_only", {}, False, "no session"),
        ({"version": "1.3"}, "connect", handshakes(70, 900), True, "70 full handshakes and 900 resumed ones"),
        ({"version": "1.3"}, "connect", handshakes(900, 70), False, "most should have been resumed"),
        ({"version": "1.3", "resumption": False}, "connect", handshakes(970, 0), True, "970 full"),
        (
            {"version": "1.3", "resumption": False},
            "connect",
            handshakes(900, 70),
            False,
            "no session should have been resumed",
        ),
        ({"version": "off"}, "connect", {}, True, "dynoload counted 0 TLS handshakes"),
        ({"version": "off"}, "connect", handshakes(64, 0), False, "dynoload counted 64 TLS handshakes"),
    ],
)
def test_dynoload_s_own_count_of_handshakes_must_fit_too(
    setting: dict[str, Any], workload: str, counted: dict[str, Any], holds: bool, words: str
) -> None:
    treatment = TlsTreatment(setting)
    treatment._resumes = True  # as its own two sessions found
    treatment._external = True  # nothing else is counted then
    asked = step(tls=counted).model_copy(update={"workload": workload})
    evidence = treatment.load_evidence(asked, [])
    assert evidence.holds is holds
    assert words in evidence.text


def test_a_server_that_resumes_nothing_is_no_fault_of_the_load() -> None:
    treatment = TlsTreatment("1.3")
    treatment._external = True
    asked = step(tls=handshakes(970, 0)).model_copy(update={"workload": "connect"})
    assert treatment.load_evidence(asked, []).holds


def test_sessions_that_nobody_counted_prove_nothing() -> None:
    assert not TlsTreatment("off").load_evidence(step(), []).holds


@pytest.mark.parametrize(
    ("algorithm", "compressed", "holds"),
    [("zlib", 540, True), ("zlib", 1000, False), ("off", 1000, True), ("off", 540, False)],
)
def test_compression_is_proved_by_bytes(algorithm: str, compressed: int, holds: bool) -> None:
    traffic = {"raw_received_bytes": 1000, "compressed_received_bytes": compressed}
    evidence = CompressionTreatment(algorithm).load_evidence(step(traffic=traffic), [])
    assert evidence.holds is holds
    assert evidence.facts["received_share"] == compressed / 1000


@pytest.mark.parametrize(
    ("algorithm", "traffic", "holds", "words"),
    [
        ("zlib", (176, 288, 480, 592), True, "(1.64; sent: 1.23): the packets are too small to be compressed"),
        ("zlib", (1600, 1620, 480, 592), True, "(1.01; sent: 1.23): the packets are too small to be compressed"),
        ("zlib", (1600, 1620, 480, 480), True, "(1.01; sent: 1.00): the packets are too small to be compressed"),
        ("zlib", (176, 176, 480, 480), False, "(1.00; sent: 1.00), wanted zlib"),
        ("zlib", (10000, 10010, 480, 480), False, "(1.00; sent: 1.00), wanted zlib"),
        ("zlib", (176, 288, 3200, 2000), True, "sent: 0.62)"),
        ("off", (176, 176, 3200, 2000), False, "sent: 0.62), wanted off"),
        ("off", (176, 176, 480, 480), True, "(1.00; sent: 1.00)"),
        ("off", (10000, 10100, 480, 480), True, "(1.01; sent: 1.00)"),
    ],
)
def test_compression_of_a_load_that_only_writes_is_proved_by_headers_or_by_what_was_sent(
    algorithm: str, traffic: tuple[int, ...], holds: bool, words: str
) -> None:
    names = ("raw_received_bytes", "compressed_received_bytes", "raw_sent_bytes", "compressed_sent_bytes")
    of_tls = {"wire_received_bytes": 2 * traffic[0], "wire_sent_bytes": 2 * traffic[2]}
    asked = step(traffic=dict(zip(names, traffic, strict=True)) | of_tls, tls=handshakes(64, 0))
    evidence = CompressionTreatment(algorithm).load_evidence(asked, [])
    assert evidence.holds is holds
    assert evidence.text.endswith(words)


SAMPLED_RATES = ((0.5, 0.0), (1.5, 40.0), (2.5, 300.0))
"""(s, bytes/s): the window of 2 s begins at 1 s, so half of the second rate is of the time before."""


def test_the_interfaces_own_count_stands_beside_it() -> None:
    samples = [Sample(int(t * 1e9), "host", "network_tx_bytes_per_s", rate) for t, rate in SAMPLED_RATES]
    traffic = {"raw_received_bytes": 1000, "compressed_received_bytes": 540}
    evidence = CompressionTreatment("zlib").load_evidence(step(traffic=traffic), samples)
    assert evidence.facts["interface_bytes"] == 600


def test_a_driver_that_counts_no_bytes_cannot_prove_compression() -> None:
    assert not CompressionTreatment("zlib").load_evidence(step(), []).holds
    assert CompressionTreatment("off").load_evidence(step(), []).holds


def test_connections_that_only_come_and_go_have_nothing_to_compress() -> None:
    coming_and_going = step(traffic={"raw_received_bytes": 100, "wire_received_bytes": 100}).model_copy(
        update={"workload": "connect"}
    )
    for algorithm in ("zlib", "off"):
        evidence = CompressionTreatment(algorithm).load_evidence(coming_and_going, [])
        assert evidence.holds
        assert "before the first packet" in evidence.text


def test_handshakes_cut_off_by_the_loads_end_are_no_plain_sessions() -> None:
    counters = {"Connections": 5000.0, "Ssl_accepts": 4940.0, "Ssl_finished_accepts": 4940.0}
    counted = handshakes(4900, 0)
    assert not TlsTreatment("1.3").load_evidence(step(counters, tls=counted), []).holds
    asked = step(counters, tls=counted).model_copy(update={"workload": "connect"})
    assert TlsTreatment("1.3").load_evidence(asked, []).holds
    assert not TlsTreatment("off").load_evidence(asked, []).holds


def test_the_sessions_that_count_waits_are_mydynos_own() -> None:
    for plain, holds in ((5, True), (6, False)):  # control, two of a probe, and of --waits: its reader and its sampler
        counters = {"Connections": 64.0 + plain, "Ssl_accepts": 64.0, "Ssl_finished_accepts": 64.0}
        assert TlsTreatment("1.3").load_evidence(step(counters, tls=handshakes(64, 0)), []).holds == holds


@pytest.mark.parametrize(
    ("resumption", "resumes", "words"),
    [
        (True, True, "the server resumes sessions, and the load offers its own"),
        (True, False, "the server resumes no session: every handshake is full"),
        (False, True, "the server resumes sessions, the load offers no session"),
    ],
)
def test_resumption_is_said_for_both_sides(resumption: bool, resumes: bool, words: str) -> None:
    treatment = TlsTreatment({"version": "1.3", "resumption": resumption})
    assert treatment._resuming({"resumes": resumes}) == words


def test_mariadb_has_no_zstd() -> None:
    assert "zlib only" in (CompressionTreatment("zstd").server_obstacle(SERVER) or "")
    assert CompressionTreatment("zstd").server_obstacle(ServerSpec(basedir="/opt/mysql")) is None


def test_what_is_spoken_reaches_dynoload() -> None:
    path = ClientPath("198.18.0.1", 3306, "198.18.0.2", Path("/run/netns/mydyno-x-load"))
    plain = path.address("dyno", b"secret")
    assert plain.entering == ["nsenter", "--net=/run/netns/mydyno-x-load", "--"]
    assert protocol_arguments(plain) == []
    spoken: dict[str, Any] = {"tls": ClientTls("verify_ca", Path("/ca.pem"), ("1.2",), ("A", "B"), False)}
    assert protocol_arguments(Address("dyno", b"secret", compression="zlib:3", **spoken)) == [
        "--compression=zlib:3",
        "--ssl-mode=verify_ca",
        "--ssl-ca=/ca.pem",
        "--tls-versions=1.2",
        "--ssl-ciphers=A,B",
        "--tls-resumption=off",
    ]
    assert protocol_arguments(Address("dyno", b"secret", tls=ClientTls())) == [
        "--ssl-mode=disabled",
        "--get-server-public-key",
    ]


def test_other_texts_than_digits_are_prepared_and_asked_by_dynoload_alone() -> None:
    asked, _ = load("network", "standard", ["data.text=words"])
    assert "--row-text=words" in OltpArguments().data(asked.data)
    assert not any("row-text" in word for word in OltpArguments().data(load("network")[0].data))
    assert kind_of(asked.data).words(asked.data) == "8 tables of 250,000 rows of words"
    assert kind_of(asked.data).short(asked.data) == "8x250000-words", "kept apart from digits"
    with pytest.raises(UserError, match="sysbench creates rows of digits only"):
        load("allocators", "quick", ["data.text=random", "steps.driver=sysbench"])
    with pytest.raises(UserError, match="is for the data oltp alone"):
        load("cgroup-isolation", "quick", ["data.text=random"])


def test_the_built_in_experiment_is_the_full_product() -> None:
    asked, _ = load("network", "standard")
    assert len(asked.arms) == 8
    assert len(load("network")[0].arms) == 12
    assert asked.arm("1gbit-tls-zlib").treatments == {
        "network": "1gbit",
        "tls": "1.3",
        "compression": "zlib",
    }
    published, _ = load("network", "published")
    assert published.steps[0].connections[-1] == 2048
    assert published.steps[0].driver == "dynoload"


END = LinkEnd(Path("/run/netns/none"), "dyno-load", "198.18.0.2")


class Timed(NetworkTreatment):
    """Whose transfers have these results, in order."""

    def __init__(self, value: str | dict[str, Any], *results: Transfer | OSError) -> None:
        super().__init__(value)
        self.results = list(results)
        self._ends, self._bare = (END, END), transfer(20_000)
        self.root = FakeHost()

    def timed(self, source: LinkEnd, destination: LinkEnd) -> Transfer:
        result = self.results.pop(0)
        if isinstance(result, OSError):
            raise result
        return result


async def test_a_link_that_carries_nothing_is_evidence_that_does_not_hold() -> None:
    treatment = Timed("1gbit", *[OSError("nothing")] * 3)

    class Instance:
        number = 1
        host = LocalHost("study", None)

    evidence = await treatment.evidence(Instance())  # type: ignore[arg-type]
    assert not evidence.holds
    assert "no data arrive" in evidence.text


async def test_proofs_of_several_links_are_timed_one_after_another() -> None:
    running, most, made = 0, 0, 0
    host = LocalHost("study", None)

    class Counted(Timed):
        def __init__(self) -> None:
            super().__init__("100mbit")
            self.root = FakeHost(answer=lambda argv: json.dumps([TBF_100_MBIT]) if "-json" in argv else "")

        async def _transfer(self, source: LinkEnd, destination: LinkEnd) -> Transfer:
            nonlocal running, most, made
            running, made = running + 1, made + 1
            most = max(most, running)
            await asyncio.sleep(0)
            running -= 1
            return transfer(94)

    class Instance:
        def __init__(self, number: int) -> None:
            self.number = number
            self.host = host

    async def proof(number: int) -> Evidence:
        return await Counted().evidence(Instance(number))  # type: ignore[arg-type]

    found = await asyncio.gather(*(proof(number) for number in range(1, 5)))
    assert [one.instance for one in found] == [1, 2, 3, 4]
    assert all(one.holds for one in found)
    assert (most, made) == (1, 8)


def test_the_drivers_findings_are_its_sentences() -> None:
    counts = ("transactions", "reads", "writes", "other", "errors", "ignored_errors", "reconnects")
    final = {
        "counts": dict.fromkeys(counts, 0),
        "whole_load_counts": dict.fromkeys(("transactions", "reads", "writes", "other"), 0),
        "queries": 0, "duration_s": 1.0, "cpu": {},
        "verdict": {"verdict": "SUSPECT", "findings": [{"level": "SUSPECT", "rule": "network", "text": "3 lost"}]},
    }  # fmt: skip
    result = result_of(final, "1", ())
    assert result.health_reasons == ("3 lost",)
    assert [(one.rule, one.level) for one in result.findings] == [("network", "suspect")]


def test_a_second_in_which_no_transaction_ended_is_read_too() -> None:
    counts = {"errors": 0, "ignored_errors": 0, "reconnects": 0}
    record = {"length_s": 1.0, "qps": 3.0, "tps": 0.0, "counts": counts, "traffic": {"wire_received_bytes": 7}}
    assert interval_values(record) == {
        "qps": 3.0,
        "tps": 0.0,
        "errors_per_s": 0.0,
        "ignored_errors_per_s": 0.0,
        "reconnects_per_s": 0.0,
        "protocol_wire_received_bytes_per_s": 7.0,
    }


async def test_a_transfer_that_could_not_be_timed_is_made_again_and_then_given_up() -> None:
    failed = OSError("too few to time")
    assert (await Timed("1gbit", failed, transfer(941))._transfer(END, END)).bits_per_s == 941e6
    treatment = Timed("1gbit", *[failed] * 3)
    with pytest.raises(HostError, match="no data arrive from dyno-load at dyno-load: too few to time"):
        await treatment._transfer(END, END)
    assert treatment.results == []


@pytest.mark.parametrize(
    ("measured", "kept", "tries"),
    [
        ([941.0], 941.0, 1),
        ([700.0, 1100.0, 935.0], 935.0, 3),
        ([700.0, 500.0, 600.0, 650.0, 400.0, 300.0], 700.0, 6),
        ([14_000.0] * 6, 14_000.0, 6),
    ],
)
async def test_a_disturbed_transfer_is_made_again(measured: list[float], kept: float, tries: int) -> None:
    treatment = Timed("1gbit", *map(transfer, measured))
    found = await treatment._best(END, END)
    assert found.bits_per_s == kept * 1e6
    assert len(measured) - len(treatment.results) == tries


async def test_what_a_link_carries_without_a_cap_is_timed_once_a_study(tmp_path: Path) -> None:
    root = FakeHost(tmp_path)
    host = LocalHost("study", None, UndoJournal.begin(tmp_path / "undo", "study", tmp_path, root))

    class Instance:
        is_private, load_path = True, None

        def __init__(self, number: int) -> None:
            self.number, self.host = number, host
            self.settings = InstanceSettings(variables={})

    treatments = [Timed("1gbit", transfer(20_000)), Timed("100mbit", transfer(1))]
    for number, treatment in enumerate(treatments, 1):
        treatment.root, treatment._bare = root, None
        await treatment.apply(Instance(number))  # type: ignore[arg-type]
    assert root.ran != [], "both links were made"
    for treatment in treatments:
        await treatment.undo()
    assert [treatment._bare for treatment in treatments] == [transfer(20_000)] * 2
