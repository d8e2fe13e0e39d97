"""The `mydyno` command as a process of its own, forked from this one: it starts with every module loaded."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from mydyno.cli import COMMANDS, main, make_app

LONGEST_S = 300
"""A command that takes longer is ended by SIGALRM."""


def run_forked(
    arguments: Sequence[str], folder: Path, environment: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Exit code and output of the command in a folder, with this environment alone.

    Differs from `python -m mydyno.cli` in nothing but what modules read when they are loaded, and costs a hundredth.
    """
    make_app(list(COMMANDS))
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        child = os.fork()
        if child == 0:
            _become(arguments, folder, environment, output.fileno(), errors.fileno())
        _, status = os.waitpid(child, 0)
        texts = []
        for file in (output, errors):
            file.seek(0)
            texts.append(file.read().decode())
    return subprocess.CompletedProcess(["mydyno", *arguments], os.waitstatus_to_exitcode(status), *texts)


def _become(
    arguments: Sequence[str], folder: Path, environment: Mapping[str, str], output: int, errors: int
) -> NoReturn:
    code: object = 1
    signal.alarm(LONGEST_S)
    try:
        nothing = os.open(os.devnull, os.O_RDONLY)
        for descriptor, number in ((nothing, 0), (output, 1), (errors, 2)):
            os.dup2(descriptor, number)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        sys.stdin, sys.stdout, sys.stderr = (os.fdopen(number, mode) for number, mode in ((0, "r"), (1, "w"), (2, "w")))
        sys.argv = ["mydyno", *arguments]
        main()
        code = 0
    except SystemExit as end:
        code = end.code
    except BaseException:
        traceback.print_exc()
        code = 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else 0 if code is None else 1)
