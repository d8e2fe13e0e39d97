# mypy: disable-error-code="arg-type"
"""The translators' catalogues: messages from the program's sources and data, brought into mydyno.po, and mydyno.mo.

A message that the program has no more is deleted; a new one has no translation yet, which a test refuses. Nothing is
guessed ("fuzzy").
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterator
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path

from babel.messages.catalog import Catalog, Message
from babel.messages.extract import extract_from_dir
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po

from mydyno.hosts.canary import READINGS
from mydyno.language import CATALOGUES, DOMAIN, LANGUAGES
from mydyno.model.metrics import METRICS, OF_WORKLOAD
from mydyno.model.stored.costs import COSTS
from mydyno.model.stored.reasons import GATE_LABELS
from mydyno.results.published.studies import published_studies
from mydyno.verdicts.threshold import Outcome

SOURCES = CATALOGUES.parent
KEYWORDS = {"tr": None, "tr_after": None, "tr_html": None, "marked": None, "tr_plural": (1, 2)}
COMMENT = "Placeholders:"
"""A comment before a message: "Placeholders: may omit verb; may use noun"."""
METHODS = [("**.py", "python"), ("**/templates/**.html", "jinja2"), ("**/assets/**.js", "javascript")]
WIDTH = 100
NO_DATE = datetime(2000, 1, 1, tzinfo=UTC)
"""In place of the time of writing, so that the same messages make the same file."""
TRANSLATED = tuple(name for name in LANGUAGES if name != "en")


def extracted() -> Catalog:
    """Every message of the program, in the order of the files."""
    catalogue = Catalog(domain=DOMAIN, charset="utf-8", fuzzy=False)
    found = extract_from_dir(SOURCES, METHODS, {}, KEYWORDS, (COMMENT,), strip_comment_tags=False)
    for path, _, message, comments, _ in sorted(found, key=lambda one: (one[0], one[1])):
        catalogue.add(message, None, [(path, None)], auto_comments=comments)  # without lines: they change too often
    for place, message in _data_messages():
        catalogue.add(message, None, [(place, None)])
    return catalogue


def _data_messages() -> Iterator[tuple[str, str]]:
    """(file, message) of what the program translates from its tables."""
    for metric in (*METRICS.values(), *(one for of in OF_WORKLOAD.values() for one in of.values())):
        phrase = metric.phrase
        texts = (metric.label, phrase.noun if phrase else "", phrase.short_noun if phrase else "", metric.description)
        yield from (("model/metrics.py", text) for text in texts if text)
    yield from (("model/metrics.py", better) for better in ("higher", "lower", "none"))
    yield from (("model/stored/costs.py", cost.label) for cost in COSTS.values())
    yield from (("model/stored/reasons.py", label) for label in GATE_LABELS.values())
    yield from (("verdicts/threshold.py", outcome.value) for outcome in Outcome)
    for study in published_studies().values():
        for part in study.parts:
            where = f"experiments/published/{study.study}.toml"
            yield from ((where, text) for text in (part.title, part.text))
            yield from ((where, one.claim) for one in part.conclusions)
    yield from (("hosts/canary.py", reading.label) for reading in READINGS.values())


def po_path(language: str) -> Path:
    """The catalogue as translators write it."""
    return CATALOGUES / language / "LC_MESSAGES" / f"{DOMAIN}.po"


def read(language: str) -> Catalog:
    """That catalogue."""
    with po_path(language).open("rb") as file:
        return read_po(file, locale=language, domain=DOMAIN)


def updated(language: str) -> Catalog:
    """The catalogue with exactly the program's messages, and the translations that it has."""
    catalogue = read(language) if po_path(language).is_file() else Catalog(locale=language, domain=DOMAIN)
    made = Catalog(locale=language, domain=DOMAIN, charset="utf-8", fuzzy=False, header_comment=HEADER)
    for message in extracted():
        if message.id:
            known = catalogue.get(message.id)
            made.add(
                message.id, known.string if known else None, message.locations, auto_comments=message.auto_comments
            )
    return made


HEADER = "# Simplified Chinese of mydyno. docs/guides/chinese.md has the rules and the glossary."
_TIMES = re.compile(rb'^"(POT-Creation-Date|PO-Revision-Date|Generated-By|Last-Translator|Language-Team|'
                    rb'Project-Id-Version|Report-Msgid-Bugs-To): .*\n', re.MULTILINE)  # fmt: skip


def po_bytes(catalogue: Catalog) -> bytes:
    """The file: the same for the same messages, whenever it is written."""
    file = BytesIO()
    write_po(file, catalogue, width=WIDTH, sort_output=False, include_lineno=False)
    return _TIMES.sub(b"", file.getvalue())


def mo_bytes(catalogue: Catalog) -> bytes:
    """The compiled catalogue, as the program reads it."""
    file = BytesIO()
    plain = Catalog(locale=catalogue.locale, charset="utf-8", fuzzy=False, creation_date=NO_DATE, revision_date=NO_DATE)
    for message in catalogue:
        if message.id and message.string and (not isinstance(message.string, tuple) or all(message.string)):
            plain.add(message.id, message.string)
    write_mo(file, plain)
    return file.getvalue()


def problems(message: Message) -> list[str]:
    """What is wrong with a translation: missing, or with other placeholders than the message."""
    texts = message.string if isinstance(message.string, tuple) else (message.string,)
    ids = message.id if isinstance(message.id, tuple) else (message.id,)
    if not all(texts):
        return [f"{ids[0]!r} is not translated"]
    needed = set.intersection(*(placeholders(one) for one in ids))
    allowed = set.union(*(placeholders(one) for one in ids))
    for comment in message.auto_comments:
        needed -= _named(comment, "may omit")
        allowed |= _named(comment, "may use")
    found = []
    for text in texts:
        own = placeholders(text)
        if missing := needed - own:
            found.append(f"{ids[0]!r}: {text!r} lacks {sorted(missing)}")
        if more := own - allowed:
            found.append(f"{ids[0]!r}: {text!r} has {sorted(more)}")
    return found


def placeholders(text: str) -> set[str]:
    """The names in braces."""
    return {name for _, name, _, _ in string.Formatter().parse(text) if name is not None}


def _named(comment: str, what: str) -> set[str]:
    match = re.search(rf"{what} ([a-z_, ]+)", comment)
    return {name.strip() for name in match[1].split(",")} if match else set()


def main() -> None:
    """Write every catalogue, and print what is not translated."""
    for language in TRANSLATED:
        catalogue = updated(language)
        po_path(language).parent.mkdir(parents=True, exist_ok=True)
        po_path(language).write_bytes(po_bytes(catalogue))
        po_path(language).with_suffix(".mo").write_bytes(mo_bytes(catalogue))
        wrong = [line for message in catalogue if message.id for line in problems(message)]
        print(f"{language}: {len(catalogue)} messages", *wrong, sep="\n")


if __name__ == "__main__":
    main()
