"""Proof that a process runs one build of the cache: inode, SHA-256 and build id of the file that it executes."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mydyno.servers.compiled.record import BuildRecord, file_identity, sha256_of_running


@dataclass(frozen=True)
class BuildProof:
    """What was read of a process; `reasons` why it is not the build, empty if it is."""

    text: str
    facts: dict[str, Any]
    reasons: list[str] = field(default_factory=list)


def prove_build(pid: int, program: Path, record: BuildRecord) -> BuildProof:
    """Compare the process's file with the build's program and record. Never raises: what cannot be read is a reason."""
    running = Path(f"/proc/{pid}/exe")
    try:
        same_file = file_identity(running) == file_identity(program)
        sha256 = sha256_of_running(running)
    except OSError as error:
        return BuildProof("", {}, [f"the program of process {pid} cannot be read: {error.strerror}"])
    reasons = []
    if not same_file:
        reasons.append(f"the process does not run the file {program}")
    if sha256 != record.sha256:
        reasons.append(f"the process runs a file with SHA-256 {sha256[:16]}…, the build has {record.sha256[:16]}…")
    build_id = f", build id {record.build_id[:12]}…" if record.build_id else ""
    text = (
        f"the process runs {record.words} of {record.name.rpartition('-')[0].rpartition('-')[0]}: "
        f"SHA-256 {sha256[:12]}…{build_id}"
    )
    facts = {"running_sha256": sha256, "running_file_is_the_builds": same_file}
    return BuildProof(text, facts, reasons)
