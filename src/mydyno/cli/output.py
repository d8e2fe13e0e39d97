"""What commands print on stdout for programs, and on stderr on a damaged study."""

from __future__ import annotations

import json
import sys

from mydyno.store.study_folder import StudyFolder


def print_json(value: object) -> None:
    """One JSON document on stdout."""
    json.dump(value, sys.stdout, indent=1, default=str)
    print()


def warn_of_damage(folder: StudyFolder) -> None:
    """A line on stderr for a study whose journal is damaged; everything else of it may still be right."""
    if words := folder.journal.damage():
        print(f"mydyno: warning: {words}", file=sys.stderr)
