"""All drivers by name."""

from __future__ import annotations

from collections.abc import Callable

from mydyno.drivers.base import Driver
from mydyno.drivers.dynoload import Dynoload
from mydyno.drivers.memaslap import Memaslap
from mydyno.drivers.memslap import Memslap
from mydyno.drivers.sysbench import Sysbench

DRIVERS: dict[str, Callable[[], Driver]] = {
    "dynoload": Dynoload,
    "sysbench": Sysbench,
    "memslap": Memslap,
    "memaslap": Memaslap,
}
