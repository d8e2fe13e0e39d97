from __future__ import annotations

import pytest

from mydyno.servers.oltp_tables import text_kind


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
