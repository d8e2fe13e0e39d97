"""The limit is what utilisation says it is."""

from __future__ import annotations

from typing import Any

import pytest

from mydyno.analysis.limits import judge, limits_of, utilisation
from mydyno.hosts.network.link import Shape, Transfer
from mydyno.model.definition.experiment import Step
from mydyno.model.stored.records import ClientLoad, DriverResult, Evidence, RunRecord, ServerRecord, StepRecord
from mydyno.model.stored.summary import RunSummary
from mydyno.results.values.blocks import _goes_over_interfaces, _per_transaction
from mydyno.treatments.link_proof import transfer_facts

STEP = Step(id="s", workload="w", connections=4, warmup_s=0, measure_s=1, driver="dynoload")
STEP_64 = Step(
    id="oltp_read_only-64", workload="oltp_read_only", connections=64, warmup_s=1, measure_s=1, driver="dynoload"
)
SHARES = {"link": 0.2, "link_reached": 1.0, "cpu": 0.5, "server": 0.2, "load": 0.1, "thread": 0.3}


@pytest.mark.parametrize(
    ("changed", "limit", "met"),
    [
        ({"link": 0.97}, "link", "link"),
        ({"link": 0.97, "link_reached": 0.0}, "none", ""),
        ({"cpu": 0.98, "server": 0.6, "load": 0.3}, "server CPU", "cpus"),
        ({"cpu": 0.98, "server": 0.3, "load": 0.6}, "load CPU", "cpus"),
        ({"cpu": 0.98, "server": 0.2, "load": 0.2}, "others' CPU", "cpus"),
        ({"thread": 0.97}, "load CPU", "thread"),
    ],
)
def test_the_limit_is_named_with_its_shares(changed: dict[str, float], limit: str, met: str) -> None:
    found = judge("1gbit", STEP_64, {**SHARES, **changed}, 2)
    assert (found.limit, found.met, found.shares) == (limit, met, {**SHARES, **changed})


VALUES = {
    "cpu_user_pct": 60.0, "cpu_system_pct": 35.0, "server_cpu_user_pct": 80.0, "server_cpu_system_pct": 20.0,
    "driver_cpu_user_pct": 30.0, "driver_cpu_system_pct": 30.0, "tps": 100.0,
    "network_tx_bytes_per_s": 50e6 * 1514 / 1448, "network_rx_bytes_per_s": 1e6,
}  # fmt: skip
LINK = {"to_load_bits_per_s": 800e6, "to_server_bits_per_s": 800e6, "reached": True, "bandwidth": "1gbit"}


def run(valid: bool = True, link: dict[str, Any] | None = None) -> RunRecord:
    driver = DriverResult(driver="dynoload", version="1", command=(), transactions=1, queries=1, duration_s=1,
                          busiest_thread_cpu_pct=40.0)  # fmt: skip
    step = StepRecord(id="s", workload="w", connections=4, started_unix_ns=0, warmup_s=0, measure_s=1, driver=driver)
    evidence = (Evidence(treatment="network", holds=True, text="", facts=LINK if link is None else link),)
    return RunRecord(
        block=1, position=1, arm="a", folder="f", started_unix_ns=0, ended_unix_ns=1, valid=valid,
        evidence=evidence if link != {} else (), steps=(step,),
    )  # fmt: skip


def summary(valid: bool = True) -> RunSummary:
    return RunSummary(block=1, position=1, arm="a", valid=valid, folder="f", values={"s": VALUES})


def test_shares_are_of_what_the_transfer_delivered_and_of_all_cpus() -> None:
    shares = utilisation(run(), VALUES, "s", 2)
    assert shares == pytest.approx(
        {"link": 0.5, "link_reached": 1.0, "cpu": 0.95, "server": 0.5, "load": 0.3, "thread": 0.4}
    )


def test_a_long_latency_hides_the_link_from_a_transfer_and_not_from_the_load() -> None:
    facts = transfer_facts(Shape(1e8, "50ms"), 20e9, [Transfer(30e6, 0.1)], [Transfer(60e6, 0.1)], reached=True)
    values = {**VALUES, "network_tx_bytes_per_s": 11.7e6, "cpu_user_pct": 10.0}
    shares = utilisation(run(link={"bandwidth": "100mbit", **facts}), values, "s", 2)
    assert shares["link"] == pytest.approx(0.95, abs=0.01)
    assert judge("far", STEP, shares, 2).limit == "link"
    assert transfer_facts(Shape(1e8, "50us"), 20e9, [Transfer(94e6, 0.1)], [Transfer(94e6, 0.1)], reached=True)[
        "link_bits_per_s"
    ] is None  # fmt: skip


def test_of_an_external_server_the_load_s_interface_counts_and_its_host_is_not_seen() -> None:
    seen = {name: value for name, value in VALUES.items() if not name.startswith("server_")}
    turned = {**seen, "network_rx_bytes_per_s": seen["network_tx_bytes_per_s"], "network_tx_bytes_per_s": 1e6}
    shares = utilisation(run(link={**LINK, "side": "load"}), turned, "s", 2)
    assert shares == pytest.approx({"link": 0.5, "link_reached": 1.0, "cpu": 0.95, "load": 0.3, "thread": 0.4})
    busy = judge("1gbit", STEP, shares, 2)
    assert busy.limit == "others' CPU"
    idle = judge("1gbit", STEP, {**shares, "cpu": 0.4}, 2)
    assert (idle.limit, "server" in idle.shares) == ("none", False)


def test_the_load_of_client_hosts_takes_nothing_of_the_server_s_host() -> None:
    made = run()
    driver = made.steps[0].driver.model_copy(update={"clients": (ClientLoad(name="load-1"),)})
    made = made.model_copy(update={"steps": (made.steps[0].model_copy(update={"driver": driver}),)})
    shares = utilisation(made, {**VALUES, "driver_cpu_user_pct": 300.0}, "s", 2)
    assert "load" not in shares
    found = judge("1gbit", STEP, shares, 2)
    assert (found.limit, found.others) == ("server CPU", pytest.approx(0.45))


def test_without_a_link_or_samples_nothing_is_said() -> None:
    assert utilisation(run(link={}), VALUES, "s", 2) == {}
    assert utilisation(run(), {"tps": 1.0}, "s", 2) == {}


def test_only_valid_runs_are_looked_at() -> None:
    assert limits_of([run(valid=False)], [summary(valid=False)], [STEP], {"": 2}) == ()
    (found,) = limits_of([run(), run()], [summary(), summary()], [STEP], {"": 2})
    assert found.limit == "server CPU"


def test_per_transaction_values_are_sums_over_the_rate() -> None:
    found = _per_transaction(VALUES)
    assert found["server_cpu_us_per_transaction"] == pytest.approx(10_000)
    assert found["driver_cpu_us_per_transaction"] == pytest.approx(6_000)
    assert found["network_bytes_per_transaction"] == pytest.approx((VALUES["network_tx_bytes_per_s"] + 1e6) / 100)
    assert _per_transaction({**VALUES, "tps": 0.0}) == {}
    assert "network_bytes_per_transaction" not in _per_transaction({"tps": 1.0, "network_tx_bytes_per_s": 1.0})


def test_bytes_per_transaction_are_told_only_where_the_load_passes_a_sampled_interface() -> None:
    started = ServerRecord(version="10.11.19-MariaDB", pid=4711)
    assert _goes_over_interfaces(run().model_copy(update={"servers": (started,)})), "over a link"
    assert not _goes_over_interfaces(run(link={}).model_copy(update={"servers": (started,)})), "socket or loopback"
    external = ServerRecord(version="8.0.40")
    assert _goes_over_interfaces(run(link={}).model_copy(update={"servers": (external,)})), "somebody else's server"
