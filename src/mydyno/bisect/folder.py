"""The bisection's folder: bisect.json, journal.jsonl, the studies, and in the end result.json and the report.

The error rate of a bisection is divided over its studies, so that all of them together keep to it (Bonferroni). The
path is right if every decision on it is. The studies that are planned, one of the ends and one for each halving, have
an equal share each, and one more share is for studies beyond those (commits that could not be decided): a half of it, a
sixth, a twelfth, …, which sum to the whole. The share of a study depends on its number alone, never on a result, so the
sum bounds the chance of a wrong decision whatever path the results lead to.
"""

from __future__ import annotations

import math
from pathlib import Path

from pydantic import ValidationError

from mydyno.errors import UserError
from mydyno.files.atomic import write_text
from mydyno.files.logs import Journal
from mydyno.model.stored.bisection import BISECT_FORMAT, BisectRecord, BisectResult, Comparison, Ends

LEAST_RATE = 0.0001
"""Below this no study is made: labels are not permuted often enough to decide anything (stats/permutation.py)."""


def comparisons_needed(commits: int) -> int:
    """The comparisons of the ends and of the commits in between, if none is skipped."""
    return 1 + (math.ceil(math.log2(commits)) if commits > 1 else 0)


def rate_of_study(error_rate: float, commits: int, made: int) -> float:
    """The error rate of the next study, after so many were made, of a bisection over so many commits."""
    planned = comparisons_needed(commits)
    share = error_rate / (planned + 1)
    beyond = made - planned + 1
    return share if beyond <= 0 else share / (beyond * (beyond + 1))


RECORD, RESULT = "bisect.json", "result.json"
ENDS_EVENT, COMPARED_EVENT = "ends_compared", "commit_compared"


class BisectFolder:
    """One bisection on disk. What the journal has is not done again."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.journal = Journal(path / "journal.jsonl")

    @classmethod
    def create(cls, path: Path, record: BisectRecord) -> BisectFolder:
        """A new folder. Raises UserError if the path is already taken."""
        try:
            path.mkdir(parents=True)
        except FileExistsError:
            raise UserError(f"the folder {path} exists already") from None
        folder = cls(path)
        write_text(path / RECORD, record.model_dump_json(indent=1))
        folder.journal.append("bisection_created", bisection=record.bisection)
        return folder

    @classmethod
    def open(cls, path: Path) -> BisectFolder:
        """An existing one. Raises UserError if it is none, or of a newer format."""
        if not (path / RECORD).is_file():
            raise UserError(f"{path} is not a bisection: it has no {RECORD}")
        folder = cls(path)
        found = folder.record().format
        if found != BISECT_FORMAT:
            words = f"{path} has format {found}; this mydyno reads format {BISECT_FORMAT}"
            raise UserError(words, "use a newer mydyno")
        return folder

    @property
    def studies(self) -> Path:
        """Where the studies of its comparisons are."""
        return self.path / "studies"

    @property
    def repository(self) -> Path:
        """git bisect's own repository; made again whenever the bisection is continued."""
        return self.path / "repository"

    def record(self) -> BisectRecord:
        """bisect.json. Raises UserError if it is damaged."""
        try:
            return BisectRecord.model_validate_json((self.path / RECORD).read_bytes())
        except (OSError, ValidationError) as error:
            raise UserError(f"{self.path / RECORD} cannot be read: {error}", "is the folder complete?") from error

    def ends(self) -> Ends | None:
        """The comparison of good and bad; None if it was not finished."""
        events = [event for event in self.journal.read() if event["event"] == ENDS_EVENT]
        return Ends.model_validate(events[-1]["ends"]) if events else None

    def comparisons(self) -> list[Comparison]:
        """The finished comparisons of commits in between, in their order."""
        return [
            Comparison.model_validate(event["comparison"])
            for event in self.journal.read()
            if event["event"] == COMPARED_EVENT
        ]

    def next_error_rate(self) -> float:
        """The error rate of the next study that is made."""
        record, made = self.record(), len(list(self.studies.glob("*/study.json")))
        return rate_of_study(record.error_rate, record.commits, made)

    def study_of(self, experiment: str) -> Path | None:
        """The study of a comparison that was begun, by its experiment's name; None if there is none."""
        found = sorted(self.studies.glob(f"{experiment}-*/study.json"))
        return found[-1].parent if found else None

    def result(self) -> BisectResult | None:
        """result.json; None if there is none yet."""
        path = self.path / RESULT
        return BisectResult.model_validate_json(path.read_bytes()) if path.is_file() else None

    def write_result(self, result: BisectResult) -> None:
        """Write result.json as a whole."""
        write_text(self.path / RESULT, result.model_dump_json(indent=1))
