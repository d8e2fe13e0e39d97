"""A saved study with its answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mydyno.model.stored.summary import PrintedSummary
from mydyno.reports.formats import printed_summary
from mydyno.store.study_folder import StudyFolder
from mydyno.wording.stored_result import StoredResult


def worded(folder: StudyFolder) -> PrintedSummary:
    """As `mydyno report --format json` prints it."""
    return printed_summary(StoredResult.load(folder))


def worded_json(study: Path) -> dict[str, Any]:
    """The same as programs read it."""
    found: dict[str, Any] = json.loads(worded(StudyFolder.open(study)).model_dump_json(by_alias=True))
    return found
