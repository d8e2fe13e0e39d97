"""Small interleaved studies on real servers: their experiment, their slices, and libraries planted into servers."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mydyno.model.stored.records import SliceRecord
from mydyno.store.samples import SLICES_FILE, read_slices
from tests.support.real import experiment_text
from tests.support.worded import worded_json

HERE = Path(__file__).parent
BURN_US = 500
"""CPU time per answer that the planted library burns; a query costs about a tenth of it without."""


def interleaved_text(
    name: str, arms: str, steps: Sequence[tuple[str, int]], blocks: int = 2, cycles: int = 3, slice_s: float = 0.4
) -> str:
    """An interleaved experiment on small data; `steps` are (workload, connections)."""
    tables = "".join(
        f'[[steps]]\nworkload = "{workload}"\nconnections = {connections}\nwarmup = "0s"\nmeasure = "1s"\n'
        for workload, connections in steps
    )
    design = f'kind = "interleaved"\ncycles = {cycles}\nslice = "{slice_s}s"\nwashout = "0.1s"\nquiet_wait = "0s"\n'
    deadlocks = "[validity]\nignored_errors_per_transaction = 1\n"  # on so few rows they are many
    return experiment_text(name, arms, tables, blocks).replace("[validity]\n", deadlocks) + design


def planted(folder: Path) -> Path:
    """Compile the library into a folder that a server's user may enter."""
    library = folder / "libplant.so"
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", str(library), str(HERE / "plant.c"), "-ldl"], check=True)
    return library


def preloading(library: Path, **settings: int) -> str:
    """The treatment that preloads it: environment = { … }."""
    words = [f'LD_PRELOAD = "{library}"', *(f'PLANT_{name.upper()} = "{value}"' for name, value in settings.items())]
    return f"environment = {{ {', '.join(words)} }}"


def slices_of(study: Path) -> list[SliceRecord]:
    """Every slice of every block, in order."""
    return [one for path in sorted(study.glob(f"blocks/[0-9]*/{SLICES_FILE}")) for one in read_slices(path)]


def summary_of(study: Path) -> dict[str, Any]:
    """summary.json."""
    return worded_json(study)


def effect_of(summary: dict[str, Any], arm: str, metric: str) -> dict[str, Any]:
    """The one effect of an arm on a metric, in a study of one step."""
    (found,) = [one for one in summary["effects"] if (one["arm"], one["metric"]) == (arm, metric)]
    return dict(found)
