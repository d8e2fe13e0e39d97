"""Replays at captured times on a fake host: which part of a capture each slice plays, and where a block ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mydyno.drivers.held import SliceOrder
from mydyno.execution.planning.time_plan import replay_lines
from mydyno.hosts.paths import HostPaths
from mydyno.model.definition.experiment import Experiment, Step, StepSpec
from mydyno.model.definition.plan import Design, make_plan
from mydyno.workloads.files import captured
from tests.support.fake_script import Script, experiment
from tests.unit.execution.interleaved.test_study import study

DESIGN = {"kind": "interleaved", "blocks": 1, "cycles": 4, "quiet_wait": 0, "slice": 2, "washout": 0.5}


def capture(folder: Path, length_s: float, writing: int | None = 5) -> Path:
    header = {
        "record": "header", "format": "dynoload-capture", "format_version": 1, "duration_us": length_s * 1e6,
        "peak_sessions": 7, "statements": 40, **({} if writing is None else {"writing": writing}),
    }  # fmt: skip
    path = folder / "monday.capture"
    path.write_text(json.dumps(header) + "\n")
    return path


def asked(path: Path, options: dict[str, object], **design: object) -> Experiment:
    step = StepSpec.model_validate(
        {"replay": str(path), "connections": 7, "warmup": 1.5, "options": {"speed": "original", **options}}
    )
    return experiment(steps=(step,), design={**DESIGN, **design})


def places(script: Script) -> dict[str, list[int]]:
    """{id of a slice: the places of its lanes}, as the script will note them."""
    found: dict[str, list[int]] = {}

    def qps(_arm: str, _copy: int, _step: Step, order: SliceOrder) -> float:
        found.setdefault(order.id, []).append(order.stream)
        return 1000.0

    script.slice_qps = qps
    return found


async def test_slices_play_one_part_after_the_other_the_same_one_on_each_lane(
    script: Script, paths: HostPaths, tmp_path: Path
) -> None:
    found = places(script)
    await study(script, paths, tmp_path, asked(capture(tmp_path, 60), {}, blocks=2))
    begins = {"warmup": 0, **{f"monday-7/{cycle}": 1500 + 2500 * (cycle - 1) for cycle in (1, 2, 3, 4)}}
    in_cycles = {name: found[name] for name in begins}
    assert in_cycles == {name: [begin_ms] * 6 for name, begin_ms in begins.items()}, "three lanes in two blocks"


@pytest.mark.parametrize(("options", "cycles"), [({}, 2), ({"read_only": True}, 4), ({"speed": 0.5}, 4)])
async def test_a_capture_that_writes_is_played_once(
    script: Script, paths: HostPaths, tmp_path: Path, options: dict[str, object], cycles: int
) -> None:
    found = places(script)
    await study(script, paths, tmp_path, asked(capture(tmp_path, 7.4), options))
    played = [name for name in found if name.startswith("monday-7/")]
    assert played == [f"monday-7/{cycle}" for cycle in range(1, cycles + 1)]


@pytest.mark.parametrize(
    ("length_s", "writing", "options", "words"),
    [
        (600, 5, {}, "the capture lasts 10 min at this speed; each block, and in it the slices of every arm, plays"),
        (600, 5, {"speed": 4}, "4 times as fast as the captured times"),
        (8, 5, {}, "5 of 40 captured statements write, so it is not played twice"),
        (8, None, {}, "the capture may write"),
        (8, 5, {"read_only": True}, "plays 12 s: after the end it begins again"),
        (8, 5, {"read_only": True}, "read_only leaves out 5 of 40 captured statements, which write"),
        (8, 5, {"speed": "max"}, "inserts of captured keys fail then (error 1062)"),
    ],
)  # fmt: skip
def test_the_plan_states_what_is_replayed(
    tmp_path: Path, length_s: float, writing: int | None, options: dict[str, object], words: str
) -> None:
    one = asked(capture(tmp_path, length_s, writing), options)
    lines = list(replay_lines(one, make_plan(one, Design("interleaved")), one.resolved_steps[0]))
    assert words in "\n".join(lines)


def test_a_load_without_captured_times_that_only_reads_has_no_warning(tmp_path: Path) -> None:
    one = asked(capture(tmp_path, 8, writing=0), {"speed": "max", "read_only": True})
    assert len(list(replay_lines(one, make_plan(one, Design("interleaved")), one.resolved_steps[0]))) == 2
    found = captured(one.resolved_steps[0])
    assert found is not None and (found.speed, found.writes) == (None, False)


def test_a_plan_names_what_the_capture_lacks(tmp_path: Path) -> None:
    path = capture(tmp_path, 60)
    header = json.loads(path.read_text())
    header["problems"] = [{"problem": "cut_line", "text": "cut lines, left out", "count": 3, "first": []}]
    path.write_text(json.dumps(header) + "\n")
    found = asked(path, {})
    lines = list(replay_lines(found, make_plan(found, Design("interleaved")), found.resolved_steps[0]))
    assert "of the log: 3 cut lines, left out" in lines
