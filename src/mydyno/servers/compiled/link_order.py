"""Links a program with another memory layout: a script of its own, executed by a wrapper in place of the compiler.

    link_order.py SEED PADDING COMPILER... -- ARGUMENTS...

The object files of a link are shuffled by the seed, each run of neighbours among themselves, because the order of
libraries and options means something. PADDING is an object file that is linked first: it moves all code and data by
some hundred bytes. A relocatable link (-r) and a call that links nothing are passed on as they are.
Reference: Mytkowicz et al., Producing wrong data without doing anything obviously wrong, ASPLOS 2009.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Sequence

NO_LINK = ("-c", "-S", "-E", "-M", "-MM", "-r", "--version", "-v", "-dumpversion", "-dumpmachine", "-fsyntax-only")
PADDING_SYMBOL = "mydyno_layout_padding"


def links(arguments: Sequence[str]) -> bool:
    """Whether the compiler would make a program or a shared library."""
    if any(word in NO_LINK or word.startswith(("-print-", "--print-")) for word in arguments):
        return False
    return any(not word.startswith("-") for word in arguments)


def reordered(arguments: Sequence[str], seed: int) -> list[str]:
    """The arguments with each run of neighbouring object files in another order."""
    shuffled = list(arguments)
    source = random.Random(f"mydyno-link-1-{seed}")
    begin = 0
    while begin < len(shuffled):
        end = begin
        while end < len(shuffled) and _is_object(shuffled, end):
            end += 1
        run = shuffled[begin:end]
        source.shuffle(run)
        shuffled[begin:end] = run
        begin = end + 1
    return shuffled


def _is_object(arguments: Sequence[str], at: int) -> bool:
    return arguments[at].endswith((".o", ".lo")) and not (at > 0 and arguments[at - 1] == "-o")


def command(words: Sequence[str]) -> list[str]:
    """The compiler's command line from the script's own."""
    split = list(words).index("--")
    seed, padding, *compiler = words[:split]
    arguments = list(words[split + 1 :])
    if not links(arguments):
        return [*compiler, *arguments]
    return [*compiler, f"-Wl,--undefined={PADDING_SYMBOL}", padding, *reordered(arguments, int(seed))]


if __name__ == "__main__":
    full = command(sys.argv[1:])
    os.execvp(full[0], full)
