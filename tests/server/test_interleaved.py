"""Interleaved studies on real servers: whole, recomputed by hand, with planted effects, and with arms that fail."""

from __future__ import annotations

import itertools
import json
import os
import re
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mydyno.hosts.paths import HostPaths
from mydyno.hosts.quiet import process_cpu_s
from mydyno.hosts.tracing.perf import perf_obstacle
from mydyno.model.definition.experiment import ServerSpec
from mydyno.model.metrics import GROWTH
from mydyno.store.study_folder import StudyFolder
from mydyno.treatments.cgroup import CgroupTreatment
from tests.support.interleaved import BURN_US, effect_of, interleaved_text, planted, preloading, slices_of, summary_of
from tests.support.not_run import note_not_run
from tests.support.patience import ended
from tests.support.real import TWO_ARMS, Program, study_processes, wait_for

CONNECTIONS = 8
CYCLES = 7
"""Fewest cycles of two blocks of three lanes from which coefficients of two covariates are estimated."""
LANES = {("glibc", 1), ("glibc", 2), ("jemalloc", 1)}


@pytest.fixture(scope="module")
def studied(
    tmp_path_factory: pytest.TempPathFactory, real_paths: HostPaths, apart: list[str]
) -> tuple[Program, Path, str]:
    """An interleaved study of two arms in two blocks: (program, its folder, what it printed)."""
    program = Program(tmp_path_factory.mktemp("interleaved"), real_paths, apart)
    before = program.leftovers()
    steps = [("oltp_read_write", CONNECTIONS)]
    text = interleaved_text("interleaved", TWO_ARMS, steps, cycles=CYCLES, slice_s=0.2)
    done = program.run("run", program.write(text))
    assert done.returncode == 0, done.stderr
    assert program.leftovers() == before
    return program, program.study(), done.stdout


def test_a_study_has_every_slice_of_every_arm_and_an_answer(studied: tuple[Program, Path, str]) -> None:
    _, study, printed = studied
    summary = summary_of(study)
    assert (summary["design"], summary["state"]) == ("interleaved", "complete")
    assert [run["valid"] for run in summary["runs"]] == [True] * 6, [run["reasons"] for run in summary["runs"]]
    assert all(" ".join(sentence.split()) in " ".join(printed.split()) for sentence in summary["answer"])
    assert "jemalloc" in (study / "report.html").read_text()
    slices = slices_of(study)
    lanes = {(block, cycle): set() for block in (1, 2) for cycle in range(1, CYCLES + 1)}
    for one in slices:
        lanes[one.block, one.cycle].add((one.arm, one.copy_number))
        assert one.errors == 0
        assert one.server_cpu_s is not None
        assert one.server_cpu_s > 0
        assert 0 < one.length_s < 5
        assert len(one.histograms) == 1
    assert np.median([one.length_s for one in slices]) > 0.19, "a stall of the host may shorten a few"
    assert sum(one.queries == 0 for one in slices) <= 2, "and leave one or two without a query"
    assert all(found == LANES for found in lanes.values())
    assert len(slices) == 2 * CYCLES * len(LANES)
    positions = Counter((one.block, one.cycle, one.position) for one in slices)
    assert set(positions) == {(b, c, p) for b, c in lanes for p in (1, 2, 3)}
    orders = {tuple(one.arm for one in slices if (one.block, one.cycle) == cycle) for cycle in lanes}
    assert len(orders) > 1, "the order of arms is random"
    starts = [one.started_unix_ns for one in slices]
    assert starts == sorted(starts)
    assert all(
        later.started_unix_ns >= one.started_unix_ns + one.length_s * 1e9 for one, later in itertools.pairwise(slices)
    ), "one server is loaded at a time"


def test_the_servers_counters_agree_with_the_load_in_every_slice(studied: tuple[Program, Path, str]) -> None:
    _, study, _ = studied
    for one in slices_of(study):
        assert one.disagreements == ()
        written = sum(one.server_counters[name] for name in ("Com_insert", "Com_update", "Com_delete"))
        # The server alone counts the statements of transactions that ended with a deadlock: up to 14 reads, 4 writes.
        for counted, loaded, most in (
            (one.server_counters["Com_select"], one.whole["read"], 14),
            (written, one.whole["write"] + one.whole["unchanged"], 4),
        ):
            slack = 0.005 * loaded
            assert loaded - slack <= counted <= loaded + slack + most * one.whole["ignored"]


def test_connections_are_made_once_for_a_step_and_not_for_a_slice(studied: tuple[Program, Path, str]) -> None:
    _, study, _ = studied
    for path in study.glob("blocks/*/*/run.json"):
        (step,) = json.loads(path.read_text())["steps"]
        own = 6  # mydyno's own: counters around the step, the load program's first look at the tables
        assert CONNECTIONS <= step["server_counters"]["Connections"] <= CONNECTIONS + own
        assert step["server_counters"]["Aborted_connects"] == 0
    assert all(one.reconnects == 0 for one in slices_of(study))


def around(lines: list[dict[str, Any]], read: Callable[[dict[str, Any]], float]) -> NDArray[np.float64]:
    """The log of a covariate in the slices of other arms before and after each, less what a slice's arm and the one
    before it add.
    """
    logs = np.log([read(line) for line in lines])
    arms, cycles = (
        [str(key(line)) for line in lines] for key in (lambda o: o["arm"], lambda o: (o["block"], o["cycle"]))
    )
    middle_s = [(line["started_unix_ns"] - lines[0]["started_unix_ns"]) / 1e9 + line["length_s"] / 2 for line in lines]
    order = sorted(range(len(lines)), key=lambda n: (lines[n]["block"], middle_s[n]))
    before = {n: arms[p] for p, n in itertools.pairwise(order) if lines[p]["block"] == lines[n]["block"]}

    def within(values: NDArray[np.float64]) -> NDArray[np.float64]:
        return values - np.array([np.mean(values[[other == one for other in cycles]]) for one in cycles])

    names = sorted({*arms})
    added = np.array([
        *([float(arm == name) for arm in arms] for name in names),
        *([float(before.get(n) == name) for n in range(len(lines))] for name in names),
    ])  # fmt: skip
    sizes = np.linalg.pinv(np.array([within(column) for column in added]).T) @ within(logs)
    host = logs - sizes @ added
    found = []
    for line, at_s in zip(lines, middle_s, strict=True):
        of = [n for n, other in enumerate(lines) if other["block"] == line["block"] and other["arm"] != line["arm"]]
        of.sort(key=lambda n: middle_s[n])
        found.append(float(np.interp(at_s, [middle_s[n] for n in of], host[of])))
    return np.array(found)


def test_the_values_of_a_block_are_what_its_slices_say(studied: tuple[Program, Path, str]) -> None:
    """Recomputed from slices.jsonl alone: totals over the cycles, adjusted by the saved coefficients."""
    _, study, _ = studied
    summary = summary_of(study)
    files = sorted(study.glob("blocks/*/slices.jsonl"))
    lines = [json.loads(line) for path in files for line in path.read_text().splitlines()]
    for line in lines:
        for name, share in line["cut"].items():
            line[name] = line.get(name, 0) + share
    told = summary["interleaving"]
    assert told["dropped_cycles"] == 0
    (coefficients,) = told["coefficients"].values()
    read: dict[str, Callable[[dict[str, Any]], float]] = {
        "driver_cpu_around": lambda line: line["driver_cpu_s"] / line["queries"],
        "available_cpu_around": lambda line: max(1 - line["steal"] - line["strangers"], 0.02),
        "speed_around": lambda line: line["speed"],
    }
    covariates = {name: around(lines, read[name]) for name in told["covariates"]}
    metrics = {
        "qps": ("queries", "length_s", 1.0),
        "tps": ("transactions", "length_s", 1.0),
        "server_cpu_us_per_query": ("server_cpu_s", "queries", 1e6),
    }
    for metric, (over, under, factor) in metrics.items():
        exponent = np.zeros(len(lines))
        for name, slope in coefficients.get(metric, {}).items():
            exponent += slope * (covariates[name] - np.median(covariates[name]))
        work = np.array([line[over] for line in lines])
        per = np.array([line[under] for line in lines])
        work = np.where(per > 0, work, 0)
        for run in summary["runs"]:
            own = np.array(
                [(line["block"], line["arm"], line.get("copy", 1)) == (run["block"], run["arm"], run["copy"])
                 for line in lines]
            )  # fmt: skip
            assert own.sum() == CYCLES
            (adjusted,), (plain,) = run["values"].values(), run["unadjusted"].values()
            assert plain[metric] == pytest.approx(factor * work[own].sum() / per[own].sum(), rel=1e-6)
            better = (work * np.exp(-exponent))[own].sum()
            assert adjusted[metric] == pytest.approx(factor * better / per[own].sum(), rel=2e-6)
    for run in summary["runs"]:
        (values,) = run["values"].values()
        assert 20e6 < values["server_rss_after_bytes"] < 2 * values["server_rss_bytes"]
    for metric in ("qps", "server_cpu_us_per_query"):
        effect = effect_of(summary, "jemalloc", metric)
        value = {(run["arm"], run["copy"], run["block"]): next(iter(run["values"].values()))[metric]
                 for run in summary["runs"]}  # fmt: skip
        d = [
            float(np.log(value["jemalloc", 1, b]) - np.log([value["glibc", copy, b] for copy in (1, 2)]).mean())
            for b in (1, 2)
        ]
        assert effect["details"]["log_ratios"] == {"1": pytest.approx(d[0]), "2": pytest.approx(d[1])}
        assert effect["ratio"] == pytest.approx(float(np.exp(np.mean(d))), rel=1e-6)


def test_the_report_is_made_again_from_the_slices(studied: tuple[Program, Path, str]) -> None:
    program, study, _ = studied
    before = summary_of(study)
    (study / "summary.json").unlink()
    (study / "report.html").unlink()
    done = program.run("report", str(study))
    assert (done.returncode, done.stderr) == (0, ""), "a program that ends says nothing more"
    assert summary_of(study) == before
    assert (study / "report.html").exists()


@pytest.mark.exhaustive
@pytest.mark.alone  # profiles beside other tests have hardly any stacks of the planted library
def test_planted_effects_are_found_with_their_size(program: Program) -> None:
    """CPU time burnt in every answer, and a CPU quota; interleaved with a control that has the same library."""
    library = planted(program.folder)
    arms = f'control = "plain"\nplain = {{ {preloading(library, burn_ns=0)} }}\n'
    arms += f"burning = {{ {preloading(library, burn_ns=BURN_US * 1000)} }}\n"
    quota = quota_obstacle() is None
    if quota:
        arms += f"quota = {{ cgroup = {{ cpu_quota = 0.2 }}, {preloading(library, burn_ns=0)} }}\n"
    before = program.leftovers()
    text = interleaved_text("plant", arms, [("oltp_point_select", 4)], cycles=4)
    profile = perf_obstacle()
    done = program.run("run", program.write(text), *(["--profile"] if profile is None else []))
    assert done.returncode == 0, done.stderr
    assert program.leftovers() == before
    summary = summary_of(program.study())
    assert all(run["valid"] for run in summary["runs"]), [run["reasons"] for run in summary["runs"]]
    for kind, tolerance in (("unadjusted", 0.3), ("values", 0.5)):
        cost = {arm: mean_of(summary, kind, arm, "server_cpu_us_per_query") for arm in ("plain", "burning")}
        assert cost["burning"] - cost["plain"] == pytest.approx(BURN_US, rel=tolerance), (kind, cost)
    assert effect_of(summary, "burning", "server_cpu_us_per_query")["ratio"] > 2
    assert effect_of(summary, "burning", "qps")["ratio"] < 0.7
    if quota:
        assert effect_of(summary, "quota", "qps")["ratio"] < 0.6
    if profile is None:
        assert_burnt_in(summary, "send")
    else:
        note_not_run(f"the profile of a planted function: {profile}")


@pytest.mark.exhaustive
def test_planted_memory_is_found_with_its_size(program: Program) -> None:
    """20 MB that a server takes at its start and keeps, and 2 kB with every answer that it never gives back.

    Servers and load have CPUs of their own, before and after the load.
    """
    library, kept, leaked = planted(program.folder), 20_000_000, 2_000
    arms = f'control = "plain"\nplain = {{ {preloading(library, burn_ns=0)} }}\n'
    arms += f"keeping = {{ {preloading(library, keep_bytes=kept)} }}\n"
    arms += f"leaking = {{ {preloading(library, leak_bytes=leaked)} }}\n[treatments]\naffinity = 'apart'\n"
    done = program.run("run", program.write(interleaved_text("memory", arms, [("oltp_point_select", 4)], cycles=6)))
    assert done.returncode == 0, done.stderr
    for run in StudyFolder(program.study()).runs():
        found = [one for one in run.evidence if one.treatment == "affinity"]
        assert [one.holds for one in found] == [True, True], found
    summary, slices = summary_of(program.study()), slices_of(program.study())
    served = min(
        sum(one.queries for one in slices if (one.block, one.arm, one.copy_number) == lane)
        for lane in {(one.block, one.arm, one.copy_number) for one in slices}
    )
    for metric in ("server_rss_bytes", "server_rss_peak_bytes", "server_rss_after_bytes"):
        plain, keeping, leaking = (mean_of(summary, "values", arm, metric) for arm in ("plain", "keeping", "leaking"))
        assert keeping - plain == pytest.approx(kept, rel=0.3), metric
        assert leaking - plain > 0.7 * leaked * served, metric
    assert effect_of(summary, "keeping", "server_vsize_bytes")["ratio"] > 1.0


@pytest.mark.exhaustive
def test_a_leak_is_found_with_its_size_in_ten_minutes(program: Program) -> None:
    """50 kB/s, 2 to 3 % of its resident memory a minute, whatever it serves; 20 MB that are kept do not grow."""
    library, rate = planted(program.folder), 50_000
    arms = f'control = "plain"\nplain = {{ {preloading(library, leak_bytes_per_s=0)} }}\n'
    arms += f"leaking = {{ {preloading(library, leak_bytes_per_s=rate)} }}\n"
    arms += f"keeping = {{ {preloading(library, keep_bytes=20_000_000)} }}\n"
    text = interleaved_text("leak", arms, [("oltp_read_write", 16)], slice_s=1.0)
    settings = ["--set", 'verdict.primary=["qps", "rss", "leak"]', "--set", "verdict.margin=1%"]
    done = program.run("run", program.write(text), *settings, "--time", "10m")
    assert done.returncode == 0, done.stderr
    summary = summary_of(program.study())
    planted_growth = 60 * rate / mean_of(summary, "values", "plain", "server_rss_bytes")
    leaking, keeping = (effect_of(summary, arm, GROWTH) for arm in ("leaking", "keeping"))
    assert leaking["verdict"] == "higher"
    assert leaking["ci_low"] <= 1 + planted_growth <= leaking["ci_high"]
    assert keeping["verdict"] in ("equivalent", "inconclusive")


def assert_burnt_in(summary: dict[str, Any], function: str) -> None:
    """The function of the planted library has the CPU time that it burns, in the arm that burns it alone."""
    profiles = summary["profiles"]
    assert profiles["missing"] == []
    (contrast,) = [one for one in profiles["contrasts"] if one["arm"] == "burning"]
    frames = {(one["module"], one["function"]): one["arm_us"] - one["control_us"] for one in contrast["frames"]}
    seen = {name: value for name, value in profiles.items() if name != "contrasts"}, frames
    assert frames["libplant.so", function] == pytest.approx(BURN_US, rel=0.5), seen
    assert frames["libplant.so", function] > 0.5 * (contrast["arm_us"] - contrast["control_us"]), seen


def quota_obstacle() -> str | None:
    """Why this host can give no CPU quota; listed at the end."""
    words = CgroupTreatment({"cpu_quota": 0.1}).obstacle(ServerSpec(name="mariadb-10.11"))
    if words is not None:
        note_not_run(f"a planted CPU quota: {words}")
    return words


def mean_of(summary: dict[str, Any], kind: str, arm: str, metric: str) -> float:
    """Mean over blocks of the first copy's value."""
    found = [next(iter(run[kind].values()))[metric] for run in summary["runs"] if (run["arm"], run["copy"]) == (arm, 1)]
    return float(np.mean(found))


FAILING = {
    "no-start": (r"ended with exit code 1\b.*Error while setting value 'nonsense' to 'innodb-flush-method'", 2),
    "aborts": (r"the server ended with exit code -6 during oltp_point_select-4", 2),
    "out-of-memory": (r"the server ended with exit code 137 during oltp_point_select-4", 2),
    "killed": (r"the server ended with exit code -9 during oltp_point_select-4", 1),
}
"""Arm → what is said of it, and in how many of the two blocks it fails."""


def marked_server(mark: str) -> int | None:
    """The server whose environment has the mark."""
    for pid, command in study_processes().items():
        if "mariadbd" in command.split(" ")[0] and "--defaults-file" in command:
            try:
                environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            except OSError:
                continue
            if f"MARK={mark}".encode() in environment:
                return pid
    return None


@pytest.mark.exhaustive  # tests/unit/execution/interleaved/test_study.py has it on the fake host
def test_arms_that_fail_are_results_and_the_others_go_on(program: Program) -> None:
    library = planted(program.folder)
    arms = f"""\
control = "plain"
plain = {{ environment = {{ MARK = "plain" }} }}
good = {{ environment = {{ MARK = "good" }} }}
no-start = {{ variables = {{ innodb_flush_method = "nonsense" }} }}
aborts = {{ {preloading(library, end_after=1500)} }}
out-of-memory = {{ {preloading(library, end_after=1500, exit_code=137)} }}
killed = {{ environment = {{ MARK = "killed" }} }}
"""
    before = program.leftovers()
    path = program.write(interleaved_text("fails", arms, [("oltp_point_select", 4)], cycles=4))
    with program.started("run", path) as process:
        wait_for(program.in_slices, process)
        pid = marked_server("killed")
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        assert ended(process, "the study") == 0
    assert program.leftovers() == before
    summary = summary_of(program.study())
    for arm, (words, blocks) in FAILING.items():
        runs = [run for run in summary["runs"] if run["arm"] == arm]
        failed = [run for run in runs if run["failures"]]
        assert len(failed) == blocks, (arm, [run["failures"] for run in runs])
        for run in failed:
            assert set(run["failures"]) == {"oltp_point_select-4"}
            assert re.search(words, run["failures"]["oltp_point_select-4"], re.DOTALL), run["failures"]
            assert run["values"].get("oltp_point_select-4", {}) == {}, "no numbers of what a failed arm served"
        for metric in ("qps", "server_cpu_us_per_query"):
            effect = effect_of(summary, arm, metric)
            assert (effect["ratio"], effect["ci_low"], effect["ci_high"]) == (None, None, None)
            assert effect["verdict"] == "not_measurable"
        assert f"{arm} failed in {blocks} of 2 blocks" in " ".join(summary["answer"]), summary["answer"]
    assert "ended with exit code 1: Error while setting" in " ".join(summary["answer"])
    for arm in ("plain", "good"):
        runs = [run for run in summary["runs"] if run["arm"] == arm]
        assert all(run["valid"] and not run["failures"] for run in runs)
    assert effect_of(summary, "good", "qps")["n"] == 2
    assert effect_of(summary, "good", "qps")["ratio"] is not None
    whole = Counter((one.block, one.arm, one.copy_number) for one in slices_of(program.study()) if not one.failed)
    assert [whole[block, arm, copy] for block in (1, 2) for arm, copy in (("plain", 1), ("plain", 2), ("good", 1))] == [
        4
    ] * 6
    assert "Traceback" not in program.output()


@pytest.mark.exhaustive
@pytest.mark.alone  # every run of the host would see the kernel kill a process
def test_an_arm_that_runs_out_of_memory_is_a_result_in_clear_words(program: Program) -> None:
    """A real kill by the kernel: a server that leaks, in a control group of version 1 with a hard limit."""
    if os.geteuid() != 0 or not Path("/sys/fs/cgroup/memory/memory.limit_in_bytes").exists():
        note_not_run("a kill for lack of memory needs root and a memory controller of control groups version 1")
        return
    library = planted(program.folder)
    arms = f"""\
control = "plain"
plain = {{ environment = {{ MARK = "plain" }} }}
leaks = {{ cgroup = {{ memory_high = "400M" }}, {preloading(library, leak_bytes=1 << 20)} }}
"""
    before = program.leftovers()
    text = interleaved_text("leaks", arms, [("oltp_point_select", 4)], blocks=1)
    done = program.run("run", program.write(text))
    assert done.returncode == 0, done.stderr
    assert program.leftovers() == before
    summary = summary_of(program.study())
    for run in summary["runs"]:
        if run["arm"] == "plain":
            assert run["valid"] and not run["failures"], "the kill of one arm is no loss for the others"
            continue
        (words,) = run["failures"].values()
        assert "the kernel killed the server for lack of memory" in words
        assert run["values"] == {} or not any(run["values"].values())
    assert effect_of(summary, "leaks", "qps")["ratio"] is None
    assert "leaks failed in 1 of 1 block" in " ".join(summary["answer"]), summary["answer"]


@pytest.mark.exhaustive
def test_a_server_that_dies_between_two_slices_is_that_arms_failure(program: Program) -> None:
    """Killed while another arm is loaded: the end is noticed at its next slice, and the others lose nothing."""
    arms = (
        'control = "plain"\nplain = { environment = { MARK = "plain" } }\ndies = { environment = { MARK = "dies" } }\n'
    )
    before = program.leftovers()
    text = interleaved_text("between", arms, [("oltp_point_select", 4)], blocks=1, cycles=6, slice_s=1.0)
    with program.started("run", program.write(text)) as process:
        wait_for(program.in_slices, process)
        pid = marked_server("dies")
        assert pid is not None
        wait_for(lambda: is_idle(pid), process)
        os.kill(pid, signal.SIGKILL)
        assert ended(process, "the study") == 0
    assert program.leftovers() == before
    summary = summary_of(program.study())
    (dead,) = [run for run in summary["runs"] if run["arm"] == "dies"]
    assert "the server ended with exit code -9 during oltp_point_select-4" in dead["failures"]["oltp_point_select-4"]
    assert effect_of(summary, "dies", "qps")["ratio"] is None
    served = Counter((one.arm, one.copy_number) for one in slices_of(program.study()) if not one.failed)
    assert (served["plain", 1], served["plain", 2]) == (6, 6)
    assert all(one.failed for one in slices_of(program.study()) if one.arm == "dies" and not one.queries)


def is_idle(pid: int) -> bool:
    """Whether a server used less than 5 % of a CPU for a tenth of a second: it is not the one that is loaded."""
    before_s = process_cpu_s(pid) or 0.0
    time.sleep(0.1)
    return (process_cpu_s(pid) or 0.0) - before_s < 0.005


def by_lane(values: dict[tuple[int, str, int], dict[str, dict[str, float]]]) -> dict[tuple[str, int], float]:
    """Transactions per second by (arm, copy), of one block and one step."""
    return {(arm, copy): next(iter(steps.values()))["tps"] for (_, arm, copy), steps in values.items()}
