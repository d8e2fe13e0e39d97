"""The page on which an experiment is designed says what it can start."""

from __future__ import annotations

from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.requests import Request

from mydyno.web.pages.design import Launcher, show_design


@pytest.mark.parametrize("allowed", [False, True])
async def test_the_page_says_whether_it_can_start_a_study(tmp_path: Path, allowed: bool) -> None:
    app = Starlette()
    app.state.launcher = Launcher(tmp_path / "studies", tmp_path / "designs", "\0mydyno-test-page") if allowed else None
    shown = await show_design(Request({"type": "http", "app": app, "query_string": b"", "headers": []}))
    text = bytes(shown.body).decode()
    assert ("Nothing is started from this page." in text) is not allowed
    assert ("Run the study on this host" in text) is allowed
