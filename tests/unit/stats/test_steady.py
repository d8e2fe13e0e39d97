"""Steady state: the warm-up cut, drift, change points, cycles of the server's state, and the verdict over all."""

from math import inf, log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import signal

from mydyno.errors import BugError
from mydyno.stats.steady import (
    MserCut,
    StateSeries,
    Steadiness,
    change_points,
    complete_cycles,
    drift,
    effective_sample_size,
    judge,
    mser5,
    relative,
)


def noise(seed: int, samples: int, sd: float = 0.03, correlation: float = 0.0, count: int = 1) -> NDArray[np.float64]:
    """`count` AR(1) series of this stationary sd, after 200 samples of settling."""
    random = np.random.default_rng(seed)
    shocks = random.normal(0.0, sd * np.sqrt(1.0 - correlation**2), (count, samples + 200))
    return np.asarray(signal.lfilter([1.0], [1.0, -correlation], shocks, axis=1)[:, 200:], dtype=np.float64)


def warming_up(seed: int, tau_s: float, samples: int = 600, count: int = 40) -> NDArray[np.float64]:
    """Throughput that starts at half of what it becomes and approaches it with the time constant `tau_s`."""
    curve = 1.0 - 0.5 * np.exp(-np.arange(samples) / tau_s)
    return np.asarray(1000.0 * (curve + noise(seed, samples, count=count)), dtype=np.float64)


@pytest.mark.parametrize(("tau_s", "bias"), [(10.0, 0.002), (60.0, 0.008)])
def test_mser5_leaves_little_bias_after_a_warm_up_of_ordinary_length(tau_s: float, bias: float) -> None:
    series = warming_up(1, tau_s)
    cuts = [mser5(run) for run in series]
    left = np.mean([run[cut.cut :].mean() / 1000.0 - 1.0 for run, cut in zip(series, cuts, strict=True)])
    assert -bias < left <= 0.001
    assert -0.05 < series[:, 10:].mean() / 1000.0 - 1.0 < left
    assert np.mean([cut.beyond_half for cut in cuts]) <= 0.05


def test_a_warm_up_that_fills_the_series_raises_the_alarm() -> None:
    assert np.mean([mser5(run).beyond_half for run in warming_up(2, 150.0)]) > 0.95


def test_a_steady_series_is_hardly_cut_and_raises_no_alarm() -> None:
    cuts = [mser5(run) for run in 1000.0 * (1.0 + noise(3, 600, count=100))]
    assert np.mean([cut.beyond_half for cut in cuts]) <= 0.02
    assert np.median([cut.cut for cut in cuts]) <= 20


@given(st.lists(st.floats(1.0, 1e6), min_size=0, max_size=200), st.floats(0.01, 100.0))
def test_the_cut_is_a_whole_number_of_fives_and_leaves_a_quarter(values: list[float], factor: float) -> None:
    cut = mser5(values)
    assert cut.cut % 5 == 0
    assert cut.cut == 0 or len(values) - cut.cut >= len(values) / 4.0


def test_a_quiet_end_does_not_tempt_the_cut_beyond_three_quarters() -> None:
    series = 1000.0 * (1.0 + noise(15, 400)[0])
    series[340:] = 1000.0
    assert mser5(series).cut <= 300


def test_equal_values_and_short_series_are_not_cut() -> None:
    assert mser5([5.0] * 300).cut == 0
    assert mser5([0.1] * 300).cut == 0
    assert mser5([1.0, 2.0, 3.0]) == MserCut(0, 3, False, False)
    assert mser5([]).cut == 0


def test_the_effective_sample_size_is_that_of_the_process() -> None:
    for correlation in (0.0, 0.5, 0.8):
        sizes = [effective_sample_size(run) for run in noise(4, 2000, correlation=correlation, count=20)]
        assert np.mean(sizes) == pytest.approx(2000 * (1 - correlation) / (1 + correlation), rel=0.12)


def test_equal_and_few_values_are_worth_what_they_are() -> None:
    assert effective_sample_size([3.0] * 10) == 10.0
    assert effective_sample_size([1.0, 2.0]) == 2.0
    assert effective_sample_size([]) == 0.0


def test_a_line_is_found_with_its_change_over_the_window() -> None:
    answer = drift(np.linspace(0.0, 0.04, 300) + noise(5, 300)[0])
    assert answer.low < 0.04 < answer.high
    assert answer.exceeds(0.01)


@pytest.mark.parametrize(("correlation", "samples"), [(0.0, 60), (0.5, 120), (0.8, 600)])
def test_noise_is_rarely_called_a_drift(correlation: float, samples: int) -> None:
    answers = [drift(run) for run in noise(6, samples, correlation=correlation, count=300)]
    assert np.mean([answer.low > 0.0 or answer.high < 0.0 for answer in answers]) <= 0.10


def test_a_second_of_silence_does_not_end_in_a_missing_logarithm() -> None:
    assert np.isfinite(relative([100.0, 0.0, 101.0])).all()
    assert relative([0.0, 0.0]).tolist() == [-1.0, -1.0]
    assert relative([]).size == 0
    assert (drift(np.zeros(2)).low, drift(np.zeros(2)).high) == (-inf, inf)


@given(st.lists(st.floats(10.0, 1e5), min_size=3, max_size=60), st.floats(0.01, 100.0))
def test_the_unit_of_the_throughput_does_not_change_its_drift(values: list[float], factor: float) -> None:
    assert drift(relative([v * factor for v in values])).change == pytest.approx(
        drift(relative(values)).change, abs=1e-6
    )


def test_a_step_is_found_where_it_is_and_as_large_as_it_is() -> None:
    series = noise(7, 600)[0] + 0.05 * (np.arange(600) >= 250)
    (step,) = change_points(series, log(1.02))
    assert step.at == pytest.approx(250, abs=15)
    assert step.change == pytest.approx(0.05, abs=0.01)


def test_a_stall_that_ends_is_two_changes() -> None:
    seconds = np.arange(300)
    steps = change_points(noise(8, 300)[0] - 0.2 * ((seconds >= 120) & (seconds < 180)), log(1.02))
    assert [round(step.change, 1) for step in steps] == [-0.2, 0.2]


def test_a_step_smaller_than_the_margin_is_none() -> None:
    assert change_points(noise(9, 600, sd=0.005)[0] + 0.01 * (np.arange(600) >= 300), log(1.02)) == []


@pytest.mark.parametrize(("correlation", "samples"), [(0.0, 60), (0.0, 600), (0.5, 120), (0.5, 600), (0.9, 600)])
def test_noise_is_rarely_called_a_change_of_level(correlation: float, samples: int) -> None:
    found = [bool(change_points(run, log(1.02))) for run in noise(10, samples, correlation=correlation, count=60)]
    assert np.mean(found) <= 0.07


def test_slow_wander_in_a_short_window_is_called_a_change_and_that_is_known() -> None:
    """One minute of noise that remembers 10 s is not steady at any margin of 2 %: its own mean wanders further."""
    found = [bool(change_points(run, log(1.02))) for run in noise(11, 60, correlation=0.9, count=100)]
    assert 0.1 <= np.mean(found) <= 0.5


def test_a_window_of_a_few_samples_or_of_equal_values_has_no_change_points() -> None:
    assert change_points(np.array([0.0, 1.0, 0.0]), 0.02) == []
    assert change_points(np.zeros(100), 0.02) == []


@pytest.mark.parametrize("cycles", [1, 2, 3, 7])
def test_the_cycles_of_a_sawtooth_are_counted(cycles: int) -> None:
    phase = np.linspace(0.0, cycles, 600, endpoint=False)
    assert complete_cycles(phase % 1.0 + noise(12, 600, sd=0.01)[0]) in {cycles - 1, cycles - 2}
    assert complete_cycles(np.concatenate([phase % 1.0, [0.0, 0.5, 0.0]])) in {cycles - 1, cycles}


def test_a_ramp_and_a_constant_complete_no_cycle() -> None:
    assert complete_cycles(np.linspace(0.0, 1.0, 300)) == 0
    assert complete_cycles([4.0] * 300) == 0
    assert complete_cycles([]) == 0


def steady_series(samples: int = 600) -> NDArray[np.float64]:
    return np.asarray(1000.0 * (1.0 + noise(13, samples, sd=0.01)[0]), dtype=np.float64)


def test_a_quiet_window_is_steady_and_has_nothing_to_excuse() -> None:
    verdict = judge(steady_series(), 0.02, mser5(steady_series()))
    assert (verdict.steadiness, verdict.reasons) == (Steadiness.STEADY, ())


def test_each_way_of_not_being_steady_is_named() -> None:
    drifting = judge(steady_series() * np.exp(np.linspace(0.0, 0.05, 600)), 0.02)
    assert drifting.steadiness is Steadiness.NOT_STEADY
    assert drifting.drift.change == pytest.approx(0.05, abs=0.005)
    assert drifting.reasons == ("throughput drifts by +5.2 % over the window, limit ±1.0 %",)
    stepping = judge(steady_series() * np.where(np.arange(600) < 300, 1.0, 0.9), 0.02)
    assert any("the level changes by −10.5 % at 300 s" in reason for reason in stepping.reasons)
    warming = judge(steady_series(), 0.02, MserCut(400, 600, True, True))
    assert warming.reasons == ("the warm-up takes 400 of 600 samples by MSER-5, more than half",)
    silent = judge(np.zeros(60), 0.02)
    assert silent.steadiness is Steadiness.NOT_STEADY
    assert "nothing was served in the window" in silent.reasons


def test_a_state_that_ramps_is_not_steady_unless_it_comes_round_three_times() -> None:
    ramp, saw = np.linspace(1e8, 2e8, 600), 1e8 + 1e8 * (np.arange(600) / 120.0 % 1.0)
    filling = judge(steady_series(), 0.02, states=[StateSeries("checkpoint age", ramp, scale=4e8)])
    assert filling.reasons == ("checkpoint age changes by +25.0 % over the window and completes 0 of 3 cycles",)
    cycling = judge(steady_series(), 0.02, states=[StateSeries("checkpoint age", saw, scale=4e8)])
    assert cycling.steadiness is Steadiness.STEADY
    assert cycling.cycles["checkpoint age"] >= 3


def test_three_cycles_excuse_a_state_that_also_creeps() -> None:
    saw = 1e8 + 1e8 * (np.arange(600) / 120.0 % 1.0) + np.linspace(0.0, 6e7, 600)
    verdict = judge(steady_series(), 0.02, states=[StateSeries("checkpoint age", saw, scale=4e8)])
    assert verdict.steadiness is Steadiness.STEADY
    assert drift(saw / 4e8).exceeds(0.05)


def test_memory_that_creeps_within_its_margin_is_steady() -> None:
    memory = np.linspace(1.00e9, 1.02e9, 600)
    assert judge(steady_series(), 0.02, states=[StateSeries("rss", memory)]).steadiness is Steadiness.STEADY
    assert judge(steady_series(), 0.02, states=[StateSeries("rss", memory, margin=0.01)]).reasons


def test_a_state_that_this_server_does_not_have_is_not_judged() -> None:
    absent = [StateSeries("checkpoint age", []), StateSeries("dirty pages", [0.0] * 600)]
    assert judge(steady_series(), 0.02, states=absent).steadiness is Steadiness.STEADY


def test_a_window_too_noisy_to_rule_out_a_drift_is_undecided_and_says_so() -> None:
    verdicts = [judge(1000.0 * np.exp(run), 0.02) for run in noise(14, 30, sd=0.08, count=50)]
    doubtful = [verdict for verdict in verdicts if verdict.steadiness is Steadiness.UNDECIDED]
    assert len(doubtful) > 30
    assert "the window is too short to decide" in doubtful[0].reasons[0]


def test_a_few_seconds_are_undecided() -> None:
    assert judge([100.0] * 5, 0.02).steadiness is Steadiness.UNDECIDED
    assert judge([], 0.02).steadiness is Steadiness.UNDECIDED


def test_a_gap_in_the_throughput_is_a_bug_of_the_caller() -> None:
    with pytest.raises(BugError, match="finite throughput"):
        judge([100.0, float("nan")], 0.02)
