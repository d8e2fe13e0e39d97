"""The counters of information_schema.innodb_metrics that a server has enabled: its default ones.

None is enabled here, since some of them cost the measured slices too (server.variables.innodb_monitor_enable does it).
Only counters are read: values, and sets of counters with an owner, are nothing per operation. It takes one query.
"""

from __future__ import annotations

from mydyno.servers.sql import Control

_COLUMN = (
    "SELECT COLUMN_NAME FROM information_schema.columns WHERE LOWER(TABLE_SCHEMA) = 'information_schema' "
    "AND UPPER(TABLE_NAME) = 'INNODB_METRICS' AND UPPER(COLUMN_NAME) IN ('STATUS', 'ENABLED')"
)
"""MariaDB 10.5 and later has ENABLED = 1 in place of STATUS = 'enabled'."""
_READ = "SELECT NAME, `COUNT` FROM information_schema.innodb_metrics WHERE {enabled} AND TYPE IN ({types})"
_TYPES = "'counter', 'status_counter'"
_LEVELS = ("_current_waits", "_reserved", "_free_space")
"""Ends of the names of levels that some versions call counters."""


async def read_metrics(control: Control) -> dict[str, float]:
    """{counter: its value}; empty where the server has no such table. Raises ServerError."""
    columns = [str(name).upper() for (name,) in await control.rows(_COLUMN)]
    if not columns:
        return {}
    enabled = "ENABLED = 1" if "ENABLED" in columns else "STATUS = 'enabled'"
    rows = await control.rows(_READ.format(enabled=enabled, types=_TYPES))
    return {str(name): float(count) for name, count in rows if not str(name).endswith(_LEVELS)}


def metrics_grown(before: dict[str, float], after: dict[str, float]) -> dict[str, float]:
    """What was added; a counter that was reset added nothing."""
    return {
        name: value - before[name] for name, value in after.items() if name in before and value > before[name]
    }  # fmt: skip
