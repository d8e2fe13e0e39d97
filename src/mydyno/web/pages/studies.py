"""/ : the list of studies by experiment, with search, filter and order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from mydyno.across.history_document import sparkline
from mydyno.model.definition.quantities import format_duration
from mydyno.web.index import STATES, Row, StudyIndex
from mydyno.web.rendering import render
from mydyno.wording.numbers import signed_percent
from mydyno.wording.verdicts import SYMBOLS

LINES_PER_PAGE = 100
FEW = 25
"""So many studies are listed one by one; of more, only those of a search."""
MOST_POINTS = 40


@dataclass(frozen=True)
class Filter:
    """What the list is limited to."""

    q: str = ""
    experiment: str = ""
    state: str = ""
    host: str = ""
    server: str = ""

    @classmethod
    def of(cls, request: Request) -> Filter:
        """From the query of the request's URL."""
        return cls(*(request.query_params.get(one.name, "").strip()[:200] for one in fields(cls)))

    def takes(self, row: Row) -> bool:
        """Whether a row is shown."""
        chosen = (
            (self.experiment, experiment_of(row)), (self.state, row.state), (self.host, row.host),
            (self.server, row.server),
        )  # fmt: skip
        if any(wanted and wanted != found for wanted, found in chosen):
            return False
        return all(word in row.text for word in self.q.casefold().split())


def experiment_of(row: Row) -> str:
    """The experiment; of a study that cannot be read, what its folder's name begins with."""
    return row.experiment or row.id.rpartition("-")[0] or row.id


class Group:
    """The studies of one experiment on one host, newest first."""

    def __init__(self, experiment: str, rows: Sequence[Row]) -> None:
        self.experiment = experiment
        self.rows = rows
        self.newest = rows[0]
        self.running = next((row for row in rows if row.state == "running"), None)
        answered = [row for row in rows if row.answer]
        self.answered = answered[0] if answered else None
        self.has_history = len(answered) > 1
        self.drawn = next((row for row in rows if row.effects), self.newest)
        self._contrast = next(iter(self.drawn.effects), "")
        """The first one of the newest study that has one."""
        self.contrast = self._contrast.partition("\n")[0]
        of_contrast = [found for row in rows if (found := self.effect(row)) is not None]
        self.effects = of_contrast[:MOST_POINTS][::-1]
        """Oldest first."""

    def effect(self, row: Row) -> float | None:
        """The effect that the group shows, in this study; a share: 0.05 is +5 %."""
        ratio = row.effects.get(self._contrast)
        return None if ratio is None else ratio - 1

    def mark(self, row: Row) -> str:
        """What stands before the effect of a study that leaves it open."""
        return f"{SYMBOLS['inconclusive']} " if self._contrast in row.undecided else ""

    @property
    def spark(self) -> Markup:
        """The course of the effect."""
        if not self.effects:
            return Markup()
        first, last = (signed_percent(self.effects[place]) for place in (0, -1))
        words = f"{self.contrast}: from {first} to {last} over {len(self.effects)} studies"
        return sparkline(self.effects, words, zero=True)


ORDERS: dict[str, tuple[str, Callable[[Group], Any]]] = {
    "experiment": ("Experiment", lambda group: group.experiment.casefold()),
    "answer": ("Newest answer", lambda group: group.answered.answer.casefold() if group.answered else None),
    "effect": ("Effect", lambda group: group.effects[-1] if group.effects else None),
    "studies": ("Studies", lambda group: len(group.rows)),
    "host": ("Host", lambda group: group.newest.host.casefold() or None),
    "date": ("Date", lambda group: group.newest.created_unix_ns),
    "state": ("State", lambda group: STATES.index((group.running or group.newest).state)),
}
"""{name in the URL: (heading, what groups are ordered by)}; None comes last."""
DESCENDING_FIRST = ("effect", "studies", "date")
STANDARD = "-date"


def grouped(rows: Sequence[Row], order: str) -> list[Group]:
    """The groups in this order; "-date": the newest first. `rows` are newest first, which orders equal ones."""
    found: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        found.setdefault((experiment_of(row), row.host), []).append(row)
    groups = [Group(experiment, of) for (experiment, _), of in found.items()]
    key = ORDERS[order.removeprefix("-")][1]
    known = [group for group in groups if key(group) is not None]
    known.sort(key=key, reverse=order.startswith("-"))
    return known + [group for group in groups if key(group) is None]


@dataclass(frozen=True)
class Running:
    """A study that runs."""

    row: Row
    words: str
    """How far it is."""


def _running(index: StudyIndex, row: Row) -> Running:
    last = index.last_second(row)
    if last is None:
        return Running(row, "")
    block = f"block {last.block} of {last.blocks}" if last.block and last.blocks else last.state
    left = "" if last.left_s is None else f"about {format_duration(last.left_s)} left"
    return Running(row, ", ".join(filter(None, (block, left))))


def list_studies(request: Request) -> Response:
    """The page; with `part=results` the table alone."""
    index: StudyIndex = request.app.state.index
    rows = index.rows()
    chosen = Filter.of(request)
    order = request.query_params.get("sort", STANDARD)
    order = order if order.removeprefix("-") in ORDERS else STANDARD
    found = [row for row in rows if chosen.takes(row)]
    groups = grouped(found, order)
    each = chosen != Filter() or len(rows) <= FEW
    lines = [(group, row) for group in groups for row in (group.rows if each else group.rows[:1])]
    pages = max(1, -(-len(lines) // LINES_PER_PAGE))
    page = max(1, int(number) if (number := request.query_params.get("page", "1")).isdecimal() else 1)
    page = min(page, pages)
    shown: dict[Group, list[Row]] = {}
    for group, row in lines[(page - 1) * LINES_PER_PAGE : page * LINES_PER_PAGE]:
        shown.setdefault(group, []).append(row)
    url = request.url.remove_query_params("part")

    def heading(name: str) -> dict[str, str]:
        turned = order.removeprefix("-") == name
        first = f"-{name}" if name in DESCENDING_FIRST else name
        other = name if order.startswith("-") else f"-{name}"
        sorted_ = ("descending" if order.startswith("-") else "ascending") if turned else ""
        query = url.include_query_params(sort=other if turned else first).remove_query_params("page").query
        return {"words": ORDERS[name][0], "query": query, "sorted": sorted_}

    return render(
        "results.html" if request.query_params.get("part") == "results" else "studies.html",
        groups=shown,
        each=each,
        headings=[heading(name) for name in ORDERS],
        matching=len(found),
        total=len(rows),
        experiments=sorted({experiment_of(row) for row in rows}),
        page=page,
        pages=pages,
        chosen=chosen,
        order="" if order == STANDARD else order,
        running=[_running(index, row) for row in rows if row.state == "running"],
        states=[state for state in STATES if any(row.state == state for row in rows)],
        hosts=sorted({row.host for row in rows if row.host}),
        servers=sorted({row.server for row in rows if row.server}),
        folder=str(index.studies),
        page_url=lambda number: url.include_query_params(page=number).query,
        only=lambda group: url.replace_query_params(experiment=group.experiment, host=group.newest.host).query,
    )


ROUTES = [Route("/", list_studies)]
