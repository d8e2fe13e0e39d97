"""A whole screening study on a fake host: design, main effects, words, the follow-up experiment; no server."""

from __future__ import annotations

import re
from math import log
from pathlib import Path
from random import Random

import pytest

from mydyno.analysis.screening import FOLLOW_UP_FILE
from mydyno.execution.study_record import Request
from mydyno.experiment_file.arms import CONTROL, coded
from mydyno.experiment_file.parsing import parse_experiment
from mydyno.experiment_file.toml_source import TomlSource
from mydyno.experiments import load, vocabulary
from mydyno.hosts.paths import HostPaths
from mydyno.model.definition.experiment import Experiment
from mydyno.reports.page import render_page
from mydyno.study import run_study
from tests.support.fake_environment import Watched, opener
from tests.support.fake_script import Script
from tests.support.worded import worded

SETTINGS = ("design.time=none", "design.blocks=3", "design.cycles=2", "design.quiet_wait=0s")
FLUSH, POOL = "innodb_flush_log_at_trx_commit", "innodb_buffer_pool_size"


def planted(script: Script, asked: Experiment, changes: dict[str, float], noise: float = 0.02, seed: int = 1) -> None:
    """A fake world in which the last value of some variables changes the rate."""
    assert asked.screen is not None
    rows, names = coded(asked.screen, asked.arms), list(asked.screen.variables)
    random = Random(seed)

    def qps(arm: str, _copy: int, _step: object, _order: object) -> float:
        rate = 1000.0 * random.lognormvariate(0, noise)
        for name, change in changes.items():
            rate *= 1 + change if rows[arm][names.index(name)] > 0 else 1
        return rate

    script.slice_qps = qps


async def test_the_variables_that_matter_are_found_with_their_size_and_followed_up(
    script: Script, paths: HostPaths, tmp_path: Path
) -> None:
    asked, source = load("screen", None, SETTINGS)
    planted(script, asked, {FLUSH: 0.3, POOL: -0.2})
    folder, summary = await run_study(Request(asked, source.text, tmp_path), paths, Watched(script), opener(script))
    (record,) = summary.screening
    assert (record.runs, record.blocks, record.method) == (8, 3, "blocks")
    found = {factor.name: factor for factor in record.factors}
    assert [name for name, factor in found.items() if factor.active] == [FLUSH, POOL]
    assert found[FLUSH].ratio == pytest.approx(1.3, rel=0.03)
    assert found[POOL].ratio == pytest.approx(0.8, rel=0.03)
    assert record.follow_up == (FLUSH, POOL)
    assert worded(folder).answer[0].startswith("2 of 7 variables matter for transactions per second: innodb_flush")
    assert not any(effect.verdict for effect in summary.effects), "runs of the design are not compared one by one"
    page = render_page(folder)
    assert "Main effects of the variables</small> 2 of 7 variables matter for transactions per second</h3>" in page
    row = page[page.index(f'<th scope="row">{POOL}</th>') :]
    assert "128M → 16M" in row[:300]
    assert re.search("−(19|20|21)\\.\\d", row[:400])
    assert f"{FLUSH} × {POOL}" in page, "what is mixed into an effect is named"
    text = (folder.path / FOLLOW_UP_FILE).read_text()
    follow = parse_experiment(TomlSource.parse(FOLLOW_UP_FILE, text), vocabulary())
    assert len(follow.arms) == 4
    assert follow.arm(follow.control).treatments["variables"] == {FLUSH: 1, POOL: "128M"}
    assert follow.server.variables["innodb_doublewrite"] == "ON"


async def test_the_error_rate_is_that_of_the_study_however_many_load_levels_it_has(
    script: Script, paths: HostPaths, tmp_path: Path
) -> None:
    widths = []
    for levels in ("16", "[16, 64]"):
        asked, source = load("screen", None, (*SETTINGS, f"steps.connections={levels}"))
        planted(script, asked, {})
        _, summary = await run_study(Request(asked, source.text, tmp_path), paths, Watched(script), opener(script))
        factor = summary.screening[0].factors[0]
        assert factor.ci_low and factor.ci_high
        widths.append(log(factor.ci_high / factor.ci_low) / summary.screening[0].standard_error)
    assert widths[1] > 1.05 * widths[0], "in standard errors"


async def test_without_an_effect_none_is_called_active(script: Script, paths: HostPaths, tmp_path: Path) -> None:
    asked, source = load("screen", None, SETTINGS)
    planted(script, asked, {})
    folder, summary = await run_study(Request(asked, source.text, tmp_path), paths, Watched(script), opener(script))
    assert not any(factor.active for factor in summary.screening[0].factors)
    assert worded(folder).answer[0].startswith("None of the 7 variables is shown to change transactions per second")
    assert not (folder.path / FOLLOW_UP_FILE).exists()


async def test_a_block_without_one_of_its_runs_is_not_used(script: Script, paths: HostPaths, tmp_path: Path) -> None:
    asked, source = load("screen", None, SETTINGS)
    planted(script, asked, {FLUSH: 0.3})
    started: list[str] = []

    def start_error(arm: str, _copy: int) -> str | None:
        started.append(arm)
        return "it does not start" if arm == "run-03" and started.count(arm) == 2 else None

    script.start_error = start_error
    folder, summary = await run_study(Request(asked, source.text, tmp_path), paths, Watched(script), opener(script))
    (record,) = summary.screening
    assert (record.blocks, record.lost_blocks) == (2, 1)
    assert "run-03 failed in 1 of 3 blocks" in " ".join(worded(folder).answer)


def test_the_short_form_of_set_replaces_the_variables_of_the_file() -> None:
    asked, _ = load("screen", None, (f"{FLUSH}=1,2", f"{POOL}=128M,16M", "innodb_flush_neighbors=ON,OFF"))
    assert asked.screen is not None
    assert asked.screen.variables == {
        FLUSH: (1, 2), POOL: ("128M", "16M"), "innodb_flush_neighbors": ("ON", "OFF"),
    }  # fmt: skip
    assert len(asked.arms) == 4
    assert asked.control == CONTROL
