"""The main effects of a screening study: see stats/screening.py for the method.

The experiment that follows, all combinations of the variables that matter, is written beside summary.json.

The half-normal plot has the sizes of effects against where they would lie if none of them had a cause. Effects of noise
alone lie on a straight line through the origin; those that stand out to the right of it are real (Daniel, Technometrics
1 (1959)). The line is that of the study's standard error, the dashed one its margin.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp, log
from typing import Any

import numpy as np

from mydyno.analysis.base import Analysis, Examined
from mydyno.document.drawing import Linear, Svg, nice_ticks, tick_decimals
from mydyno.document.parts import Cell, Figure, FigureGroup, Figures, Note, Part, Table
from mydyno.document.result import StudyResult
from mydyno.experiment_file.arms import CONTROL, arm_name, coded
from mydyno.language import agreed, listing
from mydyno.model.definition.experiment import Experiment, Scalar, ScreenSpec
from mydyno.model.metrics import phrase_of
from mydyno.model.stored.analyses import ScreenedFactor, ScreenRecord
from mydyno.model.stored.summary import Summary
from mydyno.results.precision import used_values
from mydyno.stats.paired import paired
from mydyno.stats.screening import ALIASED, MainEffect, aliases, half_normal_quantiles, screened, strongest
from mydyno.wording.numbers import (
    change_words,
    half_width_text,
    metric_name,
    p_value,
    ratio_interval,
    signed_percent,
    size,
)

LEFT, RIGHT, TOP, BOTTOM = 40.0, 16.0, 40.0, 38.0
LETTER = 6.2


@dataclass(frozen=True, slots=True)
class SizedEffect:
    """One effect: `size` of the log, in percent; `quantile` where noise alone would put it, in standard errors."""

    name: str
    size: float
    quantile: float
    active: bool
    title: str


def half_normal_chart(
    key: str,
    heading: str,
    description: str,
    effects: Sequence[SizedEffect],
    standard_error: float,
    margin: float | None,
    look: tuple[float, str],
) -> str:
    """The chart. `standard_error` and `margin` (the half-width of the intervals) are in the unit of the sizes.

    `look` is the width and the CSS class.
    """
    svg = Svg(key, look[0], 260, heading, description)
    left, right, top, bottom = LEFT, svg.width - RIGHT, TOP, svg.height - BOTTOM
    sizes = nice_ticks(0.0, max(1e-6, 1.05 * max([*(one.size for one in effects), margin or 0.0])))
    quantiles = nice_ticks(0.0, 1.05 * max(one.quantile for one in effects), 4)
    x, y = Linear(0.0, sizes[-1], left, right), Linear(0.0, quantiles[-1], bottom, top)
    svg.text(0, 11, heading, "t strong")
    decimals = tick_decimals(sizes)
    for tick in sizes:
        svg.line(x(tick), top, x(tick), bottom, "zero" if tick == 0 else "grid")
        svg.text(x(tick), bottom + 15, f"{tick:.{decimals}f}", "t num", "middle")
    svg.text(0, 25, "expected size of noise, standard errors", "t soft")
    for tick in quantiles:
        svg.text(left - 6, y(tick) + 4, f"{tick:.{tick_decimals(quantiles)}f}", "t num", "end")
    svg.text((left + right) / 2, svg.height - 5, "size of the effect (logarithm), %", "t soft", "middle")
    if standard_error > 0:
        reach = min(quantiles[-1], sizes[-1] / standard_error)
        svg.line(x(0.0), y(0.0), x(reach * standard_error), y(reach), "axis")
    if margin is not None and margin <= sizes[-1]:
        svg.path(f"M{x(margin):.1f} {top:.1f}V{bottom:.1f}", "axis", "4 3")
    for one in effects:
        at = (x(one.size), y(one.quantile))
        svg.open_group("a1" if one.active else "a0")
        svg.titled_mark("circle" if one.active else "diamond", *at, 4, "mark" if one.active else "ring", one.title)
        svg.close_group()
        if one.active:
            right_of, left_of = right - at[0] - 10, at[0] - left - 10
            room, anchor = (right_of, "start") if right_of >= min(left_of, len(one.name) * LETTER) else (left_of, "end")
            name = one.name if len(one.name) * LETTER <= room else f"{one.name[: max(3, int(room / LETTER) - 1)]}…"
            svg.text(at[0] + (8 if anchor == "start" else -8), at[1] + 4, name, "t", anchor)
    return svg.render(look[1])


FOLLOW_UP_FILE = "follow-up.toml"
DEFAULT_TIME_S = 1200.0
LEFT_OUT = ("name", "question", "description", "published", "instances", "control", "arms", "screen", "scale",
            "thresholds")  # fmt: skip
MOST_FOLLOWED = 3
"""Variables of the follow-up: all combinations of three are eight arms."""
FEWEST_FOR_ALARM = 3
"""Blocks from which on the two copies of the control can give an alarm."""


def analyse(study: Examined) -> tuple[ScreenRecord, ...]:
    """The primary metric's main effects at every step; empty without a screening design, or without a whole block."""
    spec = study.experiment.screen
    if spec is None:
        return ()
    steps = study.experiment.resolved_steps
    each = replace(study, alpha=study.alpha / len(steps))  # the error rate is that of the study
    found = (_screening(each, spec, step.id) for step in steps)
    return tuple(record for record in found if record is not None)


def _screening(study: Examined, spec: ScreenSpec, step: str) -> ScreenRecord | None:
    experiment = study.experiment
    metric = experiment.verdict.leading
    rows = coded(spec, experiment.arms)
    if spec.design == "definitive":
        rows.pop(CONTROL)  # not one of the design's runs: the present values, to compare with
    in_blocks = [of for of in study.logs(metric, step).values() if of.keys() >= rows.keys()]
    if not in_blocks:
        return None
    logs = np.array([[of[arm] for arm in rows] for of in in_blocks], dtype=np.float64)
    design = np.array(list(rows.values()), dtype=np.float64)
    made = screened(design, logs, study.alpha, experiment.design.seed)
    names = list(spec.variables)
    mixed = aliases(design)
    differ = copies_differ(study, step, metric)
    factors = []
    for j, (name, levels) in enumerate(spec.variables.items()):
        whole = [f"{names[one.first]} × {names[one.second]}" for one in mixed[j] if abs(one.share) >= ALIASED]
        parts = [abs(one.share) for one in mixed[j] if abs(one.share) < ALIASED]
        factors.append(
            ScreenedFactor(
                name=name,
                first=str(levels[0]),
                last=str(levels[-1]),
                **_interval(made.effects[j]),
                active=made.effects[j].active and not differ,
                aliases=tuple(whole),
                partial_aliases=len(parts),
                largest_part=round(max(parts, default=0.0), 4),
            )
        )
    chosen = [] if differ else strongest(made.effects, MOST_FOLLOWED)
    return ScreenRecord(
        metric=metric,
        step=step,
        runs=len(rows),
        blocks=len(logs),
        lost_blocks=len({run.block for run in study.runs}) - len(in_blocks),
        method="lenth" if made.method == "lenth" else "blocks",
        standard_error=made.standard_error,
        factors=tuple(factors),
        copies_differ=differ,
        follow_up=tuple(names[j] for j in chosen),
    )


def _interval(effect: MainEffect) -> dict[str, float | None]:
    ratio = exp(effect.log_effect)
    if effect.half is None:
        return {"ratio": ratio, "ci_low": None, "ci_high": None, "p": effect.p}
    low, high = exp(effect.log_effect - effect.half), exp(effect.log_effect + effect.half)
    return {"ratio": ratio, "ci_low": low, "ci_high": high, "p": effect.p}


def copies_differ(study: Examined, step: str, metric: str) -> bool:
    """Whether the control's two copies differ beyond noise."""
    first, second = ((study.experiment.control, copy) for copy in (1, 2))
    found = used_values(study.runs, metric, step).values()
    differences = [log(of[second] / of[first]) for of in found if first in of and second in of]
    if len(differences) < FEWEST_FOR_ALARM:
        return False
    return paired(differences, 1 - study.alpha).interval.excludes_no_change()


MOST_NAMED = 4


def say(summary: Summary, metric: str) -> list[str]:
    """What matters at each step; then what to do next."""
    if metric != summary.primary:
        return []
    found = [_active(record, summary) for record in summary.screening]
    first = _followed(summary)
    if first is not None:
        command = f"`mydyno run studies/{summary.study}/{FOLLOW_UP_FILE}`"
        next_step = f"Next, all combinations of the strongest: {command}."
        found.append(f"{mixed_words(first)} {next_step}")
    return found


def _active(record: ScreenRecord, summary: Summary) -> str:
    count = len(record.factors)
    where = f" at {record.step}" if len(summary.screening) > 1 else ""
    noun = phrase_of(record.metric).short_noun
    if record.copies_differ:
        why = f"the two copies of {summary.control} differ at {record.step}, although they are identical"
        return f"No variable is called active: {why}."
    active = sorted((one for one in record.factors if one.active), key=_strength, reverse=True)
    if not active:
        return agreed(f"None of the {count} variables is shown to change {noun}{where}: {hidden_words(record)}.")
    named = [factor_words(one) for one in active[:MOST_NAMED]]
    if len(active) > MOST_NAMED:
        named.append(f"{len(active) - MOST_NAMED} more in the table")
    matter = "matters" if len(active) == 1 else "matter"
    return agreed(f"{len(active)} of {count} variables {matter} for {noun}{where}: {'; '.join(named)}.")


def _followed(summary: Summary) -> ScreenRecord | None:
    """The record that an experiment follows."""
    return next((record for record in summary.screening if record.follow_up), None)


def design_words(record: ScreenRecord, spec: ScreenSpec) -> str:
    """E.g. "Plackett–Burman, 12 runs"; in English."""
    kind = "definitive screening" if spec.design == "definitive" else "Plackett–Burman"
    return f"{kind}{' with foldover' if spec.foldover else ''}, {record.runs} runs"


def _strength(one: ScreenedFactor) -> float:
    return max(one.ratio, 1 / one.ratio)


def factor_words(one: ScreenedFactor) -> str:
    """E.g. "innodb_flush_log_at_trx_commit, 1 → 2: +35 % (between +30 % and +40 %)"."""
    return f"{one.name}, {one.first} → {one.last}: {change_words(one.ratio, one.ci_low, one.ci_high)}"


def hidden_words(record: ScreenRecord) -> str:
    """How large an effect must be to be seen here."""
    factor = record.factors[0]
    if factor.ci_low is None or factor.ci_high is None:
        return "one block gives no interval"
    half = (factor.ci_high / factor.ci_low) ** 0.5 - 1
    return f"effects below about {half_width_text(half)} are hidden by the noise"


def mixed_words(record: ScreenRecord) -> str:
    """What is aliased, for all variables together."""
    wholly = [one for one in record.factors if one.aliases]
    if wholly:
        return (
            "An effect may be that of an interaction of two other variables, which this design does not "
            "separate from it; the report names them."
        )
    part = max(one.largest_part for one in record.factors)
    if part > 0:
        return f"Up to {size(part)} of each interaction of two other variables is in an effect."
    return "Interactions of two variables are not in these effects."


LENTH = "With one block the standard error is Lenth's, which takes the small effects for noise."
BLOCKS = "The standard error comes from the differences between blocks, of all variables together."


def part(result: StudyResult) -> Part | None:
    """None if the study screens nothing."""
    records = result.summary.screening
    if not records:
        return None
    groups = [FigureGroup(record.step, [_figure(record)], text=_words(result, record)) for record in records]
    intro = (
        "The main effect of a variable is the change from its first to its last value, over all runs of the design. In "
        "the plot, effects that are noise lie near the line; the dashed line is the margin beyond which an effect "
        "counts."
    )
    return Part(
        id="screening", heading="Main effects of the variables", body=[Note(intro, "intro"), Figures(groups)],
        says=_active(records[0], result.summary).partition(":")[0] if len(records) == 1 else "",
    )  # fmt: skip


def _words(result: StudyResult, record: ScreenRecord) -> str:
    spec = result.study.experiment.screen
    assert spec is not None
    blocks = agreed(f"{record.blocks} blocks")
    lost = f" {record.lost_blocks} lack a run and are not used." if record.lost_blocks else ""
    method = LENTH if record.method == "lenth" else BLOCKS
    first = f"{', '.join((design_words(record, spec), blocks))}."
    return " ".join((first + lost, method, mixed_words(record)))


def _figure(record: ScreenRecord) -> Figure:
    ordered = sorted(record.factors, key=_size)
    effects = [
        SizedEffect(one.name, _size(one), float(quantile), one.active, f"{one.name}: {signed_percent(one.ratio - 1)}")
        for one, quantile in zip(ordered, half_normal_quantiles(len(ordered)), strict=True)
    ]
    heading = f"{metric_name(record.metric)}: half-normal plot"
    charts = [
        half_normal_chart(
            f"half-normal:{record.metric}:{record.step}{suffix}",
            heading,
            agreed(f"Sizes of the main effects of {len(effects)} variables; the table has them all."),
            effects,
            100 * record.standard_error,
            _margin(record),
            (width, css),
        )
        for suffix, width, css in (("", 640.0, "wide"), (":narrow", 350.0, "narrow"))
    ]
    return Figure(charts, _table(record), "", "full", numbers_open=True)


def _size(one: ScreenedFactor) -> float:
    return 100 * abs(log(one.ratio))


def _margin(record: ScreenRecord) -> float | None:
    one = record.factors[0]
    if one.ci_low is None or one.ci_high is None:
        return None
    return 50 * log(one.ci_high / one.ci_low)


def _table(record: ScreenRecord) -> Table:
    rows: list[list[str | Cell]] = []
    for one in sorted(record.factors, key=_size, reverse=True):
        rows.append([
            one.name,
            Cell(f"{one.first} → {one.last}"),
            Cell(signed_percent(one.ratio - 1), "num", below=ratio_interval(one.ci_low, one.ci_high)),
            Cell("–" if one.p is None else p_value(one.p), "num"),
            Cell("matters" if one.active else "not shown"),
            Cell(_mixed(one)),
        ])  # fmt: skip
    return Table(
        f"Main effects on {metric_name(record.metric)}, largest first, with simultaneous intervals",
        ["variable", "change", "effect", "p", "", "mixed with"],
        rows,
    )


def _mixed(one: ScreenedFactor) -> str:
    """The interactions aliased with an effect, or how many are partially aliased."""
    if one.aliases:
        more = f" and {len(one.aliases) - 2} more" if len(one.aliases) > 2 else ""
        return "; ".join(one.aliases[:2]) + more
    if one.partial_aliases:
        return f"up to {one.largest_part:.0%} of each of {one.partial_aliases} interactions".replace("%", " %")
    return "no interaction of two"


def follow_up(experiment: Experiment, summary: Summary) -> dict[str, str]:
    """The experiment that follows: all combinations of the variables that matter, as a TOML file.

    The other variables keep their present values. Empty if no variable is active.
    """
    spec, record, study = experiment.screen, _followed(summary), summary.study
    if spec is None or record is None:
        return {}
    levels = {name: (spec.variables[name][0], spec.variables[name][-1]) for name in record.follow_up}
    present = {name: values[0] for name, values in spec.variables.items() if name not in levels}
    tree = experiment.model_dump(mode="json", exclude_defaults=True, exclude=set(LEFT_OUT))
    tree.setdefault("server", {})["variables"] = {**present, **experiment.server.variables}
    tree["steps"] = [step.model_dump(mode="json", exclude_defaults=True) for step in experiment.steps]
    tree.setdefault("design", {}).setdefault("time", DEFAULT_TIME_S)
    lines = [
        f"# All combinations of the variables that matter in the screening study {study}.",
        f"# Run it with: mydyno run studies/{study}/{FOLLOW_UP_FILE}",
        f"name = {_value(f'{experiment.name}-follow-up'[:48])}",
        f"question = {_value(f'Which combination of {listing(list(levels))} is best?')}",
    ]
    tables: dict[str, Any] = {key: value for key, value in tree.items() if key != "steps"}
    for key, value in tables.items():
        lines += ["", f"[{key}]", *_entries(value)]
    for step in tree["steps"]:
        lines += ["", "[[steps]]", *_entries(step)]
    if len(levels) == 1:
        ((name, values),) = levels.items()
        lines += ["", f"[vary.variables]\n{name} = {_value(list(values))}"]
        return {FOLLOW_UP_FILE: "\n".join(lines) + "\n"}
    control = "-".join(_level(values[0]) for values in levels.values())
    lines += ["", "[factors]", f"control = {_value(control)}"]
    for name, values in levels.items():
        lines += ["", f"[factors.{name}]"]
        lines += [f"{_value(_level(one))} = {_value({'variables': {name: one}})}" for one in values]
    return {FOLLOW_UP_FILE: "\n".join(lines) + "\n"}


def _level(value: Scalar) -> str:
    return arm_name("", value).strip("-")


def _entries(table: Mapping[str, Any]) -> list[str]:
    return [f"{key} = {_value(value)}" for key, value in table.items() if value is not None]


def _value(value: Any) -> str:
    """A value as TOML writes it in one line; JSON's strings, numbers and lists are TOML's too."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {_value(one)}" for key, one in value.items() if one is not None) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_value(one) for one in value) + "]"
    return json.dumps(value, ensure_ascii=False)


ANALYSIS = Analysis(chapter="answer", part=part, stored="screening", analyse=analyse, say=say, files=follow_up)
