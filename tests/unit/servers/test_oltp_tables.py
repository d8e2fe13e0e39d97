from __future__ import annotations

import pytest

from mydyno.errors import UserError
from mydyno.servers.running.external import check_tables, text_kind


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("68487932199-96439406143-93774651418", "digits"),
        ("the of customer 4711 badenfi and record.", "words"),
        ("Zk3/x+Qp0aB7", "random"),
    ],
)
def test_the_kind_of_a_rows_text_is_recognised(text: str, kind: str) -> None:
    assert text_kind(text) == kind


def test_a_view_is_no_table_of_the_load() -> None:
    wanted = ["sbtest1", "sbtest2"]
    check_tables("shop", {"sbtest1": "BASE TABLE", "other": "VIEW"}, wanted)
    with pytest.raises(UserError, match="sbtest2 in shop is a view, not a table"):
        check_tables("shop", {"sbtest1": "BASE TABLE", "sbtest2": "VIEW"}, wanted)
