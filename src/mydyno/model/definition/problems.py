"""Mistakes in an experiment file, collected so that all are reported together."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from mydyno.errors import UserError

Key = tuple[str | int, ...]
NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,47}$"
EXPECTED = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "string": "a text in quotes",
    "dict": "a table",
    "model": "a table",
    "list": "a list",
    "tuple": "a list",
}
"""The first word of pydantic's kind of a wrong type → what an author may write."""
SECTIONS = {
    "server": 'a table [server] with name = "mariadb-10.11", or with basedir, build or dsn',
    "steps": 'tables [[steps]], each with workload = "oltp_read_write" or another workload',
}
"""Section that every experiment has → what an author may write."""


@dataclass(frozen=True)
class Problem:
    """One mistake: where, what was found, what is allowed, what was probably meant."""

    key: Key
    message: str
    value: Any = None
    allowed: str = ""
    nearest: str = ""

    def text(self, place: str) -> str:
        """One line for the user; `place` is file and line."""
        line = f"{place}: {format_key(self.key)}"
        if self.value is not None:
            line += f" = {_short(self.value)}"
        return f"{line}: {self.words}"

    @property
    def words(self) -> str:
        """What is wrong, without where."""
        words = self.message
        if self.allowed:
            words += f"; allowed: {self.allowed}"
        return _with_guess(words, self.nearest)


class ExperimentError(UserError):
    """The mistakes of an experiment, in the order of the file: (where it was set, what is wrong)."""

    def __init__(self, name: str, mistakes: Sequence[tuple[str, Problem]]) -> None:
        self.mistakes = tuple(mistakes)
        lines = [problem.text(place) for place, problem in mistakes]
        count = f"{len(lines)} mistakes" if len(lines) > 1 else "a mistake"
        self.title = f"{count} in {name}; nothing was started"
        super().__init__("\n  ".join((self.title, *lines)))


def format_key(key: Key) -> str:
    """("steps", 0, "connections") → steps[0].connections; the file's own name for an empty key."""
    text = ""
    for part in key:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text or "the file"


def nearest(word: object, choices: Iterable[str], likeness: float = 0.55) -> str:
    """The choice that was probably meant, or nothing; `likeness` is difflib's ratio, from 0 to 1."""
    matches = difflib.get_close_matches(str(word), list(choices), n=1, cutoff=likeness)
    return matches[0] if matches else ""


def with_guess(text: str, word: object, choices: Iterable[str], likeness: float = 0.55) -> str:
    """The text, and the choice that was probably meant, if there is one, as a question."""
    return _with_guess(text, nearest(word, choices, likeness))


def _with_guess(text: str, guess: str) -> str:
    return "; ".join(filter(None, (text, f"did you mean {guess!r}?" if guess else "")))


def unknown(key: Key, kind: str, word: object, choices: Sequence[str]) -> Problem:
    """A name, as value or as the key's last part, that is not among the known ones."""
    value = None if key[-1] == word else word
    return Problem(key, f"unknown {kind}", value, ", ".join(choices) or "none", nearest(word, choices))


def from_validation(error: ValidationError, prefix: Key, fields_at: Mapping[str, type[BaseModel]]) -> list[Problem]:
    """pydantic's findings as problems. `fields_at` gives the type of each section, for the nearest right key."""
    problems = [_from_detail(detail, prefix, fields_at) for detail in error.errors()]
    # A list whose members are wrong is not also "too short".
    deeper = {problem.key[:length] for problem in problems for length in range(len(problem.key))}
    return [problem for problem in problems if problem.key not in deeper]


def _from_detail(detail: ErrorDetails, prefix: Key, fields_at: Mapping[str, type[BaseModel]]) -> Problem:
    key = (*prefix, *(part for part in detail["loc"] if part != "[key]"))
    section = SECTIONS.get(".".join(map(str, key)), "")
    context = detail.get("ctx", {})
    kind = detail["type"]
    if kind == "extra_forbidden":
        names = [part for part in key[:-1] if isinstance(part, str)]
        model = fields_at.get(".".join(names)) or fields_at.get(names[0] if names else "")
        choices = sorted(model.model_fields) if model else []
        return Problem(key, "unknown key", None, ", ".join(choices), nearest(key[-1], choices))
    if kind == "missing":
        return Problem(key, "is missing", allowed=section)
    value = detail["input"]
    if kind in ("greater_than_equal", "greater_than", "less_than_equal", "less_than"):
        sign = {"greater_than_equal": ">=", "greater_than": ">", "less_than_equal": "<=", "less_than": "<"}[kind]
        return Problem(key, "out of range", value, f"{sign} {next(iter(context.values()))}")
    if kind == "literal_error":
        expected = str(context["expected"]).replace("'", "")
        return Problem(
            key, "unknown value", value, expected, nearest(value, expected.replace(" or ", ", ").split(", "))
        )
    if kind == "value_error":
        return Problem(key, "not understood", value, str(context["error"]))
    if kind == "string_pattern_mismatch":
        return Problem(key, "not a possible name", None if value == key[-1] else value, _in_words(context["pattern"]))
    if kind.endswith(("_type", "_parsing", "_from_float")) and kind.partition("_")[0] in EXPECTED:
        return Problem(key, "not understood", value, section or EXPECTED[kind.partition("_")[0]])
    if kind == "too_short":
        return Problem(key, "is empty", allowed=section or "at least one value")
    if kind == "string_too_short":
        return Problem(key, "too short", value, f"at least {context['min_length']} characters")
    return Problem(key, detail["msg"][0].lower() + detail["msg"][1:], value)


def _in_words(pattern: str) -> str:
    """What a pattern of names allows."""
    if pattern == NAME_PATTERN:
        return "letters, digits, '.', '_' and '-', at most 48"
    return "letters, digits and '_', beginning with a letter"


def _short(value: Any) -> str:
    text = f'"{value}"' if isinstance(value, str) else str(value)
    return text if len(text) <= 60 else text[:57] + "…"
