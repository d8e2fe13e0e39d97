"""/studies/ID/live: the study while it runs, its lines as server-sent events, and the stop button.

The ids of the events are offsets in live.jsonl in bytes, so that a client that reconnects misses nothing. Each
connection reads the file once a second from where it ended. That works on network file systems too; what it costs
the measured host is in docs/guides/serve.md. Events are encoded by sse-starlette. Its response is not used, because it
polls for the server's end, which is most of what one client costs.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from markupsafe import Markup
from sse_starlette import ServerSentEvent
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from mydyno.document.parts import script_json
from mydyno.errors import MydynoError
from mydyno.model.metrics import phrase_of
from mydyno.model.stored.live import LiveEnded, LiveOpened
from mydyno.results.families import verdict_metrics
from mydyno.store.logs import LIVE_FILE, LiveLine, read_live
from mydyno.store.study_folder import StudyFolder
from mydyno.web.index import LiveKind, LiveStatus, StudyIndex, kind_of, live_status, stop_study
from mydyno.web.pages.study import study_path
from mydyno.web.rendering import render

_STUDY = "/studies/{study}"
POLL_S = 1.0
PING_S = 15.0
"""A connection that is gone is noticed when something is sent."""
RETRY_MS = 1000
"""After which a browser that lost its connection tries again."""
HISTORY_S = 1800
"""How many seconds back the charts of the live page begin."""
MOST_SECONDS = 6000
"""Most seconds in the history that a page loads, over all host groups together."""
OVER: frozenset[LiveKind] = frozenset({"ended", "copied"})
"""After these no line follows that a page waits for; live.js has the same."""
_SECOND = '{"record":"second"'


def show_live(request: Request) -> Response:
    """The page; its script loads the history and then listens."""
    path = study_path(request)
    index: StudyIndex = request.app.state.index
    row = index.row(path)
    if not (path / LIVE_FILE).is_file():
        words = "This study has no live.jsonl: it was made by an earlier mydyno, or executed by other hosts."
        return render("problem.html", title="There is nothing live to show", words=words, row=row)
    return render("live.html", row=row, metrics=_metric_names(path))


def _metric_names(path: Path) -> Markup:
    """{name in live.jsonl: words} of what the study's precision is of; of a damaged study those of the pilot."""
    names: dict[str, str] = {}
    with suppress(MydynoError):
        experiment = StudyFolder.open(path).study().experiment
        workloads = {step.workload for step in experiment.resolved_steps}
        names |= {one: phrase_of(one, workloads).short_noun for one in verdict_metrics(experiment)}
    return script_json(names)


def show_history(request: Request) -> Response:
    """What was written so far."""
    return JSONResponse(history(study_path(request)))


async def listen(request: Request) -> Response:
    """The lines after Last-Event-ID, or after the offset `from`."""
    path = study_path(request)
    text = request.headers.get("last-event-id") or request.query_params.get("from", "0")
    offset = int(text) if text.isdecimal() and len(text) < 16 else 0
    return StreamingResponse(live_events(path, offset), media_type="text/event-stream")


def stop(request: Request) -> Response:
    """What Ctrl-C does: the study ends, restores the host and keeps its finished runs."""
    problem = stop_study(study_path(request))
    return JSONResponse({"problem": problem}, 409 if problem else 202)


ROUTES = [
    Route(f"{_STUDY}/live", show_live),
    Route(f"{_STUDY}/live/history", show_history),
    Route(f"{_STUDY}/live/events", listen),
    Route(f"{_STUDY}/stop", stop, methods=["POST"]),
]


async def live_events(study: Path, offset: int) -> AsyncIterator[bytes]:
    """Every line after the offset, as it is written, and `process` whenever what is known of the process changes.

    Ends with the study, after the `process` at which the page closes its connection and so makes no new one.
    """
    path = study / LIVE_FILE
    status = live_status(study)
    opened, ended = status.opened, status.kind == "ended"
    copied_from = opened if status.kind == "copied" else None
    kind: LiveKind = "none"
    quiet_s = 0.0
    while True:
        lines = read_live(path, offset)
        for line in lines:
            offset = line.end
            if not line.text.startswith(_SECOND):
                record = line.record
                opened = record if isinstance(record, LiveOpened) else opened
                ended = isinstance(record, LiveEnded)
            yield ServerSentEvent(line.text, event="line", id=str(offset)).encode()
        if len(lines) > 1:
            continue  # there may be more
        if not lines and _size(path) < offset:  # replaced by a shorter file
            offset = 0
        if not lines or ended or kind != "running":  # what writes lines is alive
            now: LiveKind = "none" if opened is None else kind_of(opened, ended, path)
            if now == "running" and opened is not None and opened == copied_from:
                now = "copied"
            if now != kind:
                kind = now
                data = json.dumps({"kind": now, "words": LiveStatus(now, opened).words})
                yield ServerSentEvent(data, event="process", retry=RETRY_MS).encode()
                if now in OVER:
                    return
        quiet_s = 0.0 if lines else quiet_s + POLL_S
        if quiet_s >= PING_S:
            quiet_s = 0.0
            yield ServerSentEvent(comment="ping").encode()
        await asyncio.sleep(POLL_S)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def history(study: Path) -> dict[str, Any]:
    """{end, lines}: all records up to the offset `end`; of seconds only HISTORY_S back, and at most MOST_SECONDS."""
    path, offset = study / LIVE_FILE, 0
    seconds: deque[LiveLine] = deque(maxlen=MOST_SECONDS)
    others: list[LiveLine] = []
    while lines := read_live(path, offset):
        offset = lines[-1].end
        for line in lines:
            (seconds if line.text.startswith(_SECOND) else others).append(line)
    kept = sorted((*seconds, *others), key=lambda line: line.end)
    records = [json.loads(line.text) for line in kept if line.record is not None]
    begin_ns = max((one["unix_ns"] for one in records), default=0) - HISTORY_S * 1_000_000_000
    return {"end": offset, "lines": [one for one in records if one["record"] != "second" or one["unix_ns"] > begin_ns]}
