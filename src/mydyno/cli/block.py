"""`mydyno block STUDY --block N`: one block of a study on this host, for a controller, Slurm or Kubernetes."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Annotated, Any

import typer

from mydyno.cli import ExitCode, arguments, cancel_on_signals, exit_code_of
from mydyno.cli.streams import warn
from mydyno.errors import HostError, MydynoError, UserError
from mydyno.fleet.messages import LINE_LIMIT_BYTES
from mydyno.hosts.paths import HostPaths
from mydyno.model.definition.host_groups import LoadHosts, address_problem
from mydyno.store.study_folder import StudyFolder

END_S = 3.0
"""For asyncio to end what is left of its tasks and threads, after the host is restored."""


def block(
    study: Annotated[str, typer.Argument(help="A folder with study.json and plan.json.", metavar="STUDY")],
    number: Annotated[int | None, typer.Option("--block", help="The block to execute.", min=1, metavar="N")] = None,
    prepare: Annotated[
        bool, typer.Option("--prepare", help="Fetch the servers and create the data that blocks need, then exit.")
    ] = False,
    length: Annotated[
        str | None,
        typer.Option(
            help="Length of an interleaved block, e.g. 60s; it has as many cycles as fit (default: the experiment's "
            "number).",
            metavar="DURATION",
        ),
    ] = None,
    washout: Annotated[
        str | None, typer.Option(help="Load before each measured slice (default: design.washout).", metavar="DURATION")
    ] = None,
    skip_arm: Annotated[
        list[str] | None, typer.Option("--skip-arm", help="Do not start this arm. Repeatable.", metavar="ARM")
    ] = None,
    group: Annotated[str, typer.Option(help="Name of the host group, recorded in each run.", metavar="NAME")] = "",
    heartbeat: Annotated[
        str | None,
        typer.Option(
            help="Stop and undo all changes if standard input closes, or sends nothing for this time. Default: input "
            "is not read.",
            metavar="DURATION",
        ),
    ] = None,
    load_hosts: Annotated[
        list[str] | None,
        typer.Option(
            "--load-host",
            help="A host that generates the load; the controller connects it through standard input. Repeatable.",
            metavar="NAME",
        ),
    ] = None,
    listen: Annotated[
        str | None,
        typer.Option(help="The IP address of this host at which load hosts reach its servers.", metavar="ADDRESS"),
    ] = None,
    data: arguments.Data = None,
    allow_writes: arguments.AllowWrites = False,
    verbose: arguments.Verbose = False,
) -> None:
    """Execute one block of a study on this host (for `run --hosts`, Slurm and Kubernetes). Progress and result are JSON
    lines on standard output.
    """
    if prepare == (number is not None):
        raise UserError("one of --block N and --prepare is needed", "--prepare once on each host, then --block N")
    path = Path(study)
    length_s = arguments.duration_s(length, "--length")
    washout_s = arguments.duration_s(washout, "--washout")
    silence_s = arguments.duration_s(heartbeat, "--heartbeat")
    hosts = _load_hosts(load_hosts, listen, heartbeat)
    record = StudyFolder.open(path).study()
    paths = HostPaths.resolve(data, allow_writes)
    # After the check, so that mistakes are reported at once: what a study needs takes a third of a second to load.
    from mydyno.execution.interleaved.order import BlockOrder
    from mydyno.fleet.block import execute_block, prepare_host  # the same
    from mydyno.fleet.block_clients import BlockClients

    clients = None if hosts is None else BlockClients(hosts, _emit)
    if number is None:
        work = prepare_host(record, path, paths, _emit, clients=clients)
    else:
        order = BlockOrder(number, length_s, washout_s, frozenset(skip_arm or ()))
        work = execute_block(path, order, paths, _emit, clients=clients, group=group)
    try:
        asyncio.run(_watched(work, silence_s, (lambda _line: None) if clients is None else clients.take))
    except asyncio.CancelledError:
        warn("mydyno: interrupted; the host is restored")
        raise typer.Exit(ExitCode.INTERRUPTED) from None
    except OSError as error:
        raise HostError(f"{error.strerror or error}: {error.filename or 'while the block ran'}") from error


def _load_hosts(names: list[str] | None, listen: str | None, heartbeat: str | None) -> LoadHosts | None:
    if not names and listen is None:
        return None
    if not names or listen is None:
        raise UserError("--load-host and --listen belong together")
    if heartbeat is None:
        raise UserError("--load-host needs --heartbeat", "the controller starts the load's programs: see `run --hosts`")
    problem = address_problem(listen)
    if problem is not None:
        raise UserError(f"--listen {listen} {problem}", "allowed: an IP address of this host")
    return LoadHosts(names=tuple(names), address=listen)


def _emit(message: Any) -> None:
    """Print one line on standard output; that its reader has gone is seen from the end of standard input."""
    sys.stdout.write(message.model_dump_json() + "\n")
    sys.stdout.flush()


async def _watched(work: Coroutine[Any, Any, None], silence_s: float | None, take: Callable[[str], None]) -> None:
    """The work, cancelled by a signal, by the end of standard input and by its silence."""
    task = asyncio.ensure_future(work)
    cancel_on_signals(task)
    if silence_s is None:
        await task
        return
    listening = asyncio.ensure_future(_silence(silence_s, take))
    listening.add_done_callback(lambda _: task.cancel())  # harmless once the task is done
    try:
        await task
    except BaseException as error:
        # Everything is undone by now. A thread that still waits, as for a lock of the cache, cannot be cancelled, and
        # asyncio would wait for it: it must not keep the controller waiting.
        task.get_loop().call_later(END_S, _leave, error)
        raise
    finally:
        listening.cancel()


def _leave(error: BaseException) -> None:
    """End this process although a task or a thread of it does not."""
    warn(f"mydyno: error: {error}")
    os._exit(exit_code_of(error) if isinstance(error, MydynoError) else ExitCode.INTERRUPTED)


async def _silence(limit_s: float, take: Callable[[str], None]) -> None:
    """Passes lines on; returns when standard input has ended, or had no line for this time."""
    reader = asyncio.StreamReader(limit=LINE_LIMIT_BYTES)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    try:
        while line := await asyncio.wait_for(reader.readline(), limit_s):
            take(line.decode(errors="replace"))
    except (TimeoutError, ValueError):
        return
    finally:
        transport.close()
