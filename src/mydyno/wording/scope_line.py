"""Where and when a study's answer holds, as one line that is printed once; and its host groups: how many, how they
differ, and what the verdicts are claimed of.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

from mydyno.language import agreed, listing
from mydyno.model.definition.experiment import Experiment
from mydyno.model.definition.plan import instances_of_each, servers_together
from mydyno.model.definition.quantities import format_bytes, parse_bytes
from mydyno.model.definition.special_steps import EARLY, EARLY_QUERIES, MEMORY, QUERIES, speed_of
from mydyno.model.metrics import GROWTH
from mydyno.model.server_version import ServerVersion
from mydyno.model.stored.records import RunRecord, ServerRecord, StudyRecord
from mydyno.model.stored.summary import FEWEST_HOSTS, HostGroupsRecord, HostsEffect, Summary, at_step
from mydyno.results.precision import finished_blocks
from mydyno.results.settings import Fact, treatments
from mydyno.servers.dsn import place_of
from mydyno.servers.my_cnf import DURABILITY
from mydyno.wording.numbers import MOST_NAMES, blocks, half_width_text, signed, size, whole
from mydyno.workloads.data import kind_of
from mydyno.workloads.tpcc import used_warehouses

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
    return f"{one.arm}'s effect{of}{against} differs between the hosts{at_step(summary.steps, one.step)}: {sizes(one)}"


def sizes(one: HostsEffect) -> str:
    """The effect on each host: "−8 % on vm01, +1 % on vm02"; of many hosts the least and the greatest."""
    known = [(group.ratio - 1.0, group.group) for group in one.groups if group.ratio is not None]
    if len(known) <= MOST_NAMES:
        return ", ".join(f"{signed(share)} on {name}" for share, name in known)
    (low, lowest), (high, highest) = min(known), max(known)
    return f"from {signed(low)} on {lowest} to {signed(high)} on {highest}"


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


def scope_line(summary: Summary, study: StudyRecord, records: Sequence[RunRecord], with_tests: bool = True) -> str:
    """Host or hosts with what is claimed of which, server, workloads, data against buffer pool, durability, what every
    arm sets, blocks, servers up together, with_tests: the comparisons of the report; dates.
    """
    experiment = study.experiment
    servers = [server for record in records for server in record.servers]
    names = tuple(dict.fromkeys(ServerVersion.parse(server.version).name for server in servers))
    hosts = _host(study) if summary.host_groups is None else hosts_scope(summary.host_groups, study)
    parts = [hosts, load_words(study), listing(names) if names else "", _load(experiment), _data(experiment, servers)]
    common, differing = _durability(records)
    parts += [*common, *differing]
    if differing:
        parts.append(_synced_write(study))
    parts += _common_treatments(experiment)
    parts.append(blocks(finished_blocks(summary)))
    if summary.design == "switchback":
        parts.append("one server at a time, its settings switched between slices")
    elif summary.design == "interleaved" and experiment.server.dsn is not None:
        parts.append("loaded in turn, in slices")
    elif summary.design == "interleaved":
        count = servers_together(experiment)
        parts.append(agreed(f"{count} servers up at the same time, one loaded at a time"))
    parts.append(_memory(summary))
    tested = sum(effect.verdict is not None and effect.ratio is not None for effect in summary.effects)
    if with_tests and tested > 1:
        parts.append(
            agreed(f"{tested} comparisons tested together by permutation of labels, error rate {size(summary.alpha)}")
        )
    parts.append(_dates(records))
    return f"{'; '.join([part for part in parts if part])}."


def memory_queries(summary: Summary, amount: str = QUERIES) -> str:
    """After how many queries of a server memory is compared, as in "160,000", or "160,000 to 310,000" over the steps,
    which count on; empty where that is not known.
    """
    by_step: dict[str, list[float]] = {}
    for run in summary.runs:
        for step, values in run.values.items():
            if amount in values:
                by_step.setdefault(step, []).append(values[amount])
    amounts = sorted(float(f"{median(found):.2g}") for found in by_step.values())
    return " to ".join(dict.fromkeys(whole(pick(amounts)) for pick in (min, max))) if amounts else ""


def _memory(summary: Summary) -> str:
    """After how many queries memory is compared, where a verdict is on it, since it depends on that; and what it was
    earlier and how it grows, where the study has one load level.
    """
    count = memory_queries(summary)
    if not count or not any(effect.verdict and effect.metric in MEMORY for effect in summary.effects):
        return ""
    early = memory_queries(summary, EARLY_QUERIES)
    beside = []
    own = [one for one in summary.effects if one.metric == EARLY and one.control == summary.control]
    changes = [f"{one.arm} {signed(one.ratio - 1)}" for one in own if one.ratio is not None]
    growth: dict[str, list[float]] = {}
    for run in summary.runs:
        for values in run.values.values():
            if GROWTH in values:
                growth.setdefault(run.arm, []).append(values[GROWTH] - 1)
    control_first = sorted(growth, key=lambda arm: arm != summary.control)
    grown = [f"{arm} {signed(median(growth[arm]))}" for arm in control_first]
    at = f"after {early}" if early else "early in the load"
    for words, each in ((at, changes), ("growth per million queries", grown)):
        if len(summary.steps) == 1 and 0 < len(each) <= MOST_NAMES:
            beside.append(f"{words}: {', '.join(each)}")
    return agreed(f"memory after {count} queries of each server") + (f" ({'; '.join(beside)})" if beside else "")


def _durability(records: Sequence[RunRecord]) -> tuple[list[str], list[str]]:
    """What decides whether a commit waits for the disk: settings that all servers have alike, and those that differ,
    with each arm's value. sync_binlog counts only where the server writes a binary log.
    """
    by_arm = {record.arm: record.servers[0].variables for record in records if record.servers}
    common: list[str] = []
    differing: list[str] = []
    logs = {arm: variables["log_bin"] for arm, variables in by_arm.items() if "log_bin" in variables}
    writes = {arm: variables for arm, variables in by_arm.items() if logs.get(arm, "ON").upper() in ("ON", "1")}
    of_arms = {DURABILITY[0]: by_arm, "log_bin": by_arm if len(set(logs.values())) > 1 else {}, DURABILITY[1]: writes}
    for name, arms in of_arms.items():
        values = {arm: variables[name] for arm, variables in arms.items() if name in variables}
        if len(set(values.values())) > 1:
            each = [f"{value} with {arm}" for arm, value in values.items()]
            differing.append(f"{name}={listing(each)}" if len(each) <= MOST_NAMES else f"{name} differs")
        elif values and len(set(logs.values())) > 1 and name == DURABILITY[1]:
            common.append(f"{name}={min(values.values())} with {listing(list(values))}")
        elif values:
            common.append(f"{name}={min(values.values())}")
    return common, differing


MOST_ARMS, MOST_SETTINGS = 16, 6
"""Arms of which the settings are stated, and settings of each."""


def _common_treatments(experiment: Experiment) -> list[str]:
    """What every arm sets alike, but for server, durability and buffer pool, which have clauses of their own."""
    of_arms = [treatments(arm) for arm in experiment.arms]
    common = {name: value for name, value in of_arms[0].items() if all(arm.get(name) == value for arm in of_arms)}
    words = {"one": "server and load on one CPU", "apart": "server and load on CPUs of their own"}
    parts = [words[affinity]] if (affinity := common.pop("affinity", None)) else []
    settings = {name.removeprefix("variables."): value for name, value in common.items()}
    said = {*DURABILITY, "innodb_buffer_pool_size"}
    parts += [
        f"{name}={value}" for name, value in settings.items() if name not in said and name.partition(".")[0] != "server"
    ]
    return parts


def arms_words(experiment: Experiment) -> str:
    """What each arm sets otherwise than the others, where a name does not say it; empty where every name does."""
    of_arms = {arm.name: treatments(arm) for arm in experiment.arms}
    names = dict.fromkeys(name for own in of_arms.values() for name in own if name != "dsn")  # the scope names these
    names = {name: None for name in names if len({own.get(name) for own in of_arms.values()}) > 1}
    base = {f"variables.{name}": str(value) for name, value in experiment.server.variables.items()}
    told = {
        arm: {name: value for name in names if (value := own.get(name) or base.get(name)) is not None}
        for arm, own in of_arms.items()
    }
    is_plain = all(_letters(value) in _letters(arm) for arm, own in told.items() for value in own.values())
    if is_plain or experiment.screen is not None or len(told) > MOST_ARMS:
        return ""
    clauses = []
    for arm, own in told.items():
        settings = [f"{name.removeprefix('variables.')}={value}" for name, value in own.items()]
        if len(settings) > MOST_SETTINGS:
            settings[MOST_SETTINGS:] = [f"{len(settings) - MOST_SETTINGS} more"]
        clauses.append(f"{arm}: {', '.join(settings) or 'sets nothing'}")
    return f"What the arms set: {'; '.join(clauses)}."


def _letters(text: str) -> str:
    return "".join(one for one in text.casefold() if one.isalnum())


def _synced_write(study: StudyRecord) -> str:
    """How long the disk took for a synced write before the study; empty if unknown, as for servers on other hosts."""
    if study.host_groups:
        return ""
    rate = study.host.get("synced_writes_per_s")
    return f"a synced write of 4 KB took {1000 / rate:.2g} ms" if rate else ""


def load_words(study: StudyRecord) -> str:
    """Where the load ran, if it was not the servers' host: "server on a1, load from a2 and a3"."""
    groups = [group for group in study.host_groups if group.clients]
    if len(groups) == 1:
        server = str(study.host.get("hostname") or groups[0].server or "this host")
        return f"server on {server}, load from {listing(tuple(groups[0].client_names))}"
    if not groups:
        return ""
    counts = sorted({len(group.clients) for group in groups})
    many = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return agreed(f"each server was loaded from {many} other hosts")


def common_variable(servers: Sequence[ServerRecord], variable: str) -> str | None:
    """The variable's value where all servers that have it agree: what an arm changes is no part of the scope."""
    with_sql = [server for server in servers if server.flavour != "memcached"] or servers
    values = {server.variables[variable] for server in with_sql if variable in server.variables}
    return values.pop() if len(values) == 1 else None


def _host(study: StudyRecord) -> str:
    server = study.experiment.server
    if server.dsn is None:
        return f"Host {_named(study.host)}"
    load = _named(study.host)
    if (count := instances_of_each(study.experiment)) > 1:
        of_arms = [
            f"{listing(tuple(map(place_of, arm.treatments['dsn'])))} ({arm.name})" for arm in study.experiment.arms
        ]
        return (
            f"External servers {'; '.join(of_arms)}, {count} of each, one in each block: intervals are over instances; "
            f"load from {load}"
        )
    places = {arm.name: place_of(arm.treatments["dsn"]) for arm in study.experiment.arms if "dsn" in arm.treatments}
    if len(set(places.values())) > 1:
        named = listing(tuple(f"{place} ({arm})" for arm, place in places.items()))
        return (
            f"External servers {named}, one of each: differences are those of these servers and say nothing of other "
            f"servers of these versions; load from {load}"
        )
    there = place_of(server.dsn)
    if not study.server_host:
        return f"External server {there}, load from {load}"
    return f"External server {there} on {_named(study.server_host)}, load from {load}"


def _named(facts: Mapping[str, Any]) -> str:
    name = str(facts.get("hostname") or "this host")
    known = host_size(facts)
    return f"{name} ({known})" if known else name


def hosts_scope(groups: HostGroupsRecord, study: StudyRecord) -> str:
    """The hosts with their size, and what is claimed of which: "2 hosts: vm01 and vm02 (16 CPUs, 64 GiB each)"."""
    names = tuple(groups.blocks)
    sizes = {name: host_size(study.hosts.get(name, {})) for name in names}
    if len(set(sizes.values())) == 1:
        each = f" ({sizes[names[0]]} each)" if sizes[names[0]] else ""
        of = f": {listing(names)}" + each if len(names) <= MOST_NAMES else each
    elif len(names) <= MOST_NAMES:
        named = [f"{name} ({size})" if size else name for name, size in sizes.items()]
        of = f": {listing(named)}"
    else:
        of = f" ({len(set(sizes.values()))} sizes)"
    return agreed(f"{len(names)} hosts{of}; effects are means over these hosts, and {claim_words(groups)}")


def host_size(facts: Mapping[str, Any]) -> str:
    """CPUs and memory of a host: "16 CPUs, 64 GiB"; empty if unknown."""
    cpus = facts.get("cpus_usable") or facts.get("cpus")
    memory = facts.get("memory_usable_bytes") or facts.get("memory_bytes")
    size = [f"{cpus:g} {'CPU' if cpus == 1 else 'CPUs'}" if cpus else ""]
    size.append(format_bytes(float(memory)) if isinstance(memory, int | float) else "")
    return ", ".join(filter(None, size))


def _load(experiment: Experiment) -> str:
    """The workloads with their levels: "oltp_read_only at 16 and 64 connections"."""
    levels: dict[tuple[str, str], list[str]] = {}
    paced = []
    for step in experiment.resolved_steps:
        if speed_of(step) is not None:
            paced.append(
                agreed(
                    f"{step.workload} at {speed_of(step):g} times the captured speed on {step.connections} connections"
                )
            )
            continue
        unit = "" if step.rate is None else str(step.connections)
        at_most = "up to " if step.search is not None and step.search.of == "connections" else ""
        levels.setdefault((step.workload, unit), []).append(
            f"{at_most}{step.connections}" if step.rate is None else f"{step.rate:,.10g}"
        )
    words = paced
    for (workload, unit), amounts in levels.items():
        each = listing(tuple(dict.fromkeys(amounts)))
        if unit:
            words.append(agreed(f"{workload} at {each} transactions/s on {unit} connections"))
        else:
            words.append(agreed(f"{workload} at {each} connections"))
    if any(step.options.get("read_only") is True for step in experiment.resolved_steps):
        words.append("without the statements that write")
    return ", ".join(words)


def _data(experiment: Experiment, servers: Sequence[ServerRecord]) -> str:
    data = experiment.data
    kind = kind_of(data)
    words, size = kind.words(data), kind.rows_bytes(data)
    if (used := used_warehouses(data, experiment.resolved_steps)) < data.warehouses:
        words, size = f"{used} of {words}", kind.rows_bytes(data.model_copy(update={"warehouses": used}))
    found = servers[0].tables if servers else None
    if data.statistics is not None:
        # The servers state the tables' sizes by these.
        return f"{words}, with the optimizer statistics of {Path(data.statistics).name}"
    if size is None and found is not None:
        size = found.size_bytes
        words = agreed(f"{words} ({found.tables} tables, about {found.rows:,} rows, {format_bytes(size)})")
    pool = common_variable(servers, "innodb_buffer_pool_size")
    if not pool or not pool.isdigit():
        return words
    of_pool = parse_bytes(int(pool))
    if size is None:
        return f"{words}, a buffer pool of {format_bytes(of_pool)}"
    return agreed(f"{words}, {size / of_pool:.2g} times the buffer pool of {format_bytes(of_pool)}")


def _dates(records: Sequence[RunRecord]) -> str:
    dates = sorted(datetime.fromtimestamp(one.started_unix_ns / 1e9, UTC).date().isoformat() for one in records)
    if not dates:
        return ""
    return dates[0] if dates[0] == dates[-1] else f"{dates[0]} to {dates[-1]}"
