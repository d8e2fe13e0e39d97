"""The record of a new study: its name, the experiment, and the host."""

from __future__ import annotations

import time
from datetime import UTC, datetime

from mydyno import __version__
from mydyno.hosts.facts import host_facts
from mydyno.hosts.memory_bandwidth import remembered
from mydyno.hosts.paths import HostPaths
from mydyno.model.definition.experiment import Experiment
from mydyno.model.stored.records import StudyRecord


def new_study(experiment: Experiment, source: str, command: tuple[str, ...], paths: HostPaths) -> StudyRecord:
    """A study is named by its experiment and the second it began (UTC)."""
    bandwidth = remembered(paths)
    now_ns = time.time_ns()
    stamp = datetime.fromtimestamp(now_ns / 1e9, UTC).strftime("%Y%m%dT%H%M%SZ")
    return StudyRecord(
        study=f"{experiment.name}-{stamp}",
        created_unix_ns=now_ns,
        mydyno_version=__version__,
        command=command,
        experiment=experiment,
        experiment_source=source,
        host=host_facts(paths.data) | ({"memory_bandwidth": bandwidth} if bandwidth else {}),
    )
