"""The random stream of a step: the same in all arms of a block, a different one in each step, block and retry.

Arms of a block must receive the same operations, or the streams are a difference between them. A later step of the same
run must receive different ones: replaying a stream rewrites existing values, so updates change no rows.
"""

from __future__ import annotations

import secrets
from random import Random

from mydyno.model.definition.experiment import Step
from mydyno.workloads.oltp import OLTP_WORKLOADS

LARGEST_SEED = 2**31 - 1
OPTION = "rand_seed"


def with_stream(step: Step, design_seed: int, block: int, attempt: int, restored: bool) -> Step:
    """The step with its seed, from 1 to LARGEST_SEED; as it is where the experiment names one, or nothing is drawn.

    `restored`: each run begins with the same data. Where it does not, an earlier run may have written what the same
    stream would write, so the seed is drawn anew; driver.json keeps it, as any other.
    """
    if (step.workload not in OLTP_WORKLOADS and step.file is None) or step.options.get(OPTION):
        return step
    drawn = Random(f"mydyno-stream-1-{design_seed}-{block}-{step.id}-{attempt}")
    seed = 1 + (drawn.randrange(LARGEST_SEED) if restored else secrets.randbelow(LARGEST_SEED))
    return step.model_copy(update={"options": {**step.options, OPTION: seed}})
