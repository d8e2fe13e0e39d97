"""The speed of a step that replays a capture."""

from __future__ import annotations

from mydyno.model.definition.experiment import Step, StepSpec


def speed_of(step: Step | StepSpec) -> float | None:
    """How many times as fast as captured a step replays; None: without the captured times, or no replay."""
    speed = step.options.get("speed", "max")
    if step.replay is None or speed == "max":
        return None
    return 1.0 if speed == "original" else float(speed)
