"""The list of studies of a folder: one row each, read again only when the study's files have changed.

A study may be half-written, damaged or of another mydyno: it is listed with what is wrong. Rows are kept in a file of
the cache between two servers, because parsing the summaries of hundreds of studies takes seconds.

Whether a study runs is known by the process that its live.jsonl names. A pid alone proves nothing: it may be another
process by now, and the file may be a copy from elsewhere. The process is the study's own if it has the recorded start
time and holds this very live.jsonl open. Only such a process is ever sent a signal. Which files another user's process
has open is forbidden to read: then its start time counts alone, and it is sent none.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import platform
import re
import signal
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from math import log
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel

from mydyno import __version__
from mydyno.errors import MydynoError, UserError
from mydyno.evaluation.answer import answer_sentences
from mydyno.files.atomic import write_text
from mydyno.hosts.identity import ProcessIdentity, boot_id, pid_namespace
from mydyno.model.stored.live import LiveEnded, LiveOpened, LiveSecond, parse_live
from mydyno.model.stored.records import FORMAT, StudyRecord
from mydyno.model.stored.summary import Summary
from mydyno.results.precision import alarm_of, block_duration_s
from mydyno.store.logs import LIVE_FILE, Journal, read_last_lines
from mydyno.store.study_folder import StudyFolder, check_files
from mydyno.wording.numbers import metric_name
from mydyno.wording.stored_result import StoredResult

SILENT_S = 15.0
"""A study that this host cannot see is considered gone after this time without a line."""
_OPENED = b'{"record":"opened"'

LiveKind = Literal["none", "running", "ended", "killed", "copied", "elsewhere", "silent"]
"""copied: the process lives, and writes another file; elsewhere: written by a process that this host cannot see, and
lately; silent: not any more."""
LASTING: frozenset[LiveKind] = frozenset({"none", "ended", "killed", "copied", "silent"})
"""What remains so until live.jsonl changes."""


@dataclass(frozen=True)
class LiveStatus:
    """What live.jsonl and the kernel say about the study's process."""

    kind: LiveKind
    opened: LiveOpened | None = None
    ended: LiveEnded | None = None
    last: LiveSecond | None = None
    """The newest second of the study itself."""

    @property
    def words(self) -> str:
        """One sentence for a person; empty while it runs."""
        if self.opened is None:
            return ""
        if self.kind == "killed":
            return (
                f"The study's process (pid {self.opened.pid}) has ended without finishing the study: it was killed, or "
                f"it crashed. Finished runs are kept. To continue: mydyno resume {self.opened.study}"
            )
        if self.kind == "copied":
            return (
                f"This live.jsonl is a copy of that of a running study: process {self.opened.pid} writes another one."
            )
        if self.kind == "silent":
            return (
                f"The study wrote its last line more than {SILENT_S:.0f} s ago. It was started on "
                f"{self.opened.hostname}, whose processes cannot be seen from here."
            )
        return ""


def live_status(study: Path) -> LiveStatus:
    """The status of a study's folder; kind "none" without a live.jsonl that can be read."""
    path = study / LIVE_FILE
    opened = last_opened(path)
    if opened is None:
        return LiveStatus("none")
    records = [line.record for line in read_last_lines(path, 16 * 1024)]
    ended = records[-1] if records and isinstance(records[-1], LiveEnded) else None
    last = next((one for one in reversed(records) if isinstance(one, LiveSecond) and not one.group), None)
    kind = kind_of(opened, ended is not None, path)
    # A study opens its file before the first line and closes it after the last.
    if kind == "running" and _holds_open(opened.pid, path) is False:
        kind = "copied" if is_alive(opened) else "killed"
    return LiveStatus(kind, opened, ended, last)


def kind_of(opened: LiveOpened, ended: bool, path: Path) -> LiveKind:
    """The kind of status of a live.jsonl with this last `opened`, which is no copy; cheap enough for every second."""
    if ended:
        return "ended"
    if not is_visible(opened):
        with suppress(OSError):
            if time.time() - path.stat().st_mtime < SILENT_S:
                return "elsewhere"
        return "silent"
    return "running" if is_alive(opened) else "killed"


def last_opened(path: Path) -> LiveOpened | None:
    """The last `opened` of the file: the process that wrote, or writes, its end."""
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            position = content.rfind(_OPENED)
            while position > 0 and content[position - 1 : position] != b"\n":  # inside of a note
                position = content.rfind(_OPENED, 0, position)
            if position < 0:
                return None
            content.seek(position)
            record = parse_live(content.readline())
    except (OSError, ValueError):  # absent, or empty
        return None
    return record if isinstance(record, LiveOpened) else None


def is_visible(opened: LiveOpened) -> bool:
    """Whether the process, if it lives, is among those that this process sees."""
    return opened.boot_id == boot_id() and opened.pid_namespace == pid_namespace()


def is_alive(opened: LiveOpened) -> bool:
    """Whether the process that wrote `opened` still runs."""
    return ProcessIdentity(opened.pid, opened.start_ticks).alive()


def stop_study(study: Path) -> str:
    """Send the study's process SIGINT, as Ctrl-C does; an empty text, or why it was not sent."""
    opened = last_opened(study / LIVE_FILE)
    if opened is None:
        return "the study has no live.jsonl"
    if not is_visible(opened):
        return f"the study was started on {opened.hostname}, not among the processes of {platform.node()}"
    identity = ProcessIdentity(opened.pid, opened.start_ticks)
    if not identity.alive():
        return "the study's process has ended"
    holds_open = _holds_open(opened.pid, study / LIVE_FILE)
    if holds_open is None:
        return f"process {opened.pid} is another user's"
    if not holds_open:
        return f"process {opened.pid} does not write this study's live.jsonl"
    return "" if identity.send(signal.SIGINT) else "the study's process has ended"


def _holds_open(pid: int, path: Path) -> bool | None:
    """Whether a process has a file open; None where this may not be known."""
    try:
        wanted = path.stat()
        descriptors = list(Path(f"/proc/{pid}/fd").iterdir())
    except PermissionError:  # another user's process
        return None
    except OSError:  # it has ended, or there is no such file
        return False
    for descriptor in descriptors:
        try:
            if os.path.samestat(descriptor.stat(), wanted):
                return True
        except OSError:
            continue  # closed meanwhile
    return False


CACHE_FORMAT = 5
FILES = ("study.json", "plan.json", "summary.json")
JOURNAL = "journal.jsonl"
STATES = ("running", "complete", "partial", "unfinished", "killed", "failed", "damaged")
"""What a study can be filtered by."""
Key = tuple[int, ...]


@dataclass(frozen=True)
class Row:
    """One study in the list."""

    id: str
    """The folder's name."""
    state: str
    question: str = ""
    experiment: str = ""
    answer: str = ""
    """The answer's first sentence; empty: the study was not evaluated."""
    created_unix_ns: int | None = None
    host: str = ""
    server: str = ""
    problem: str = ""
    """What is wrong with the study's files; empty if nothing is."""
    live: LiveKind = "none"
    effects: dict[str, float] = field(default_factory=dict)
    """effects_of(): what a row of several studies draws."""
    undecided: list[str] = field(default_factory=list)
    """Of these contrasts, those that the study leaves open."""

    @property
    def text(self) -> str:
        """What a search looks into."""
        words = (self.id, self.question, self.answer, self.host, self.server, self.state, self.experiment)
        return "\n".join(words).casefold()


class StudyIndex:
    """Every study below one folder. Safe in several threads."""

    def __init__(
        self,
        studies: Path,
        cache: Path | None = None,
        read: Callable[[Path], Row] | None = None,
        status: Callable[[Path], LiveStatus] = live_status,
    ) -> None:
        """`cache`: a folder for the rows between two starts; None: none is used. `read`: read_row()."""
        self.studies = studies
        self._read, self._status = read or read_row, status
        self._lock = threading.Lock()
        name = hashlib.sha256(str(studies.resolve()).encode()).hexdigest()[:16]
        self._file = None if cache is None else cache / f"studies-{name}.json"
        self._rows: dict[str, tuple[Key, Row]] = {}
        self._lasting: dict[str, tuple[Key, LiveKind]] = {}
        """Live states of studies that are not running, kept until live.jsonl changes."""
        self._saved: dict[str, Any] | None = None

    def rows(self) -> list[Row]:
        """Every study, newest first."""
        with self._lock:
            if self._saved is None:
                self._saved = self._read_cache()
            known, changed = self._rows, False
            self._rows = {}
            for name in self._names():
                path = self.studies / name
                key = _key(path, (*FILES, JOURNAL))
                before = known.get(name) or self._cached(name)
                if before is not None and before[0] == key:
                    self._rows[name] = before
                else:
                    self._rows[name] = (key, self._read(path))
                    changed = True
            if changed or len(known) != len(self._rows):
                self._write_cache()
            found = [self._with_live(row) for _, row in self._rows.values()]
        return sorted(found, key=lambda row: (row.created_unix_ns or 0, row.id), reverse=True)

    def find(self, study: str) -> Path | None:
        """The folder of a study of the list; None if there is none of that name, or it lies elsewhere."""
        if study not in self._names():
            return None
        path = (self.studies / study).resolve()
        return path if path.parent == self.studies.resolve() else None

    def row(self, path: Path) -> Row:
        """One study's row."""
        return self._with_live(self._read(path))

    def last_second(self, row: Row) -> LiveSecond | None:
        """What a study that runs wrote last."""
        return self._status(self.studies / row.id).last

    def _names(self) -> list[str]:
        try:
            with os.scandir(self.studies) as entries:
                return [
                    entry.name
                    for entry in entries
                    if entry.is_dir(follow_symlinks=False) and not entry.name.startswith(".") and _is_study(entry.path)
                ]
        except OSError:
            return []

    def _with_live(self, row: Row) -> Row:
        path = self.studies / row.id
        key = _key(path, (LIVE_FILE,))
        if key == (0, 0):
            return row
        known = self._lasting.get(row.id)
        if known is not None and known[0] == key:
            kind = known[1]
        else:
            kind = self._status(path).kind
            if kind in LASTING:
                self._lasting[row.id] = (key, kind)
        state = row.state
        if kind in ("running", "elsewhere"):
            state = "running"
        elif kind == "killed" and state in ("unfinished", "partial"):
            state = "killed"
        return replace(row, live=kind, state=state)

    def _cached(self, name: str) -> tuple[Key, Row] | None:
        saved = (self._saved or {}).get(name)
        if saved is None:
            return None
        try:
            return tuple(saved["key"]), Row(**saved["row"])
        except (TypeError, KeyError):
            return None

    def _read_cache(self) -> dict[str, Any]:
        if self._file is None:
            return {}
        try:
            document = json.loads(self._file.read_bytes())
            if (document["format"], document["version"]) == (CACHE_FORMAT, __version__):
                found: dict[str, Any] = document["rows"]
                return found
        except (OSError, ValueError, KeyError, TypeError):
            return {}
        return {}

    def _write_cache(self) -> None:
        if self._file is None:
            return
        rows = {name: {"key": key, "row": asdict(row)} for name, (key, row) in self._rows.items()}
        document = {"format": CACHE_FORMAT, "version": __version__, "rows": rows}
        with suppress(OSError):  # the list is only slower without
            write_text(self._file, json.dumps(document))


def _is_study(path: str) -> bool:
    """Whether a folder looks like a study, however incomplete."""
    return any((Path(path) / name).exists() for name in (*FILES, JOURNAL, LIVE_FILE))


def _key(path: Path, files: Iterable[str]) -> Key:
    """(mtime, size) of each; zeros for one that is absent."""
    key: list[int] = []
    for name in files:
        try:
            status = (path / name).stat()
            key += (status.st_mtime_ns, status.st_size)
        except OSError:
            key += (0, 0)
    return tuple(key)


def read_row(path: Path) -> Row:
    """The row of a study's folder, without its live state. Never raises: a damaged study has a problem."""
    try:
        check_files(path)
        study = _document(path / "study.json")
    except UserError as error:
        return Row(path.name, "damaged", problem=error.message)
    except (OSError, ValueError) as error:
        return Row(path.name, "damaged", problem=f"study.json cannot be read: {_words(error)}")
    if study.get("format") != FORMAT:
        return Row(path.name, "damaged", problem=f"format {study.get('format')}; this mydyno reads format {FORMAT}")
    experiment = _table(study, "experiment")
    row = Row(
        path.name,
        "unfinished",
        question=_string(experiment, "question"),
        experiment=_string(experiment, "name"),
        created_unix_ns=study["created_unix_ns"] if isinstance(study.get("created_unix_ns"), int) else None,
        host=_string(_table(study, "host"), "hostname"),
        server=_server(experiment, _table(study, "versions")),
    )
    if not (path / "plan.json").exists():
        row = replace(row, state="damaged", problem="plan.json is missing: the study was not written completely")
    folder = StudyFolder(path)
    try:
        summary = folder.summary()
    except UserError:
        return replace(row, state="damaged", problem="summary.json cannot be read; to make it again: mydyno report")
    if summary is None:
        return row
    row = replace(row, problem=row.problem or Journal(path / JOURNAL).damage().replace(f"{path}/", ""))
    row = replace(
        row, state=row.state if row.state == "damaged" else summary.state, question=summary.question or row.question
    )
    # Files that are damaged, or contradict each other, have no answer.
    with suppress(UserError, ArithmeticError, LookupError, ValueError):
        record = folder.study()
        leading, _ = answer_sentences(summary, record, lambda: block_duration_s(tuple(folder.runs())))
        effects, undecided = effects_of(summary, record)
        return replace(row, answer=leading[0], effects=effects, undecided=undecided)
    return row


def effects_of(summary: Summary, record: StudyRecord) -> tuple[dict[str, float], list[str]]:
    """({contrast: ratio}, contrasts that are open) in the primary metric, beginning with what the study shows, and
    there with the largest effect; none of a study with an A/A alarm, or before its first look.

    A contrast is its words, and on a second line what it depends on, so that only the same contrasts are one series.
    """
    of = record.experiment
    if alarm_of(summary.effects) or not summary.due:
        return {}, []
    parts: dict[str, BaseModel] = {one.id: one for one in of.resolved_steps}
    parts |= {one.name: one for one in of.arms}
    found, undecided = {}, []
    of_primary = (one for one in summary.effects if one.metric == summary.primary)
    measured = [(one, one.ratio) for one in of_primary if one.ratio and {one.step, one.arm, one.control} <= {*parts}]
    measured.sort(key=lambda pair: (pair[0].verdict not in ("higher", "lower"), -abs(log(pair[1]))))
    for one, ratio in measured:
        words = f"{metric_name(one.metric)} of {one.arm} relative to {one.control}, {one.step}"
        of_contrast = (of.data, *(parts[name] for name in (one.step, one.arm, one.control)))
        definition = "".join(part.model_dump_json() for part in of_contrast)
        found[f"{words}\n{hashlib.sha256(definition.encode()).hexdigest()[:8]}"] = ratio
        if one.verdict == "inconclusive":
            undecided.append([*found][-1])
    return found, undecided


def evaluated(path: Path) -> StoredResult | None:
    """A study as reports see it; None if it was not evaluated, or cannot be read."""
    try:
        result = StoredResult.load(StudyFolder.open(path))
    except MydynoError:
        return None
    return result if result.evaluated else None


def _document(path: Path) -> dict[str, Any]:
    document = json.loads(path.read_bytes())
    if not isinstance(document, dict):
        raise ValueError("it is not an object")
    return document


def _table(document: dict[str, Any], name: str) -> dict[str, Any]:
    found = document.get(name)
    return found if isinstance(found, dict) else {}


def _string(document: dict[str, Any], name: str) -> str:
    found = document.get(name)
    return found if isinstance(found, str) else ""


def _server(experiment: dict[str, Any], versions: dict[str, Any]) -> str:
    server = _table(experiment, "server")
    name = _string(server, "name") or Path(_string(server, "basedir")).name
    found = re.match(r"\d[\d.]*", _string(versions, "server"))
    version = found[0] if found else ""
    return f"{name or 'external server'} ({version})" if version else name or "external server"


def _words(error: Exception) -> str:
    if isinstance(error, OSError):
        return error.strerror or type(error).__name__
    return str(error)
