"""Arguments that several commands share."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from mydyno.cli import streams
from mydyno.errors import UserError
from mydyno.model.definition.quantities import parse_duration_s


def check_file(option: typer.CallbackParam, path: Path | None) -> Path | None:
    """A file that is written in place. Raises UserError where it cannot be, before hours of load."""
    return _checked(option, path, path if path is not None and path.exists() else None)


def check_replaced(option: typer.CallbackParam, path: Path | None) -> Path | None:
    """The same of a file that is written aside and renamed: its folder has to be writable."""
    return _checked(option, path, None)


def _checked(option: typer.CallbackParam, path: Path | None, written: Path | None) -> Path | None:
    """`written`: what is opened for writing; None: the folder gets a new file."""
    if path is None:
        return None
    name, folder = option.opts[0], path.absolute().parent
    if path.is_dir():
        raise UserError(f"{name} {path}: is a folder")
    if not folder.is_dir():
        raise UserError(f"{name} {path}: there is no folder {path.parent}")
    if not os.access(written or folder, os.W_OK):
        raise UserError(f"{name} {path}: cannot be written")
    return path


Experiment = Annotated[
    str, typer.Argument(help="A built-in experiment's name, or the path of a TOML file.", metavar="EXPERIMENT")
]
Scale = Annotated[
    str | None,
    typer.Option(
        help="quick (minutes, wide intervals), standard (the file without overrides), published (that of the "
        "published study).",
        metavar="SCALE",
    ),
]
Overrides = Annotated[
    list[str] | None,
    typer.Option(
        "--set", help="Override any key of the experiment: --set design.blocks=5. Repeatable.", metavar="KEY=VALUE"
    ),
]
Blocks = Annotated[int | None, typer.Option(help="Short for --set design.blocks=N.", min=1, metavar="N")]
Time = Annotated[
    str | None,
    typer.Option(
        "--time",
        help="Time for the whole study, e.g. 10m: blocks and slices are fitted into it. Short for --set design.time=…",
        metavar="DURATION",
    ),
]
MoreTime = Annotated[
    str | None,
    typer.Option(
        "--time",
        help="Time to add, for example 30m: blocks are added up to the last interim analysis that fits.",
        metavar="DURATION",
    ),
]
Hosts = Annotated[
    str | None,
    typer.Option(
        help="Hosts that execute the blocks: local, bench@vm[01-20], a list of these, or a file.toml of host groups; "
        "prepare them with `mydyno hosts prepare`.",
        metavar="HOSTS",
    ),
]
On = Annotated[
    str | None,
    typer.Option(
        help="slurm or kubernetes: execute each block as a task of its own, with the studies folder on a file system "
        "that all nodes share. The tasks go on if this program ends; `mydyno resume` watches them.",
        metavar="SYSTEM",
    ),
]
OnOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--on-option",
        help="Slurm: a long option of sbatch, e.g. partition=bench. Kubernetes: image=… (with mydyno on its PATH), "
        "claim=… (the PersistentVolumeClaim of the studies folder), namespace=…. Both: parallel=N (the most blocks at "
        "the same time), program=… (how nodes start mydyno). Repeatable.",
        metavar="KEY=VALUE",
    ),
]
Data = Annotated[
    Path | None,
    typer.Option(
        help="Folder of templates and data directories, on the disk to be measured (default: in the cache).",
        metavar="DIR",
    ),
]
Studies = Annotated[Path, typer.Option(help="Folder of the studies.", metavar="DIR", callback=streams.use_studies)]
Study = Annotated[str, typer.Argument(help="A study's folder, or its name below the studies folder.", metavar="STUDY")]
AllowWrites = Annotated[
    bool,
    typer.Option(
        "--allow-writes",
        help="Permit writes to an external server (server.dsn): data into an empty schema, and those of the load.",
    ),
]
AllowChanges = Annotated[
    bool,
    typer.Option(
        "--allow-changes",
        help="Permit mydyno to set the arms' variables on an external server (server.dsn); they are set back.",
    ),
]
Wait = Annotated[
    bool, typer.Option("--wait", help="Begin when another study on this host has ended, instead of refusing.")
]
Trust = Annotated[
    bool,
    typer.Option(
        "--trust", help="Continue a study of another user, or one whose experiment names programs in its own folder."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON on standard output.")]
Verbose = Annotated[
    bool,
    typer.Option(
        "--verbose",
        "-v",
        help="Print each command as it is started, and debug messages, on stderr.",
        callback=streams.use_verbosity,
    ),
]
Serve = Annotated[
    bool,
    typer.Option(
        "--serve", help="Show the study in a browser while it runs: the URL is printed on stderr. Ends with the study."
    ),
]
OpenMetrics = Annotated[
    Path | None,
    typer.Option(
        "--openmetrics",
        help="Replace this file every second with the study's current figures, for a textfile collector.",
        metavar="FILE",
        callback=check_replaced,
    ),
]
Profile = Annotated[
    bool,
    typer.Option(
        "--profile", help="Profile the servers' CPU time with perf, in extra slices. Short for --set profile.cpu=true."
    ),
]
Waits = Annotated[
    bool,
    typer.Option(
        "--waits",
        help="Count what the servers wait for with performance_schema, in extra slices. "
        "Short for --set profile.waits=true.",
    ),
]
Kernel = Annotated[
    bool,
    typer.Option(
        "--kernel",
        help="Trace run-queue latency, futex waits, fsync and block I/O with bpftrace, in extra slices. "
        "Short for --set profile.kernel=true.",
    ),
]
DEFAULT_STUDIES = streams.DEFAULT_STUDIES


def all_settings(
    settings: list[str] | None,
    blocks: int | None,
    time: str | None = None,
    profile: bool = False,
    waits: bool = False,
    kernel: bool = False,
) -> list[str]:
    """--set, --blocks, --time, --profile, --waits and --kernel as one list.

    Raises UserError for both a time and a number of blocks.
    """
    if blocks is not None and time is not None:
        raise UserError("--blocks and --time exclude each other", "with --time the number of blocks is fitted into it")
    found = list(settings or ())
    if blocks is not None:
        found += [f"design.blocks={blocks}", 'design.time="none"']
    if time is not None:
        found.append(f"design.time={time}")
    kinds = {"cpu": profile, "waits": waits, "kernel": kernel}
    return found + [f"profile.{kind}=true" for kind, wanted in kinds.items() if wanted]


def given(context: typer.Context, names: str) -> str:
    """The options of these parameters that the user gave, in words; empty if there are none."""
    return ", ".join(
        option.opts[0]
        for option in context.command.params
        if option.name in names.split()
        and getattr(context.get_parameter_source(option.name), "name", "") == "COMMANDLINE"
    )


def study_path(study: str, studies: Path) -> Path:
    """The study's folder: the path itself, or the name below the studies folder."""
    path = Path(study)
    if path.exists() or "/" in study:
        streams.use_studies(path.parent)
        return path
    return studies / study


def duration_s(text: str | None, option: str = "--time") -> float | None:
    """Seconds of an option such as --time; None if it was not given. Raises UserError."""
    if text is None:
        return None
    try:
        found = parse_duration_s(text)
    except ValueError as error:
        raise UserError(f"{option} {text}: {error}") from None
    if found <= 0:
        raise UserError(f"{option} {text}: must be longer than 0 s")
    return found
