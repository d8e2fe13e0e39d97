"""The language of reports: English, or Simplified Chinese from a gettext catalogue.

Messages are whole sentences with named placeholders, `tr("{count} hosts", count=3)`, looked up when they are used, in
the language of the present context (task or thread). English is the source, so what has no translation is English.
`docs/translate` brings the catalogues up to date and compiles them; docs/guides/chinese.md says how to translate.
"""

from __future__ import annotations

import gettext
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from string import Formatter
from typing import Any

from markupsafe import Markup, escape

LANGUAGES = {"en": "English", "zh": "简体中文"}
"""Each language in its own words."""
HTML_NAMES = {"en": "en", "zh": "zh-CN"}
"""The attribute lang of a page."""
CATALOGUES = Path(__file__).parent / "catalogues"
DOMAIN = "mydyno"
_CURRENT: ContextVar[str] = ContextVar("mydyno_language", default="en")


@contextmanager
def speaking(language: str) -> Iterator[None]:
    """Within it messages are in this language, one of LANGUAGES."""
    token = _CURRENT.set(language)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def current_language() -> str:
    """The language of the present context."""
    return _CURRENT.get()


def html_language() -> str:
    """The attribute lang of a page in the present language."""
    return HTML_NAMES[_CURRENT.get()]


def tr(message: str, /, **values: Any) -> str:
    """A message in the present language, with its placeholders filled in."""
    found = _catalogue(_CURRENT.get()).gettext(message)
    return _filled(found, values) if values else found


COUNTED = (
    "arm|block|build|byte|change|claim|commit|comparison|connection|copy|counter|cycle|effect|entry|error|file|folder|function|"
    "get|group|handshake|host|instance|item|key|layer|level|look|mapping|metric|one|page|period|port|process|query|reading|"
    "row|run|sample|server|session|set|setting|slice|start|statement|step|study|table|thread|time|transaction|value|"
    "variable|wait"
)
"""What sentences count."""
_ENDS = {"copies": "copy", "entries": "entry", "processes": "process", "queries": "query", "studies": "study"}
_PLURAL = "|".join(next((many for many, of in _ENDS.items() if of == one), f"{one}s") for one in COUNTED.split("|"))
_ALONE = r"(?<![\d.,\-\u2212+\u00b1/:=])\b1"
_SEVERAL = re.compile(
    rf"{_ALONE} (?P<before>(?:(?!(?:of|or|and|to|has|is|was|does)\b)[a-zA-Z'-]+ ){{0,2}}?)(?P<noun>{_PLURAL})\b(?!/)"
    r"(?P<verb> (?:are|were|have|do)\b)?"
)
_OF_ALL = re.compile(
    rf"{_ALONE} (?P<all>of (?:(?:the|its|their|these) )?(?:\d+ )?(?:[a-z]+ ){{0,2}}?(?:{_PLURAL})) "
    r"(?P<verb>are|were|have|do)\b"
)
_NAMED = ("block ", "copy ", "instance ", "level ", "look ", "part ", "position ", "step ", "study ")
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


def tr_html(message: str, /, **values: Any) -> Markup:
    """The same for a page: placeholders that are Markup keep their elements, everything else is escaped."""
    filled = str(escape(tr(message)).format(**values))
    return Markup(agreed(filled) if _CURRENT.get() == "en" else filled)


def tr_after(message: str, /, **values: Any) -> str:
    """The same for a sentence that follows another one: English has a space between them."""
    return sentence_space() + tr(message, **values)


def sentence_space() -> str:
    """What stands between two sentences."""
    return "" if _CURRENT.get() == "zh" else " "


def tr_plural(one: str, several: str, count: int, /, **values: Any) -> str:
    """The same of a message that depends on a number, which is {count} in it."""
    return _filled(_catalogue(_CURRENT.get()).ngettext(one, several, count), {**values, "count": count})


def _filled(message: str, values: dict[str, Any]) -> str:
    """The message with its values; in Chinese a space parts Chinese from Latin letters where a value meets the text."""
    if _CURRENT.get() != "zh":
        return agreed(message.format(**values))
    text = ""
    for literal, name, specification, _ in Formatter().parse(message):
        parts = [literal] if name is None else [literal, format(values[name], specification or "")]
        for part in parts:
            touching = text[-1:] + part[:1]
            text += (" " if _TOUCHING.fullmatch(touching) else "") + part
    return text


_HAN = "\u4e00-\u9fff"
_TOUCHING = re.compile(rf"[{_HAN}][A-Za-z0-9]|[A-Za-z0-9%][{_HAN}]")


def marked(message: str) -> str:
    """The message itself: so that a constant is in the catalogues. Where it is used: tr(CONSTANT)."""
    return message


def listing(names: Sequence[str]) -> str:
    """The names as the language lists them: a; a and b; a, b and c."""
    if len(names) == 1:
        return names[0]
    separator = "、" if _CURRENT.get() == "zh" else ", "
    return tr("{names} and {last}", names=separator.join(names[:-1]), last=names[-1])


def joined(clauses: Sequence[str]) -> str:
    """Clauses of one sentence."""
    return ("；" if _CURRENT.get() == "zh" else "; ").join(clauses)


def comma(parts: Iterable[str]) -> str:
    """Parts of one clause."""
    return ("，" if _CURRENT.get() == "zh" else ", ").join(parts)


def names(parts: Iterable[str]) -> str:
    """Names or numbers that are equals: "a, b, c"."""
    return ("、" if _CURRENT.get() == "zh" else ", ").join(parts)


def colon() -> str:
    """A colon between a name and what is said of it."""
    return "：" if _CURRENT.get() == "zh" else ": "


def percent_sign(space: str) -> str:
    """The sign with what stands before it: a space in English, nothing in Chinese."""
    return "%" if _CURRENT.get() == "zh" else f"{space}%"


@cache
def _catalogue(language: str) -> gettext.NullTranslations:
    if language == "en":
        return gettext.NullTranslations()
    return gettext.translation(DOMAIN, CATALOGUES, [language])
