"""What a crash costs: sets that were acknowledged, then kill -9 at once, a new start, and a count of what is left.

It ends the run, after its last step and its last sample. kill -9 takes the process, not the kernel: what InnoDB has
written but not synced (innodb_flush_log_at_trx_commit = 2) survives it, and would not survive a power failure.
"""

from __future__ import annotations

import signal
from typing import Any

from mydyno.errors import ServerError
from mydyno.model.stored.records import Evidence
from mydyno.servers.memcached_protocol import MemcachedClient
from mydyno.servers.running.base import RunningServer
from mydyno.servers.running.private import as_private

SETS = 200
DEATH_S = 30.0
VALUE = b"acknowledged"


async def crash(treatment: str, instance: RunningServer) -> Evidence:
    """Kill, start, count.

    The evidence does not hold if the server did not start again, or did not acknowledge the sets.
    """
    try:
        facts = await _killed_and_counted(instance)
    except ServerError as error:
        text = f"after kill -9: {error.message}"
        return Evidence(treatment=treatment, holds=False, text=text, instance=instance.number)
    lost = facts["acknowledged"] - facts["found"]
    text = (
        f"kill -9 lost {lost} of {facts['acknowledged']} acknowledged sets, "
        f"and {facts['keys_before'] - facts['keys_after']:,} of the {facts['keys_before']:,} keys in all"
    )
    holds = facts["acknowledged"] == SETS
    return Evidence(treatment=treatment, holds=holds, text=text, facts=facts, instance=instance.number)


async def _killed_and_counted(instance: RunningServer) -> dict[str, Any]:
    options = instance.settings.memcached
    assert options is not None
    assert instance.process is not None
    async with MemcachedClient(options.listen, options.port) as client:
        cached = int((await client.stats()).get("curr_items", 0))
        keys_before = max(cached, await _rows(instance))
        acknowledged = 0
        for number in range(SETS):
            acknowledged += await client.set(f"mydyno-crash-{number}", VALUE)
        instance.process.send(signal.SIGKILL)  # behind the last reply, with no moment between
    await instance.process.wait(DEATH_S)
    as_private(instance).socket.unlink(missing_ok=True)  # the killed server's: no process listens on it
    instance.settings.init_sql.clear()  # tables, policy and plugin are in the data directory by now
    await instance.start()
    async with MemcachedClient(options.listen, options.port) as client:
        found = 0
        for number in range(SETS):
            value = await client.get(f"mydyno-crash-{number}")
            found += value is not None and value.value == VALUE
        cached = int((await client.stats()).get("curr_items", 0))
    rows = await _rows(instance)
    variables: dict[str, Any] = {}
    if instance.has_sql:
        async with instance.control() as control:
            for name in ("innodb_flush_log_at_trx_commit", "daemon_memcached_w_batch_size"):
                variables[name] = int(await control.scalar(f"SELECT @@{name}"))
    return {
        "acknowledged": acknowledged,
        "found": found,
        "keys_before": keys_before + acknowledged,
        "keys_after": max(cached, rows),
        **variables,
    }


async def _rows(instance: RunningServer) -> int:
    """Rows of the table; none where there is no SQL."""
    if not instance.has_sql:
        return 0
    async with instance.control() as control:
        return int(await control.scalar("SELECT COUNT(*) FROM sbtest.kv"))
