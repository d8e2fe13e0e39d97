"""The design "switchback": a block has one server, which is given an arm's settings before each of its slices.

Each lane has a load program of its own, whose sessions were opened under the arm's values and so carry them. What was
set is read back, and once more before the next change: nobody else may have changed it meanwhile.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pymysql.constants import ER

from mydyno import clock
from mydyno.drivers.held import SliceOrder
from mydyno.errors import HostError, ServerError
from mydyno.execution.environments.environment import StudyEnvironment
from mydyno.execution.interleaved.lane import Lane
from mydyno.execution.interleaved.shared_lane import SharedLane
from mydyno.execution.interleaved.slices import PartOfSlice
from mydyno.model.definition.experiment import Scalar, Step
from mydyno.model.definition.plan import PlannedBlock
from mydyno.model.stored.reasons import Reason
from mydyno.model.stored.records import Evidence, StepRecord
from mydyno.servers.external_variables import MOST_SETS, BorrowedVariables, reading, setting, sql_value, untouched
from mydyno.servers.running.base import RunningServer
from mydyno.servers.sql import Control, server_code
from mydyno.servers.templates import Template
from mydyno.store.samples import Sample
from mydyno.treatments.base import Treatment
from mydyno.treatments.coexistence import switched_treatments, switched_variables
from mydyno.treatments.dsn import owner_of_dsn
from mydyno.workloads.reconcile import growth

HINT = 'use design.kind = "interleaved": each arm then has a server of its own that starts with its values'
SESSIONS = ("Connections", "Ssl_accepts", "Ssl_finished_accepts")
"""Counters that grow when a load program connects."""
EXTERNAL_HINT = (
    "the account needs SYSTEM_VARIABLES_ADMIN (MySQL) or SUPER (MariaDB), and the variable must be one that SET GLOBAL "
    "accepts"
)

_BY_ITSELF = re.compile(r"gtid|_pos$|_state$|timestamp|_status$")
"""Variables that change while a server works."""


def _in_a_session(name: str) -> str:
    """What sets a variable for a session, as a pattern: its name, a statement of SQL that does, or a procedure."""
    others = {
        "isolation": "isolation", "read_only": r"read\s+(only|write)", "collation": "names",
        "character_set": r"names|char(acter\s+)?set",
    }  # fmt: skip
    words = [rf"\b({pattern})\b" for part, pattern in others.items() if part in name]
    return "|".join((rf"\b{name}\b", r"\bcall\b", *words))


class Switch:
    """What the arms differ in, of one running server: variables, and treatments of its host; `borrowed` where it is
    others' server.
    """

    def __init__(self, settings: Mapping[str, Mapping[str, Scalar]], borrowed: BorrowedVariables | None = None) -> None:
        self._settings = settings
        self._borrowed = borrowed
        self._names = sorted({name for own in settings.values() for name in own})
        self._control: Control | None = None
        self._server: list[str] = []
        self._shown: dict[str, list[str]] = {}
        self._now = ""
        self._instance: RunningServer | None = None
        self.of_host: dict[str, list[Treatment]] = {}
        """{arm: its treatments that are switched}."""
        self._on: list[Treatment] = []
        self._off: list[Treatment] = []
        """Those that were switched off at any time."""
        self.moved: list[str] = []
        """Variables that the server changes with those of an arm, as innodb_io_capacity_max."""
        self.unlocked = ""
        """Why the server keeps no other mydyno from its variables; empty: it does, or is private."""
        self.switches: dict[str, int] = {}
        """{arm: how often its values were set and read back}."""
        self.proving = asyncio.Lock()
        """Lanes are proved at the same time; these one after the other."""
        self.ended_under = ""
        """The lane that was loaded when the server ended; empty: it runs."""

    async def begin(self, server: RunningServer) -> None:
        """Open the session, read the server's own values, and set those of each arm once.

        Raises HostError where the server does not let a variable be set.
        """
        self._instance = server
        if self._names:
            self._control = await server.control().__aenter__()
        try:
            if self._borrowed is not None and self._control is not None:
                self.unlocked = await self._borrowed.take_turn(self._control)
            self._server = await self._read()
            await self._check_sessions()
            self._will_set({})
            while moved := await self._set_each():
                await self._take_in(moved)
        except ServerError as error:
            hint = HINT if self._borrowed is None else EXTERNAL_HINT
            raise HostError(f'design "switchback": {error.message}', hint) from error
        self._will_set(
            {name: [shown[place] for shown in self._shown.values()] for place, name in enumerate(self._names)}
        )

    def _will_set(self, own: Mapping[str, Sequence[str]]) -> None:
        if self._borrowed is not None:
            self._borrowed.will_set(dict(zip(self._names, self._server, strict=True)), own)

    async def _set_each(self) -> dict[str, str]:
        """Set each arm's values in turn, until the server changes other variables with them: {variable: its value
        before}; empty where it never does.
        """
        for arm in self._settings:
            before = {} if self._control is None else await self._control.variables()
            await self.to(arm)
            after = {} if self._control is None else await self._control.variables()
            moved = {name for name in before.keys() & after.keys() if before[name] != after[name]}
            if with_arms := sorted(name for name in moved.difference(self._names) if not _BY_ITSELF.search(name)):
                return {name: before[name] for name in with_arms}
        return {}

    async def _take_in(self, moved: dict[str, str]) -> None:
        """Have these variables set and given back like those that the arms name, from now on."""
        assert self._control is not None
        before = dict(zip(self._names, self._server, strict=True)) | moved
        if self._borrowed is not None:
            self._borrowed.will_set(before, {})
            for name, why in untouched(moved).items():
                raise HostError(f"with an arm's variables the server changes {name}, which is never changed: {why}")
        for _ in range(MOST_SETS):
            await self._control.rows(setting(before))
        now = await self._control.variables()
        if kept := [f"{name} is {now[name]}, not {moved[name]}" for name in moved if now[name] != moved[name]]:
            raise ServerError(f"variables that the server changed with an arm's are not set back: {', '.join(kept)}")
        self.moved += moved
        self._names = sorted(before)
        self._server, self._shown, self._now = await self._read(), {}, ""
        self._will_set({})
        await self._check_sessions()

    async def _check_sessions(self) -> None:
        """Raise HostError where each new session is given another value than the global one, which alone is read."""
        if self._control is None:
            return
        ((own,),) = await self._control.rows("SELECT @@GLOBAL.init_connect")
        named = [name for name in self._names if re.search(_in_a_session(name), str(own), re.IGNORECASE)]
        if named := [name for name in named if await self._has_value_of_a_session(name)]:
            words = f"the server's init_connect sets, or may set, {', '.join(named)} for each session"
            raise HostError(words, "remove it there")

    async def _has_value_of_a_session(self, name: str) -> bool:
        assert self._control is not None
        try:
            await self._control.rows(f"SELECT @@SESSION.{name}")
        except ServerError as error:
            if server_code(error) == ER.INCORRECT_GLOBAL_LOCAL_VAR:
                return False
            raise
        return True

    async def check(self) -> None:
        """Raise ServerError where somebody else changed what was set; HostError, which ends the study, where it is
        others' server.
        """
        if not self._now:
            return
        for treatment in self._on:
            await self._require(treatment, "somebody else changed it: ")
        on = {treatment.name for treatment in self._on}
        for treatment in self._off:
            if treatment.name not in on:
                await self._require_off(treatment, "somebody else changed it: ")
        if self._control is None or (found := await self._read()) == self._shown[self._now]:
            return
        words = f"somebody else changed variables of the server: {self._unlike(self._now, found)}"
        if self._borrowed is not None:
            raise HostError(words, "they are left as they are now; repeat the study when nobody changes them")
        raise ServerError(words)

    async def to(self, arm: str) -> None:
        """Set the arm's values and read them back. Raises ServerError, also where somebody else changed one."""
        await self.check()
        self._now = ""
        if self._control is not None:
            await self._set(self._control, arm)
        await self._switch_host(self.of_host.get(arm, []))
        self._now = arm
        self.switches[arm] = self.switches.get(arm, 0) + 1

    async def _switch_host(self, wanted: Sequence[Treatment]) -> None:
        """Also after a switch that failed: what was switched on is noted before."""
        assert self._instance is not None
        for treatment in [one for one in reversed(self._on) if one not in wanted]:
            await treatment.switch_off(self._instance)
            self._on.remove(treatment)
            if treatment not in self._off:
                self._off.append(treatment)
            await self._require_off(treatment)
        for treatment in [one for one in wanted if one not in self._on]:
            self._on.append(treatment)
            await treatment.switch_on(self._instance)
            await self._require(treatment)

    async def _require_off(self, treatment: Treatment, cause: str = "") -> None:
        assert self._instance is not None
        if words := await treatment.left(self._instance):
            raise ServerError(f"{treatment.name}: {cause}{words}")

    async def _require(self, treatment: Treatment, cause: str = "") -> None:
        assert self._instance is not None
        found = await treatment.in_force(self._instance)
        if not found.holds:
            raise ServerError(f"{treatment.name}: {cause}{found.text}")

    async def _set(self, control: Control, arm: str) -> None:
        own = self._settings[arm]
        is_part = {name for name, value in own.items() if "=" in str(value)}  # the rest is as the server has it
        of_server = [
            f"GLOBAL {name} = {sql_value(server)}"
            for name, server in zip(self._names, self._server, strict=True)
            if name not in own or name in is_part
        ]
        of_arm = [f"GLOBAL {name} = {sql_value(own[name])}" for name in self._names if name in own]
        expected = self._shown.get(arm)
        for _ in range(MOST_SETS):
            await control.rows(f"SET {', '.join((*of_server, *of_arm))}")
            found = await self._read()
            if found == expected:
                break
            expected = self._shown.get(arm, found)
        if found != self._shown.setdefault(arm, found):
            raise ServerError(f"the server did not take over the settings of {arm}: {self._unlike(arm, found)}")

    async def _read(self) -> list[str]:
        if self._control is None:
            return []
        rows = await self._control.rows(reading(self._names))
        return [str(value) for value in rows[0]]

    def _unlike(self, arm: str, found: Sequence[str]) -> str:
        shown = self._shown[arm]
        return ", ".join(
            f"{name} is {now}, not {was}"
            for name, now, was in zip(self._names, found, shown, strict=True)
            if now != was
        )

    async def end(self) -> str | None:
        """Give back what was borrowed, and close the session; returns what could not be given back."""
        left = None if self._borrowed is None else await self._borrowed.give_back()
        if self._control is not None:
            await self._control.__aexit__()
            self._control = None
        return left


@dataclass
class SwitchedLane(SharedLane):
    """One arm's part of a block with one server, which the first lane starts and stops."""

    first: SwitchedLane | None = None
    """The lane that has the server; None: this one."""
    switch: Switch = field(default_factory=lambda: Switch({}))

    @property
    def owner(self) -> SwitchedLane:
        """The lane that has the server."""
        return self.first or self

    async def provision(self, template: Template | None) -> None:
        """The first lane restores the data of the one server, without what is switched."""
        if self.first is None:
            await super().provision(template)
            experiment = self.environment.experiment
            dsn, owner = experiment.server.dsn, owner_of_dsn(experiment.arm(experiment.control))
            borrowed = None if dsn is None else BorrowedVariables(self.environment.host.undo, dsn, owner)
            self.switch = Switch(switched_variables(experiment), borrowed)
        else:
            self.folder.mkdir(parents=True, exist_ok=True)
            self.switch = self.first.switch
            self.instances, self.failed = self.first.instances, self.first.failed
            self.treatments = {instance.number: self.environment.treatments(self.arm) for instance in self.instances}
            self.of_reading = self.first.of_reading
        switched = switched_treatments(self.environment.experiment)
        for number, own in self.treatments.items():
            mine = self.switch.of_host.setdefault(self.arm.name, [one for one in own if one.name in switched])
            # Of what is not switched the first lane's own are in force.
            alike = [
                one for one in self.owner.treatments[number] if one.name not in switched and one.name != "variables"
            ]
            of_name = {one.name: one for one in (*own, *alike, *mine)}
            self.treatments[number] = [of_name[one.name] for one in own]

    async def _apply(self) -> None:
        if self.first is not None:
            return
        for instance in self.instances:
            for treatment in self.treatments[instance.number]:
                if treatment.begins_with_server or treatment not in self.switch.of_host[self.arm.name]:
                    await treatment.apply(instance)
            for name in switched_variables(self.environment.experiment)[self.arm.name]:
                del instance.settings.variables[name]

    async def start(self) -> None:
        """Start the one server; every arm's values are set once. Raises HostError where the server refuses one."""
        if self.first is None:
            await super().start()
            if self.up:
                await self.switch.begin(self.instances[0])

    async def _prove(self) -> None:
        if not self.owner.up:
            raise ServerError(self.owner.failed)
        async with self.switch.proving:
            await self.switch.to(self.arm.name)
            await super()._prove()

    def _local_number(self, instance: RunningServer) -> int:  # noqa: ARG002
        return 1

    async def _take_over(self) -> None:
        """Set the arm's values, where the server still runs."""
        if self.up and self.switch.ended_under:
            words = f"the server that all arms share ended under {self.switch.ended_under}"
            self.reasons.append(Reason(check="failed", text=words))
        await self._guarded(lambda: self.switch.to(self.arm.name))

    async def _note_end(self, step: Step, wait_s: float) -> None:
        await super()._note_end(step, wait_s)
        if self.failed:
            self.switch.ended_under = self.name

    async def prewarm(self) -> None:
        """The one server's data are read once."""
        if self.first is None:
            await super().prewarm()

    async def connect(self, step: Step) -> None:
        """Its sessions begin under its arm's values; the server counts them before the first slice."""
        await self._take_over()
        await super().connect(step)
        try:
            for instance in self.instances if self.loads else ():
                grown = growth(self.begun[instance.number], await instance.counters())
                await self.measure_reading(instance)
                self.count({name: grown[name] for name in SESSIONS if name in grown})
        except ServerError as error:
            await self.step_failed(step, error)

    async def slice(self, step: Step, order: SliceOrder) -> list[PartOfSlice]:
        """A slice under the arm's values. What the server's memory is then, no arm alone made."""
        if not self.runs_step(step):
            return []
        await self._take_over()
        if not self.up:
            return []
        parts = await super().slice(step, order)
        return [replace(part, after=replace(part.after, memory={})) for part in parts]

    def rss_bytes(self) -> float | None:
        """None: the arms share their server's memory."""
        return None

    async def _account(self, steps: Sequence[StepRecord], samples: Sequence[Sample]) -> None:
        own = self.switch.of_host[self.arm.name]
        if own or self.first is None:
            await self.switch.to(self.arm.name)
        if self.first is None:
            await super()._account(steps, samples)
        else:
            (treatments,) = self.treatments.values()
            for treatment in treatments:
                self._take(await treatment.account(self.instances[0]) if treatment in own else None, 1)
                for record in steps:
                    self._take(treatment.load_evidence(record, samples), 1)
        count = self.switch.switches.get(self.arm.name, 0)
        text = f"the server was set to this arm's values {count} times; read back each time, and before the next change"
        if moved := ", ".join(self.switch.moved):
            text += f"; with them the server changes {moved}, which was set and read back too"
        if self.switch.unlocked:
            text += f"; the server keeps no other mydyno from its variables ({self.switch.unlocked})"
        self.evidence.append(Evidence(treatment="switchback", holds=True, text=text, instance=1))

    async def stop(self) -> None:
        """End the load; the first lane ends the server too."""
        if self.first is None:
            left = await self.switch.end()
            await super().stop()
            if left:
                raise HostError(f"could not be set back: {left}")
            return
        instances, self.instances = self.instances, []
        await super().stop()
        self.instances = instances

    async def undo(self) -> None:
        """The first lane undoes what was changed."""
        if self.first is None:
            await super().undo()
        for treatment in self.switch.of_host.get(self.arm.name, []):
            await treatment.undo()

    def remove_data(self) -> None:
        """The first lane removes the data of the one server."""
        if self.first is None:
            super().remove_data()


def lanes_of(environment: StudyEnvironment, block: PlannedBlock, aside: Path, switchback: bool) -> list[Lane]:
    """The lanes of a block in its order; with one server the control's first, which has it and is never given up."""
    lanes: list[Lane] = []
    runs, number = list(block.runs), 1
    if switchback:
        runs.sort(key=lambda run: (run.arm, run.copy_number) != (environment.experiment.control, 1))
    first: SwitchedLane | None = None
    for planned in runs:
        facts = (environment, planned, aside / Path(planned.folder).name, number, clock.unix_ns())
        if switchback:
            lanes.append(lane := SwitchedLane(*facts, first=first, number=number))
            first = first or lane
        elif environment.experiment.server.dsn is not None:
            lanes.append(SharedLane(*facts, number=number))
        else:
            lanes.append(Lane(*facts))
        number += len(planned.places)
    return lanes
