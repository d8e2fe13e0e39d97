# mypy: disable-error-code="arg-type"
"""The CPU profile in the HTML report: what is named, in which words, and the data of the flame graph."""

from __future__ import annotations

import json
import re
from pathlib import Path

from mydyno.analysis.candidates import candidates_of
from mydyno.analysis.profiles import quality
from mydyno.files.atomic import write_text
from mydyno.model.stored.counted import FrameRecord, ProfileContrast, ProfilesRecord
from mydyno.model.stored.records import CpuProfile
from mydyno.model.stored.summary import CostRecord, CostsRecord, OperationTime
from mydyno.reports.page import render_page
from mydyno.store.samples import stacks_file, write_stacks
from mydyno.store.study_folder import StudyFolder
from tests.support.fake_interleaved_folder import build

STEP = "oltp_read_only-64"
ROOT = ("libc.so.6`clone3", "mysqld`do_command")
SPIN = FrameRecord(
    module="libspin.so", function="plant_spin", control_us=0.0, arm_us=160.0, control_self_us=0.0, arm_self_us=160.0,
    low_us=120.0, high_us=205.0, beyond_noise=True,
)  # fmt: skip
CALLER = SPIN.model_copy(update={"module": "libspin.so", "function": "send", "explained": True})
SAME = FrameRecord(
    module="mysqld", function="row_<search>", control_us=90.0, arm_us=92.0, control_self_us=50.0, arm_self_us=51.0,
    low_us=-20.0, high_us=24.0,
)  # fmt: skip

COSTS = CostsRecord(
    costs=(CostRecord(cost="fsyncs", step=STEP, arm="jemalloc", control="glibc", control_value=0.1, arm_value=0.1),),
    times=tuple(
        OperationTime(step=STEP, arm=arm, connection_us=us, crowding=4.0)
        for arm, us in (("glibc", 4000.0), ("jemalloc", 5000.0))
    ),
)


def record(*frames: FrameRecord, **more: object) -> ProfilesRecord:
    contrast = ProfileContrast(
        step=STEP, arm="jemalloc", control="glibc", blocks=6, control_us=800.0, arm_us=962.0, frames=frames
    )
    plain = {
        "contrasts": (contrast,), "profiler": "perf 6.1", "event": "cpu-clock", "frequency_hz": 499, "slices": 18,
        "samples": 9000, "unknown": 0.16, "unknown_modules": {"mysqld": 0.22}, "throughput_ratio": 0.93,
        "throughput_low": 0.91, "throughput_high": 0.95,
    }  # fmt: skip
    return ProfilesRecord.model_validate({**plain, **more})


def profiled(folder: Path, profiles: ProfilesRecord, verdict: str = "lower") -> StudyFolder:
    """A study with these profiles."""
    made = build(folder)
    summary = made.summary()
    assert summary is not None
    changed = {"verdict": verdict, "ratio": 0.8}
    effects = tuple(
        one.model_copy(update=changed) if (one.metric, one.arm) == ("qps", "jemalloc") else one
        for one in summary.effects
    )
    changes = {"profiles": profiles, "effects": effects, "costs": COSTS}
    candidates = candidates_of(effects, COSTS, profiles, None, None)
    made.write_summary(summary.model_copy(update={**changes, "candidates": candidates}))
    _profile(made)
    return made


def page(folder: Path, profiles: ProfilesRecord, verdict: str = "lower") -> str:
    return " ".join(re.sub(r"[\u00a0\u202f]", " ", render_page(profiled(folder, profiles, verdict))).split())


def _profile(folder: StudyFolder) -> None:
    """Every run gets a profile at one step; jemalloc's spins."""
    for run in folder.runs():
        stacks = {(*ROOT, "mysqld`row_<search>"): 90, (*ROOT, "mysqld`</script>"): 300}
        if run.arm == "jemalloc":
            stacks[*ROOT, "libspin.so`send", "libspin.so`plant_spin"] = 80
        write_stacks(folder.path / run.folder / stacks_file(STEP), stacks)
        samples = sum(stacks.values())
        facts = CpuProfile(
            step=STEP, file=stacks_file(STEP), slices=1, transactions=500, samples=samples, server_cpu_s=samples / 499
        )
        changed = run.model_copy(update={"cpu_profiles": (facts,)})
        write_text(folder.path / run.folder / "run.json", changed.model_dump_json(by_alias=True))


def graph(text: str) -> dict[str, object]:
    (found,) = re.findall(r'id="flame-data">(.*?)</script>', text)
    data: dict[str, object] = json.loads(found)
    return data


def test_the_function_that_leads_is_the_answer_and_its_callers_are_left_out(tmp_path: Path) -> None:
    text = page(tmp_path / "s", record(SPIN, CALLER, SAME))
    assert (
        "plant_spin (libspin.so) takes 160 µs more CPU time per transaction (+120 … +205 µs). This is 99 % of the "
        "difference in CPU time."
    ) in text
    assert "</small> plant_spin (libspin.so) takes 160 µs more CPU time per transaction</h3>" in text
    assert "those that differ beyond noise" in text
    section = text[text.index('id="cpu"') : text.index('id="flame"')]
    assert "send (libspin.so)" not in section
    assert "Cost of the profile: throughput −7.0 % (−9.0 … −5.0 %)" in text
    assert "16 % of the frames have no name, as symbols are missing (mysqld 22 %)" in text
    assert "In the CPU profile plant_spin (libspin.so) leads: +160 µs of CPU time per transaction" in text


def test_a_function_that_moved_with_the_effect_is_not_named_as_what_came_with_it(tmp_path: Path) -> None:
    assert "In the CPU profile" not in page(tmp_path / "s", record(SPIN, CALLER, SAME), verdict="higher")


def test_without_a_difference_the_largest_functions_are_shown_and_none_is_named(tmp_path: Path) -> None:
    text = page(tmp_path / "s", record(SAME))
    assert "No function&#39;s CPU time per transaction differs beyond noise." in text
    assert "those with most time of their own" in text
    assert "row_&lt;search&gt; (mysqld)" in text


def test_the_flame_graph_has_each_frame_once_and_cannot_end_its_script(tmp_path: Path) -> None:
    data = graph(page(tmp_path / "s", record(SPIN, CALLER, SAME)))
    names = data["names"]
    assert isinstance(names, list)
    assert "mysqld`</script>" in names
    assert len(set(names)) == len(names)
    (drawn,) = data["graphs"]  # type: ignore[misc]
    _, control_us, arm_us, _, children = drawn["root"]
    assert arm_us > control_us > 0
    assert [names[child[0]] for child in children] == ["libc.so.6`clone3"]


def test_a_study_without_a_profile_has_no_section(tmp_path: Path) -> None:
    text = render_page(build(tmp_path / "s"))
    assert 'id="cpu"' not in text
    assert "flame-data" not in text


def test_a_profile_from_proc_states_what_it_lacks() -> None:
    lines = quality(record(SPIN, method="proc", waiting=0.25, frequency_hz=50, profiler="/proc"))
    assert "9,000 samples of the servers' threads (50 per second and thread) in 18 slices" in lines[0]
    assert "kernel stacks sampled from /proc, without functions of the server" in lines[0]
    assert lines[1].startswith("25")
    assert "threads that waited for a disk (uninterruptible wait) or for a CPU" in lines[1]
    assert not any("symbols" in line for line in lines)
    assert "stacks by perf 6.1" in quality(record(SPIN))[0]


def test_records_of_older_versions_are_of_perf() -> None:
    assert CpuProfile.model_validate({"step": STEP, "samples": 5}).method == "perf"
    assert ProfilesRecord.model_validate({"samples": 5}).method == "perf"
