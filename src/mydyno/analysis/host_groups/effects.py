"""The host group as a factor of a study: each group's effect, whether they differ, and what may be said of other hosts.

A verdict is of these hosts: the mean over the study's host groups, with equal weights (stats/groups.py). It is claimed
of hosts like these only where there are three groups or more, the interval over the groups' means, adjusted by
Bonferroni over all contrasts with verdicts, shows the same, and no group's own interval shows the opposite. Groups
differ where the test of equal effects, adjusted by Holm over the same contrasts, is at most the study's error rate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from mydyno.analysis.base import Examined
from mydyno.model.stored.summary import EffectRecord, HostGroupEffect, HostGroupsRecord, HostsEffect, block_groups
from mydyno.results.host_facts import fact_differences
from mydyno.stats.groups import group_effects, heterogeneity, hosts_interval, in_order
from mydyno.stats.paired import Interval
from mydyno.stats.permutation import holm


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
