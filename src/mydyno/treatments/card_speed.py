"""The speed of a network card for the time of a run: set by ethtool, read back, restored."""

from __future__ import annotations

import asyncio
import dataclasses
from dataclasses import dataclass
from typing import Any

from mydyno.hosts.network import network_card
from mydyno.hosts.undo import UndoJournal


@dataclass
class CardSpeed:
    """One card's; in full duplex."""

    card: str
    mbit_per_s: int
    undo: UndoJournal
    _change: int | None = None
    """Entry in the undo journal; None: not changed."""

    async def set(self) -> None:
        """Journal the card's state and set its speed, unless it has it. Raises HostError."""
        before = await asyncio.to_thread(network_card.card_state, self.card)
        if not self._is_set(before):
            self._change = self.undo.will_change("network_card", **network_card.undo_facts(self.card, before))
            await asyncio.to_thread(network_card.set_speed, self.card, self.mbit_per_s)

    def _is_set(self, state: network_card.CardState) -> bool:
        return (state.speed_mbit_per_s, state.duplex) == (self.mbit_per_s, "full")

    async def read_back(self) -> tuple[bool, str, dict[str, Any]]:
        """(whether it is in force, what ethtool reports, facts). Raises HostError."""
        state = await asyncio.to_thread(network_card.card_state, self.card)
        speed = "an unknown speed" if state.speed_mbit_per_s is None else f"{state.speed_mbit_per_s} Mb/s"
        words = f"ethtool reports {speed}, {state.duplex or 'unknown'} duplex of {self.card}"
        return self._is_set(state), words, {"card": dataclasses.asdict(state)}

    async def restore(self) -> None:
        """Give back what was changed."""
        if self._change is not None:
            await asyncio.to_thread(self.undo.undo, self._change)
            self._change = None
