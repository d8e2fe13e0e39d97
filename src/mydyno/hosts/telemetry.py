"""Which metric families dynoprobe could not read: of a stream that has ended, and on this host beforehand."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable

from mydyno.hosts.commands import run_command
from mydyno.hosts.paths import HostPaths

EVERYTHING = "everything"
"""Stands in place of a family where there is no sample at all."""
STATUS = ("mysql_", "innodb_")
"""How names of families begin that are read by SQL: those that fail at first are retried at each sample."""
TIMEOUT_S = 10.0


def unread_families(lines: Iterable[str]) -> dict[str, str]:
    """{family: why it was never read} of the host and the servers, by the stream's header and footer.

    Families that nothing was named for (no server, no SQL) are not among them. Load programs come and go: theirs are
    left out.
    """
    found: dict[str, str] = {}
    sampled = False
    for line in lines:
        sampled = sampled or line.startswith('{"record":"sample"')
        if line.startswith('{"record":"header"'):
            families = json.loads(line)["families"]
            listed = [one for one in families if not one.get("scope", "driver:").startswith("driver:")]
            answered = {one["scope"] for one in listed if one["available"] and one["name"].startswith(STATUS)}
            for one in listed:
                if not one["available"] and (one["scope"] in answered or not one["name"].startswith(STATUS)):
                    found.setdefault(one["name"], one["reason"])
        elif line.startswith('{"record":"footer"'):
            footer = json.loads(line)
            for one in footer["failures"]:
                if one["samples"] >= footer["samples"] and not one["scope"].startswith("driver:"):
                    found.setdefault(one["family"], one["message"])
    return found if sampled else {EVERYTHING: "dynoprobe wrote no samples"}


def unreadable_here(paths: HostPaths) -> dict[str, str]:
    """The same of this host, the data's disk and a process of this user. Raises HostError without the engine."""
    folder = next(folder for folder in (paths.data, *paths.data.parents) if folder.exists())
    program, own = str(paths.program("dynoprobe")), f"--instance=1:{os.getpid()}"
    command = [program, "--once", "--interval-ms=1", "--speed-meter", f"--disk={folder}", own]
    try:
        done = run_command(command, timeout_s=TIMEOUT_S)
    except OSError as error:
        return {EVERYTHING: str(error)}
    if done.returncode:
        return {EVERYTHING: done.stderr.strip()[-300:]}
    found = unread_families(done.stdout.splitlines())
    # The probe's reason is about its own option; here the folder is that of --data.
    option = f"--disk {folder}"
    return {
        family: reason.partition("; name the disk")[0].replace(option, f"--data {folder}")
        for family, reason in found.items()
    }


def words_of(families: dict[str, str]) -> str:
    """ "disk (its file system …); psi (…)"."""
    return "; ".join(f"{family} ({reason})" for family, reason in families.items())
