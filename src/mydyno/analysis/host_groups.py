"""The host groups of a study: what differs between their hosts, and each contrast on each of them.

A verdict is of these hosts: the mean over the study's host groups, with equal weights (stats/groups.py). It is claimed
of hosts like these only where there are three groups or more, the interval over the groups' means, adjusted by
Bonferroni over all contrasts with verdicts, shows the same, and no group's own interval shows the opposite. Groups
differ where the test of equal effects, adjusted by Holm over the same contrasts, is at most the study's error rate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import exp
from typing import Literal

from mydyno.analysis.base import Analysis, Examined
from mydyno.document.forest import ForestGroup, ForestRow, forest_charts
from mydyno.document.parts import Cell, Figure, FigureGroup, Figures, Note, Part, Table
from mydyno.document.result import StudyResult
from mydyno.language import agreed, listing
from mydyno.model.stored.summary import (
    FEWEST_HOSTS,
    EffectRecord,
    HostGroupEffect,
    HostGroupsRecord,
    HostsEffect,
    block_groups,
)
from mydyno.results.precision import cost_metric
from mydyno.results.settings import FIRST_FACTS, comparable_facts, fact_differences
from mydyno.stats.groups import group_effects, heterogeneity, hosts_interval, in_order
from mydyno.stats.paired import Interval
from mydyno.stats.permutation import holm
from mydyno.wording.numbers import MOST_NAMES, NONE, ratio_interval, signed_percent
from mydyno.wording.scope_line import claim_words, difference_clause, differing, fact_name, fact_words, p_words
from mydyno.wording.stored_result import StoredResult


def analyse(study: Examined) -> HostGroupsRecord | None:
    """The record of a study over several host groups; None if all blocks were executed by one."""
    group_of = block_groups(study.every_run)
    if not group_of:
        return None
    groups = in_order(group_of.values())
    return HostGroupsRecord(
        blocks={group: sum(of == group for of in group_of.values()) for group in groups},
        differences=fact_differences(study.hosts, groups),
        effects=hosts_effects(study.effects, group_of, study.alpha, study.experiment.verdict.margin_of),
    )


def hosts_effects(
    effects: Sequence[EffectRecord], group_of: Mapping[int, str], alpha: float, margin_of: Callable[[str], float]
) -> tuple[HostsEffect, ...]:
    """Every contrast with a verdict over the groups, from the blocks' log ratios that `EffectDetails` has."""
    judged = [effect for effect in effects if effect.verdict]
    logs = [effect.details.log_ratios or {} for effect in judged]
    tests = [heterogeneity(d, group_of) for d in logs]
    tested = [index for index, test in enumerate(tests) if test.p is not None]
    adjusted = dict(zip(tested, holm([tests[index].p or 0.0 for index in tested]), strict=True))
    contrasts = max(1, sum(bool(d) for d in logs))
    groups = in_order(group_of.values())
    found = []
    for index, (effect, d) in enumerate(zip(judged, logs, strict=True)):
        of_group = {one.group: one for one in group_effects(d, group_of)}
        own = tuple(
            HostGroupEffect(group=group, n=one.n, ratio=one.ratio, ci_low=one.interval.low, ci_high=one.interval.high)
            if (one := of_group.get(group))
            else HostGroupEffect(group=group, n=0)
            for group in groups
        )
        hosts = _no_narrower(hosts_interval(d, group_of, alpha / contrasts, 1.0 - alpha), effect)
        p = adjusted.get(index)
        found.append(
            HostsEffect.like(
                effect,
                groups=own,
                p_heterogeneity=tests[index].p,
                p_heterogeneity_adjusted=p,
                between_sd=tests[index].between_sd,
                differs=p is not None and p <= alpha and effect.verdict != "not_measurable",
                hosts_low=hosts.low,
                hosts_high=hosts.high,
                holds_on=_holds_on(effect, own, hosts, margin_of(effect.metric)),
            )
        )
    return tuple(found)


def _no_narrower(hosts: Interval, effect: EffectRecord) -> Interval:
    """The interval for hosts like these, made to contain that for these hosts.

    Where the hosts' means happen to lie close together it would be shorter, although it speaks of more hosts.
    """
    if hosts.low is None or hosts.high is None or effect.ci_low is None or effect.ci_high is None:
        return hosts
    return Interval(min(hosts.low, effect.ci_low), max(hosts.high, effect.ci_high), hosts.level)


def _holds_on(
    effect: EffectRecord, own: Sequence[HostGroupEffect], hosts: Interval, margin: float
) -> Literal["hosts like these", "these hosts", "no host"]:
    """What the verdict is claimed of."""
    if effect.verdict not in ("higher", "lower", "equivalent"):
        return "no host"
    if hosts.low is None or hosts.high is None:
        return "these hosts"
    if effect.verdict == "equivalent":
        holds = 1.0 - margin < hosts.low and hosts.high < 1.0 + margin
    elif effect.verdict == "higher":
        holds = hosts.low > 1.0 and not any(one.ci_high is not None and one.ci_high < 1.0 for one in own)
    else:
        holds = hosts.high < 1.0 and not any(one.ci_low is not None and one.ci_low > 1.0 for one in own)
    return "hosts like these" if holds else "these hosts"


UNKNOWN = "unknown"


def facts_rows(groups: HostGroupsRecord) -> list[tuple[str, str, str]]:
    """(fact, value, hosts that have it) of what differs between the hosts: one row for each value."""
    rows = []
    for fact, values in groups.differences.items():
        of: dict[str, list[str]] = {}
        for group in groups.blocks:
            of.setdefault(fact_words(values[group]) if group in values else UNKNOWN, []).append(group)
        name = fact_name(fact)
        for value, hosts in of.items():
            rows.append((name, value, names(hosts)))
            name = ""
    return rows


def names(hosts: list[str]) -> str:
    """Hosts by name; of many the first ones and how many more."""
    if len(hosts) <= MOST_NAMES + 1:
        return ", ".join(hosts)
    return f"{', '.join(hosts[:MOST_NAMES])} and {len(hosts) - MOST_NAMES} more"


def likeness(result: StoredResult, groups: HostGroupsRecord) -> str:
    """How many blocks each host executed, and the main facts in which the hosts do not differ, as sentences."""
    counts = sorted(set(groups.blocks.values()))
    if len(groups.blocks) <= MOST_NAMES:
        blocks = f"Blocks on each host: {listing([f'{name} {count}' for name, count in groups.blocks.items()])}."
    elif len(counts) == 1:
        blocks = agreed(f"{len(groups.blocks)} hosts executed {counts[0]} blocks each.")
    else:
        blocks = agreed(f"{len(groups.blocks)} hosts executed {counts[0]} to {counts[-1]} blocks each.")
    known = [comparable_facts(result.study.hosts[group]) for group in groups.blocks if group in result.study.hosts]
    if not known:
        return blocks + " No facts of the hosts are recorded."
    same = [
        fact_name(fact) + ": " + fact_words(known[0][fact])
        for fact in FIRST_FACTS
        if fact in known[0] and fact not in groups.differences
    ]
    missing = len(groups.blocks) - len(known)
    unknown = " " + f"Facts of {missing} {'host' if missing == 1 else 'hosts'} are not recorded." if missing else ""
    return blocks + f" The same on all: {'; '.join(same)}." + unknown if same else blocks + unknown


def plain_words(result: StoredResult, groups: HostGroupsRecord) -> tuple[str, ...]:
    """Every contrast that differs between the hosts, or that none is shown to, and what the verdicts are claimed of."""
    found = [f"{difference_clause(one, result.summary)}." for one in differing(groups)]
    if not found:
        tested = any(one.p_heterogeneity is not None for one in groups.effects)
        found = [
            "No effect is shown to differ between the hosts; that does not show that they are equal."
            if tested
            else "Whether effects differ between the hosts cannot be tested without two blocks on every host."
        ]
    claim = claim_words(groups)
    return (*found, f"{claim[:1].upper()}{claim[1:]}.")


def difference_words(one: HostsEffect) -> str:
    """That the contrast differs between the hosts, for a table's heading; empty if that is not shown."""
    if not one.differs:
        return ""
    sd = "" if one.between_sd is None else f", sd {signed_percent(one.between_sd).lstrip('+')}"
    return f"differs between the hosts{sd}, adjusted p {p_words(one)}"


def overall(result: StoredResult, one: HostsEffect) -> list[tuple[str, float | None, str]]:
    """(name, ratio, interval) of these hosts together and, from three on, of hosts like these."""
    effect = result.effect_of(one)
    if effect is None or effect.ratio is None:
        return [("these hosts", None, "failed" if effect and effect.details.failure else "–")]
    own = ratio_interval(effect.ci_low, effect.ci_high) or NONE
    rows: list[tuple[str, float | None, str]] = [("these hosts", effect.ratio, own)]
    if one.hosts_low is not None:
        rows.append(("hosts like these", None, ratio_interval(one.hosts_low, one.hosts_high)))
    return rows


OPEN_ROWS = 40
"""A table of more rows is folded below its chart."""


def part(result: StudyResult) -> Part | None:
    """The section; None for a study of one host group."""
    groups = result.summary.host_groups
    if groups is None:
        return None
    shown = () if result.before_first_look else groups.effects
    metrics = dict.fromkeys(effect.metric for effect in shown)
    first = [name for name in (result.summary.primary, cost_metric(result.summary)) if name in metrics]
    figures = [
        FigureGroup(
            result.metric_name(metric),
            [_figure(result, metric, [one for one in shown if one.metric == metric])],
            folded=metric not in first,
        )
        for metric in (*first, *(metric for metric in metrics if metric not in first))
    ]
    words = plain_words(result, groups) if shown else ()
    body = [*words, Note(likeness(result, groups), "intro"), _differences(groups), Figures(figures)]
    note = Note(_note(groups) if figures else "")
    return Part(
        id="hosts", heading=f"Hosts ({len(groups.blocks)})", short="Hosts", body=[*body, note],
        says=words[0] if len(words) == 2 else "",  # and what the verdicts are claimed of
    )  # fmt: skip


def _differences(groups: HostGroupsRecord) -> Table | None:
    rows = facts_rows(groups)
    if not rows:
        return None
    return Table("What differs between the server hosts", ("fact", "value", "hosts"), rows, look="facts")


def _note(groups: HostGroupsRecord) -> str:
    note = (
        "Intervals of single hosts are their own 95 % intervals, not adjusted. “These hosts” is the mean over "
        "them, with equal weights, as in the answer."
    )
    if len(groups.blocks) < FEWEST_HOSTS:
        return note + " Two hosts support no claim about others."
    return note + (
        " “Hosts like these” is an interval over the hosts' means, adjusted for the number of comparisons: "
        "it is wider the more the hosts differ, and assumes that they are a fair sample."
    )


def _figure(result: StudyResult, metric: str, effects: Sequence[HostsEffect]) -> Figure:
    shown = [one for one in effects if one.arm in result.styles]
    chart_groups = [ForestGroup(result.contrast_heading(one), _rows(result, one)) for one in shown]
    title = f"{result.metric_name(metric)}: effect of each arm on each host"
    described = "The table that follows has the same numbers."
    charts = forest_charts(f"hosts:{metric}", title, described, chart_groups, result.margin_of(metric))
    table = _effects_table(result, metric, shown)
    return Figure(charts, table, "", "double", numbers_open=len(table.rows) <= OPEN_ROWS)


def _effects_table(result: StudyResult, metric: str, effects: Sequence[HostsEffect]) -> Table:
    rows: list[Sequence[str | Cell]] = []
    for one in effects:
        rows.append([": ".join(filter(None, (result.contrast_heading(one), difference_words(one))))])
        rows += [_table_row(group) for group in one.groups]
        effect = result.effect_of(one)
        rows += [_overall_row(*row, effect.n if effect else 0) for row in overall(result, one)]
    head = ("host", "effect", "interval", "blocks")
    caption = f"{result.metric_name(metric)} relative to {result.relative_to}, on each host"
    return Table(caption, head, rows)


def _rows(result: StudyResult, one: HostsEffect) -> tuple[ForestRow, ...]:
    """A row for each host, then one for these hosts and, where there is an interval, one for hosts like these."""
    style = result.styles[one.arm]
    small = replace(style, shape="circle")
    logs = _logs(result, one)
    rows = [
        ForestRow.of(
            replace(small, name=of.group), of.ratio, of.ci_low, of.ci_high, blocks=logs.get(of.group, ())
        )
        for of in one.groups
    ]  # fmt: skip
    effect = result.effect_of(one)
    if effect is not None and effect.ratio is not None:
        mean = replace(style, name="these hosts", shape="diamond")
        rows.append(ForestRow.of(mean, effect.ratio, effect.ci_low, effect.ci_high, word="mean of hosts"))
        if one.hosts_low is not None:
            like = replace(style, name="hosts like these", shape="bar")
            rows.append(ForestRow.of(like, effect.ratio, one.hosts_low, one.hosts_high))
    return tuple(rows)


def _logs(result: StudyResult, one: HostsEffect) -> dict[str, tuple[float, ...]]:
    """{host group: the effect of each of its blocks}."""
    effect = result.effect_of(one)
    logs = (effect.details.log_ratios or {}) if effect is not None else {}
    found: dict[str, tuple[float, ...]] = {}
    for block, value in logs.items():
        group = result.group_of.get(block, "")
        found[group] = (*found.get(group, ()), exp(value) - 1.0)
    return found


def _table_row(group: HostGroupEffect) -> list[str | Cell]:
    return [
        Cell(group.group),
        Cell("–" if group.ratio is None else signed_percent(group.ratio - 1.0), "num"),
        Cell(ratio_interval(group.ci_low, group.ci_high) or NONE, "num"),
        Cell(str(group.n), "num"),
    ]


def _overall_row(name: str, ratio: float | None, text: str, blocks: int) -> list[str | Cell]:
    effect = "" if ratio is None else signed_percent(ratio - 1.0)
    return [Cell(name), Cell(effect, "num strong"), Cell(text, "num"), Cell(str(blocks) if effect else "", "num")]


ANALYSIS = Analysis(chapter="answer", part=part, comment=part, stored="host_groups", analyse=analyse)
