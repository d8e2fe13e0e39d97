"""CPU profiles of made-up studies: a planted function leads, and without one no function is named."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from mydyno.analysis.base import Examined
from mydyno.analysis.profiles.contrasts import analyse
from mydyno.model.definition.experiment import ArmSpec, DesignSpec, Experiment, ServerSpec, StepSpec
from mydyno.model.stored.counted import ProfilesRecord
from mydyno.model.stored.records import CpuProfile, RunRecord, SliceRecord
from mydyno.model.stored.summary import RunSummary
from mydyno.store.samples import PROFILED_FILE, Stack, stacks_file, write_stacks
from tests.support.fake_stacks import ROOT, SPIN, cpu_us, sampled

STEP = "oltp_read_only-4"
ALPHA = 0.03125
TRANSACTIONS = 500
PLANTED: Mapping[Stack, float] = {SPIN: 150.0}


def study(
    folder: Path, seed: int, more: Mapping[Stack, float] | None = None, copy: Mapping[Stack, float] | None = None,
    blocks: int = 6, alpha: float | None = ALPHA, slowdown: float = 0.95, without_perf: int = 0,
) -> ProfilesRecord:  # fmt: skip
    """The profiles of a study of `changed` against `base`. `more`: what the arm adds; `copy`: what A′ does."""
    random = np.random.default_rng(seed)
    experiment = Experiment(
        name="profiles",
        question="Which function is it?",
        server=ServerSpec(name="mariadb-10.11"),
        control="base",
        arms=(ArmSpec(name="base"), ArmSpec(name="changed", treatments={"variables": {"innodb_io_capacity": 1}})),
        steps=(StepSpec(workload="oltp_read_only", connections=(4,)),),
        design=DesignSpec(kind="interleaved", blocks=blocks),
    )
    runs, summaries, slices, profiled = [], [], [], []
    for block in range(1, blocks + 1):
        for arm, number, own in (("base", 1, None), ("base", 2, copy), ("changed", 1, more)):
            of = f"blocks/{block:02d}/{arm}.{number}"
            stacks = sampled(random, 350, own)
            write_stacks(folder / of / stacks_file(STEP), stacks)
            speed = np.exp(random.normal(0, 0.03))
            facts = CpuProfile(
                step=STEP, file=stacks_file(STEP), slices=1, transactions=TRANSACTIONS, samples=sum(stacks.values()),
                server_cpu_s=TRANSACTIONS * cpu_us(own) * 1e-6 / speed, frames=2000, unknown_frames=100,
                cut_off_samples=3, event="cpu-clock", frequency_hz=499, profiler="perf 6.1",
                method="proc" if block <= without_perf else "perf",
            )  # fmt: skip
            place = {"block": block, "position": number, "arm": arm, "copy": number, "folder": of}
            runs.append(RunRecord(**place, started_unix_ns=1, ended_unix_ns=2, valid=True, cpu_profiles=(facts,)))
            summaries.append(RunSummary(**place, valid=True))
            for cycle, share in ((1, 1.0), (1, slowdown), (2, 1.0)):
                one = SliceRecord(
                    block=block, step=STEP, cycle=cycle, position=1, arm=arm, copy=number, started_unix_ns=1,
                    length_s=1.0, transactions=round(1000 * share * speed), profiled=share < 1.0,
                )  # fmt: skip
                (profiled if one.profiled else slices).append(one)
    found = analyse(
        Examined(
            experiment=experiment, runs=summaries, alpha=0.05, slices=slices, path=folder, records=runs,
            apart={PROFILED_FILE: profiled}, alpha_of_causes=alpha,
        )
    )  # fmt: skip
    assert found is not None
    return found


def named(record: ProfilesRecord) -> list[str]:
    (contrast,) = record.contrasts
    return [one.function for one in contrast.frames if one.beyond_noise and not one.explained]


def test_a_planted_function_leads_and_its_callers_are_not_named(tmp_path: Path) -> None:
    for seed in range(8):
        record = study(tmp_path / str(seed), seed, PLANTED)
        assert named(record)[0] == "plant_spin", seed
        (contrast,) = record.contrasts
        first = contrast.frames[0]
        assert (first.module, first.control_us) == ("libspin.so", 0.0)
        assert first.arm_us - first.control_us == pytest.approx(150.0, rel=0.15)
        assert first.low_us is not None
        assert first.low_us < 150.0 < (first.high_us or 0.0)
        callers = {one.function: one for one in contrast.frames if one.explained}
        assert "send" in callers


@pytest.mark.slow
def test_without_a_difference_no_function_is_named(tmp_path: Path) -> None:
    assert sum(bool(named(study(tmp_path / str(seed), seed))) for seed in range(12)) <= 1


def test_a_function_that_does_less_is_named_too(tmp_path: Path) -> None:
    malloc = (*ROOT, "mysqld`dispatch_command", "mysqld`row_search_mvcc", "mysqld`btr_cur_search")
    record = study(tmp_path, 1, {malloc: 0.001})
    assert named(record) == ["btr_cur_search"]
    assert record.contrasts[0].frames[0].high_us is not None
    assert record.contrasts[0].frames[0].high_us < 0.0


def test_copies_of_the_control_that_differ_are_an_alarm(tmp_path: Path) -> None:
    record = study(tmp_path, 1, PLANTED, copy={SPIN: 120.0})
    assert record.alarm is not None and (record.alarm.control, record.alarm.kind) == ("base", "event")
    assert named(record) == []


def test_before_a_look_and_with_one_block_nothing_is_claimed(tmp_path: Path) -> None:
    assert named(study(tmp_path / "a", 1, PLANTED, alpha=None)) == []
    lone = study(tmp_path / "b", 1, PLANTED, blocks=1)
    assert named(lone) == []
    assert lone.contrasts[0].blocks == 1
    assert lone.contrasts[0].frames[0].low_us is None


def test_the_cost_of_the_profile_is_that_of_profiled_slices_against_those_around_them(tmp_path: Path) -> None:
    record = study(tmp_path, 1, slowdown=0.9)
    assert record.throughput_ratio == pytest.approx(0.9, rel=0.01)
    assert record.throughput_low is not None
    assert record.throughput_low <= record.throughput_ratio <= (record.throughput_high or 0.0)
    assert record.unknown == pytest.approx(0.05)
    assert record.unknown_modules.keys() == {"mysqld"}


def test_profiles_by_perf_and_from_proc_are_not_compared(tmp_path: Path) -> None:
    record = study(tmp_path / "both", 1, PLANTED, blocks=8, without_perf=2)
    assert (record.method, record.contrasts[0].blocks) == ("perf", 6)
    assert record.missing == (
        "perf was missing, and profiles sampled from /proc cannot be compared with those by perf",
    )
    record = study(tmp_path / "proc", 1, PLANTED, without_perf=6)
    assert (record.method, record.contrasts[0].blocks, record.missing) == ("proc", 6, ())
