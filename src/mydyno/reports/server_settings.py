"""Settings that differ between the servers of a study's arms, as rows for every format."""

from __future__ import annotations

from mydyno.language import marked, tr
from mydyno.reports.result import StudyResult

ABSENT = marked("has none")


def differing_settings(result: StudyResult) -> tuple[list[str], list[list[str]]] | None:
    """(head, rows): one row a variable, one column an arm, versions first; None if nothing differs."""
    differences = result.summary.server_differences
    if not differences:
        return None
    told = {arm for values in differences.values() for arm in values}
    arms = [arm for arm in result.styles if arm in told]
    first = {record.arm: record.servers[0] for record in reversed(list(result.records.values())) if record.servers}
    rows = [[tr("version"), *(first[arm].version if arm in first else "–" for arm in arms)]]
    for name, values in differences.items():
        shown = (values.get(arm) for arm in arms)
        rows.append([name, *(tr(ABSENT) if value is None else value or tr("(empty)") for value in shown)])
    return [tr("variable"), *arms], rows
