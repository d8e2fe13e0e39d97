"""Bandwidth, TLS that verifies, and a card's speed, where server and load are on two hosts with a real sshd each."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mydyno.hosts.network.load_end import shaping_obstacle
from mydyno.hosts.paths import HostPaths
from mydyno.model.stored.records import Evidence, RunRecord
from mydyno.store.study_folder import StudyFolder
from tests.support.fake_ethtool import FakeEthtool
from tests.support.interleaved import interleaved_text
from tests.support.not_run import note_not_run
from tests.support.real import experiment_text
from tests.support.real_fleet import CARD, Fleet, real_fleet

pytestmark = [pytest.mark.alone, pytest.mark.exhaustive]
ARMS = """control = "plain"
plain = { network = {} }
slow = { network = "100mbit" }
sure = { network = {}, tls = { version = "1.3", verify = "identity" } }
"""
CARD_ARM = 'control = "card"\ncard = { network = { bandwidth = "100mbit", by = "card" } }\n'
STEP = '[[steps]]\nworkload = "oltp_point_select"\nconnections = 4\nwarmup = "0s"\nmeasure = "1s"\n'
APPLY = """#!/bin/sh
for net in {nets}; do
    nsenter --net=$net tc qdisc del dev {card} root 2>/dev/null
    [ "$1" -ge 10000 ] || nsenter --net=$net tc qdisc add dev {card} root tbf rate $(($1 * 1514 / 1538))mbit \\
        burst 256kb latency 10ms
done
"""
"""Both ends of a wire have one speed."""


@pytest.fixture(scope="module")
def ethtool(tmp_path_factory: pytest.TempPathFactory) -> FakeEthtool:
    return FakeEthtool.at(tmp_path_factory.mktemp("ethtool"))


@pytest.fixture(scope="module")
def fleet(
    real_paths: HostPaths, parts: None, tmp_path_factory: pytest.TempPathFactory, ethtool: FakeEthtool
) -> Iterator[Fleet]:
    folder = tmp_path_factory.mktemp("apart")
    with real_fleet(real_paths, folder, ethtool.environment) as made:
        obstacle = made if isinstance(made, str) else shaping_obstacle(latency=False)
        if obstacle is not None:
            note_not_run(f"a network between two hosts: {obstacle}")
            pytest.skip(obstacle)
        assert isinstance(made, Fleet)
        apply = ethtool.folder / "apply"
        apply.write_text(APPLY.format(nets=" ".join(made.nets), card=CARD))
        apply.chmod(0o755)
        made.prepare()
        yield made


def runs_of(fleet: Fleet, name: str, text: str) -> list[RunRecord]:
    """The runs of a whole study; afterwards nothing is left on either host."""
    studies = fleet.program.folder / name
    path = fleet.program.write(text)
    done = fleet.program.run("run", path, "--hosts", str(fleet.groups_file()), "--studies", str(studies))
    (found,) = studies.iterdir()
    runs = list(StudyFolder.open(found).runs())
    assert [(run.reasons, run.failed) for run in runs if not run.valid] == [], done.stderr
    assert done.returncode == 0, done.stderr
    assert fleet.left_on(fleet.hosts[0]) == [] and fleet.left_on(fleet.hosts[1]) == []
    assert [fleet.card_root(number) for number in (0, 1)] == ["qdisc noqueue 0: root refcnt 2"] * 2
    return runs


def proof(runs: list[RunRecord], arm: str, treatment: str) -> Evidence:
    return next(one for run in runs if run.arm == arm for one in run.evidence if one.treatment == treatment)


def test_the_port_is_shaped_on_both_hosts_and_the_certificate_is_verified_from_the_load(fleet: Fleet) -> None:
    steps = [("oltp_point_select", 4)]
    runs = runs_of(fleet, "shaped", interleaved_text("shaped", ARMS, steps, blocks=1, cycles=1, slice_s=0.5))
    slow = proof(runs, "slow", "network")
    for way in ("to_load", "to_server"):
        assert slow.facts[f"{way}_bits_per_s"] == pytest.approx(100e6 * 1448 / 1538, rel=0.05)
    client = fleet.hosts[1].listen
    assert slow.facts["classes"] == {f"server {CARD}": "98439Kbit", f"{client} {CARD}": "98439Kbit"}
    plain = proof(runs, "plain", "network")
    assert plain.facts["to_load_bits_per_s"] > 200e6, "the other servers' port is not shaped"
    (run,) = [run for run in runs if run.arm == "sure"]
    (step,) = run.steps
    assert "--ssl-mode=verify_identity" in step.driver.command
    assert step.driver.tls["whole_load"]["negotiated"][0]["version"] == "TLSv1.3"


def test_the_speed_of_the_card_of_the_server_s_host_is_set_and_restored(fleet: Fleet, ethtool: FakeEthtool) -> None:
    runs = runs_of(fleet, "card", experiment_text("card", CARD_ARM, STEP, blocks=1))
    for run in runs:
        (evidence,) = [one for one in run.evidence if one.treatment == "network"]
        assert f"ethtool reports 100 Mb/s, full duplex of {CARD}" in evidence.text
        assert evidence.facts["to_load_bits_per_s"] == pytest.approx(100e6 * 1448 / 1538, rel=0.05)
    assert ethtool.state == (10000, "on")
    assert len(ethtool.changes) == 2 * len(runs) == 4, "each run sets it and gives it back"
