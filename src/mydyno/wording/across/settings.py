"""Settings of studies, and what differs in them."""

from __future__ import annotations

from collections.abc import Sequence

from mydyno.language import agreed
from mydyno.model.definition.experiment import Step
from mydyno.model.definition.quantities import format_duration
from mydyno.model.stored.comparison import Setting, SettingGroup
from mydyno.results.across.saved import SavedStudy
from mydyno.results.across.settings import LOAD, PACKAGES, step_options, study_settings

BUILD = ("build", "version", "server")
NOT_CAUSES = frozenset(
    {
        "question",
        "name",
        "seed",
        "time",
        "blocks examined",
        "cycles",
        "arms",
        "scale",
        "interim analyses",
        "adjusted for",
    }
)
"""Settings that describe a study and change nothing on its servers."""
MOST_OF_GROUP = 3
"""Settings of one kind that are named at a point of a history; of more the number is given."""
MOST_CHANGED = 6
"""Settings named at a point; of more the number is given."""


def worded_settings(studies: Sequence[SavedStudy]) -> tuple[SettingGroup, ...]:
    """The settings of studies, with the load of each step in words."""
    of_steps = [
        {f"load level {step.id}": step_words(step) for step in study.study.experiment.resolved_steps}
        for study in studies
    ]

    def worded(one: Setting) -> Setting:
        values = (
            None if value is None else said.get(one.name, value)
            for said, value in zip(of_steps, one.values, strict=True)
        )
        return Setting(name=one.name, values=tuple(values))

    return tuple(
        SettingGroup(
            name=group.name, differing=tuple(map(worded, group.differing)), equal=tuple(map(worded, group.equal))
        ) if group.name == LOAD else group
        for group in study_settings(studies)
    )  # fmt: skip


def step_words(step: Step) -> str:
    """Driver, windows and options of a step."""
    warmup, measured = format_duration(step.warmup_s), format_duration(step.measure_s)
    windows = f"{warmup} warm-up, {measured} measured"
    return ", ".join([step.driver, windows, *step_options(step)])


def changed_between(before: SavedStudy, after: SavedStudy) -> tuple[str, ...]:
    """What was recorded to differ: "version: MariaDB 10.11.18 → MariaDB 10.11.19"; the server first."""
    found = []
    for group in sorted(worded_settings((before, after)), key=lambda group: group.name != "server"):
        differing = [setting for setting in group.differing if setting.name not in NOT_CAUSES]
        if group.name == "server":
            differing = _of_server(differing)
        if len(differing) > MOST_OF_GROUP or (group.name == PACKAGES and differing):
            found.append(_counted(group.name, len(differing)))
            continue
        for setting in differing:
            old, new = ("not recorded" if value is None else value for value in setting.values)
            found.append(f"{setting.name}: {old} → {new}")
    if len(found) > MOST_CHANGED:
        return (*found[: MOST_CHANGED - 1], agreed(f"{len(found) - MOST_CHANGED + 1} more settings"))
    return tuple(found)


def _counted(group: str, count: int) -> str:
    """How many settings of a group: "3 packages"."""
    if group == PACKAGES:
        return f"{count} {'package' if count == 1 else 'packages'}"
    return f"{count} {group}"


def _of_server(differing: Sequence[Setting]) -> list[Setting]:
    """The version stands for the build and the name where it differs."""
    implied = BUILD if any(setting.name == "version" for setting in differing) else ()
    return [one for one in differing if one.name == "version" or one.name not in implied]
