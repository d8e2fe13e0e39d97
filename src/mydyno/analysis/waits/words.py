"""What reports print of waits: the sentence for each contrast, and the rows of its tables."""

from __future__ import annotations

from mydyno.document import counted
from mydyno.document.result import StudyResult
from mydyno.language import agreed
from mydyno.model.stored.waits import ROW_LOCKS, WaitRecord, WaitsContrast, WaitsRecord
from mydyno.wording.numbers import percent, time_interval, time_text
from mydyno.wording.reasons import alarm_clause

MOST_ROWS = 12
MOST_LOCKS = 8
LOCK_CLASSES = ("mutexes", "read-write locks")
SAMPLE_US = 100_000.0
"""As of servers/wait_counting.py."""


def leading(contrast: WaitsContrast) -> WaitRecord | None:
    """The class of waits with the largest difference beyond noise; without one, the stage; or an event."""
    shown = [one for one in contrast.events if one.beyond_noise]
    classes = [one for one in shown if one.is_class]
    stages = [one for one in shown if one.kind == "stage"]
    events = [one for one in shown if one.of_class]
    return next(iter([*classes, *stages, *events]), None)


def sentence(contrast: WaitsContrast, record: WaitsRecord) -> str:
    """The answer for one contrast: which class of waits leads, or that none differs."""
    if record.alarm:
        return f"No difference is claimed: {alarm_clause(record.alarm)}."
    first = leading(contrast)
    if first is None:
        words = "No wait differs beyond noise, and no stage of a statement."
        return counted.with_few_blocks(words, contrast.blocks)
    longer = "longer" if first.change_us > 0 else "shorter"
    interval = time_interval(first.low_us, first.high_us)
    change = f"{time_text(abs(first.change_us))} {longer} per transaction ({interval})."
    event = next((one for one in contrast.events if one.beyond_noise and one.of_class == first.name), None)
    if first.is_class:
        named = event is not None and event.name != ROW_LOCKS and _is_most(event, first)
        where = f" Most of it: {event.label}." if event is not None and named else ""
        return f"Waits for {first.label} are {change}{where}"
    name = first.label if first.of_class else f"the stage {first.label}"
    return f"No class of waits differs beyond noise, but {name} is {change}"


def _is_most(event: WaitRecord, of_class: WaitRecord) -> bool:
    return of_class.change_us != 0.0 and event.change_us / of_class.change_us >= 0.5


def class_rows(contrast: WaitsContrast) -> list[WaitRecord]:
    """The classes of waits: those that differ first."""
    return [one for one in contrast.events if one.is_class]


def event_rows(contrast: WaitsContrast) -> list[WaitRecord]:
    """Single events but locks, stages and statements: those that differ first, then the longest."""
    return [one for one in contrast.events if not one.is_class and one.of_class not in LOCK_CLASSES][:MOST_ROWS]


def lock_rows(contrast: WaitsContrast) -> list[WaitRecord]:
    """Mutexes and read-write locks: those that differ first, then the longest."""
    return [one for one in contrast.events if one.of_class in LOCK_CLASSES][:MOST_LOCKS]


def lock_name(one: WaitRecord) -> str:
    """A lock without its class, which the table's column has."""
    return one.name.split("/", 3)[-1]


def hottest_text(one: WaitRecord) -> str:
    """How the time is spread over the lock's instances, of the side where it is longer; empty if that is not known."""
    lock = one.arm_lock if one.arm_us >= one.control_us else one.control_lock
    if lock is None:
        return ""
    if lock.instances == 1:
        return "a single one"
    return f"{percent(lock.hottest)} in one of {lock.instances}"


def quality(record: WaitsRecord) -> list[str]:
    """How waits were counted, what that cost, and what is missing: a sentence each."""
    found = [
        agreed(
            f"Of the load's threads, by performance_schema, in {record.slices} slices of their own, which enter "
            "no effect. In the measured slices nothing was counted."
        )
    ]
    found += counted.cost_sentences(record, "the instruments")
    found.append("Stages contain the waits in them, and statements contain their stages.")
    if record.samples:
        found.append(
            agreed(
                f"Sessions were sampled {record.samples} times, every {time_text(SAMPLE_US)}. One that is active "
                "in no wait event runs, waits for a CPU, or waits for what has no instrument, such as row locks."
            )
        )
    for name, count in record.lost.items():
        found.append(
            f"Some objects are not counted because performance_schema has no room for them: {name} is {count}."
        )
    return found + [f"Not all runs were counted: {why}." for why in record.missing[:3]]


def lines(result: StudyResult) -> list[str]:
    """For a terminal: a sentence for each contrast in which something leads."""
    record = result.summary.waits
    if record is None:
        return []
    return counted.contrast_lines(
        result, record, record.contrasts, lambda one: leading(one) is not None, lambda one: sentence(one, record)
    )
