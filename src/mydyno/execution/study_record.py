"""The request for a study, the record that a new one begins with, and what is noted when one is resumed."""

from __future__ import annotations

import secrets
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from math import isnan
from pathlib import Path

from mydyno import __version__, clock
from mydyno.execution.interim import Decided, is_decided
from mydyno.execution.interleaved.study_time import StudyTime
from mydyno.execution.live import INTERVAL_S, Listener
from mydyno.hosts.facts import host_facts, remembered_bandwidth, synced_writes_per_s
from mydyno.hosts.paths import HostPaths
from mydyno.model.definition.experiment import Experiment, Scalar
from mydyno.model.definition.plan import Plan
from mydyno.model.definition.server_options import option_name
from mydyno.model.stored.records import StudyRecord
from mydyno.servers.my_cnf import DURABILITY, option_value
from mydyno.store.study_folder import StudyFolder


@dataclass(frozen=True)
class Request:
    """What to run and where to keep it."""

    experiment: Experiment
    source_text: str
    studies: Path
    command: tuple[str, ...] = ()
    decided: Decided = is_decided
    """When a study with a time may end at an interim analysis: by default when contrasts and thresholds are decided."""
    listeners: tuple[Listener, ...] = ()
    """Receive every record of live.jsonl."""
    timing: type[StudyTime] = StudyTime
    """What divides an interleaved study's time into blocks."""
    live_interval_s: float = INTERVAL_S
    """From one line of live.jsonl with the present rates to the next."""

    def new_study(self, paths: HostPaths) -> StudyRecord:
        """Its record: a study is named by its experiment and the second it began (UTC)."""
        measured = {
            "memory_bandwidth": remembered_bandwidth(paths),
            "synced_writes_per_s": _synced_writes_per_s(self.experiment, paths),
        }
        now_ns = clock.unix_ns()
        stamp = datetime.fromtimestamp(now_ns / 1e9, UTC).strftime("%Y%m%dT%H%M%SZ")
        return StudyRecord(
            study=f"{self.experiment.name}-{stamp}",
            created_unix_ns=now_ns,
            mydyno_version=__version__,
            command=self.command,
            experiment=self.experiment,
            experiment_source=self.source_text,
            host=host_facts(paths.data, paths.root) | {name: value for name, value in measured.items() if value},
        )


def own_name(study: str) -> str:
    """What this process marks its processes and changes with. Two studies of the same second, or two groups of hosts,
    may share a kernel without a common lock (containers): none may end the servers of the other.
    """
    return f"{study}-{secrets.token_hex(3)}"


def _synced_writes_per_s(experiment: Experiment, paths: HostPaths) -> float | None:
    """Synced writes per second of the data's disk, before the load; None where the arms do not differ in durability."""
    durability = [tuple(_durability(arm.treatments.get("variables", {}))) for arm in experiment.arms]
    if len(set(durability)) == 1:
        return None
    paths.data.mkdir(parents=True, exist_ok=True)
    rate = synced_writes_per_s(paths.data)
    return None if isnan(rate) else round(rate, 1)


def _durability(variables: Mapping[str, Scalar]) -> Iterator[tuple[str, str]]:
    plain = {option_name(name): option_value(value) for name, value in variables.items()}
    yield from ((name, plain[name]) for name in DURABILITY if name in plain)


def note_resumed(
    folder: StudyFolder, study: StudyRecord, say: Callable[[str], None], dropped: Sequence[str] = ()
) -> None:
    """Into the journal, with the unfinished runs and blocks that were dropped; `say` receives these, and what blocks of
    two versions may suffer from.
    """
    for name in dropped:
        say(f"dropped the unfinished run {name}")
    if study.mydyno_version != __version__:
        say(
            f"the study was begun by mydyno {study.mydyno_version} and is resumed by {__version__}: a difference "
            "between its blocks may be one of the load program"
        )
    folder.journal.append("study_resumed", mydyno_version=__version__, dropped=list(dropped))


def nothing_to_resume(folder: StudyFolder, plan: Plan) -> str:
    """What can be done with a study that lacks no run."""
    path = shlex.quote(str(folder.path))
    more = f"`mydyno resume {path} --time 30m` adds blocks" if plan.sequential else "for more blocks begin a new study"
    return f"{folder.name} is finished: nothing was run; `mydyno report {path}` writes its report again; {more}"
