"""The sentences of a history."""

from __future__ import annotations

from datetime import UTC, datetime

from mydyno.model.history import History, HistoryPoint, HistorySeries, LevelChange
from mydyno.model.load_level import load_level
from mydyno.model.metrics import phrase_of
from mydyno.results.plain_words import plus_minus, signed
from mydyno.stats.level_changes import FEWEST_SESSIONS

MOST_SENTENCES = 3
HOPELESS = 1.0
"""Sizes of a change from this share on are not worth a sentence."""
SERVER = "version: "
PACKAGES = (" package", " packages")
"""Packages come with a server of another version."""


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
                f"The other {rest} series show no change." if rest > 1 else "The other series shows no change."
            )
        return tuple(found)
    if len(history.series) == 1:
        return (history.series[0].sentence,)
    studies = len(history.studies)
    if studies < FEWEST_SESSIONS:
        return (_too_few(studies),)
    first = _oldest(history)
    shown = f"No change is shown since {date(first)} ({studies} studies, {len(history.series)} series)."
    widest = max((one.detectable or 0.0 for one in history.series), default=0.0)
    if widest >= HOPELESS:
        return (shown, "These studies are too few, or differ too much, to show anything but very large changes.")
    return (
        f"{shown} A change of {plus_minus(widest)} in the middle of this time would have been found in any of them in "
        "about 80 % of cases.",
    )


def series_sentence(history: History, series: HistorySeries) -> str:
    """What one series shows."""
    subject = series_name(history, series)
    count = len(series.points)
    if count < FEWEST_SESSIONS:
        return f"{subject}: {_too_few(count)}"
    if series.changes:
        last = series.changes[-1]
        more = len(series.changes) - 1
        earlier = f" {more} earlier change{'s' if more > 1 else ''}." if more else ""
        return f"{subject} is {_change_words(series, last)}.{earlier}"
    hopeless = series.detectable is None or series.detectable >= HOPELESS
    room = "" if hopeless else f"; one of {plus_minus(series.detectable or 0.0)} would probably have been found"
    return f"{subject}: no change is shown since {date(series.points[0])} ({count} studies){room}."


def series_name(history: History, series: HistorySeries) -> str:
    """E.g. "The effect of jemalloc on queries per second at 64 connections"."""
    noun = phrase_of(series.metric).short_noun
    where = f" at {_step(history, series.step)}" if len(history.steps) > 1 else ""
    if series.kind == "effect":
        return f"The effect of {series.arm} on {noun}{where}"
    return f"The level of {noun} of {series.arm}{where}"


def date(point: HistoryPoint) -> str:
    """The day of a point, ISO 8601."""
    return datetime.fromtimestamp(point.created_unix_ns / 1e9, UTC).date().isoformat()


def _change_words(series: HistorySeries, change: LevelChange) -> str:
    point = next(one for one in series.points if one.study == change.study)
    way = "higher" if change.ratio > 1 else "lower"
    share = abs(change.ratio - 1)
    low, high = sorted((change.ci_low - 1, change.ci_high - 1))
    servers = next((text.removeprefix(SERVER) for text in change.changed if text.startswith(SERVER)), "")
    others = [text for text in change.changed if not text.startswith(SERVER) and not text.endswith(PACKAGES)]
    causes = [f"server {servers}"] if servers else others[:2]
    if servers and others:
        causes.append("other settings changed too")
    why = "; ".join(causes) or "no recorded setting changed"
    return (
        f"{way} by {signed(share).lstrip('+')} (between {signed(low)} and {signed(high)}) since {change.study}, "
        f"{date(point)} ({why})"
    )


def _too_few(count: int) -> str:
    studies = "1 study" if count == 1 else f"{count} studies"
    return (
        f"{studies} cannot show a change: {FEWEST_SESSIONS} are needed to tell it from the scatter between sessions"
        + ("; `mydyno compare` sets two side by side." if count == 2 else ".")
    )


def _step(history: History, step: str) -> str:
    found = next((one for one in history.steps if one.id == step), None)
    if found is None:
        return step
    level = load_level(found.connections, found.rate)
    return f"{level} ({found.workload})" if len({one.workload for one in history.steps}) > 1 else level


def _oldest(history: History) -> HistoryPoint:
    return min((one.points[0] for one in history.series), key=lambda point: point.created_unix_ns)


def _newest_first(series: HistorySeries) -> int:
    change = series.changes[-1]
    return -next(point.created_unix_ns for point in series.points if point.study == change.study)
