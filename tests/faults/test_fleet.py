"""A study over two hosts with a real sshd each, in network namespaces; what is killed on the way leaves nothing."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mydyno.hosts.paths import HostPaths
from mydyno.model.stored.live import LiveSecond
from tests.support.interleaved import interleaved_text, summary_of
from tests.support.live_records import live_records
from tests.support.patience import ended, wait_until
from tests.support.real_fleet import Fleet, fleet_or_skip
from tests.support.real_sshd import Sshd
from tests.support.ssh_server import children

pytestmark = pytest.mark.exhaustive

ARMS = 'control = "one"\none = { environment = { MARK = "one" } }\ntwo = { environment = { MARK = "two" } }\n'


@pytest.fixture
def fleet(real_paths: HostPaths, parts: None, tmp_path: Path) -> Iterator[Fleet]:
    with fleet_or_skip(real_paths, tmp_path, "a study over hosts") as made:
        yield made


@contextmanager
def other_host_key(fleet: Fleet, host: Sshd) -> Iterator[None]:
    """The controller knows this host by a key that it does not have."""
    known = Path(fleet.program.environment["HOME"]) / ".ssh" / "known_hosts"
    right = known.read_text()
    wrong = (host.folder / "user-home" / ".ssh" / "id_ed25519.pub").read_text()
    known.write_text(f"[{host.listen}]:{host.port} {wrong}")
    try:
        yield
    finally:
        known.write_text(right)


def until(condition: Callable[[], bool], timeout_s: float) -> None:
    assert wait_until(condition, timeout_s)


def test_what_is_killed_loses_nothing_and_leaves_nothing(fleet: Fleet) -> None:
    """In one study: a block on one host, then the controller, then the sshd of the other host; all by kill -9."""
    program, (first, second) = fleet.program, fleet.hosts
    fleet.prepare()
    with other_host_key(fleet, first):
        done = program.run("hosts", "list", "--hosts", first.address)
        assert done.returncode == 3
        assert "differs from that in known_hosts" in done.stdout
    path = program.write(interleaved_text("fleet", ARMS, [("oltp_point_select", 4)], blocks=4, cycles=2, slice_s=0.5))
    with program.started("run", path, "--hosts", fleet.addresses) as controller:
        until(lambda: len(fleet.events("block_leased")) >= 2, 200)
        until(lambda: bool(fleet.servers(first)), 60)
        for pid in fleet.blocks(first):
            os.kill(pid, signal.SIGKILL)
        until(lambda: bool(fleet.events("block_lost")), 60)
        assert first.listen in [event["group"] for event in fleet.events("block_lost")]
        until(lambda: not fleet.servers(first), 60)
        until(lambda: any(event["group"] == second.listen for event in fleet.events("block_committed")), 120)
        controller.kill()
        controller.wait()
    before = {event["block"] for event in fleet.events("block_committed")}
    assert before and len(before) < 4
    # At once: blocks of the killed controller are still undoing their changes on both hosts.
    with program.started("resume", fleet.study().name) as controller:
        until(lambda: len(fleet.events("study_resumed")) == 1, 200)
        until(lambda: bool(fleet.servers(second)), 120)
        for pid in children(second.pid):
            os.kill(pid, signal.SIGKILL)
        until(lambda: second.listen in [event["group"] for event in fleet.events("block_lost")], 60)
        until(lambda: not fleet.left_on(second), 90)
        assert ended(controller, "the study") == 0, program.output()
    assert fleet.left_on(first) == []
    folder = fleet.study()
    committed = {event["block"]: event["group"] for event in fleet.events("block_committed")}
    assert sorted(committed) == [1, 2, 3, 4]
    assert len(fleet.events("block_committed")) == 4, "each exactly once"
    assert set(committed.values()) == {first.listen, second.listen}
    assert {(run.block, run.host_group) for run in folder.runs()} == set(committed.items())
    assert summary_of(folder.path)["state"] == "complete"
    failures = [(run.folder, run.failed, [step.failed for step in run.steps]) for run in folder.runs() if run.failed]
    assert failures == [], "a host that is cleaned does not touch the servers of the other one"
    assert not (first.home / ".cache/mydyno/fleet" / folder.name).exists()
    lines = live_records(folder.path)
    seconds = [one for one in lines if isinstance(one, LiveSecond)]
    assert {one.group for one in seconds if one.state == "slice" and one.arm and one.qps} == set(committed.values())
    assert {one.group for one in seconds if one.state == "lost"} == {first.listen, second.listen}
