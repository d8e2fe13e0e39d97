"""What would decide a published claim that cannot be told: time, loads, a host, or a metric of the question."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mydyno.analysis.published import NextSteps
from mydyno.experiment_file.published_studies import published_studies
from mydyno.model.stored.analyses import PublishedEntry
from mydyno.model.stored.reasons import CopiesDiffer, Fact, fact
from mydyno.model.stored.summary import ConclusionRecord, EffectDetails, LimitRecord, Summary
from tests.support.saved_studies import experiment, saved, values
from tests.unit.analysis.test_factors import CROSSING, NAMES, logs, study

CLAIMS = {
    conclusion.claim: part.name for part in published_studies()["study-4"].parts for conclusion in part.conclusions
}


def steps(limit: str = "none", verdict: str = "inconclusive", needed: int | None = 4, **details: Any) -> NextSteps:
    """A study of twelve arms on links, at four connections; every contrast has this verdict and no precision."""
    of = study()
    found = saved(logs(1, CROSSING), of, alpha=0.03125, look=6)
    step = of.resolved_steps[0].id
    effects = tuple(
        one.model_copy(
            update={
                "verdict": verdict,
                "ci_low": 0.93,
                "ci_high": 1.075,
                "details": EffectDetails(blocks_needed=needed, **details),
            }
        )
        for one in found.summary.effects
    )
    limits = [LimitRecord(arm=arm, step=step, limit=limit, shares={"link": 0.31}) for arm in NAMES]
    summary = found.summary.model_copy(update={"effects": effects, "limits": tuple(limits)})
    minute = 60 * 10**9
    runs = tuple(run.model_copy(update={"ended_unix_ns": run.started_unix_ns + 2 * minute}) for run in found.runs)
    return NextSteps(summary, found.study, runs)


def conclusion(start: str, answer: str = "cannot tell") -> ConclusionRecord:
    claim = next(claim for claim in CLAIMS if claim.startswith(start))
    return ConclusionRecord(study="study-4", part=CLAIMS[claim], claim=claim, answer=answer)


@pytest.mark.parametrize(
    ("start", "limit", "words"),
    [
        ("a full link carries", "none", "a host with more CPUs, or a slower link"),
        ("a full link carries", "link", "more blocks: at least 6"),
        ("once the link is full", "none", "two loads at which a link is full: --set 'steps.connections=[64,256]'"),
        ("where the link is the limit", "none", "a host with more CPUs, or a slower link"),
        ("where it is not", "none", "about 8 minutes more (mydyno resume allocators-1 --time 8m)"),
        ("TLS costs about 10 %", "none", "a study at 1 connection: --set 'steps.connections=[1]'"),
        ("away from it", "none", "loads at which throughput grows without it (--set 'steps.connections=[32,256]')"),
    ],
)
def test_a_conclusion_that_cannot_be_told_says_what_would_decide_it(start: str, limit: str, words: str) -> None:
    assert steps(limit).of_conclusion(conclusion(start)).startswith(words)


def test_a_claim_that_is_decided_needs_nothing() -> None:
    assert steps().of_conclusion(conclusion("where it is not", "agrees")) == ""
    assert steps().of_conclusion(ConclusionRecord(study="x", part="y", claim="z", answer="cannot tell")) == ""


def test_more_blocks_than_the_last_look_has_are_another_host_and_so_is_an_alarm() -> None:
    for needed in (41, 9000 * 60):
        hopeless = steps(needed=needed).of_conclusion(conclusion("where it is not"))
        assert hopeless == "a quieter host: with the noise of this one, more blocks do not decide it"
    alarmed = steps(alarm=CopiesDiffer(control="small", of="qps", difference=0.03, p=0.01)).of_conclusion(
        conclusion("where it is not")
    )
    assert alarmed == "a quieter host: here two copies of the control differ"


def entry(summary: Summary, metric: str = "qps", facts: tuple[Fact, ...] = ()) -> PublishedEntry:
    one = summary.effects[0]
    return PublishedEntry(
        study="study-1", metric=metric, step=one.step, arm=one.arm, control=one.control, published_ratio=1.2,
        ratio=one.ratio, agreement="cannot tell", facts=facts,
    )  # fmt: skip


def test_a_figure_on_another_metric_names_the_option_that_gives_it_verdicts() -> None:
    found = saved(values(np.random.default_rng(1)), experiment(), latency=True)
    of = NextSteps(found.summary, found.study, found.runs)
    said = of.of_figure(entry(found.summary, "latency_p99_us"))
    assert said == """a study with verdicts on it: --set 'verdict.primary=["qps","latency_p99_us"]'"""


def test_a_figure_of_a_full_link_needs_a_full_link() -> None:
    of = steps()
    assert of.of_figure(entry(of.summary, facts=(fact("no link full"),))).startswith(
        "a host with more CPUs, or a slower link"
    )
    assert of.of_figure(entry(of.summary)).startswith("about 8 minutes more (mydyno resume ")


def test_a_figure_at_another_load_needs_that_load_and_not_time() -> None:
    at_another = fact("other load", published=128, here=64)
    for verdict in ("higher", "lower", "equivalent", "inconclusive"):
        of = steps(verdict=verdict)
        of_figure = entry(of.summary).model_copy(update={"notes": (at_another,)})
        assert of.of_figure(of_figure) == "a study at 128 connections: --set 'steps.connections=[128]'"
