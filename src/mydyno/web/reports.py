"""A study's report in the language of the page: the saved one if it is in that language, else made anew and kept.

A report costs seconds of CPU. Therefore none is made while a study runs on this host, only one is made at a time, and
the last few are kept in memory.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from pathlib import Path

from mydyno.errors import MydynoError
from mydyno.language import html_language
from mydyno.store.study_folder import StudyFolder

KEPT = 4
_HEAD_BYTES = 200
_LANGUAGE = re.compile(rb'<html lang="([\w-]+)"')


class ReportsInLanguages:
    """Reports that no file has, by study, language and state of the study's summary. Safe in several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._made: OrderedDict[tuple[Path, str, int], str] = OrderedDict()

    def text(self, study: Path) -> str | None:
        """The report in the present language; None: the saved one is, or none can be made."""
        if _language_of(study / "report.html") == html_language():
            return None
        try:
            key = (study, html_language(), (study / "summary.json").stat().st_mtime_ns)
        except OSError:
            return None
        with self._lock:
            if key not in self._made:
                from mydyno.reports.page import render_page  # it takes a third of a second to load

                try:
                    self._made[key] = render_page(StudyFolder.open(study))
                except MydynoError:
                    return None
            self._made.move_to_end(key)
            while len(self._made) > KEPT:
                self._made.popitem(last=False)
            return self._made[key]


def _language_of(report: Path) -> str:
    """The attribute lang of a saved page; empty if it has none."""
    try:
        with report.open("rb") as file:
            found = _LANGUAGE.search(file.read(_HEAD_BYTES))
    except OSError:
        return ""
    return found[1].decode() if found else ""
