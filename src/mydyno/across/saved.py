"""One saved study as comparisons read it, and the reasons for which it cannot be read; its host, and the letter
that names it.

Studies ran on the same host if its name, processor, CPUs and memory are the same, and an external server listens at the
same place. Kernel, distribution and settings may change on one host: a history shows them as changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from string import ascii_uppercase

from mydyno.errors import UserError
from mydyno.model.definition.plan import Plan
from mydyno.model.definition.quantities import format_bytes
from mydyno.model.frozen_record import Contrast
from mydyno.model.server_version import ServerVersion
from mydyno.model.stored.records import RunRecord, StudyRecord
from mydyno.model.stored.summary import EffectRecord, Summary
from mydyno.results.families import verdict_metrics
from mydyno.results.precision import used_values
from mydyno.servers.dsn import place_of
from mydyno.store.study_folder import StudyFolder


@dataclass(frozen=True)
class SavedStudy:
    """What study.json, plan.json, summary.json and the run.json files of the first block contain."""

    folder: StudyFolder
    study: StudyRecord
    plan: Plan
    summary: Summary
    runs: tuple[RunRecord, ...]
    """Runs of the first finished block: every arm once."""

    @classmethod
    def read(cls, path: Path) -> SavedStudy:
        """Raises UserError for what is not a study, is damaged or half-written, or was never evaluated."""
        folder = StudyFolder.open(path)
        study, plan = folder.study(), folder.plan()
        summary = folder.summary()
        if summary is None:
            raise UserError(
                f"{path} has no summary: it is running, or was interrupted before its first evaluation",
                f"`mydyno resume {folder.name}` continues it; `mydyno report {folder.name}` evaluates what it has",
            )
        runs = _first_block(folder, plan)
        folder.check_names(study.experiment, plan, runs, summary)
        return cls(folder, study, plan, summary, runs)

    @property
    def name(self) -> str:
        """The study's name."""
        return self.folder.name

    @property
    def identity(self) -> tuple[str, int]:
        """What a copy of the study's folder has in common with it, whatever its name: name and time of its creation."""
        return self.study.study, self.study.created_unix_ns

    @property
    def before_first_look(self) -> bool:
        """Whether no analysis was due: its effects may not be examined."""
        return not self.summary.due

    @cached_property
    def server_of(self) -> dict[str, str]:
        """{arm: its server with the version} in the experiment's order, as far as runs have finished."""
        found = {run.arm: server_name(run) for run in self.runs if run.servers}
        return {arm.name: found[arm.name] for arm in self.study.experiment.arms if arm.name in found}

    @property
    def server(self) -> str:
        """The servers of all arms, each once."""
        names = dict.fromkeys(self.server_of.values())
        return ", ".join(names) or self.study.experiment.server.name or "unknown server"

    @property
    def host(self) -> str:
        """The host's name, or those of its host groups."""
        groups = [str(facts.get("hostname", name)) for name, facts in self.study.hosts.items()]
        return ", ".join(groups) or str(self.study.host.get("hostname", "unknown host"))

    @cached_property
    def examined_blocks(self) -> frozenset[int]:
        """The blocks that the summary's effects are of: those of the look in a study with looks."""
        of_effects = {block for effect in self.summary.effects for block in effect.details.log_ratios or {}}
        every = frozenset(run.block for run in self.summary.runs)
        return frozenset(of_effects) if self.summary.look is not None and of_effects else every

    @cached_property
    def effects(self) -> dict[Contrast, EffectRecord]:
        """Its effects; none before the first look of a study with looks."""
        found = () if self.before_first_look else self.summary.effects
        return {one.contrast: one for one in found}

    @cached_property
    def judged_metrics(self) -> list[str]:
        """The metrics on which every contrast has a verdict, the primary one first."""
        return [metric for metric in verdict_metrics(self.study.experiment) if metric in self.summary.metrics]

    def levels(self, metric: str, step: str, arm: str) -> dict[int, tuple[float, ...]]:
        """{block: the arm's values, of the control one for each copy} of the examined blocks; empty where one is 0."""
        own = [run for run in self.summary.runs if run.arm == arm and run.block in self.examined_blocks]
        if any(run.values.get(step, {}).get(metric) == 0 and run.usable(step) for run in own):
            return {}
        found = used_values(self.summary.runs, metric, step)
        of_arm = {block: tuple(of[lane] for lane in of if lane[0] == arm) for block, of in found.items()}
        return {block: values for block, values in of_arm.items() if values and block in self.examined_blocks}

    def copies(self, metric: str, step: str) -> dict[int, tuple[float, float]]:
        """{block: values of the control and of its copy}, of the blocks with both."""
        found = self.levels(metric, step, self.summary.control)
        return {block: (values[0], values[1]) for block, values in found.items() if len(values) == 2}


def without_copies(studies: Sequence[SavedStudy]) -> tuple[list[SavedStudy], list[tuple[SavedStudy, SavedStudy]]]:
    """(each study once, in the given order; each further copy with the one that is kept).

    Among copies, the one with the most runs is kept, and among those the one whose folder has the study's own name.
    """
    kept: dict[tuple[str, int], int] = {}
    for place, study in enumerate(studies):
        best = kept.setdefault(study.identity, place)
        if _completeness(study) > _completeness(studies[best]):
            kept[study.identity] = place
    copies = [(one, studies[kept[one.identity]]) for place, one in enumerate(studies) if place != kept[one.identity]]
    return [studies[place] for place in sorted(kept.values())], copies


def _completeness(study: SavedStudy) -> tuple[int, bool]:
    return len(study.summary.runs), study.name == study.study.study


def server_name(run: RunRecord) -> str:
    """The servers of a run: "MariaDB 10.11.19"."""
    return " and ".join(dict.fromkeys(ServerVersion.parse(server.version).name for server in run.servers))


def _first_block(folder: StudyFolder, plan: Plan) -> tuple[RunRecord, ...]:
    for block in plan.blocks:
        found = [run for run in block.runs if folder.is_finished(run)]
        if len(found) == len(block.runs):
            return tuple(map(folder.planned_run, found))
    return ()


IDENTITY = ("hostname", "cpu_model", "cpus", "memory_bytes")

HostIdentity = tuple[tuple[str, str], ...]
"""(fact, value in words) of IDENTITY, as far as recorded; of several host groups all of them; "server": host:port."""


def host_identity(study: SavedStudy) -> HostIdentity:
    """What identifies the host, or the hosts, of a study; and of an external server the server, and its own host."""
    record, dsn = study.study, study.study.experiment.server.dsn
    hosts = [record.hosts[name] for name in sorted(record.hosts)] or [record.server_host, record.host]
    found = [] if dsn is None else [("server", place_of(dsn))]
    for facts in hosts:
        for name in IDENTITY:
            value = facts.get(name)
            if value is not None:
                found.append((name, format_bytes(float(value)) if name == "memory_bytes" else str(value)))
    return tuple(found)


def host_difference(host: HostIdentity, other: HostIdentity) -> tuple[str, ...]:
    """What distinguishes another host: "hostname vm-8", "cpus 4"."""
    return tuple(f"{name} {value}" for name, value in other if (name, value) not in host)


MOST_STUDIES = len(ascii_uppercase)


def label(place: int) -> str:
    """A for the first study, B for the second."""
    return ascii_uppercase[place]
