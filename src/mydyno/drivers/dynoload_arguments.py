"""dynoload's arguments: where the server is, which data it has, which load runs; one class per kind of data."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from pathlib import Path

from mydyno.drivers.base import SCHEMA
from mydyno.files.private import write_private
from mydyno.model.definition.experiment import DataSpec, Scalar, Step
from mydyno.servers.sql import Address

RATIOS = {"kv_set": "0:100", "kv_get": "100:0", "kv_mixed": "90:10"}
"""Gets to sets of each workload but those of YCSB."""
YCSB = "kv_ycsb_"
"""Before the letter of one of YCSB's workloads."""
STORING = ("--connections=32", "--counters=1", "--quiet")
"""Arguments for the store before a run: InnoDB commits in groups only where many wait (measured: 8 connections are 5
times slower than 32)."""

OUT_OF_MEMORY = 0x82
"""memcached refuses a set now and then where its memory is short and its evicting thread late (the binary protocol's
status; the text protocol says "SERVER_ERROR out of memory storing object"). An error that `[validity]` bounds."""


def kv_problems(step: Step) -> list[str]:
    """A workload named after its operations must run them."""
    if step.workload.startswith(YCSB):
        own = [name for name in ("ratio", "key_choice") if name in step.options]
        problems = [f"options.{name}: {step.workload} has YCSB's own" for name in own]
        if step.workload == "kv_ycsb_d" and "hit_ratio" in step.options:
            problems.append(
                "options.hit_ratio: not allowed in kv_ycsb_d: its sets store the keys that misses are taken from"
            )
        if problems:
            return problems
    if step.workload in RATIOS and step.workload != "kv_mixed" and "ratio" in step.options:
        return [f"options.ratio: {step.workload} runs {RATIOS[step.workload]}; only kv_mixed has a ratio"]
    others = ("overwrite", "execute_number")
    return [f"options.{name}: is memaslap's or memslap's" for name in others if name in step.options]


OPTIONS_OF_LOAD = frozenset(("db_ps_mode", "mysql_ignore_errors", "rand_seed", "rand_type", "rate", "threads"))
"""Options of a step with a script that are dynoload's; all others are the script's."""
SEARCH_ARGUMENTS = ("--rate=1", "--arrivals=poisson")
"""Arguments in a capacity search, where each slice has a rate of its own. Poisson arrivals queue as those of many users
do; evenly spaced ones would show a higher capacity."""
RENAMED_OPTIONS = {"random_ranges": "number-of-ranges", "mysql_ignore_errors": "ignore-errors", "rand_seed": "seed"}


class Arguments(ABC):
    """The arguments for one kind of data."""

    def endpoint(self, address: Address, folder: Path) -> list[str]:
        """Where the server is and as whom to connect; the password goes by a file in `folder`."""
        password_file = folder / "dynoload.password"
        write_private(password_file, address.password)
        tcp = [f"--host={address.host}", f"--port={address.port}"]
        where = [f"--socket={address.socket}"] if address.socket else tcp
        account = [
            f"--user={address.user}",
            f"--password-file={password_file}",
            f"--database={address.database or SCHEMA}",
        ]
        return [*where, *account, *protocol_arguments(address)]

    @abstractmethod
    def data(self, data: DataSpec) -> list[str]:
        """How much data there is, and of which shape."""

    def workload(self, step: Step) -> list[str]:  # noqa: ARG002
        """Which operations the step consists of, beside its options."""
        return []

    def preparation(self, records: Path) -> list[str]:  # noqa: ARG002
        """What `prepare` needs beside; its records go to this file where it writes any."""
        return []

    def is_prepared(self, records: Path, data: DataSpec) -> bool:  # noqa: ARG002
        """Whether the data are complete by the records of a `prepare` that ended with an error."""
        return False


class OltpArguments(Arguments):
    """sysbench's tables."""

    def data(self, data: DataSpec) -> list[str]:
        """Number, size and shape of the tables."""
        return [
            f"--tables={data.tables}",
            f"--table-size={data.rows}",
            f"--auto-inc={option_text(data.auto_inc)}",
            f"--secondary={option_text(data.secondary)}",
            *([] if data.text == "digits" else [f"--row-text={data.text}"]),
        ]

    def workload(self, step: Step) -> list[str]:
        """The workload by its name."""
        return [f"--workload={step.workload}"]


class TpccArguments(Arguments):
    """TPC-C's warehouses."""

    def data(self, data: DataSpec) -> list[str]:
        """Their number."""
        return [f"--warehouses={data.warehouses}"]


class KvArguments(Arguments):
    """Keys and values over memcached's protocol; the same for every server but the port."""

    def endpoint(self, address: Address, folder: Path) -> list[str]:  # noqa: ARG002 - there is no account
        """Host and port."""
        return [f"--host={address.host}", f"--port={address.port}"]

    def data(self, data: DataSpec) -> list[str]:
        """The key space and the values' size."""
        return [f"--keys={data.keys}", f"--key-size={data.key_bytes}", f"--value-size={data.value_bytes}"]

    def workload(self, step: Step) -> list[str]:
        """The share of gets and sets, and which errors are ignored, if the step's options do not set them."""
        if step.workload.startswith(YCSB):
            shares = [f"--ycsb={step.workload.removeprefix(YCSB)}"]
        else:
            shares = [] if "ratio" in step.options else [f"--ratio={RATIOS[step.workload]}"]
        if "hit_ratio" not in step.options:
            shares.append("--hit-ratio=any")  # judged by validity.not_found, which an experiment on evictions may raise
        return [*shares, *([] if "ignore_errors" in step.options else [f"--ignore-errors={OUT_OF_MEMORY}"])]

    def preparation(self, records: Path) -> list[str]:
        """How the keys are stored, with a record of how many were."""
        return [*STORING, f"--json={records}"]

    def is_prepared(self, records: Path, data: DataSpec) -> bool:
        """Whether dynoload's own record says that every key was stored; then it does not matter that it called the time
        that this took invalid (a busy host)."""
        if not records.is_file():
            return False
        final = [json.loads(line) for line in records.read_text().splitlines() if line.startswith('{"record":"final"')]
        if not final or final[-1]["counts"]["errors"]:
            return False
        counts = final[-1]["kv"]["counts"]
        return bool(counts["cmd_set"] >= data.keys and counts["not_stored"] == 0)


class FileArguments(Arguments):
    """Tables that a script or the TOML file beside an SQL file makes."""

    def data(self, data: DataSpec) -> list[str]:
        """The file, and a script's options or the scale."""
        if data.sql is not None:
            return [data.sql, *(f"--{name}={value}" for name, value in data.options.items())]
        return [str(data.script), *(script_option(name, value) for name, value in data.options.items())]


class StepFileArguments(Arguments):
    """A step that is a file of the user's, on any tables."""

    def data(self, data: DataSpec) -> list[str]:
        """A script learns of sysbench's tables if it has options for them, and gets the options that made its own."""
        made = dict(data.options)
        if data.workload == "oltp":
            made = {"tables": data.tables, "table_size": data.rows, "auto_inc": data.auto_inc, **made}
        return [f"--script-option=?{name}={option_text(value)}" for name, value in made.items()]

    def workload(self, step: Step) -> list[str]:
        """The file."""
        return [str(step.file)]

    def step_data(self, data: DataSpec, step: Step) -> list[str]:
        """As data(), for a script alone."""
        return self.data(data) if step.script is not None else []


ARGUMENTS: dict[str, Arguments] = {
    "oltp": OltpArguments(),
    "tpcc": TpccArguments(),
    "kv": KvArguments(),
    "script": FileArguments(),
    "sql": FileArguments(),
}
"""data.workload → its arguments."""
OF_FILE = StepFileArguments()
"""The arguments of a step that is a file, whatever its data."""


def load_of_file(step: Step, data: DataSpec) -> list[str]:
    """The load of a step that is a script, a file of SQL or a capture, without its server."""
    own = {
        name: value for name, value in step.options.items() if step.script is not None and name not in OPTIONS_OF_LOAD
    }
    return [
        *(["script"] if step.script is not None else ["sql", "run"]),
        *OF_FILE.workload(step),
        *load_level(step),
        *OF_FILE.step_data(data, step),
        *(script_option(name, value) for name, value in own.items()),
        *(
            argument
            for name, value in step.options.items()
            if name not in own
            for argument in option_arguments(name, value)
        ),
    ]


def load_level(step: Step) -> list[str]:
    """How much load a step is."""
    return [
        f"--connections={step.connections}",
        *([] if step.rate is None else [f"--rate={step.rate:.10g}"]),
        *(SEARCH_ARGUMENTS if step.search is not None and step.search.of == "rate" else []),
    ]


def script_option(name: str, value: Scalar) -> str:
    """An option of a script."""
    return f"--script-option={name}={option_text(value)}"


def protocol_arguments(address: Address) -> list[str]:
    """TLS and compression, where the address has them."""
    arguments = [] if address.compression == "off" else [f"--compression={address.compression}"]
    tls = address.tls
    if tls is None:
        return arguments
    arguments.append(f"--ssl-mode={tls.mode}")
    if tls.mode in ("disabled", "preferred") and not address.socket:
        # MySQL's caching_sha2_password needs a key before a password goes over an open network.
        arguments.append("--get-server-public-key")
    if tls.mode == "disabled":
        return arguments
    for option, path in (("--ssl-ca", tls.authority), ("--ssl-cert", tls.certificate), ("--ssl-key", tls.key)):
        arguments += [f"{option}={path}"] if path else []
    arguments += [f"--tls-versions={','.join(tls.versions)}"] if tls.versions else []
    arguments += [f"--ssl-ciphers={','.join(tls.ciphers)}"] if tls.ciphers else []
    return [*arguments, f"--tls-resumption={option_text(tls.resumption)}"]


def option_arguments(name: str, value: Scalar) -> list[str]:
    """A workload option by dynoload's name; sysbench's options of the connection become dynoload's."""
    if name == "mysql_ssl":
        return ["--ssl-mode=required" if value else "--ssl-mode=disabled"]
    if name == "mysql_compression":
        return ["--compression=zlib" if value else "--compression=off"]
    if name == "rate" and not value:
        return []
    return [f"--{RENAMED_OPTIONS.get(name, name.replace('_', '-'))}={option_text(value)}"]


def option_text(value: Scalar) -> str:
    """A value as options take it: booleans as on and off."""
    if isinstance(value, bool):
        return "on" if value else "off"
    return str(value)
