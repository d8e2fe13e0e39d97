"""Made-up profiles of a server: a call tree with its usual amounts of CPU time, sampled with noise."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np

from mydyno.store.samples import Stack

ROOT = ("libc.so.6`clone3", "libc.so.6`start_thread", "mysqld`do_command")
SPIN: Stack = (*ROOT, "mysqld`dispatch_command", "mysqld`net_real_write", "libspin.so`send", "libspin.so`plant_spin")
USUAL: Mapping[Stack, float] = {
    (*ROOT, "mysqld`dispatch_command", "mysqld`mysql_parse", "mysqld`lex_one_token"): 60.0,
    (*ROOT, "mysqld`dispatch_command", "mysqld`mysql_parse"): 25.0,
    (*ROOT, "mysqld`dispatch_command", "mysqld`row_search_mvcc"): 120.0,
    (*ROOT, "mysqld`dispatch_command", "mysqld`row_search_mvcc", "mysqld`btr_cur_search"): 90.0,
    (*ROOT, "mysqld`dispatch_command", "mysqld`row_search_mvcc", "libc.so.6`malloc"): 20.0,
    (*ROOT, "mysqld`dispatch_command", "mysqld`optimize", "libc.so.6`malloc"): 25.0,
    (*ROOT, "mysqld`dispatch_command", "mysqld`optimize"): 70.0,
    (*ROOT, "mysqld`dispatch_command", "mysqld`net_real_write", "libspin.so`send", "kernel`tcp_sendmsg"): 180.0,
    (*ROOT, "mysqld`vio_read", "kernel`tcp_recvmsg"): 90.0,
    (*ROOT, "mysqld`vio_read", "kernel`do_sys_poll", "kernel`schedule"): 160.0,
    (*ROOT, "mysqld`[unknown]"): 60.0,
}
"""µs of CPU time per transaction."""


def sampled(
    random: np.random.Generator, samples: int, more: Mapping[Stack, float] | None = None, spread: float = 0.05
) -> dict[Stack, int]:
    """The stacks of one run; `more`: what it spends besides. A start of a server changes each amount by `spread`."""
    amounts = {**USUAL, **(more or {})}
    means = np.array(list(amounts.values())) * np.exp(random.normal(0, spread, len(amounts)))
    counts = random.multinomial(samples, means / means.sum())
    return dict(Counter({stack: int(count) for stack, count in zip(amounts, counts, strict=True) if count}))


def cpu_us(more: Mapping[Stack, float] | None = None) -> float:
    """The CPU time of a transaction."""
    return sum(USUAL.values()) + sum((more or {}).values())
