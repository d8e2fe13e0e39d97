"""Debian's Chromium for tests, driven by Playwright; nothing is downloaded for it."""

from __future__ import annotations

import shutil

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
ARGUMENTS = ("--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage")
"""Tests may run as root, where Chromium's own sandbox does not work, and in containers with a small /dev/shm."""
NONE = "pages in a browser: no chromium on PATH; as root on Debian ./test installs it, otherwise install it"


def browser_path() -> str | None:
    """The first browser on PATH; None without one."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)
