"""An experiment on the network: limits, traffic against the ceiling, and conclusions of study 4."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mydyno.analysis import limits
from mydyno.document.result import StudyResult
from mydyno.model.stored.reasons import fact
from mydyno.model.stored.summary import ConclusionRecord, EffectRecord, LimitRecord
from mydyno.reports.sections import network
from tests.support.fake_study_folder import Shape, build
from tests.unit.reports.test_html import Page, assert_clean, make

LINKS: dict[str, dict[str, Any]] = {
    "fast": {"network": "10gbit", "tls": "off", "compression": "off"},
    "slow": {"network": "1gbit", "tls": "off", "compression": "off"},
    "small": {"network": "1gbit", "tls": "off", "compression": "zlib"},
}
SHAPE = Shape(
    arms=tuple(LINKS),
    links=LINKS,
    workloads=("oltp_read_only",),
    connections=(1, 64),
    blocks=2,
    warmup_s=3,
    measure_s=5,
)
SHARES = {"link": 0.964, "cpu": 0.5, "server": 0.31, "load": 0.12}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[StudyResult, str, Page]]:
    folder = build(tmp_path_factory.mktemp("studies") / "links", SHAPE)
    summary = folder.summary()
    assert summary is not None
    slow = next(effect for effect in summary.effects if effect.metric == "qps" and effect.arm == "small")
    own = slow.model_copy(update={"control": "slow", "ratio": 1.5, "verdict": "higher", "primary": True})
    said = [
        ("N1", "a full link is full", "agrees", "slow sent 98 %"),
        ("N2", "Compression pays <there>", "cannot tell", "no link was full"),
        ("N3", "TLS costs", "cannot tell", "no pair"),
    ]
    folder.write_summary(
        summary.model_copy(
            update={
                "effects": (*_with_verdicts(summary.effects), own),
                "limits": (LimitRecord(arm="slow", step=own.step, limit="link", shares=SHARES),),
                "conclusions": tuple(
                    ConclusionRecord(
                        study="study-4", part=part, claim=claim, answer=answer, facts=(fact("ratio", ratio=because),)
                    )
                    for part, claim, answer, because in said
                ),
            }
        )
    )
    text, page = make(folder)
    yield StudyResult.load(folder), text, page


def _with_verdicts(effects: tuple[EffectRecord, ...]) -> tuple[EffectRecord, ...]:
    return tuple(one.model_copy(update={"verdict": one.verdict or "lower"}) for one in effects if one.ratio is not None)


def test_the_page_is_clean_and_has_the_sections(made: tuple[StudyResult, str, Page]) -> None:
    _, _, page = made
    assert_clean(page)
    assert {"network", "limits", "published"} <= set(page.ids)


def test_limits_stand_with_the_shares_that_say_so(made: tuple[StudyResult, str, Page]) -> None:
    visible = made[2].visible.replace("\u202f", " ")
    assert "What limited each arm" in visible
    assert "What limited each arm link in 1 of 1" in visible
    assert "link 96 %, server 31 %, load 12 %" in visible


def test_limits_name_the_busiest_thread_of_the_load_and_a_server_that_is_not_seen(
    made: tuple[StudyResult, str, Page],
) -> None:
    result = made[0]
    seen = {"link": 0.2, "cpu": 0.5, "load": 0.4, "thread": 0.97}
    limit = LimitRecord(arm="slow", step=result.steps[0].id, limit="load CPU", met="thread", shares=seen)
    part = limits.part(replace(result, summary=result.summary.model_copy(update={"limits": (limit,)})))
    assert part is not None
    assert "link 20\u202f%, load 40\u202f%, other 10\u202f%, busiest load thread 97\u202f%" in part.html
    assert "host is not measured." in part.html
    assert "host is not measured." not in made[1]


def test_traffic_is_drawn_against_the_load_with_the_ceilings_that_were_reached(
    made: tuple[StudyResult, str, Page],
) -> None:
    _, text, page = made
    assert "sweep:network_tx_bytes_per_s:oltp_read_only" in page.charts
    assert text.count('class="ceiling"') == 1, "10gbit was not reached here"
    assert "1gbit: 117" in text and "10gbit:" not in text
    assert "Without a line: 10gbit (not reached in a timed transfer)." in page.visible


def test_a_ceiling_far_above_the_traffic_is_named(made: tuple[StudyResult, str, Page]) -> None:
    part = network.build(_with_facts(made[0], to_load_bits_per_s=1e12, reached=True))
    assert part is not None
    assert re.search(r"Without a line: (10gbit, 1gbit|1gbit, 10gbit) \(far above the traffic\)\.", part.html)


def _with_facts(result: StudyResult, **facts: Any) -> StudyResult:
    runs = tuple(
        run.model_copy(update={"evidence": tuple(
            one.model_copy(update={"facts": {**one.facts, **facts}}) for one in run.evidence
        )})
        for run in result.runs
    )  # fmt: skip
    return replace(result, summary=result.summary.model_copy(update={"runs": runs}))


def test_the_ceiling_of_a_link_with_a_long_latency_is_its_bandwidth(made: tuple[StudyResult, str, Page]) -> None:
    found = network._links(_with_facts(made[0], to_load_bits_per_s=30e6, link_bits_per_s=94e6, reached=True))
    assert found == dict.fromkeys(("10gbit", "1gbit"), pytest.approx(94e6 / 8 * 1514 / 1448))


def test_bytes_per_transaction_have_their_chart_here_and_not_among_other_metrics(
    made: tuple[StudyResult, str, Page],
) -> None:
    _, text, page = made
    assert "sweep:network_bytes_per_transaction:oltp_read_only" in page.charts
    assert text.count('data-chart="sweep:network_bytes_per_transaction:oltp_read_only"') == 1


def test_conclusions_stand_with_their_answers(made: tuple[StudyResult, str, Page]) -> None:
    _, text, page = made
    assert "Compression pays <there> (study-4) ? undecided no link was full" in page.visible
    assert "a full link is full (study-4) = agrees slow sent 98 %" in page.visible
    assert "pays <there>" not in text


def test_an_experiment_that_leaves_the_network_alone_has_no_such_section(tmp_path: Path) -> None:
    folder = build(tmp_path / "allocators", Shape(connections=(16,), blocks=1, warmup_s=2, measure_s=3))
    assert network.build(StudyResult.load(folder)) is None
