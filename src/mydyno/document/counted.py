"""What reports print of all that is counted in slices of its own: waits and the kernel's events.

Times and numbers per transaction, what they account for, what counting cost, and the words where nothing is claimed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from mydyno.document.parts import Fold, Note, Piece
from mydyno.language import agreed
from mydyno.model.stored.counted import CountedContrast, SlicesApart
from mydyno.wording.numbers import level_percent, percent, ratio_interval, signed_percent, significant, time_text
from mydyno.wording.stored_result import StoredResult

FEWEST_BLOCKS = 3
NO_LOOK = "No interim analysis is due yet, so no difference is claimed."
C = TypeVar("C", bound=CountedContrast)


def heading(result: StoredResult, one: CountedContrast) -> str:
    """The arm with its control, and the step where there are several."""
    return ", ".join((f"{one.arm} against {one.control}", *result.step_headings(one.step)))


def count_text(count: float) -> str:
    """How often something occurs per transaction."""
    return "none" if count == 0.0 else f"{significant(count, 2)}\u00a0×"


def together(result: StoredResult) -> str:
    """The level of these intervals: this section's findings are tested together, apart from the effects."""
    alpha = result.study.experiment.profile.rate_of_causes(result.summary.alpha, result.summary.families_beside)
    return (
        f"Intervals of {level_percent(alpha)} are simultaneous over all findings of this kind; all kinds of "
        "causes together share the error rate of the effects."
    )


def with_few_blocks(words: str, blocks: int) -> str:
    """The sentence that nothing differs, and that so few blocks cannot show it, where that is so."""
    if blocks >= FEWEST_BLOCKS:
        return words
    why = agreed(f"{blocks} blocks cannot show one.")
    return words + " " + why


def accounting_sentence(what: str, change: str, interval: str, share: float) -> str:
    """What accompanied an effect, and its share of the change."""
    of_change = "all" if share >= 1.0 else f"about {percent(share)}"
    return f"{what}: {change} per transaction ({interval}). This accounts for {of_change} of the change."


def cost_sentences(record: SlicesApart, what: str, slices: str = "these slices", beside: str = "") -> list[str]:
    """What it costs in throughput; empty if that is not known."""
    ratio, low, high = record.throughput_ratio, record.throughput_low, record.throughput_high
    if ratio is None:
        return []
    interval = f" ({ratio_interval(low, high)})" if low and high else ""
    return [
        f"Cost of {what}: throughput {signed_percent(ratio - 1)}{interval} in {slices}, compared with the measured "
        f"slices before and after them{beside}."
    ]


def connection_note(contrast: CountedContrast) -> str:
    """What a transaction takes in these slices."""
    return (
        f"A transaction takes {time_text(contrast.control_us)} and {time_text(contrast.arm_us)} of a "
        "connection's time in these slices."
    )


def body(
    result: StoredResult,
    found: Sequence[tuple[CountedContrast, str, Sequence[Piece | None]]],
    what: str,
    drawn: Piece | None,
    quality: Sequence[str],
) -> list[Piece | None]:
    """A sentence for each contrast and what follows it, which is folded of all but the first; then what is drawn of
    all, and how it was made. `what`: the name of what follows.
    """
    nothing = "" if found else "No arm is compared with another."
    pieces: list[Piece | None] = [NO_LOOK if result.before_first_look else nothing]
    for place, (one, sentence, inside) in enumerate(found):
        name = heading(result, one)
        pieces.append(f"{name}: {sentence}" if len(found) > 1 else sentence)
        pieces += [Fold(f"{name}: {what}", inside)] if place else inside
    return [*pieces, drawn, *map(Note, (*quality, together(result)))]


def finding(
    result: StoredResult,
    record: SlicesApart,
    found: Sequence[tuple[CountedContrast, str, Sequence[Piece | None]]],
    leads: Sequence[bool],
) -> str:
    """The sentence of a single contrast; of several, in how many something differs, as `leads` has it of each."""
    shows_nothing = not any(leads) and any(of.blocks < FEWEST_BLOCKS for of, *_ in found)
    if result.before_first_look or record.alarm or not found or shows_nothing:
        return ""
    if len(found) == 1:
        return found[0][1]
    where = f"{sum(leads)} of" if any(leads) else "none of"
    return f"Differences beyond noise in {where} {len(found)} comparisons"


def contrast_lines(
    result: StoredResult,
    record: SlicesApart,
    contrasts: Sequence[C],
    has_leading: Callable[[C], bool],
    sentence: Callable[[C], str],
) -> list[str]:
    """For a terminal: a sentence for each contrast in which something leads."""
    if result.before_first_look or record.alarm:
        return []
    return [
        (", ".join((one.arm, one.step)) + ": " if len(contrasts) > 1 else "") + sentence(one)
        for one in contrasts
        if has_leading(one)
    ]
