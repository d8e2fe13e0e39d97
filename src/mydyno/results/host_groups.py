"""The host group as a factor of a study: each group's effect, whether they differ, and what may be said of other hosts.

A verdict is of these hosts: the mean over the study's host groups, each counting alike (stats/groups.py). It is claimed
of hosts like these only where there are three groups or more, the interval over the groups' means, adjusted by
Bonferroni over all contrasts with verdicts, shows the same, and no group's own interval shows the opposite. Groups
differ where the test of equal effects, adjusted by Holm over the same contrasts, is at most the study's error rate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from mydyno.model.load_level import load_level
from mydyno.model.metrics import phrase_of
from mydyno.model.quantities import format_bytes
from mydyno.model.records import StudyRecord
from mydyno.model.summary import (
    EffectRecord,
    HostGroupEffect,
    HostGroupsRecord,
    HostsEffect,
    RunSummary,
    StepLevel,
    Summary,
)
from mydyno.results.families import block_groups
from mydyno.results.plain_words import MOST_NAMES, listing, signed
from mydyno.stats.groups import FEWEST_GROUPS, group_effects, heterogeneity, hosts_interval, in_order
from mydyno.stats.paired import Interval
from mydyno.stats.permutation import holm

FIRST_FACTS = ("kernel", "cpu_model", "cpus", "cpus_usable", "cpu_governor", "memory_bytes")
"""Facts that are named first where they differ."""
NOT_COMPARED = ("hostname", "load_average_before")
NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def host_groups_of(
    study: StudyRecord,
    runs: Sequence[RunSummary],
    effects: Sequence[EffectRecord],
    alpha: float,
    margin_of: Callable[[str], float],
) -> HostGroupsRecord | None:
    """The record of a study over several host groups; None if all blocks were executed by one.

    `alpha` is the error rate of the study's simultaneous intervals, `margin_of` gives a metric's margin.
    """
    group_of = block_groups(runs)
    if not group_of:
        return None
    groups = in_order(group_of.values())
    return HostGroupsRecord(
        blocks={group: sum(of == group for of in group_of.values()) for group in groups},
        differences=fact_differences(study.hosts, groups),
        effects=hosts_effects(effects, group_of, alpha, margin_of),
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
            HostGroupEffect(
                group=group, n=one.n, ratio=one.ratio, ci_low=one.interval.low, ci_high=one.interval.high
            ) if (one := of_group.get(group)) else HostGroupEffect(group=group, n=0)
            for group in groups
        )  # fmt: skip
        hosts = hosts_interval(d, group_of, alpha / contrasts, 1.0 - alpha)
        p = adjusted.get(index)
        found.append(
            HostsEffect(
                metric=effect.metric,
                step=effect.step,
                arm=effect.arm,
                control=effect.control,
                groups=own,
                p_heterogeneity=tests[index].p,
                p_heterogeneity_adjusted=p,
                between_sd=tests[index].between_sd,
                differs=p is not None and p <= alpha,
                hosts_low=hosts.low,
                hosts_high=hosts.high,
                holds_on=_holds_on(effect, own, hosts, margin_of(effect.metric)),
            )
        )
    return tuple(found)


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


def fact_differences(
    hosts: Mapping[str, Mapping[str, Any]], groups: Sequence[str]
) -> dict[str, dict[str, str]]:  # fmt: skip
    """{fact: {group: value in words}} of what differs between the server hosts, kernel, CPU, governor, memory first.

    Values are compared as they are printed, so that two sizes of memory that read alike are equal.
    """
    known = {group: fact_words(hosts[group]) for group in groups if group in hosts}
    names = dict.fromkeys([*FIRST_FACTS, *sorted({name for facts in known.values() for name in facts})])
    found = {}
    for name in names:
        values = {group: facts[name] for group, facts in known.items() if name in facts}
        if name not in NOT_COMPARED and (len(set(values.values())) > 1 or 0 < len(values) < len(known)):
            found[name] = values
    return found


def fact_words(facts: Mapping[str, Any]) -> dict[str, str]:
    """The facts of one host in words; of the file system its type. Other facts with several parts are left out."""
    found = {}
    for name, value in facts.items():
        if name == "filesystem" and isinstance(value, Mapping):
            found[name] = str(value.get("type", ""))
        elif name.endswith("_bytes") and isinstance(value, int | float):
            found[name] = format_bytes(float(value))
        elif isinstance(value, bool):
            found[name] = "yes" if value else "no"
        elif isinstance(value, str | int | float):
            found[name] = str(value)
    return {name: words for name, words in found.items() if words}


def count_words(count: int) -> str:
    """A number of hosts in words up to ten: "two", "12"."""
    return NUMBERS[count] if count < len(NUMBERS) else str(count)


def these_hosts(groups: HostGroupsRecord) -> str:
    """The study's hosts as a claim names them: "these two hosts"."""
    return f"these {count_words(len(groups.blocks))} hosts"


def claim_words(groups: HostGroupsRecord) -> str:
    """What the study's verdicts are claimed of, as a clause."""
    decided = [effect for effect in groups.effects if effect.holds_on != "no host"]
    general = [effect for effect in decided if effect.holds_on == "hosts like these"]
    if decided and len(general) == len(decided):
        return "the claims are about hosts like these"
    if general:
        return f"the claims are about these hosts, {len(general)} of {len(decided)} also about hosts like these"
    few = f" (from {count_words(FEWEST_GROUPS)} on, about hosts like these)"
    return f"the claims are about these hosts alone{few if len(groups.blocks) < FEWEST_GROUPS else ''}"


def differing(groups: HostGroupsRecord) -> list[HostsEffect]:
    """The contrasts whose effect differs between the groups, the largest differences first."""
    return sorted((one for one in groups.effects if one.differs), key=lambda one: -(one.between_sd or 0.0))


def difference_clause(one: HostsEffect, summary: Summary) -> str:
    """That an effect differs between the hosts, and its size on each; of many hosts the least and the greatest."""
    of = "" if one.metric == summary.primary else f" on {phrase_of(one.metric).short_noun}"
    against = "" if one.control == summary.control else f" against {one.control}"
    return f"{one.arm}'s effect{of}{against} differs between the hosts{_at(one, summary.steps)}: {sizes(one)}"


def sizes(one: HostsEffect) -> str:
    """The effect on each host: "−8 % on vm01, +1 % on vm02"; of many hosts the least and the greatest."""
    known = [(group.ratio - 1.0, group.group) for group in one.groups if group.ratio is not None]
    if len(known) <= MOST_NAMES:
        return ", ".join(f"{signed(share)} on {name}" for share, name in known)
    (low, lowest), (high, highest) = min(known), max(known)
    return f"from {signed(low)} on {lowest} to {signed(high)} on {highest}"


def _at(one: HostsEffect, steps: Sequence[StepLevel]) -> str:
    """At which step, where there are several."""
    if len(steps) < 2:
        return ""
    step = next((step for step in steps if step.id == one.step), None)
    if step is None:
        return f" at {one.step}"
    several = len({step.workload for step in steps}) > 1
    return f" at {load_level(step.connections, step.rate)}" + (f" ({step.workload})" if several else "")


def hosts_sentences(summary: Summary) -> tuple[str, ...]:
    """The long form: how many hosts, what is claimed of which, and every contrast that differs between the hosts."""
    groups = summary.host_groups
    if groups is None:
        return ()
    names = [f"{name} ({count})" for name, count in groups.blocks.items()]
    sentences = [
        f"Blocks were executed on {len(names)} hosts: {listing(names)}. Effects are means over these hosts, each "
        f"counting alike; {claim_words(groups)}."
    ]
    for one in differing(groups):
        p = one.p_heterogeneity_adjusted or 0.0
        sentences.append(f"{difference_clause(one, summary)} (adjusted p {'< 0.001' if p < 0.001 else f'= {p:.3f}'}).")
    return tuple(sentences)


def hosts_answer(summary: Summary) -> str:
    """The answer's sentence about the hosts; empty if nothing differs and nothing more than the verdicts is shown."""
    groups = summary.host_groups
    if groups is None:
        return ""
    clauses = []
    found = differing(groups)
    shown = sorted(found, key=lambda one: one.metric != summary.primary)[:1]
    for one in shown:
        more = len(found) - 1
        clauses.append(
            difference_clause(one, summary)
            + (f", and {more} more effect{'s differ' if more > 1 else ' differs'}" if more else "")
        )
    decided = [one for one in groups.effects if one.holds_on != "no host"]
    if decided and len(groups.blocks) >= FEWEST_GROUPS:
        general = [one for one in decided if one.holds_on == "hosts like these"]
        if len(general) == len(decided) == 1:
            (one,) = general
            assert one.hosts_low is not None and one.hosts_high is not None
            clauses.append(f"on hosts like these it is between {signed(one.hosts_low - 1)} and "
                           f"{signed(one.hosts_high - 1)}")  # fmt: skip
        elif len(general) == len(decided):
            clauses.append("all of this holds for hosts like these as well")
        elif general:
            clauses.append(f"{len(general)} of {len(decided)} comparisons hold for hosts like these as well")
        else:
            clauses.append("nothing is shown for other hosts like these")
    text = "; ".join(clauses)
    return f"{text[:1].upper()}{text[1:]}." if text and not found else f"{text}." if text else ""
