"""What a study whose blocks several hosts execute cannot do."""

from __future__ import annotations

from collections.abc import Sequence

from mydyno.errors import UserError
from mydyno.execution.planning.load_host_obstacles import load_host_obstacles
from mydyno.model.definition.experiment import Experiment
from mydyno.model.definition.host_groups import HostGroup
from mydyno.treatments.server import server_of


def check_server(experiment: Experiment, asked: str, instead: str) -> None:
    """Raises UserError for a server that several hosts cannot have. `asked`: by the user; `instead`: what to do."""
    if experiment.server.dsn is not None:
        raise UserError(
            f"{asked}: an external server (server.dsn) is one server; blocks on several hosts would load it together",
            f"{instead}, or use server.name",
        )
    if any(server_of(arm, experiment.server).build is not None for arm in experiment.arms):
        raise UserError(
            f"{asked}: a server built from source (server.build) is built and run on this host alone",
            f"{instead}; or build it, pack it as a tar archive, and use `mydyno servers add` on each host",
        )


def check_groups(experiment: Experiment, groups: Sequence[HostGroup]) -> None:
    """Raises UserError for what a study over host groups cannot do."""
    check_server(experiment, "--hosts", "leave --hosts out")
    with_clients = [group.name for group in groups if group.load_hosts is not None]
    if with_clients and len(with_clients) < len(groups):
        alone = next(group.name for group in groups if not group.clients)
        raise UserError(
            f"--hosts: the group {with_clients[0]} has clients, the group {alone} has none",
            "one study has one way to load its servers: name clients in every [[group]] or in none",
        )
    obstacles = load_host_obstacles(experiment) if with_clients else []
    if obstacles:
        raise UserError(
            "--hosts: the load cannot come from client hosts:\n  " + "\n  ".join(obstacles),
            "remove `clients` from the [[group]] tables, or change the experiment",
        )
