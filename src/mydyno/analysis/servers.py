"""Where arms run different servers: the settings that still differ between them, for they are part of what is compared.

Variables that shape performance and that at least two of the servers have; the experiment's own are equal on all of
them, so what stands here are defaults. All variables are in the section on repeating the study.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import expm1

from mydyno.analysis.base import Analysis
from mydyno.document.parts import Cell, Note, Part, Table, glyph
from mydyno.document.result import StudyResult
from mydyno.language import agreed, listing
from mydyno.model.definition.plan import instances_of_each
from mydyno.model.definition.server_options import plain_name
from mydyno.model.stored.records import RunRecord
from mydyno.results.settings import SHOWN_LETTERS, SYNCED_WRITES, meaning_of, shapes_performance
from mydyno.servers.dsn import place_of
from mydyno.treatments.dsn import dsns_of
from mydyno.wording.numbers import signed
from mydyno.wording.stored_result import StoredResult

ABSENT = "has none"
MOST_SETTINGS = 3
"""Settings that the sentence names, those that can explain most; of more it states how many there are."""
EXPLAINING = (
    *SYNCED_WRITES, "innodb_buffer_pool_size", "innodb_redo_log_capacity", "innodb_log_file_size",
    "innodb_log_files_in_group", "innodb_log_buffer_size", "innodb_io_capacity", "innodb_flush_neighbors",
    "innodb_adaptive_hash_index", "performance_schema", "query_cache_type", "transaction_isolation", "tx_isolation",
)  # fmt: skip
"""Settings in the order of what they can explain; others follow, those of InnoDB first."""


def server_differences(runs: Sequence[RunRecord]) -> dict[str, dict[str, str | None]]:
    """{variable: {arm: value; None if that server has no such variable}}; empty if all were started by mydyno from one
    version.

    Only variables that shape performance and differ between two servers that both have them; a variable that one
    version alone has cannot be set alike, and there are hundreds. Paths and identities are left out. Of an arm with
    several servers, the values of all of them.
    """
    variables: dict[str, dict[str, dict[str, None]]] = {}
    versions = set()
    apart = any(one.treatment == "dsn" for run in runs for one in run.evidence)
    for run in runs:
        for server in run.servers[:1]:
            of_arm = variables.setdefault(run.arm, {})
            for name, value in server.variables.items():
                of_arm.setdefault(name.lower(), {})[value] = None
            versions.add(server.version)
    if len(versions) < 2 and not apart:
        return {}
    names = sorted({name for of_arm in variables.values() for name in of_arm if shapes_performance(name)})
    differing = {}
    for name in names:
        values = {arm: list(of_arm.get(name, ())) for arm, of_arm in sorted(variables.items())}
        if len({meaning_of(value) for found in values.values() for value in found}) > 1:
            shown = {arm: " or ".join(found)[:SHOWN_LETTERS] for arm, found in values.items()}
            differing[name] = {arm: text if values[arm] else None for arm, text in shown.items()}
    return differing


def most_explaining(names: Iterable[str]) -> list[str]:
    """The settings in the order of what they can explain."""
    rank = {name: index for index, name in enumerate(EXPLAINING)}
    return sorted(names, key=lambda name: (rank.get(name, len(rank)), not name.startswith("innodb_"), name))


def part(result: StudyResult) -> Part | None:
    """The section, or None if all arms run one version or no setting differs, and each arm has one server."""
    tables, count = _tables(result), len(result.summary.server_differences)
    if instances_of_each(result.study.experiment) > 1:
        tables.append(_instances(result))
    if not tables:
        return None
    has = "shapes performance has" if count == 1 else "shape performance have"
    intro = agreed(
        f"The arms run different servers under the experiment's own settings. {count} further settings that {has} "
        "another value on some of them, by default or because that version knows no other: an effect of the server "
        f"includes the effects of {'it' if count == 1 else 'these'}."
    )
    return Part(
        id="servers", heading="Servers, and how their settings differ", folded=True,
        says=agreed(f"{count} settings that shape performance differ") if count else "",
        body=[settings_compared(result), Note(intro if count else "", "intro"), *tables],
    )  # fmt: skip


def lines(result: StudyResult) -> list[str]:
    """For a terminal: what differs."""
    return [*filter(None, [settings_compared(result)])]


def _tables(result: StudyResult) -> list[Table]:
    found = differing_settings(result)
    return [] if found is None else [Table("As reported by the servers (SHOW GLOBAL VARIABLES)", *found, look="facts")]


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
    head = ("arm", "load level", "its instance", "the control's", "effect")
    return Table(
        f"{result.metric_name(result.summary.primary)}: the effect with each instance (no verdict)", head, rows
    )


def settings_compared(result: StoredResult) -> str:
    """How many of the experiment's settings the servers report alike, and which others differ; empty if none does."""
    differences = result.summary.server_differences
    differing = most_explaining(differences)
    if not differing:
        return ""
    first = {record.arm: record.servers[0].variables for record in result.records.values() if record.servers}
    servers = [{name.lower(): meaning_of(value) for name, value in one.items()} for one in first.values()]
    own = [plain_name(name) for name in result.study.experiment.server.variables]
    common = [name for name in own if all(name in one for one in servers)]
    equal = sum(len({one[name] for one in servers}) == 1 for name in common)
    named = [_with_values(result, name) for name in differing[:MOST_SETTINGS]]
    if len(differing) > MOST_SETTINGS:
        named.append(f"{len(differing) - MOST_SETTINGS} more")
    sentences = []
    if own:
        same = agreed(
            f"The servers report the same value of {equal} of the experiment's {len(own)} settings "
            f"({len(own) - len(common)} {'does' if (len(own) - len(common)) == 1 else 'do'} not exist on every server)."
        )
        sentences.append(same)
    different = (
        f"{len(differing)} setting that shapes performance differs: {listing(named)}."
        if len(differing) == 1
        else agreed(f"{len(differing)} settings that shape performance differ: {listing(named)}.")
    )
    return " ".join([*sentences, different])


def _with_values(result: StoredResult, name: str) -> str:
    """The setting with its values, of a study with two arms the control's first."""
    values = result.summary.server_differences[name]
    if len(values) != 2 or result.summary.control not in values:
        return name
    before, after = sorted(values, key=lambda arm: arm != result.summary.control)
    shown = [ABSENT if values[arm] is None else values[arm] or "(empty)" for arm in (before, after)]
    return f"{name} ({' → '.join(map(str, shown))})"


def differing_settings(result: StoredResult) -> tuple[list[str], list[list[str]]] | None:
    """(head, rows): one row a variable, one column an arm, versions first; None if nothing differs."""
    differences = result.summary.server_differences
    if not differences:
        return None
    told = {arm for values in differences.values() for arm in values}
    arms = [arm for arm in result.arms if arm in told]
    first = {record.arm: record.servers[0] for record in reversed(list(result.records.values())) if record.servers}
    rows = [["version", *(first[arm].version if arm in first else "–" for arm in arms)]]
    for name in most_explaining(differences):
        values = differences[name]
        shown = (values.get(arm) for arm in arms)
        rows.append([name, *(ABSENT if value is None else value or "(empty)" for value in shown)])
    return ["variable", *arms], rows


ANALYSIS = Analysis(
    part=part, comment=part, stored="server_differences", lines=lines,
    analyse=lambda study: server_differences(study.every_record),
)  # fmt: skip
