"""[thresholds] and --threshold: what is understood, and what is said of everything else."""

from __future__ import annotations

import re

import pytest

from mydyno.errors import UserError
from mydyno.experiment_file.parsing import parse_experiment
from mydyno.experiment_file.thresholds import LIMIT_PATTERN, parse_table, with_thresholds
from mydyno.experiment_file.toml_source import TomlSource
from mydyno.experiments import vocabulary
from mydyno.model.definition.experiment import Experiment, ThresholdSpec

FILE = """name = "flush"
question = "Is relaxed fine?"
server.name = "mariadb-10.11"
[arms]
control = "durable"
durable = { variables = { innodb_flush_log_at_trx_commit = 1 } }
relaxed = { variables = { innodb_flush_log_at_trx_commit = 2 } }
[[steps]]
workload = "oltp_read_write"
connections = [16, 64]
[thresholds]
"""


def parsed(gate: str, scale: str = "standard", *settings: str) -> Experiment:
    return parse_experiment(TomlSource.parse("flush.toml", FILE + gate), vocabulary(), scale, settings)


@pytest.mark.parametrize(
    ("metric", "limit", "expected"),
    [
        ("qps", "no worse than -2%", -0.02),
        ("qps", "no worse than 2 %", -0.02),
        ("qps", "no worse than \N{MINUS SIGN}2.5%", -0.025),
        ("latency_p99_us", "no worse than +10%", 0.1),
        ("latency_p99_us", "no worse than 150%", 1.5),
        ("server_cpu_us_per_query", "  no  worse than + 3 % ", 0.03),
        ("tpmc_instance_2", "no worse than -1%", -0.01),
    ],
)
def test_a_limit_has_the_sign_of_a_change_for_the_worse(metric: str, limit: str, expected: float) -> None:
    found, problems = parse_table({metric: limit})
    assert problems == []
    assert found == (ThresholdSpec(metric=metric, limit=expected),)
    assert found[0].ratio == pytest.approx(1 + expected)
    assert re.fullmatch(LIMIT_PATTERN.strip("^$"), limit)


def test_arms_and_steps_and_several_limits_for_one_metric() -> None:
    gate = """qps = ["no worse than -2% for relaxed at oltp_read_write-16", "no worse than -9%"]
latency_p99_us = "no worse than +5% at oltp_read_write"
"""
    experiment = parsed(gate)
    first, second, third = experiment.thresholds
    assert (first.arms, first.steps) == (("relaxed",), ("oltp_read_write-16",))
    assert (second.arms, second.steps) == ((), ())
    assert [third.holds_at(step) for step in experiment.resolved_steps] == [True, True]
    assert [first.holds_at(step) for step in experiment.resolved_steps] == [True, False]
    again = Experiment.model_validate_json(experiment.model_dump_json())
    assert again.thresholds == experiment.thresholds


def test_an_experiment_without_a_gate_is_stored_as_before() -> None:
    assert "thresholds" not in parsed("").model_dump()


def test_a_scale_changes_and_removes_limits_and_set_too() -> None:
    gate = """qps = "no worse than -2%"
tps = "no worse than -2%"
[scale.quick]
thresholds = { qps = "no worse than -5%", tps = "none" }
"""
    assert [(one.metric, one.limit) for one in parsed(gate, "quick").thresholds] == [("qps", -0.05)]
    assert [one.limit for one in parsed(gate, "standard", "thresholds.tps=no worse than -3%").thresholds] == [
        -0.02,
        -0.03,
    ]


@pytest.mark.parametrize(
    ("gate", "words"),
    [
        ('qsp = "no worse than -2%"', "flush.toml:12: thresholds.qsp: unknown metric; .*did you mean 'qps'"),
        ('throughput = "no worse than -2%"', "did you mean 'qps'"),
        ('cpu_iowait_pct = "no worse than 2%"', "thresholds.cpu_iowait_pct: neither more nor less of it is better"),
        ('qps = "no worse than +2%"', 'more is better, so .* the sign -; allowed: "no worse than -2%"'),
        ('latency_p99_us = "no worse than -2%"', "less is better, so .* the sign \\+"),
        (
            'qps = "at least -2%"',
            'thresholds.qps = "at least -2%": not understood; allowed: "no worse than',
        ),
        ("qps = -0.02", "thresholds.qps = -0.02: not understood"),
        ('qps = "no worse than -0%"', "out of range; allowed: above 0 % and below 100 %; that two things"),
        ('qps = "no worse than -100%"', "out of range"),
        ('qps = "no worse than -2% for relaxd"', "unknown arm that is compared; allowed: relaxed; did you mean"),
        ('qps = "no worse than -2% for durable"', "this one is the control"),
        (
            'qps = "no worse than -2% at oltp_read_write-17"',
            "unknown load level; allowed: oltp_read_write, .*did you mean",
        ),
        ('qps = ["no worse than -2%", "no"]', r'thresholds.qps\[1\] = "no": not understood'),
    ],
)
def test_mistakes_have_line_and_nearest_name(gate: str, words: str) -> None:
    with pytest.raises(UserError, match=words):
        parsed(gate)


def test_all_mistakes_are_told_together() -> None:
    with pytest.raises(UserError, match="3 mistakes") as caught:
        parsed('qsp = "no worse than -2%"\ntps = "no"\nops = "no worse than 2%!"\n')
    assert len(caught.value.message.splitlines()) == 4


def test_gate_must_be_a_table() -> None:
    with pytest.raises(UserError, match="thresholds = 5: must be a table"):
        parse_experiment(
            TomlSource.parse("x.toml", "thresholds = 5\n" + FILE.replace("[thresholds]\n", "")), vocabulary()
        )


def test_a_threshold_of_the_command_line_replaces_those_of_its_metric_alone() -> None:
    declared = parsed(
        'qps = ["no worse than -2%", "no worse than -1% at oltp_read_write-16"]\ntps = "no worse than -3%"'
    )
    found = with_thresholds(declared, ["qps='no worse than -5%'"]).thresholds
    assert [(one.metric, one.limit) for one in found] == [("tps", -0.03), ("qps", -0.05)]
    assert [one.metric for one in with_thresholds(declared, ["qps=none"]).thresholds] == ["tps"]
    assert with_thresholds(declared, []) == declared


def test_mistakes_of_the_command_line_name_the_option() -> None:
    with pytest.raises(UserError, match="2 mistakes in --threshold") as caught:
        with_thresholds(parsed(""), ["qps", "p99=no worse than 5%"])
    assert "--threshold qps: not understood; allowed: METRIC=LIMIT" in caught.value.message
    assert "--threshold: p99: unknown metric" in caught.value.message
    assert "did you mean 'latency_p99_us'?" in caught.value.message


def test_an_experiment_with_one_arm_has_nothing_to_judge() -> None:
    alone = FILE.replace("relaxed = { variables = { innodb_flush_log_at_trx_commit = 2 } }\n", "")
    experiment = parse_experiment(
        TomlSource.parse("x.toml", alone + 'qps = "no worse than -2%"'), vocabulary(), "standard"
    )
    with pytest.raises(UserError, match="no arm is compared with another") as caught:
        with_thresholds(experiment, [])
    assert "--base REF --head REF" in caught.value.hint
