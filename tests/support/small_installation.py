"""What is pushed to hosts in tests: mydyno, programs that only report a version, and this environment's packages."""

from __future__ import annotations

import site
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mydyno import __version__
from mydyno.fleet import installation
from mydyno.fleet.installation import Installation, installation_of
from mydyno.fleet.parts import Part
from mydyno.hosts.paths import ENGINE_PROGRAMS


@contextmanager
def small_installation(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Installation]:
    """In place of the Python packages (150 MB) a file that finds those of this environment."""
    engine = folder / "small-engine"
    engine.mkdir()
    for name in ENGINE_PROGRAMS:
        (engine / name).write_text(f"#!/bin/sh\necho {name} {__version__}\n")
        (engine / name).chmod(0o755)
    file = folder / "sitecustomize.py"
    file.write_text(f"import sys\nsys.path += {site.getsitepackages()!r}\n")
    packages = Part("packages-0123456789abcdef", "Python packages", {"sitecustomize.py": file}, (2, 17))
    monkeypatch.setattr(installation, "packages_part", lambda: packages)
    monkeypatch.setenv("MYDYNO_ENGINE", str(engine))
    installation_of.cache_clear()
    yield installation_of(engine)
    installation_of.cache_clear()
