"""The arithmetic of the benchmarks, and that each of them explains itself."""

from __future__ import annotations

import importlib
import json
import math
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from pathlib import Path
from random import Random
from types import ModuleType

import pytest
from docs import result_pages

from mydyno.document.printers import escape
from mydyno.hosts.quiet import HostCpu
from mydyno.reports import write
from tests.support import ROOT, first_in_gate
from tests.support.fake_host import FakeHost
from tests.support.fake_study_folder import Shape, build

BENCH = ROOT / "bench"
NAMES = sorted(path.stem for path in BENCH.glob("*.py"))


@pytest.fixture
def pairs(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCH))
    return importlib.import_module("support.pairs")


def test_both_programs_run_in_the_order_abba(pairs: ModuleType) -> None:
    order: list[str] = []

    def run(name: str) -> Callable[[], str]:
        return lambda: order.append(name) or name  # type: ignore[func-returns-value]

    result = pairs.paired(4, run("a"), run("b"))
    assert "".join(order) == "abbaabba"
    assert result.runs == [("a", "b")] * 4


def test_the_interval_is_students_of_the_logarithms(pairs: ModuleType) -> None:
    ratio = pairs.Ratio.of([0.5, 1.0, 2.0])
    assert ratio.value == pytest.approx(1.0)
    # t(0.975, 2 degrees of freedom) = 4.3027; the standard deviation of the logarithms is ln 2.
    half_width = 4.3027 * math.log(2) / math.sqrt(3)
    assert math.log(ratio.high) == pytest.approx(half_width, rel=1e-4)
    assert math.log(ratio.low) == pytest.approx(-half_width, rel=1e-4)
    assert math.isnan(pairs.Ratio.of([0.7]).low)
    for nothing in ([], [1.0, 0.0], [1.0, math.inf]):
        with pytest.raises(Exception, match="measured nothing"):
            pairs.Ratio.of(nothing)


def test_more_false_claims_than_the_error_rate_allows_are_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCH))
    answers = importlib.import_module("answers")

    def found(wrong: int, studies: int = 40) -> list[object]:
        verdicts = ["higher"] * wrong + ["inconclusive"] * (studies - wrong)
        common = ("equal", "copy-1", "qps", 1.0, 1.0, 0.98, 1.02)
        return [
            answers.Contrast(common[0], f"study-{number}", 240.0, 0.0, *common[1:], verdict)
            for number, verdict in enumerate(verdicts)
        ]

    assert not answers.has_too_many_false([])
    assert not answers.has_too_many_false(found(1, studies=1)), "one of one: in 5 % of benchmarks"
    assert not answers.has_too_many_false(found(6)), "2 are expected, and 6 in 1.4 % of benchmarks"
    assert answers.has_too_many_false(found(7))
    right = answers.Contrast("planted", "study", 240.0, 0.0, "quota", "qps", 0.9, 0.91, 0.85, 0.97, "lower", 0.09)
    assert right.answers
    assert answers.half_widths([right]) == "6.8 % / 9.4 %"


def test_a_target_holds_or_is_missed_only_with_its_whole_interval(pairs: ModuleType) -> None:
    of = pairs.Ratio
    at_most, at_least = pairs.Target(1.1), pairs.Target(1.1, at_most=False)
    for low, high, expected, opposite in (
        (0.9, 1.0, "holds", "MISSED"),
        (1.0, 1.2, "undecided", "undecided"),
        (1.2, 1.3, "MISSED", "holds"),
    ):
        ratio = of((low + high) / 2, low, high, 5)
        assert (at_most.verdict(ratio), at_least.verdict(ratio)) == (expected, opposite)
    assert at_most.verdict(of(1.0, math.nan, math.nan, 1)) == "holds"


def test_no_target_is_judged_where_other_programs_took_the_cpus(pairs: ModuleType) -> None:
    """4 s of two CPUs: 3.6 s busy and 0.2 s of steal, of which the program used 1 s and the server 0.8 s."""
    programs = importlib.import_module("support.programs")
    command = importlib.import_module("support.command")
    host = HostCpu(user_s=0.0, system_s=0.0, irq_s=0.0, idle_s=0.0, iowait_s=0.0, steal_s=0.0, cpus=2)
    readings = iter([host, host, replace(host, user_s=2.0, system_s=1.6, idle_s=0.2, steal_s=0.2)] * 2)

    class Others(programs.OtherPrograms):  # type: ignore[name-defined,misc]
        served = iter([5.0, 5.8, 5.8, 5.8])

        def own_s(self) -> float:
            return next(self.served)

    others = Others(lambda: next(readings))
    others.begin()
    others.add(1.0)
    taken = others.take()
    assert taken == pytest.approx((3.6 - 1.0 - 0.8 + 0.2) / 4.0)
    assert others.take() == 0.0
    assert pairs.Target(1.1).verdict(replace(pairs.Ratio(0.5, 0.4, 0.6, 5), taken=taken)).startswith("not judged")
    next(readings)
    with pytest.raises(Exception, match=r"other programs take 95% of this host's CPUs, .* with --busy"):
        command.check_others(False, others, lambda _seconds: None)


def test_programs_run_where_they_are_placed(pairs: ModuleType) -> None:
    programs = importlib.import_module("support.programs")
    for name, of_server, entering in (
        ("free", [], []),
        ("apart", [0], ["taskset", "--cpu-list", "1"]),
        ("one", [0], ["taskset", "--cpu-list", "0"]),
    ):
        placement = programs.Placement()
        placement.choose(name, FakeHost(cpus={0, 1}))
        assert (placement.of_server, placement.entering) == (of_server, entering)
    with pytest.raises(Exception, match="--cpus apart needs two CPUs"):
        programs.Placement().choose("apart", FakeHost(cpus={0}))


def test_a_line_says_how_often_cpus_interrupted_each_other(pairs: ModuleType) -> None:
    load = pairs.Load(operations=1000.0, elapsed_s=1.0, cpu_s=0.1, rss_bytes=1.0, interrupts=380.0)
    found = pairs.Pairs([(load, replace(load, interrupts=300.0)), (load, replace(load, interrupts=280.0))])
    line = pairs.Line("a", "CPU", found.ratio("cpu_us"), None, [], found.mean_interrupts())
    assert line.text().endswith("[interrupts between CPUs: 0.38 an operation, theirs 0.29]")


def test_a_noisy_host_takes_its_share_in_episodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCH))
    noisy = importlib.import_module("support.noisy_host")
    for mean in (0.1, 0.3, 0.5, 0.8):
        episodes = list(islice(noisy.shares(mean, Random(1)), 4000))
        whole_s = sum(length_s for length_s, _ in episodes)
        assert whole_s / len(episodes) == pytest.approx(noisy.EPISODE_S, rel=0.05)
        assert sum(length_s * share for length_s, share in episodes) / whole_s == pytest.approx(mean, rel=0.05)
        assert 0.0 <= min(share for _, share in episodes) < max(share for _, share in episodes) <= noisy.MOST
    with pytest.raises(Exception, match="outside 0 to 0"), noisy.noisy_host(0.95, 1.0):
        pass
    with noisy.noisy_host(0.0, 1.0):
        pass
    try:
        with noisy.noisy_host(0.01, 60.0):
            pass
    except noisy.BenchError as error:
        assert "needs root" in str(error)
    else:
        with pytest.raises(noisy.BenchError, match="quieter"):
            noisy._check_running([subprocess.Popen(["false"])])


def test_a_page_of_results_has_the_report_and_not_the_hosts_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.syspath_prepend(str(BENCH))
    results, studies = importlib.import_module("results"), importlib.import_module("support.studies")
    folder = build(tmp_path / "allocators-1", Shape(arms=("glibc", "jemalloc"), connections=(16, 64)))
    study = studies.Study(folder.path, json.loads(str(write(folder, "json"))), 0.0, 0.0)
    page, found = results.page_of("allocators", study, "16 cores of an EPYC, 64 GB")
    assert found.host == "16 cores of an EPYC, 64 GB, Linux 6.1.0"
    assert re.search(r"^QPS, jemalloc, oltp_read_only at (16|64) connections: \+.*%\), higher$", found.effect)
    headings = re.findall(r"^#+ .*", page, re.MULTILINE)
    assert headings[0] == f"# {study.summary['question']}"
    assert all(heading.startswith("## ") for heading in headings[1:])
    sentences = study.summary["answer"][:2]
    assert found.answer == " ".join(sentences)
    assert all(f"**{escape(sentence)}**" in page for sentence in sentences)
    assert f"Host {found.host} (16 CPUs, 64.0 GiB); " in page
    assert "[allocators](../reference/experiments.md#allocators)" in page
    assert "bench-1" not in page
    with pytest.raises(Exception, match=r"its report names this host: .*64 GB of bench-1"):
        results.page_of("allocators", study, "64 GB of bench-1")


def test_what_was_not_measured_has_the_reason_of_mydyno(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCH))
    results = importlib.import_module("results")
    output = "huge-pages: checking the host\nmydyno: error: this host has no huge pages\n  hint: reserve some\n"
    error = results.BenchError(f"the study in /x ended with exit code 3:\n{output}")
    assert results.reason(error) == "this host has no huge pages"
    assert results.reason(results.BenchError("its report names this host: vm")) == "its report names this host: vm"
    page = result_pages.index({
        "huge-pages": result_pages.Result(not_measured=results.reason(error)),
        "gtid": result_pages.Result(answer="GTIDs cost 2 %.", effect="TPS: | 2 %", date="2026-11-30", host="a host"),
    })  # fmt: skip
    assert "\nMeasured on a host: 1 of " in page
    assert "| [gtid](gtid.md) | What do GTIDs, on by default" in page
    assert r"| GTIDs cost 2 %. | TPS: \| 2 % | 2026-11-30 |" in page
    _, _, missing = page.partition("\n## Not measured yet\n")
    assert "- [huge-pages](../reference/experiments.md#huge-pages): this host has no huge pages\n" in missing
    assert "- [defaults-8.4](../reference/experiments.md#defaults-84)\n" in missing
    assert "gtid" not in missing


@pytest.mark.slow
@pytest.mark.parametrize("name", first_in_gate(NAMES, 3))
def test_each_benchmark_explains_itself_without_a_server(name: str) -> None:
    environment = {**os.environ, "PYTHONPATH": f"{BENCH}:{ROOT / 'src'}"}
    done = subprocess.run(
        [sys.executable, str(BENCH / f"{name}.py"), "--help"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("usage: ")


@pytest.mark.parametrize("name", NAMES)
def test_a_benchmark_that_uses_the_tests_has_their_packages(name: str) -> None:
    """By its first lines, which bench/run reads."""
    waiting, texts = [BENCH / f"{name}.py"], dict[Path, str]()
    while waiting:
        path = waiting.pop()
        texts[path] = path.read_text(encoding="utf-8")
        used = re.findall(r"^from support\.(\w+) import", texts[path], re.MULTILINE)
        waiting += [found for one in used if (found := BENCH / "support" / f"{one}.py") not in texts]
    if any(re.search(r"^\s*from tests\b", text, re.MULTILINE) for text in texts.values()):
        assert "\n# Needs requirements-dev.lock.\n" in texts[BENCH / f"{name}.py"]


@pytest.mark.parametrize(
    ("states", "name", "code"),
    [
        ({"found": 10}, "exit_code", 0),
        ({"found": 9, "range": 1}, "exit_code", 1),
        ({"range": 10}, "exit_code", 1),
        ({"undecided": 10}, "exit_code", 1),
        ({"found": 9, "wrong": 1}, "exit_code", 1),
        ({}, "exit_code", 1),
        ({"equivalent": 12, "inconclusive": 7, "differs": 1}, "alike_exit_code", 0),
        ({"equivalent": 18, "differs": 2}, "alike_exit_code", 1),
        ({"inconclusive": 9, "differs": 1}, "alike_exit_code", 1),
    ],
)
def test_rounds_pass_only_if_every_commit_was_found_and_builds_of_one_are_told_alike(
    monkeypatch: pytest.MonkeyPatch, states: dict[str, int], name: str, code: int
) -> None:
    monkeypatch.syspath_prepend(str(BENCH))
    culprit = importlib.import_module("culprit")
    assert getattr(culprit, name)(Counter(states)) == code
