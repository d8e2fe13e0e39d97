"""What a file of a study folder that cannot be read is reported as."""

from __future__ import annotations

import errno
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mydyno.errors import UserError

INCOMPLETE = "is the study folder complete?"
FORBIDDEN = "this user may not read it: use the account that the study belongs to, or change the file's permissions"
HINTS = {
    errno.EACCES: FORBIDDEN,
    errno.EPERM: FORBIDDEN,
    errno.EIO: "the disk reports an error: see the kernel's log",
    errno.ELOOP: "a symbolic link in its path leads to itself",
    errno.EMFILE: "raise this process's limit of open files (ulimit -n)",
}


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """UserError that names the path for what cannot be read, or is not what it should be."""
    try:
        yield
    except OSError as error:
        words = f"{error.filename or path} cannot be read: {error.strerror or error}"
        raise UserError(words, HINTS.get(error.errno or 0, INCOMPLETE)) from error
    except (ValueError, RecursionError, EOFError, zlib.error) as error:
        raise UserError(f"{path} cannot be read: {error}", INCOMPLETE) from error
