"""The letters by which studies are named in tables and sentences."""

from __future__ import annotations

from string import ascii_uppercase

MOST_STUDIES = len(ascii_uppercase)


def label(place: int) -> str:
    """A for the first study, B for the second."""
    return ascii_uppercase[place]
