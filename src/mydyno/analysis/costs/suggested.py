"""The command that tests a candidate: the study's own experiment, with one setting of its control varied."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from shlex import quote
from typing import Any

from mydyno.experiment_file.arms import arm_name
from mydyno.experiment_file.toml_source import ARM_SECTIONS, merged, parse_set, toml_value
from mydyno.model.definition.experiment import Experiment, Scalar
from mydyno.model.definition.quantities import parse_bytes
from mydyno.model.definition.server_options import option_name
from mydyno.model.stored.analyses import CandidateRecord
from mydyno.model.stored.costs import COSTS
from mydyno.model.stored.counted import CLIENT
from mydyno.results.settings import SYNCED_WRITES, treatments
from mydyno.treatments.variables import read_back
from mydyno.wording.stored_result import StoredResult

KEPT = frozenset({"--scale", "--set", "--blocks", "--time", "--hosts", "--studies", "--data"})
"""Options of `mydyno run` with a value that a command has again."""
KEPT_FLAGS = frozenset({"--profile", "--waits", "--kernel", "--allow-writes", "--allow-changes", "--wait"})
DROPPED = frozenset({"--openmetrics", "--threshold", "--junit", "--markdown"})
"""Options with a value that it does not have."""
NAMED_ARMS = (*ARM_SECTIONS, "thresholds", "verdict.compare")
"""Keys of an experiment that make arms or name them."""
CPU, NETWORK, BUILD = "cgroup.cpu_quota", "network", "server.build"
_FLUSH = "innodb_flush_log_at_trx_commit"
_POOL, _REDO, _REDO_CAPACITY = "innodb_buffer_pool_size", "innodb_log_file_size", "innodb_redo_log_capacity"
OF_WAIT = {
    "row locks": "transaction_isolation",
    "table and metadata locks": "table_open_cache",
    "file I/O": _POOL,
    "network": NETWORK,
    CLIENT: NETWORK,
    "mutexes": CPU,
    "read-write locks": CPU,
    "condition variables": CPU,
    "stage/sql/Commit": _FLUSH,
    "stage/sql/Opening tables": "table_open_cache",
    "stage/sql/Creating sort index": "sort_buffer_size",
    "stage/sql/Creating tmp table": "tmp_table_size",
}
"""A class of waits or a stage → the setting that changes it on purpose."""
OF_KERNEL = {
    "file_sync": _FLUSH,
    "block_read": _POOL,
    "block_write": "innodb_doublewrite",
    "block_flush": _FLUSH,
    "futex": CPU,
    "run_queue": CPU,
}
"""A measure of the kernel → the same."""
ROOM = 4
"""Servers of this size that must fit into the host's memory: the arms, the control's second copy, and the load."""


def suggestion(result: StoredResult, one: CandidateRecord) -> str:
    """How to test a candidate of this study; empty: nothing is known."""
    setting = setting_of(one)
    if setting == BUILD:
        what = one.name if one.kind == "function" else COSTS[one.name].label
        return (
            f"No setting is known to change {what} alone. To test it, add an arm with another build of the server, "
            'e.g. { server = { basedir = "/opt/other-build" } }.'
        )
    if not setting:
        return ""
    setting = _differing(result, one, setting)
    if _vary_alone(result, one) == {setting}:
        return f"{one.arm} differs from {one.control} in {setting} alone: this study is its test."
    if result.study.experiment.server.dsn is not None and setting not in (CPU, NETWORK):
        return f"To test it, change {setting} of the external server and repeat the study."
    return f"To test it: `{_command(result, one.control, *_changes(result, one, setting))}`"


def setting_of(one: CandidateRecord) -> str:
    """A server variable, CPU, NETWORK or BUILD; empty where none is known to change it."""
    if one.kind == "function":
        return BUILD
    if one.kind == "cost":
        return COSTS[one.name].test
    return (OF_KERNEL if one.kind == "kernel" else OF_WAIT).get(one.name, "")


def _vary_alone(result: StoredResult, one: CandidateRecord) -> set[str]:
    """The settings in which the candidate's arm and its control are declared to differ."""
    arm, control = (treatments(result.study.experiment.arm(name)) for name in (one.arm, one.control))
    names = (name for name in arm.keys() | control.keys() if arm.get(name) != control.get(name))
    return {option_name(name.removeprefix("variables.")) for name in names}


def _differing(result: StoredResult, one: CandidateRecord, setting: str) -> str:
    """Of the settings of synced writes, the one in which the servers of the two arms differ, if any does."""
    if setting not in SYNCED_WRITES:
        return setting
    for name in SYNCED_WRITES:
        values = result.summary.server_differences.get(name, {})
        if values.get(one.arm) is not None and values.get(one.control) not in (None, values.get(one.arm)):
            return name
    return setting


Arm = Mapping[str, Any]
"""Treatments."""


def _changes(result: StoredResult, one: CandidateRecord, setting: str) -> tuple[Arm, str, Arm]:
    """What the control gets, the other arm's name, and what that gets."""
    experiment = result.study.experiment
    own = experiment.arm(one.control).treatments
    if setting == CPU:
        quota = result.study.host.get("cpus_usable", 2) / 2
        return {}, arm_name("cpu_quota", f"{quota:g}"), {"cgroup": {"cpu_quota": quota}}
    if setting == NETWORK:
        speed = "100mbit" if own.get("network") == "1gbit" else "1gbit"
        return {}, arm_name("network", speed), {"network": speed}
    values = result.summary.server_differences.get(setting)
    if values is not None and setting in SYNCED_WRITES:
        mine, other = (_as_set(setting, values.get(arm) or "") for arm in (one.control, one.arm))
        return {"variables": {setting: mine}}, arm_name(setting, other), {"variables": {setting: other}}
    actual = _server_variables(result, one.control)
    name = _REDO_CAPACITY if setting == _REDO and _REDO_CAPACITY in actual else setting
    present = _present(experiment, own, actual, name)
    studied = _variables(experiment.arm(one.arm).treatments).get(name)
    other = studied if studied is not None and str(studied) != str(present) else _other(result, name, present)
    variables: dict[str, Scalar] = {name: other}
    if name == "tmp_table_size":  # the smaller of the two counts
        variables["max_heap_table_size"] = other
    return {"variables": {name: present}}, arm_name(name, other), {"variables": variables}


def _as_set(name: str, value: str) -> Scalar:
    """A server's value as an experiment sets it."""
    if name == "log_bin":
        return "binlog" if value.upper() == "ON" else False
    return int(value) if value.isdigit() else value


def _server_variables(result: StoredResult, arm: str) -> Mapping[str, str]:
    """As the arm's server had them; empty where that is not stored."""
    for record in result.records.values():
        if record.arm == arm and record.servers:
            return {name.lower(): value for name, value in record.servers[0].variables.items()}
    return {}


def _variables(treatments: Arm) -> dict[str, Scalar]:
    return {option_name(name): value for name, value in (treatments.get("variables") or {}).items()}


DEFAULTS: dict[str, Scalar] = {
    _FLUSH: 1,
    _POOL: "128M",
    _REDO: "96M",
    "innodb_log_buffer_size": "16M",
    "innodb_doublewrite": "ON",
    "transaction_isolation": "REPEATABLE-READ",
    "table_open_cache": 2000,
    "tmp_table_size": "16M",
    "sort_buffer_size": "2M",
}
"""Where neither the experiment nor a run says what a variable was."""


def _present(experiment: Experiment, own: Arm, actual: Mapping[str, str], name: str) -> Scalar:
    """The control's value: as the experiment writes it, else as the server had it."""
    for said in (_variables(own), _variables({"variables": experiment.server.variables})):
        if name in said:
            return said[name]
    found = read_back(name, actual)
    if found is None:
        return DEFAULTS[name]
    return _sized(int(found)) if found.isdigit() else found


def _other(result: StoredResult, name: str, present: Scalar) -> Scalar:
    """A value that is far enough from the present one to show an effect."""
    memory_bytes = int(result.study.host.get("memory_usable_bytes") or result.study.host.get("memory_bytes", 0))

    def larger(factor: int) -> Callable[[Scalar], Scalar]:
        return lambda value: _sized(factor * parse_bytes(value))

    def pool(value: Scalar) -> Scalar:
        size_bytes = parse_bytes(value)
        fits = not memory_bytes or ROOM * 4 * size_bytes <= memory_bytes
        return _sized(4 * size_bytes if fits else size_bytes // 4)

    ways: dict[str, Callable[[Scalar], Scalar]] = {
        _FLUSH: lambda value: 2 if str(value) == "1" else 1,
        _POOL: pool,
        _REDO: larger(4),
        _REDO_CAPACITY: larger(4),
        "innodb_log_buffer_size": larger(8),
        "innodb_doublewrite": lambda value: "ON" if str(value).upper() in ("OFF", "0", "FALSE") else "OFF",
        "transaction_isolation": lambda value: (
            "REPEATABLE-READ" if str(value).upper() == "READ-COMMITTED" else "READ-COMMITTED"
        ),
        "table_open_cache": lambda value: 4 * int(value),
        "tmp_table_size": larger(16),
        "sort_buffer_size": larger(8),
    }
    return ways[name](present)


def _sized(number: int) -> Scalar:
    """A size as the server takes it, where it is a whole number of KiB or more; other numbers as they are."""
    for unit, size in (("G", 1 << 30), ("M", 1 << 20), ("K", 1 << 10)):
        if number >= size and number % size == 0:
            return f"{number // size}{unit}"
    return number


def _command(result: StoredResult, control: str, held: Arm, name: str, changed: Arm) -> str:
    """`mydyno run` of the study's experiment with two arms: the control, and the control with the change."""
    experiment = result.study.experiment
    spec = experiment.arm(control)
    own: dict[str, Any] = {**spec.treatments}
    if "variables" in own:
        own["variables"] = _variables(own)
    if spec.instances is not None:
        own["instances"] = spec.instances
    name = f"{name}-varied" if name == control else name
    first = merged(own, held)
    arms = {"control": control, control: first, name: merged(first, changed)}
    words = _as_run(result.study.command, experiment)
    words += ["--set", f"arms={toml_value(arms)}"]
    if experiment.thresholds:
        words += ["--set", "thresholds={}"]
    if experiment.verdict.compare:
        words += ["--set", "verdict.compare=[]"]
    return " ".join(["mydyno", "run", *map(quote, words)])


def _as_run(command: Sequence[str], experiment: Experiment) -> list[str]:
    """Experiment and options of the command that ran the study; of another kind of command, the whole definition."""
    if len(command) < 3 or command[1] not in ("run", "gate"):
        return _as_defined(experiment)
    names, options = [], []
    for option, value in _parsed(command):
        if not option:
            names.append(value)
        elif option in KEPT_FLAGS:
            options.append(option)
        elif option in KEPT and not (option == "--set" and _names_arms(value)):
            options += [option, value]
    return [*names[:1], *options] if names else _as_defined(experiment)


def _parsed(command: Sequence[str]) -> Iterator[tuple[str, str]]:
    """(option, value) of a command's words; ("", word) of those that belong to no option."""
    with_value = KEPT | DROPPED | ({"--json"} if command[1] == "gate" else set())
    words = iter(command[2:])
    for word in words:
        option, equals, value = word.partition("=")
        if not word.startswith("-"):
            yield "", word
        elif option in with_value:
            yield option, value if equals else next(words, "")
        else:
            yield option, ""


def _names_arms(assignment: str) -> bool:
    """Whether a --set makes arms or names them. The short form of screening studies does, too."""
    path = parse_set(assignment)[0]
    name = ".".join(path)
    is_short = len(path) == 1 and path[0] not in Experiment.model_fields
    return is_short or any(name == of or name.startswith(f"{of}.") for of in NAMED_ARMS)


def _as_defined(experiment: Experiment) -> list[str]:
    """The experiment by its values, over a built-in one: its server, data, load and design."""
    words = ["variable", "--scale", "standard"]
    dumped = experiment.model_dump(mode="json", exclude_defaults=True, exclude_none=True)
    dumped.get("verdict", {}).pop("compare", None)
    for key in ("name", "question", "server", "data", "instances", "steps", "design", "verdict", "validity", "profile"):
        if key in dumped or key in ("data", "design", "verdict"):
            words += ["--set", f"{key}={toml_value(dumped.get(key, {}))}"]
    return words
