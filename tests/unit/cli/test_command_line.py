"""The command line by real processes: pages, exit codes, nearest names; what is printed against golden files."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from mydyno import __version__
from mydyno.cli import COMMANDS
from mydyno.cli.clean import clean_here
from mydyno.experiments import built_in
from mydyno.hosts.lock import study_lock
from mydyno.hosts.paths import HostPaths
from mydyno.hosts.undo import UNDOERS, UndoJournal
from mydyno.servers.external_variables import BorrowedVariables
from tests.support import ROOT
from tests.support.disowned import disowned
from tests.support.fake_study_folder import Shape, build
from tests.support.forked import run_forked
from tests.support.golden import check_golden

SEEDED = ("--set", "design.seed=1")


def mydyno(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The command in a folder, with a cache of its own and a terminal of 100 columns.

    Not `clean`: it would remove the network namespaces of tests beside this one, whose studies hold no lock.
    """
    assert arguments[:1] != ("clean",) or "--help" in arguments
    plain = {"PATH": os.environ["PATH"], "HOME": str(folder), "COLUMNS": "100", "TERM": "dumb", "LANG": "C.UTF-8"}
    engine = folder / "engine"
    engine.mkdir(exist_ok=True)
    (engine / "dynoprobe").write_text('#!/bin/sh\necho \'{"record":"sample"}\'\n')
    (engine / "dynoprobe").chmod(0o755)
    own = {"PYTHONPATH": str(ROOT / "src"), "MYDYNO_CACHE": str(folder / "cache"), "MYDYNO_ENGINE": str(engine)}
    lock = {"MYDYNO_TEST_STUDY_LOCK": f"mydyno-test{folder}"}
    return run_forked(arguments, folder, {**plain, **own, **lock, **environment})


def filtered(text: str, folder: Path) -> str:
    """Without what differs from host to host: paths, free bytes, CPUs, load, versions."""
    text = text.replace(str(folder), "FOLDER").replace(__version__, "VERSION")
    text = re.sub(r"[\d.]+ [KMGT]iB are free", "N GiB are free", text)
    text = re.sub(r"this host's \d+ CPUs?", "this host's N CPUs", text)
    text = re.sub(r"(?m)^note      (the host is busy: |servers may open ).*\n", "", text)
    return re.sub(r"[ \t]+$", "", text, flags=re.MULTILINE)


@pytest.mark.parametrize("command", [None, *COMMANDS])
def test_help_is_as_the_golden_file(tmp_path: Path, command: str | None) -> None:
    done = mydyno(tmp_path, *([command] if command else []), "--help")
    assert (done.returncode, done.stderr) == (0, "")
    check_golden(f"help-{command or 'mydyno'}.txt", filtered(done.stdout, tmp_path))


def test_the_plan_is_as_the_golden_file(tmp_path: Path) -> None:
    done = mydyno(tmp_path, "plan", "allocators", "--set", "server.variables.innodb_buffer_pool_size=64M", *SEEDED)
    assert done.returncode == 0, done.stdout + done.stderr
    check_golden("plan-allocators.txt", filtered(done.stdout, tmp_path))
    assert not (tmp_path / "cache").exists(), "a plan changes nothing"


def test_the_list_is_as_the_golden_file(tmp_path: Path) -> None:
    shape = Shape(arms=("glibc", "jemalloc"), connections=(16,), blocks=2, warmup_s=2, measure_s=4)
    build(tmp_path / "studies" / "allocators-20261118T110640Z", shape)
    damaged = tmp_path / "studies" / "damaged-20261118T110640Z"
    damaged.mkdir()
    (damaged / "study.json").write_text("{")
    done = mydyno(tmp_path, "list")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    listed = [line for line in lines if re.match(r"  \S+ +(-|\d+ min( \d+ s)?) +\S.*\?$", line)]
    assert len(listed) == len(built_in()), "a line each"
    text = re.sub(r"(damaged +damaged +).*", r"\1WHY", done.stdout)
    studies = text[text.index("studies in") :]
    assert "allocators-20261118T110640Z" in studies
    assert "damaged-20261118T110640Z" in studies
    check_golden("list-studies.txt", filtered(re.sub(r"(damaged-\S+ +damaged).*(\n  .*)*", r"\1", studies), tmp_path))
    assert {study["name"] for study in json.loads(mydyno(tmp_path, "list", "--json").stdout)["studies"]} == {
        "allocators-20261118T110640Z",
        "damaged-20261118T110640Z",
    }


def test_every_built_in_experiment_says_its_study_and_what_this_host_can(tmp_path: Path) -> None:
    told = json.loads(mydyno(tmp_path, "list", "--json").stdout)["experiments"]
    by_name = {experiment["name"]: experiment for experiment in told}
    assert by_name["network"]["repeats"].startswith("repeats study 4, Network bandwidth")
    assert by_name["huge-pages"]["repeats"] == "repeats an appendix of study 4"
    assert by_name["tls-handshake"]["repeats"] == ""
    for experiment in told:
        assert re.match(r"(quick (about|not on this host)|not on this host)", experiment["here"]), experiment
    assert re.search(r"published (about|not on this host: )", by_name["allocators"]["here"])


def test_the_schema_is_as_the_golden_file_and_accepts_the_built_in_experiments(tmp_path: Path) -> None:
    done = mydyno(tmp_path, "schema")
    assert done.returncode == 0
    schema = json.loads(done.stdout)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["if"] == {"required": ["base"]}
    assert schema["else"]["required"] == ["name", "question", "server", "steps"]
    check_golden("schema.json", done.stdout)


def test_the_version_is_told(tmp_path: Path) -> None:
    done = mydyno(tmp_path, "--version")
    assert (done.returncode, done.stdout) == (0, f"mydyno {__version__}\n")


@pytest.mark.parametrize(("arguments", "code"), [(("--version",), 0), (("run", "alocators"), 2)])
def test_a_program_started_anew_does_the_same(tmp_path: Path, arguments: tuple[str, ...], code: int) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "COLUMNS": "100"}
    command = [sys.executable, "-m", "mydyno.cli", *arguments]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    forked = mydyno(tmp_path, *arguments)
    assert done.returncode == code
    assert (done.returncode, done.stdout, done.stderr) == (forked.returncode, forked.stdout, forked.stderr)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("run", "alocators"), "did you mean 'allocators'?"),
        (("run", "nowhere.toml"), "nowhere.toml: no such file"),
        (("plan", "allocators", "--scale", "quik"), "did you mean 'quick'?"),
        (("plan", "allocators", "--set", "design.blocks"), "--set design.blocks: not understood"),
        (("plan", "allocators", "--set", "desing.blocks=1"), "did you mean 'design'?"),
        (("plan", "allocators", "--blocks", "0"), "--blocks"),
        (("plan", "allocators", "--no-such-option"), "--no-such-option"),
        (("plan",), "EXPERIMENT"),
        (("resume", "studies/none"), "studies/none is not a study"),
        (("report", "studies/none"), "studies/none is not a study"),
        (("report", "x", "--format", "htm"), "did you mean 'html'?"),
        (("servers", "install", "maria-10.11"), "did you mean 'mariadb-10.11'?"),
        (("run", "allocators", "--on", "slum"), "did you mean 'slurm'?"),
        (("run", "allocators", "--on", "slurm", "--hosts", "local"), "--on and --hosts exclude each other"),
        (("run", "allocators", "--on", "slurm", "--time", "10m"), "--on and --time exclude each other"),
        (("run", "allocators", "--on", "slurm", "--data", "data"), "with --on only an absolute path"),
        (("run", "allocators", "--on-option", "partition=bench"), "--on-option needs --on"),
        (("plan", "allocators", "--on", "kubernetes"), "needs --on-option image=NAME"),
        (("plan", "allocators", "--on", "slurm", "--set", "server.dsn=mysql://bench@db/sbtest"), "load it together"),
        (("rnu",), "rnu"),
    ],
)
def test_the_users_mistakes_end_with_2_and_say_what_to_try(
    tmp_path: Path, arguments: tuple[str, ...], words: str
) -> None:
    done = mydyno(tmp_path, *arguments)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_what_this_host_cannot_do_ends_with_3(tmp_path: Path) -> None:
    pool = ("--set", "server.variables.innodb_buffer_pool_size=900T")
    planned = mydyno(tmp_path, "plan", "allocators", *pool)
    assert planned.returncode == 3
    assert "OBSTACLE  memory: arm glibc: its server needs about 900" in planned.stdout
    run = mydyno(tmp_path, "run", "allocators", *pool)
    assert run.returncode == 3
    assert "mydyno: error: memory: arm glibc: its server needs about 900" in run.stderr
    assert not (tmp_path / "studies").exists()


def test_a_missing_engine_ends_with_3(tmp_path: Path) -> None:
    small = ("--set", "server.variables.innodb_buffer_pool_size=64M")
    done = mydyno(tmp_path, "run", "allocators", *small, MYDYNO_ENGINE=str(tmp_path / "none"))
    assert done.returncode == 3
    assert "the engine's program dynoprobe is not at" in done.stderr


@pytest.mark.parametrize(
    ("option", "words"),
    [("--studies", "--studies file/x cannot be written"), ("--data", "--data FOLDER/file/x cannot be written")],
)
def test_a_folder_that_cannot_be_written_ends_with_3_before_any_work(tmp_path: Path, option: str, words: str) -> None:
    (tmp_path / "file").touch()
    small = ("--set", "server.variables.innodb_buffer_pool_size=64M")
    done = mydyno(tmp_path, "run", "allocators", *small, option, "file/x")
    assert (done.returncode, done.stdout) == (3, "")
    assert f"mydyno: error: {words}: FOLDER/file is not a folder" in filtered(done.stderr, tmp_path)
    assert "resume" not in done.stderr
    assert not (tmp_path / "cache").exists()


def test_without_a_cache_folder_one_line_says_so(tmp_path: Path) -> None:
    done = mydyno(tmp_path, "doctor", HOME="", MYDYNO_CACHE="")
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith("mydyno: error: there is no cache folder: neither HOME nor MYDYNO_CACHE is set\n")


@pytest.mark.parametrize(
    ("arms", "code"), [('{"allocator"="jemalloc"}', 3), ('{"variables"={"max_connections"=200}}', 0)]
)
def test_a_library_below_a_folder_with_a_space_is_not_preloaded(tmp_path: Path, arms: str, code: int) -> None:
    settings = (f"arms={{control='a', a={{}}, b={arms}}}", "server.variables.innodb_buffer_pool_size=64M")
    words = [word for setting in settings for word in ("--set", setting)]
    done = mydyno(tmp_path, "plan", "allocators", *words, MYDYNO_CACHE=str(tmp_path / "a cache"))
    assert done.returncode == code, done.stdout + done.stderr
    assert ("has a space or a colon, at which LD_PRELOAD is split" in done.stdout) == (code == 3)


@pytest.mark.parametrize("output", [".", "/tmp", "nowhere/x"])
def test_statistics_are_not_read_for_a_file_that_cannot_be_written(tmp_path: Path, output: str) -> None:
    done = mydyno(tmp_path, "servers", "statistics", "mysql://bench@127.0.0.1:1/x", "--output", output)
    assert (done.returncode, f"--output {output}: " in done.stderr) == (2, True)


def test_nothing_to_clean_is_said_and_is_no_failure(paths: HostPaths, capsys: pytest.CaptureFixture[str]) -> None:
    clean_here(paths)
    assert "nothing to undo" in capsys.readouterr().out


def test_variables_of_a_server_that_no_longer_exists_are_given_up_as_clean_says(
    paths: HostPaths, capsys: pytest.CaptureFixture[str]
) -> None:
    killed = UndoJournal.begin(paths.undo, "killed", paths.undo)
    BorrowedVariables(killed, "mysql://bench@127.0.0.1:1/sbtest").will_set({"sync_binlog": "1"}, {})
    disowned(killed, boot_id="another")
    with pytest.raises(typer.Exit):
        clean_here(paths)
    (path,) = re.findall("if the server of these variables no longer exists: rm (.+)", capsys.readouterr().out)
    Path(path).unlink()
    clean_here(paths)
    assert "nothing to undo" in capsys.readouterr().out


def test_a_change_that_only_another_version_can_undo_stays_in_the_journal(
    paths: HostPaths, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    killed = UndoJournal.begin(paths.undo, "killed", paths.undo)
    monkeypatch.setitem(UNDOERS, "x", lambda _facts, _root: None)
    killed.will_change("x", path="/y")
    monkeypatch.delitem(UNDOERS, "x")
    disowned(killed, boot_id="another")
    for _ in range(2):
        with pytest.raises(typer.Exit) as ended:
            clean_here(paths)
        assert ended.value.exit_code == 1
        assert "could not be undone: a change of the kind x: `mydyno clean` of" in capsys.readouterr().out


def test_prepared_data_stay_while_a_study_runs(paths: HostPaths, capsys: pytest.CaptureFixture[str]) -> None:
    templates = paths.data / "templates"
    templates.mkdir(parents=True)
    with study_lock("fake-1", paths.study_lock_address), pytest.raises(typer.Exit) as ended:
        clean_here(paths, templates=True)
    assert (ended.value.exit_code, templates.is_dir()) == (1, True)
    assert "prepared data: another study is running on this host: fake-1 (pid" in capsys.readouterr().out
    clean_here(paths, templates=True)
    assert not templates.exists()


def test_the_doctor_tells_and_ends_with_0(tmp_path: Path) -> None:
    told = json.loads(mydyno(tmp_path, "doctor", "--json").stdout)
    assert {ability["name"] for ability in told["abilities"]} >= {
        "private servers",
        "load and telemetry",
        "disk for data",
    }
    done = mydyno(tmp_path, "doctor")
    assert done.returncode == 0
    able = re.match(r"This host can run (\d+) of (\d+) built-in experiments.\n", done.stdout)
    assert able is not None, done.stdout
    listed = json.loads(mydyno(tmp_path, "list", "--json").stdout)["experiments"]
    assert [int(able[1]), int(able[2])] == [sum(bool(one["quick"]) for one in listed), len(listed)]
    assert re.search(r"(?m)^  system +.*kernel ", done.stdout)
    assert "_bytes" not in done.stdout


def test_servers_are_listed_without_getting_any(tmp_path: Path) -> None:
    done = mydyno(tmp_path, "servers")
    assert done.returncode == 0
    assert re.search(r"^mariadb-10\.11 +MariaDB 10\.11 from Debian 12 +not here yet", done.stdout, re.MULTILINE)
    assert not (tmp_path / "cache").exists()


def test_a_plan_for_programs_is_json(tmp_path: Path) -> None:
    small = ("--set", "server.variables.innodb_buffer_pool_size=64M")
    told = json.loads(mydyno(tmp_path, "plan", "allocators", "--json", "--blocks", "2", *small).stdout)
    assert told["experiment"]["design"]["blocks"] == 2
    assert len(told["plan"]["blocks"]) == 2
    assert told["forecast"]["runs"] == 10


def test_a_path_that_is_named_like_a_command_is_no_command(tmp_path: Path) -> None:
    done = mydyno(tmp_path, "--version", "run")
    assert done.returncode == 0


@pytest.mark.slow
@pytest.mark.parametrize("where", ["before", "while"])
def test_ctrl_c_at_any_moment_ends_with_130(tmp_path: Path, where: str) -> None:
    """Also before a study has begun, while the command still loads what it needs."""
    code = f"""
import sys, mydyno.cli, mydyno.cli.study_options as module
def interrupted(*_, **__): raise KeyboardInterrupt
if {where!r} == "while":
    module.load_for_study = interrupted
else:
    mydyno.cli.make_app = interrupted
sys.argv = ["mydyno", "plan", "allocators"]
mydyno.cli.main()
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, "Traceback" in done.stderr) == (130, False), done.stderr


def test_orders_are_drawn_anew_unless_a_seed_is_given(tmp_path: Path) -> None:
    def planned(*words: str) -> tuple[int, str]:
        text = mydyno(tmp_path, "plan", "variable", "--json", "--blocks", "4", *words).stdout
        plan = json.loads(text)["plan"]
        return plan["seed"], json.dumps(plan["blocks"])

    drawn = {planned() for _ in range(3)}
    assert len({seed for seed, _ in drawn}) == 3
    assert len({blocks for _, blocks in drawn}) > 1
    seed, blocks = drawn.pop()
    assert planned("--set", f"design.seed={seed}") == (seed, blocks)


def test_a_planned_command_has_the_options_of_the_run() -> None:
    """So that `run` in a line that was typed can be replaced by `plan`, to see first what it does."""
    of_run, of_plan = (
        set(re.findall(r"--[a-z-]+", run_forked((name, "--help"), Path.cwd(), dict(os.environ)).stdout))
        for name in ("run", "plan")
    )
    assert of_run - of_plan == set()


def test_load_is_dynoload_with_its_own_arguments_and_exit_code(tmp_path: Path) -> None:
    engine = tmp_path / "engine"
    engine.mkdir()
    (engine / "dynoload").write_text('#!/bin/sh\necho "$0 $*"\nexit 7\n')
    (engine / "dynoload").chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-m", "mydyno.cli", "load", "sql", "run", "a b.sql", "--connections", "2", "--help"],
        env={**os.environ, "MYDYNO_ENGINE": str(engine)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (7, f"{engine}/dynoload sql run a b.sql --connections 2 --help\n")
