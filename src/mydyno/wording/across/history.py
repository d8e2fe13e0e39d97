"""The history of an experiment with its sentences, as `mydyno history` prints it."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise

from mydyno.language import agreed
from mydyno.model.metrics import phrase_of
from mydyno.model.stored.comparison import History, HistoryPoint, HistorySeries, LeftOut, LevelChange
from mydyno.model.stored.summary import StepLevel
from mydyno.results.across.history import ALPHA, FoundStudies, Selection, Unlike, found_history
from mydyno.results.across.series import Analysed
from mydyno.stats.level_changes import FEWEST_SESSIONS
from mydyno.wording.across.sentences import at_step, effect_words
from mydyno.wording.across.settings import changed_between
from mydyno.wording.numbers import half_width_text, signed

MOST_SENTENCES = 3
HOPELESS = 1.0
"""Sizes of a change from this share on are not worth a sentence."""


def history_of(studies: FoundStudies, experiment: str, selection: Selection | None = None) -> History:
    """The history of an experiment among these studies.

    Raises UserError if none of them is usable, or for an arm, step, metric or host that is not among them.
    """
    found = found_history(studies, experiment, selection or Selection())
    left = [LeftOut(study=study.name, reason=_why(unlike)) for study, unlike in found.unlike]
    made = History(
        experiment=experiment,
        question=found.newest.summary.question,
        host=found.newest.host,
        answer=(),
        studies=tuple(study.name for study in found.studies),
        steps=tuple(StepLevel.of(step) for step in found.newest.study.experiment.resolved_steps),
        series=(),
        left_out=(*found.unreadable, *left),
        alpha=ALPHA,
    )
    several = tuple(map(_with_changes, found.series))
    worded = tuple(one.model_copy(update={"sentence": series_sentence(made, one)}) for one in several)
    made = made.model_copy(update={"series": worded})
    return made.model_copy(update={"answer": answer(made)})


def _with_changes(one: Analysed) -> HistorySeries:
    """The series with what was recorded to differ between its studies."""
    studies, series = one.of.studies, one.series
    changed = [(), *(changed_between(before, after) for before, after in pairwise(studies))]
    points = (point.model_copy(update={"changed": found}) for point, found in zip(series.points, changed, strict=True))
    changes = (
        change.model_copy(update={"changed": changed[place]})
        for change, place in zip(series.changes, one.changed_at, strict=True)
    )
    return series.model_copy(update={"points": tuple(points), "changes": tuple(changes)})


def _why(unlike: Unlike) -> str:
    """Why a study is left out."""
    of = ", ".join(unlike.of)
    match unlike.why:
        case "copy":
            return f"it is the same study as {of}"
        case "host":
            return f"another host ({of})" if of else "another host"
        case "early":
            return "it has not reached its first interim analysis, so it has no effects"
        case "failed":
            return "it failed: it has no valid run"
        case "alarm":
            return "two equal servers differ"
        case "data":
            return f"other data ({of})"
        case "load":
            return "other load: it has no load level in common with the newest study"
        case "arm":
            return f"arm {unlike.arm} is defined differently ({of})"


def answer(history: History) -> tuple[str, ...]:
    """One to three sentences: the changes first."""
    if not history.series:
        return (f"No study of {history.experiment} on {history.host} has a value with an interval.",)
    changed = [one for one in history.series if one.changes]
    if changed:
        found = [one.sentence for one in sorted(changed, key=_newest_first)[: MOST_SENTENCES - 1]]
        rest = len(history.series) - len(found)
        if len(changed) > len(found):
            found.append(f"{len(changed)} of {len(history.series)} series changed.")
        elif rest:
            found.append(
                "The other series shows no change." if rest == 1 else f"The other {rest} series show no change."
            )
        return tuple(found)
    if len(history.series) == 1:
        return (history.series[0].sentence,)
    studies = len(history.studies)
    if studies < FEWEST_SESSIONS:
        return (_too_few(studies),)
    first = min((one.points[0] for one in history.series), key=lambda point: point.created_unix_ns)
    shown = agreed(f"No change is shown since {date(first)} ({studies} studies, {len(history.series)} series).")
    widest = max((one.detectable or 0.0 for one in history.series), default=0.0)
    if widest >= HOPELESS:
        return (shown, "These studies are too few, or differ too much, to show anything but very large changes.")
    found_in = (
        f" A change of {half_width_text(widest)} in the middle of this time would have been found in any of them "
        "in about 80 % of cases."
    )
    return (shown + found_in,)


def series_sentence(history: History, series: HistorySeries) -> str:
    """What one series shows."""
    subject = series_name(history, series)
    count = len(series.points)
    if count < FEWEST_SESSIONS:
        return subject + ": " + _too_few(count)
    if series.changes:
        last = series.changes[-1]
        more = len(series.changes) - 1
        earlier = " " + agreed(f"{more} earlier changes.")
        return _change_sentence(subject, series, last) + (earlier if more else "")
    shown = agreed(f"{subject}: no change is shown since {date(series.points[0])} ({count} studies)")
    if series.detectable is None or series.detectable >= HOPELESS:
        return f"{shown}."
    return f"{shown}; one of {half_width_text(series.detectable)} would probably have been found."


def series_name(history: History, series: HistorySeries) -> str:
    """E.g. "The effect of jemalloc on queries per second at 64 connections"."""
    at = at_step(history.steps, series.step)
    if series.kind == "effect":
        return effect_words(series.arm, series.metric, at)
    return f"The level of {phrase_of(series.metric).short_noun} of {series.arm}{at}"


def date(point: HistoryPoint) -> str:
    """The day of a point, ISO 8601."""
    return datetime.fromtimestamp(point.created_unix_ns / 1e9, UTC).date().isoformat()


def _change_sentence(subject: str, series: HistorySeries, change: LevelChange) -> str:
    point = next(one for one in series.points if one.study == change.study)
    low, high = sorted((change.ci_low - 1, change.ci_high - 1))
    version = "version: "
    packages = (f"{count} {'package' if count == 1 else 'packages'}".removeprefix(str(count)) for count in (1, 2))
    with_version = tuple(packages)  # packages come with a server of another version
    servers = next((text.removeprefix(version) for text in change.changed if text.startswith(version)), "")
    others = [text for text in change.changed if not text.startswith(version) and not text.endswith(with_version)]
    causes = [f"server {servers}"] if servers else others[:2]
    if servers and others:
        causes.append("other settings changed too")
    size = signed(abs(change.ratio - 1)).lstrip("+")
    why = "; ".join(causes) or "no recorded setting changed"
    how = f"{'higher' if change.ratio > 1 else 'lower'} by {size} (between {signed(low)} and {signed(high)})"
    return f"{subject} is {how} since {change.study}, {date(point)} ({why})."


def _too_few(count: int) -> str:
    beside = "; `mydyno compare` compares two" if count == 2 else ""
    return agreed(
        f"{count} studies cannot show a change: {FEWEST_SESSIONS} are needed to distinguish it from the scatter "
        f"between sessions{beside}."
    )


def _newest_first(series: HistorySeries) -> int:
    change = series.changes[-1]
    return -next(point.created_unix_ns for point in series.points if point.study == change.study)
