"""Characters that a terminal or a page would obey, or that reverse what it shows, are shown as what they are."""

from __future__ import annotations

import pytest
from markupsafe import Markup

from mydyno.document.parts import templates
from mydyno.visible import visible, visible_value

# As in streams.rs of dyno-core.
TEXT = "a\x1b]0;x\x07\x9b2J\u202etxt\u2066\tb\né中\r\nwrong\rright"
SHOWN = "a\\x1b]0;x\\x07\\x9b2J\\u202etxt\\u2066\tb\né中\r\nwrong\\x0dright"


def test_a_text_of_others_is_shown_and_not_obeyed() -> None:
    assert visible(TEXT) == SHOWN


@pytest.mark.parametrize(("value", "shown"), [(TEXT, SHOWN), (1.5, "1.5"), (Markup("<b>\u200f</b>"), "<b>\u200f</b>")])
def test_templates_insert_texts_visibly(value: object, shown: str) -> None:
    assert templates().from_string("{{ value }}").render(value=value) == shown
    assert visible_value(3) == 3
