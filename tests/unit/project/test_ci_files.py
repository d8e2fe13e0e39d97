"""The workflow files of docs/guides/ci: parsed, and their steps executed in a clone, on simulated studies.

Not executed: `uses:` steps of GitHub, and the installation of mydyno (the variable INSTALL_COMMAND is `true` here, or
its `uv` a script that prints its arguments; MYDYNO is this source).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
import yaml

from mydyno.evaluation.facts import summarise
from mydyno.files.atomic import write_text
from mydyno.model.definition.experiment import ThresholdSpec
from mydyno.model.stored.records import StudyRecord
from tests.support import ROOT, first_in_gate
from tests.support.fake_study_folder import Shape, build
from tests.support.memcached_commits import commit, git, new_repository

pytestmark = pytest.mark.slow

FOLDER = ROOT / "docs/guides/ci"
PASSED_ON = ("OPENBLAS_NUM_THREADS", "PYTHONPYCACHEPREFIX")
LIMITS = {0: -0.05, 4: 0.05, 5: 0.0}
"""Exit code → how far the limit is from the effect that the study has."""


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clone of the repository with a study for each exit code, named by it."""
    folder = tmp_path_factory.mktemp("clone") / "work"
    subprocess.run(["git", "clone", "--quiet", "--depth=1", f"file://{ROOT}", str(folder)], check=True)
    for code, limit in LIMITS.items():
        shape = Shape(arms=("glibc", "mimalloc"), workloads=("oltp_read_only",), connections=(16,), blocks=8,
                      warmup_s=1, measure_s=3)  # fmt: skip
        study = build(folder / "studies" / f"code-{code}", shape)
        record = study.study()
        (effect,) = (one for one in summarise(study).effects if one.metric == "qps")
        assert effect.ratio is not None
        threshold = ThresholdSpec(metric="qps", limit=effect.ratio - 1.0 + limit)
        declared = record.experiment.model_copy(update={"thresholds": (threshold,)})
        changed: StudyRecord = record.model_copy(update={"experiment": declared})
        write_text(study.path / "study.json", changed.model_dump_json(by_alias=True, indent=1))
    return folder


def environment(clone: Path, own: dict[str, Any], code: int) -> dict[str, str]:
    """What the job's steps see: the file's own variables, with the installed program replaced by the clone's source."""
    plain = {name: os.environ[name] for name in ("PATH", "HOME", *PASSED_ON) if name in os.environ}
    replaced = {
        "MYDYNO": f"{sys.executable} -m mydyno.cli",
        "INSTALL_COMMAND": "true",
        "EXPERIMENT": f"code-{code}",
        "BASE": "",
        "PYTHONPATH": str(ROOT / "src"),
        "GITHUB_STEP_SUMMARY": str(clone / "summary.md"),
        "LANG": "C.UTF-8",
    }
    assert {"MYDYNO", "INSTALL_COMMAND", "EXPERIMENT", "BASE"} <= set(own)
    return {**plain, **{name: str(value) for name, value in own.items()}, **replaced}


def execute(script: str, clone: Path, variables: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """A step as both services run it: a new bash that ends at the first error."""
    command = ["bash", "-e", "-o", "pipefail", "-c", script]
    return subprocess.run(command, cwd=clone, env=variables, capture_output=True, text=True, check=False)


def check_files(clone: Path, code: int) -> None:
    suites = ET.parse(clone / "gate.xml").getroot()
    assert (suites.get("failures"), suites.get("errors")) == {0: ("0", "0"), 4: ("1", "0"), 5: ("0", "1")}[code]
    assert "| limit |" in (clone / "gate.md").read_text()
    assert "allocators: mimalloc against glibc, oltp_read_only-16" in json.loads((clone / "gate.json").read_text())
    for name in ("gate.xml", "gate.md", "gate.json"):
        (clone / name).unlink()


def test_the_github_workflow_has_what_github_needs() -> None:
    workflow = yaml.safe_load((FOLDER / "github.yml").read_text())
    assert workflow[True] == "pull_request", "YAML reads the key `on` as true"
    job = workflow["jobs"]["gate"]
    assert workflow["permissions"] == {"contents": "read"}
    assert {tuple(sorted({"uses", "run"} & set(step))) for step in job["steps"]} == {("uses",), ("run",)}
    assert [step["if"] for step in job["steps"] if step.get("name") in ("Summary", "Keep the results")] == [
        "always()",
        "always()",
    ]


@pytest.mark.parametrize(
    ("code", "on_undecided"),
    first_in_gate([(0, "fail"), (4, "fail"), (5, "fail"), (5, "warn"), (0, "warn"), (4, "warn")], 2),
)
def test_the_steps_of_the_github_workflow(clone: Path, code: int, on_undecided: str) -> None:
    job = yaml.safe_load((FOLDER / "github.yml").read_text())["jobs"]["gate"]
    variables = {**environment(clone, job["env"], code), "ON_UNDECIDED": on_undecided}
    done = {
        step["name"]: execute(step["run"], clone, variables)
        for step in job["steps"]
        if "run" in step
    }  # fmt: skip
    assert done["Install mydyno"].returncode == 0
    expected = 0 if code == 5 and on_undecided == "warn" else code
    assert done["Gate"].returncode == expected, done["Gate"].stdout + done["Gate"].stderr
    assert ("::warning" in done["Gate"].stdout) == (code == 5 and on_undecided == "warn")
    assert done["Summary"].returncode == 0
    assert (clone / "summary.md").read_text() == (clone / "gate.md").read_text()
    (clone / "summary.md").unlink()
    check_files(clone, code)


@pytest.mark.parametrize("code", first_in_gate(LIMITS))
def test_the_script_of_the_gitlab_job(clone: Path, code: int) -> None:
    job = yaml.safe_load((FOLDER / "gitlab.yml").read_text())["performance-gate"]
    assert job["allow_failure"] == {"exit_codes": [5]}
    assert job["artifacts"]["reports"]["junit"] == "gate.xml"
    assert job["artifacts"]["when"] == "always"
    script = "\n".join([*job["before_script"], *job["script"]])
    done = execute(script, clone, environment(clone, job["variables"], code))
    assert done.returncode == code, done.stdout + done.stderr
    check_files(clone, code)


def gate_step(service: str) -> tuple[dict[str, str], str]:
    """A service's variables, and its step with the gate."""
    if service == "gitlab":
        job = yaml.safe_load((FOLDER / "gitlab.yml").read_text())["performance-gate"]
        assert job["variables"]["GIT_DEPTH"] == "0"
        return job["variables"], "\n".join(job["script"])
    job = yaml.safe_load((FOLDER / "github.yml").read_text())["jobs"]["gate"]
    (checkout,) = (step for step in job["steps"] if step.get("uses", "").startswith("actions/checkout"))
    assert checkout["with"] == {"fetch-depth": 0}
    (script,) = (step["run"] for step in job["steps"] if step.get("name") == "Gate")
    return job["env"], script


EXPERIMENT = """name = "request"
question = "Is the request slower?"
server.build = { git = ".", command = "echo its own output; exit 3" }
data.workload = "kv"
arms = { control = "now", now = {} }
steps = [{ workload = "kv_get" }]
thresholds.qps = "no worse than -2%"
"""


@pytest.mark.parametrize("service", ["github", "gitlab"])
def test_the_gate_builds_the_base_of_a_request_from_the_checkout(tmp_path: Path, service: str) -> None:
    """As far as its first build, which fails here."""
    repository = new_repository(tmp_path / "repository")
    (repository / "memcached.c").write_text("int main(void) { return 0; }\n")
    (repository / "gate.toml").write_text(EXPERIMENT)
    base = commit(repository, "Begin")
    git(repository, "checkout", "--quiet", "-b", "request")
    commit(repository, "Change")
    git(repository, "checkout", "--quiet", "--detach", "main")
    git(repository, "merge", "--quiet", "--no-ff", "--message", "Merge", "request")
    probe = tmp_path / "engine/dynoprobe"
    probe.parent.mkdir()
    probe.write_text('#!/bin/sh\necho \'{"record":"sample"}\'\n')
    probe.chmod(0o755)
    own, script = gate_step(service)
    variables = {**environment(tmp_path, own, 0), "EXPERIMENT": "gate.toml", "BASE": own["BASE"],
                 "CI_MERGE_REQUEST_DIFF_BASE_SHA": base, "MYDYNO_CACHE": str(tmp_path / "cache"),
                 "MYDYNO_ENGINE": str(probe.parent), "MYDYNO_TEST_STUDY_LOCK": f"mydyno-test{tmp_path}"}  # fmt: skip
    if service == "gitlab":  # which replaces variables in variables
        variables["BASE"] = variables["BASE"].replace("$CI_MERGE_REQUEST_DIFF_BASE_SHA", base)
    done = execute(script, repository, variables)
    assert done.returncode == 3, done.stdout + done.stderr
    assert f"the build repository-{base[:12]}-" in done.stderr
    assert "| its own output" in done.stderr


def jobs() -> dict[str, tuple[dict[str, str], str]]:
    """Each service's variables, and its step that installs mydyno."""
    github = yaml.safe_load((FOLDER / "github.yml").read_text())["jobs"]["gate"]
    (install,) = (step["run"] for step in github["steps"] if step.get("name") == "Install mydyno")
    gitlab = yaml.safe_load((FOLDER / "gitlab.yml").read_text())["performance-gate"]
    return {"github": (github["env"], install), "gitlab": (gitlab["variables"], "\n".join(gitlab["before_script"]))}


@pytest.mark.parametrize("service", ["github", "gitlab"])
def test_mydyno_is_installed_from_a_folder_because_no_index_has_it(tmp_path: Path, service: str) -> None:
    own, script = jobs()[service]
    uv = tmp_path / "bin/uv"
    uv.parent.mkdir()
    uv.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    uv.chmod(0o755)
    packages = str(tmp_path / "files of a release")
    path = f"{uv.parent}:{os.environ['PATH']}"
    done = execute(script, tmp_path, {**own, "MYDYNO_PACKAGES": packages, "PATH": path})
    assert done.stdout.splitlines() == ["tool", "install", "--find-links", packages, "mydyno"], done.stderr
