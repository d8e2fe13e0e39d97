"""Where arms run different servers: the settings that still differ between them, for they are part of what is compared.

Variables that shape performance and that at least two of the servers have; the experiment's own are equal on all of
them, so what stands here are defaults. All variables are in the section on repeating the study.
"""

from __future__ import annotations

from math import expm1

from mydyno.document.result import StudyResult
from mydyno.document.section import Cell, Section, Table, glyph, render
from mydyno.language import agreed
from mydyno.model.definition.plan import instances_of_each
from mydyno.servers.dsn import place_of
from mydyno.treatments.dsn import dsns_of
from mydyno.wording.numbers import signed
from mydyno.wording.server_settings import differing_settings


def build(result: StudyResult) -> Section | None:
    """The section, or None if all arms run one version or no setting differs, and each arm has one server."""
    found = differing_settings(result)
    tables, intro = [], ""
    if found is not None:
        count = len(result.summary.server_differences)
        intro = (
            f"The arms run different servers under the experiment's own settings. {count} further setting "
            "that shapes performance has another value on some of them, by default or because that version "
            "knows no other: an effect of the server includes the effects of this setting."
            if count == 1
            else agreed(
                f"The arms run different servers under the experiment's own settings. {count} further settings "
                "that shape performance have another value on some of them, by default or because that version "
                "knows no other: an effect of the server includes the effects of these settings."
            )
        )
        tables.append(Table("Settings that differ, as reported by the servers (SHOW GLOBAL VARIABLES)", *found))
    if instances_of_each(result.study.experiment) > 1:
        tables.append(_instances(result))
    if not tables:
        return None
    html = render("servers.html", intro=intro, tables=tables)
    return Section("servers", "Servers, and how their settings differ", "Servers", html)


def _instances(result: StudyResult) -> Table:
    """Which instance of each arm a block had, and the effect between these two."""
    experiment = result.study.experiment
    at = {}
    for run in result.plan.runs:
        if run.copy_number == 1:
            dsns = dsns_of(experiment.arm(run.arm), experiment.server)
            at[run.block, run.arm] = place_of(dsns[(run.build - 1) % len(dsns)])
    rows: list[list[str | Cell]] = [
        [Cell(effect.arm, "arm", glyph(result.styles[effect.arm])), effect.step, at[block, effect.arm],
         at[block, effect.control], Cell(signed(expm1(ratio)), "num")]
        for effect in result.summary.effects
        if effect.metric == result.summary.primary and effect.details.log_ratios
        for block, ratio in sorted(effect.details.log_ratios.items())
    ]  # fmt: skip
    head = ("arm", "step", "its instance", "the control's", "effect")
    return Table(
        f"{result.metric_name(result.summary.primary)}: the effect with each instance (no verdict)", head, rows
    )
