"""An ethtool that changes nothing: it keeps a state in a folder and writes down how it was called."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

PROGRAM = Path(__file__).with_name("fake-ethtool")


@dataclass(frozen=True)
class FakeEthtool:
    """The program's folder, with `bin` for PATH."""

    folder: Path

    @classmethod
    def at(cls, folder: Path, speed: int = 10000, negotiates: str = "on") -> FakeEthtool:
        made = cls(folder)
        (folder / "bin").mkdir(parents=True)
        (folder / "bin" / "ethtool").symlink_to(PROGRAM)
        (folder / "speed").write_text(f"{speed}\n")
        (folder / "negotiates").write_text(f"{negotiates}\n")
        return made

    @property
    def environment(self) -> dict[str, str]:
        return {"PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}", "FAKE_ETHTOOL": str(self.folder)}

    @property
    def state(self) -> tuple[int, str]:
        """(speed, whether it negotiates) as they are now."""
        return int((self.folder / "speed").read_text()), (self.folder / "negotiates").read_text().strip()

    @property
    def changes(self) -> list[str]:
        """Every call that changed something, in order."""
        return [line for line in (self.folder / "calls").read_text().splitlines() if line.startswith("-s")]
