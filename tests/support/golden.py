"""Golden files: what a command or report prints, kept as text. MYDYNO_UPDATE_GOLDEN=1 rewrites them."""

from __future__ import annotations

import os
from pathlib import Path

GOLDEN = Path(__file__).parent.parent / "golden"


def check_golden(name: str, text: str) -> None:
    """Compare with the golden file, or write it where MYDYNO_UPDATE_GOLDEN is set."""
    path = GOLDEN / name
    if os.environ.get("MYDYNO_UPDATE_GOLDEN"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert path.is_file(), f"{path} is not there: run the tests once with MYDYNO_UPDATE_GOLDEN=1"
    assert text == path.read_text(encoding="utf-8"), f"{name} changed; if that is right, rewrite it (see above)"
