"""Which random stream a step asks: the same in all arms of a block, another one in each step, block and second try.

Arms of a block must be asked the same, or the streams are a difference between them. A later step of the same run must
be asked otherwise: what asks the same again writes what stands there already, and updates change no row.
"""

from __future__ import annotations

import secrets
from random import Random

from mydyno.model.experiment import Step
from mydyno.workloads.oltp import OLTP_WORKLOADS

LARGEST_SEED = 2**31 - 1
OPTION = "rand_seed"


def with_stream(step: Step, design_seed: int, block: int, attempt: int, restored: bool) -> Step:
    """The step with its seed, from 1 to LARGEST_SEED; as it is where the experiment names one, or nothing is drawn.

    `restored`: each run begins with the same data. Where it does not, an earlier run may have written what the same
    stream would write, so the seed is drawn anew; driver.json keeps it, as any other.
    """
    if step.workload not in OLTP_WORKLOADS or step.options.get(OPTION):
        return step
    drawn = Random(f"mydyno-stream-1-{design_seed}-{block}-{step.id}-{attempt}")
    seed = 1 + (drawn.randrange(LARGEST_SEED) if restored else secrets.randbelow(LARGEST_SEED))
    return step.model_copy(update={"options": {**step.options, OPTION: seed}})
