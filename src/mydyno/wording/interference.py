"""How the servers of an interleaved study affected each other and what its values are adjusted for, in sentences."""

from __future__ import annotations

from mydyno.language import agreed, listing
from mydyno.model.stored.summary import AloneRecord, InterleavingRecord
from mydyno.wording.numbers import percent, ratio_interval, signed

COVARIATES = {
    "driver_cpu_around": "the load program's CPU time per query in the slices of other arms around",
    "available_cpu_around": (
        "the share of CPU time not used by hypervisor and other programs in the slices of other arms around"
    ),
    "speed_around": "the speed meter in the slices of other arms around",
}
NOTES = {
    "not adjusted": "Not adjusted for {covariate}: it differs with {arms}.",
    "longer washout": (
        "From block {block} on the washout is {washout_s:g} s: slices depended on the arm loaded before them."
    ),
    "slow responses": (
        "{step}: a transaction takes {took_s:.1f} s on average, longer than the washout of {washout_s:g} s: use --set "
        "design.washout={longer_washout_s}s --set design.slice={longer_slice_s}s."
    ),
    "interrupted": (
        "{step}: cycles left out for all arms, because a slice was interrupted (study stopped, host suspended): "
        "{cycles}. The longest slice lasted {longest_s:.1f} s."
    ),
    "silent": (
        "{step}: {arm} completed no transaction in {slices} of its {all_slices} slices, in which its server answered "
        "nothing."
    ),
    "idle work": (
        "Servers that were not loaded used {used_cpus:.2f} CPUs on average (deferred work): effects may appear smaller "
        "than they are."
    ),
}


def adjustment_sentence(record: InterleavingRecord) -> str:
    """What values are adjusted for; empty where they are not."""
    if not record.covariates:
        return ""
    names = listing([COVARIATES[one] for one in record.covariates])
    return f"Values are adjusted for the host's speed, as shown by {names}, with the same coefficients for all arms."


def interference_sentences(record: InterleavingRecord, control: str) -> list[str]:
    """A sentence for each note, for carry-over, and for the control loaded alone."""
    found = [agreed(NOTES[one.fact].format(**one.values)) for one in record.notes]
    found += [
        f"{step}: the arm that was loaded before a slice changes its throughput by up to "
        f"{percent(abs(effect))}; use a longer washout: --set design.washout={2 * record.washout_s:g}s."
        for step, effect in record.carry_over.items()
    ]
    return found + _alone(record.alone, control)


def _alone(alone: AloneRecord | None, control: str) -> list[str]:
    if alone is None:
        return []
    interval = ratio_interval(alone.qps_low, alone.qps_high)
    no_change = alone.qps_low <= 1 <= alone.qps_high
    return [
        agreed(
            f"{alone.step}: with the other servers stopped, queries per second of {control} changed by "
            f"{signed(alone.qps_ratio - 1)} (95 % interval {interval}; {alone.slices} slices of one start)"
            f"{'' if no_change else ': the servers affect each other while one is loaded'}."
        )
    ]
