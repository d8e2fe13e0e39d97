"""The reference pages, made from the program: commands, experiment keys, metrics, validity checks, verdicts."""

from __future__ import annotations

import importlib
import inspect
import io
import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from contextlib import redirect_stdout
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin
from unittest.mock import patch

import typer
from pydantic import BaseModel

from mydyno.cli import COMMANDS, ExitCode, make_app
from mydyno.cli.list_ import repeats_words
from mydyno.execution import validity
from mydyno.experiment_file import thresholds
from mydyno.experiment_file.arms import varied_arms
from mydyno.experiment_file.toml_source import toml_value
from mydyno.experiments import built_in, load
from mydyno.hosts.paths import HostPaths
from mydyno.model.definition.experiment import (
    DataSpec,
    DesignSpec,
    HooksSpec,
    ScreenSpec,
    ServerSpec,
    StepSpec,
)
from mydyno.model.definition.quantities import format_duration, parse_duration_s, parse_share
from mydyno.model.definition.source_build import BuildSpec
from mydyno.model.definition.specs import CompareSpec, GuardSpec, ProfileSpec, SearchSpec, ValiditySpec, VerdictSpec
from mydyno.model.metrics import METRICS, MetricSource
from mydyno.model.stored.schemas import STORED, stored_schema
from mydyno.treatments.catalogue import TREATMENTS
from mydyno.verdicts.decide import RULES
from mydyno.workloads.data import WORKLOADS
from mydyno.workloads.files import ScriptOptions
from mydyno.workloads.kv import KvOptions
from mydyno.workloads.oltp import ConnectOptions, OltpOptions
from mydyno.workloads.tpcc import TpccOptions

NOTE = "<!-- Made by docs/generate from the program; edit the program, not this page. -->\n"
WRITTEN = {parse_duration_s: "duration", parse_share: "percentage"}
"""What parses a value → the word for what a file has."""
PLAIN = {bool: "true or false", int: "whole number", float: "number", str: "text"}
COMPUTED = "; default: "
"""In a description: before a default that a model cannot state."""

EXPERIMENTS = """`mydyno plan NAME` prints the settings, the time and the disk space of each, and what this host lacks.
`--scale standard` has more data and load levels, `--scale published` the parameters of a published study.
"""
SECTIONS: dict[str, type[BaseModel]] = {
    "[server]": ServerSpec,
    "[server.build]": BuildSpec,
    "[server.hooks]": HooksSpec,
    "[data]": DataSpec,
    "[[steps]]": StepSpec,
    "[steps.search]": SearchSpec,
    "[design]": DesignSpec,
    "[verdict]": VerdictSpec,
    "[[verdict.compare]]": CompareSpec,
    "[validity]": ValiditySpec,
    "[guard]": GuardSpec,
    "[screen]": ScreenSpec,
    "[profile]": ProfileSpec,
}
OPTIONS: dict[str, type[BaseModel]] = {
    "the OLTP workloads": OltpOptions,
    "connect": ConnectOptions,
    "tpcc": TpccOptions,
    "kv_set, kv_get, kv_mixed and kv_ycsb_*": KvOptions,
    "a script or a file of SQL": ScriptOptions,
}
SCRIPTS = "`rand_type` is for scripts alone. Every other option of `[[steps]]` with `script` is the script's own.\n"
INSTANCES = """## Several instances

`instances = 2`, before any section, gives every run two servers, each with its own copy of the data, its own socket,
log and load program; an arm may set another number: `four = { instances = 4 }`. All load programs are started together;
a load level at which their starts differ by more than a second (`start_spread_s` in `run.json`) does not count.
Validity checks are made for each instance; one that fails makes the load level invalid. The place of each instance (its
share of the host's CPUs, if a treatment divides them) changes from block to block, and is the same for all arms of a
block.

An arm is compared with the experiment's control, or with the one that it names: `b = { control = "a" }`. An arm that
others are compared with is not compared itself, unless it names a control. Only the experiment's own control runs twice
in a block.
"""
INSTANCE_METRICS = """If a run has several instances, `METRIC` combines all of them as the column `scope` states, and
`METRIC_instance_N` is the value of instance N alone. A metric that one instance lacks is absent for the whole run.
"""
SAMPLED = """The unit is in the name: `_pct` (of all CPUs for the host, of one core for a process), `_per_s`, `_bytes`,
`_us`, `_ns`, `_s`; other metrics are counts, `qps` and `tps` per second.
"""
STATUS = "SHOW GLOBAL STATUS: "


def pages() -> dict[str, str]:
    """File name → text of every reference page."""
    return {
        "commands.md": commands(),
        "experiments.md": experiments(),
        "experiment.md": experiment(),
        "metrics.md": metrics(),
        "study-files.md": study_files(),
        "validity-checks-and-verdicts.md": validity_checks_and_verdicts(),
    }


def commands() -> str:
    """Every command's --help, and the exit codes. Options of several commands are described once."""
    helps = {" ".join(command): _help(*command) for command in _named()}
    seen = Counter(option for shown in helps.values() for option in _options(shown).values())
    shared: dict[str, str] = {}
    for (name, meaning), commands_with_it in seen.items():
        if commands_with_it > 1:
            shared.setdefault(name, meaning)
    text = [NOTE, "# Commands\n", _fenced(_help()), "## Options of several commands\n"]
    text += [_table(("option", "meaning"), ((f"`{name}`", meaning) for name, meaning in shared.items()))]
    for command, shown in helps.items():
        text += [f"## {command}\n", *_command(shown, shared)]
    text += ["## Exit codes\n", _table(("code", "meaning"), _codes())]
    return "\n".join(text)


def _named() -> Iterable[tuple[str, ...]]:
    """The commands, each group followed by its own."""
    commands = typer.main.get_group(make_app(list(COMMANDS))).commands
    for name in COMMANDS:
        yield (name,)
        yield from ((name, own) for own in getattr(commands[name], "commands", ()))


def experiments() -> str:
    """Every built-in experiment: what it asks, what it does, how long, and what it repeats."""
    text = [NOTE, "# Built-in experiments\n", EXPERIMENTS]
    for name in built_in():
        quick, _ = load(name, "quick")
        repeats = repeats_words(quick)
        time = format_duration(quick.design.time) if quick.design.time else f"{quick.design.blocks} blocks"
        facts = [f"`mydyno run {name}`: {time}", *([repeats] if repeats else [])]
        text.append(f"## {name}\n\n**{quick.question}** {quick.description}\n\n" + "; ".join(facts) + ".\n")
    return "\n".join(text)


def _command(shown: str, shared: dict[str, str]) -> Iterable[str]:
    """A command's --help without the options of several commands; the names of these but for --help, the last."""
    others = []
    for block, (name, meaning) in _options(shown).items():
        if shared.get(name) == meaning:
            shown = shown.replace(block, "")
            others += re.findall("--[a-z-]+", name)
    yield _fenced(shown)
    if others[:-1]:
        yield f"Also {', '.join(f'`{name}`' for name in others[:-1])}.\n"


def _help(*command: str) -> str:
    shown = io.StringIO()
    with redirect_stdout(shown), patch.dict(os.environ, {"COLUMNS": "100", "TERM": "dumb", "NO_COLOR": "1"}):
        make_app(command[:1] or list(COMMANDS))([*command, "--help"], prog_name="mydyno", standalone_mode=False)
    return "\n".join(line.rstrip() for line in shown.getvalue().strip().splitlines()) + "\n"


def _options(shown: str) -> dict[str, tuple[str, str]]:
    """Lines of an option in a --help → its name, and its meaning in one line."""
    blocks = re.findall(r"^  -.*\n(?:    +.*\n)*", shown, re.MULTILINE)
    words = {block: block.strip().partition("  ") for block in blocks}
    return {block: (name, " ".join(meaning.split())) for block, (name, _, meaning) in words.items()}


def _fenced(shown: str) -> str:
    """A --help without its list of commands, which have headings of their own."""
    without = re.sub(r"\nCommands:\n(?:  .*\n)+", "", shown + "\n")
    return f"```\n{without.strip().removesuffix('Options:').strip()}\n```\n"


def _codes() -> Iterable[tuple[str, str]]:
    lines = [line.strip() for line in inspect.getsource(ExitCode).splitlines()]
    for code in ExitCode:
        at = next(number for number, line in enumerate(lines) if line.startswith(f"{code.name} ="))
        yield str(code.value), lines[at + 1].strip('"')


def experiment() -> str:
    """Every key of an experiment file, every treatment, every workload option."""
    text = [
        NOTE,
        "# The experiment file\n",
        "TOML. `name`, `question`, `[server]`, `[arms]` (or `[factors]`, or `vary`) and one `[[steps]]` are needed; "
        'all other keys have a default. With `base = "NAME"` everything comes from that built-in experiment, and the '
        "file contains only what differs; its own arms replace all arms of the base. `mydyno schema` prints the same "
        "as JSON Schema for editors. "
        'A duration is written as in "500ms", "10s", "5m" or "2h", a percentage as in "2%". '
        "See [how to write one](../guides/own-experiment.md).\n",
    ]
    for title, model in SECTIONS.items():
        text += [f"## {title}\n", (inspect.getdoc(model) or "") + "\n", _keys("key", model)]
    text += ["## [thresholds]\n", (inspect.getdoc(thresholds) or "") + "\n"]
    text += ["## vary\n", (inspect.getdoc(varied_arms) or "") + "\n"]
    text += [
        INSTANCES,
        "## Treatments\n",
        "What an arm may set. Each treatment is verified in every run. What every arm has stands once in "
        "`[treatments]`, whichever section makes the arms; what an arm sets itself comes before it.\n",
    ]
    for name, (_, make) in TREATMENTS.items():
        module = importlib.import_module(make.__module__)
        text += [f"### {name}\n", (inspect.getdoc(module) or "") + "\n"]
    asked = ((f"`{w.name}`", w.description, ", ".join(w.drivers)) for w in WORKLOADS.values())
    text += ["## Workloads\n", _table(("workload", "operations", "drivers"), asked)]
    for title, model in OPTIONS.items():
        text += [f"### Options of {title}\n", *([SCRIPTS] if model is ScriptOptions else []), _keys("option", model)]
    return "\n".join(text)


def _keys(head: str, model: type[BaseModel]) -> str:
    """A table of the fields: their types, their defaults as a user writes them, their meaning."""
    return _table((head, "type", "default", "meaning"), _fields(model))


def _fields(model: type[BaseModel]) -> Iterable[tuple[str, str, str, str]]:
    for name, field in model.model_fields.items():
        kind = _type(field.annotation, field.metadata)
        default: Any = None if field.is_required() else field.get_default(call_default_factory=True)
        meaning, _, computed = (field.description or "").partition(COMPUTED)
        known = computed if default in (None, (), {}) else f"`{_value(default, kind)}`"
        example = f", e.g. `{toml_value(field.examples[0])}`" if field.examples else ""
        yield f"`{name}`", kind, "required" if field.is_required() else known, meaning + example


def _type(annotation: Any, metadata: Iterable[Any] = ()) -> str:
    """The type of a key in plain words."""
    origin, of = get_origin(annotation), get_args(annotation)
    parsers = [WRITTEN[one.func] for one in metadata if getattr(one, "func", None) in WRITTEN]
    if parsers or annotation in PLAIN:
        return parsers[0] if parsers else PLAIN[annotation]
    if origin is Annotated:
        return _type(of[0], of[1:])
    if origin is Literal:
        return f"one of {', '.join(f'`{json.dumps(one)}`' for one in of)}"
    if origin is tuple:
        item = _type(of[0])
        return "list of tables" if item == "table" else f"{item}, or a list"
    if origin in (Union, UnionType):
        return " or ".join(dict.fromkeys(_type(one) for one in of if one is not NoneType))
    return "table"


def _value(value: Any, kind: str) -> str:
    """A value as in a file: "2h", "10m", "300ms", "2%" in place of numbers of seconds and shares."""
    if kind == "percentage":
        value = f"{100 * value:g}%"
    elif kind == "duration":
        ms, units = round(1000 * value), {"h": 3_600_000, "m": 60_000, "s": 1000, "ms": 1}
        value = next(f"{ms // size}{unit}" for unit, size in units.items() if ms % size == 0)
    return json.dumps(value, default=str)


def metrics() -> str:
    """The metrics of summary.json, and everything that dynoprobe samples."""
    text = [
        NOTE,
        "# Metrics\n",
        "## Of a run (summary.json)\n",
        "A value is the mean of the per-second samples in the load level's window, except latencies, which come from "
        "the driver's histogram of the whole measured window. A metric that does not exist on a host or server is "
        "absent, never 0.\n",
        INSTANCE_METRICS,
        _table(("metric", "unit", "better", "scope", "meaning"), (
            (f"`{name}`", m.unit, m.better, _scope(m), m.description) for name, m in METRICS.items()
        )),
        "## Sampled by dynoprobe (samples.parquet)\n",
        SAMPLED,
    ]  # fmt: skip
    program = HostPaths.resolve().program("dynoprobe")
    told = json.loads(subprocess.run([program, "--metrics-json"], capture_output=True, text=True, check=True).stdout)
    for family, members in groupby(told["metrics"], key=itemgetter("family")):
        text += [f"### {family}\n", *_family(list(members))]
    return "\n".join(text)


def _family(members: list[dict[str, str]]) -> Iterable[str]:
    """What all metrics of a family have in common, once; and a line for each, whatever it is sampled of."""
    scopes = dict.fromkeys(m["scope"] for m in members)
    sources = {m["source"].removeprefix(STATUS) for m in members}
    wrong = {m["wrong"] for m in members}
    source = "`SHOW GLOBAL STATUS`" if members[0]["source"].startswith(STATUS) else ""
    source = f"`{sources.pop()}`" if len(sources) == 1 else source
    yield (
        f"Of {', '.join(scopes)}{source and f', from {source}'}. {wrong.pop() if len(wrong) == 1 else ''}".strip()
        + "\n"
    )
    rows: dict[tuple[str, str], dict[str, None]] = {}
    for m in members:
        meaning = f"{m['meaning']} {m['wrong'] if wrong else ''}".strip()
        source = f" ({m['source'].removeprefix(STATUS)})" if sources else ""
        rows.setdefault((source, meaning), {})[f"`{m['name']}`"] = None
    yield "".join(f"- {', '.join(names)}{source}: {meaning}\n" for (source, meaning), names in rows.items())


def _scope(metric: MetricSource) -> str:
    return metric.scope if metric.scope == "host" else f"{metric.scope}, {_of_several(metric)}"


def _of_several(metric: MetricSource) -> str:
    return "all merged" if metric.aggregate == "driver" else metric.together


def study_files() -> str:
    """The fields of the files that programs read, from their JSON Schemas."""
    text = [NOTE, "# Fields of the study folder\n",
            "By file of the [study folder](study-folder.md), from their JSON Schemas (`mydyno schema`). A step is a "
            "load level, a look an interim analysis.\n"]  # fmt: skip
    for kind in ("plan", "live", "slices", "summary"):
        schema = stored_schema(kind)
        text.append(f"## {STORED[kind].files[0].rpartition('/')[2]}\n")
        for title, record in [("", schema), *schema.get("$defs", {}).items()]:
            fields = record.get("properties", {}).items()
            described = [f"- `{name}`: {_line(one['description'])}" for name, one in fields if "description" in one]
            others = ", ".join(f"`{name}`" for name, one in fields if "description" not in one)
            parts = (title and f"### {title}", _line(record.get("description", "")), others and f"Fields: {others}.")
            text += [f"{part}\n" for part in (*parts, "\n".join(described)) if part]
    return "\n".join(text)


def _line(text: str) -> str:
    return " ".join(text.split())


def validity_checks_and_verdicts() -> str:
    """Every validity check and every verdict, in the words of its own code."""
    text = [NOTE, "# Validity checks and verdicts\n", "## Validity checks\n", (inspect.getdoc(validity) or "") + "\n"]
    for check in (*validity.RUN_RULES, *validity.STEP_RULES):
        scope = "the run" if check in validity.RUN_RULES else "the load level"
        text += [f"### {check.__name__}\n", f"{inspect.getdoc(check)} *Invalid: {scope}.*\n"]
    text += ["## Verdicts\n", "In the order in which they are tried; the first that holds is given. "
             "[Statistics](../concepts/statistics.md) has the method.\n"]  # fmt: skip
    for rule in RULES:
        text += [f"### {rule.verdict.value}\n", (inspect.getdoc(rule.holds) or "") + "\n"]
    return "\n".join(text)


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines) + "\n"


def main(folder: Path) -> None:
    """Write all pages."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (folder / name).write_text(text)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
