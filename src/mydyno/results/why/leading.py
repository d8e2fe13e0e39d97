"""What leads in a contrast of CPU profiles: the differences that reports name first."""

from __future__ import annotations

from mydyno.model.stored.profiles import FrameRecord, ProfileContrast


def named_functions(contrast: ProfileContrast) -> list[FrameRecord]:
    """The functions beyond noise that are not explained by what they call; the largest difference first."""
    return [one for one in contrast.frames if one.beyond_noise and not one.explained]
