"""What several tests share: fakes, synthetic studies, and the places of files."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
"""The repository."""
DATA = Path(__file__).parent / "data"
"""Recorded outputs of real programs, and files with mistakes."""
