"""The number of contrasts that a study will test, which the pilot and the precision while it runs are computed for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mydyno.evaluation import facts
from mydyno.execution.interleaved.order import pilot_plan
from mydyno.execution.interleaved.pilot import COST, THROUGHPUT
from mydyno.hosts.paths import HostPaths
from mydyno.results.families import WEIGHT_OF_OTHERS, expected_contrasts
from mydyno.results.precision import answered_metrics
from mydyno.stats.contrast import Estimate
from mydyno.wording.verdicts import column_name
from tests.support.fake_script import Script, experiment
from tests.unit.execution.interleaved.test_study import noisy, study

ARMS = ("glibc", "jemalloc", "tcmalloc")


@pytest.mark.parametrize(
    ("more", "first", "others"),
    [
        ({}, 2 * 2, 2 * 2),
        ({"said": {"tcmalloc": {"control": "jemalloc"}}}, 1 * 2, 1 * 2),
        (
            {"verdict": {"compare": [{"metrics": ["tps"], "arms": ["tcmalloc"], "control": "jemalloc"}]}},
            2 * 2,
            2 * 2 + 2,
        ),
        ({"verdict": {"primary": ["server_cpu_us_per_query", "qps"]}}, 2 * 2, 2 * 2),
        ({"verdict": {"primary": ["qps", "server_cpu_us_per_transaction"]}}, 2 * 2, 2 * 2),
    ],
)
async def test_the_precision_is_computed_for_all_contrasts_that_the_study_tests(
    script: Script,
    paths: HostPaths,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    more: dict[str, Any],
    first: int,
    others: int,
) -> None:
    alphas: set[float] = set()

    def half_width(_estimate: Estimate, _blocks: int, alpha: float) -> float:
        alphas.add(round(alpha, 9))
        return 0.01

    monkeypatch.setattr(facts, "projected", half_width)
    noisy(script, 0.0)
    asked = experiment(ARMS, design={"kind": "interleaved", "blocks": 3, "cycles": 3, "quiet_wait": 0}, **more)
    folder, summary, _ = await study(script, paths, tmp_path, asked)
    assert sum(effect.primary for effect in summary.effects) == first + others
    total = first + WEIGHT_OF_OTHERS * others
    leads = COST if asked.verdict.leading == "server_cpu_us_per_query" else THROUGHPUT
    assert pilot_plan(folder.plan(), asked, 3.0).contrasts == {
        name: round(total if name == leads else total / WEIGHT_OF_OTHERS) for name in (THROUGHPUT, COST)
    }
    kept = 1 - asked.verdict.error_rate
    assert alphas == {round(1 - kept ** (weight / total), 9) for weight in (1.0, WEIGHT_OF_OTHERS)}
    columns = [column_name(metric) for metric in answered_metrics(summary)]
    assert len(columns) == len(set(columns)) <= 2, columns


def test_a_control_alone_has_one() -> None:
    assert expected_contrasts(experiment(("only",))) == 1
