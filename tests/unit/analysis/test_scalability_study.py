"""A sweep of connections on a fake host: the law of each arm in the summary and in the page; no server."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest

from mydyno.analysis.base import Examined
from mydyno.analysis.scalability import analyse
from mydyno.execution.study_record import Request
from mydyno.hosts.paths import HostPaths
from mydyno.model.definition.experiment import Scalar, Step, StepSpec
from mydyno.model.stored.summary import RunSummary
from mydyno.reports.page import render_page
from mydyno.stats.scalability import Curve
from mydyno.study import run_study
from tests.support.fake_environment import Watched, opener
from tests.support.fake_script import Script, experiment

SWEEP = StepSpec(workload="oltp_read_only", connections=(1, 4, 16, 64, 128), warmup=1, measure=4)
TRUE = {"glibc": Curve(400.0, 0.05, 0.0008), "jemalloc": Curve(400.0, 0.05, 0.0)}


async def test_each_arm_of_a_sweep_has_its_law_and_where_it_saturates(
    script: Script, paths: HostPaths, tmp_path: Path
) -> None:
    random = Random(3)
    script.slice_qps = lambda arm, _copy, step, _order: (
        16 * TRUE[arm].at(step.connections) * random.lognormvariate(0, 0.01)
    )
    script.slice_response_us = lambda step, qps: 16e6 * step.connections / qps * random.lognormvariate(0, 0.01)
    design = {"kind": "interleaved", "blocks": 6, "cycles": 2, "quiet_wait": 0, "slice": 2, "washout": 0.5}
    swept = experiment(("glibc", "jemalloc"), steps=(SWEEP,), design=design)
    folder, summary = await run_study(
        Request(swept, "name = 'fake'", tmp_path / "studies"), paths, Watched(script), opener(script)
    )
    of = {record.arm: record for record in summary.scalabilities}
    assert of["glibc"].levels == (1, 4, 16, 64, 128)
    assert of["glibc"].contention.value == pytest.approx(0.05, rel=0.3)
    assert of["glibc"].peak is not None
    assert of["glibc"].peak.value == pytest.approx(TRUE["glibc"].peak, rel=0.15)
    assert of["jemalloc"].peak is None or of["jemalloc"].peak.value > 128
    for record in of.values():
        assert record.response[0].connections == 1
        for at, measured in zip(record.levels, record.measured_response_us, strict=True):
            assert measured == pytest.approx(1e6 * TRUE[record.arm].response_s(at), rel=0.05)
        assert record.response[-1].mean_us == pytest.approx(1e6 * TRUE[record.arm].response_s(128), rel=0.1)
        assert all((one.ci_low_us or 0) < one.mean_us < (one.ci_high_us or 0) for one in record.response)
    page = render_page(folder)
    chart = page.partition('data-chart="scalability-response:0"')[2].partition("</svg>")[0]
    assert chart.count('class="band"') == 2
    assert len(re.findall("connections?: ", chart)) == 10
    assert "At this saturation point the fitted mean response time is" in page
    assert 'id="scalability"' in page
    assert "glibc is fastest at about 3" in page
    assert "jemalloc levels off towards" in page or "jemalloc is not saturated at 128" in page


async def test_where_the_law_does_not_hold_its_response_times_do_not_either(
    script: Script, paths: HostPaths, tmp_path: Path
) -> None:
    random = Random(4)
    script.slice_qps = lambda _arm, _copy, step, _order: (
        (9000.0 if step.connections < 64 else 3000.0) * random.lognormvariate(0, 0.01)
    )
    design = {"kind": "interleaved", "blocks": 6, "cycles": 1, "quiet_wait": 0, "slice": 2, "washout": 0.5}
    request = Request(experiment(("glibc",), steps=(SWEEP,), design=design), "name = 'fake'", tmp_path / "studies")
    folder, _ = await run_study(request, paths, Watched(script), opener(script))
    page = render_page(folder)
    assert "Its curve of response times does not hold either." in page
    assert "Scalability</small> glibc does not follow the law; it was fastest at " in page
    assert "the fitted mean response time is" not in page


def swept_runs(steps: Sequence[Step]) -> list[RunSummary]:
    """Four blocks of glibc that follow its law."""
    random = Random(5)
    runs = []
    for block in range(1, 5):
        values = {
            step.id: {
                "tps": TRUE["glibc"].at(step.connections) * random.lognormvariate(0, 0.01),
                "latency_mean_us": 1e6 * TRUE["glibc"].response_s(step.connections),
            }
            for step in steps
        }
        runs.append(RunSummary(block=block, position=1, arm="glibc", copy=1, folder="", valid=True, values=values))
    return runs


@pytest.mark.parametrize(
    ("workload", "options", "curve"),
    [
        ("tpcc", {}, True),
        ("tpcc", {"key_and_think_times": True}, False),
        ("tpcc", {"rate": 100}, False),
        ("oltp_read_only", {}, True),
        ("connect", {}, False),
    ],
)
def test_only_connections_that_are_always_busy_have_a_curve_of_response_times(
    workload: str, options: dict[str, Scalar], curve: bool
) -> None:
    swept = experiment(("glibc",), steps=(SWEEP.model_copy(update={"workload": workload, "options": options}),))
    (record,) = analyse(Examined(experiment=swept, runs=swept_runs(swept.resolved_steps), alpha=0.05))
    assert bool(record.response) == bool(record.measured_response_us) == curve


async def test_fewer_levels_have_no_law(script: Script, paths: HostPaths, tmp_path: Path) -> None:
    steps = (SWEEP.model_copy(update={"connections": (1, 4, 16)}),)
    design = {"kind": "interleaved", "blocks": 6, "cycles": 1, "quiet_wait": 0, "slice": 2, "washout": 0.5}
    request = Request(experiment(("glibc",), steps=steps, design=design), "name = 'fake'", tmp_path / "studies")
    _, summary = await run_study(request, paths, Watched(script), opener(script))
    assert summary.scalabilities == ()
