"""Styles and scripts of HTML reports: files of assets/, which a page contains."""

from __future__ import annotations

import json
from pathlib import Path

from markupsafe import Markup

ASSETS = Path(__file__).parent / "assets"


def asset(name: str) -> str:
    """The text of a file of assets/."""
    return (ASSETS / name).read_text(encoding="utf-8")


def script_json(value: object) -> Markup:
    """JSON that cannot end its script element, whatever its strings contain."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))
