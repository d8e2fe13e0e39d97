"""Tar archives as vendors ship servers: of a program that only reports a version, and of a real server's tree."""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Mapping
from pathlib import Path

HELP = """{program}  Ver {version} for Linux on x86_64
Usage: {program} [OPTIONS]
  --innodb-buffer-pool-size=#  The size

Variables (--variable-name=value)
---------------------------------- -----------------
innodb-buffer-pool-size            134217728
{options}
"""


def fake_program(version: str, options: str = "") -> bytes:
    """A shell script that answers --version and --verbose --help."""
    text = HELP.format(program="mysqld", version=version, options=options)
    script = f"""#!/bin/sh
case " $* " in *" --help "*) cat <<'END'
{text}
END
;; *) echo "/usr/sbin/mysqld  Ver {version} for Linux on x86_64 (fake)";; esac
"""
    return script.encode()


def fake_archive(path: Path, version: str = "8.4.3", top: str = "mysql-8.4.3-linux-glibc2.28-x86_64/",
                 extra: Mapping[str, bytes] | None = None, options: str = "") -> str:  # fmt: skip
    """Write one; returns its SHA-256. The compression is that of the name's ending."""
    files = {
        "bin/mysqld": fake_program(version, options),
        "share/english/errmsg.sys": b"messages",
        "lib/plugin/semisync.so": b"",
        "mysql-test/large.test": b"test",
        **(extra or {}),
    }
    with tarfile.open(path, f"w:{path.suffix.removeprefix('.')}") as archive:  # type: ignore[call-overload]
        for name, content in files.items():
            member = tarfile.TarInfo(top + name)
            member.size = len(content)
            member.mode = 0o755 if name.startswith("bin/") else 0o644
            archive.addfile(member, io.BytesIO(content))
        link = tarfile.TarInfo(f"{top}bin/mysqld-link")
        link.type, link.linkname = tarfile.SYMTYPE, "mysqld"
        archive.addfile(link)
    return sha256(path)


def sha256(path: Path) -> str:
    """The file's SHA-256."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def repacked(tree: Path, path: Path, top: str) -> str:
    """A tree as a vendor's archive with one top folder; returns its SHA-256."""
    with tarfile.open(path, "w:gz", compresslevel=1) as archive:
        archive.add(tree, top)
    return sha256(path)
