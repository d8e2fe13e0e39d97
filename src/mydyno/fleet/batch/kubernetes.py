"""Kubernetes: an Indexed Job (batch/v1), one index for each block, never two pods on one node."""

from __future__ import annotations

import json
import shlex
from collections.abc import Collection, Sequence
from itertools import chain, count
from pathlib import Path
from typing import Any

from mydyno.errors import HostError, UserError
from mydyno.files.atomic import write_text
from mydyno.fleet.batch.system import SHOWN_LINES, Task, check_submitter, output_of
from mydyno.model.definition.host_groups import BatchJob
from mydyno.model.definition.quantities import numbers_of

ATTEMPTS = 3
"""Kubernetes itself makes these, also while no controller watches."""
POD_DATA = "/mydyno-data"
"""A volume on the node's disk: the container's own file system is an overlay, which would be measured."""
NEEDED, ALLOWED = ("image", "claim"), ("image", "claim", "namespace", "parallel", "program")
STUDY, BLOCKS = "mydyno/study", "mydyno/blocks"
"""Label of jobs and pods; annotation with the blocks of a job, in the order of its indexes."""
JOB, INDEX = "batch.kubernetes.io/job-name", "batch.kubernetes.io/job-completion-index"


class Kubernetes:
    """The pods of one study."""

    title = "Kubernetes"
    attempts = 1

    def __init__(self, study: Path, job: BatchJob) -> None:
        self._study = study
        self._job = job
        namespace = job.option("namespace")
        self._kubectl = ("kubectl", *([f"--namespace={namespace}"] if namespace else []))

    def check(self) -> None:
        """The program, and the options without which there is no job."""
        for option in self._job.options:
            key, _, value = option.partition("=")
            if key not in ALLOWED or not value:
                raise UserError(
                    f"--on-option {option}: not an option of --on kubernetes",
                    f"allowed: {', '.join(f'{one}=…' for one in ALLOWED)}",
                )
        if missing := [key for key in NEEDED if not self._job.option(key)]:
            raise UserError(
                f"--on kubernetes needs --on-option {missing[0]}=NAME",
                "image: with mydyno on its PATH; claim: the PersistentVolumeClaim that holds the studies folder",
            )
        check_submitter(self.title, self._job, "kubectl")

    def text(self, blocks: Sequence[int]) -> str:
        """The manifest."""
        return json.dumps(self._manifest(blocks), indent=1) + "\n"

    async def submit(self, blocks: Sequence[int], avoid: Collection[str]) -> str:  # noqa: ARG002
        """Kubernetes chooses the nodes."""
        path = self._study / "kubernetes.json"
        manifest = self._manifest(blocks)
        there = {_name(item) for item in await self._items()}
        names = (f"{self._job.name}-{number}" for number in count(2))
        name = manifest["metadata"]["name"] = next(one for one in chain([self._job.name], names) if one not in there)
        write_text(path, json.dumps(manifest, indent=1) + "\n")
        await output_of(*self._kubectl, "apply", "--filename", str(path))
        return f"job {name}"

    async def tasks(self, blocks: Collection[int]) -> dict[int, Task]:  # noqa: ARG002
        """Of each job, from its status, and from its pods for what is under way."""
        items = await self._items()
        found: dict[int, Task] = {}
        jobs = sorted((item for item in items if item["kind"] == "Job"), key=_created)
        pods = sorted((item for item in items if item["kind"] == "Pod"), key=_created)
        latest = {(_label(pod, JOB), int(_label(pod, INDEX))): pod for pod in pods}
        for job in jobs:
            for index, block in enumerate(json.loads(job["metadata"]["annotations"][BLOCKS])):
                found[block] = _task(block, index, job.get("status", {}), latest.get((_name(job), index)))
        return found

    async def log(self, task: Task) -> str:
        """Of the pod, while Kubernetes has it."""
        if not task.log:
            return ""
        try:
            # The last lines are those of a second each: most of them are dropped.
            return await output_of(*self._kubectl, "logs", f"--tail={100 * SHOWN_LINES}", task.log)
        except HostError:
            return ""

    def cancel_command(self) -> str:
        """By the label, which no other study has."""
        return f"{' '.join(self._kubectl)} delete job --selector={STUDY}={self._job.name}"

    async def _items(self) -> list[dict[str, Any]]:
        selector = f"--selector={STUDY}={self._job.name}"
        text = await output_of(*self._kubectl, "get", "jobs,pods", selector, "--output=json")
        items: list[dict[str, Any]] = json.loads(text)["items"]
        return items

    def _manifest(self, blocks: Sequence[int]) -> dict[str, Any]:
        job = self._job
        labels = {"app.kubernetes.io/name": "mydyno", STUDY: job.name}
        # Matches pods of any study: two on one node would disturb each other.
        mydyno = {"app.kubernetes.io/name": labels["app.kubernetes.io/name"]}
        any_study = {"labelSelector": {"matchLabels": mydyno}, "topologyKey": "kubernetes.io/hostname"}
        command = (
            f"set -- {' '.join(map(str, blocks))}; shift $JOB_COMPLETION_INDEX; "
            f'exec {job.program} block {shlex.quote(str(self._study))} --block "$1" --group "$NODE_NAME"'
        )
        data = job.data or POD_DATA
        container = {
            "name": "block",
            "image": job.option("image"),
            "command": ["/bin/sh", "-c", command],
            "env": [
                {"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
                {"name": "MYDYNO_DATA", "value": data},
            ],
            "volumeMounts": [
                {"name": "studies", "mountPath": str(self._study.parent)},
                {"name": "data", "mountPath": data},
            ],
        }
        return {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": job.name, "labels": labels, "annotations": {BLOCKS: json.dumps(list(blocks))}},
            "spec": {
                "completionMode": "Indexed",
                "completions": len(blocks),
                "parallelism": int(job.option("parallel") or len(blocks)),
                "backoffLimitPerIndex": ATTEMPTS - 1,
                "podReplacementPolicy": "Failed",
                "podFailurePolicy": {
                    "rules": [
                        {"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [2]}},
                        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
                    ]
                },
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {
                        "restartPolicy": "Never",
                        "activeDeadlineSeconds": job.limit_s,
                        "terminationGracePeriodSeconds": 90,
                        "affinity": {
                            "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [any_study]}
                        },
                        "containers": [container],
                        "volumes": [
                            {"name": "studies", "persistentVolumeClaim": {"claimName": job.option("claim")}},
                            {"name": "data", "emptyDir": {}},
                        ],
                    },
                },
            },
        }


def _task(block: int, index: int, status: dict[str, Any], pod: dict[str, Any] | None) -> Task:
    ended = {one["type"]: one for one in status.get("conditions", []) if one["status"] == "True"}
    of_pod = {} if pod is None else pod["status"]
    name, node = ("", "") if pod is None else (_name(pod), pod["spec"].get("nodeName", ""))
    why = _why(of_pod)
    if index in numbers_of(status.get("completedIndexes", "")):
        return Task(block, "succeeded", "Succeeded", node, name)
    if index in numbers_of(status.get("failedIndexes", "")) or "Failed" in ended:
        of_job = ended.get("Failed", {}).get("reason", "")
        return Task(block, "failed", _words("Failed", why or of_job), node, name)
    if of_pod.get("phase") == "Running":
        return Task(block, "running", "Running", node, name)
    # A pod that has failed or was removed is made again.
    return Task(block, "waiting", _words("Pending", why), node, name)


def _why(status: dict[str, Any]) -> str:
    """Why a pod waits or has failed; empty if it does not say."""
    for container in status.get("containerStatuses", []):
        state = container.get("state", {})
        if "terminated" in state:
            ended = state["terminated"]
            return f"{ended.get('reason', 'Error')}, exit code {ended['exitCode']}"
        if "waiting" in state:
            return str(state["waiting"].get("reason", ""))
    unmet = [one.get("reason", "") for one in status.get("conditions", []) if one["status"] == "False"]
    return str(status.get("reason", "")) or next(filter(None, unmet), "")


def _words(state: str, why: str) -> str:
    return f"{state} ({why})" if why else state


def _name(item: dict[str, Any]) -> str:
    return str(item["metadata"]["name"])


def _label(item: dict[str, Any], name: str) -> str:
    return str(item["metadata"]["labels"][name])


def _created(item: dict[str, Any]) -> str:
    return str(item["metadata"]["creationTimestamp"])
