"""`mydyno clean --hosts`: the same on other hosts."""

from __future__ import annotations

import asyncio

import typer

from mydyno.cli.exit_codes import ExitCode
from mydyno.cli.hosts import on_all
from mydyno.errors import HostError
from mydyno.execution.environments.environment import Say
from mydyno.fleet.groups import parse_hosts
from mydyno.fleet.installation import ensure_installed
from mydyno.hosts.remote.ssh import SshHost

CLEAN_TIMEOUT_S = 300.0


def clean_hosts(hosts: str, templates: bool) -> None:
    """Run `mydyno clean` on each host but this one, and print what it did."""

    async def clean(host: SshHost, say: Say) -> tuple[int, str]:
        say("cleaning")
        start = await ensure_installed(host)
        done = await host.run([start, "clean", *(["--templates"] if templates else [])], timeout_s=CLEAN_TIMEOUT_S)
        return done.exit_code, done.output.strip()

    results = asyncio.run(
        on_all(parse_hosts(hosts), clean, lambda _: (0, "this host: run mydyno clean without --hosts"))
    )
    worst = 0
    for (address, _), result in results.items():
        if isinstance(result, HostError):
            worst = ExitCode.HOST_CANNOT
            print(f"{address}: {result}")
            continue
        code, output = result
        worst = worst or code
        print("\n".join(f"{address}: {line}" for line in output.splitlines()))
    if worst:
        raise typer.Exit(worst)
