"""A program that says it is a memcached, and its build: what tests of builds compile in a tenth of a second."""

from __future__ import annotations

from pathlib import Path

from mydyno.hosts.local import LocalHost
from mydyno.model.definition.source_build import BuildSpec

HOST = LocalHost("tests", None)
PROGRAM = '#include <stdio.h>\nint line(void);\nint main(void) { printf("memcached 1.6.18\\n"); return line(); }\n'
COMMAND = "cc -c memcached.c -o a.o && cc -c line.c -o b.o && cc -o memcached a.o b.o"


def spec(repository: Path, **changes: object) -> BuildSpec:
    """The build of its repository."""
    return BuildSpec.model_validate({"git": str(repository), "command": COMMAND, **changes})
