"""Settings that differ between the servers of a study's arms, as a sentence above the answer and as rows."""

from __future__ import annotations

from mydyno.language import agreed, listing
from mydyno.model.definition.server_options import plain_name
from mydyno.results.why.server_differences import meaning_of, most_explaining
from mydyno.wording.stored_result import StoredResult

ABSENT = "has none"
MOST_SETTINGS = 3
"""Settings that the sentence names, those that can explain most; of more it states how many there are."""


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
            f"({len(own) - len(common)} {'does' if (len(own) - len(common)) == 1 else 'do'} not exist on every "
            "server)."
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
