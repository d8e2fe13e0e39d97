"""A step in which the CPU quota of mydyno's own container was used up does not count, in both designs."""

from __future__ import annotations

from pathlib import Path

import pytest

from mydyno.errors import HostError, StudyError
from mydyno.execution.blocks import step as run_step
from mydyno.execution.interleaved import block
from mydyno.execution.planning import forecast as planning
from mydyno.execution.planning.design_choice import choose_design
from mydyno.hosts.limits import Usable
from mydyno.hosts.paths import HostPaths
from mydyno.model.definition.experiment import Experiment, ServerSpec
from mydyno.model.definition.plan import make_plan
from mydyno.store.study_folder import StudyFolder
from mydyno.study import Request, run_study
from mydyno.treatments import coexistence
from tests.support.fake_environment import Watched, opener
from tests.support.fake_script import Script, experiment

QUOTA = "/sys/fs/cgroup/cpu.max"
GIB = 1 << 30


async def study(script: Script, paths: HostPaths, tmp_path: Path, asked: Experiment) -> StudyFolder:
    request = Request(asked, "name = 'fake'", tmp_path / "studies", ("mydyno", "run", "fake"))
    try:
        folder, _ = await run_study(request, paths, Watched(script), opener(script))
    except StudyError:
        (path,) = (tmp_path / "studies").iterdir()
        folder = StudyFolder.open(path)
    return folder


@pytest.mark.parametrize("share", [0.98, 0.01])
@pytest.mark.parametrize("kind", ["blocks", "interleaved"])
async def test_a_step_is_not_valid_beyond_the_bound(
    script: Script, paths: HostPaths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, share: float
) -> None:
    for module in (run_step, block):
        monkeypatch.setattr(module, "throttled_since", lambda _: {QUOTA: share})
    design = {"kind": kind, "blocks": 1, "cycles": 2, "quiet_wait": 0}
    folder = await study(script, paths, tmp_path, experiment(design=design))
    steps = [step for run in folder.runs() for step in run.steps]
    assert len(steps) == 6
    for step in steps:
        assert step.throttled == {QUOTA: share}
        found = [reason.sentence for reason in step.reasons]
        bad = f"CPU quota used up: the CPU quota in {QUOTA} was used up in 98% of its periods (bound 1%)"
        assert (found, step.valid) == (([bad], False) if share > 0.5 else ([], True))


def test_servers_that_do_not_fit_into_the_containers_memory_are_refused_with_the_limit(
    paths: HostPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = Usable(GIB, "/sys/fs/cgroup/memory.max")
    for module in (planning, coexistence):
        monkeypatch.setattr(module, "usable_memory", lambda: limit)
    server = ServerSpec(name="mariadb-10.11", variables={"innodb_buffer_pool_size": "1G"})
    asked = experiment(tuple("abcd"), server=server, design={"kind": "auto"})
    design = choose_design(asked, paths)
    assert "memory: 5 servers at the same time need about 7.0 GiB" in design.why
    (found,) = planning.forecast(asked, make_plan(asked, design), paths).obstacles
    assert found.startswith(
        "memory: arm a: its server needs about 1.4 GiB (buffer pool and the rest), 1.0 GiB are usable here "
        "(limit: /sys/fs/cgroup/memory.max); "
    )
    demanded = experiment(tuple("abcd"), server=server, design={"kind": "interleaved"})
    with pytest.raises(HostError, match=r"memory\.max"):
        choose_design(demanded, paths)
    limit = Usable(220 << 20, "/sys/fs/cgroup/memory.max")
    small = experiment()
    (found,) = planning.forecast(small, make_plan(small), paths).obstacles
    assert "its server needs about 528 MiB" in found


def test_a_quota_is_named_beforehand(paths: HostPaths, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "usable_cpus", lambda: Usable(0.5, QUOTA))
    monkeypatch.setattr(planning, "quota_periods", lambda: {QUOTA: (0, 0)})
    asked = experiment()
    cautions = planning.forecast(asked, make_plan(asked), paths).cautions
    assert f"a CPU quota of 0.5 CPUs (limit: {QUOTA}): a step in which it is used up does not count" in cautions
    assert any("share this host's 0.5 CPUs" in words for words in cautions)
