"""How long each kind of transaction takes: the types of TPC-C, the transactions and statements that a user named, or
the statements of a capture by their digests; how often they ended, how many rows statements had, and how many failed.

One number of each quantity (effects.py) for each run, step and name, of the measured parts. They are compared as
effects are, by block, with intervals that hold simultaneously over all quantities, names, arms and steps. They are not
adjusted for the host's speed; of a load that sends as fast as it can, times follow the throughput.
"""

from mydyno.analysis.base import Analysis
from mydyno.analysis.operations.effects import analyse
from mydyno.analysis.operations.section import lines, most_changed, part

ANALYSIS = Analysis(
    chapter="why", part=part, comment=part, stored="operations", analyse=analyse, adds=most_changed, lines=lines,
)  # fmt: skip
