"""/compare and /history: studies, or arms of one, compared, and an experiment over all its studies on a host.

The documents are those of `mydyno compare` and `mydyno history`, made when they are requested, since studies may have
been added.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from mydyno.errors import MydynoError
from mydyno.language import agreed
from mydyno.model.definition.problems import nearest
from mydyno.web.index import StudyIndex
from mydyno.web.rendering import render

if TYPE_CHECKING:
    from mydyno.across.history import Selection
    from mydyno.document.parts import Document
    from mydyno.model.stored.summary import Summary

MOST_STUDIES = 12
"""More are unreadable."""
MOST_NAMES = 20
"""Most arms or steps that a message lists."""


def _named(request: Request) -> list[Path]:
    """The folders of the studies in the query. Raises HTTPException: 404 for a study that is not in the list."""
    index: StudyIndex = request.app.state.index
    wanted = list(dict.fromkeys(request.query_params.getlist("study")))
    if len(wanted) > MOST_STUDIES:
        raise HTTPException(422, agreed(f"At most {MOST_STUDIES} studies can be compared here."))
    paths = [index.find(name) for name in wanted]
    if None in paths:
        raise HTTPException(404, "There is no study of this name in this folder.")
    return [path for path in paths if path is not None]


def _missing(message: str, name: str, known: Sequence[str]) -> HTTPException:
    """404 for a name that a study does not have, with those that it has, unless they are many, and the nearest."""
    text = agreed(message.format(name=name))
    if 0 < len(known) <= MOST_NAMES:
        text += f" It has {', '.join(known)}."
    if guess := nearest(name, known):
        text += f" Did you mean {guess}?"
    return HTTPException(404, text)


@dataclass(frozen=True)
class _Compared:
    """What /compare compares: studies, or arms of one study, of which the first is the reference."""

    paths: tuple[Path, ...]
    arms: tuple[str, ...]

    @classmethod
    def of(cls, request: Request) -> _Compared:
        """From `study=A&study=B`, or `study=A` with `arms=a,b` or `arm=a&arm=b`. Raises HTTPException."""
        paths = _named(request)
        query = request.query_params
        arms = [arm.strip() for text in query.getlist("arms") for arm in text.split(",")] + query.getlist("arm")
        arms = list(dict.fromkeys(filter(None, arms)))
        if arms and len(paths) > 1:
            raise HTTPException(422, "Arms are compared within one study.")
        if not arms and len(paths) < 2:
            raise HTTPException(
                422,
                "Mark two studies or more in the list of studies, then compare them. Arms of one study are "
                "compared on its page.",
            )
        if not paths:
            raise HTTPException(422, "Arms are compared within one study.")
        return cls(tuple(paths), tuple(arms))

    def document(self) -> Document:
        """What is shown. Raises MydynoError or HTTPException for what has nothing in common, or is not there."""
        # numpy and the tables take a third of a second to load
        from mydyno.across.arms import arms_document, compare_arms  # numpy
        from mydyno.across.compare import compare_studies  # numpy
        from mydyno.across.comparison import comparison_document
        from mydyno.across.history import studies_beside  # numpy
        from mydyno.across.saved import SavedStudy

        saved = [SavedStudy.read(path) for path in self.paths]
        if self.arms:
            known = [arm.name for arm in saved[0].study.experiment.arms]
            for arm in self.arms:
                if arm not in known:
                    raise _missing("The study has no arm {name}.", arm, known)
            if len(self.arms) < 2:
                raise HTTPException(422, "Mark two arms or more, then compare them.")
            return arms_document(compare_arms(saved[0], self.arms), whole=True)
        made = compare_studies(saved, studies_beside(saved))
        if not made.comparable:
            raise HTTPException(422, made.answer[0])
        return comparison_document(made, whole=True)


def show_comparison(request: Request) -> Response:
    """The document in the frame of these pages."""
    try:
        document = _Compared.of(request).document()
    except MydynoError as error:
        raise _refusal(error) from error
    return render("across.html", here="Comparison", document=document)


@dataclass(frozen=True)
class Choice:
    """One of the selects above a history."""

    name: str
    """The parameter of the URL."""
    label: str
    options: tuple[tuple[str, str], ...]
    """(value, label)."""
    selected: str


def show_history(request: Request) -> Response:
    """The document in the frame of these pages, with the selects of its series."""
    document, newest, selection = _history(request)
    study = request.query_params["study"]
    return render("history.html", here="History", document=document, study=study, choices=_choices(newest, selection))


def _history(request: Request) -> tuple[Document, Summary, Selection]:
    """The document, the study whose series may be selected, and what is. Raises HTTPException."""
    # numpy and the tables take a third of a second to load
    from mydyno.across.history import Selection, find_studies, history_of, newest_of  # numpy
    from mydyno.across.history_document import history_document
    from mydyno.across.saved import SavedStudy

    paths = _named(request)
    if len(paths) != 1:
        raise HTTPException(422, "A history is of one experiment: it needs one of its studies.")
    arm, step, metric = (request.query_params.get(name) or None for name in ("arm", "step", "metric"))
    try:
        one = SavedStudy.read(paths[0])
        found = find_studies(paths[0].resolve().parent)
        newest = newest_of(found, one.summary.experiment, one.host)
        for message, name, known in (
            ("The newest study has no arm {name}.", arm, newest.arms),
            ("The newest study has no load level {name}.", step, [each.id for each in newest.steps]),
            ("The newest study has no metric {name}.", metric, list(newest.metrics)),
        ):
            if name is not None and name not in known:
                raise _missing(message, name, known)
        selection = Selection(arm, step, metric, one.host)
        made = history_of(found, one.summary.experiment, selection)
        return history_document(made), newest, selection
    except MydynoError as error:
        raise _refusal(error) from error


def _choices(newest: Summary, selection: Selection) -> tuple[Choice, ...]:
    # the reports' own modules take long to load
    from mydyno.across.comparison import step_heading
    from mydyno.wording.numbers import metric_name

    labels = {metric: metric_name(metric) for metric in newest.metrics}
    twice = {label for label, count in Counter(labels.values()).items() if count > 1}
    metrics = [(metric, f"{label} ({metric})" if label in twice else label) for metric, label in labels.items()]
    steps = [(one.id, step_heading(newest.steps, one.id)) for one in newest.steps]
    return (
        Choice("arm", "Arm", (("", "all"), *((arm, arm) for arm in newest.arms)), selection.arm or ""),
        Choice("step", "Load level", (("", "all"), *steps), selection.step or ""),
        Choice("metric", "Metric", tuple(metrics), selection.metric or newest.primary),
    )


def _refusal(error: MydynoError) -> HTTPException:
    return HTTPException(422, f"{error.message}. {error.hint}".rstrip(". ") + ".")


ROUTES = [Route("/compare", show_comparison), Route("/history", show_history)]
