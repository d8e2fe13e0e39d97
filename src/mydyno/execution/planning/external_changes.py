"""What a study would set on a server that others use, and back to what: read from the server, nothing is changed."""

from __future__ import annotations

from dataclasses import replace

from mydyno.errors import ServerError, UserError
from mydyno.execution.external_writes import load_writes, schemas_of
from mydyno.execution.planning.forecast import Forecast
from mydyno.hosts.paths import HostPaths
from mydyno.language import listing
from mydyno.model.definition.experiment import Experiment
from mydyno.servers.dsn import place_of
from mydyno.servers.external_variables import reading
from mydyno.servers.my_cnf import option_value
from mydyno.servers.sql import Control
from mydyno.treatments.dsn import addresses_of, places_of
from mydyno.treatments.switching import switched_names, switched_variables
from mydyno.workloads.files import file_of

MOST_LETTERS = 40
"""Of a value that is printed; an optimizer_switch has hundreds."""


async def with_external_changes(expected: Forecast, experiment: Experiment) -> Forecast:
    """The forecast with the present and the arms' values of each variable; an obstacle where they cannot be read."""
    settings = switched_variables(experiment)
    names = switched_names(experiment)
    if experiment.server.dsn is None or not names:
        return expected
    try:
        address = addresses_of(experiment.arm(experiment.control), experiment.server)[0]
        async with Control(address) as control:
            version = await control.scalar("SELECT VERSION()")
            (values,) = await control.rows(reading(names))
    except (ServerError, UserError) as error:
        return expected.with_obstacle(f"server.dsn: {error.message}")
    changes = []
    for name, now in zip(names, values, strict=True):
        of_arms = [f"{option_value(own[name])} ({arm})" for arm, own in settings.items() if name in own]
        former = f"{now}" if len(str(now)) <= MOST_LETTERS else "what it is"
        changes.append(f"{name} from {former} to {', '.join(of_arms)}")
    words = (
        f"on {place_of(experiment.server.dsn)} ({version}), before each slice: {'; '.join(changes)}; set back after "
        "each block, however the study ends, and by `mydyno clean` after kill -9; needs --allow-changes"
    )
    return replace(expected, host_changes=(words,))


def planned_writes(expected: Forecast, experiment: Experiment, paths: HostPaths) -> Forecast:
    """The forecast with what would be written to an external server, as changes; an obstacle where it must not be."""
    if experiment.server.dsn is None:
        return expected
    data = experiment.data
    places = listing(places_of(experiment))
    schemas = listing(schemas_of(experiment))
    lines = []
    if data.sql is not None:
        lines.append(f"where the schema {schemas} is empty, the data of {file_of(data).name} are loaded into it")
    try:
        lines += [one.words for one in load_writes(experiment, paths)]
    except UserError as error:
        return expected.with_obstacle(error.message)
    if not lines:
        return expected
    return expected.with_change(f"on {places}: {'; '.join(lines)}; needs --allow-writes")
