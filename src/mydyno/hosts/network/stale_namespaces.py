"""Network namespaces that no live study owns: found for doctor, removed by clean even where their journal is gone."""

from __future__ import annotations

from pathlib import Path

from mydyno.errors import HostError
from mydyno.hosts.identity import processes_with_cookie
from mydyno.hosts.lock import CLEANING, study_lock
from mydyno.hosts.network.namespace import remove_namespace, stale_namespaces, study_of
from mydyno.hosts.paths import HostPaths
from mydyno.hosts.undo import UndoJournal


def ownerless_namespaces(paths: HostPaths) -> list[Path]:
    """Namespaces of studies of which neither mydyno nor any process that it started is alive."""
    owners = [owner for path in paths.undo.glob("*.jsonl") if (owner := UndoJournal(path).owner()) is not None]
    alive = [study for process, study, _ in owners if process.alive()]
    return [
        path
        for path in stale_namespaces(paths.root)
        if study_of(path) not in alive and not processes_with_cookie(study_of(path))  # with a cache of its own
    ]


def remove_ownerless(paths: HostPaths) -> tuple[list[str], list[str]]:
    """(names removed, sentences on what was left alone). Nothing is touched while any study runs on this host.

    A study with another cache makes its namespaces before it has a process in them, and then seems dead.
    """
    found = ownerless_namespaces(paths)
    if not found:
        return [], []
    names = ", ".join(path.name for path in found)
    try:
        with study_lock(CLEANING, paths.study_lock_address):
            results = {
                path.name: remove_namespace({"path": str(path)}, paths.root) for path in ownerless_namespaces(paths)
            }
    except HostError as error:
        return [], [f"{names}: {error.message}"]
    return [name for name, left in results.items() if left is None], [left for left in results.values() if left]
