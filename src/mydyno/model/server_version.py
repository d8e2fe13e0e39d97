"""Which server it is, and what differs between versions. Compares tuples; MariaDB is recognised by name alone.

memcached reports its version as "memcached 1.6.18" (`memcached --version`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from mydyno.errors import UserError

_REPORTED = re.compile(r"\bVer (\d+\.\d+.*)", re.DOTALL)
_NUMBER = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?")

NAMES = {"mysql": "MySQL", "mariadb": "MariaDB", "memcached": "memcached"}


def _number_in(text: str) -> re.Match[str] | None:
    # What MariaDB calls itself towards old clients and through proxies: 5.5.5-10.11.19-MariaDB
    return _NUMBER.search(text.removeprefix("5.5.5-") if "mariadb" in text.lower() else text)


@dataclass(frozen=True)
class ServerVersion:
    """A server's version as reported by the server."""

    text: str
    flavour: Literal["mysql", "mariadb", "memcached"]
    number: tuple[int, int, int]

    @classmethod
    def parse(cls, text: str) -> ServerVersion:
        """From SELECT VERSION() or the output of mysqld --version. Raises UserError for what is neither, or < 5.5."""
        # `mysqld --version` prints the path first, which may hold any word, then "Ver 10.11.19-MariaDB…"
        if text.startswith("memcached "):
            return cls._of_memcached(text.strip())
        reported = _REPORTED.search(text)
        text = reported[1].strip() if reported else text
        mariadb = "mariadb" in text.lower()
        match = _number_in(text)
        if match is None:
            raise UserError(f"no version number in {text!r}", "is it a MySQL or MariaDB server?")
        number = (int(match[1]), int(match[2]), int(match[3] or 0))
        if number < (5, 5, 0):
            raise UserError(f"server version {text} is older than 5.5, the oldest version that mydyno supports")
        return cls(text, "mariadb" if mariadb else "mysql", number)

    @classmethod
    def _of_memcached(cls, text: str) -> ServerVersion:
        match = _NUMBER.search(text)
        if match is None:
            raise UserError(f"no version number in {text!r}")
        return cls(text, "memcached", (int(match[1]), int(match[2]), int(match[3] or 0)))

    @property
    def name(self) -> str:
        """For sentences: "MariaDB 10.11.19"; without a patch level where the text has none: "MariaDB 10.11"."""
        match = _number_in(self.text)
        reported = self.number if match and match[3] else self.number[:2]
        return f"{NAMES[self.flavour]} {'.'.join(map(str, reported))}"

    @property
    def has_sql(self) -> bool:
        """Whether such a server executes SQL: MySQL and MariaDB do, memcached does not."""
        return self.flavour != "memcached"

    def is_mysql_from(self, *number: int) -> bool:
        """Whether it is MySQL of this version or a later one (calendar versions, 26.7, are later)."""
        return self.flavour == "mysql" and self.number >= number

    def is_mariadb_from(self, *number: int) -> bool:
        """Whether it is MariaDB of this version or a later one."""
        return self.flavour == "mariadb" and self.number >= number

    def set_password_sql(self, account: str, password: str) -> str:
        """One statement that sets an account's password; PASSWORD() went away in MySQL 8.0."""
        if self.is_mysql_from(5, 7, 6):
            return f"ALTER USER {account} IDENTIFIED BY '{password}'"
        return f"SET PASSWORD FOR {account} = PASSWORD('{password}')"

    @property
    def initialises_itself(self) -> bool:
        """MySQL >= 5.7.6 has mysqld --initialize-insecure; all others come with a script."""
        return self.is_mysql_from(5, 7, 6)

    @property
    def logs_by_default(self) -> bool:
        """Whether the binary log is on unless it is disabled: MySQL from 8.0 on."""
        return self.is_mysql_from(8, 0)

    @property
    def quiet_variables(self) -> dict[str, str]:
        """Settings that keep a private server from external access: no name look-ups, no TCP port of its own choice."""
        quiet = {"skip_name_resolve": "ON"}
        if self.is_mysql_from(8, 0, 11):
            quiet["mysqlx"] = "OFF"
        return quiet
