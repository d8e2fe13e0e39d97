"""A step in which the CPU quota of mydyno's own container was used up does not count, in both designs."""

from __future__ import annotations

from pathlib import Path

import pytest

from mydyno.errors import HostError, StudyError
from mydyno.execution.planning import forecast as planning
from mydyno.execution.planning.design_choice import choose_design
from mydyno.execution.study_record import Request
from mydyno.hosts.paths import HostPaths
from mydyno.model.definition.experiment import Experiment, ServerSpec
from mydyno.model.definition.plan import make_plan
from mydyno.store.study_folder import StudyFolder
from mydyno.study import run_study
from tests.support.fake_cgroups import version_2
from tests.support.fake_environment import Watched, opener
from tests.support.fake_host import GIB, FakeHost
from tests.support.fake_script import Script, experiment


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
    script: Script, paths: HostPaths, host: FakeHost, tmp_path: Path, kind: str, share: float
) -> None:
    quota = version_2(host.folder) / "cpu.max"
    quota.write_text("50000 100000")
    periods = 0

    def loaded(*_: object) -> float:
        nonlocal periods
        periods += 100
        quota.with_name("cpu.stat").write_text(f"nr_periods {periods}\nnr_throttled {round(share * periods)}\n")
        return 1000.0

    script.qps = script.slice_qps = loaded
    design = {"kind": kind, "blocks": 1, "cycles": 2, "quiet_wait": 0}
    folder = await study(script, paths, tmp_path, experiment(design=design))
    steps = [step for run in folder.runs() for step in run.steps]
    assert len(steps) == 6
    for step in steps:
        assert step.throttled == {str(quota): share}
        found = [reason.sentence for reason in step.reasons]
        bad = f"CPU quota used up: the CPU quota in {quota} was used up in 98% of its periods (bound 1%)"
        assert (found, step.valid) == (([bad], False) if share > 0.5 else ([], True))


def test_servers_that_do_not_fit_into_the_containers_memory_are_refused_with_the_limit(
    paths: HostPaths, host: FakeHost
) -> None:
    limit = version_2(host.folder) / "memory.max"
    limit.write_text(str(GIB))
    server = ServerSpec(name="mariadb-10.11", variables={"innodb_buffer_pool_size": "1G"})
    asked = experiment(tuple("abcd"), server=server, design={"kind": "auto"})
    design = choose_design(asked, paths)
    assert "memory: 5 servers at the same time need about 7.0 GiB" in design.why
    (found,) = planning.forecast(asked, make_plan(asked, design), paths).obstacles
    assert found.startswith(
        "memory: arm a: its server needs about 1.4 GiB (buffer pool and the rest), 1.0 GiB are usable here "
        f"(limit: {limit}); "
    )
    demanded = experiment(tuple("abcd"), server=server, design={"kind": "interleaved"})
    with pytest.raises(HostError, match=r"memory\.max"):
        choose_design(demanded, paths)
    limit.write_text(str(220 << 20))
    small = experiment()
    (found,) = planning.forecast(small, make_plan(small), paths).obstacles
    assert "its server needs about 528 MiB" in found


def test_a_quota_is_named_beforehand(paths: HostPaths, host: FakeHost) -> None:
    quota = version_2(host.folder) / "cpu.max"
    quota.write_text("50000 100000")
    asked = experiment()
    cautions = planning.forecast(asked, make_plan(asked), paths).cautions
    assert f"a CPU quota of 0.5 CPUs (limit: {quota}): a load level in which it is used up does not count" in cautions
    assert any("share this host's 0.5 CPUs" in words for words in cautions)
