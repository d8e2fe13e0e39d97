"""Reads what earlier studies stored as sentences: reasons, deviations of canaries (format 1), what answers rest on.

Format 1 named the gate by the text before the first colon. Only this module looks at such text.
"""

from __future__ import annotations

import json
import re
from typing import Any

_GATES = {
    "treatment not proved": "unproved",
    "out of memory": "out_of_memory",
    "swap": "swap",
    "errors": "errors",
    "ignored errors": "ignored_errors",
    "counters disagree": "counters",
    "driver saturated": "driver_cpu",
    "not steady": "steady",
    "no common start": "start_spread",
    "unequal steal": "steal",
    "no step is valid": "no_valid_step",
    "failed": "failed",
}
_DRIVER_HEALTH = re.compile(r"(?P<driver>\S+) calls its result invalid")
_INSTANCE = re.compile(r"instance (?P<instance>[1-9]\d*): ?(?P<text>.*)", re.DOTALL)
_READINGS = {
    "CPUs": "cpu_bytes_per_s",
    "memory": "memory_bytes_per_s",
    "disk": "fsyncs_per_s",
    "loopback": "loopback_bits_per_s",
}


def reason_fields(sentence: str) -> dict[str, Any]:
    """gate, instance and text of a Reason; the gate is "other" where no known one begins the sentence."""
    head, colon, text = sentence.partition(": ")
    driver = _DRIVER_HEALTH.fullmatch(head)
    gate = "driver_health" if driver else _GATES.get(head)
    if not colon or gate is None:
        return {"gate": "other", "text": sentence}
    of_instance = _INSTANCE.fullmatch(text)
    if of_instance:
        text = of_instance["text"]
    if driver:
        text = f"{driver['driver']}: {text}"
    return {"gate": gate, "instance": int(of_instance["instance"]) if of_instance else None, "text": text}


def deviation_fields(sentence: str) -> dict[str, Any]:
    """reading and text of a CanaryDeviation."""
    label = sentence.removeprefix("no reading of ").partition(":")[0]
    return {"reading": _READINGS.get(label, label), "text": sentence}


_NO_FULL_LINK = "the published ratio is that of a full link, and at this load no link was full in this study"
_ALARM = " although they are identical"
_FAILURE = re.compile(
    r"the (?P<who>arm|control's copy|control)(?: \S+)? failed in (?P<blocks>\d+) of (?P<tried>\d+) blocks?"
    r" \((?P<why>.*)\)",
    re.DOTALL,
)
_COUNTED = re.compile(r"(?P<reason>.*?)(?P<half>, one of two copies)? \((?P<count>\d+) blocks?\)", re.DOTALL)


def without_consequence(alarm: str) -> str:
    """The clause of an A/A alarm, without what follows from it."""
    return alarm.partition(_ALARM)[0]


def details_fields(details: dict[str, Any]) -> dict[str, Any]:
    """The details of an effect whose failure and lost blocks are clauses."""
    failure, found = details.get("failure"), dict(details)
    if isinstance(failure, str):
        words = _FAILURE.fullmatch(failure)
        found["failure"] = words and {
            "who": "copy" if words["who"] == "control's copy" else words["who"],
            "blocks": int(words["blocks"]),
            "tried": int(words["tried"]),
            "why": {words["why"]: int(words["blocks"])},
        }
    for one in map(_COUNTED.fullmatch, found.pop("reasons", ())):
        if one is not None and not _FAILURE.fullmatch(one[0]):
            found.setdefault("halved" if one["half"] else "lost", {}).setdefault(one["reason"], int(one["count"]))
    return found


def without_sentences(summary: bytes) -> dict[str, Any] | None:
    """A summary.json that has sentences, with facts in their place; None if it has none, or is not as it should be.

    Raises ValueError if it is no JSON.
    """
    if b'"sentences":' not in summary:
        return None
    document: dict[str, Any] = json.loads(summary)
    try:
        _replace_words(document)
    except (AttributeError, KeyError, TypeError):
        return None
    return document


def _replace_words(document: dict[str, Any]) -> None:
    for effect in document.get("effects", ()):
        details = effect.setdefault("details", {})
        details.setdefault("facts", [_text(effect["sentence"])])
        if effect.get("verdict") == "not_measurable" and _ALARM in effect["sentence"]:
            details.setdefault("alarm", effect["sentence"].rpartition(";")[2].strip().rstrip("."))
    for one in (*document.get("conclusions", ()), *document.get("published", ())):
        because, note = one.get("because"), one.get("note")
        one["facts"] = [{"fact": "no link full"} if because == _NO_FULL_LINK else _text(because)] if because else []
        one["notes"] = [_text(note)] if note else []
    for one in document.get("screening", ()):
        one["copies_differ"] = bool(one.get("alarm"))


def _text(words: str) -> dict[str, Any]:
    return {"fact": "text", "values": {"text": words}}
