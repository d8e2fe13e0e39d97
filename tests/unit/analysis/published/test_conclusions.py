"""Study 4's conclusions: each answer is what effects and limits allow, "cannot tell" where its condition is absent."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from mydyno.analysis.published import fact_clauses
from mydyno.analysis.published.conclusions import conclusions_of
from mydyno.experiment_file.published_studies import Conclusion, PublishedStudy
from mydyno.model.definition.experiment import ArmSpec, Experiment, ServerSpec, StepSpec
from mydyno.model.definition.factors import only_difference
from mydyno.model.stored.reasons import CopiesDiffer
from mydyno.model.stored.summary import ConclusionRecord, EffectDetails, EffectRecord, LimitRecord, RunSummary
from tests.support.fake_script import experiment

ARMS = {
    f"{speed}-{tls_name}-{packed}": {"network": speed, "tls": tls, "compression": compression}
    for speed, (tls_name, tls), (packed, compression) in product(
        ("10gbit", "1gbit"), (("plain", "off"), ("tls", "1.3")), (("raw", "off"), ("zlib", "zlib"))
    )
}
ONE, FORTY, MANY = "oltp_read_only-1", "oltp_read_only-40", "oltp_read_only-256"


def asked(**changes: Any) -> Experiment:
    return experiment(
        tuple(ARMS),
        treatments=ARMS,
        steps=(StepSpec(workload="oltp_read_only", connections=(1, 40, 256)),),
        published=("study-4",),
        **changes,
    )


def effect(arm: str, control: str, step: str, ratio: float, verdict: str, half: float = 0.01) -> EffectRecord:
    return EffectRecord(
        metric=asked().verdict.leading, step=step, arm=arm, control=control, n=8, ratio=ratio, ci_low=ratio - half,
        ci_high=ratio + half, p=0.01, verdict=verdict, primary=True,
    )  # fmt: skip


def limit(arm: str, step: str, what: Any) -> LimitRecord:
    return LimitRecord(arm=arm, step=step, limit=what, shares={"link": 0.96 if what == "link" else 0.4})


def run(arm: str, values: dict[str, dict[str, float]], valid: bool = True, block: int = 1) -> RunSummary:
    return RunSummary(block=block, position=1, arm=arm, valid=valid, folder=arm, values=values)


def runs_of(
    arm: str, values: dict[str, dict[str, float]], blocks: int = 6, noise: float = 0.0
) -> tuple[RunSummary, ...]:
    """One run in each block; of FORTY, values are `noise` larger in even blocks and smaller in odd ones."""
    return tuple(
        run(
            arm,
            {
                step: {name: value * (1 + noise * (-1) ** block * (step == FORTY)) for name, value in of_step.items()}
                for step, of_step in values.items()
            },
            block=block,
        )
        for block in range(1, blocks + 1)
    )


def told(
    effects: tuple[EffectRecord, ...] = (), limits: tuple[LimitRecord, ...] = (), runs: tuple[RunSummary, ...] = ()
) -> dict[str, ConclusionRecord]:
    found = conclusions_of(asked(), runs, effects, limits)
    assert [one.part for one in found] == ["N1", "N1", "N2", "N2", "N3", "N3", "N3"]
    return {one.claim.partition(",")[0].partition(" (")[0]: one for one in found}


def test_an_experiment_that_does_not_repeat_the_study_has_no_conclusions() -> None:
    assert conclusions_of(experiment(("a", "b")), (), (), ()) == ()
    of_its_appendix = experiment(("a", "b"), published=("study-4",))
    assert conclusions_of(of_its_appendix, (), (), ()) == (), "huge pages are in the same study"


def test_without_effects_and_limits_nothing_can_be_told() -> None:
    assert {one.answer for one in told().values()} == {"cannot tell"}


def test_arms_are_compared_only_where_one_treatment_alone_differs() -> None:
    base = ArmSpec(name="a", treatments={"network": "1gbit", "tls": "off"})
    assert only_difference(base, ArmSpec(name="b", treatments={"network": "1gbit", "tls": "1.3"})) == "tls"
    assert only_difference(base, ArmSpec(name="b", treatments={"network": "1gbit"})) == "tls"
    assert only_difference(base, ArmSpec(name="b", treatments={"network": "10gbit", "tls": "1.3"})) is None
    assert only_difference(base, base) is None


@pytest.mark.parametrize(("sent", "answer"), [(121e6, "agrees"), (95e6, "disagrees")])
def test_a_full_link_is_held_against_its_nominal_speed(sent: float, answer: str) -> None:
    arm = "1gbit-plain-raw"
    measured = runs_of(arm, {FORTY: {"network_tx_bytes_per_s": sent, "tps": 1.0}}, noise=0.002)
    runs = (*measured, run(arm, {FORTY: {}}, valid=False, block=7))
    found = told(limits=(limit(arm, FORTY, "link"), limit("10gbit-plain-raw", FORTY, "none")), runs=runs)
    assert found["a full link carries 97 % of its nominal speed"].answer == answer


def test_a_link_that_was_never_full_is_named() -> None:
    found = told(limits=(limit("1gbit-plain-raw", FORTY, "server CPU"),))
    claim = found["a full link carries 97 % of its nominal speed"]
    assert claim.answer == "cannot tell"
    assert (
        fact_clauses(claim.facts)
        == "no link was full: the fullest was that of 1gbit-plain-raw at oltp_read_only-40, 40 %"
    )


@pytest.mark.parametrize(("last", "answer"), [(1010.0, "agrees"), (1300.0, "disagrees")])
def test_throughput_past_saturation_is_flat_or_not(last: float, answer: str) -> None:
    arm = "1gbit-plain-raw"
    limits = (limit(arm, FORTY, "link"), limit(arm, MANY, "link"))
    values = {FORTY: {"tps": 1000.0}, MANY: {"tps": last}}
    found = told(limits=limits, runs=runs_of(arm, values, noise=0.01))
    assert found["once the link is full"].answer == answer
    for blocks, noise in ((5, 0.01), (6, 0.5)):
        few = told(limits=limits, runs=runs_of(arm, values, blocks, noise))
        assert few["once the link is full"].answer == "cannot tell", "few blocks or much noise decide nothing"


@pytest.mark.parametrize(
    ("verdict", "where", "at_limit", "elsewhere"),
    [
        ("higher", "link", "agrees", "cannot tell"),
        ("equivalent", "link", "disagrees", "cannot tell"),
        ("inconclusive", "link", "cannot tell", "cannot tell"),
        ("lower", "server CPU", "cannot tell", "agrees"),
        ("higher", "none", "cannot tell", "disagrees"),
    ],
)
def test_compression_pays_at_the_links_limit_and_costs_elsewhere(
    verdict: str, where: str, at_limit: str, elsewhere: str
) -> None:
    pair = effect("1gbit-plain-zlib", "1gbit-plain-raw", FORTY, 1.4, verdict)
    several = effect("1gbit-plain-zlib", "10gbit-plain-raw", FORTY, 0.2, "lower")
    found = told((pair, several), (limit("1gbit-plain-raw", FORTY, where), limit("10gbit-plain-raw", FORTY, where)))
    assert found["where the link is the limit"].answer == at_limit
    assert found["where it is not"].answer == elsewhere


@pytest.mark.parametrize(("ratio", "verdict", "answer"), [(0.9, "lower", "agrees"), (0.7, "lower", "partly"),
                         (0.9, "inconclusive", "cannot tell"), (1.0, "equivalent", "disagrees")])  # fmt: skip
def test_tls_at_one_connection_is_compared_with_ten_percent_by_its_verdict(
    ratio: float, verdict: str, answer: str
) -> None:
    found = told((effect("1gbit-tls-raw", "1gbit-plain-raw", ONE, ratio, verdict, 0.02),))
    assert found["TLS costs about 10 % at one connection"].answer == answer


def test_tls_at_a_full_link_costs_nothing_where_both_arms_fill_it() -> None:
    pair = effect("1gbit-tls-raw", "1gbit-plain-raw", FORTY, 1.0, "equivalent")
    both = (limit("1gbit-plain-raw", FORTY, "link"), limit("1gbit-tls-raw", FORTY, "link"))
    assert told((pair,), both)["at the link's limit TLS costs nothing more"].answer == "agrees"
    one = (both[0], limit("1gbit-tls-raw", FORTY, "server CPU"))
    alone = told((pair,), one)["at the link's limit TLS costs nothing more"]
    assert alone.answer == "cannot tell"
    assert fact_clauses(alone.facts) == (
        "no pair of arms that differ in TLS alone was together at a full link; "
        f"the full links were those of 1gbit-plain-raw at {FORTY}"
    )


def test_traffic_from_another_host_is_what_the_load_s_interface_received() -> None:
    external = asked(server=ServerSpec(dsn="mysql://bench@far/sbtest"))
    values = {FORTY: {"network_rx_bytes_per_s": 121e6, "network_tx_bytes_per_s": 1e6, "tps": 1.0}}
    arm = "1gbit-plain-raw"
    (first, *_) = conclusions_of(external, runs_of(arm, values), (), (limit(arm, FORTY, "link"),))
    assert first.answer == "agrees"


@pytest.mark.parametrize(
    ("plain", "encrypted", "answer"),
    [(1500.0, 1010.0, "agrees"), (1500.0, 1400.0, "disagrees"), (1020.0, 1010.0, "cannot tell")],
)
def test_tls_stops_scaling_only_where_plain_text_goes_on(plain: float, encrypted: float, answer: str) -> None:
    pair = effect("10gbit-tls-raw", "10gbit-plain-raw", FORTY, 0.9, "lower")
    claim = "away from it throughput with TLS stops growing at 32 connections"

    def runs(blocks: int, noise: float) -> tuple[RunSummary, ...]:
        return (
            *runs_of("10gbit-plain-raw", {FORTY: {"tps": 1000.0}, MANY: {"tps": plain}}, blocks, noise),
            *runs_of("10gbit-tls-raw", {FORTY: {"tps": 1000.0}, MANY: {"tps": encrypted}}, blocks, noise),
        )

    assert told((pair,), (), runs(6, 0.01))[claim].answer == answer
    assert told((pair,), (), runs(5, 0.01))[claim].answer == "cannot tell"
    assert told((pair,), (), runs(6, 0.4))[claim].answer == "cannot tell"


def test_nothing_is_concluded_where_two_copies_of_the_control_differ() -> None:
    alarmed = effect("1gbit-plain-zlib", "1gbit-plain-raw", FORTY, 1.4, "not_measurable").model_copy(
        update={"details": EffectDetails(alarm=CopiesDiffer(control="1gbit-plain-raw"))}
    )
    arm = "1gbit-plain-raw"
    runs = runs_of(arm, {FORTY: {"network_tx_bytes_per_s": 121e6, "tps": 1.0}})
    assert (
        told((), (limit(arm, FORTY, "link"),), runs)["a full link carries 97 % of its nominal speed"].answer == "agrees"
    )
    found = told((alarmed,), (limit(arm, FORTY, "link"),), runs)
    assert {one.answer for one in found.values()} == {"cannot tell"}
    assert {fact_clauses(one.facts) for one in found.values()} == {
        "two copies of 1gbit-plain-raw differ, although they are identical"
    }


def test_the_rules_numbers_come_from_the_published_studies_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """A study of another treatment, with other numbers, needs no code of its own."""
    made_up = PublishedStudy.model_validate(
        {
            "study": "study-4",
            "title": "made up",
            "host": "none",
            "arms": {},
            "parts": [
                {
                    "name": "X",
                    "treatment": "compression",
                    "conclusions": [
                        {"claim": "half", "test": {"rule": "ratio", "connections": 40, "ratio": 0.5, "rounding": 0.01}},
                        {"claim": "a third", "test": {"rule": "ratio", "connections": 40, "ratio": 0.3, "rounding": 0}},
                        {"claim": "at 8", "test": {"rule": "ratio", "connections": 8, "ratio": 0.3, "rounding": 0}},
                    ],
                }
            ],
        }
    )
    monkeypatch.setattr("mydyno.analysis.published.conclusions.published_studies", lambda: {"study-4": made_up})
    pair = effect("10gbit-plain-zlib", "10gbit-plain-raw", FORTY, 0.5, "lower")
    found = conclusions_of(asked(), (), (pair,), ())
    assert [(one.part, one.claim, one.answer) for one in found] == [
        ("X", "half", "agrees"),
        ("X", "a third", "partly"),
        ("X", "at 8", "cannot tell"),
    ]
    assert fact_clauses(found[2].facts) == "no pair of arms differs in compression alone at 8 connections"


def test_an_unknown_rule_is_refused() -> None:
    with pytest.raises(ValueError, match="rule"):
        Conclusion.model_validate({"claim": "x", "test": {"rule": "guess"}})
