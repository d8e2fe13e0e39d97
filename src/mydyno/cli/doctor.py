"""`mydyno doctor`: what this host can and cannot measure, and why."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from mydyno.cli import arguments
from mydyno.cli.streams import print_json
from mydyno.execution.planning.design_choice import plan_study
from mydyno.execution.planning.forecast import forecast
from mydyno.experiments import built_in, load
from mydyno.hosts.capabilities import capabilities
from mydyno.hosts.facts import bandwidth_lines, host_facts, measure_bandwidth, remembered_bandwidth
from mydyno.hosts.paths import HostPaths
from mydyno.hosts.undo import left_studies
from mydyno.model.definition.quantities import format_bytes


def doctor(
    data: arguments.Data = None,
    memory: Annotated[bool, typer.Option("--memory", help="Also measure memory bandwidth (takes seconds).")] = False,
    as_json: arguments.Json = False,
    verbose: arguments.Verbose = False,
) -> None:
    """Report what this host can and cannot measure."""
    paths = HostPaths.resolve(data)
    facts, found = host_facts(paths.data, paths.root), capabilities(paths)
    left = left_studies(paths.cache)
    bandwidth = measure_bandwidth(paths) if memory else remembered_bandwidth(paths)
    if bandwidth is not None and as_json:
        facts["memory_bandwidth"] = bandwidth
    if as_json:
        print_json({
            "facts": facts,
            "abilities": [ability.__dict__ for ability in found],
            "left_studies": [str(study) for study in left],
        })  # fmt: skip
        return
    _print_experiments(paths)
    for study in left:
        print(f"\nleft by a mydyno on another host: {study}; to remove it: mydyno clean")
    width = max(len(ability.name) for ability in found)
    for title, possible in (("Not on this host", False), ("On this host", True)):
        print(f"\n{title}")
        for ability in found:
            if ability.possible == possible:
                print(f"  {ability.name:<{width}}  {ability.text}")
    print("\nThe host")
    for name, text in _host(facts).items():
        print(f"  {name:<{width}}  {text}")
    if bandwidth is not None:
        print("\n" + "\n".join(bandwidth_lines(bandwidth)))


def _print_experiments(paths: HostPaths) -> None:
    """How many of the built-in experiments this host can run, and what the others lack."""
    names = built_in()
    lacking: dict[str, list[str]] = {}
    for name in names:
        experiment, _ = load(name, "quick")
        if obstacles := forecast(experiment, plan_study(experiment, paths), paths).obstacles:
            lacking.setdefault(obstacles[0], []).append(name)
    able = len(names) - sum(map(len, lacking.values()))
    print(f"This host can run {able} of {len(names)} built-in experiments.")
    for obstacle, without in lacking.items():
        print(f"  {', '.join(without)}: {obstacle}")


def _host(facts: dict[str, Any]) -> dict[str, str]:
    """The facts in words: {label: text}; what is not known is left out."""
    disk = facts.get("filesystem", {})
    free = f"{format_bytes(disk['free_bytes'])} free" if "free_bytes" in disk else None
    pages = {"transparent_hugepages": "transparent huge pages", "transparent_hugepages_defrag": "defragmentation"}
    words: dict[str, tuple[object, ...]] = {
        "name": (facts.get("hostname"),),
        "system": (
            facts.get("distribution"), _worded(facts, "kernel"), facts.get("architecture"), _worded(facts, "glibc"),
            facts.get("virtualisation"),
        ),
        "CPUs": (
            f"{facts['cpus_usable']} of {facts['cpus']}", facts.get("cpu_model"),
            _worded(facts, "cpu_governor", "governor"), _worded(facts, "numa_nodes", "NUMA nodes"),
            _worded(facts, "load_average_before", "load average"),
        ),
        "memory": (
            format_bytes(facts.get("memory_usable_bytes") or facts["memory_bytes"]), _worded(facts, "swappiness"),
            *(_worded(facts, name, label) for name, label in pages.items()),
        ),
        "data": (disk.get("mount"), disk.get("type"), disk.get("device"), free),
        "clock": (facts.get("clock_source"),),
    }  # fmt: skip
    return {label: ", ".join(str(one) for one in some if one) for label, some in words.items() if any(some)}


def _worded(facts: dict[str, Any], name: str, label: str | None = None) -> str | None:
    """A fact with its label in front; None without it."""
    return f"{label or name} {facts[name]}" if name in facts else None
