"""Whether servers of a block affect each other: carry-over between slices and the control loaded alone."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from mydyno.model.definition.experiment import Experiment
from mydyno.model.stored.reasons import fact
from mydyno.model.stored.records import SliceRecord
from mydyno.reports.sections.trust import interference_sentences
from mydyno.results.values.interleaved import InterleavedValues, interleaved_values
from tests.support.fake_script import experiment
from tests.support.fake_slices import QUIET, Host, Simulation


def asked(washout_s: float = 0.5) -> Experiment:
    design = {"kind": "interleaved", "blocks": 6, "cycles": 8, "slice": 2, "washout": washout_s}
    return experiment(("glibc", "jemalloc"), design=design)


def with_carry_over(slices: Sequence[SliceRecord], arm: str, change: float, blocks: int = 99) -> list[SliceRecord]:
    """The slices as if every one that comes after a slice of `arm` had served more by `change`."""
    before = {(one.block, one.step, one.cycle, one.position): one.arm for one in slices}
    found = []
    for one in slices:
        after = before.get((one.block, one.step, one.cycle, one.position - 1)) == arm and one.block <= blocks
        found.append(scaled(one, 1 + change if after else 1.0))
    return found


def scaled(one: SliceRecord, factor: float) -> SliceRecord:
    """The slice with `factor` times the work, at the same cost per query."""
    changed = {name: factor * (getattr(one, name) or 0.0) for name in ("driver_cpu_s", "server_cpu_s")}
    return one.model_copy(update={"queries": round(one.queries * factor), **changed})


def values(
    slices: Sequence[SliceRecord], alone: Sequence[SliceRecord] = (), washout_s: float = 0.5
) -> InterleavedValues:
    return interleaved_values(asked(washout_s), slices, alone=alone)


def test_slices_that_depend_on_the_arm_before_them_are_noticed_with_the_size() -> None:
    plain = list(Simulation(host=QUIET).slices(seed=1))
    assert values(plain).record.carry_over == {}
    record = values(with_carry_over(plain, "jemalloc", -0.10)).record
    assert record.carry_over["oltp_read_only-4"] == pytest.approx(-0.10, abs=0.05)
    (sentence,) = interference_sentences(record, "glibc")
    assert sentence.endswith("; use a longer washout: --set design.washout=1s.")


def test_only_slices_with_the_longest_washout_are_examined_and_the_change_is_noted() -> None:
    slices = with_carry_over(list(Simulation(host=QUIET).slices(seed=2)), "jemalloc", -0.10, blocks=3)
    lengthened = [one.model_copy(update={"washout_s": 0.5 if one.block <= 3 else 1.0}) for one in slices]
    record = values(lengthened).record
    assert record.carry_over == {}
    assert record.washout_s == 1.0
    assert record.notes == (fact("longer washout", block=4, washout_s=1.0),)


def test_transactions_that_take_longer_than_a_slice_are_noted() -> None:
    slices = [
        one.model_copy(update={"service_us": 1.2e6, "length_s": 1.0}) for one in Simulation(host=QUIET).slices(seed=3)
    ]
    (sentence,) = interference_sentences(values(slices).record, "glibc")
    assert sentence.endswith(
        ": a transaction takes 1.2 s on average, longer than a slice of 1 s: use --set design.slice=5s."
    )
    long = [one.model_copy(update={"length_s": 2.0}) for one in slices]
    assert values(long).record.notes == ()


def test_what_a_slice_cuts_counts_by_its_share() -> None:
    """Four connections with transactions of 0.3 and of 0.27 s: by their ends both would have as many in a slice."""
    slices = [
        one.model_copy(
            update={
                "transactions": 4,
                "queries": 4,
                "cut": dict.fromkeys(("transactions", "queries"), 4 * one.length_s / took_s - 4),
            }
        )
        for one in Simulation(host=QUIET).slices(seed=3)
        for took_s in (0.27 if one.arm == "jemalloc" else 0.3,)
    ]
    found = values(slices).unadjusted
    for metric in ("qps", "tps"):
        of = {arm: found[1, arm, 1]["oltp_read_only-4"][metric] for arm in ("glibc", "jemalloc")}
        assert of["jemalloc"] / of["glibc"] == pytest.approx(0.3 / 0.27)


def alone(slices: Sequence[SliceRecord], factor: float) -> list[SliceRecord]:
    """Slices of the control's first start with the other servers stopped, `factor` times as fast."""
    own = [one for one in slices if (one.block, one.arm, one.copy_number) == (1, "glibc", 1)]
    return [scaled(one, factor) for one in own]


def test_the_control_alone_is_compared_with_its_own_slices_of_the_same_start() -> None:
    slices = list(Simulation(host=QUIET, slice_sd=0.01).slices(seed=3))
    record = values(slices, alone(slices, 1.25)).record
    assert record.alone is not None
    assert record.alone.qps_ratio == pytest.approx(1.25, abs=0.03)
    (sentence,) = interference_sentences(record, "glibc")
    assert "with the other servers stopped, queries per second of glibc changed by +2" in sentence
    assert sentence.endswith("(8 slices of one start, not separated from the host's drift).")


def test_slices_of_a_host_that_drifts_are_no_proof_that_servers_affect_each_other() -> None:
    """Alone eight slices follow one another; beside the others the same server's are spread over minutes."""
    drifting = Host(wander_sd=0.05, wander_s=60.0, episodes_every_s=0.0)
    changes = []
    for seed in range(20):
        slices = list(Simulation(host=drifting, slice_sd=0.01).slices(seed=seed))
        later = [one for one in slices if one.block == 2][:8]
        of_control = {"block": 1, "arm": "glibc", "copy_number": 1}
        record = values(slices, [one.model_copy(update=of_control) for one in later]).record
        assert record.alone is not None
        changes.append(record.alone.qps_ratio - 1)
        (sentence,) = interference_sentences(record, "glibc")
        assert "affect" not in sentence and "interval" not in sentence
    assert max(map(abs, changes)) > 0.03, "of equal servers"


def test_without_such_slices_nothing_is_stated() -> None:
    slices = list(Simulation(host=QUIET).slices(seed=5))
    assert values(slices).record.alone is None
    assert values(slices, alone(slices, 1.0)[:2]).record.alone is None


def test_of_the_metrics_that_are_asked_for_alone_the_values_are_the_same() -> None:
    slices = with_carry_over(list(Simulation(host=QUIET).slices(seed=1)), "jemalloc", -0.10)
    whole = values(slices)
    for only in (["qps"], ["qps", "server_cpu_us_per_query"], ["latency_p99_us", "qps"]):
        found = interleaved_values(asked(), slices, only=only)
        assert found.record.carry_over == whole.record.carry_over != {}
        for lane, steps in whole.adjusted.items():
            for step, all_values in steps.items():
                expected = {name: all_values[name] for name in only if name in all_values}
                assert expected.items() <= found.adjusted[lane][step].items()
                assert "qps" in expected
    quick = interleaved_values(asked(), slices, only=["qps"])
    assert {name for steps in quick.adjusted.values() for of in steps.values() for name in of} == {"qps"}


def test_a_cycle_that_was_interrupted_is_left_out_for_all_arms_and_named() -> None:
    plain = list(Simulation(host=QUIET).slices(seed=3))
    target = next(one for one in plain if (one.block, one.cycle, one.arm) == (2, 3, "jemalloc"))
    # The whole group was stopped for 30 s: the same work took so much longer.
    stopped = [one.model_copy(update={"length_s": 32.0}) if one is target else one for one in plain]
    without = [one for one in plain if (one.block, one.cycle) != (2, 3)]
    found = values(stopped)
    assert found.adjusted == values(without).adjusted
    (note,) = found.record.notes
    assert note == fact("interrupted", step=target.step, cycles=1, longest_s=32.0)
    (sentence,) = interference_sentences(found.record, "glibc")
    assert "(study stopped, host suspended): 1. The longest slice lasted 32.0 s." in sentence


def test_slices_in_which_a_server_answered_nothing_are_named() -> None:
    plain = list(Simulation(host=QUIET).slices(seed=4))
    busy = [one.model_copy(update={"transactions": 500}) for one in plain]
    target = next(one for one in busy if one.arm == "jemalloc")
    silent = [one.model_copy(update={"transactions": 0}) if one is target else one for one in busy]
    mine = sum(one.arm == "jemalloc" for one in busy)
    assert values(busy).record.notes == ()
    (note,) = values(silent).record.notes
    assert note == fact("silent", step=target.step, arm="jemalloc", slices=1, all_slices=mine)
