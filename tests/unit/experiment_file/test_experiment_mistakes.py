"""Mistakes in an experiment file: all told in one go, each with its place, key, value, what is allowed, the nearest."""

from __future__ import annotations

import copy
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mydyno.errors import UserError
from mydyno.experiment_file.parsing import parse_experiment
from mydyno.experiment_file.toml_source import TomlSource
from mydyno.experiments import built_in, load, vocabulary
from mydyno.model.definition.experiment import Experiment
from tests.support import DATA

TEN_MISTAKES = DATA / "ten-mistakes.toml"
VOCABULARY = vocabulary()
ALLOCATORS: dict[str, Any] = tomllib.loads(built_in()["allocators"].read_text())
GOOD = """\
name = "good"
question = "Is it good?"
[server]
name = "mariadb-10.11"
[arms]
control = "glibc"
glibc = { allocator = "glibc" }
[[steps]]
workload = "oltp_read_only"
"""


def parse(text: str, scale: str | None = None, assignments: tuple[str, ...] = ()) -> Experiment:
    return parse_experiment(TomlSource.parse("x.toml", text), VOCABULARY, scale, assignments)


def mistakes(text: str, scale: str | None = None, assignments: tuple[str, ...] = ()) -> str:
    with pytest.raises(UserError) as error:
        parse(text, scale, assignments)
    return error.value.message


EXPECTED = [
    (":1: name = \"ten mistakes\": not a possible name; allowed: letters, digits, '.', '_' and '-', at most 48"),
    ":3: colour: unknown key; allowed: arms, data, description, design, factors, guard,",
    ':6: server.name = "mariadb-10.12": unknown server; allowed: mariadb-10.11, mariadb-11.8, mysql-',
    ":7: server.variabels: unknown key; allowed: basedir, build, card, dsn, hooks, name, option_file, ssh, variables; "
    "did you mean 'variables'?",
    ":11: data.tables = 0: out of range; allowed: >= 1",
    ':12: data.rows = "many": not understood; allowed: a whole number',
    ':15: arms.control = "glib": unknown arm; allowed: glibc, jemalloc, tcmalloc, mimalloc, fast; did',
    ':17: arms.jemalloc.allocator = "jemaloc": unknown value; allowed: glibc, jemalloc, tcmalloc or mimalloc; did you',
    ":18: arms.tcmalloc.alocator: unknown treatment; allowed: server, dsn, allocator, cgroup, huge_pages",
    ':19: arms.mimalloc = "mimalloc": must be a table of treatments, e.g. { allocator = "jemalloc" }',
    ":20: arms.fast.variables.no such-name!: not a possible name; allowed: letters, digits and '_', beginning with a",
    ':23: steps[0].workload = "oltp_readonly": unknown workload; allowed: oltp_point_select, oltp_read_only,',
    ":28: steps[1].connections[0] = 0: out of range; allowed: >= 1",
    ':29: steps[1].warmup = "ten seconds": not understood; allowed: a duration such as "10s", "2m" or "1h"',
    ':30: steps[1].measure = "0s": out of range; allowed: > 0',
    ':31: steps[1].driver = "sysbnch": unknown driver for oltp_read_write; allowed: dynoload, sysbench; did',
    ":32: steps[1].options.range_sise: unknown key; allowed: ",
    ':32: steps[1].options.rand_type = "uniforn": unknown value; allowed: uniform, gaussian, special or pareto; did',
    ":35: design.blocks = 0: out of range; allowed: >= 1",
    ":36: design.seeds: unknown key; allowed: blocks, copies, cycles, kind, quiet_wait, seed,",
    ':39: verdict.primary = "pqs": unknown metric; allowed: qps, tps,',
    ':40: verdict.margin = "200%": out of range; allowed: < 1',
    ':43: validity.steady = "maybe": unknown value; allowed: strict or report',
    ":44: validity.steal = -1: out of range; allowed: > 0",
]


def test_a_file_full_of_mistakes_is_told_all_of_them_at_once() -> None:
    with pytest.raises(UserError) as error:
        load(str(TEN_MISTAKES))
    lines = error.value.message.splitlines()
    assert lines[0] == f"{len(EXPECTED)} mistakes in {TEN_MISTAKES}; nothing was started"
    missing = [words for words in EXPECTED if not any(f"{TEN_MISTAKES}{words}" in line for line in lines)]
    assert missing == []
    assert len(lines) == 1 + len(EXPECTED)


def test_mistakes_come_in_the_order_of_the_file() -> None:
    with pytest.raises(UserError) as error:
        load(str(TEN_MISTAKES))
    numbers = [int(line.split(".toml:")[1].split(":")[0]) for line in error.value.message.splitlines()[1:]]
    assert numbers == sorted(numbers)


def test_a_good_file_is_read() -> None:
    experiment = parse(GOOD)
    assert (experiment.name, experiment.control, experiment.scale) == ("good", "glibc", "standard")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("name = \n", "x.toml: not valid TOML: Invalid value (at line 1"),
        ('name = "a"\nname = "b"\n', "x.toml: not valid TOML: Cannot overwrite a value"),
        ("x = " + "[" * 5000, "x.toml: not valid TOML: nested too deeply"),
    ],
)
def test_what_is_no_toml_is_told_with_its_line(text: str, words: str) -> None:
    with pytest.raises(UserError) as error:
        TomlSource.parse("x.toml", text)
    assert error.value.message.startswith(words)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            '[server]\nname = "mariadb-10.11"',
            "server: says no server; allowed: exactly one of name, basedir, build, dsn",
        ),
        ('control = "glibc"\n', "arms.control: is missing: name the arm that the others are compared with"),
        ('[[steps]]\nworkload = "oltp_read_only"', "steps: is missing; allowed: tables [[steps]], each with"),
        ('name = "good"\n', "name: is missing"),
        ('question = "Is it good?"\n', "question: is missing"),
    ],
)
def test_what_is_missing_is_named(change: str, words: str) -> None:
    assert change in GOOD
    left = GOOD.replace(change, "[server]" if "[server]" in change else "")
    assert words in mistakes(left)


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("server=mariadb-10.11", 'not understood; allowed: a table [server] with name = "mariadb-10.11", or with'),
        ("steps=[]", "steps: is empty; allowed: tables [[steps]], each with"),
        ("steps.connections=[]", "steps[0].connections: is empty; allowed: at least one value"),
        ("question=Y", 'question = "Y": too short; allowed: at least 3 characters'),
    ],
)
def test_what_is_too_little_is_told_with_what_is_enough(setting: str, words: str) -> None:
    assert words in mistakes(GOOD, None, (setting,))


@pytest.mark.parametrize(
    ("added", "words"),
    [
        ("[factors]\ncontrol = 'a'\n", "arms: use exactly one of [arms], [factors], [vary] and [screen]"),
        ("[data]\nworkload = 'tpch'\n", 'x.toml:11: data.workload = "tpch": unknown data; allowed: oltp, tpcc'),
        ("[data]\nworkload = 'tpcc'\n", "steps[0].workload = \"oltp_read_only\": needs data.workload = 'oltp'"),
        ("[design]\nseed = -1\n", "design.seed = -1: out of range; allowed: >= 0"),
        ("[verdict]\nmargin = 'much'\n", 'verdict.margin = "much": not understood; allowed: a percentage such as "2%"'),
        ("[verdict]\nprimary = 'cpu_user_pct'\n", 'verdict.primary = "cpu_user_pct": unknown metric'),
        ("[verdict]\nprimary = ['qps', 'rsss']\n", 'verdict.primary = "rsss": unknown metric'),
        ("[verdict]\nprimary = []\n", "verdict.primary"),
        ("[server.variables]\nx = inf\n", "server.variables.x"),
        ('[server.variables]\nx = "a\\nb"\n', "a text of one line, without control characters"),
        ("[server.variables]\n'1x' = 2\n", "server.variables.1x: not a possible name"),
        ("[data]\nrows = 2024-01-01\n", "data.rows = 2024-01-01"),
        ("[validity]\nswap_bytes = 'all'\n", 'validity.swap_bytes = "all": not understood; allowed: a whole number'),
        ("[scale]\nquick = 5\n", "x.toml:11: scale.quick must be a table of overrides"),
    ],
)
def test_each_mistake_has_its_words(added: str, words: str) -> None:
    assert words in mistakes(GOOD + added)


@pytest.mark.parametrize("duration", ["inf", "nan", '"' + "9" * 400 + 'h"', "-1", "true", '"1 day"'])
def test_a_step_that_cannot_be_timed_is_refused(duration: str) -> None:
    assert "steps[0]" in mistakes(GOOD + f"warmup = {duration}\n")


STATEMENTS = GOOD.replace('workload = "oltp_read_only"', 'replay = "x.capture"\nstatements = true').replace(
    "[arms]", "[data]\ntables = 1\n[arms]", 1
)


def test_statements_are_compared_on_one_connection_without_warm_up() -> None:
    (step,) = parse(STATEMENTS).resolved_steps
    assert (step.connections, step.warmup_s) == (1, 0.0)


@pytest.mark.parametrize(
    ("added", "words"),
    [
        ('warmup = "5s"', "has no warm-up: each statement is executed before it is timed"),
        ("rate = 10", "has no rate, no search and no speed"),
        ("connections = [1, 2]", "statements are compared in one step alone"),
        ("[design]\nkind = 'blocks'", "every statement needs all servers at once"),
    ],
)
def test_what_does_not_go_with_a_comparison_of_statements_is_told(added: str, words: str) -> None:
    assert words in mistakes(f"{STATEMENTS}{added}\n")


@pytest.mark.parametrize(
    ("dsn", "words"),
    [
        ('["mysql://u@h4/s", "mysql://u@h5/s"]', "allowed: one DSN, or those of 3 different servers at least"),
        ('["mysql://u@h4/s", "mysql://u@h4/s", "mysql://u@h5/s"]', "or those of 3 different servers at least"),
        ('["http://u@h4/s", "mysql://u@h5/s", "mysql://u@h6/s"]', "allowed: mysql://"),
        ('"mysql://u@h4/s"', "servers: 1, and of the control 3; allowed: as many of each arm"),
    ],
)
def test_instances_of_an_arm_are_different_servers_and_as_many_as_the_control_s(dsn: str, words: str) -> None:
    arms = f'[arms]\ncontrol = "a"\na.dsn = {[f"mysql://u@h{number}/s" for number in range(3)]}\nb.dsn = {dsn}\n'
    begin, _, rest = GOOD.partition("[server]")
    assert words in mistakes(f"{begin}{arms}{rest[rest.index('[[steps]]') :]}")


def test_sysbench_is_refused_parts_of_a_second() -> None:
    assert "steps[0]" in mistakes(GOOD + 'driver = "sysbench"\nwarmup = "1.5s"\n')


def test_two_servers_in_one_are_refused() -> None:
    text = GOOD.replace('name = "mariadb-10.11"', 'name = "mariadb-10.11"\nbasedir = "/opt"\ndsn = "mysql://h"')
    assert "server: says name, basedir, dsn; allowed: exactly one of name, basedir, build, dsn" in mistakes(text)


def test_an_unknown_scale_names_those_that_the_file_has() -> None:
    assert mistakes(GOOD + "[scale.quick]\n", "quik") == (
        "x.toml: scale = \"quik\": unknown scale; allowed: standard, quick; did you mean 'quick'?"
    )


def test_an_unknown_experiment_names_the_nearest_built_in_one() -> None:
    with pytest.raises(UserError) as error:
        load("alocators")
    assert error.value.message == "alocators: no such experiment or file"
    assert "did you mean 'allocators'?" in error.value.hint


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"\x00\x01\x02"])
def test_a_file_that_is_no_text_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "binary.toml"
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"binary\.toml"):
        load(str(path))


def test_a_folder_is_no_experiment(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such"):
        load(str(tmp_path))


SCALARS = st.one_of(
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(["glibc", "oltp", "1s", "sysbench", "2%", "inf", "control"]),
    st.dates(),
    st.times(),
)
NAMES = st.text(max_size=6) | st.sampled_from(["control", "allocator", "workload", "options", "variables", "name"])
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=6
)
Path_ = tuple[str | int, ...]


def paths(tree: Any, prefix: Path_ = ()) -> list[Path_]:
    """Every place of a tree."""
    members = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    below = [path for key, value in members for path in paths(value, (*prefix, key))]
    return [prefix, *below] if prefix else below


def replaced(tree: dict[str, Any], path: Path_, value: Any) -> dict[str, Any]:
    """The tree with another value at a place; unchanged where an earlier change took the place away."""
    changed = copy.deepcopy(tree)
    node: Any = changed
    for key in path[:-1]:
        if not isinstance(node, dict | list) or (isinstance(node, dict) and key not in node):
            return tree
        if isinstance(node, list) and not (isinstance(key, int) and key < len(node)):
            return tree
        node = node[key]
    if isinstance(node, dict) or (isinstance(node, list) and isinstance(path[-1], int) and path[-1] < len(node)):
        node[path[-1]] = value
    return changed


@pytest.mark.slow
@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
@given(
    st.lists(st.tuples(st.sampled_from(paths(ALLOCATORS)), VALUES), min_size=1, max_size=3),
    st.sampled_from([None, "standard", "quick", "published"]),
)
def test_whatever_a_file_holds_it_is_an_experiment_or_the_users_mistake(
    changes: list[tuple[Path_, Any]], scale: str | None
) -> None:
    tree = ALLOCATORS
    for path, value in changes:
        tree = replaced(tree, path, value)
    try:
        experiment = parse_experiment(TomlSource("x.toml", "", tree), VOCABULARY, scale)
    except UserError as error:
        assert error.message
        return
    assert Experiment.model_validate_json(experiment.model_dump_json()) == experiment


@pytest.mark.slow
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
@given(st.lists(st.tuples(st.sampled_from([*ALLOCATORS, "factors"]), VALUES), max_size=12))
def test_a_file_of_nothing_right_never_crashes(pairs: list[tuple[str, Any]]) -> None:
    try:
        parse_experiment(TomlSource("x.toml", "", dict(pairs)), VOCABULARY)
    except UserError as error:
        assert error.message
