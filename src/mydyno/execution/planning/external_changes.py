"""What a study would set on a server that others use, and back to what: read from the server, nothing is changed."""

from __future__ import annotations

from dataclasses import replace

from mydyno.errors import ServerError, UserError
from mydyno.execution.planning.forecast import Forecast
from mydyno.model.definition.experiment import Experiment
from mydyno.servers.dsn import place_of
from mydyno.servers.external_variables import reading
from mydyno.servers.my_cnf import option_value
from mydyno.servers.sql import Control
from mydyno.treatments.dsn import address_of
from mydyno.treatments.switching import switched_names, switched_variables

MOST_LETTERS = 40
"""Of a value that is printed; an optimizer_switch has hundreds."""


async def with_external_changes(expected: Forecast, experiment: Experiment) -> Forecast:
    """The forecast with the present and the arms' values of each variable; an obstacle where they cannot be read."""
    settings = switched_variables(experiment)
    names = switched_names(experiment)
    if experiment.server.dsn is None or not names:
        return expected
    try:
        address = address_of(experiment.arm(experiment.control), experiment.server)
        async with Control(address) as control:
            version = await control.scalar("SELECT VERSION()")
            (values,) = await control.rows(reading(names))
    except (ServerError, UserError) as error:
        return replace(expected, obstacles=(*expected.obstacles, f"server.dsn: {error.message}"))
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
