"""kill -9 of a program that holds a control group with a process inside: `clean` ends the one and removes the other."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mydyno.hosts.cgroups import Cgroups
from mydyno.hosts.undo import stale_journals
from tests.support.patience import wait_until
from tests.support.processes import has_ended

HOLDER = """
import asyncio, sys, time
from pathlib import Path
from mydyno.hosts.cgroups import Cgroups, Limits
from mydyno.hosts.local import LocalHost
from mydyno.hosts.undo import UndoJournal
from mydyno.treatments.cgroup import make_group

folder, name = Path(sys.argv[1]), sys.argv[2]
host = LocalHost(name, None, UndoJournal.begin(folder, name, folder))
group, _ = make_group(Cgroups(), host, name, Limits(cpu_quota=0.5))
async def main():
    # Its own session and no parent-death signal: it survives, as a server might that dropped the signal.
    process = await asyncio.create_subprocess_exec(*group.entering(), "sleep", "300", start_new_session=True)
    while not group.processes():
        await asyncio.sleep(0.02)
    print(group.folders[0], process.pid, flush=True)
    await asyncio.sleep(300)
asyncio.run(main())
"""


def test_a_group_left_by_kill_9_is_removed_by_clean(tmp_path: Path) -> None:
    _, reasons = Cgroups().slots(["cpu"])
    if reasons:
        pytest.skip(f"no control groups on this host: {'; '.join(reasons)}")
    name = f"fault-{os.getpid()}"
    command = [sys.executable, "-c", HOLDER, str(tmp_path), name]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        folder, pid = holder.stdout.readline().split()
        holder.send_signal(signal.SIGKILL)
        holder.wait()
    assert Path(folder).is_dir()
    assert Path(f"/proc/{pid}").exists()
    (journal,) = stale_journals(tmp_path)
    assert journal.undo_all() == []
    assert not Path(folder).exists()
    assert wait_until(lambda: has_ended(int(pid)))
    assert not journal.path.exists()
