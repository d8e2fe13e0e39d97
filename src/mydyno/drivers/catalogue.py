"""All drivers by name."""

from __future__ import annotations

from collections.abc import Callable

from mydyno.drivers.base import Driver
from mydyno.drivers.dynoload import Dynoload
from mydyno.drivers.libmemcached import Memaslap, Memslap
from mydyno.drivers.sysbench import Sysbench

DRIVERS: dict[str, Callable[[], Driver]] = {
    "dynoload": Dynoload,
    "sysbench": Sysbench,
    "memslap": Memslap,
    "memaslap": Memaslap,
}
