"""What a study of factors finds and says: main effects, interactions, the crossing, and nothing that is undecided."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mydyno.analysis.base import Examined
from mydyno.analysis.factors import quantity, say
from mydyno.analysis.factors.effects import analyse
from mydyno.evaluation.answer import answer_sentences
from mydyno.model.definition.experiment import ArmSpec, Experiment
from mydyno.model.definition.specs import VerdictSpec
from mydyno.model.stored.analyses import FactorsRecord
from mydyno.model.stored.records import Evidence
from mydyno.model.stored.summary import HostGroupsRecord, Summary
from mydyno.results.families import families
from tests.support import first_in_gate
from tests.support.saved_studies import SavedStudy, experiment, saved
from tests.support.simulated import at_most, simulated

NAMES = [f"{a}-{b}-{c}" for a in ("10gbit", "1gbit", "100mbit") for b in ("plain", "tls") for c in ("raw", "zlib")]
ALPHA = 0.03125


def arms(bandwidth: Mapping[str, Any] | None = None) -> tuple[ArmSpec, ...]:
    found = []
    for name in NAMES:
        a, b, c = name.split("-")
        treatments = {"network": (bandwidth or {}).get(a, a), "tls": "1.3" if b == "tls" else "off", "compression": c}
        found.append(ArmSpec(name=name, treatments=treatments))
    return tuple(found)


def study(bandwidth: Mapping[str, Any] | None = None) -> Experiment:
    return experiment(NAMES).model_copy(update={"arms": arms(bandwidth)})


def logs(
    seed: int, zlib: Mapping[str, float], tls: float = -0.15, narrow: float = 0.0, noise: float = 0.02, blocks: int = 6,
    heavy: bool = False,
) -> NDArray[np.float64]:  # fmt: skip
    random = np.random.default_rng(seed)
    effects = [
        (zlib.get(name.split("-")[0], 0.0) if "zlib" in name else 0.0) + (tls if "tls" in name else 0.0)
        + (narrow if name.startswith("100mbit") else 0.0)
        for name in [NAMES[0], *NAMES]
    ]  # fmt: skip
    shape = (blocks, len(effects))
    drawn = random.standard_t(3, shape) / 3**0.5 if heavy else random.standard_normal(shape)
    return np.asarray((9.0 + random.normal(0, 0.05, (blocks, 1)) + np.array(effects) + noise * drawn)[:, :, None])


def record_of(made: NDArray[np.float64], of: Experiment) -> tuple[FactorsRecord, Summary]:
    found = saved(made, of, alpha=ALPHA)
    every = list(families(of, found.summary.runs, ("qps",)))
    record = analyse(Examined(experiment=of, runs=found.summary.runs, families=every, alpha=ALPHA))
    assert record is not None
    return record, found.summary.model_copy(update={"factors": record})


CROSSING = {"10gbit": -1.0, "1gbit": -0.9, "100mbit": 0.6}


def test_compression_costs_where_the_link_is_fast_and_gains_below_the_crossing() -> None:
    record, summary = record_of(logs(1, CROSSING, narrow=-1.5), study())
    assert [factor.values for factor in record.factors] == [(1e10, 1e9, 1e8), (), ()]
    (crossing,) = record.crossings
    assert (crossing.high_level, crossing.other) == ("1gbit", "network")
    assert crossing.ci_low < 10 ** (8 + 0.6 / 1.5) < crossing.ci_high, "0.6 and −0.9 are 0 at two fifths of the way"
    said = say(summary, "qps")
    assert said[0].startswith("In queries per second, tls instead of plain costs 14.")
    assert re.match(r"In queries per second, zlib instead of raw costs 6[23]\.\d % at 10 Gbit/s and ", said[1])
    assert re.search(r"; below about 25.* it gains: 8[12]\.\d % at 100 Mbit/s\.$", said[1])
    assert re.search(r"; 100 Mbit/s instead of 10 Gbit/s costs 7[78]\.\d % with raw", said[2])


def test_nothing_is_said_of_what_is_not_decided() -> None:
    record, summary = record_of(logs(2, {}, tls=0.0), study())
    assert not any(one.decided for one in record.effects) and not record.crossings
    assert say(summary, "qps") == []


def test_without_a_decided_interaction_the_mean_over_the_others_is_said() -> None:
    _, summary = record_of(logs(3, dict.fromkeys(CROSSING, -0.5), noise=0.01), study())
    assert say(summary, "qps")[1].startswith("In queries per second, zlib instead of raw costs 39.7 % (39.")


def test_a_sign_that_changes_without_being_decided_is_no_crossing() -> None:
    record, summary = record_of(logs(4, {"10gbit": -1.0, "1gbit": -0.9, "100mbit": 0.01}), study())
    assert not record.crossings
    assert say(summary, "qps")[1].endswith(" at 1 Gbit/s, undecided at 100 Mbit/s.")


def test_levels_are_numbers_from_what_is_set_not_from_the_names() -> None:
    slower = {"10gbit": "200mbit", "1gbit": {"bandwidth": "1gbit"}, "100mbit": "2.5gbit"}
    record, _ = record_of(logs(1, CROSSING), study(slower))
    assert record.factors[0].values == (2e8, 1e9, 2.5e9)
    delayed = {"10gbit": {"bandwidth": "10gbit", "latency": "1ms"}}
    record, _ = record_of(logs(1, CROSSING), study(delayed))
    assert record.factors[0].values == () and not record.crossings


def test_a_link_that_was_not_reached_bounds_no_crossing() -> None:
    of = study()
    found = saved(logs(1, CROSSING), of, alpha=ALPHA)
    missed = Evidence(treatment="network", holds=True, text="", facts={"reached": False})
    runs = tuple(
        run.model_copy(update={"evidence": (missed,)}) if run.arm.startswith("1gbit") else run
        for run in found.summary.runs
    )
    record = analyse(Examined(experiment=of, runs=runs, families=list(families(of, runs, ("qps",))), alpha=ALPHA))
    assert record is not None and record.factors[0].unreached == ("1gbit",) and not record.crossings
    summary = found.summary.model_copy(update={"factors": record})
    assert "1 Gbit/s (not reached)" in say(summary, "qps")[1]


def test_with_an_alarm_of_the_control_nothing_is_decided() -> None:
    of = study()
    found = saved(logs(1, CROSSING), of, alpha=ALPHA)
    record = analyse(
        Examined(
            experiment=of,
            runs=found.summary.runs,
            families=list(families(of, found.summary.runs, ("qps",))),
            alpha=ALPHA,
            alarm=True,
        )
    )
    assert record is not None and not any(one.decided for one in record.effects)


def test_an_arm_that_failed_leaves_its_contrasts_without_a_number() -> None:
    of = study()
    found = saved(logs(1, CROSSING), of, alpha=ALPHA)
    step = of.resolved_steps[0].id
    runs = tuple(
        run.model_copy(update={"failures": {step: "it crashed"}})
        if (run.arm, run.block) == ("1gbit-tls-zlib", 2)
        else run
        for run in found.summary.runs
    )
    record = analyse(Examined(experiment=of, runs=runs, families=list(families(of, runs, ("qps",))), alpha=ALPHA))
    assert record is not None
    assert {(one.kind, one.level, one.at) for one in record.effects if one.level == "zlib"} == {
        ("at", "zlib", "10gbit"), ("at", "zlib", "100mbit"), ("at", "zlib", "plain"),
    }  # fmt: skip


def test_an_arm_that_is_not_measurable_otherwise_has_no_number_either() -> None:
    """More blocks are lost than left; without a second copy of the control nothing is decided."""
    of = study()
    found = saved(logs(1, CROSSING), of, alpha=ALPHA)
    lost = [run.model_copy(update={"valid": False}) if run.arm == "1gbit-tls-zlib" and run.block > 2 else run
            for run in found.summary.runs]  # fmt: skip
    alone = [run for run in found.summary.runs if run.copy_number == 1]
    records = [
        analyse(Examined(experiment=of, runs=runs, families=list(families(of, runs, ("qps",))), alpha=ALPHA))
        for runs in (lost, alone)
    ]
    assert records[0] is not None and records[1] is not None
    assert {one.at for one in records[0].effects if one.level == "zlib"} == {"10gbit", "100mbit", "plain"}
    assert records[1].effects and not any(one.decided for one in records[1].effects)


def test_before_a_look_and_without_factors_there_is_no_record() -> None:
    of = study()
    runs = saved(logs(1, {}), of).summary.runs
    assert (
        analyse(Examined(experiment=of, runs=runs, families=list(families(of, runs, ("qps",))), alpha=ALPHA, due=False))
        is None
    )
    plain = experiment()
    assert analyse(Examined(experiment=plain, runs=(), alpha=ALPHA)) is None


def test_the_answer_is_by_factors() -> None:
    of = study()
    _, summary = record_of(logs(1, CROSSING, narrow=-1.5), of)
    found = saved(logs(1, CROSSING, narrow=-1.5), of, alpha=ALPHA)
    answer, further = answer_sentences(summary, found.study, lambda: None)
    assert len(answer) == 3 and not further and all(one.startswith("In queries per second, ") for one in answer)


def test_of_several_loads_the_sentences_are_of_the_highest_and_name_it() -> None:
    of = experiment(NAMES, steps=2).model_copy(update={"arms": arms()})
    low, high = logs(1, {}), logs(2, CROSSING)
    record, summary = record_of(np.concatenate([low, high], axis=2), of)
    assert {one.step for one in record.effects} == {step.id for step in of.resolved_steps}
    said = say(summary, "qps")
    assert said[1].startswith("In queries per second at 8 connections, zlib instead of raw costs 63 % at 10 Gbit/s")


def test_of_several_workloads_the_sentences_name_theirs() -> None:
    _, summary = record_of(logs(1, CROSSING), study())
    other = summary.steps[0].model_copy(update={"id": "tpcc-8", "workload": "tpcc"})
    said = say(summary.model_copy(update={"steps": (*summary.steps, other)}), "qps")
    assert said[1].startswith(f"In queries per second at 4 connections ({summary.steps[0].workload}), zlib instead of")


def test_codes_that_the_names_of_levels_spell_out_are_no_quantities() -> None:
    flush = {"raw": 1, "zlib": 2}
    coded = [
        arm.model_copy(update={"treatments": arm.treatments | {"compression": flush[arm.treatments["compression"]]}})
        for arm in arms()
    ]
    record, summary = record_of(logs(1, CROSSING), experiment(NAMES).model_copy(update={"arms": tuple(coded)}))
    assert [factor.values for factor in record.factors][1:] == [(), ()]
    assert "zlib instead of raw" in say(summary, "qps")[1]


def test_each_metric_of_the_question_keeps_sentences_of_its_own() -> None:
    verdict = VerdictSpec(primary=("qps", "latency_p99_us"), cost=False)
    of = study().model_copy(update={"verdict": verdict})
    found = saved(logs(1, CROSSING), of, alpha=ALPHA, latency=True, also_primary=("latency_p99_us",))
    every = list(families(of, found.summary.runs, ("qps", "latency_p99_us")))
    record = analyse(Examined(experiment=of, runs=found.summary.runs, families=every, alpha=ALPHA))
    answer, further = answer_sentences(found.summary.model_copy(update={"factors": record}), found.study, lambda: None)
    assert answer[0].startswith("In queries per second,") and "latency" not in " ".join(answer)
    assert [one.partition(",")[0] for one in further] == ["In 99th-percentile latency"]
    assert "zlib instead of raw: +1" in further[-1]
    assert "0 at about 25" in further[-1], "a metric that is better lower has signs, and the same crossing"


def on_hosts(made: NDArray[np.float64], of: Experiment, blocks: Sequence[int]) -> tuple[FactorsRecord, SavedStudy]:
    """The record of blocks that the hosts vm1, vm2, … made, so many each, one host after the other."""
    found = saved(made, of, alpha=ALPHA)
    host_of = [f"vm{number}" for number, count in enumerate(blocks, 1) for _ in range(count)]
    runs = tuple(run.model_copy(update={"host_group": host_of[run.block - 1]}) for run in found.summary.runs)
    record = analyse(Examined(experiment=of, runs=runs, families=list(families(of, runs, ("qps",))), alpha=ALPHA))
    assert record is not None
    return record, replace(found, summary=found.summary.model_copy(update={"runs": runs, "factors": record}))


def test_over_several_hosts_the_effect_is_the_mean_of_theirs_and_their_difference_is_no_noise() -> None:
    """Four blocks on one host, two on the other; zlib costs more on the second."""
    of = study()
    costs = dict.fromkeys(CROSSING, -0.3), dict.fromkeys(CROSSING, -0.7)
    made = np.concatenate([logs(1, costs[0], blocks=4), logs(2, costs[1], blocks=2)])
    record, found = on_hosts(made, of, (4, 2))
    (zlib,) = (one for one in record.effects if (one.kind, one.level) == ("main", "zlib"))
    assert zlib.ratio == pytest.approx(np.exp(-0.5), rel=0.02)
    assert zlib.ci_low is not None and zlib.ci_high is not None and zlib.ci_high / zlib.ci_low < 1.06
    assert zlib.decided and zlib.n == 6
    summary = found.summary
    groups = HostGroupsRecord(blocks={"vm1": 4, "vm2": 2}, differences={}, effects=())
    answer, _ = answer_sentences(summary.model_copy(update={"host_groups": groups}), found.study, lambda: None)
    assert answer[0].startswith("On these two hosts, in queries per second, tls instead of plain costs 14.")


def test_a_block_that_is_alone_on_its_host_does_not_count_among_many() -> None:
    of = study()
    made = np.concatenate([logs(1, {}, tls=-0.1, blocks=5), logs(2, {}, tls=-2.0, blocks=1)])
    record, _ = on_hosts(made, of, (5, 1))
    (tls,) = (one for one in record.effects if (one.kind, one.level) == ("main", "tls"))
    assert (tls.n, tls.ratio) == (5, pytest.approx(np.exp(-0.1), rel=0.02))


@pytest.mark.slow
@pytest.mark.parametrize("blocks", first_in_gate([[3, 3], [4, 2], [2, 2, 2]]))
def test_a_study_on_several_hosts_claims_no_effect_more_often_than_it_says(blocks: Sequence[int]) -> None:
    """The last host has three times the noise."""
    of, claims, studies = study(), 0, simulated(200)
    for seed in range(studies):
        made = [
            logs(3000 + 10 * seed + host, {}, tls=0.0, noise=0.06 if host == len(blocks) - 1 else 0.02, blocks=count)
            for host, count in enumerate(blocks)
        ]
        record, _ = on_hosts(np.concatenate(made), of, blocks)
        claims += any(one.decided for one in record.effects)
    assert at_most(claims / studies, studies)


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [(1e10, "bit/s", "10 Gbit/s"), (2.41e8, "bit/s", "241 Mbit/s"), (999.9e6, "bit/s", "1 Gbit/s"),
     (512 << 20, "bytes", "512 MiB"), (64, "", "64")],
)  # fmt: skip
def test_levels_are_written_with_their_units(value: float, unit: str, text: str) -> None:
    assert quantity(value, unit) == text


@pytest.mark.slow
@pytest.mark.parametrize("heavy", first_in_gate([True, False]))
def test_a_study_without_effects_claims_one_as_rarely_as_it_says(heavy: bool) -> None:
    of, claims, studies = study(), 0, simulated(200)
    for seed in range(studies):
        made = logs(1000 + seed, {}, tls=0.0, heavy=heavy)
        runs = saved(made, of, alpha=ALPHA).summary.runs
        record = analyse(Examined(experiment=of, runs=runs, families=list(families(of, runs, ("qps",))), alpha=ALPHA))
        assert record is not None
        claims += any(one.decided for one in record.effects)
    assert at_most(claims / studies, studies), (
        "about 3 % without and up to 5 % with heavy tails (docs/concepts/statistics.md)"
    )
