"""Do the intervals of two copies of one server contain "no difference" as often as they claim, over all studies?

Every study compares its control with a second copy of it, whose true ratio is 1. Of each study one such comparison
counts, the primary metric at the experiment's first step: those of other steps and metrics share its servers and are
not independent. Nothing is concluded from fewer than 60 studies.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from mydyno.language import percent_sign, tr
from mydyno.model.stored.history import Calibration, CopiesContrast
from mydyno.results.across.estimates import mean_of
from mydyno.results.across.saved import SavedStudy
from mydyno.stats.calibration import ENOUGH, Factor, Rate, factor, rate, score

STATED = 0.95


def calibrate(studies: Sequence[SavedStudy], host: str) -> Calibration:
    """The calibration over studies of one host, of any experiment."""
    contrasts = tuple(one for study in studies if (one := _contrast(study)) is not None)
    if not contrasts:
        return _made(host, contrasts, None, None)
    covered = sum(one.covers for one in contrasts)
    return _made(host, contrasts, rate(covered, len(contrasts)), factor([one.score for one in contrasts]))


def _contrast(study: SavedStudy) -> CopiesContrast | None:
    """The first step's; None with fewer than two blocks, or where nothing varies."""
    metric, step = study.summary.primary, study.summary.steps[0].id
    if study.before_first_look:
        return None
    found = mean_of({block: float(np.log(b / a)) for block, (a, b) in study.copies(metric, step).items()})
    interval = found.interval(1.0 - STATED, STATED)
    if found.mean is None or not found.error or interval.low is None or interval.high is None:
        return None
    return CopiesContrast(
        study=study.name,
        metric=metric,
        step=step,
        n=found.n,
        ratio=found.ratio or 1.0,
        ci_low=interval.low,
        ci_high=interval.high,
        covers=interval.low <= 1.0 <= interval.high,
        score=score(found.mean, found.error, found.freedom),
    )


def _made(host: str, contrasts: tuple[CopiesContrast, ...], found: Rate | None, width: Factor | None) -> Calibration:
    conclusion: Literal["too few studies", "as stated", "too narrow", "too wide"] = "too few studies"
    if found is not None and found.of >= ENOUGH:
        conclusion = "too narrow" if found.high < STATED else "too wide" if found.low > STATED else "as stated"
    return Calibration(
        host=host,
        studies=len(contrasts),
        covered=0 if found is None else found.count,
        rate=None if found is None else found.count / found.of,
        rate_low=None if found is None else found.low,
        rate_high=None if found is None else found.high,
        factor=None if width is None else width.factor,
        factor_low=None if width is None else width.low,
        factor_high=None if width is None else width.high,
        enough=ENOUGH,
        conclusion=conclusion,
        sentence=_sentence(host, found, conclusion),
        contrasts=contrasts,
    )


def _sentence(host: str, found: Rate | None, conclusion: str) -> str:
    if found is None:
        return tr("No study of {host} has an interval of the control against its own copy.", host=host)
    facts = {"count": found.count, "all": found.of, "host": host, "stated": _percent(STATED)}
    if conclusion == "too few studies":
        return tr(
            "{count} of {all} A/A intervals on {host} contain no difference; {stated} are stated. "
            "Nothing is concluded from fewer than {enough} studies.",
            enough=ENOUGH, **facts,
        )  # fmt: skip
    meaning = {
        "as stated": tr("the coverage of the intervals is as stated"),
        "too narrow": tr("the intervals are too narrow on this host: differences are claimed too often"),
        "too wide": tr("the intervals are wider than necessary"),
    }[conclusion]
    return tr(
        "{count} of {all} A/A intervals on {host} contain no difference; {stated} are stated. "
        "That is {share} (between {low} and {high}): {meaning}.",
        share=_percent(found.count / found.of), low=_percent(found.low), high=_percent(found.high), meaning=meaning,
        **facts,
    )  # fmt: skip


def _percent(share: float) -> str:
    return f"{share * 100:.0f}{percent_sign(' ')}"
