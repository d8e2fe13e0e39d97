"""A study over two hosts with a real sshd each, in network namespaces; what is killed on the way leaves nothing."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mydyno.hosts.paths import HostPaths
from tests.support.interleaved import interleaved_text, summary_of
from tests.support.not_run import note_not_run
from tests.support.real import wait_until
from tests.support.real_fleet import Fleet, real_fleet
from tests.support.ssh_server import children

ARMS = 'control = "one"\none = { environment = { MARK = "one" } }\ntwo = { environment = { MARK = "two" } }\n'


@pytest.fixture
def fleet(real_paths: HostPaths, tmp_path: Path) -> Iterator[Fleet]:
    with real_fleet(real_paths, tmp_path) as made:
        if isinstance(made, str):
            note_not_run(f"a study over hosts: {made}")
            pytest.skip(made)
        yield made


def until(condition: Callable[[], bool], timeout_s: float) -> None:
    assert wait_until(condition, timeout_s)


def test_what_is_killed_loses_nothing_and_leaves_nothing(fleet: Fleet) -> None:
    """In one study: a block on one host, then the controller, then the sshd of the other host; all by kill -9."""
    program, (first, second) = fleet.program, fleet.hosts
    done = program.run("hosts", "prepare", "--hosts", fleet.addresses, timeout_s=400)
    assert done.returncode == 0, done.stderr
    path = program.write(interleaved_text("fleet", ARMS, [("oltp_point_select", 4)], blocks=6, cycles=8, slice_s=1.0))
    with program.started("run", path, "--hosts", fleet.addresses) as controller:
        until(lambda: len(fleet.events("block_leased")) >= 2, 200)
        until(lambda: bool(fleet.servers(first)), 60)
        for pid in fleet.blocks(first):
            os.kill(pid, signal.SIGKILL)
        until(lambda: bool(fleet.events("block_lost")), 60)
        assert [event["group"] for event in fleet.events("block_lost")] == [first.listen]
        until(lambda: not fleet.servers(first), 10)
        until(lambda: any(event["group"] == second.listen for event in fleet.events("block_committed")), 120)
        controller.kill()
        controller.wait(30)
    until(lambda: not fleet.servers(first) and not fleet.blocks(first), 10)
    until(lambda: not fleet.left_on(second), 90)
    before = {event["block"] for event in fleet.events("block_committed")}
    assert before and len(before) < 6
    with program.started("resume", fleet.study().name) as controller:
        until(lambda: len(fleet.events("study_resumed")) == 1, 200)
        until(lambda: bool(fleet.servers(second)), 120)
        for pid in children(second.pid):
            os.kill(pid, signal.SIGKILL)
        until(lambda: len(fleet.events("block_lost")) == 2, 60)
        until(lambda: not fleet.left_on(second), 90)
        assert controller.wait(300) == 0, program.output()
    assert fleet.left_on(first) == []
    folder = fleet.study()
    committed = {event["block"]: event["group"] for event in fleet.events("block_committed")}
    assert sorted(committed) == [1, 2, 3, 4, 5, 6]
    assert len(fleet.events("block_committed")) == 6, "each exactly once"
    assert set(committed.values()) == {first.listen, second.listen}
    assert {(run.block, run.host_group) for run in folder.runs()} == set(committed.items())
    assert summary_of(folder.path)["state"] == "complete"
    failures = [(run.folder, run.failed, [step.failed for step in run.steps]) for run in folder.runs() if run.failed]
    assert failures == [], "a host that is cleaned does not touch the servers of the other one"
    assert not (first.home / ".cache/mydyno/fleet" / folder.name).exists()
