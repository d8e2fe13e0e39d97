"""Kubernetes: the manifest as a golden file, and a kubectl whose items are as the schemas of batch/v1 and v1 have them.

The schemas are those of 1.29, the oldest with each field on by default: later ones of version 1 keep them.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from mydyno.errors import HostError, UserError
from mydyno.fleet.batch.kubernetes import Kubernetes
from mydyno.fleet.batch.system import Task
from mydyno.model.definition.host_groups import BatchJob
from tests.support import DATA
from tests.support.golden import check_golden

NAME = "mydyno-allocators-20261123t120000z-5a1e"
JOB = BatchJob(
    system="kubernetes",
    name=NAME,
    limit_s=1140,
    program="mydyno",
    options=("image=registry/mydyno:1", "claim=studies", "parallel=4", "namespace=bench"),
)
STUDY = Path("/shared/studies/allocators-20261123T120000Z")
SCHEMAS = DATA / "kubernetes-1.29.json"
KUBECTL = """\
import json, pathlib, sys
from jsonschema import Draft202012Validator
folder = pathlib.Path(__file__).parent
with (folder / "calls").open("a") as calls:
    calls.write(" ".join(sys.argv[1:]) + "\\n")
state = folder / "state.json"
items = json.loads(state.read_text()) if state.exists() else []
if "apply" in sys.argv:
    job = json.loads(pathlib.Path(sys.argv[-1]).read_text())
    schema = json.loads(pathlib.Path(SCHEMAS).read_text()) | {"$ref": "#/$defs/Job"}
    for error in Draft202012Validator(schema).iter_errors(job):
        sys.exit(f"Error from server (BadRequest): {error.message}")
    job["metadata"]["creationTimestamp"] = f"2026-11-23T12:00:{len(items):02d}Z"
    state.write_text(json.dumps([*items, job]))
elif "get" in sys.argv:
    print(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
elif "logs" in sys.argv:
    print("mydyno: error: no disk") if sys.argv[-1] == "pod-2" else sys.exit('Error from server (NotFound): pods')
"""


def errors(item: dict[str, Any]) -> list[str]:
    """What an API server would refuse of a job or a pod."""
    schema = json.loads(SCHEMAS.read_text()) | {"$ref": f"#/$defs/{item['kind']}"}
    return [error.message for error in Draft202012Validator(schema).iter_errors(item)]


class Cluster:
    """What the fake kubectl reads."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "kubectl").write_text(f"#!{sys.executable}\nSCHEMAS = {str(SCHEMAS)!r}\n{KUBECTL}")
        (folder / "kubectl").chmod(0o755)

    def jobs(self) -> list[dict[str, Any]]:
        items: list[dict[str, Any]] = json.loads((self.folder / "state.json").read_text())
        return items

    def has(self, *items: dict[str, Any]) -> None:
        assert not [error for item in items for error in errors(item)]
        (self.folder / "state.json").write_text(json.dumps(items))


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return Cluster(tmp_path)


def pod(index: int, second: int, status: dict[str, Any], job: str = NAME) -> dict[str, Any]:
    labels = {"batch.kubernetes.io/job-name": job, "batch.kubernetes.io/job-completion-index": str(index)}
    metadata = {"name": f"pod-{second}", "labels": labels, "creationTimestamp": f"2026-11-23T12:01:{second:02d}Z"}
    node = {} if status["phase"] == "Pending" else {"nodeName": f"node{index}"}
    spec = {"containers": [{"name": "block"}], **node}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}


def block_in(state: dict[str, Any]) -> list[dict[str, Any]]:
    image = {"image": "registry/mydyno:1", "imageID": ""}
    return [{"name": "block", **image, "ready": False, "restartCount": 0, "state": state}]


def ended(code: int, reason: str = "Error") -> dict[str, Any]:
    containers = block_in({"terminated": {"exitCode": code, "reason": reason}})
    return {"phase": "Failed" if code else "Succeeded", "containerStatuses": containers}


def test_the_manifest_is_as_the_golden_file_and_the_schema() -> None:
    text = Kubernetes(STUDY, JOB).text(range(1, 11))
    check_golden("kubernetes.json", text)
    assert errors(json.loads(text)) == []
    assert errors(json.loads(text.replace("backoffLimitPerIndex", "backoffLimitPerindex"))) == [
        "Additional properties are not allowed ('backoffLimitPerindex' was unexpected)"
    ]


async def test_a_manifest_that_the_api_refuses_is_an_error(cluster: Cluster) -> None:
    wrong = JOB.model_copy(update={"limit_s": "1140"})
    with pytest.raises(HostError, match="is not of type 'integer'"):
        await Kubernetes(cluster.folder, wrong).submit([1], ())


def test_pods_of_two_studies_never_share_a_node() -> None:
    pod_spec = json.loads(Kubernetes(STUDY, JOB).text([1]))["spec"]["template"]["spec"]
    (term,) = pod_spec["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert term["labelSelector"] == {"matchLabels": {"app.kubernetes.io/name": "mydyno"}}


def test_data_is_on_a_volume_of_the_node() -> None:
    pod_spec = json.loads(Kubernetes(STUDY, JOB).text([1]))["spec"]["template"]["spec"]
    (container,) = pod_spec["containers"]
    (data,) = [one["value"] for one in container["env"] if one["name"] == "MYDYNO_DATA"]
    (name,) = [one["name"] for one in container["volumeMounts"] if one["mountPath"] == data]
    assert {"name": name, "emptyDir": {}} in pod_spec["volumes"]


async def test_each_submission_is_a_job_of_its_own(cluster: Cluster) -> None:
    kubernetes = Kubernetes(cluster.folder, JOB)
    assert await kubernetes.submit([1, 2, 3], ()) == f"job {NAME}"
    assert await kubernetes.submit([3, 7], ()) == f"job {NAME}-2"
    second = cluster.jobs()[1]
    command = second["spec"]["template"]["spec"]["containers"][0]["command"][-1]
    assert command.startswith("set -- 3 7; shift $JOB_COMPLETION_INDEX; exec mydyno block ")
    tasks = await kubernetes.tasks([1, 2, 3, 7])
    assert {block: (task.phase, task.state) for block, task in tasks.items()} == dict.fromkeys(
        (1, 2, 3, 7), ("waiting", "Pending")
    )
    calls = (cluster.folder / "calls").read_text().splitlines()
    assert calls[1] == f"--namespace=bench apply --filename {cluster.folder}/kubernetes.json"
    assert calls[-1] == f"--namespace=bench get jobs,pods --selector=mydyno/study={NAME} --output=json"
    assert kubernetes.cancel_command() == f"kubectl --namespace=bench delete job --selector=mydyno/study={NAME}"


async def test_tasks_are_those_of_the_jobs_status_and_of_the_latest_pods(cluster: Cluster) -> None:
    kubernetes = Kubernetes(cluster.folder, JOB)
    await kubernetes.submit(range(1, 8), ())
    (job,) = cluster.jobs()
    job["status"] = {"active": 3, "completedIndexes": "0-1", "failedIndexes": "5"}
    unschedulable = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    pulling = block_in({"waiting": {"reason": "ImagePullBackOff"}})
    cluster.has(
        job,
        pod(0, 1, ended(0, "Completed")),
        pod(2, 2, ended(137, "OOMKilled")),
        pod(2, 3, {"phase": "Running"}),
        pod(3, 4, {"phase": "Pending", "conditions": [unschedulable]}),
        pod(4, 5, {"phase": "Pending", "containerStatuses": pulling}),
        pod(5, 6, ended(2)),
        pod(6, 7, ended(3)),
    )
    tasks = await kubernetes.tasks(range(1, 8))
    assert {block: (task.phase, task.state, task.node, task.log) for block, task in tasks.items()} == {
        1: ("succeeded", "Succeeded", "node0", "pod-1"),
        2: ("succeeded", "Succeeded", "", ""),
        3: ("running", "Running", "node2", "pod-3"),
        4: ("waiting", "Pending (Unschedulable)", "", "pod-4"),
        5: ("waiting", "Pending (ImagePullBackOff)", "", "pod-5"),
        6: ("failed", "Failed (Error, exit code 2)", "node5", "pod-6"),
        7: ("waiting", "Pending (Error, exit code 3)", "node6", "pod-7"),
    }


async def test_a_job_that_has_failed_makes_no_more_pods(cluster: Cluster) -> None:
    kubernetes = Kubernetes(cluster.folder, JOB)
    await kubernetes.submit([1, 2], ())
    (job,) = cluster.jobs()
    failed = {"type": "Failed", "status": "True", "reason": "DeadlineExceeded"}
    job["status"] = {"completedIndexes": "0", "conditions": [failed]}
    cluster.has(job)
    tasks = await kubernetes.tasks([1, 2])
    assert [(task.phase, task.state) for task in tasks.values()] == [
        ("succeeded", "Succeeded"),
        ("failed", "Failed (DeadlineExceeded)"),
    ]


async def test_the_log_is_that_of_the_pod_while_it_is_there(cluster: Cluster) -> None:
    kubernetes = Kubernetes(cluster.folder, JOB)
    assert await kubernetes.log(Task(2, "failed", "", log="pod-2")) == "mydyno: error: no disk\n"
    assert await kubernetes.log(Task(2, "failed", "", log="pod-3")) == ""
    assert await kubernetes.log(Task(2, "failed", "")) == ""


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("image=x",), "needs --on-option claim=NAME"),
        (("claim=x",), "needs --on-option image=NAME"),
        (("image=x", "claim=y", "partition=bench"), "not an option of --on kubernetes"),
        (("image",), "not an option of --on kubernetes"),
    ],
)
def test_options_that_are_missing_or_wrong(options: tuple[str, ...], words: str) -> None:
    with pytest.raises(UserError, match=words):
        Kubernetes(Path(), JOB.model_copy(update={"options": options})).check()


def test_a_host_without_kubectl(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(HostError, match="--on kubernetes: there is no kubectl in PATH"):
        Kubernetes(Path(), JOB).check()
