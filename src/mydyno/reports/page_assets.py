"""Styles and scripts of HTML reports: files of assets/, which a page contains."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path

from markupsafe import Markup

from mydyno.language import agreed, current_language, html_language, tr

ASSETS = Path(__file__).parent / "assets"


def asset(name: str) -> str:
    """The text of a file of assets/."""
    return (ASSETS / name).read_text(encoding="utf-8")


def script_json(value: object) -> Markup:
    """JSON that cannot end its script element, whatever its strings contain."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


_MESSAGE = re.compile(r'\btr\(\s*"((?:[^"\\]|\\.)*)"')


@cache
def _messages(scripts: tuple[str, ...]) -> tuple[str, ...]:
    """What these scripts show: the messages of their calls of tr()."""
    return tuple(dict.fromkeys(json.loads(f'"{one}"') for script in scripts for one in _MESSAGE.findall(script)))


def script_words(*scripts: str) -> dict[str, str]:
    """{message: translation} of scripts, given as texts; empty in English, which is in the scripts themselves."""
    if current_language() == "en":
        return {}
    return {message: tr(message) for message in _messages(scripts)}


def stored_text(text: str) -> Markup | str:
    """A text from the study's records, which are in English; in another language's page it is marked as such."""
    text = agreed(text)
    return text if html_language() == "en" else Markup('<span lang="en">{}</span>').format(text)
