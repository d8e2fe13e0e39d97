"""The documentation is tested: reference pages are current, and everything a user meets has its heading."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from docs.reference_pages import pages

from mydyno.cli import COMMANDS
from mydyno.model.metrics import METRICS
from mydyno.treatments.catalogue import TREATMENTS

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def made() -> dict[str, str]:
    return pages()


def test_reference_pages_are_current(made: dict[str, str]) -> None:
    stale = [name for name, text in made.items() if (ROOT / "docs/reference" / name).read_text() != text]
    assert stale == [], "run docs/generate"


def test_every_command_metric_treatment_and_verdict_has_its_words(made: dict[str, str]) -> None:
    assert all(f"## {command}\n" in made["commands.md"] for command in COMMANDS)
    assert all(f"`{metric}`" in made["metrics.md"] for metric in METRICS)
    assert all(f"### {treatment}\n" in made["experiment.md"] for treatment in TREATMENTS)
    empty = re.findall(r"^### (\w+)\n\n\n", "\n".join(made.values()), re.MULTILINE)
    assert empty == []


def test_links_between_pages_lead_somewhere() -> None:
    broken = []
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", page.read_text()):
            if not (page.parent / target).exists():
                broken.append(f"{page.relative_to(ROOT)}: {target}")
    assert broken == []
