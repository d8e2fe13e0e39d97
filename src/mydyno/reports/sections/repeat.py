"""Everything needed to repeat or question the study: host, versions, settings, commands, windows, limits."""

from __future__ import annotations

import json
from collections.abc import Iterable
from shlex import join

from mydyno.document.parts import Cell, Part, Table, render
from mydyno.document.result import StudyResult
from mydyno.language import agreed
from mydyno.model.definition.plan import builds_of
from mydyno.model.definition.quantities import format_bytes, format_duration
from mydyno.model.stored.records import RunRecord
from mydyno.wording.numbers import margin_text
from mydyno.wording.scope_line import claim_words
from mydyno.wording.verdicts import invalid_runs

PER_RUN_VARIABLES = {
    "datadir", "general_log_file", "log_error", "pid_file", "port", "pseudo_thread_id", "server_uid", "server_uuid",
    "slow_query_log_file", "socket", "timestamp", "tmpdir", "innodb_tmpdir", "relay_log_info_file",
}  # fmt: skip
"""Variables that differ between any two runs and are irrelevant for the arms."""
HOST_FACTS = {
    "hostname": "name",
    "distribution": "distribution",
    "kernel": "kernel",
    "cpu_model": "CPU",
    "cpus_usable": "CPUs usable",
    "memory_bytes": "memory",
    "virtualisation": "virtualisation",
    "transparent_hugepages": "transparent huge pages",
}
"""{fact: its name in the table}."""


def build(result: StudyResult) -> Part:
    """The section."""
    records = list(result.records.values())
    configuration, same = _configuration(result, records)
    html = render(
        "repeat.html",
        limits=limits(result),
        command=join(result.study.command),
        source=result.study.experiment_source,
        seed=result.plan.seed,
        host=_host(result.study.host) if result.summary.host_groups is None else None,
        server_host=_host(result.study.server_host, "Host of the server"),
        versions=facts_table("Versions", result.study.versions),
        servers=_servers(result, records),
        differing=_differing_variables(result, records),
        metrics=_metrics(result),
        windows=_windows(result),
        configuration=configuration,
        same_configuration=same,
        commands=_commands(result, records),
        variables=_variables(records),
    )
    return Part(id="repeat", heading="Repeat", body=[html])


def _builds(result: StudyResult) -> str:
    """How many builds of its server each arm has."""
    counts = sorted({builds_of(arm) for arm in result.study.experiment.arms})
    if counts == [1]:
        return "one server build per arm"
    if len(counts) == 1:
        return agreed(f"{counts[0]} builds per arm")
    return agreed(f"{counts[0]} to {counts[-1]} builds per arm")


def limits(result: StudyResult) -> list[str]:
    """The limits of this study, one sentence each, from its records."""
    experiment, summary = result.study.experiment, result.summary
    found = [f"{_measured_on(result)}, with {_builds(result)}{_of_others(result)}."]
    if experiment.scale == "quick" and summary.design == "blocks":
        found.append(
            "It was run at scale quick: short windows and few blocks, for trying an experiment, not for a decision."
        )
    if summary.state != "complete":
        found.append("The study is not complete: more blocks may change every interval.")
    found += filter(None, [invalid_runs(result.runs, failed=True)])
    if dropped := sum(len(event.get("dropped", ())) for event in result.folder.journal.read()):
        found.append(agreed(f"{dropped} unfinished runs or blocks were dropped when the study was resumed."))
    if result.unused_steps:
        found.append(
            agreed(f"{len(result.unused_steps)} load levels of valid runs are not valid and were not used; see Trust.")
        )
    found.append("The load is a closed loop if a number of connections is set: a slow server receives fewer requests.")
    return found


def _measured_on(result: StudyResult) -> str:
    groups, host = result.summary.host_groups, result.study.host.get("hostname") or "this host"
    if result.study.experiment.server.dsn is not None:
        return f"One external server was measured, loaded from {host}"
    if groups is None:
        return f"It was measured on one host ({host})"
    return agreed(f"It was measured on {len(groups.blocks)} hosts ({', '.join(groups.blocks)})")


def _of_others(result: StudyResult) -> str:
    groups = result.summary.host_groups
    if groups is None:
        return ": it does not apply to other hosts"
    return f": {claim_words(groups)}, if the hosts are a fair sample of those that are meant"


def facts_table(caption: str, facts: dict[str, object] | dict[str, str]) -> Table | None:
    """Facts as a table of two columns, or None without any. Byte counts get a size for people beside them."""
    rows = [(key, _fact(key, value)) for key, value in facts.items() if value not in (None, "", {}, [])]
    return Table(caption, ("fact", "value"), rows) if rows else None


def _host(facts: dict[str, object], caption: str = "Host") -> Table | None:
    """What most depends on of a host; study.json has the rest."""
    shown = {words: _fact(key, facts[key]) for key, words in HOST_FACTS.items() if facts.get(key)}
    return facts_table(caption, shown)


def _fact(key: str, value: object) -> str:
    if key.endswith("_bytes") and isinstance(value, int | float):
        return format_bytes(value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _metrics(result: StudyResult) -> Table | None:
    metrics = result.summary.metrics
    if not metrics:
        return None
    return Table(
        "Metrics, as stored",
        ("metric", "stored as", "unit", "better", "meaning"),
        [[result.metric_name(name), name, one.unit, one.better, one.description] for name, one in metrics.items()],
    )


def _windows(result: StudyResult) -> Table | None:
    windows = result.summary.windows
    rows: list[list[str | Cell]] = []
    planned = {step.id: step for record in result.records.values() for step in record.steps}
    for step in result.steps:
        if step.id in windows:
            window = windows[step.id]
            length = planned.get(step.id)
            load = format_duration(length.warmup_s + length.measure_s) if length else "–"
            cells = [f"{window.from_s:g} s", f"{window.to_s:g} s", load]
            rows.append([step.id, *(Cell(cell, "num") for cell in cells)])
    caption = "Measured window, in seconds from the start of the load: the same for all runs of the study"
    return Table(caption, ("load level", "from", "to", "load lasts"), rows) if rows else None


def _servers(result: StudyResult, records: list[RunRecord]) -> Table | None:
    rows: list[list[str | Cell]] = []
    for arm in result.styles:
        for server in _first(records, arm).servers if _first(records, arm) else ():  # type: ignore[union-attr]
            environment = " ".join(f"{key}={value}" for key, value in server.environment.items() if value)
            number = "" if server.instance == 1 else f" · instance {server.instance}"
            rows.append(
                [arm + number, f"{server.version} {server.version_comment}".strip(), join(server.command), environment]
            )
    caption = "Server of each arm, as in its first run"
    return Table(caption, ("arm", "version by SQL", "command", "environment"), rows) if rows else None


def _first(records: Iterable[RunRecord], arm: str) -> RunRecord | None:
    return next((record for record in records if record.arm == arm), None)


def _differing_variables(result: StudyResult, records: list[RunRecord]) -> Table | None:
    """Server variables that are not the same in every arm's first run that has them, apart from paths and the like."""
    firsts = {arm: record for arm in result.styles if (record := _first(records, arm)) and record.servers}
    names = sorted({name for record in firsts.values() for name in record.servers[0].variables} - PER_RUN_VARIABLES)
    rows = []
    for name in names:
        values = [record.servers[0].variables.get(name, "–") for record in firsts.values()]
        without_folder = {
            value.replace(record.folder, "")
            for value, record in zip(values, firsts.values(), strict=True)
            if name in record.servers[0].variables
        }
        if len(without_folder) > 1:
            rows.append([name, *values])
    return Table("Server variables that differ between arms", ("variable", *firsts), rows) if rows else None


def _configuration(result: StudyResult, records: list[RunRecord]) -> tuple[list[tuple[str, str]], list[str]]:
    """(arm, my.cnf): the control's whole, of the others what differs, and the arms where nothing does.

    The run's own folder reads as RUN.
    """
    texts = {}
    for arm in result.styles:
        record = _first(records, arm)
        path = result.folder.path / record.folder / "my.cnf" if record else None
        if record and path and path.is_file():
            texts[arm] = path.read_text(encoding="utf-8", errors="replace").replace(record.folder, "RUN")
    found: list[tuple[str, str]] = []
    same: list[str] = []
    base: list[str] | None = None
    for arm, text in texts.items():
        if base is None:
            base = text.splitlines()
            found.append((arm, text))
            continue
        lines = text.splitlines()
        if lines == base:
            same.append(arm)
            continue
        changes = [f"- {line}" for line in base if line not in lines] + [
            f"+ {line}" for line in lines if line not in base
        ]
        found.append((f"{arm}: what differs from the control's", "\n".join(changes)))
    return found, same


def _commands(result: StudyResult, records: list[RunRecord]) -> list[tuple[str, str]]:
    """(step, command of the load program) in the first finished run."""
    record = records[0] if records else None
    order = {step.id: index for index, step in enumerate(result.steps)}
    steps = sorted(record.steps if record else (), key=lambda step: order.get(step.id, 0))
    return [(step.id, join(step.driver.command)) for step in steps]


def _variables(records: list[RunRecord]) -> str:
    """SHOW GLOBAL VARIABLES of the first finished run."""
    server = next((server for record in records for server in record.servers if server.instance == 1), None)
    return "\n".join(f"{name} = {value}" for name, value in sorted(server.variables.items())) if server else ""


def margin_words(result: StudyResult) -> str:
    """The declared margins in words."""
    verdict = result.study.experiment.verdict
    text = f"{margin_text(result.summary.margin)} (latency {margin_text(verdict.latency_margin)})"
    return text.replace(" %", "\u00a0%")
