"""memcached's protocol: `memcached = "caching"`, or { policy, memory, threads, r_batch_size, w_batch_size, crash }.

On a server with the InnoDB memcached plugin (mysql-5.6) the policy sets where commands go: innodb_only (the table),
cache_only (memory) or caching (both); { get, set, delete } sets it for each command. On the server `memcached` there is
no policy. The plugin reads its policy once, at its start, from the first row of innodb_memcache.cache_policies;
`caching` fills its cache by sets only. `flush_all`, which would truncate the table, is disabled. Before the load of
every run, two keys prove the policy:

| | innodb_only | caching | cache_only |
|---|---|---|---|
| a set appears in the table | yes | yes | no |
| get finds a row that SQL inserted | yes | yes | no |
| after an UPDATE by SQL, get returns | the new value | the old value | the old value |
| delete removes the row | yes | yes | no |

What does not fit into `memory` (64 MB by default) is evicted; with cache_only no table has it. A load level with more
than 1 % of misses is invalid, unless validity.not_found allows them. `network`, `tls` and `compression` are refused, on
the server `memcached` every other treatment.

`crash = true` sets 200 keys, sends kill -9 after the last reply, starts the server again, and counts what is lost:
nothing with `innodb_only` or `caching`, innodb_flush_log_at_trx_commit = 1 and w_batch_size = 1; all keys with
`cache_only` and memcached.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import Field, TypeAdapter

from mydyno.errors import ServerError
from mydyno.hosts.network.ports import free_port
from mydyno.model.definition.experiment import Frozen, ServerSpec
from mydyno.model.definition.quantities import format_bytes, parse_bytes
from mydyno.model.stored.records import Evidence, StepRecord
from mydyno.servers.catalogue import has_sql, known_servers
from mydyno.servers.memcached import (
    COMMANDS,
    SPARE_CONNECTIONS,
    MemcachedClient,
    MemcachedOptions,
    configuring_sql,
    plugin_variables,
)
from mydyno.servers.running.base import ClientPath, RunningServer
from mydyno.servers.running.private import as_private
from mydyno.servers.sql import Control
from mydyno.store.samples import Sample
from mydyno.treatments.base import Treatment

PolicyName = Literal["innodb_only", "cache_only", "caching"]
DEFAULT_POLICY = "innodb_only"
"""The one that MySQL ships."""
SET_KEY, ROW_KEY = "mydyno-proof-set", "mydyno-proof-row"
BY_PROTOCOL, BY_SQL = "by-protocol", "by-sql"
SELECT = "SELECT v FROM sbtest.kv WHERE k = %s"
SETS = 200
DEATH_S = 30.0
VALUE = b"acknowledged"
SLACK = 0.05
OF_OTHERS = 5_000
"""Pages that InnoDB reads within a step for other purposes than the load (statistics, purge, mydyno itself)."""
REPORTED_GROWTH_BYTES = 100_000
TABLE = ("innodb_only", "caching")


class PoliciesSetting(Frozen):
    """{ get = "caching", set = "innodb_only", delete = "innodb_only" }."""

    get: PolicyName = "innodb_only"
    set: PolicyName = "innodb_only"
    delete: PolicyName = "innodb_only"


class MemcachedSetting(Frozen):
    """{ policy = "caching", memory = "64M", threads = 4, r_batch_size = 1, w_batch_size = 1, crash = true }."""

    policy: PolicyName | PoliciesSetting | None = Field(None, description="of the plugin; memcached itself has none")
    memory: str = Field("64M", pattern=r"^\d+[MG]$", description="of the cache (-m); memcached's default is 64M")
    threads: int = Field(4, ge=1, le=64, description="worker threads (-t)")
    r_batch_size: int = Field(1, ge=1, le=1 << 30, description="gets after which the plugin ends its transaction")
    w_batch_size: int = Field(1, ge=1, le=1 << 20, description="sets after which the plugin commits")
    crash: bool = Field(False, description="end each run by kill -9 and count the lost acknowledged sets")


SETTING: TypeAdapter[Any] = TypeAdapter(PolicyName | MemcachedSetting)


class MemcachedTreatment(Treatment):
    """One arm's memcached."""

    name = "memcached"

    def __init__(self, value: str | dict[str, Any]) -> None:
        self.setting = MemcachedSetting.model_validate({"policy": value} if isinstance(value, str) else value)

    @property
    def policies(self) -> dict[str, str]:
        """Command → policy, of the plugin."""
        policy = self.setting.policy or DEFAULT_POLICY
        if isinstance(policy, str):
            return dict.fromkeys(COMMANDS, policy)
        return {command: str(getattr(policy, command)) for command in COMMANDS}

    @property
    def server_memory_bytes(self) -> int:
        """The cache."""
        return parse_bytes(self.setting.memory)

    @property
    def is_proved_for_one_instance_only(self) -> bool:
        """Its hits and sets are counted for the whole step."""
        return True

    def obstacle(self, server: ServerSpec) -> str | None:
        """The plugin of an external server is not configured."""
        if server.dsn is not None:
            return "an external server (dsn) is never configured; use server.name or server.basedir"
        return None

    def server_obstacle(self, server: ServerSpec) -> str | None:
        """The arm's server must have the plugin, or be memcached; only the plugin has a policy."""
        entry = known_servers().get(server.name or "")
        if entry is not None and not entry.traits.memcached:
            return f'{server.name} has no memcached; use server = "mysql-5.6" or server = "memcached"'
        if not has_sql(server) and self.setting.policy is not None:
            return "the server memcached has no policy: it has no table; remove policy"
        return None

    async def apply(self, instance: RunningServer) -> None:
        """Options into my.cnf or onto the command line, the policy into the start; the load goes to that port."""
        connections = max(1024, int(instance.settings.base.get("max_connections", 0)) + SPARE_CONNECTIONS)
        port, memory_bytes = free_port(instance.listen), parse_bytes(self.setting.memory)
        options = MemcachedOptions(port, memory_bytes, self.setting.threads, connections, instance.listen)
        instance.settings.memcached = options
        if not instance.has_sql:
            return
        instance.settings.client_path = ClientPath(options.listen, options.port, options.listen)
        setting = self.setting
        instance.settings.variables.update(plugin_variables(options, setting.r_batch_size, setting.w_batch_size))
        instance.settings.init_sql += configuring_sql(self.policies)

    async def evidence(self, instance: RunningServer) -> Evidence:
        """Who listens with how much memory, by stats; and of the plugin what its policy does, by SQL and protocol."""
        try:
            holds, text, facts = await self._proof(instance)
        except ServerError as error:
            holds, text, facts = False, error.message, {}
        return Evidence(treatment=self.name, holds=holds, text=text, facts=facts, instance=instance.number)

    async def _proof(self, instance: RunningServer) -> tuple[bool, str, dict[str, Any]]:
        options = instance.settings.memcached
        assert options is not None
        async with MemcachedClient(options.listen, options.port) as client:
            reported = await client.stats()
            facts: dict[str, Any] = {
                name: reported.get(name) for name in ("pid", "version", "limit_maxbytes", "threads")
            }
            wrong = [
                f"{name} is {reported.get(name)}, wanted {wanted}"
                for name, wanted in (
                    ("pid", instance.pid), ("limit_maxbytes", options.memory_bytes), ("threads", options.threads),
                )
                if reported.get(name) != str(wanted)
            ]  # fmt: skip
            where = f"{format_bytes(options.memory_bytes)} and {options.threads} threads by stats"
            if not instance.has_sql:
                return not wrong, "; ".join(wrong) or f"memcached has {where}", facts
            async with instance.control() as control:
                for name in ("r_batch_size", "w_batch_size"):
                    actual = await control.scalar(f"SELECT @@daemon_memcached_{name}")
                    facts[name] = int(actual)
                    if int(actual) != getattr(self.setting, name):
                        wrong.append(f"{name} is {actual}, wanted {getattr(self.setting, name)}")
                observation = await observed(client, control)
        facts["policies"], facts["seen"] = self.policies, observation.__dict__
        if observation != expected(self.policies):
            wrong.append(f"this is not the behaviour of the policy: {behaviour(observation)}")
        return not wrong, "; ".join(wrong) or f"{behaviour(observation)}; {where}", facts

    def load_evidence(self, step: StepRecord, samples: Sequence[Sample]) -> Evidence:
        """Where the step's hits came from, and how the server's memory grew, by the server's own counters."""
        return sources_of_hits(self.name, self.policies if self.setting.policy else None, step, samples)

    async def end_evidence(self, instance: RunningServer) -> Evidence | None:
        """What is lost after kill -9, if the experiment sets `crash`."""
        return await crash(self.name, instance) if self.setting.crash else None


@dataclass(frozen=True)
class ObservedBehaviour:
    """The behaviour of a policy of the InnoDB memcached plugin, observed by SQL and by the protocol.

    Two keys outside the load's key space are set, read, changed and deleted; no row of them remains in the table. With
    w_batch_size > 1 a set is not committed at once, so SQL reads uncommitted rows here, and its UPDATE waits for the
    plugin's commit (innodb_api_bk_commit_interval, 5 s).
    """

    set_is_in_table: bool
    """A key set by the protocol is a row for SQL."""
    row_is_found: bool
    """A row inserted by SQL is found by get."""
    get_after_update: str | None
    """What get returns for the key set by the protocol after SQL changed its row; None: nothing."""
    row_is_deleted: bool
    """The protocol's delete of the row inserted by SQL removed it from the table."""


def expected(policies: Mapping[str, str]) -> ObservedBehaviour:
    """What these policies must do (`caching` reads the cache first, fills it by sets alone, and never refreshes it)."""
    table = ("innodb_only", "caching")
    cache = ("cache_only", "caching")
    set_in_table, set_in_cache = policies["set"] in table, policies["set"] in cache
    if policies["get"] in cache and set_in_cache:
        after_update: str | None = BY_PROTOCOL
    else:
        after_update = BY_SQL if policies["get"] in table and set_in_table else None
    return ObservedBehaviour(set_in_table, policies["get"] in table, after_update, policies["delete"] in table)


async def observed(client: MemcachedClient, control: Control) -> ObservedBehaviour:
    """Execute the operations and restore the table. Raises ServerError."""
    await control.rows("SET SESSION TRANSACTION ISOLATION LEVEL READ UNCOMMITTED")
    await client.set(SET_KEY, BY_PROTOCOL.encode())
    set_is_in_table = await control.scalar(SELECT, SET_KEY) is not None
    await control.rows("INSERT INTO sbtest.kv VALUES (%s, %s, 0, 0, 0)", ROW_KEY, BY_SQL)
    row = await client.get(ROW_KEY)
    await control.rows("UPDATE sbtest.kv SET v = %s WHERE k = %s", BY_SQL, SET_KEY)
    after = await client.get(SET_KEY)
    await client.delete(ROW_KEY)
    deleted = await control.scalar(SELECT, ROW_KEY) is None
    await client.delete(SET_KEY)
    await control.rows("DELETE FROM sbtest.kv WHERE k IN (%s, %s)", SET_KEY, ROW_KEY)
    return ObservedBehaviour(set_is_in_table, row is not None, None if after is None else after.value.decode(), deleted)


def behaviour(observation: ObservedBehaviour) -> str:
    """The sentence for the report."""
    appears = "appears" if observation.set_is_in_table else "does not appear"
    found = "finds" if observation.row_is_found else "does not find"
    after = {BY_SQL: "the new value", BY_PROTOCOL: "the old value, from the cache", None: "nothing"}
    returned = after.get(observation.get_after_update, str(observation.get_after_update))
    deletes = "removes" if observation.row_is_deleted else "does not remove"
    return (
        f"a set {appears} in the table, get {found} a row inserted by SQL, "
        f"after an UPDATE by SQL get returns {returned}, delete {deletes} the row"
    )


async def crash(treatment: str, instance: RunningServer) -> Evidence:
    """What a crash costs: sets that were acknowledged, then kill -9 at once, a new start, and a count of what is left.

    It ends the run, after its last step and its last sample. kill -9 takes the process, not the kernel: what InnoDB has
    written but not synced (innodb_flush_log_at_trx_commit = 2) survives it, and would not survive a power failure.
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


def sources_of_hits(
    treatment: str, policies: Mapping[str, str] | None, step: StepRecord, samples: Sequence[Sample]
) -> Evidence:
    """Where a step's hits and sets went, and what memory the server took meanwhile; it does not hold if gets or sets
    went to the wrong place for the policy. `policies` is None for a memcached without a table.

    memcached's own get_hits does not distinguish the sources: the plugin counts a hit in the table like one in the
    cache. Nor does Innodb_rows_read, which does not include the plugin's gets (5.6.14, tested).
    Innodb_buffer_pool_read_requests does: a get from the table reads a page on each level of the index, a get from the
    cache reads none. Sets of the table count as Innodb_rows_inserted and Innodb_rows_updated. Counters are of the whole
    step, warm-up included; the memory's growth is of the measured window's samples.
    """
    counted = step.server_counters
    gets, hits = counted.get("memcached_cmd_get", 0.0), counted.get("memcached_get_hits", 0.0)
    facts: dict[str, Any] = {
        "step": step.id,
        **{name: counted[name] for name in sorted(counted) if name.startswith(("memcached_", "Innodb_"))},
        **step.driver.key_values,
    }
    found = [] if not gets else [f"{hits:,.0f} of {gets:,.0f} gets found their key ({hits / gets:.1%})"]
    holds = True
    sets = counted.get("memcached_cmd_set", 0.0)
    if policies is not None and "Innodb_buffer_pool_read_requests" in counted:
        pages = counted["Innodb_buffer_pool_read_requests"]
        rows = counted.get("Innodb_rows_inserted", 0.0) + counted.get("Innodb_rows_updated", 0.0)
        if sets:
            found.append(f"{rows / sets:.1%} of {sets:,.0f} sets went to the table")
        elif hits:
            found.append(f"{pages / hits:.2f} pages of InnoDB were requested per hit")
        holds = _gets_allowed(policies, pages, hits, sets) and _sets_allowed(policies["set"], rows, sets)
    evicted = counted.get("memcached_evictions", 0.0)
    found += [f"{evicted:,.0f} items were evicted"] if evicted else []
    growth = growth_bytes(step, samples)
    if growth is not None:
        facts["server_rss_growth_bytes"] = growth
        found += [f"resident memory grew by {growth / 1e6:.1f} MB"] if growth > REPORTED_GROWTH_BYTES else []
        in_window = step.driver.key_values.get("cmd_get", 0.0)
        if in_window:
            facts["server_rss_growth_bytes_per_million_gets"] = round(growth / in_window * 1e6)
    return Evidence(treatment=treatment, holds=holds, text=f"{step.id}: {'; '.join(found) or 'no gets'}", facts=facts)


def _gets_allowed(policies: Mapping[str, str], pages: float, hits: float, sets: float) -> bool:
    """innodb_only reads at least one page per hit; without any policy on the table none is read."""
    if policies["get"] == "innodb_only":
        return pages >= hits * (1 - SLACK) - OF_OTHERS
    if policies["get"] == "cache_only" and policies["set"] == "cache_only":
        return pages <= (hits + sets) * SLACK + OF_OTHERS
    return True


def _sets_allowed(policy: str, rows: float, sets: float) -> bool:
    """As many rows written as sets, or none."""
    if policy in TABLE:
        return rows >= sets * (1 - SLACK) - OF_OTHERS
    return rows <= sets * SLACK + OF_OTHERS


def growth_bytes(step: StepRecord, samples: Sequence[Sample]) -> float | None:
    """Resident memory of the server at the window's last sample less that at its first; None without two samples."""
    begin_ns = step.started_unix_ns + step.warmup_s * 1e9
    end_ns = begin_ns + (step.measure_s + 0.5) * 1e9
    inside = sorted(
        (sample.unix_ns, sample.value)
        for sample in samples
        if sample.metric == "server_rss_bytes" and begin_ns < sample.unix_ns <= end_ns
    )
    return inside[-1][1] - inside[0][1] if len(inside) > 1 else None
