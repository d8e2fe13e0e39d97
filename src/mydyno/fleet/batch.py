"""Jobs for a batch system: one task for each block of a study in a folder that all nodes share.

The batch system decides where and when; each task is `mydyno block`, and `mydyno collect` makes the report.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any

ATTEMPTS = 3
LIMIT_FACTOR, LIMIT_S = 3.0, 900.0
"""The time limit of a task: so many times what is expected, and more for fetching servers and making data."""
LABEL_CHARACTERS = 50
POD_DATA = "/mydyno-data"
"""A volume on the node's disk: the container's own file system is an overlay, which would be measured."""


@dataclass(frozen=True)
class Batch:
    """What a job executes."""

    study: Path
    """As the nodes see it."""
    blocks: int
    block_s: float
    """Expected duration of one block."""
    program: str = "mydyno"
    parallel: int | None = None
    """Blocks at the same time, at most; None: as many as there are nodes."""

    @property
    def limit_s(self) -> int:
        """The time limit of one task, in whole minutes."""
        return 60 * ceil((LIMIT_FACTOR * self.block_s + LIMIT_S) / 60)


def slurm_script(batch: Batch) -> str:
    """An array job: one task for each block, each on a node of its own."""
    hours, rest = divmod(batch.limit_s, 3600)
    study = shlex.quote(str(batch.study))
    parallel = "" if batch.parallel is None else f"%{batch.parallel}"
    return f"""\
#!/bin/bash
# {batch.blocks} blocks of the study {batch.study.name}: one task for each, alone on its node.
# Submit with: sbatch {study}/slurm.sh      When all tasks have ended: {batch.program} collect {study}
#SBATCH --job-name=mydyno-{_label(batch.study.name)}
#SBATCH --array=1-{batch.blocks}{parallel}
#SBATCH --nodes=1
#SBATCH --exclusive
#SBATCH --requeue
#SBATCH --time={hours:02d}:{rest // 60:02d}:00
#SBATCH --signal=B:TERM@90
#SBATCH --output={batch.study}/slurm-%a.log
# On a disk of the node: it is measured, and must not be shared with other nodes.
export MYDYNO_DATA="${{MYDYNO_DATA:-${{SLURM_TMPDIR:-/tmp}}/mydyno-data-$(id -un)}}"
exec {batch.program} block {study} --block "$SLURM_ARRAY_TASK_ID" --group "$SLURMD_NODENAME"
"""


def kubernetes_job(batch: Batch, image: str, claim: str) -> dict[str, Any]:
    """An Indexed Job (batch/v1): one index for each block, never two pods on one node.

    `image` has mydyno on its PATH; `claim` is the PersistentVolumeClaim of the folder above the study's.
    """
    name = f"mydyno-{_label(batch.study.name)}"
    labels = {"app.kubernetes.io/name": "mydyno", "mydyno/study": _label(batch.study.name)}
    # Matches pods of any study: two on one node would disturb each other.
    mydyno = {"app.kubernetes.io/name": labels["app.kubernetes.io/name"]}
    any_study = {"labelSelector": {"matchLabels": mydyno}, "topologyKey": "kubernetes.io/hostname"}
    command = (
        f"exec {batch.program} block {shlex.quote(str(batch.study))} "
        '--block "$((JOB_COMPLETION_INDEX + 1))" --group "$NODE_NAME"'
    )
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "completionMode": "Indexed",
            "completions": batch.blocks,
            "parallelism": batch.parallel or batch.blocks,
            "backoffLimitPerIndex": ATTEMPTS - 1,
            "podReplacementPolicy": "Failed",
            "podFailurePolicy": {
                "rules": [
                    {"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [2]}},
                    {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]},
                ]
            },
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "restartPolicy": "Never",
                    "activeDeadlineSeconds": batch.limit_s,
                    "terminationGracePeriodSeconds": 90,
                    "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [any_study]}},
                    "containers": [
                        {
                            "name": "block",
                            "image": image,
                            "command": ["/bin/sh", "-c", command],
                            "env": [
                                {"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
                                {"name": "MYDYNO_DATA", "value": POD_DATA},
                            ],
                            "volumeMounts": [
                                {"name": "studies", "mountPath": str(batch.study.parent)},
                                {"name": "data", "mountPath": POD_DATA},
                            ],
                        }
                    ],
                    "volumes": [
                        {"name": "studies", "persistentVolumeClaim": {"claimName": claim}},
                        {"name": "data", "emptyDir": {}},
                    ],
                },
            },
        },
    }


def _label(name: str) -> str:
    """A name that Kubernetes (RFC 1123) and Slurm accept; of a long one the end, which has the time."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower())[-LABEL_CHARACTERS:].strip("-")
