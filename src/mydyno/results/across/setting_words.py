"""The names of settings and of their groups in the present language: the records have them in English."""

from __future__ import annotations

from mydyno.language import marked, names, tr
from mydyno.results.across.settings import PACKAGES

GROUPS = (
    marked("experiment"),
    marked("server"),
    marked("server variables of the control"),
    marked("packages"),
    marked("host"),
    marked("data and load"),
    marked("design"),
    marked("mydyno and load programs"),
    marked("treatments"),
    marked("server variables"),
)
SETTINGS = frozenset({
    marked("name"),
    marked("question"),
    marked("scale"),
    marked("control"),
    marked("arms"),
    marked("primary metric"),
    marked("margin"),
    marked("server"),
    marked("version"),
    marked("build"),
    marked("design"),
    marked("blocks examined"),
    marked("time"),
    marked("looks"),
    marked("seed"),
    marked("slice"),
    marked("washout"),
    marked("cycles"),
    marked("adjusted for"),
})  # fmt: skip
VALUES = frozenset({marked("yes"), marked("no"), marked("nothing")})
NAMED_BY_OTHERS = ("server variables", "server variables of the control", PACKAGES, "host", "mydyno and load programs")
"""Groups whose settings have names of servers, packages, kernels and programs, which are not translated."""


def group_words(group: str) -> str:
    """A group's name."""
    return tr(group)


def setting_words(group: str, name: str) -> str:
    """A setting's name; what the server or the experiment calls it stays as it is."""
    if group in NAMED_BY_OTHERS:
        return name
    if name in SETTINGS:
        return tr(name)
    if name.startswith("step "):
        return tr("step {step}", step=name.removeprefix("step "))
    if name.endswith(" (set)"):
        return tr("{variable} (set)", variable=name.removesuffix(" (set)"))
    if name.endswith(": version"):
        return tr("{arm}: version", arm=name.removesuffix(": version"))
    return name


def value_words(group: str, name: str, value: str) -> str:
    """A setting's value."""
    if group in NAMED_BY_OTHERS:
        return value
    if name == "arms":
        return names(value.split(", "))
    return tr(value) if value in VALUES else value
