"""The study folder: where each thing lies, how it is written and read. See docs/reference/study-folder.md."""

from __future__ import annotations

import json
import os
import shutil
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel

from mydyno.errors import UserError
from mydyno.files.atomic import INCOMPLETE, readable, sync_folder, write_text
from mydyno.model.definition.experiment import Experiment
from mydyno.model.definition.plan import Plan, PlannedRun
from mydyno.model.stored.records import FORMAT, RunRecord, StudyRecord
from mydyno.model.stored.summary import Summary
from mydyno.store.logs import Journal

Stored = TypeVar("Stored", bound=BaseModel)
BEGIN_EVENTS = ("study_created", "study_resumed")
FINISHED_EVENT = "study_finished"


class StudyFolder:
    """One study on disk. A run's folder is complete or absent: it is written aside and renamed."""

    def __init__(self, path: Path, attempt: str = "") -> None:
        """`attempt`: with a name, its journal, its commands and what is unfinished are kept apart from those of other
        attempts, which other hosts may make at the same time: NFS loses lines that two hosts append.
        """
        self.path = path
        self._mark = f".{attempt}.unfinished" if attempt else ".unfinished"
        self.commands_file, journal = (
            f"{name}.{attempt}.jsonl" if attempt else f"{name}.jsonl" for name in ("commands", "journal")
        )
        self.journal = Journal(path / journal)

    @property
    def name(self) -> str:
        """The study's name: the folder's."""
        return self.path.name

    @staticmethod
    @contextmanager
    def claimed(studies: Path, name: str) -> Iterator[Path]:
        """A new empty folder for create(), removed again where that was not reached. Where the name is taken, as by a
        study of the same second, it ends in -2, -3, ….
        """
        is_first = not studies.exists()
        studies.mkdir(parents=True, exist_ok=True)
        for number in count(1):
            path = studies / (name if number == 1 else f"{name}-{number}")
            with suppress(FileExistsError):
                path.mkdir()
                break
        try:
            yield path
        finally:
            with suppress(OSError):
                path.rmdir()
                if is_first:
                    studies.rmdir()

    @classmethod
    def create(cls, path: Path, study: StudyRecord, plan: Plan) -> StudyFolder:
        """A new folder with study.json and plan.json. Raises UserError if the path is already taken."""
        path.mkdir(parents=True, exist_ok=True)
        if any(path.iterdir()):
            raise UserError(f"the study folder {path} exists already")
        folder = cls(path)
        write_text(path / "plan.json", plan.model_dump_json(by_alias=True, indent=1))
        folder.write_study(study)
        folder.journal.append("study_created", study=study.study)
        return folder

    @classmethod
    def open(cls, path: Path, attempt: str = "") -> StudyFolder:
        """An existing study. Raises UserError if it is not one, has special files, or is of another format."""
        if not is_study(path):
            raise UserError(f"{path} is not a study: it has no study.json", "`mydyno list` lists the studies")
        check_files(path)
        folder = cls(path, attempt)
        with readable(path / "study.json"):
            document = json.loads((path / "study.json").read_bytes())
        found = document.get("format") if isinstance(document, dict) else None
        if found != FORMAT:
            raise UserError(
                f"{path} has format {found}; this mydyno reads format {FORMAT}", "use the mydyno that wrote it"
            )
        return folder

    def study(self) -> StudyRecord:
        """study.json. Raises UserError if it is damaged."""
        return self._read("study.json", StudyRecord)

    def plan(self) -> Plan:
        """plan.json. Raises UserError if it is damaged."""
        return self._read("plan.json", Plan)

    def run(self, folder: str) -> RunRecord:
        """run.json of one run, by its folder below the study. Raises UserError if it is damaged."""
        return self._read(f"{folder}/run.json", RunRecord)

    def runs(self) -> Iterator[RunRecord]:
        """Every finished run, in the order of the plan."""
        for planned in self.plan().runs:
            if self.is_finished(planned):
                yield self.planned_run(planned)

    def planned_run(self, planned: PlannedRun) -> RunRecord:
        """A finished run of the plan. Raises UserError if its run.json is damaged, or of another run."""
        run = self.run(planned.folder)
        mine, found = ((one.block, one.arm, one.copy_number, one.folder) for one in (planned, run))
        if mine != found:
            raise UserError(
                f"{self.path / planned.folder}/run.json is of {_place(run)}, plan.json has {_place(planned)} there",
                "was the study's folder put together from others?",
            )
        return run

    def check_names(
        self, experiment: Experiment, plan: Plan, runs: Sequence[RunRecord], summary: Summary | None = None
    ) -> None:
        """Raises UserError if plan, runs or summary name an arm or a step that the experiment of study.json lacks, or a
        run is finished that the plan lacks.
        """
        arms, steps = {arm.name for arm in experiment.arms}, {step.id for step in experiment.resolved_steps}
        named = [(f"{run.folder}/run.json", {run.arm}, {step.id for step in run.steps}) for run in runs]
        named.append(("plan.json", {run.arm for run in plan.runs}, set()))
        if summary is not None:
            of_effects = {effect.step for effect in summary.effects}
            named.append(("summary.json", {summary.control, *summary.arms}, {step.id for step in summary.steps}))
            named.append(("summary.json", {run.arm for run in summary.runs}, of_effects))
        for file, of_arms, of_steps in named:
            for kind, names, known in (("arm", of_arms, arms), ("step", of_steps, steps)):
                if unknown := sorted(names - known):
                    raise UserError(
                        f"{self.path / file} has the {kind} {unknown[0]!r}, which study.json lacks: "
                        f"its {kind}s are {', '.join(sorted(known))}",
                        "was the study's folder put together from others?",
                    )
        made = {str(path.parent.relative_to(self.path)) for path in self.path.glob("blocks/[!.]*/[!.]*/run.json")}
        if unplanned := sorted(made.difference(run.folder for run in plan.runs)):
            raise UserError(
                f"{self.path / unplanned[0]}/run.json is of a run that plan.json lacks",
                "was the study's folder put together from others?",
            )

    def is_finished(self, run: PlannedRun) -> bool:
        """Whether the run has its run.json. Raises UserError for a folder that cannot be read."""
        with readable(self.path / run.folder):
            return (self.path / run.folder / "run.json").is_file()

    def is_interrupted(self, plan: Plan) -> bool:
        """Whether runs are missing and the study did not end by itself after it was begun or resumed last."""
        if all(map(self.is_finished, plan.runs)):
            return False
        events = [event["event"] for event in self.journal.read()]
        began = max((at for at, name in enumerate(events) if name in BEGIN_EVENTS), default=-1)
        return FINISHED_EVENT not in events[began + 1 :]

    def block_spans_ns(self) -> dict[int, tuple[int, int]]:
        """{block: (its first run's begin, its last one's end) in Unix time}, of the blocks with a finished run."""
        spans: dict[int, tuple[int, int]] = {}
        for run in self.runs():
            began, ended = spans.get(run.block, (run.started_unix_ns, run.ended_unix_ns))
            spans[run.block] = (min(began, run.started_unix_ns), max(ended, run.ended_unix_ns))
        return spans

    def damaged_runs(self) -> list[str]:
        """Files of finished runs that are cut short or no JSON, below the study's folder; a quick look at each."""
        runs = sorted(self.path.glob("blocks/[!.]*/[!.]*/run.json"))
        samples = sorted(self.path.glob("blocks/[!.]*/[!.]*/samples.parquet"))
        damaged = [path for path in runs if not _is_json(path)] + [path for path in samples if not _is_parquet(path)]
        return [str(path.relative_to(self.path)) for path in damaged]

    def summary(self) -> Summary | None:
        """summary.json, or None if there is none yet."""
        with readable(self.path):
            is_there = (self.path / "summary.json").is_file()
        return self._read("summary.json", Summary) if is_there else None

    def write_study(self, study: StudyRecord) -> None:
        """Write study.json as a whole."""
        write_text(self.path / "study.json", study.model_dump_json(by_alias=True, indent=1))

    def write_summary(self, summary: Summary) -> None:
        """Write summary.json as a whole."""
        write_text(self.path / "summary.json", summary.model_dump_json(by_alias=True, indent=1))

    def samples_path(self, folder: str) -> Path:
        """Where a run's samples lie."""
        return self.path / folder / "samples.parquet"

    def begin_run(self, folder: str) -> Path:
        """An empty folder aside in which a run collects its files until commit_run."""
        aside = self._aside(folder)
        if aside.exists():
            shutil.rmtree(aside)
        aside.mkdir(parents=True)
        return aside

    def commit_run(self, record: RunRecord) -> None:
        """Write run.json and put the run's folder in its place: from here on the run is finished."""
        aside = self._aside(record.folder)
        write_text(aside / "run.json", record.model_dump_json(by_alias=True, indent=1))
        final = self.path / record.folder
        sync_folder(aside)
        aside.rename(final)
        sync_folder(final.parent)
        reasons = [reason.model_dump() for reason in record.reasons]
        self.journal.append("run_finished", folder=record.folder, valid=record.valid, reasons=reasons)

    def begin_block(self, block: int) -> Path:
        """An empty folder aside in which an interleaved block collects its runs' folders until commit_block."""
        aside = self._aside_of_block(block)
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir(parents=True)
        return aside

    def commit_block(self, block: int, runs: Sequence[RunRecord], waited_s: float = 0.0) -> None:
        """Write each run.json and put the block's folder in its place: from here on the block is finished."""
        aside = self._aside_of_block(block)
        for run in runs:
            write_text(aside / Path(run.folder).name / "run.json", run.model_dump_json(by_alias=True, indent=1))
        sync_folder(aside)
        aside.rename(self.block_path(block))
        sync_folder(aside.parent)
        failed = [run.arm for run in runs if run.failed]
        self.journal.append("block_finished", block=block, failed=failed, waited_s=round(waited_s, 3))

    def adopt_block(self, block: int, aside: Path, host_group: str) -> None:
        """Put a block that a host group executed in its place; each run.json names the group."""
        _name_host_group(aside, host_group)
        sync_folder(aside)
        aside.rename(self.block_path(block))
        sync_folder(aside.parent)

    def name_host_group(self, block: int, host_group: str) -> None:
        """Let each run.json of a finished block name the host group that executed it."""
        _name_host_group(self.block_path(block), host_group)

    def waited_s(self) -> float:
        """The time that finished blocks waited for a quieter host."""
        events = self.journal.read()
        return sum(float(event.get("waited_s", 0.0)) for event in events if event["event"] == "block_finished")

    def block_path(self, block: int) -> Path:
        """The folder of a block."""
        return self.path / "blocks" / f"{block:02d}"

    def is_block_complete(self, block: int) -> bool:
        """Whether every run of a block of the plan is finished."""
        return all(run.block != block for run in self.missing_runs(self.plan()))

    def missing_runs(self, plan: Plan) -> list[PlannedRun]:
        """The runs of the plan that are not finished."""
        return [run for run in plan.runs if not self.is_finished(run)]

    def write_plan(self, plan: Plan) -> None:
        """Replace plan.json: a continued study has more blocks; the existing blocks remain unchanged."""
        write_text(self.path / "plan.json", plan.model_dump_json(by_alias=True, indent=1))

    def discard_unfinished(self) -> list[str]:
        """Remove what a killed study left of unfinished runs; returns their names."""
        removed = []
        for aside in sorted((*self.path.glob("blocks/*/.*.unfinished"), *self.path.glob("blocks/.*.unfinished"))):
            shutil.rmtree(aside)
            removed.append(aside.name)
        return removed

    def _aside(self, folder: str) -> Path:
        final = self.path / folder
        return final.with_name(f".{final.name}{self._mark}")

    def _aside_of_block(self, block: int) -> Path:
        return self.path / "blocks" / f".{block:02d}{self._mark}"

    def _read(self, name: str, model: type[Stored]) -> Stored:
        path = self.path / name
        with readable(path):
            return model.model_validate_json(path.read_bytes())


def check_files(folder: Path) -> None:
    """Raise UserError for a FIFO or device in it, also one that a link leads to: reading it may not end."""
    for place, _, names in os.walk(folder):
        for name in names:
            path = Path(place, name)
            with suppress(OSError):
                mode = path.stat().st_mode
                if stat.S_ISFIFO(mode) or stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
                    raise UserError(f"{path} is a special file", INCOMPLETE)


def is_study(path: Path) -> bool:
    """Whether there is a study.json, or no permission to find out."""
    try:
        return (path / "study.json").is_file()
    except PermissionError:
        return True


def studies_below(folder: Path) -> list[Path]:
    """The studies of a folder, which need not exist, by name. Raises UserError if the folder cannot be read."""
    try:
        return sorted(path for path in folder.iterdir() if is_study(path))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise UserError(f"{folder} cannot be read: {error.strerror}", "--studies DIR names another folder") from error


def _place(run: RunRecord | PlannedRun) -> str:
    return f"block {run.block}, arm {run.arm!r}, copy {run.copy_number} in {run.folder}"


def _is_json(path: Path) -> bool:
    try:
        return isinstance(json.loads(path.read_bytes()), dict)
    except (OSError, ValueError):
        return False


def _is_parquet(path: Path) -> bool:
    """Its last four bytes are the format's mark, which is written last."""
    try:
        with path.open("rb") as file:
            file.seek(-4, os.SEEK_END)
            return file.read() == b"PAR1"
    except OSError:
        return False


def _name_host_group(block: Path, host_group: str) -> None:
    for path in sorted(block.glob("*/run.json")):
        run = RunRecord.model_validate_json(path.read_bytes())
        if run.host_group != host_group:
            named = run.model_copy(update={"host_group": host_group})
            write_text(path, named.model_dump_json(by_alias=True, indent=1))
