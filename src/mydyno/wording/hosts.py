"""A study's host groups: how many, how they differ, and what the verdicts are claimed of."""

from __future__ import annotations

import math
from collections.abc import Sequence

from mydyno.language import agreed, listing
from mydyno.model.stored.summary import FEWEST_HOSTS, HostGroupsRecord, HostsEffect, StepLevel, Summary
from mydyno.results.settings import Fact
from mydyno.wording.numbers import MOST_NAMES, half_width_text, signed

NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
FACT_NAMES = {
    "address_space_randomisation": "address space randomisation",
    "clock_source": "clock source",
    "cpu_governor": "CPU governor",
    "cpu_model": "CPU",
    "cpus": "CPUs",
    "cpus_usable": "usable CPUs",
    "glibc": "glibc",
    "memory_bytes": "memory",
    "numa_nodes": "NUMA nodes",
    "transparent_hugepages": "transparent huge pages",
    "transparent_hugepages_defrag": "defragmentation for huge pages",
}


def fact_name(fact: str) -> str:
    """A fact of a host as tables name it."""
    return FACT_NAMES.get(fact) or fact.removesuffix("_bytes").replace("_", " ")


def fact_words(value: Fact) -> str:
    """The value of a fact."""
    return value if isinstance(value, str) else "yes" if value else "no"


def count_words(count: int) -> str:
    """A number of hosts in words up to ten: "two", "12"."""
    return NUMBERS[count] if count < len(NUMBERS) else str(count)


def these_hosts(groups: HostGroupsRecord) -> str:
    """The study's hosts as a claim names them: "these two hosts"."""
    return agreed(f"these {count_words(len(groups.blocks))} hosts")


def claim_words(groups: HostGroupsRecord) -> str:
    """What the study's verdicts are claimed of, as a clause."""
    decided = [effect for effect in groups.effects if effect.holds_on != "no host"]
    general = [effect for effect in decided if effect.holds_on == "hosts like these"]
    if decided and len(general) == len(decided):
        return "the claims apply to hosts like these"
    if general:
        return f"the claims apply to these hosts, {len(general)} of {len(decided)} also to hosts like these"
    whose = these_hosts(groups) if len(groups.blocks) < FEWEST_HOSTS else "these hosts"
    return f"the claims apply to {whose} only"


def differing(groups: HostGroupsRecord) -> list[HostsEffect]:
    """The contrasts whose effect differs between the groups, the largest differences first."""
    return sorted((one for one in groups.effects if one.differs), key=lambda one: -(one.between_sd or 0.0))


def difference_clause(one: HostsEffect, summary: Summary) -> str:
    """That an effect differs between the hosts, and its size on each; of many hosts the least and the greatest."""
    of = "" if one.metric == summary.primary else f" on {summary.phrase(one.metric).short_noun}"
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
    level = step.level
    if len({step.workload for step in steps}) > 1:
        return f" at {level} ({step.workload})"
    return f" at {level}"


def p_words(one: HostsEffect) -> str:
    """The p of equal effects on all hosts, adjusted: "< 0.001", "= 0.012"."""
    p = one.p_heterogeneity_adjusted or 0.0
    return "< 0.001" if p < 0.001 else f"= {p:.3f}"


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
        others = f", and {more} more effect differs" if more == 1 else agreed(f", and {more} more effects differ")
        clauses.append(difference_clause(one, summary) + (others if more else ""))
    decided = [one for one in groups.effects if one.holds_on != "no host"]
    if decided and len(groups.blocks) >= FEWEST_HOSTS:
        general = [one for one in decided if one.holds_on == "hosts like these"]
        if len(general) == len(decided) == 1:
            (one,) = general
            assert one.hosts_low is not None and one.hosts_high is not None
            low, high = signed(one.hosts_low - 1), signed(one.hosts_high - 1)
            clauses.append(f"on hosts like these it is between {low} and {high}")
        elif len(general) == len(decided):
            clauses.append("all of this holds for hosts like these as well")
        elif general:
            clauses.append(agreed(f"{len(general)} of {len(decided)} comparisons hold for hosts like these as well"))
        else:
            clauses.append("nothing is shown for other hosts like these")
    text = "; ".join(clauses)
    return f"{text if found else text[:1].upper() + text[1:]}." if text else ""


def hosts_sharpen(summary: Summary) -> list[str]:
    """What a claim about hosts like these needs, where a verdict is claimed of these hosts alone."""
    groups = summary.host_groups
    alone = [] if groups is None else [one for one in groups.effects if one.holds_on == "these hosts"]
    if groups is None or not alone:
        return []
    if len(groups.blocks) < FEWEST_HOSTS:
        return [agreed(f"A claim about hosts like these needs at least {count_words(FEWEST_HOSTS)} hosts.")]
    widths = [math.expm1(math.log(one.hosts_high / one.hosts_low) / 2) for one in alone
              if one.hosts_low and one.hosts_high]  # fmt: skip
    if not widths:
        return []
    width = half_width_text(max(widths))
    return [f"Hosts like these: {width} now; more hosts make it narrower."]


def on_these_hosts(summary: Summary, sentences: Sequence[str]) -> list[str]:
    """The sentences with the number of hosts before the first one; as they are in a study of one."""
    if summary.host_groups is None or not sentences:
        return list(sentences)
    first, *rest = sentences
    if first.startswith(("All ", "In ", "No ", "The ")):
        first = f"{first[0].lower()}{first[1:]}"
    return [f"On {these_hosts(summary.host_groups)}, {first}", *rest]


def one_line(summary: Summary) -> str:
    """The hosts on one line, for a terminal; empty in a study of one host group."""
    groups = summary.host_groups
    if groups is None:
        return ""
    facts = [fact_name(fact) for fact in groups.differences]
    more = len(facts) - MOST_NAMES
    shown = [*facts[:MOST_NAMES], f"{more} more"] if more > 0 else facts
    counts = ", ".join(f"{name} {count}" for name, count in list(groups.blocks.items())[:MOST_NAMES])
    counts += "" if len(groups.blocks) <= MOST_NAMES else " …"
    return f"Blocks on each host: {counts}." + (f" The hosts differ in {listing(shown)}." if shown else "")
