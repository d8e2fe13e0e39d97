# mypy: disable-error-code="arg-type"
"""Causes that are planted into one arm: what is changed, under which load, and what a study has to name for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

SCRIPT = Path(__file__).parent / "planted_load.lua"
SWITCH = "default_week_format"
"""A server variable without a meaning for this load: it makes the script of one arm slow, see its beginning."""
SPIN_NS = 40_000
"""CPU time more for each answer of the server."""
QUOTA = 0.15
"""CPUs; far fewer than the load needs also where other programs keep the host busy."""
ARM, CONTROL = "planted", "plain"
BLOCKS = 6
"""Intervals over so many costs are of use from six on."""
BLOCK_S = 22.0
"""Time of a block of two arms besides its cycles: starts of the servers, and slices apart."""
LANES, SLICE_S, WASHOUT_S = 3, 1.0, 0.2


@dataclass(frozen=True)
class Plant:
    """One cause. Texts are TOML of an experiment."""

    what: str
    right: frozenset[str]
    """What may come first: KIND/NAME of a candidate."""
    control: str
    planted: str
    load: str
    profile: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)

    def experiment(self, name: str, time_s: float, seed: int, arms: str = "") -> str:
        """The experiment, which takes about `time_s`; `arms` in place of the plant's."""
        variables = {"innodb_buffer_pool_size": '"128M"', "innodb_flush_method": '"O_DIRECT"', **self.variables}
        arms = arms or f"{CONTROL} = {{ {self.control} }}\n{ARM} = {{ {self.planted} }}\n"
        return EXPERIMENT.format(
            name=name,
            what=self.what,
            variables="".join(f"{key} = {value}\n" for key, value in variables.items()),
            arms=arms,
            control=CONTROL,
            load=self.load,
            profile="".join(f"{kind} = true\n" for kind in self.profile),
            blocks=BLOCKS,
            cycles=max(2, int((time_s / BLOCKS - BLOCK_S) / (LANES * (SLICE_S + WASHOUT_S)))),
            slice=SLICE_S,
            washout=WASHOUT_S,
            seed=seed,
        )


EXPERIMENT = """\
name = "cause-{name}"
question = "What makes the difference: {what}?"
server.name = "mariadb-10.11"
[server.variables]
{variables}
[arms]
control = "{control}"
{arms}
{load}
warmup = "1s"
[design]
kind = "interleaved"
blocks = {blocks}
cycles = {cycles}
slice = "{slice:g}s"
washout = "{washout:g}s"
quiet_wait = "1s"
seed = {seed}
[verdict]
primary = "tps"
margin = "0.1%"
[profile]
{profile}"""


def _oltp(workload: str, connections: int, rows: int, tables: int = 4, options: str = "") -> str:
    """A load on sysbench's tables, whose last section is the step."""
    more = f"options = {{ {options} }}\n" if options else ""
    return (
        f'[data]\nworkload = "oltp"\ntables = {tables}\nrows = {rows}\n'
        f'[[steps]]\nworkload = "{workload}"\nconnections = {connections}\n{more}'
    )


def _script(plant: str, connections: int) -> str:
    return (
        f'[data]\nscript = "{SCRIPT}"\noptions = {{ }}\n'
        f'[[steps]]\nscript = "{SCRIPT}"\noptions = {{ plant = "{plant}" }}\nconnections = {connections}\n'
    )


def _variable(name: str, control: str, planted: str) -> dict[str, str]:
    return {"control": f"variables = {{ {name} = {control} }}", "planted": f"variables = {{ {name} = {planted} }}"}


def plants(library: Path) -> dict[str, Plant]:
    """Every plant by its name. `library`: tests/support/plant.c, compiled."""
    preload = f'LD_PRELOAD = "{library}"'
    return {
        "spin": Plant(
            f"a preloaded send() that spins for {SPIN_NS / 1000:.0f} us",
            frozenset({"function/send"}),
            f"environment = {{ {preload} }}",
            f'environment = {{ {preload}, PLANT_BURN_NS = "{SPIN_NS}" }}',
            _oltp("oltp_read_only", 8, 5000),
            ("cpu",),
        ),
        "flush-log": Plant(
            "innodb_flush_log_at_trx_commit 2 to 1",
            frozenset({"cost/fsyncs"}),
            **_variable("innodb_flush_log_at_trx_commit", "2", "1"),
            load=_oltp("oltp_update_non_index", 4, 5000),
        ),
        "redo-log": Plant(
            "innodb_log_file_size 256M to 4M",
            frozenset({"cost/pages_flushed"}),
            **_variable("innodb_log_file_size", '"256M"', '"4M"'),
            load=_oltp("oltp_update_non_index", 8, 50_000),
            variables={"innodb_flush_log_at_trx_commit": "2"},
        ),
        "buffer-pool": Plant(
            "innodb_buffer_pool_size 128M to 8M",
            frozenset({"cost/buffer_pool_reads"}),
            **_variable("innodb_buffer_pool_size", '"128M"', '"8M"'),
            load=_oltp("oltp_read_only", 8, 50_000),
        ),
        "hot-row": Plant(
            "every transaction updates the same row",
            frozenset({"cost/row_lock_time_us", "wait/row locks"}),
            **_variable(SWITCH, "0", "1"),
            load=_script("hot", 8),
            profile=("waits",),
            variables={"innodb_flush_log_at_trx_commit": "2"},
        ),
        "slow-client": Plant(
            "the client computes in every transaction",
            frozenset({"cost/driver_cpu_us"}),
            **_variable(SWITCH, "0", "1"),
            load=_script("slow", 4),
            variables={"innodb_flush_log_at_trx_commit": "2"},
        ),
        "table-cache": Plant(
            "table_open_cache 400 to 10",
            frozenset({"cost/table_cache_misses", "stage/stage/sql/Opening tables"}),
            **_variable("table_open_cache", "400", "10"),
            load=_oltp("oltp_point_select", 8, 200, tables=32),
        ),
        "disk-tables": Plant(
            "tmp_memory_table_size 16M to 0",
            frozenset({"cost/temporary_disk_tables"}),
            **_variable("tmp_memory_table_size", '"16M"', "0"),
            load=_oltp("oltp_read_only", 4, 5000, options="point_selects = 1, distinct_ranges = 4"),
        ),
        "binary-log": Plant(
            "sync_binlog 0 to 1",
            frozenset({"kernel/file_sync", "wait/file I/O"}),
            **_variable("sync_binlog", "0", "1"),
            load=_oltp("oltp_update_non_index", 4, 5000),
            profile=("kernel",),
            variables={"innodb_flush_log_at_trx_commit": "2", "log_bin": "true", "server_id": "1"},
        ),
        "cpu-quota": Plant(
            f"a control group with {QUOTA:g} CPUs",
            frozenset({"kernel/run_queue"}),
            "cgroup = { cpu_quota = 2 }",
            f"cgroup = {{ cpu_quota = {QUOTA:g} }}",
            _oltp("oltp_read_only", 8, 5000),
            ("kernel",),
        ),
        "bandwidth": Plant(
            "a network of 1 Gbit/s to 50 Mbit/s",
            frozenset({"wait/network", "wait/client and network"}),
            'network = { bandwidth = "1gbit" }',
            'network = { bandwidth = "50mbit" }',
            _oltp("oltp_read_only", 8, 5000),
            ("waits",),
        ),
    }
