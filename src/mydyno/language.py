"""The grammar of sentences: numbers that agree with what they count, and lists."""

from __future__ import annotations

import re
from collections.abc import Sequence

COUNTED = (
    "analysis|arm|block|build|byte|change|claim|figure|commit|comparison|connection|copy|counter|cycle|effect|entry|error|file|folder|function|"
    "get|group|handshake|host|instance|item|key|layer|level|look|mapping|metric|one|page|period|port|process|program|query|reading|"
    "row|run|sample|sentence|server|session|set|setting|slice|start|statement|step|study|table|thread|time|transaction|value|"
    "variable|wait"
)
"""What sentences count."""
_ENDS = {
    "analyses": "analysis",
    "copies": "copy",
    "entries": "entry",
    "processes": "process",
    "queries": "query",
    "studies": "study",
}
_PLURAL = "|".join(next((many for many, of in _ENDS.items() if of == one), f"{one}s") for one in COUNTED.split("|"))
_ALONE = r"(?<![\d.,\-\u2212+\u00b1/:=])\b1"
_SEVERAL = re.compile(
    rf"{_ALONE} (?P<before>(?:(?!(?:of|or|and|to|has|is|was|does)\b)[a-zA-Z'-]+ ){{0,2}}?)(?P<noun>{_PLURAL})\b"
    r"(?!/|(?<=times) the\b)(?P<verb> (?:are|were|have|do)\b)?"
)
_OF_ALL = re.compile(
    rf"{_ALONE} (?P<all>of (?:(?:the|its|their|these) )?(?:\d+ )?(?:[a-z]+ ){{0,2}}?(?:{_PLURAL})) "
    r"(?P<verb>are|were|have|do)\b"
)
_NAMED = ("analysis ", "block ", "copy ", "instance ", "level ", "look ", "part ", "position ", "step ", "study ")
"""What a number names: "instance 1 waits"."""
_ONE = {"are": "is", "were": "was", "have": "has", "do": "does"}


def agreed(text: str) -> str:
    """English with the number of what is counted once: "1 blocks are" is "1 block is"."""

    def alone(found: re.Match[str]) -> str:
        if text.endswith(_NAMED, 0, found.start()):
            return found[0]
        noun, verb = found["noun"], (found["verb"] or "").strip()
        one = _ENDS.get(noun, noun.removesuffix("s"))
        return f"1 {found['before']}{one}" + (f" {_ONE[verb]}" if verb else "")

    text = _OF_ALL.sub(lambda found: f"1 {found['all']} {_ONE[found['verb']]}", text)
    return _SEVERAL.sub(alone, text)


def listing(names: Sequence[str]) -> str:
    """The names as a sentence lists them: a; a and b; a, b and c."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
