"""Whole small studies by the real command, as root and as an ordinary user; summary.json computed again by hand."""

from __future__ import annotations

import json
import math
import os
import shutil
import signal
import stat
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import duckdb
import numpy as np
import pytest
from scipy import stats

from mydyno.hosts.local import entering_command
from mydyno.hosts.paths import HostPaths
from mydyno.store.logs import COMMANDS_FILE, read_commands
from tests.faults.test_killed import FAILPOINTS
from tests.support.real import ONE_ARM, ROOT, SHORT_STEP, TWO_ARMS, Program, end, experiment_text, study_processes
from tests.support.real_fleet import link_or_copy
from tests.support.worded import worded_json

STEPS = """\
[[steps]]
workload = "oltp_read_only"
driver = "sysbench"
connections = 2
warmup = "1s"
measure = "2s"
[[steps]]
workload = "oltp_read_write"
connections = 2
warmup = "0s"
measure = "2s"
"""


@pytest.fixture(scope="module")
def studied(
    tmp_path_factory: pytest.TempPathFactory, real_paths: HostPaths, apart: list[str]
) -> tuple[Program, Path, str]:
    """A study of two arms in two blocks: (program, its folder, what it printed)."""
    folder = tmp_path_factory.mktemp("whole")
    program = Program(folder, real_paths, apart)  # below a folder that only root may enter, where we are root
    before = program.leftovers()
    done = program.run("run", program.write(experiment_text("whole", TWO_ARMS, STEPS, blocks=2)))
    assert done.returncode == 0, done.stderr
    assert program.leftovers() == before
    return program, program.study(), done.stdout


def test_a_study_is_complete_and_ends_with_its_answer(studied: tuple[Program, Path, str]) -> None:
    _, study, printed = studied
    summary = worded_json(study)
    assert summary["state"] == "complete"
    assert [run["valid"] for run in summary["runs"]] == [True] * 6, [run["reasons"] for run in summary["runs"]]
    assert all(sentence in " ".join(printed.split()) for sentence in (*summary["answer"], summary["scope"]))
    assert f"report: {study.relative_to(study.parent.parent)}/report.html" in printed
    for run in summary["runs"]:
        names = {path.name for path in (study / run["folder"]).iterdir()}
        assert names >= {
            "run.json",
            "samples.parquet",
            "driver.json",
            "my.cnf",
            "server.log",
            "driver.log",
        }
        assert all(evidence["holds"] for evidence in run["evidence"])
        assert {evidence["treatment"] for evidence in run["evidence"]} == {"allocator"}
        assert run["arm"] in run["evidence"][0]["text"]


def test_telemetry_of_host_server_and_driver_is_there(studied: tuple[Program, Path, str]) -> None:
    _, study, _ = studied
    values = worded_json(study)["runs"][0]["values"]["oltp_read_only-2"]
    wanted = {"qps", "tps", "latency_p99_us", "server_rss_bytes", "cpu_user_pct", "disk_write_bytes_per_s"}
    assert wanted <= values.keys()
    assert 30e6 < values["server_rss_bytes"] < 1e9
    assert 0 < values["cpu_user_pct"] <= 100


def test_the_servers_counters_agree_with_the_drivers_in_every_run(studied: tuple[Program, Path, str]) -> None:
    _, study, _ = studied
    for path in study.glob("blocks/*/*/run.json"):
        for step in json.loads(path.read_text())["steps"]:
            whole, counted = step["driver"]["whole"], step["server_counters"]
            written = counted["Com_insert"] + counted["Com_update"] + counted["Com_delete"]
            # The server alone counts the statements of transactions that ended with a deadlock: 14 reads, 4 writes.
            begun_again = step["driver"]["ignored_errors"]
            for loaded, at_server, most in ((whole["read"], counted["Com_select"], 14), (whole["write"], written, 4)):
                assert 0.995 * loaded <= at_server <= 1.005 * loaded + most * begun_again


def test_every_program_that_was_started_is_in_the_study_folder(studied: tuple[Program, Path, str]) -> None:
    _, study, _ = studied
    lines = read_commands(study)
    started = {line["id"]: line for line in lines if line["event"] == "started"}
    ended = {line["id"]: line for line in lines if line["event"] == "ended"}
    assert started.keys() == ended.keys()
    names = [Path(line["argv"][0]).name for line in started.values()]
    runs = 3 * 2  # glibc, glibc's copy, jemalloc; in two blocks
    assert names.count("sysbench") >= runs
    assert names.count("dynoprobe") == runs
    servers = [number for number, line in started.items() if any("--defaults-file=" in word for word in line["argv"])]
    assert len(servers) >= runs
    assert {ended[number]["exit_code"] for number in servers} == {0}
    assert {"cp", "sync"} <= set(names)
    loads = [number for number, line in started.items() if line["argv"][-1:] == ["run"]]
    assert len(loads) >= runs
    assert min(ended[number]["duration_s"] for number in loads) > 2, "a step's load lasts longer than its window"


def test_no_password_is_in_the_study_folder_or_in_the_process_list(program: Program) -> None:
    def passwords() -> list[str]:
        words = [path.read_text() for path in program.temporary.glob("mydyno-*/control.password")]
        for path in program.temporary.glob("mydyno-*/sysbench.conf"):
            words += [line.partition("=")[2].strip('"') for line in path.read_text().splitlines() if "password" in line]
        return [word for word in words if len(word) == 32]

    path = program.write(experiment_text("secret", ONE_ARM, SHORT_STEP))
    with program.stopped_at(FAILPOINTS["warm-up"], "run", "--verbose", path) as process:
        words = passwords()
        listed = subprocess.run(["ps", "axeww"], capture_output=True, text=True, check=True).stdout
        assert end(process, signal.SIGCONT) == 0, program.output()
    assert len(words) == 2
    assert "mariadbd" in listed
    assert not [word for word in words if word in listed]
    assert "mydyno.commands: " in program.output()
    assert not [word for word in words if word in program.output()]
    assert (program.study() / COMMANDS_FILE).stat().st_size > 0
    assert not [
        file
        for file in program.study().rglob("*")
        if file.is_file() and any(word.encode() in file.read_bytes() for word in words)
    ]


def pooled_error(values: dict[tuple[str, int, int], float]) -> float:
    """The standard error of ln(jemalloc) - mean(ln A, ln A′) over two blocks, by docs/concepts/statistics.md.

    Noise is pooled over block × arm, A and A′ being one arm measured twice: (n - 1)(k - 1) + 1 degrees of freedom for
    n blocks and k servers.
    """
    logs = np.array([
        [math.log(values[arm, copy, block]) for arm, copy in (("glibc", 1), ("glibc", 2), ("jemalloc", 1))]
        for block in (1, 2)
    ])  # fmt: skip
    fitted = np.linalg.lstsq(DESIGN, logs.ravel(), rcond=None)[0]
    residuals = logs.ravel() - DESIGN @ fitted
    return float(np.sqrt((residuals @ residuals) / (6 - 3) * (1 + 1 / 2) / 2))


DESIGN = np.array([[1, block, server == 2] for block in (0, 1) for server in (0, 1, 2)], dtype=float)
"""Block 1, block 2 less block 1, jemalloc less glibc."""


def test_summary_json_is_what_the_samples_say(studied: tuple[Program, Path, str]) -> None:
    """Recomputed from samples.parquet and run.json alone: windows, means, paired log ratios, t interval."""
    _, study, _ = studied
    summary = worded_json(study)
    values: dict[tuple[str, int, str, int], float] = {}
    for told in summary["runs"]:
        run = json.loads((study / told["folder"] / "run.json").read_text())
        table = duckdb.read_parquet(str(study / told["folder"] / "samples.parquet")).fetchnumpy()
        unix_ns, metric, value = (np.array(table[name]) for name in ("unix_ns", "metric", "value"))
        scope, of_step = np.array(table["scope"]), np.array(table["step"])
        for step in run["steps"]:
            assert summary["windows"][step["id"]]["from_s"] == step["warmup_s"]
            since_s = (unix_ns - step["started_unix_ns"]) / 1e9
            inside = (since_s > step["warmup_s"]) & (since_s <= step["warmup_s"] + step["measure_s"] + 0.5)
            inside &= of_step == step["id"]  # not what was sampled after its load
            for name, from_scope in (("qps", "driver:1"), ("tps", "driver:1"), ("server_rss_bytes", "instance:1"),
                                     ("cpu_user_pct", "host")):  # fmt: skip
                chosen = value[inside & (metric == name) & (scope == from_scope)]
                assert told["values"][step["id"]][name] == pytest.approx(float(chosen.mean()), rel=1e-9)
            values[told["arm"], told["copy"], step["id"], told["block"]] = told["values"][step["id"]]["qps"]
            p99 = step["driver"]["latency_us"]["p99"]
            assert told["values"][step["id"]]["latency_p99_us"] == p99
    effects = [effect for effect in summary["effects"] if effect["metric"] == "qps"]
    assert {(effect["arm"], effect["step"]) for effect in effects} == {
        ("jemalloc", "oltp_read_only-2"),
        ("jemalloc", "oltp_read_write-2"),
    }
    for effect in effects:
        step = effect["step"]
        log_ratios = [
            math.log(values["jemalloc", 1, step, block])
            - np.mean([math.log(values["glibc", copy, step, block]) for copy in (1, 2)])
            for block in (1, 2)
        ]
        mean = float(np.mean(log_ratios))
        assert effect["n"] == 2
        assert effect["ratio"] == pytest.approx(math.exp(mean), rel=1e-9)
        half = math.log(effect["ci_high"] / effect["ratio"])
        assert half == pytest.approx(math.log(effect["ratio"] / effect["ci_low"]), rel=1e-9), "symmetric in logs"
        pooled = pooled_error({key[:2] + key[3:]: value for key, value in values.items() if key[2] == step})
        alone = stats.t.ppf(0.975, effect["details"]["freedom"]) * pooled
        if effect["details"]["method"] == "pooled":
            assert half >= alone * (1 - 1e-9), "an interval for a family is no narrower than for one"
        assert effect["verdict"] in ("inconclusive", "not_measurable"), "two blocks allow no other"


def test_the_report_is_made_again_from_the_folder(studied: tuple[Program, Path, str], tmp_path: Path) -> None:
    program, study, _ = studied
    moved = tmp_path / "elsewhere" / study.name
    shutil.copytree(study, moved)
    (moved / "summary.json").unlink()
    (moved / "report.html").unlink()
    done = program.run("report", str(moved))
    assert (done.returncode, done.stdout.strip()) == (0, str(moved / "report.html")), done.stderr
    assert worded_json(moved) == worded_json(study)
    html = (moved / "report.html").read_text()
    assert "jemalloc" in html
    assert str(program.paths.cache) not in program.run("report", str(moved), "--format", "csv").stdout


def test_a_complete_study_resumed_and_listed_does_nothing_again(studied: tuple[Program, Path, str]) -> None:
    program, study, _ = studied
    runs = {path: path.read_bytes() for path in study.glob("blocks/*/*/*")}
    done = program.run("resume", str(study))
    assert done.returncode == 0, done.stderr
    assert {path: path.read_bytes() for path in study.glob("blocks/*/*/*")} == runs
    listed = program.run("list", "--studies", "studies")
    assert f"{study.name}" in listed.stdout
    assert "complete" in listed.stdout
    assert "6 of 6 runs" in listed.stdout
    program.run("clean")  # of a cache that an earlier version filled it takes privileges away
    assert "nothing to undo" in program.run("clean").stdout


def test_an_ordinary_user_makes_a_whole_study(real_paths: HostPaths, short_folder: Path, apart: list[str]) -> None:
    """As nobody, with a home, a cache and data of their own; the program's files may lie below a closed folder."""
    if os.geteuid() != 0:
        pytest.skip("not root: the other tests run as an ordinary user already")
    home = short_folder / "home"
    home.mkdir()
    shutil.copytree(real_paths.cache / "debian", home / "cache" / "debian", symlinks=True, copy_function=link_or_copy)
    settings = replace(real_paths, cache=home / "cache", data=home / "data")
    interpreter = [Path(sys.prefix), Path(sys.base_prefix), Path(sys.executable).resolve().parent]
    for folder, _, _ in os.walk(home):
        os.chown(folder, 65534, 65534)
    folders = [ROOT / "src", real_paths.engine, *(path for path in interpreter if not _is_open(path))]
    user = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", "--"]
    prefix = [*apart, *entering_command(user, folders, (65534, 65534))]
    program = Program(home, settings, prefix, {"HOME": str(home), "PYTHONPYCACHEPREFIX": ""})
    program.temporary.mkdir()
    path = program.write(experiment_text("ordinary", TWO_ARMS, SHORT_STEP))
    os.chown(program.temporary, 65534, 65534)
    done = program.run("run", path)
    assert done.returncode == 0, done.stderr
    study = program.study()
    assert worded_json(study)["state"] == "complete"
    assert [run["valid"] for run in worded_json(study)["runs"]] == [True, True, True]
    assert study.stat().st_uid == 65534
    assert json.loads((study / "study.json").read_text())["host"]["root"] is False
    assert not study_processes()
    assert list(program.temporary.iterdir()) == []
    assert list((settings.data / "runs").iterdir()) == []
    assert program.run("clean").returncode == 0


def _is_open(folder: Path) -> bool:
    return all(parent.stat().st_mode & stat.S_IXOTH for parent in [folder, *folder.parents])


@pytest.mark.exhaustive
def test_a_cache_below_a_closed_folder_serves_a_server_that_is_not_root(
    real_paths: HostPaths, short_folder: Path, apart: list[str]
) -> None:
    """The usual case of root: the cache below /root, which nobody else may enter."""
    if os.geteuid() != 0:
        pytest.skip("not root: servers then run as the user that owns the cache")
    closed = short_folder / "closed"
    closed.mkdir(mode=0o700)
    shutil.copytree(real_paths.cache / "debian", closed / "cache" / "debian", symlinks=True, copy_function=link_or_copy)
    settings = replace(real_paths, cache=closed / "cache", data=closed / "cache" / "data")
    program = Program(short_folder, settings, apart, {"TMPDIR": str(closed / "tmp")})
    (closed / "tmp").mkdir()
    done = program.run("run", program.write(experiment_text("closed", TWO_ARMS, SHORT_STEP)))
    assert done.returncode == 0, done.stderr
    assert [run["valid"] for run in worded_json(program.study())["runs"]] == [True, True, True]
    assert closed.stat().st_mode & 0o777 == 0o700
    assert not [line for line in program.mounts() if str(closed) in line]
    assert list((closed / "tmp").iterdir()) == []
