"""--scale, --set and [factors]: what they make of an experiment file, and where their mistakes are told."""

from __future__ import annotations

from pathlib import Path

import pytest

from mydyno.drivers.dynoload import Dynoload
from mydyno.drivers.libmemcached import Memaslap, Memslap
from mydyno.drivers.sysbench import Sysbench
from mydyno.errors import UserError
from mydyno.experiment_file.toml_source import parse_set, with_settings
from mydyno.experiments import load
from mydyno.model.definition.experiment import Experiment
from mydyno.workloads.kv import KvOptions
from tests.unit.experiment_file.test_experiment_mistakes import GOOD, mistakes, parse

LATENCY = "[verdict]\nprimary = 'latency_p99_us'\n"
SWEEP = GOOD + "connections = [4, 8]\n[[steps]]\nworkload = 'oltp_read_write'\nmeasure = '60s'\n"


ARMS = '[arms]\ncontrol = "glibc"\nglibc = { allocator = "glibc" }\n'


def factors(text: str) -> Experiment:
    return parse(GOOD.replace(ARMS, text))


def test_the_scale_quick_is_taken_where_nothing_is_said_and_the_file_has_it() -> None:
    assert parse(GOOD + "[scale.quick]\ndesign.blocks = 3\n").design.blocks == 3
    assert parse(GOOD + "[scale.quick]\ndesign.blocks = 3\n", "standard").design.blocks == 8


def test_a_scale_reaches_all_steps_by_a_table_and_replaces_them_by_a_list() -> None:
    assert [step.measure for step in parse(SWEEP + "[scale.quick]\nsteps.measure = '5s'\n").steps] == [5.0, 5.0]
    one = SWEEP + "[scale.quick]\nsteps = [{ workload = 'oltp_insert' }]\n"
    assert [step.workload for step in parse(one).steps] == ["oltp_insert"]


def test_the_built_in_experiment_holds_at_every_scale() -> None:
    found = {scale: load("allocators", scale)[0] for scale in ("quick", "standard", "published")}
    assert [len(experiment.arms) for experiment in found.values()] == [4, 4, 4]
    assert found["published"].data.rows == 3_000_000
    assert found["published"].server.variables["innodb_flush_method"] == "O_DIRECT"


@pytest.mark.parametrize(
    ("assignment", "path", "value"),
    [
        ("design.blocks=5", ("design", "blocks"), 5),
        ("steps.measure = 5s", ("steps", "measure"), "5s"),
        ('server.name="a=b"', ("server", "name"), "a=b"),
        ("steps.connections=[1, 2]", ("steps", "connections"), [1, 2]),
        ("data.prewarm=false", ("data", "prewarm"), False),
        ("question=", ("question",), ""),
    ],
)
def test_a_setting_is_read_as_toml_or_else_as_a_bare_word(
    assignment: str, path: tuple[str, ...], value: object
) -> None:
    assert parse_set(assignment) == (path, value)


def test_settings_reach_members_of_lists_by_number_or_all_of_them() -> None:
    assert [s.warmup for s in parse(SWEEP, None, ("steps.warmup=2s",)).steps] == [2.0, 2.0]
    assert [s.warmup for s in parse(SWEEP, None, ("steps.1.warmup=2s",)).steps] == [10.0, 2.0]


def test_later_settings_win_and_the_file_is_not_touched() -> None:
    tree = {"design": {"blocks": 1}}
    assert with_settings(tree, ["design.blocks=2", "design.blocks=3"]) == {"design": {"blocks": 3}}
    assert tree == {"design": {"blocks": 1}}


@pytest.mark.parametrize(
    ("assignment", "words"),
    [
        ("design.blocks", "--set design.blocks: not understood"),
        ("=5", "--set =5: not understood"),
        ("a..b=5", "--set a..b=5: not understood"),
        ("name.x=5", "--set name.x=5: name is a value, not a table"),
        ("steps.7.measure=5s", "--set steps.7.measure=5s: steps has 2 members, counted from 0"),
        ("steps.0=5", "--set steps.0=5: steps has 2 members, counted from 0"),
        ("published.0.x=1", "--set published.0.x=1: the list contains values, not tables"),
        ("published.x=1", "--set published.x=1: the list contains values, not tables"),
        ("scale=standard", "--set scale=standard: scales are taken from the file"),
        ("scale.quick.design.blocks=1", "scales are taken from the file"),
    ],
)
def test_a_setting_that_leads_nowhere_is_refused(assignment: str, words: str) -> None:
    text = SWEEP.replace("[server]", "published = ['study-1']\n[server]")
    assert words in mistakes(text, None, (assignment,))


@pytest.mark.parametrize(
    ("text", "assignment"),
    [
        (GOOD, "screen.variables.innodb_io_capacity=[200,2000]"),
        (f"screen = 3\n{GOOD}", "screen.variables.innodb_io_capacity=[200,2000]"),
        (GOOD.replace("[[steps]]", "[steps]"), "steps.sql=own.sql"),
        (GOOD.partition("[[steps]]")[0], "steps.sql=own.sql"),
    ],
)
def test_a_setting_of_what_the_file_does_not_have_is_told(text: str, assignment: str) -> None:
    with pytest.raises(UserError, match=assignment.partition(".")[0]):
        parse(text, None, (assignment,))


def test_a_mistake_is_told_where_it_was_said() -> None:
    said = mistakes(SWEEP, None, ("steps.1.measure=never", "design.blocs=4"))
    assert '--set steps.1.measure=never: steps[1].measure = "never": not understood' in said
    assert "--set design.blocs=4: design.blocs: unknown key" in said
    in_scale = mistakes(SWEEP + "[design]\nblocks = 8\n[scale.quick]\ndesign.blocks = 0\n")
    assert "x.toml:17: design.blocks = 0: out of range" in in_scale
    assert "x.toml:15: design.blocks = 0" in mistakes(SWEEP + "[design]\nblocks = 0\n[scale.quick]\n", "standard")


@pytest.mark.parametrize(
    ("arms", "names"),
    [
        ("[arms]\ncontrol = 'a'\na = {}\nb = { allocator = 'jemalloc' }\n", ["a", "b"]),
        ("[factors]\ncontrol = 'glibc'\nallocator = ['glibc', 'jemalloc']\n", ["glibc", "jemalloc"]),
        ("[vary.variables]\ninnodb_io_capacity = [200, 400]\n", ["innodb_io_capacity-200", "innodb_io_capacity-400"]),
    ],
)
def test_every_arm_has_the_common_treatments_whatever_makes_the_arms(arms: str, names: list[str]) -> None:
    for experiment in (
        factors(f"{arms}[treatments]\naffinity = 'one'\n"),
        parse(GOOD.replace(ARMS, arms), None, ("treatments.affinity=one",)),
    ):
        assert [arm.name for arm in experiment.arms] == names
        assert all(arm.treatments["affinity"] == "one" for arm in experiment.arms)


def test_what_an_arm_sets_comes_before_what_every_arm_has() -> None:
    common = "[treatments]\naffinity = 'one'\nvariables = { v1 = 1, v2 = 2 }\n"
    arms = "[arms]\ncontrol = 'a'\na = {}\nb = { affinity = 'apart', variables = { v2 = 3 } }\n"
    assert {arm.name: arm.treatments for arm in factors(common + arms).arms} == {
        "a": {"affinity": "one", "variables": {"v1": 1, "v2": 2}},
        "b": {"affinity": "apart", "variables": {"v1": 1, "v2": 3}},
    }


def test_a_build_of_every_arm_is_made_whole_by_that_of_the_server() -> None:
    build = "[server.build]\ngit = '/src/m'\ncommand = 'make'\n"
    common = "[treatments]\nserver.build.environment = { CC = 'clang' }\n"
    arms = "[arms]\ncontrol = 'a'\na = { server.build.ref = '1' }\nb = { server.build.ref = '2' }\n"
    experiment = parse(GOOD.replace('[server]\nname = "mariadb-10.11"\n', build).replace(ARMS, common + arms))
    found = [arm.treatments["server"]["build"] for arm in experiment.arms]
    assert [(one["git"], one["ref"], one["environment"]) for one in found] == [
        ("/src/m", "1", {"CC": "clang"}),
        ("/src/m", "2", {"CC": "clang"}),
    ]


def test_a_mistake_in_what_every_arm_has_is_told_once() -> None:
    said = mistakes(SWEEP + "[treatments]\naffinity = 'both'\nalocator = 'glibc'\n")
    assert 'x.toml:15: treatments.affinity = "both": unknown value; allowed: apart or one' in said
    assert "x.toml:16: treatments.alocator: unknown treatment;" in said
    assert said.count("\n") == 2
    assert "--set treatments.affinity=both: treatments.affinity" in mistakes(SWEEP, None, ("treatments.affinity=both",))
    (line,) = mistakes("treatments = 5\n" + SWEEP).splitlines()[1:]
    assert "treatments = 5: must be a table" in line


def test_factors_give_their_full_product() -> None:
    experiment = factors(
        "[factors]\ncontrol = 'glibc-small'\nallocator = ['glibc', 'jemalloc']\n[factors.pool]\n"
        "small = { variables = { innodb_buffer_pool_size = '64M' } }\n"
        "large = { variables = { innodb_buffer_pool_size = '1G' } }\n"
    )
    assert {arm.name: arm.treatments for arm in experiment.arms} == {
        "glibc-small": {"allocator": "glibc", "variables": {"innodb_buffer_pool_size": "64M"}},
        "glibc-large": {"allocator": "glibc", "variables": {"innodb_buffer_pool_size": "1G"}},
        "jemalloc-small": {"allocator": "jemalloc", "variables": {"innodb_buffer_pool_size": "64M"}},
        "jemalloc-large": {"allocator": "jemalloc", "variables": {"innodb_buffer_pool_size": "1G"}},
    }


def test_two_factors_that_set_variables_are_merged() -> None:
    experiment = factors(
        "[factors]\ncontrol = 'a-c'\n[factors.x]\na = { variables = { v1 = 1 } }\nb = { variables = { v1 = 2 } }\n"
        "[factors.y]\nc = { variables = { v2 = 1 } }\n"
    )
    assert experiment.arm("b-c").treatments == {"variables": {"v1": 2, "v2": 1}}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[factors]\ncontrol = 'x'\nallocator = 'glibc'\n", "must be a list of values or a table of levels"),
        ("[factors]\ncontrol = 'x'\nallocator = []\n", "must be a list of values or a table of levels"),
        ("[factors]\ncontrol = 'glibc'\nallocator = ['glibc', 'glibc']\n", "give two arms of the name 'glibc'"),
        ("[factors]\nallocator = ['glibc']\n", "factors.control: is missing"),
        ("[factors]\ncontrol = 'glib'\nallocator = ['glibc']\n", "did you mean 'glibc'?"),
        (
            "[factors]\ncontrol = 'x'\n" + "".join(f"f{i} = {list(range(10))}\n" for i in range(9)),
            "factors: give 1000000000 arms; allowed: at most 500",
        ),
    ],
)
def test_factors_that_make_no_arms_are_told(text: str, words: str) -> None:
    arms = '[arms]\ncontrol = "glibc"\nglibc = { allocator = "glibc" }\n'
    assert words in mistakes(GOOD.replace(arms, text))


def test_an_allocator_with_options_is_checked_inside() -> None:
    def arm(setting: str) -> str:
        return GOOD.replace('allocator = "glibc"', f"allocator = {setting}")

    good = '{ name = "jemalloc", environment = { MALLOC_CONF = "narenas:4" } }'
    assert parse(arm(good)).arms[0].treatments["allocator"]["name"] == "jemalloc"
    assert "arms.glibc.allocator.libary: unknown key" in mistakes(arm('{ name = "glibc", libary = "/x" }'))
    assert "arms.glibc.allocator.name: is missing" in mistakes(arm('{ library = "/x" }'))
    assert "arms.glibc.allocator = 5" in mistakes(arm("5"))


def test_steps_that_repeat_get_ids_of_their_own() -> None:
    text = GOOD + "connections = 4\n[[steps]]\nworkload = 'oltp_read_only'\nconnections = [4, 8]\n"
    assert [step.id for step in parse(text).resolved_steps] == [
        "oltp_read_only-4",
        "oltp_read_only-4-2",
        "oltp_read_only-8",
    ]


def test_a_bad_setting_raises_the_users_error() -> None:
    with pytest.raises(UserError):
        load("allocators", None, ["design.blocks=zero"])


def test_steps_are_resolved_once_and_anew_for_a_copy() -> None:
    one = parse(GOOD)
    assert one.resolved_steps is one.resolved_steps
    fewer = one.steps[0].model_copy(update={"connections": (7,)})
    copied = one.model_copy(update={"steps": (fewer,)})
    assert [step.connections for step in copied.resolved_steps] == [7]
    assert one == parse(GOOD), "the resolved steps are no field"
    assert "resolved_steps" not in one.model_dump()


def test_a_rate_makes_steps_of_an_open_loop() -> None:
    steps = parse(GOOD + "connections = 64\nrate = [500, 2500.5]\n" + LATENCY).resolved_steps
    assert [(step.id, step.connections, step.rate) for step in steps] == [
        ("oltp_read_only-64-at-500", 64, 500.0),
        ("oltp_read_only-64-at-2500.5", 64, 2500.5),
    ]
    assert parse(GOOD).resolved_steps[0].rate is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("rate = 0\n", "steps[0].rate[0] = 0: out of range; allowed: > 0"),
        ("rate = 'fast'\n", "steps[0].rate"),
        ("rate = 5\n", 'verdict.primary = "qps": is fixed by the rate or the captured times for every arm; allowed'),
        ("connections = [1, 2]\nrate = [1, 2]\n", "steps[0].rate = [1, 2]: is a list, and connections is a list too"),
        (
            "rate = 5\n[[steps]]\nworkload = 'oltp_read_only'\nconnections = 4\n",
            "steps[0].rate = 5: is set, and other steps have none; allowed: either every step of oltp_read_only with",
        ),
    ],
)
def test_rates_that_no_report_could_show_are_refused(text: str, words: str) -> None:
    assert words in mistakes(GOOD + text)


def test_only_dynoload_takes_a_rate() -> None:
    step = parse(GOOD + "rate = 5\n" + LATENCY).resolved_steps[0]
    assert Dynoload().check(step) == []
    for driver in (Sysbench(), Memslap(), Memaslap()):
        assert any("use dynoload" in problem for problem in driver.check(step)), driver.name


@pytest.mark.parametrize(("way", "value"), [("basedir", "/usr/local/mysql"), ("name", "mysql-5.6")])
def test_another_server_takes_the_place_of_the_files_and_its_variables_stay(way: str, value: str) -> None:
    found = load("allocators", "quick", (f"server.{way}={value}",))[0].server
    assert (getattr(found, way), found.variables["innodb_flush_method"]) == (value, "O_DIRECT")
    assert [found.name, found.basedir, found.dsn].count(None) == 2


def test_two_servers_at_once_are_refused_on_the_command_line_too() -> None:
    with pytest.raises(UserError, match="exactly one of name, basedir, build, dsn"):
        load("allocators", "quick", ("server.basedir=/usr", "server.name=mysql-5.6"))


def test_a_file_with_a_base_may_name_a_server_of_its_own(tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_text('base = "variable"\nname = "own"\nserver.basedir = "/usr/local/mysql"\n')
    assert load(str(file), "quick")[0].server.basedir == "/usr/local/mysql"


def test_a_server_that_is_set_takes_the_place_of_the_file_s() -> None:
    file = {"server": {"name": "mariadb-10.11", "variables": {"innodb_buffer_pool_size": "1G"}}}
    external = with_settings(file, ["server.dsn=mysql://bench@far/sbtest", "server.card=eth1"])["server"]
    assert external == {"dsn": "mysql://bench@far/sbtest", "card": "eth1"}
    other = with_settings(file, ["server.basedir=/opt/mysql"])["server"]
    assert other == {"basedir": "/opt/mysql", "variables": {"innodb_buffer_pool_size": "1G"}}
    kept = with_settings(file, ["server.variables.innodb_buffer_pool_size=2G"])["server"]
    assert kept == {"name": "mariadb-10.11", "variables": {"innodb_buffer_pool_size": "2G"}}
    both = with_settings(file, ["server.name=mysql-9.7", "server.dsn=mysql://bench@far/sbtest"])["server"]
    assert set(both) == {"name", "dsn"}, "which is a mistake, and told as one"


def test_data_that_are_set_have_none_of_the_options_of_the_file_s() -> None:
    assert with_settings({"data": {"sql": "a", "options": {"scale": 2}}}, ("data.sql=dump.sql",)) == {
        "data": {"sql": "dump.sql"}
    }
    captured = {"data": {"sql": "a"}, "steps": [{"replay": "a.capture"}]}
    assert with_settings(captured, ("steps.replay=b.capture",)) == {"steps": [{"replay": "b.capture"}]}
    same = {"data": {"sql": "a", "options": {"scale": 2}}}
    assert with_settings(same, ("data.sql=a",)) == same
    own = ("data.options.scale=3", "data.sql=b.toml")
    assert with_settings({"data": {"sql": "a", "options": {"rows": 1}}}, own)["data"]["options"] == {"scale": 3}
    assert with_settings({"data": {"sql": "a", "options": {"scale": 2}}}, ("data.options.scale=3",)) == {
        "data": {"sql": "a", "options": {"scale": 3}}
    }


def test_a_load_of_one_s_own_takes_the_place_of_the_steps_workloads(tmp_path: Path) -> None:
    capture = tmp_path / "shop.capture"
    capture.write_text('{"record":"header","format":"dynoload-capture","format_version":1}\n')
    (tmp_path / "shop.sql").write_text("SELECT 1;")
    settings = [f"steps.replay={capture}", f"data.sql={tmp_path / 'shop.sql'}"]
    upgrade, _ = load("upgrade", None, settings)
    assert [step.id for step in upgrade.resolved_steps] == ["shop-16"], "of three steps that differ in their workload"
    many, _ = load("many-connections", None, settings)
    assert len(many.resolved_steps) > 1, "of other numbers of connections"
    tree = {"steps": [{"workload": "oltp_read_only", "options": {"a": 1}}, {"workload": "oltp_read_write"}]}
    assert with_settings(tree, ["steps.1.sql=own.sql", "steps.1.options.b=2"])["steps"] == [
        {"workload": "oltp_read_only", "options": {"a": 1}},
        {"sql": "own.sql", "options": {"b": 2}},
    ]
    with pytest.raises(UserError, match="steps has 2 members"):
        with_settings(tree, ["steps.2.sql=own.sql"])
    three = {"steps": [{"workload": "a"}, {"workload": "b"}, {"workload": "c"}]}
    assert with_settings(three, ["steps.sql=own.sql", "steps.2.connections=16"])["steps"] == [
        {"sql": "own.sql"},
        {"sql": "own.sql", "connections": 16},
    ]
    assert with_settings(tree, ["steps.0.options.sql=x"])["steps"][0] == {
        "workload": "oltp_read_only",
        "options": {"a": 1, "sql": "x"},
    }
    same = {"data": {"sql": "a"}, "steps": [{"replay": "a.capture", "options": {"b": 1}}]}
    assert with_settings(same, ["steps.replay=a.capture"]) == same
    with pytest.raises(UserError, match="values, not tables"):
        with_settings({"steps": ["x"]}, ["steps.sql=own.sql"])
    with pytest.raises(UserError, match="arms is a value"):
        with_settings({"arms": 3}, ["arms.a.dsn=mysql://bench@db/shop"])


def test_a_network_card_is_only_for_another_host_s_server() -> None:
    text = GOOD.replace('name = "mariadb-10.11"', 'name = "mariadb-10.11"\ncard = "eth1"')
    assert "server.card: a server on this host is never reached over a network card; allowed: with dsn" in mistakes(
        text
    )


def test_arms_of_another_kind_in_an_override_replace_those_of_the_file() -> None:
    servers = ["mysql-5.6", "mysql-5.7", "mariadb-10.2", "mariadb-11.4"]
    settings = [f"factors.server={servers}", "factors.control=mysql-5.6"]
    experiment, _ = load("server-versions", None, settings)
    assert [arm.name for arm in experiment.arms] == servers
    assert [arm.treatments for arm in experiment.arms] == [{"server": name} for name in servers]
    assert experiment.control == "mysql-5.6"


@pytest.mark.parametrize(
    ("server", "words"),
    [
        (
            'name = "mariadb-10.11"\nssh = "bench@db"',
            "server.ssh: mydyno restarts and samples its own servers by itself",
        ),
        ('name = "mariadb-10.11"\nhooks = { restart = "x" }', "server.hooks: mydyno restarts and samples its own"),
        ('dsn = "mysql://bench@far/sbtest"\nssh = "bench@"', "not an address of a host"),
        ('dsn = "mysql://bench@far/sbtest"\nhooks = {}', "server.hooks: has no command"),
        ('dsn = "mysql://bench@far/sbtest"\nhooks = { restrat = "x" }', "did you mean 'restart'?"),
        ('dsn = "mysql://bench@far/sbtest"\nhooks = { restart = "x", timeout = "0s" }', "server.hooks.timeout"),
    ],
)
def test_hooks_are_for_an_external_server_and_have_a_command(server: str, words: str) -> None:
    assert words in mistakes(GOOD.replace('name = "mariadb-10.11"', server))


def test_an_arm_s_server_that_is_set_takes_the_place_of_the_file_s() -> None:
    dsns = [f"arms.{arm}.dsn=mysql://bench@{arm}/shop" for arm in ("old", "new")]
    experiment, _ = load("statements", None, dsns)
    assert [arm.treatments for arm in experiment.arms] == [
        {"dsn": f"mysql://bench@{arm.name}/shop"} for arm in experiment.arms
    ]
    tree = {"arms": {"old": {"dsn": "mysql://bench@old/shop"}}}
    assert with_settings(tree, ["arms.old.server=mysql-8.0"]) == {"arms": {"old": {"server": "mysql-8.0"}}}


def test_a_set_replaces_the_server_as_a_whole() -> None:
    tree = {"server": {"name": "mariadb-10.11", "variables": {"sync_binlog": 1}}}
    assert with_settings(tree, ['server={ basedir = "/opt/server" }']) == {"server": {"basedir": "/opt/server"}}


@pytest.mark.parametrize("text", ["50%", "0.5", '"50%"'])
def test_the_bound_of_the_drivers_cpu_is_a_share(text: str) -> None:
    assert load("allocators", None, [f"validity.driver_cpu={text}"])[0].validity.driver_cpu == 0.5


def test_a_share_may_be_all_where_that_makes_sense() -> None:
    assert load("allocators", None, ["validity.driver_cpu=100%"])[0].validity.driver_cpu == 1.0
    with pytest.raises(UserError, match=r"validity\.driver_cpu"):
        load("allocators", None, ["validity.driver_cpu=101%"])
    assert KvOptions(overwrite="30%").overwrite == 0.3  # type: ignore[arg-type]
