"""What a study writes to an external server, found before anything is executed there: by its load, and for its data.

A file of SQL and a capture are read whole by dynoload. Of a Lua script, only its execution shows the statements. A
statement counts as one that reads by its text: a stored function that it calls may write nevertheless.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mydyno.drivers.base import SCHEMA
from mydyno.drivers.dynoload import load_of_file
from mydyno.errors import UserError
from mydyno.hosts.paths import HostPaths
from mydyno.language import listing
from mydyno.model.definition.experiment import Experiment, Step
from mydyno.servers.dsn import parse_dsn
from mydyno.treatments.dsn import dsns_of
from mydyno.workloads.files import run_check

READ_ONLY_WORKLOADS = frozenset(
    ("connect", "oltp_read_only", "oltp_point_select", "select_random_points", "select_random_ranges")
)
MOST_SHOWN = 5
"""Statements of one step."""
MOST_LETTERS = 100


@dataclass(frozen=True)
class StepWrites:
    """What one step writes or locks."""

    step: str
    tables: tuple[str, ...]
    """Empty: unknown."""
    statements: tuple[str, ...]
    """Their texts without literals; empty: unknown."""

    @property
    def words(self) -> str:
        """For people."""
        tables = listing(self.tables) if self.tables else "any table"
        shown = [one if len(one) <= MOST_LETTERS else f"{one[:MOST_LETTERS]}…" for one in self.statements[:MOST_SHOWN]]
        more = len(self.statements) - len(shown)
        if more > 0:
            shown.append(f"and {more} more")
        return f"load level {self.step} writes to or locks {tables}" + (f" ({'; '.join(shown)})" if shown else "")


def schemas_of(experiment: Experiment) -> tuple[str, ...]:
    """The schemas of the arms' external servers."""
    dsns = [dsn for arm in experiment.arms for dsn in dsns_of(arm, experiment.server)]
    return tuple(dict.fromkeys(parse_dsn(dsn).database or SCHEMA for dsn in dsns))


def load_writes(experiment: Experiment, paths: HostPaths) -> tuple[StepWrites, ...]:
    """Of each step that does not only read. Raises UserError for a file that is none, and for writes elsewhere."""
    found: list[StepWrites] = []
    checked = set()
    for step in experiment.resolved_steps:
        once = (step.workload, step.file, str(step.options))  # the same at each number of connections
        if once not in checked:
            checked.add(once)
            found += _writes_of(step, experiment, paths)
    return tuple(found)


def _writes_of(step: Step, experiment: Experiment, paths: HostPaths) -> Iterator[StepWrites]:
    if step.statements:
        return  # on these servers only what reads is compared
    if step.file is None:
        if step.workload not in READ_ONLY_WORKLOADS:
            count = experiment.data.tables
            yield StepWrites(step.id, ("sbtest1" if count == 1 else f"sbtest1 to sbtest{count}",), ())
        return
    if step.script is not None:
        yield StepWrites(step.id, (), ("a script: its statements are known only when it is executed",))
        return
    found: list[dict[str, object]] = []
    for schema in schemas_of(experiment):
        load = [*load_of_file(step, experiment.data), f"--database={schema}", "--check"]
        try:
            found = json.loads(run_check(paths.program("dynoload"), load))["writing"]
        except UserError as error:
            raise UserError(f"load level {step.id}: {error.message}") from error
        for one in found:
            if one["elsewhere"]:
                raise UserError(
                    f"load level {step.id}: a statement writes outside of the schema {schema} of the DSN: "
                    f"{one['statement']}",
                    "remove it; of a capture, options.read_only = true leaves out what writes",
                )
    if found:
        tables = sorted({str(table) for one in found for table in _strings(one["tables"])})
        yield StepWrites(step.id, tuple(tables), tuple(str(one["statement"]) for one in found))


def _strings(found: object) -> Sequence[object]:
    return found if isinstance(found, list) else ()
