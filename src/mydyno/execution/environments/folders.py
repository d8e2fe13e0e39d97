"""The folders of one study: its runs' data directories, and a short path for sockets and password files."""

from __future__ import annotations

import secrets
from pathlib import Path

from mydyno.files.private import check_surroundings, make_folder
from mydyno.hosts.paths import HostPaths, socket_folder
from mydyno.hosts.server_user import ids_of
from mydyno.hosts.undo import UndoJournal


def make_folders(paths: HostPaths, study: str, undo: UndoJournal) -> tuple[Path, Path]:
    """(data, sockets), both mydyno's own; the server's user may enter them, and writes only to folders in them.

    Raises HostError where that user could exchange the folder of the data.
    """
    owner = None if paths.server_user is None else ids_of(paths.server_user)
    if owner is not None:
        check_surroundings(paths.data, owner)
    # Of a name of its own: a study of the same second, or one beyond this name space, may share the data's folder.
    scratch = paths.data / "runs" / f"{study}-{secrets.token_hex(4)}"
    undo.will_change("folder", path=str(scratch))
    make_folder(scratch, mode=0o755)
    sockets = socket_folder() / f"mydyno-{secrets.token_hex(4)}"
    undo.will_change("folder", path=str(sockets))
    sockets.mkdir(mode=0o700)
    if owner is not None:
        check_surroundings(scratch, owner)
        make_folder(sockets, (0, owner[1]), 0o750)
    return scratch, sockets
