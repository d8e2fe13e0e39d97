"""What comes from studies is text on every page."""

from __future__ import annotations

from mydyno.web.rendering import render


def test_names_from_outside_are_text() -> None:
    hostile = "<script>document.title='owned'</script>"
    text = bytes(render("problem.html", 404, title=hostile, words=hostile, row=None).body).decode()
    assert hostile not in text
    assert "&lt;script&gt;document.title=&#39;owned&#39;&lt;/script&gt;" in text
