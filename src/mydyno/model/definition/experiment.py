"""The experiment: question, server, data, arms, load and design. Frozen; no I/O.

The file form is described in docs/reference/experiment.md, which is generated from this module.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from functools import cached_property
from pathlib import PurePath
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, model_validator

from mydyno.model.definition.problems import NAME_PATTERN
from mydyno.model.definition.quantities import Duration, PositiveDuration
from mydyno.model.definition.source_build import BuildSpec
from mydyno.model.definition.specs import GuardSpec, ProfileSpec, SearchSpec, ValiditySpec, VerdictSpec, as_list
from mydyno.model.frozen_record import Record, is_empty

Name = Annotated[str, Field(pattern=NAME_PATTERN)]


def _plain(text: str) -> str:
    """Option files, command lines and environments cannot hold control characters."""
    if not text.isprintable():
        raise ValueError("a text of one line, without control characters")
    return text


Text = Annotated[str, AfterValidator(_plain)]
DesignKind = Literal["blocks", "interleaved", "switchback"]
Scalar = bool | int | float | Text
FINITE = ConfigDict(allow_inf_nan=False)
"""For types outside models: JSON has no infinity, so a study could not be read back."""
Variables = dict[Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_.-]*$")], Scalar]
MOST_INSTANCES = 64


class Frozen(Record):
    """Base of every type that a file is read into: unknown keys are errors, values do not change."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class HooksSpec(Frozen):
    """Commands that the user of an external server gives to mydyno; each runs before every run."""

    restore: Text | None = Field(
        None, examples=["/usr/local/bin/restore"], description="makes the data what they were; needs --allow-writes"
    )
    restart: Text | None = Field(
        None,
        examples=["systemctl restart mariadb"],
        description="restarts the server, after `restore`; mydyno waits for the server and proves that it is new",
    )
    timeout: PositiveDuration = Field(600.0, description="of each command, and of the server's answer afterwards")


class ServerSpec(Frozen):
    """Which server: exactly one of a catalogue name, a base directory, a build, or an external server's DSN."""

    name: str | None = Field(None, examples=["mariadb-10.11"], description="a name from `mydyno servers`")
    basedir: Text | None = Field(
        None, examples=["/opt/mariadb"], description="a MySQL or MariaDB (>= 5.5): its folder, or the vendor's archive"
    )
    build: BuildSpec | None = Field(
        None,
        exclude_if=is_empty,
        examples=[{"git": "/src/memcached", "command": "./configure --prefix=$PREFIX && make install"}],
        description="a server built from source: see [server.build]",
    )
    dsn: Text | None = Field(
        None, examples=["mysql://bench@db1:3306/shop"], description="an external server: nothing is started"
    )
    card: Name | None = Field(
        None,
        examples=["eth0"],
        description="with dsn: this host's network card on the route to the server; `network` sets its speed "
        "with ethtool",
    )
    ssh: Text | None = Field(
        None,
        examples=["bench@db1"],
        description="with dsn: the server's host as user@host, whose CPUs and server process are sampled, and where "
        "the hooks run",
    )
    hooks: HooksSpec | None = Field(
        None,
        examples=[{"restart": "systemctl restart mariadb"}],
        description="with dsn: commands before each run, here or (with ssh) on the server's host",
    )
    variables: Variables = Field(
        default_factory=dict, examples=[{"innodb_io_capacity": 2000}], description="server variables of every arm"
    )
    option_file: Text | None = Field(
        None,
        exclude_if=is_empty,
        examples=["my.cnf"],
        description="an option file (my.cnf), relative to the experiment's file, whose options are variables of every "
        "arm; what `variables` sets comes before it",
    )

    @property
    def title(self) -> str:
        """Where the server comes from, for plan and progress."""
        build = None if self.build is None else f"a build of {self.build.words}"
        return self.name or self.basedir or build or f"external, {self.dsn}"


class DataSpec(Frozen):
    """The data that every run starts from; prepared once and copied for each run."""

    workload: str = Field(
        "oltp",
        description="kind of data: oltp (sysbench's tables), tpcc, kv (keys and values); script or sql if the key of "
        "that name is set; existing, with server.dsn: the tables of its schema, the default where every load is a file",
    )
    script: Text | None = Field(
        None, examples=["shop.lua"], description="a Lua script of sysbench whose prepare makes the data; sets workload"
    )
    sql: Text | None = Field(
        None,
        examples=["shop.toml"],
        description="the TOML file beside an SQL file, with tables and rules for their rows; or NAME.sql, a dump; sets "
        "workload",
    )
    options: dict[str, Scalar] = Field(
        default_factory=dict,
        examples=[{"tables": 8}],
        description="with script: its options; with sql: scale, where the file has one",
    )
    tables: int = Field(8, ge=1, le=10_000, description="number of tables")
    rows: int = Field(100_000, ge=1, le=10_000_000_000, description="rows in each table")
    text: Literal["digits", "words", "random"] = Field(
        "digits",
        description="text of oltp's rows: sysbench's digits, words (compress like prose), random letters (hardly "
        "compress); all but digits need dynoload",
    )
    secondary: bool = Field(False, description="a secondary index in place of the primary key (sysbench --secondary)")
    warehouses: int = Field(1, ge=1, le=32_767, description="warehouses of tpcc, about 100 MB each")
    keys: int = Field(100_000, ge=1, le=1_000_000_000, description="keys of kv; each is stored before any load")
    key_bytes: int = Field(64, ge=16, le=250, description="length of a key of kv")
    value_bytes: int = Field(1024, ge=1, le=60_000, description="length of a value of kv")
    statistics: Text | None = Field(
        None,
        exclude_if=is_empty,
        examples=["shop.statistics"],
        description="a file of `mydyno servers statistics`: the optimizer's statistics that the tables get",
    )
    auto_inc: bool = Field(True, description="ids by AUTO_INCREMENT (sysbench --auto_inc)")
    prewarm: bool = Field(True, description="read every table and index once after each start, before any load")

    @model_validator(mode="before")
    @classmethod
    def _named_by_its_file(cls, data: Any) -> Any:
        return _with_kind_of_file(data)


EXISTING = "existing"
"""Data that are in an external server's schema: mydyno loads none."""
FILE_KINDS = ("script", "sql", "replay")
"""Workloads that are a file of the user's, and the keys that name it; data have the first two."""


def _with_kind_of_file(table: Any) -> Any:
    """The table with `workload` set where a file says what it is."""
    if not isinstance(table, dict):
        return table
    kinds = [kind for kind in FILE_KINDS if table.get(kind) is not None]
    if len(kinds) > 1:
        raise ValueError(f"has {' and '.join(kinds)}; use one of them")
    if kinds and table.get("workload", kinds[0]) != kinds[0]:
        raise ValueError(f"has {kinds[0]} and workload; use one of the two")
    return {**table, "workload": kinds[0]} if kinds else table


class StepSpec(Frozen):
    """One workload at one or several load levels, which every run has."""

    workload: str = Field(
        examples=["oltp_read_only"], description="what is executed, unless script, sql or replay is set"
    )
    script: Text | None = Field(
        None,
        examples=["oltp_read_write"],
        description="in place of workload: a Lua script of sysbench, relative to the experiment's file, or the name of "
        "one in sysbench's package",
    )
    sql: Text | None = Field(
        None,
        examples=["shop.sql"],
        description="in place of workload: a file of SQL transactions, relative to the experiment's file",
    )
    replay: Text | None = Field(
        None,
        exclude_if=is_empty,
        examples=["monday.capture"],
        description="in place of workload: a file of `dynoload capture`; its transactions in order, or at their times",
    )
    statements: bool = Field(
        False,
        exclude_if=is_empty,
        description="with replay: each statement of the capture is compared by itself, on all servers within "
        "milliseconds, again and again; what writes is rolled back",
    )
    connections: Annotated[tuple[Annotated[int, Field(ge=1, le=100_000)], ...], BeforeValidator(as_list)] = Field(
        (16,), min_length=1, description="number of client connections; a list is a sweep"
    )
    rate: Annotated[tuple[Annotated[float, Field(gt=0, le=10_000_000)], ...], BeforeValidator(as_list)] = Field(
        (),
        examples=[[500, 1000]],
        description="open loop: transactions per second, independent of the server; latency counts from when each "
        "was due. A list is a sweep. Without it a closed loop: each connection sends its next transaction when the "
        "previous one has ended",
    )
    search: SearchSpec | None = Field(
        None,
        exclude_if=is_empty,
        examples=[{"metric": "latency_p99_us", "limit": "20ms"}],
        description="open loop: find the highest rate at which a latency stays within a limit: see [steps.search]",
    )
    warmup: Duration = Field(10.0, ge=0, description="load that does not count")
    measure: PositiveDuration = Field(30.0, description="measured window")
    driver: str = Field("dynoload", description="the load program")
    options: dict[str, Scalar] = Field(
        default_factory=dict, examples=[{"range_size": 1000}], description="the workload's own options"
    )

    @model_validator(mode="before")
    @classmethod
    def _named_by_its_file(cls, step: Any) -> Any:
        return _with_kind_of_file(step)

    @property
    def label(self) -> str:
        """The workload's name, or that of its file."""
        file = self.script or self.sql or self.replay
        return self.workload if file is None else _name_of(file)

    def levels(self) -> tuple[Self, ...]:
        """The same for each load level alone, in the order of a run."""
        return tuple(
            self.model_copy(update={"connections": (connections,), "rate": () if rate is None else (rate,)})
            for connections, rate in itertools.product(self.connections, self.rate or (None,))
        )


def _name_of(file: str) -> str:
    """A file's name without its ending, as far as a name may contain it."""
    return re.sub(r"[^A-Za-z0-9._-]", "_", PurePath(file).stem) or "file"


def _none_by_word(value: object) -> object:
    return None if value == "none" else value


class DesignSpec(Frozen):
    """Number and order of the runs: random complete blocks, each with a second copy of the control.

    In the design "blocks" they follow one another, in "interleaved" all servers of a block are loaded in turn, a slice
    each, and in "switchback" it has one server, set anew before each slice (docs/concepts/how-it-works.md).
    """

    kind: Literal["auto", DesignKind] = Field(
        "auto",
        description="auto: the first of switchback, interleaved and blocks that all arms allow",
    )
    blocks: int = Field(
        8, ge=1, le=1000, description="number of blocks; each contains every arm once and the control twice"
    )
    time: Annotated[PositiveDuration | None, BeforeValidator(_none_by_word)] = Field(
        None, examples=["10m"], description='interleaved: time for the study, or "none"; blocks and cycles fit into it'
    )
    slice: PositiveDuration = Field(
        0.5,
        ge=0.2,
        le=600,
        description="interleaved: measured part of a slice; switchback: 1s; with a search 5s, or 50 times its limit",
    )
    washout: Duration = Field(0.15, ge=0, le=600, description="load before a slice, not counted; switchback: 0.3s")
    cycles: int | None = Field(
        None,
        ge=1,
        le=100_000,
        examples=[20],
        description="interleaved, without a time: slices of each arm per block and load level; "
        "default: measure / slice",
    )
    copies: int | None = Field(
        None,
        ge=1,
        le=2,
        exclude_if=is_empty,
        examples=[2],
        description="interleaved, switchback: how often each block has a treated arm (the control: twice); default: 2 "
        "in a study with a time and a single treated arm, where the host has room, else 1",
    )
    quiet_wait: Duration = Field(
        5.0, le=3600, description="interleaved: longest wait for a quieter host before each cycle"
    )
    seed: int = Field(1, ge=0, description="seed of all orders; run draws and stores one where the file has none")


class ThresholdSpec(Frozen):
    """How much worse one metric may be: see experiment_file/thresholds.py for the form in a file."""

    metric: str
    limit: float
    """The largest change for the worse, with its sign: -0.02 is −2 %, of a metric of which more is better."""
    arms: tuple[str, ...] = ()
    """The arms it holds for; empty: every arm that is compared."""
    steps: tuple[str, ...] = ()
    """Ids of steps, or workloads; empty: every step."""

    @property
    def ratio(self) -> float:
        """The limit as arm divided by control: 0.98 for −2 %."""
        return 1.0 + self.limit

    def holds_at(self, step: Step) -> bool:
        """Whether it holds for a step."""
        return not self.steps or step.id in self.steps or step.workload in self.steps


class ScreenSpec(Frozen):
    """The variables of a screening study with their values, and the design that they are combined by.

    Interactions of two variables in a main effect: with plackett-burman of 4, 8, 16 or 32 runs (8 for 7 variables) some
    wholly (aliased), with another number of runs (12 for 8 to 11 variables) a part of each, a third with 12 runs; none
    with foldover (16 runs for 7 variables) and definitive (17, and the control).
    """

    design: Literal["plackett-burman", "definitive"] = Field(
        "plackett-burman", description="plackett-burman: two values of each variable; definitive: three, in order"
    )
    foldover: bool = Field(
        False, description="every run again with all values exchanged: main effects without interactions of two"
    )
    variables: dict[Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_.-]*$")], tuple[Scalar, ...]] = Field(
        examples=[{"innodb_io_capacity": [200, 2000]}],
        description="server variables, each with its present value first and another one",
    )


class ArmSpec(Frozen):
    """One arm: what it changes, by treatment name."""

    name: Name
    treatments: dict[str, Any] = Field(default_factory=dict)
    instances: Annotated[int, Field(ge=1, le=MOST_INSTANCES)] | None = None
    """Servers of each of its runs; None: the experiment's number."""
    control: str | None = None
    """The arm that it is compared with; None: the experiment's control."""
    option_file: str | None = Field(None, exclude_if=is_empty)
    """The option file that variables of it come from."""


class Experiment(Frozen):
    """An experiment as resolved: scale and --set applied, arms and factors multiplied out."""

    name: Name
    question: str = Field(min_length=3)
    description: str = ""
    published: tuple[str, ...] = ()
    server: ServerSpec
    data: DataSpec = DataSpec()
    instances: int = Field(1, ge=1, le=MOST_INSTANCES)
    """Servers of a run, each with its own copy of the data and its own driver."""
    control: str
    arms: tuple[ArmSpec, ...]
    steps: tuple[StepSpec, ...] = Field(min_length=1)
    design: DesignSpec = DesignSpec()
    verdict: VerdictSpec = VerdictSpec()
    validity: ValiditySpec = ValiditySpec()
    guard: GuardSpec | None = Field(None, exclude_if=is_empty)
    profile: ProfileSpec = Field(ProfileSpec(), exclude_if=lambda value: value == ProfileSpec())
    thresholds: tuple[ThresholdSpec, ...] = Field((), exclude_if=is_empty)
    """The thresholds of `mydyno gate`."""
    screen: ScreenSpec | None = Field(None, exclude_if=is_empty)
    """The screening design whose runs the arms are."""
    scale: str = "quick"

    def arm(self, name: str) -> ArmSpec:
        """The arm of that name. Raises KeyError."""
        return {arm.name: arm for arm in self.arms}[name]

    def instances_of(self, arm: ArmSpec) -> int:
        """How many servers each run of the arm has."""
        return self.instances if arm.instances is None else arm.instances

    @cached_property
    def resolved_steps(self) -> tuple[Step, ...]:
        """Every step of a run in the order of the file, one for each load level.

        Ids are workload-connections, with the rate of an open loop, and numbered where that repeats.
        """
        return _resolve(self.steps)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy whose steps are resolved anew: the update may have replaced them."""
        copied = super().model_copy(update=update, deep=deep)
        copied.__dict__.pop("resolved_steps", None)
        return copied

    @property
    def is_search(self) -> bool:
        """Whether its steps search for the arms' capacity; steps with and without a search are not mixed."""
        return any(spec.search is not None for spec in self.steps)

    @property
    def compares_statements(self) -> bool:
        """Whether the statements of a capture are compared one by one."""
        return any(spec.statements for spec in self.steps)

    def copies_of(self, arm: ArmSpec) -> int:
        """How often a block of lanes has it."""
        return 2 if arm.name == self.control else self.design.copies or 1

    @property
    def most_instances(self) -> int:
        """The servers of the arm that has most."""
        return max(self.instances_of(arm) for arm in self.arms)

    def contrasts(self) -> dict[str, tuple[str, ...]]:
        """{control: the arms compared with it}, the experiment's own control first.

        An arm that others are compared with is a control itself: it is compared with another only if it names one.
        """
        controls = {arm.control for arm in self.arms if arm.control is not None}
        found: dict[str, list[str]] = {self.control: []}
        for arm in self.arms:
            if arm.control is not None:
                found.setdefault(arm.control, []).append(arm.name)
            elif arm.name != self.control and arm.name not in controls:
                found[self.control].append(arm.name)
        return {control: tuple(arms) for control, arms in found.items()}


class Step(Frozen):
    """One load level inside a run."""

    id: str
    workload: str
    connections: int
    rate: float | None = None
    """Transactions a second of an open loop; None: a closed loop."""
    search: SearchSpec | None = Field(None, exclude_if=is_empty)
    """Open loop whose rate is searched for."""
    warmup_s: float
    measure_s: float
    driver: str
    options: dict[str, Scalar] = Field(default_factory=dict)
    script: str | None = Field(None, exclude_if=is_empty)
    """The Lua script that is the workload."""
    sql: str | None = Field(None, exclude_if=is_empty)
    """The file of SQL transactions that is the workload."""
    replay: str | None = Field(None, exclude_if=is_empty)
    """The capture whose transactions are the workload."""
    statements: bool = Field(False, exclude_if=is_empty)
    """Whether each statement of the capture is compared by itself."""

    @property
    def file(self) -> str | None:
        """The user's file that is the workload; None for a workload of mydyno's."""
        return self.script or self.sql or self.replay


def _resolve(specs: tuple[StepSpec, ...]) -> tuple[Step, ...]:
    steps: list[Step] = []
    seen: dict[str, int] = {}
    for spec in specs:
        for level in spec.levels():
            (connections,), rate = level.connections, level.rate[0] if level.rate else None
            step_id = f"{spec.label}-{connections}" + ("" if rate is None else f"-at-{rate:.10g}")
            step_id += "-search" if spec.search else ""
            seen[step_id] = seen.get(step_id, 0) + 1
            if seen[step_id] > 1:
                step_id += f"-{seen[step_id]}"
            load = {"workload": spec.label, "connections": connections, "rate": rate}
            steps.append(Step.like(spec, id=step_id, **load, warmup_s=spec.warmup, measure_s=spec.measure))
    return tuple(steps)
