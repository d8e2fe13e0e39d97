"""The sentences of a comparison: its answer, what may be concluded, and what limits each study."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mydyno.model.comparison import (
    ComparedEffect,
    Comparison,
    ControlLevel,
    EffectDifference,
    IndirectEffect,
    SettingGroup,
    StudyEffect,
)
from mydyno.model.load_level import load_level
from mydyno.model.metrics import phrase_of
from mydyno.model.summary import StepLevel
from mydyno.results.across.saved import SavedStudy
from mydyno.results.across.settings import PACKAGES
from mydyno.results.plain_words import listing, signed

MOST_SENTENCES = 3
MOST_SETTINGS = 3
"""Settings that a sentence names; of more it gives the number."""
NOT_CAUSES = frozenset(
    {"question", "name", "seed", "time", "blocks examined", "cycles", "arms", "scale", "looks", "adjusted for"}
)
"""Settings that describe a study and change nothing on its servers."""
BUILD = ("build", "version", "server")
DIFFERENT = ("higher", "lower")


def study_notes(study: SavedStudy) -> list[str]:
    """What limits a study's part in a comparison."""
    notes = []
    if study.before_first_look:
        notes.append("it has not reached its first look, so it has no effects yet")
    elif study.summary.state == "partial":
        notes.append("it is not finished; more blocks may change its effects")
    elif study.summary.state == "failed":
        notes.append("it failed: no run of it is valid")
    return notes


def definition_note(differing: Mapping[str, str]) -> str:
    """That arm or control are not defined alike; empty if they are."""
    found = [f"{name} is defined differently ({settings})" for name, settings in differing.items() if settings]
    return "; ".join(found)


def answer(comparison: Comparison) -> tuple[str, ...]:
    """One to three sentences: what differs, what does not, and what cannot be compared."""
    if not comparison.comparable:
        return (f"{_names(comparison)} cannot be compared: {_why_not(comparison)}.",)
    judged = [(one, of) for one in comparison.effects for of in one.differences if one.primary]
    if not judged:
        return _unjudged(comparison)
    different = [pair for pair in judged if pair[1].verdict in DIFFERENT]
    found = [_difference(comparison, *pair) for pair in different[: MOST_SENTENCES - 1]]
    if len(different) >= MOST_SENTENCES:
        found = [f"{len(different)} of {len(judged)} effects differ: {_clauses(comparison, different)}."]
    if different and not _all_causes(comparison):
        found.append("No recorded setting differs: this is how far two sessions of the same servers are apart.")
    rest = [pair for pair in judged if pair not in different]
    for verdict in ("equivalent", "inconclusive", "not_measurable"):
        of = [pair for pair in rest if pair[1].verdict == verdict]
        if of and len(found) < MOST_SENTENCES:
            found.append(_alike(comparison, of, verdict))
    return tuple(found)


def conclusions(comparison: Comparison) -> tuple[str, ...]:
    """What may be concluded, and what not."""
    if not comparison.comparable:
        return ()
    found = [
        "Compared are effects, each relative to the control of its own study. No run of one study is compared with a "
        "run of another; the intervals contain the noise of both."
    ]
    causes = _all_causes(comparison)
    if not causes:
        found.append("No recorded setting differs, so a difference is one between the sessions.")
    elif len(causes) == 1:
        found.append(
            f"The one recorded setting that differs is {causes[0]}. A difference may be its effect, or one between "
            "the sessions: a study with both as arms tells them apart."
        )
    else:
        named = listing(causes[:MOST_SETTINGS]) if len(causes) <= MOST_SETTINGS else (
            f"{', '.join(causes[:MOST_SETTINGS])} and {len(causes) - MOST_SETTINGS} more"
        )  # fmt: skip
        found.append(
            f"{len(causes)} recorded settings differ ({named}); a difference cannot be attributed to one of them."
        )
    found += _level_words(comparison)
    found.append(
        "The verdicts are about these sessions. An effect can change from session to session with the state of the "
        "host, by more than the noise of blocks; `mydyno history` shows by how much, from four studies on."
    )
    return tuple(found)


def difference_words(one: EffectDifference) -> str:
    """Size and interval: "+4.7 % (+2.1 to +7.4 %)"."""
    if one.ratio is None:
        return "no estimate"
    if one.ci_low is None or one.ci_high is None:
        return signed(one.ratio - 1)
    return f"{signed(one.ratio - 1)} (between {signed(one.ci_low - 1)} and {signed(one.ci_high - 1)})"


def step_words(steps: Sequence[StepLevel], step: str) -> str:
    """A step as sentences name it: its level, with the workload where there are several."""
    found = next((one for one in steps if one.id == step), None)
    if found is None:
        return step
    level = load_level(found.connections, found.rate)
    return f"{found.workload}, {level}" if len({one.workload for one in steps}) > 1 else level


def indirect_words(comparison: Comparison, one: IndirectEffect) -> str:
    """An indirect comparison as a sentence."""
    of = one.difference
    return (
        f"{one.second_arm} in {of.second} against {one.first_arm} in {of.first} over the common control {one.control}, "
        f"{phrase_of(one.metric).noun} at {step_words(comparison.steps, one.step)}: {difference_words(of)}."
    )


def _names(comparison: Comparison) -> str:
    return listing([f"{one.label} ({one.study})" for one in comparison.studies])


def _why_not(comparison: Comparison) -> str:
    early = [one.label for one in comparison.studies if one.notes and not one.blocks]
    if early:
        have = "has" if len(early) == 1 else "have"
        return f"{listing(early)} {have} not reached the first look, so there are no effects yet"
    reasons = [f"{one.what}: {one.reason}" for one in comparison.not_compared]
    start = "they have no step in common" if not comparison.steps else "no arm and control are in all of them"
    return f"{start} ({'; '.join(reasons[:4])})" if reasons else start


def _unjudged(comparison: Comparison) -> tuple[str, ...]:
    if comparison.effects:
        return ("No metric has a verdict in all studies, so differences are exploratory: intervals without verdicts.",)
    lines = [indirect_words(comparison, one) for one in comparison.indirect[:MOST_SENTENCES]]
    return ("The studies have no arm in common; arms are compared over the common control, without verdicts.", *lines)


def _difference(comparison: Comparison, one: ComparedEffect, of: EffectDifference) -> str:
    """E.g. "The effect of jemalloc on queries per second is higher in B than in A: +9.1 % against +4.2 %, …"."""
    assert of.ratio is not None
    where = f" at {step_words(comparison.steps, one.step)}" if len(comparison.steps) > 1 else ""
    first, second = _of(one, of.first), _of(one, of.second)
    return (
        f"The effect of {one.arm} on {phrase_of(one.metric).short_noun}{where} is {of.verdict} in {of.second} than in "
        f"{of.first}, in these sessions: {_size(second)} against {_size(first)}; {of.second} / {of.first}: "
        f"{difference_words(of)}."
    )


def _clauses(comparison: Comparison, pairs: Sequence[tuple[ComparedEffect, EffectDifference]]) -> str:
    ordered = sorted(pairs, key=lambda pair: -abs((pair[1].ratio or 1.0) - 1.0))[:MOST_SETTINGS]
    clauses = [
        f"{one.arm} ({phrase_of(one.metric).short_noun}, {step_words(comparison.steps, one.step)}) is {of.verdict} in "
        f"{of.second} than in {of.first} by {difference_words(of)}"
        for one, of in ordered
    ]
    return "; ".join(clauses) + ("; …" if len(pairs) > len(ordered) else "")


def _alike(comparison: Comparison, pairs: Sequence[tuple[ComparedEffect, EffectDifference]], verdict: str) -> str:
    """The contrasts without a difference, in one sentence."""
    if len(pairs) == 1:
        ((one, of),) = pairs
        first, second = _size(_of(one, of.first)), _size(_of(one, of.second))
        where = f" at {step_words(comparison.steps, one.step)}" if len(comparison.steps) > 1 else ""
        subject = f"The effect of {one.arm} on {phrase_of(one.metric).short_noun}{where}"
        values = f"{first} in {of.first}, {second} in {of.second}"
        if verdict == "equivalent":
            return (
                f"{subject} is equivalent in {of.first} and {of.second}: {values}; {of.second} / {of.first}: "
                f"{difference_words(of)}."
            )
        if verdict == "inconclusive":
            return (
                f"No difference is shown for {subject[0].lower()}{subject[1:]}: {values}; {of.second} / {of.first}: "
                f"{difference_words(of)}."
            )
        return f"{subject} cannot be compared: {of.reason}."
    if verdict == "equivalent":
        return f"{len(pairs)} effects are equivalent."
    if verdict == "inconclusive":
        widest = max(pairs, key=lambda pair: (pair[1].ci_high or 1.0) / (pair[1].ci_low or 1.0))[1]
        return (
            f"For {len(pairs)} effects no difference is shown; the widest interval is from "
            f"{signed((widest.ci_low or 1.0) - 1)} to {signed((widest.ci_high or 1.0) - 1)}."
        )
    reasons = list(dict.fromkeys(of.reason for _, of in pairs))
    return f"{len(pairs)} effects cannot be compared: {'; '.join(reasons[:2])}."


def _of(one: ComparedEffect, label: str) -> StudyEffect:
    return next(effect for effect in one.effects if effect.label == label)


def _size(effect: StudyEffect) -> str:
    return "failed" if effect.failure else "no estimate" if effect.ratio is None else signed(effect.ratio - 1)


def _all_causes(comparison: Comparison) -> list[str]:
    return [name for group in comparison.settings for name in _causes(group)]


def _causes(group: SettingGroup) -> list[str]:
    """The differing settings of a group that may change what servers do; packages count as one."""
    found = [one.name for one in group.differing if one.name not in NOT_CAUSES]
    if group.name == "server":
        others = [name for name in found if name not in BUILD]
        return (["the server's build"] if len(others) < len(found) else []) + others
    if group.name == PACKAGES:
        return [f"{len(found)} packages"] if found else []
    return found


def _level_words(comparison: Comparison) -> list[str]:
    """What the level of the control shows of the sessions; one sentence for each pair of studies."""
    found = []
    for second in dict.fromkeys(one.second for one in comparison.control_levels):
        levels = [one for one in comparison.control_levels if one.second == second]
        one = max(levels, key=lambda level: abs(level.ratio - 1.0))
        where = f" at {step_words(comparison.steps, one.step)}" if len(comparison.steps) > 1 else ""
        values = f"{phrase_of(one.metric).short_noun} of the control{where}: {level_words(one)} in {second}"
        if one.same_control:
            found.append(
                f"The control is the same in {one.first} and {second}. {values[0].upper()}{values[1:]} against "
                f"{one.first}: that is how far the sessions are apart. Relative to the control, the differences of "
                "effects are also those of the arms' levels."
            )
        else:
            found.append(
                f"The controls of {one.first} and {second} are not the same. {values[0].upper()}{values[1:]} against "
                f"{one.first}: server and session cannot be told apart in it, so levels are not compared."
            )
    return found


def level_words(one: ControlLevel) -> str:
    """Size and interval of a level."""
    if one.ci_low is None or one.ci_high is None:
        return signed(one.ratio - 1)
    return f"{signed(one.ratio - 1)} (between {signed(one.ci_low - 1)} and {signed(one.ci_high - 1)})"
