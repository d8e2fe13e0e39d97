"""`mydyno doctor`: what this host can and cannot measure, and why."""

from __future__ import annotations

from typing import Annotated

import typer

from mydyno.cli import arguments
from mydyno.cli.output import print_json
from mydyno.cli.verbosity import set_verbosity
from mydyno.hosts import memory_bandwidth
from mydyno.hosts.capabilities import capabilities
from mydyno.hosts.facts import host_facts
from mydyno.hosts.paths import HostPaths
from mydyno.hosts.remote.left_studies import left_studies


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="doctor", help="Report what this host can and cannot measure.")(doctor)


def doctor(
    data: arguments.Data = None,
    memory: Annotated[bool, typer.Option("--memory", help="Also measure memory bandwidth (takes seconds).")] = False,
    as_json: arguments.Json = False,
    verbose: arguments.Verbose = False,
) -> None:
    """Print the host's facts and capabilities."""
    set_verbosity(verbose)
    paths = HostPaths.resolve(data)
    facts, found = host_facts(paths.data, paths.root), capabilities(paths)
    left = left_studies(paths.cache)
    bandwidth = memory_bandwidth.measure(paths) if memory else memory_bandwidth.remembered(paths)
    if bandwidth is not None and as_json:
        facts["memory_bandwidth"] = bandwidth
    if as_json:
        print_json({
            "facts": facts,
            "abilities": [ability.__dict__ for ability in found],
            "left_studies": [str(study) for study in left],
        })  # fmt: skip
        return
    for name, value in facts.items():
        text = ", ".join(f"{k} {v}" for k, v in value.items()) if isinstance(value, dict) else value
        print(f"{name:<28} {text}")
    if bandwidth is not None:
        print("\n" + "\n".join(memory_bandwidth.lines(bandwidth)))
    print()
    for study in left:
        print(f"left by a mydyno on another host: {study}; to remove it: mydyno clean")
    for ability in found:
        print(f"{'yes' if ability.possible else 'NO ':<4} {ability.name:<30} {ability.text}")
