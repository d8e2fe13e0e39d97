"""memslap (Debian: memcslap), a second opinion on kv_set and kv_get: so many operations of each thread, and their time.

Keys of 100 bytes and values of 400, its own; all threads set the same keys in the same order. It prints how many were
done and one time, no misses: so what it did less than it was asked counts as errors (seen once, on a busy host: MySQL's
plugin stored 1,570 of 2,000), the server's counters must show that every get found its key, and the step's rate is one
figure, said at the end of its load. `measure` is the longest that it may take.
"""

from __future__ import annotations

import re

from mydyno.drivers.base import DriverOutcome, Reading, StepContext, closed_loop_alone
from mydyno.drivers.libmemcached import LibmemcachedProgram
from mydyno.errors import DriverError
from mydyno.model.definition.experiment import DataSpec, Step
from mydyno.model.stored.records import DriverResult

VALUE_BYTES = 400
EXECUTE_NUMBER = 10_000
"""Operations of each thread if the step does not set them: memslap's own default."""
_TIME = re.compile(r"^\s*Time to (set|get)\s+(\d+) keys by\s+(\d+) threads:\s+([\d.]+) seconds", re.M)
_STORED = re.compile(r"^\s*Time to set\s+(\d+) keys:", re.M)


class Memslap(LibmemcachedProgram):
    """The memslap driver."""

    name = "memslap"
    programs = ("memcslap", "memslap")
    options = frozenset(("execute_number", "protocol"))

    def check(self, step: Step) -> list[str]:
        """It has no warm-up."""
        problems = self.unknown_options(step) + closed_loop_alone(self.name, step)
        if step.warmup_s:
            problems.append('memslap has no warm-up; set warmup = "0s"')
        return problems

    def data_obstacle(self, data: DataSpec) -> str | None:
        """The table must be as wide as its values."""
        if data.value_bytes < VALUE_BYTES:
            return f"memslap's values have {VALUE_BYTES} bytes; set data.value_bytes = {VALUE_BYTES} or more"
        return None

    async def run(self, context: StepContext) -> DriverOutcome:
        """One step. Raises DriverError with memslap's message, and where it took longer than `measure`."""
        address, step = context.address, context.step
        arguments = [
            f"--servers={address.host}:{address.port}",
            f"--concurrency={step.connections}",
            f"--execute-number={step.options.get('execute_number', EXECUTE_NUMBER)}",
            f"--test={step.workload.removeprefix('kv_')}",
            *(["--binary"] if step.options.get("protocol") == "binary" else []),
        ]
        completed, text = await self.run_to_end(arguments, context)
        result = completed.with_cpu(result_of(text, step, self.version, tuple(self.command(arguments))))
        rate = result.queries / result.duration_s
        at_ns = completed.started_unix_ns + round(min(result.duration_s, step.measure_s) * 1e9)
        readings = tuple(Reading(at_ns, name, rate) for name in ("ops", "tps"))
        return DriverOutcome(result, readings, completed.started_unix_ns)


def result_of(text: str, step: Step, version: str, command: tuple[str, ...]) -> DriverResult:
    """Operations and their time; of gets, the keys stored before them are counted among the sets."""
    match = _TIME.search(text)
    if match is None or f"kv_{match[1]}" != step.workload or float(match[4]) <= 0:
        raise DriverError(f"memslap {step.id} printed no time:\n  " + "\n  ".join(text.splitlines()[-5:]))
    count, took_s = int(match[2]), float(match[4])
    if took_s > step.measure_s:
        raise DriverError(
            f"memslap {step.id} took {took_s:.1f} s, measure is {step.measure_s:g} s",
            "set a longer measure, or a smaller options.execute_number",
        )
    stored = _STORED.search(text)
    requested = step.connections * int(step.options.get("execute_number", EXECUTE_NUMBER))
    gets, sets = (count, 0) if match[1] == "get" else (0, count)
    whole = {"cmd_get": gets, "cmd_set": sets + (int(stored[1]) if stored else 0)}
    return DriverResult(
        driver="memslap",
        version=version,
        command=command,
        transactions=count,
        queries=count,
        queries_read=gets,
        queries_write=sets,
        errors=max(requested - count, 0),
        duration_s=took_s,
        latency_us={"mean": took_s * 1e6 * step.connections / count},
        # It takes every reply for a hit: the server must have counted none missed.
        whole={"transactions": count, **whole, "get_hits": gets, "get_misses": 0},
        key_values={"cmd_get": float(gets), "cmd_set": float(sets), "get_hits": float(gets), "get_misses": 0.0},
    )
