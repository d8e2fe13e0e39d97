"""`mydyno bisect --good REF --bad REF EXPERIMENT`: find the commit that made a server worse; or continue FOLDER."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mydyno.cli import arguments
from mydyno.cli.study_options import load_for_study
from mydyno.errors import UserError
from mydyno.hosts.paths import HostPaths, check_writable
from mydyno.model.definition.problems import with_guess
from mydyno.model.definition.quantities import parse_share
from mydyno.model.metrics import METRICS, metric_source, split_instance
from mydyno.model.stored.bisection import BisectOptions

DEFAULT_BISECTIONS = Path("bisections")
DEFAULT_TIME = "5m"
DEFAULT_ERROR = "5%"
ERROR_RANGE = (0.001, 0.5)


Target = Annotated[
    str,
    typer.Argument(
        help="An experiment whose control is built from a git repository (server.build); or the folder of a "
        "bisection, to continue it.",
        metavar="EXPERIMENT|FOLDER",
    ),
]
Threshold = Annotated[
    str | None,
    typer.Option(
        help="A commit is bad if it is worse than good by more than this, e.g. 3% (default: half of what the ends "
        "differ by, or the near end of its interval if that is less).",
        metavar="PERCENT",
    ),
]
Time = Annotated[
    str | None,
    typer.Option(
        help=f"Time for one comparison (default: the experiment's design.time, or {DEFAULT_TIME}); it ends as soon "
        "as it is decided.",
        metavar="DURATION",
    ),
]
Longest = Annotated[
    str | None,
    typer.Option(
        help="Maximum time for one comparison, twice as long for that of the ends; a commit that is then undecided is "
        "skipped (default: three times --time).",
        metavar="DURATION",
    ),
]
Error = Annotated[
    str | None,
    typer.Option(
        help=f"Maximum probability of naming a wrong commit (default: {DEFAULT_ERROR}); a smaller one takes longer.",
        metavar="PERCENT",
    ),
]
Metric = Annotated[str | None, typer.Option(help="Decide by this metric (default: the experiment's verdict.primary).")]


def bisect(
    context: typer.Context,
    target: Target,
    good: Annotated[str | None, typer.Option(help="A commit before the change.", metavar="REF")] = None,
    bad: Annotated[str | None, typer.Option(help="A commit after the change.", metavar="REF")] = None,
    metric: Metric = None,
    threshold: Threshold = None,
    error: Error = None,
    step: Annotated[
        str | None, typer.Option(help="Decide at this load level (default: where the ends differ most clearly).")
    ] = None,
    time: Time = None,
    longest: Longest = None,
    blocks: Annotated[
        int | None,
        typer.Option(help="A fixed number of blocks for each comparison, instead of a time.", min=6, metavar="N"),
    ] = None,
    first_parent: Annotated[
        bool, typer.Option("--first-parent", help="Follow only the first parent of merges (as git bisect does).")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the commits, builds and time; build and start nothing.")
    ] = False,
    scale: arguments.Scale = None,
    settings: arguments.Overrides = None,
    bisections: Annotated[Path, typer.Option(help="Folder of the bisections.", metavar="DIR")] = DEFAULT_BISECTIONS,
    data: arguments.Data = None,
    as_json: arguments.Json = False,
    verbose: arguments.Verbose = False,
) -> None:
    """Find the commit that made a server worse, by comparing commits with a good one."""
    paths = HostPaths.resolve(data)
    path = _existing(target, bisections)
    if path is not None:
        of_new = "good bad metric threshold error step time longest blocks first_parent dry_run scale settings"
        if wrong := arguments.given(context, of_new):
            raise UserError(f"{wrong}: {target} is a bisection that was begun already", "begin a new one")
        # After the check, so that mistakes are reported at once: what a study needs takes a third of a second to load.
        from mydyno.cli.bisect_runner import go_on

        go_on(path, paths, as_json)
        return
    if good is None or bad is None:
        lacking = " and ".join(name for name, value in (("--good", good), ("--bad", bad)) if value is None)
        raise UserError(f"{lacking}: missing", f"mydyno bisect --good REF --bad REF {target}")
    resolved, source = load_for_study(target, scale, arguments.all_settings(settings, blocks, time))
    if resolved.design.time is None and blocks is None:
        resolved, source = load_for_study(target, scale, arguments.all_settings(settings, None, DEFAULT_TIME))
    steps = [one.id for one in resolved.resolved_steps]
    if step is not None and step not in steps:
        raise UserError(
            f"--step {step}: no such load level", with_guess(f"load levels: {', '.join(steps)}", step, steps)
        )
    longest_s = arguments.duration_s(longest, "--longest")
    if longest_s is not None and (resolved.design.time is None or longest_s < resolved.design.time):
        raise UserError("--longest: must be at least the time of a comparison, and excludes --blocks")
    # As above.
    from mydyno.cli.bisect_runner import begin

    time_s = resolved.design.time
    asked = BisectOptions(
        experiment=resolved,
        experiment_source=source.text,
        metric=_metric(metric or resolved.verdict.leading, "--metric" if metric else "verdict.primary"),
        threshold=_threshold(threshold),
        step=step,
        longest_s=longest_s if longest_s is not None or time_s is None else 3 * time_s,
        first_parent=first_parent,
        error_rate=_error_rate(error or DEFAULT_ERROR),
    )
    if not dry_run:
        check_writable(bisections, "--bisections")
    begin(asked, (good, bad), bisections, paths, dry_run, as_json)


def _existing(target: str, bisections: Path) -> Path | None:
    """The folder of an existing bisection; None for an experiment."""
    for path in (Path(target), bisections / target):
        if (path / "bisect.json").is_file():
            return path
    return None


def _metric(name: str, option: str) -> str:
    source = metric_source(name)
    known = [metric for metric, one in METRICS.items() if one.better != "none"]
    if source is None or source.better == "none" or split_instance(name)[0] not in METRICS:
        hint = with_guess(f"metrics: {', '.join(known)}", name, known)
        raise UserError(f"{option} {name}: no metric of which more or less is better", hint)
    return name


def _threshold(text: str | None) -> float | None:
    if text is None:
        return None
    found = _share("--threshold", text, "3%")
    if not 0 < found < 1:
        raise UserError(f"--threshold {text}: must be between 0 and 100 %", "a share such as 3%")
    return found


def _error_rate(text: str) -> float:
    found = _share("--error", text, DEFAULT_ERROR)
    low, high = ERROR_RANGE
    if not low <= found <= high:
        raise UserError(f"--error {text}: must be from {low * 100:g} to {high * 100:g} %", "a share such as 5%")
    return found


def _share(option: str, text: str, example: str) -> float:
    try:
        return parse_share(text)
    except ValueError as error:
        raise UserError(f"{option} {text}: {error}", f"a share such as {example}") from None
