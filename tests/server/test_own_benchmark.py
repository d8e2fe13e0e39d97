"""The commands of the guide to a benchmark of one's own, word by word on a real server; Lua scripts, good and bad."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from mydyno.hosts.paths import HostPaths
from mydyno.servers.running.base import LOAD_USER
from mydyno.servers.running.mysqld import MysqldServer
from tests.support.patience import HANG_S
from tests.support.real import ROOT

GUIDE = ROOT / "docs/guides/own-load.md"
CONNECT = "function thread_init() connection = sysbench.sql.driver():connect() end\n"


def dynoload(paths: HostPaths, instance: MysqldServer, words: list[str]) -> subprocess.CompletedProcess[str]:
    options = ["--socket", str(instance.socket), "--user", LOAD_USER]
    return subprocess.run(
        [paths.program("dynoload"), *words, *options], capture_output=True, text=True, timeout=HANG_S, check=False,
        cwd=ROOT, env={**os.environ, "DYNO_PASSWORD": instance.credentials.load},
    )  # fmt: skip


async def test_the_commands_of_the_guide_make_a_benchmark(instance: MysqldServer, real_paths: HostPaths) -> None:
    await instance.start()
    commands = re.findall(r"^\$ dynoload (sql .*docs/examples.*)$", GUIDE.read_text(), re.M)
    assert [command.split()[1] for command in commands] == ["prepare", "run", "run", "cleanup"]
    for command in commands:
        # The load user has rights on one schema, and a test has less time than a reader.
        words = command.replace("--database shop", "--database sbtest").replace("10s", "1s").split()
        done = dynoload(real_paths, instance, words)
        # On a busy host the load may begin operations late, or wait for a CPU; nothing else may be wrong.
        others = [one for one in re.findall(r"^ +INVALID: (.*)$", done.stdout, re.M) if not re.search("late|CPU", one)]
        late = words[1] == "run" and done.returncode == 4 and not others
        assert done.returncode == 0 or late, f"{command}: {done.stdout}{done.stderr}"
        if words[1] == "run":
            for name in ("view", "search", "buy"):
                assert re.search(rf"^ +{name} +\d", done.stdout, re.M), done.stdout


@pytest.mark.parametrize(
    ("event", "code", "message"),
    [
        ("function event() connection:query('DO 1') end", 0, ""),
        ("function event( end", 2, "mine.lua:2:"),
        # The engine's own tests are debug builds. What Rust raises in Lua is another matter in the released build.
        ("function event()\n  while true do end\nend", 1, "mine.lua:3: the script has computed for 0.3 s"),
        ("function event()\n  sysbench.rand.uniform({})\nend", 1, "mine.lua:3: bad argument #1 to"),
        ("dofile('/no.lua')", 2, "mine.lua:2: '/no.lua' cannot be read"),
    ],
    ids=["good", "syntax error", "endless loop", "wrong argument", "file that is not there"],
)
async def test_a_script_runs_or_ends_with_its_line(
    instance: MysqldServer, real_paths: HostPaths, tmp_path: Path, event: str, code: int, message: str
) -> None:
    await instance.start()
    script = tmp_path / "mine.lua"
    script.write_text(CONNECT + event)
    # A bad script ends the load itself; a host that is busy may need long until it does.
    duration = "60s" if code else "500ms"
    words = ["script", str(script), "--database", "sbtest", "--duration", duration, "--script-time-limit", "300ms"]
    done = dynoload(real_paths, instance, words)
    assert done.returncode == code, done.stdout + done.stderr
    assert message in done.stderr
