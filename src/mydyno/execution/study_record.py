"""The record of a new study: its name, the experiment, and the host; and what is left to do of one that is there."""

from __future__ import annotations

import shlex
from datetime import UTC, datetime

from mydyno import __version__, clock
from mydyno.hosts.facts import host_facts
from mydyno.hosts.memory_bandwidth import remembered
from mydyno.hosts.paths import HostPaths
from mydyno.model.definition.experiment import Experiment
from mydyno.model.definition.plan import Plan
from mydyno.model.stored.records import StudyRecord
from mydyno.store.study_folder import StudyFolder


def new_study(experiment: Experiment, source: str, command: tuple[str, ...], paths: HostPaths) -> StudyRecord:
    """A study is named by its experiment and the second it began (UTC)."""
    bandwidth = remembered(paths)
    now_ns = clock.unix_ns()
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


def nothing_to_resume(folder: StudyFolder, plan: Plan) -> str:
    """Of a study that lacks no run: what can be done with it."""
    path = shlex.quote(str(folder.path))
    more = f"`mydyno resume {path} --time 30m` adds blocks" if plan.sequential else "for more blocks begin a new study"
    return f"{folder.name} is finished: nothing was run; `mydyno report {path}` writes its report again; {more}"
