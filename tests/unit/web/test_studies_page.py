"""The list of studies: grouped by experiment and host, in an order, with a line through the effects."""

from __future__ import annotations

from typing import Any

import pytest

from mydyno.web.index import Row
from mydyno.web.pages.studies import ORDERS, Filter, grouped

GAIN = "QPS of b relative to a, s-1\n12345678"
OTHER = "QPS of b relative to a, s-1\n87654321"


def row(name: str, day: int, experiment: str = "x", host: str = "h", **fields: Any) -> Row:
    return Row(name, fields.pop("state", "complete"), experiment=experiment, host=host, created_unix_ns=day, **fields)


ROWS = [
    row("x-5", 5, state="running"),
    row("x-4", 4, answer="newest", effects={GAIN: 1.04, OTHER: 2.0}, undecided=[GAIN]),
    row("y-3", 3, experiment="y", host="g", answer="one", effects={GAIN: 0.9}),
    row("x-2", 2, answer="older", effects={OTHER: 1.5}),
    row("x-1", 1, answer="oldest", effects={GAIN: 1.01}),
    Row("broken-20261120T090000Z", "damaged", problem="study.json cannot be read"),
]


def test_an_experiment_has_its_newest_answer_and_the_course_of_one_contrast() -> None:
    x, y, broken = grouped(ROWS, "-date")
    assert (x.experiment, x.newest.id, x.running, x.has_history) == ("x", "x-5", ROWS[0], True)
    assert x.answered is not None and x.answered.answer == "newest"
    assert x.contrast == "QPS of b relative to a, s-1"
    assert x.effects == pytest.approx([0.01, 0.04]), "oldest first, without the study that is defined otherwise"
    assert "s-1: from +1.0\u202f% to +4.0\u202f% over 2 studies" in x.spark
    assert x.mark(x.drawn) == "? " and not y.mark(y.drawn), "an open effect is marked"
    assert not y.spark and not y.has_history, "one study has no course"
    assert (broken.experiment, broken.answered, broken.effects) == ("broken", None, [])


def test_studies_of_several_hosts_are_several_groups() -> None:
    found = grouped([row("x-2", 2, host="h"), row("x-1", 1, host="g")], "-date")
    assert [(one.experiment, one.newest.host) for one in found] == [("x", "h"), ("x", "g")]


@pytest.mark.parametrize(
    ("order", "found"),
    [("-date", "x y broken"), ("date", "y x broken"), ("experiment", "broken x y"), ("-effect", "x y broken"),
     ("effect", "y x broken"), ("-studies", "x y broken"), ("host", "y x broken"), ("state", "x y broken"),
     ("answer", "x y broken")],
)  # fmt: skip
def test_groups_are_ordered_and_what_is_not_known_comes_last(order: str, found: str) -> None:
    assert " ".join(group.experiment for group in grouped(ROWS, order)) == found
    assert order.removeprefix("-") in ORDERS


def test_a_filter_takes_what_has_all_of_it() -> None:
    assert [one.id for one in ROWS if Filter(q="OLD x-").takes(one)] == ["x-2", "x-1"]
    assert [one.id for one in ROWS if Filter(experiment="broken").takes(one)] == ["broken-20261120T090000Z"]
    assert [one.id for one in ROWS if Filter(experiment="x", state="running").takes(one)] == ["x-5"]
