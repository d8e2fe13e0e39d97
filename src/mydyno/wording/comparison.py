"""The sentences of a comparison: its answer, what may be concluded, what limits each study, and differing settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mydyno.language import agreed, listing
from mydyno.model.definition.experiment import Step
from mydyno.model.definition.quantities import format_duration
from mydyno.model.metrics import phrase_of
from mydyno.model.stored.comparison import (
    ComparedEffect,
    Comparison,
    EffectDifference,
    IndirectEffect,
    Setting,
    SettingGroup,
    StudyEffect,
)
from mydyno.model.stored.summary import at_step, step_words
from mydyno.results.across.common_ground import LOAD, PACKAGES, step_options, study_settings
from mydyno.results.across.saved import SavedStudy
from mydyno.stats.level_changes import FEWEST_SESSIONS
from mydyno.wording.numbers import change_words, signed, size, size_range

BUILD = ("build", "version", "server")
NOT_CAUSES = frozenset(
    {
        "question",
        "name",
        "seed",
        "time",
        "blocks examined",
        "cycles",
        "arms",
        "scale",
        "interim analyses",
        "adjusted for",
    }
)
"""Settings that describe a study and change nothing on its servers."""
MOST_OF_GROUP = 3
"""Settings of one kind that are named at a point of a history; of more the number is given."""
MOST_CHANGED = 6
"""Settings named at a point; of more the number is given."""


def worded_settings(studies: Sequence[SavedStudy]) -> tuple[SettingGroup, ...]:
    """The settings of studies, with the load of each step in words."""
    of_steps = [
        {f"load level {step.id}": settings_step_words(step) for step in study.study.experiment.resolved_steps}
        for study in studies
    ]

    def worded(one: Setting) -> Setting:
        values = (
            None if value is None else said.get(one.name, value)
            for said, value in zip(of_steps, one.values, strict=True)
        )
        return Setting(name=one.name, values=tuple(values))

    return tuple(
        SettingGroup(
            name=group.name, differing=tuple(map(worded, group.differing)), equal=tuple(map(worded, group.equal))
        ) if group.name == LOAD else group
        for group in study_settings(studies)
    )  # fmt: skip


def settings_step_words(step: Step) -> str:
    """Driver, windows and options of a step."""
    warmup, measured = format_duration(step.warmup_s), format_duration(step.measure_s)
    windows = f"{warmup} warm-up, {measured} measured"
    return ", ".join([step.driver, windows, *step_options(step)])


def changed_between(before: SavedStudy, after: SavedStudy) -> tuple[str, ...]:
    """What was recorded to differ: "version: MariaDB 10.11.18 → MariaDB 10.11.19"; the server first."""
    found = []
    for group in sorted(worded_settings((before, after)), key=lambda group: group.name != "server"):
        differing = [setting for setting in group.differing if setting.name not in NOT_CAUSES]
        if group.name == "server":
            differing = _of_server(differing)
        if len(differing) > MOST_OF_GROUP or (group.name == PACKAGES and differing):
            found.append(_counted(group.name, len(differing)))
            continue
        for setting in differing:
            old, new = ("not recorded" if value is None else value for value in setting.values)
            found.append(f"{setting.name}: {old} → {new}")
    if len(found) > MOST_CHANGED:
        return (*found[: MOST_CHANGED - 1], agreed(f"{len(found) - MOST_CHANGED + 1} more settings"))
    return tuple(found)


def _counted(group: str, count: int) -> str:
    """How many settings of a group: "3 packages"."""
    if group == PACKAGES:
        return f"{count} {'package' if count == 1 else 'packages'}"
    return f"{count} {group}"


def _of_server(differing: Sequence[Setting]) -> list[Setting]:
    """The version stands for the build and the name where it differs."""
    implied = BUILD if any(setting.name == "version" for setting in differing) else ()
    return [one for one in differing if one.name == "version" or one.name not in implied]


MOST_SENTENCES = 3
MOST_SETTINGS = 3
"""Settings that a sentence names; of more it gives the number."""
DIFFERENT = ("higher", "lower")


def study_notes(study: SavedStudy) -> list[str]:
    """What limits a study's part in a comparison."""
    notes = []
    if study.before_first_look:
        notes.append("it has not reached its first interim analysis, so it has no effects yet")
    elif study.summary.state == "partial":
        notes.append("it is not finished; more blocks may change its effects")
    elif study.summary.state == "failed":
        notes.append("it failed: it has no valid run")
    return notes


def definition_note(differing: Mapping[str, Sequence[str]]) -> str:
    """That arm or control are not defined alike; empty if they are."""
    return "; ".join(
        [f"{name} is defined differently ({', '.join(settings)})" for name, settings in differing.items() if settings]
    )


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
        clauses = _clauses(comparison, different)
        found = [agreed(f"{len(different)} of {len(judged)} effects differ: {clauses}.")]
    hidden = [pair for pair in judged if pair[1].verdict == "inconclusive" and pair[1].reason]
    if hidden and len(found) < MOST_SENTENCES:
        which = [f"{one.arm} on {phrase_of(one.metric).short_noun}" for one, _ in hidden]
        found.append(
            f"The effect of {listing(list(dict.fromkeys(which)))} differs by more than the noise of both "
            f"sessions, but {hidden[0][1].reason}: no difference is claimed."
        )
    if different and not _all_causes(comparison):
        found.append("No recorded setting differs: this is the difference between two sessions of the same servers.")
    rest = [pair for pair in judged if pair not in different and pair not in hidden]
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
        "Only effects are compared, each relative to the control of its own study, never runs of different "
        "studies; the intervals contain the noise of both."
    ]
    causes = _all_causes(comparison)
    if not causes:
        found.append("No recorded setting differs, so a difference is one between the sessions.")
    elif len(causes) == 1:
        found.append(
            f"The one recorded setting that differs is {causes[0]}. A difference may be its effect, or one "
            "between the sessions: a study with both as arms separates the two."
        )
    else:
        named = listing(causes[:MOST_SETTINGS]) if len(causes) <= MOST_SETTINGS else (
            f"{', '.join(causes[:MOST_SETTINGS])} and {len(causes) - MOST_SETTINGS} more"
        )  # fmt: skip
        found.append(
            agreed(f"{len(causes)} recorded settings differ ({named}); a difference cannot be attributed to one of "
                "them.")
        )  # fmt: skip
    found += _level_words(comparison)
    found.append(_scatter_words(comparison))
    return tuple(found)


def _scatter_words(comparison: Comparison) -> str:
    """What is known of the scatter between sessions, and so what the verdicts are about."""
    judged = [one for effect in comparison.effects if effect.primary for one in effect.differences]
    known = [one for one in judged if one.session_sd is not None]
    if known:
        sds = size_range([one.session_sd or 0.0 for one in known])
        few = len(judged) - len(known)
        some = agreed(f" {few} effects have too few sessions for it.") if few else ""
        told = agreed(
            "The intervals include the variation between sessions on this host: the sd of an effect between "
            f"sessions is {sds}, from {known[0].sessions} comparable studies."
        )
        return told + some
    most = max((one.sessions for one in judged), default=0)
    return agreed(
        f"The variation between sessions is not known: to estimate it, {FEWEST_SESSIONS} comparable studies on "
        f"one host are needed, and {most} are found. The verdicts apply to these sessions only: other sessions "
        "of the same servers can differ as much."
    )


def scatter_reason(sd: float, sessions: int) -> str:
    """Why a difference beyond the noise of both sessions is none; `sd` is a share of 1."""
    return agreed(f"within the variation between {sessions} sessions (sd {size(sd)})")


def difference_words(one: EffectDifference) -> str:
    """Size and interval: "+4.7 % (between +2.1 % and +7.4 %)"."""
    return "no estimate" if one.ratio is None else change_words(one.ratio, one.ci_low, one.ci_high)


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
        return (
            f"{listing(early)} {'has' if len(early) == 1 else 'have'} not reached the first interim analysis, so there "
            "are no effects yet"
        )
    # Steps that one study lacks explain nothing where they have others in common.
    last = sorted(comparison.not_compared, key=lambda one: one.what.startswith("load level "))
    reasons = [f"{one.what}: {one.reason}" for one in last]
    start = "they share no pair of arm and control" if comparison.steps else "they have no load level in common"
    return f"{start} ({'; '.join(reasons[:4])})" if reasons else start


def _unjudged(comparison: Comparison) -> tuple[str, ...]:
    if comparison.effects:
        return ("No metric has a verdict in all studies, so differences are exploratory: intervals without verdicts.",)
    lines = [indirect_words(comparison, one) for one in comparison.indirect[:MOST_SENTENCES]]
    return ("The studies have no arm in common; arms are compared over the common control, without verdicts.", *lines)


def _difference(comparison: Comparison, one: ComparedEffect, of: EffectDifference) -> str:
    """E.g. "The effect of jemalloc on queries per second is higher in B than in A: +9.1 % against +4.2 %, …"."""
    first, second = _sizes(one, of)
    return (
        f"{_effect(comparison, one)} is {of.verdict} in {of.second} than in {of.first}, in these sessions: {second} "
        f"against {first}; {of.second} / {of.first}: {difference_words(of)}."
    )


def effect_words(arm: str, metric: str, at: str) -> str:
    """The beginning of a sentence; `at`: as of at_step()."""
    return f"The effect of {arm} on {phrase_of(metric).short_noun}{at}"


def _effect(comparison: Comparison, one: ComparedEffect) -> str:
    return effect_words(one.arm, one.metric, at_step(comparison.steps, one.step))


def _sizes(one: ComparedEffect, of: EffectDifference) -> tuple[str, str]:
    """The effect in the first and in the second study."""
    first, second = (_size(_of(one, label)) for label in (of.first, of.second))
    return first, second


def _clauses(comparison: Comparison, pairs: Sequence[tuple[ComparedEffect, EffectDifference]]) -> str:
    ordered = sorted(pairs, key=lambda pair: -abs((pair[1].ratio or 1.0) - 1.0))[:MOST_SETTINGS]
    clauses = [
        f"{one.arm} ({phrase_of(one.metric).short_noun}, {step_words(comparison.steps, one.step)}) is {of.verdict} "
        f"in {of.second} than in {of.first} by {difference_words(of)}"
        for one, of in ordered
    ]
    return "; ".join([*clauses, *(["…"] if len(pairs) > len(ordered) else [])])


def _alike(comparison: Comparison, pairs: Sequence[tuple[ComparedEffect, EffectDifference]], verdict: str) -> str:
    """The contrasts without a difference, in one sentence."""
    if len(pairs) == 1:
        ((one, of),) = pairs
        effect, (first, second) = _effect(comparison, one), _sizes(one, of)
        if verdict == "not_measurable":
            return f"{effect} cannot be compared: {of.reason}."
        what = f"No difference is shown for t{effect[1:]}"
        if verdict == "equivalent":
            what = f"{effect} is equivalent in {of.first} and {of.second}"
        sizes = f"{first} in {of.first}, {second} in {of.second}"
        return f"{what}: {sizes}; {of.second} / {of.first}: {difference_words(of)}."
    if verdict == "equivalent":
        return agreed(f"{len(pairs)} effects are equivalent: each differs between the studies by less than the margin.")
    if verdict == "inconclusive":
        widest = max(pairs, key=lambda pair: (pair[1].ci_high or 1.0) / (pair[1].ci_low or 1.0))[1]
        return agreed(
            f"For {len(pairs)} effects no difference is shown; the widest interval is from "
            f"{signed((widest.ci_low or 1.0) - 1)} to {signed((widest.ci_high or 1.0) - 1)}."
        )
    reasons = list(dict.fromkeys(of.reason for _, of in pairs))
    return agreed(f"{len(pairs)} effects cannot be compared: {'; '.join(reasons[:2])}.")


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
        return [f"{len(found)} {'package' if len(found) == 1 else 'packages'}"] if found else []
    return found


def _level_words(comparison: Comparison) -> list[str]:
    """What the level of the control shows of the sessions; one sentence for each pair of studies."""
    found = []
    for second in dict.fromkeys(one.second for one in comparison.control_levels):
        levels = [one for one in comparison.control_levels if one.second == second]
        one = max(levels, key=lambda level: abs(level.ratio - 1.0))
        noun = phrase_of(one.metric).short_noun
        level = f"{noun[0].upper()}{noun[1:]} of the control{at_step(comparison.steps, one.step)}"
        size = f"{level}: {change_words(one.ratio, one.ci_low, one.ci_high)} in {second} against {one.first}"
        found.append(
            f"The control is the same in {one.first} and {second}. {size}: that is the difference between the "
            "sessions. Relative to the control, the differences of effects are also those of the arms' levels."
            if one.same_control
            else f"The controls of {one.first} and {second} are not the same. {size}: it contains the effects of both "
            "server and session, so levels are not compared."
        )
    return found
