"""Two commits of a repository as the only arms of an experiment: what `mydyno gate --base REF --head REF` compares."""

from __future__ import annotations

from typing import Any

from mydyno.errors import UserError
from mydyno.model.definition.experiment import ArmSpec, Experiment
from mydyno.model.definition.source_build import BuildSpec

BASE, HEAD = "base", "head"


def with_commits(experiment: Experiment, base: str, head: str) -> Experiment:
    """The experiment with the arms BASE, which is the control, and HEAD; both have the treatments of its control.

    Raises UserError if the control is not built from a git repository, for a wrong ref, and where a threshold or
    comparison of the experiment names other arms.
    """
    control = experiment.arm(experiment.control)
    server = control.treatments.get("server")
    build = server.get("build") if isinstance(server, dict) else None
    if not isinstance(build, dict) or not build.get("git"):
        raise UserError(
            f"--base, --head: the control {control.name} of {experiment.name} is not built from a git repository",
            'set server.build = { git = "…", command = "…" }, and no other server for this arm',
        )
    if base == head:
        raise UserError(f"--base and --head are the same commit, {base}")

    def arm(name: str, ref: str) -> ArmSpec:
        try:
            BuildSpec.model_validate({**build, "ref": ref})
        except ValueError:
            raise UserError(f"--{name} {ref!r}: not a commit, tag or branch") from None
        treatments: dict[str, Any] = {**control.treatments, "server": {"build": {**build, "ref": ref}}}
        return ArmSpec(name=name, treatments=treatments, instances=control.instances)

    named = {name for limit in experiment.thresholds for name in limit.arms}
    named |= {name for compare in experiment.verdict.compare for name in (*compare.arms, compare.control)}
    if other := sorted(named - {BASE, HEAD}):
        raise UserError(
            f"--base, --head: {experiment.name} has thresholds or comparisons of other arms: {', '.join(other)}",
            f"the arms are {BASE}, the control, and {HEAD}",
        )
    return experiment.model_copy(update={"control": BASE, "arms": (arm(BASE, base), arm(HEAD, head))})
