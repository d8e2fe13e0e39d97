"""Steps and data that are files of the user's: Lua scripts and SQL transactions."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mydyno.drivers.base import Agent, StepContext
from mydyno.drivers.dynoload import ARGUMENTS, OPTIONS_OF_LOAD, Dynoload
from mydyno.errors import UserError
from mydyno.execution.blocks import with_stream
from mydyno.execution.planning import preview
from mydyno.experiments import load
from mydyno.model.definition.experiment import DataSpec, Experiment
from mydyno.model.definition.plan import make_plan
from mydyno.servers.sql import Address
from mydyno.workloads.data import kind_of
from mydyno.workloads.files import ScriptOptions, modules_of, rows_of, short

HEAD = """\
name = "mine"
question = "Is it good?"
server.name = "mariadb-10.11"
arms = { control = "a", a = { variables = { sync_binlog = 0 } }, b = { variables = { sync_binlog = 1 } } }
"""


def experiment(folder: Path, text: str) -> Experiment:
    (folder / "mine.lua").write_text("function event() end")
    (folder / "shop.sql").write_text("SELECT 1;")
    (folder / "shop.toml").write_text('[[tables]]\nname = "item"\n')
    (folder / "monday.capture").write_text('{"record":"header","format":"dynoload-capture","format_version":1}\n')
    (folder / "mine.toml").write_text(HEAD + text)
    return load(str(folder / "mine.toml"))[0]


def mistake(folder: Path, text: str) -> str:
    with pytest.raises(UserError) as raised:
        experiment(folder, text)
    return str(raised.value)


def command(folder: Path, one: Experiment, *agents: Agent) -> list[str]:
    address = Address("dyno", b"x", socket=str(folder / "s"))
    context = StepContext(address, one.data, one.resolved_steps[0], folder, folder / "log", agents=agents)
    driver = Dynoload()
    driver._program = Path("dynoload")
    return driver._load(context)


def test_a_step_may_be_a_script_beside_the_experiment(tmp_path: Path) -> None:
    one = experiment(
        tmp_path,
        'data = { tables = 2, rows = 500 }\n[[steps]]\nscript = "mine.lua"\nconnections = [4, 8]\n'
        'options = { range_size = 7, rand_type = "uniform" }\n',
    )
    assert [step.id for step in one.resolved_steps] == ["mine-4", "mine-8"]
    made = command(tmp_path, one)
    assert made[:3] == ["dynoload", "script", str(tmp_path / "mine.lua")]
    assert {"--script-option=?tables=2", "--script-option=range_size=7", "--rand-type=uniform"} <= set(made)


def test_a_step_may_be_a_file_of_sql_with_the_data_of_its_toml_file(tmp_path: Path) -> None:
    one = experiment(tmp_path, 'data.sql = "shop.toml"\n[[steps]]\nsql = "shop.sql"\n')
    assert command(tmp_path, one)[:4] == ["dynoload", "sql", "run", str(tmp_path / "shop.sql")]
    assert (one.data.workload, one.data.sql) == ("sql", str(tmp_path / "shop.toml"))
    assert kind_of(one.data).prewarm_sql(one.data) == ["CHECKSUM TABLE sbtest.`item`"]


@pytest.mark.parametrize("text", ['script = "mine.lua"', 'sql = "shop.sql"'])
def test_the_load_of_a_file_may_come_from_client_hosts_and_search_for_a_capacity(tmp_path: Path, text: str) -> None:
    search = 'search = { metric = "latency_p99_us", limit = "20ms" }\n'
    one = experiment(tmp_path, f"[[steps]]\n{text}\n{search}")
    made = command(tmp_path, one, Agent("load1", "unix:/run/a"), Agent("load2", "unix:/run/b"))
    assert [argument for argument in made if argument.startswith("--agent")] == [
        "--agent=unix:/run/a",
        "--agent=unix:/run/b",
    ]
    assert "--rate=1" in made


def test_a_step_may_be_a_capture_on_the_data_of_a_dump(tmp_path: Path) -> None:
    one = experiment(
        tmp_path,
        'data.sql = "shop.sql"\n[[steps]]\nreplay = "monday.capture"\nconnections = 8\noptions.read_only = true\n',
    )
    made = command(tmp_path, one)
    assert made[:4] == ["dynoload", "sql", "run", str(tmp_path / "monday.capture")]
    assert {"--read-only=on", "--connections=8"} <= set(made)
    assert [step.id for step in one.resolved_steps] == ["monday-8"]
    assert kind_of(one.data).prewarm_sql(one.data) == []
    plan = make_plan(one)
    (step,) = (entry for entry in preview._steps(one, plan) if entry.label == "load")
    assert "the captured transactions in their order" in step.lines[1]
    assert "the same for all arms" in step.lines[2]


def test_a_replay_of_something_else_is_refused(tmp_path: Path) -> None:
    assert "is not a capture" in mistake(tmp_path, 'data.sql = "shop.sql"\n[[steps]]\nreplay = "mine.lua"\n')
    assert "no such file" in mistake(tmp_path, 'data.sql = "shop.sql"\n[[steps]]\nreplay = "tuesday.capture"\n')
    assert "has sql and replay" in mistake(tmp_path, '[[steps]]\nreplay = "monday.capture"\nsql = "shop.sql"\n')
    assert "the data of its statements are not named" in mistake(tmp_path, '[[steps]]\nreplay = "monday.capture"\n')
    text = 'data.sql = "shop.sql"\n[[steps]]\nreplay = "monday.capture"\noptions.db_ps_mode = "auto"\n'
    assert "db_ps_mode" in mistake(tmp_path, text)


def paced(folder: Path, text: str, length_s: int, writing: int, primary: str = "latency_p99_us") -> Experiment:
    """An experiment with a capture of up to 7 sessions that lasts so long and has so many statements that write."""
    header = '"format":"dynoload-capture","format_version":1,"peak_sessions":7,"statements":40'
    lines = f'{{"record":"header",{header},"duration_us":{length_s * 1_000_000},"writing":{writing}}}\n'
    (folder / "tuesday.capture").write_text(lines)
    head = f'data.sql = "shop.sql"\nverdict.primary = "{primary}"\n'
    return experiment(folder, f'{head}[[steps]]\nreplay = "tuesday.capture"\n{text}')


def test_captured_times_have_as_many_connections_as_sessions(tmp_path: Path) -> None:
    one = paced(tmp_path, 'options.speed = "original"\n', 600, 3)
    assert {"--speed=original", "--connections=7"} <= set(command(tmp_path, one))
    assert one.resolved_steps[0].id == "tuesday-7"
    two = paced(tmp_path, "options.speed = 4\nconnections = 3\n", 600, 3)
    assert {"--speed=4", "--connections=3"} <= set(command(tmp_path, two))
    assert paced(tmp_path, "", 600, 3).resolved_steps[0].connections == 16, "without captured times"


@pytest.mark.parametrize(
    ("text", "length_s", "words"),
    [
        ('options.speed = "fast"\n', 600, "options.speed"),
        ("options.speed = 2\nrate = 50\n", 600, "rate: is set, and options.speed is set too"),
        ("options = { speed = 2, rate = 50 }\n", 600, "options.rate"),
        ("options.speed = 2\n", 10, "3 of 40 captured statements write, so it cannot begin again, and it lasts 5 s"),
        ("options.speed = 1\nconnections = [4, 7]\n", 600, "an earlier step of the block has played it already"),
        ('options.speed = 1\n[design]\nkind = "blocks"\n', 39, "warm-up and measurement need 40 s"),
    ],
)
def test_what_cannot_be_replayed_at_captured_times_is_refused(
    tmp_path: Path, text: str, length_s: int, words: str
) -> None:
    with pytest.raises(UserError, match=re.escape(words)):
        paced(tmp_path, text, length_s, 3)


def test_the_captured_times_fix_the_throughput(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="is fixed by the rate or the captured times for every arm"):
        paced(tmp_path, "options.speed = 2\n", 600, 3, "tps")


def test_a_capture_that_only_reads_may_be_shorter_than_its_load(tmp_path: Path) -> None:
    assert paced(tmp_path, "options.speed = 2\nconnections = [4, 7]\n", 10, 0).steps[0].connections == (4, 7)
    assert paced(tmp_path, "options = { speed = 2, read_only = true }\n", 10, 3).steps[0].options["read_only"]


def test_prepared_data_of_another_text_or_other_options_are_kept_apart(tmp_path: Path) -> None:
    def short(options: str) -> str:
        data = experiment(tmp_path, f'data = {{ script = "mine.lua"{options} }}\n[[steps]]\nscript = "mine.lua"\n').data
        return kind_of(data).short(data)

    assert short("") != short(", options = { tables = 2 }")
    before = short("")
    assert before == short("")


def test_a_dump_keeps_the_name_by_which_external_servers_know_their_data(tmp_path: Path) -> None:
    (tmp_path / "dump.sql").write_text("CREATE TABLE t (a INT);\n")
    assert short(DataSpec(sql=str(tmp_path / "dump.sql"), workload="sql")) == "dump-caa7055aed9f"


def test_a_word_of_a_script_that_is_too_long_for_a_name_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "mine.lua").write_text(f'require("{"я" * 140}") print("{"я" * 140}")')
    assert modules_of(tmp_path / "mine.lua") == {}


@pytest.mark.parametrize(
    ("data", "named"), [('script = "mine.lua"', ["towns.lua", "words.txt"]), ('sql = "shop.toml"', ["towns.csv"])]
)
def test_prepared_data_of_other_csv_files_or_modules_are_kept_apart_wherever_they_are(
    tmp_path: Path, data: str, named: list[str]
) -> None:
    def short(folder: Path) -> str:
        spec = experiment(folder, f'data = {{ {data} }}\n[[steps]]\nsql = "shop.sql"\n').data
        for name, text in {"mine.lua": 'require("towns")', "shop.toml": "# \"csv('towns.csv', 'name')\""}.items():
            (folder / name).write_text(text)
        return kind_of(spec).short(spec)

    texts = {"towns.lua": 'return io.open("words.txt")', "words.txt": "Ulm", "towns.csv": "name\nUlm\n"}
    folders = [tmp_path / "ann", tmp_path / "bob"]
    for folder in folders:
        folder.mkdir()
        for name, text in texts.items():
            (folder / name).write_text(text)
    first = short(folders[0])
    assert first == short(folders[1])
    for name in named:
        (folders[1] / name).write_text(f"{texts[name]} -- changed")
        assert short(folders[1]) != first
        (folders[1] / name).write_text(texts[name])
    assert first == short(folders[1])


def test_a_script_gets_the_stream_of_its_block(tmp_path: Path) -> None:
    step = experiment(tmp_path, '[[steps]]\nscript = "mine.lua"\n').resolved_steps[0]
    assert (
        with_stream(step, 1, 1, 1, True).options["rand_seed"] != with_stream(step, 1, 2, 1, True).options["rand_seed"]
    )


def test_options_of_dynoload_are_not_passed_to_a_script() -> None:
    assert set(ScriptOptions.model_fields) == OPTIONS_OF_LOAD


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('[[steps]]\nscript = "nowhere.lua"\n', 'mine.toml:6: steps[0].script = "nowhere.lua": no such file'),
        ('[[steps]]\nscript = "mine.lua"\nsql = "shop.sql"\n', "has script and sql"),
        ('[[steps]]\nscript = "mine.lua"\nworkload = "tpcc"\n', "has script and workload"),
        ('[[steps]]\nworkload = "script"\n', "is a key of its own"),
        ('data.workload = "sql"\n[[steps]]\nsql = "shop.sql"\n', "is a key of its own"),
        ('data.workload = "kv"\n[[steps]]\nsql = "shop.sql"\n', "needs tables"),
        ('[[steps]]\nsql = "shop.sql"\noptions = { range_size = 7 }\n', "range_size"),
        ("[[steps]]\nconnections = 4\n", "workload"),
    ],
)
def test_a_mistake_names_what_is_allowed(tmp_path: Path, text: str, expected: str) -> None:
    assert expected in mistake(tmp_path, text)


SCALED = """scale = { default = 0.01, lowest = 0.01, highest = 1 }
[[tables]]
name = "item"
rows_at_scale_1 = 5_000_000
[[tables]]
name = "kind"
rows = 7
"""


def test_tables_of_a_file_with_a_scale_are_made_at_the_scale_of_the_experiment(tmp_path: Path) -> None:
    (tmp_path / "big.toml").write_text(SCALED)
    steps = '[[steps]]\nsql = "shop.sql"\nconnections = 4\n'
    usual = experiment(tmp_path, f'data = {{ sql = "big.toml" }}\n{steps}')
    larger = experiment(tmp_path, f'data = {{ sql = "big.toml", options = {{ scale = 0.5 }} }}\n{steps}')
    kind = kind_of(larger.data)
    assert rows_of(usual.data) == 50_007
    assert rows_of(larger.data) == 2_500_007
    assert kind.prepare_s(larger.data) > 2 * kind.prepare_s(usual.data)
    assert kind.short(larger.data) != kind.short(usual.data), "a template of its own"
    assert ARGUMENTS["sql"].data(larger.data) == [str(tmp_path / "big.toml"), "--scale=0.5"]
    standard = experiment(tmp_path, f'data = {{ sql = "tpch-like", options = {{ scale = 1 }} }}\n{steps}')
    assert rows_of(standard.data) == 8_660_030


@pytest.mark.parametrize(
    ("file", "options", "expected"),
    [
        ("big.toml", "scale = 2", "data.options.scale = 2: is not possible; allowed: 0.01 to 1, in steps of 0.01"),
        ("big.toml", "scale = 0", "is not possible"),
        ("big.toml", "scale = 0.015", "is not possible"),
        ("big.toml", "scale = true", "is not possible"),
        ("big.toml", "scale = 'large'", "is not possible"),
        ("big.toml", "skale = 0.5", "data.options.skale = 0.5: unknown option; allowed: scale"),
        ("shop.toml", "scale = 0.5", "shop.toml has no scale"),
        ("shop.sql", "scale = 0.5", "shop.sql has no scale"),
        ("broken.toml", "scale = 0.5", "is not TOML"),
        ("latin.toml", "scale = 0.5", "is not TOML"),
        ("broken.toml", "", "is not TOML"),
        ("lone.toml", "", "lone.toml: its tables must be [[tables]]"),
        ("many.toml", "", "many.toml: rows and rows_at_scale_1 of its tables must be whole numbers"),
        ("zero.toml", "scale = 0", "zero.toml: its scale must have lowest, default and highest, numbers"),
        ("words.toml", "scale = 0.5", "words.toml: its scale must have lowest, default and highest, numbers"),
    ],
)
def test_tables_or_a_scale_that_are_not_possible_are_refused(
    tmp_path: Path, file: str, options: str, expected: str
) -> None:
    (tmp_path / "big.toml").write_text(SCALED)
    (tmp_path / "broken.toml").write_text("scale = ")
    (tmp_path / "latin.toml").write_bytes("# größer\n".encode("latin-1"))
    (tmp_path / "lone.toml").write_text("[tables]\nname = 't'\n")
    (tmp_path / "many.toml").write_text(SCALED.replace("5_000_000", "'many'"))
    (tmp_path / "zero.toml").write_text(SCALED.replace("lowest = 0.01", "lowest = 0"))
    (tmp_path / "words.toml").write_text(SCALED.replace("lowest = 0.01", "lowest = 'small'"))
    text = f'data = {{ sql = "{file}", options = {{ {options} }} }}\n[[steps]]\nsql = "shop.sql"\nconnections = 4\n'
    assert expected in mistake(tmp_path, text)
