"""What reports print of a study's host groups: facts that differ, effects on each host, plain words; in all formats."""

from __future__ import annotations

from mydyno.language import agreed, listing
from mydyno.model.stored.summary import HostGroupsRecord, HostsEffect
from mydyno.results.host_facts import FIRST_FACTS, comparable_facts
from mydyno.wording.hosts import claim_words, difference_clause, differing, fact_name, fact_words, p_words
from mydyno.wording.numbers import MOST_NAMES, NONE, ratio_interval, signed_percent
from mydyno.wording.stored_result import StoredResult

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
