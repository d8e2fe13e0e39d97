"""Where servers were built from source: commit, compilers and program of each build, from the evidence of the runs.

For an arm with several builds, also the effect in the blocks of each: how much of the noise is the layout's.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import expm1
from statistics import mean
from typing import Any

from mydyno.analysis.base import Analysis
from mydyno.document.parts import Cell, Listed, Note, Part, Table, glyph
from mydyno.document.result import StudyResult
from mydyno.language import agreed
from mydyno.model.definition.plan import builds_of
from mydyno.wording.numbers import signed


def part(result: StudyResult) -> Part | None:
    """The section, or None if no server was built from source."""
    found = result.builds
    if not found:
        return None
    tables = [table(result)]
    if any(builds_of(arm) > 1 for arm in result.study.experiment.arms) and (layouts := _layouts(result)).rows:
        tables.append(layouts)
    commands = list(dict.fromkeys(_recipe(one) for one in found.values()))
    programs = len({one["sha256"] for one in found.values()})
    return Part(
        id="builds", heading="Builds from source", folded=True, says=agreed(f"{programs} programs"),
        body=[Note(INTRO, "intro"), *tables, Listed(commands, "How they were built")],
    )  # fmt: skip


INTRO = (
    "In every valid run the server's process executed exactly this file, by inode and SHA-256. A difference between "
    "two builds includes that of their memory layouts, unless an arm has several builds."
)


def table(result: StudyResult) -> Table:
    """A row for each build of each arm."""
    rows: list[list[str | Cell]] = []
    for (arm, layout), facts in result.builds.items():
        commit = str(facts["commit"]).removeprefix("tree-")[:12]
        date = str(facts["date"])[:10]
        rows.append([
            Cell(arm, "arm", glyph(result.styles[arm])), str(layout),
            Cell(commit, below=", ".join(filter(None, (str(facts["ref"]), date)))),
            str(facts["subject"]), Cell(str(facts["sha256"])[:12], below=str(facts["build_id"])[:12]),
            ", ".join(facts["compiled_by"]) or ", ".join(facts["compilers"]),
        ])  # fmt: skip
    head = ("arm", "build", "commit, ref, date", "subject", "SHA-256, build ID", "compiled by")
    return Table("The programs", head, rows)


def _layouts(result: StudyResult) -> Table:
    """The effect in the blocks of each build, for the primary metric."""
    build_in = {(run.block, run.arm): run.build for run in result.plan.runs if run.copy_number == 1}
    rows: list[list[str | Cell]] = []
    for effect in result.summary.effects:
        arm = result.study.experiment.arm(effect.arm)
        if effect.metric != result.summary.primary or builds_of(arm) == 1 or not effect.details.log_ratios:
            continue
        of_build: dict[int, list[float]] = {}
        for block, ratio in effect.details.log_ratios.items():
            of_build.setdefault(build_in.get((block, effect.arm), 1), []).append(ratio)
        rows += [
            [Cell(effect.arm, "arm", glyph(result.styles[effect.arm])), effect.step, str(number),
             Cell(str(len(ratios)), "num"), Cell(signed(expm1(mean(ratios))), "num")]
            for number, ratios in sorted(of_build.items())
        ]  # fmt: skip
    return Table(
        f"{result.metric_name(result.summary.primary)}: the mean effect in the blocks of each build (no verdict)",
        ("arm", "load level", "build", "blocks", "effect"), rows,
    )  # fmt: skip


def _recipe(facts: Mapping[str, Any]) -> str:
    environment = "".join(f"{name}={value} " for name, value in facts["environment"].items())
    cached = ", ccache" if facts["ccache"] else ""
    return f"{facts['origin']}: {environment}{facts['command']} ({', '.join(facts['compilers'])}{cached})"


ANALYSIS = Analysis(part=part)
