"""How much an effect differs from session to session on a host: from all its comparable studies, not only two of them.

Two sessions show a difference, but not whether sessions differ as much when nothing was changed. From four comparable
studies on, the sd between sessions is known (stats/level_changes.py: from neighbours, so that one change of level in
between does not enter it), and is part of the interval of every difference.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mydyno.results.across.common_ground import Contrast
from mydyno.results.across.history import read_studies, why_left_out, with_step
from mydyno.results.across.hosts import host_identity
from mydyno.results.across.saved import SavedStudy, without_copies
from mydyno.results.across.series import Key, measured
from mydyno.stats.level_changes import FEWEST_SESSIONS, moderated, session_sd


@dataclass(frozen=True, slots=True)
class Scatter:
    """Between the sessions of one effect: how many are known, and their sd, of logs; None below FEWEST_SESSIONS."""

    sessions: int
    sd: float | None


def studies_beside(studies: Sequence[SavedStudy]) -> tuple[SavedStudy, ...]:
    """The other studies of the same experiments in the folders of these ones, by the names of their folders.

    Without copies of any of them.
    """
    identities = {study.identity for study in studies}
    own = {study.folder.path.resolve() for study in studies}
    names = {study.summary.experiment for study in studies}
    found: dict[Path, None] = {}
    for folder in dict.fromkeys(path.parent for path in own):
        for path in sorted(folder.iterdir()):
            if path not in own and any(path.name.startswith(f"{name}-") for name in names):
                found[path] = None
    others, _ = without_copies(read_studies(list(found)).studies)
    return tuple(study for study in others if study.identity not in identities)


def session_scatter(studies: Sequence[SavedStudy], beside: Sequence[SavedStudy], contrast: Contrast) -> Scatter:
    """The scatter of one contrast between all comparable sessions on the host of the compared studies."""
    if len({host_identity(study) for study in studies}) > 1:
        return Scatter(0, None)
    newest = max(studies, key=lambda study: study.study.created_unix_ns)
    names = {study.summary.experiment for study in studies}
    every = [*studies, *(one for one in beside if one.summary.experiment in names)]
    usable = [study for study in every if study in studies or not why_left_out(study, newest)]
    usable.sort(key=lambda study: (study.study.created_unix_ns, study.name))
    metric, step, arm, control = contrast
    found = measured(with_step(usable, newest, step), Key("effect", metric, step, arm, control))
    count = len(found.studies)
    if count < FEWEST_SESSIONS:
        return Scatter(count, None)
    errors = np.asarray([one.error or 0.0 for one in found.estimates])
    freedom = np.maximum(1, np.asarray([one.freedom for one in found.estimates]))
    positive = np.where(errors > 0, errors, errors[errors > 0].min(initial=1.0))
    se, _ = moderated(positive, freedom)
    return Scatter(count, session_sd(np.asarray([one.mean or 0.0 for one in found.estimates]), se))
