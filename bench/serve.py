"""What the pages of `mydyno serve` cost: first paint of many studies, a run of ten hours, CPU with a client connected.

Made-up studies, a server of them, and a browser (Chromium on PATH) that opens the pages again and again; then the
server's CPU time while a browser watches a live page that gets a line every second. Shown are medians with their
range; the exit code is 1 if a median is above its limit. First paint includes the browser's own work.
"""

# Needs requirements-dev.lock.

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from support.programs import REPOSITORY, BenchError, say

sys.path.append(str(REPOSITORY))

from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright
from tests.support.browser import ARGUMENTS, browser_path
from tests.support.fake_study_folder import Shape, build
from tests.support.live_writer import LiveWriter
from tests.support.web_server import WebServer

FIRST_PAINT_MS, TELEMETRY_MS, CORE_PCT = 300.0, 1000.0, 0.1
"""The limits."""
SMALL = Shape(arms=("glibc", "jemalloc"), workloads=("oltp_read_only",), connections=(8,), blocks=2, warmup_s=2,
              measure_s=8)  # fmt: skip
LONG, RUNNING = "long-20261230T000000Z", "allocators-20261231T000000Z"
LIMIT_MS = 60_000
PAINT = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? 0"


def main() -> int:
    """Measure and print."""
    options = _options().parse_args()
    path = browser_path()
    if path is None:
        raise BenchError("no chromium on PATH")
    with tempfile.TemporaryDirectory(prefix="mydyno-bench-serve-") as scratch:
        studies = Path(scratch) / "studies"
        studies.mkdir()
        _make(studies, options.studies, options.hours)
        with WebServer(studies) as server, sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=path, args=list(ARGUMENTS))
            context = browser.new_context(viewport={"width": 1280, "height": 900})
            context.set_default_timeout(LIMIT_MS)
            context.new_page().goto(f"{_origin(server)}/#token={server.token}")
            context.pages[0].wait_for_selector("#results")
            paints = [_first_paint(context, f"{_origin(server)}/") for _ in range(options.rounds)]
            run = next((studies / LONG / "blocks/01").glob("1-*"))
            long = f"{_origin(server)}/studies/{LONG}/runs/01/{run.name}"
            charts = [_charts(context, long) for _ in range(options.rounds)]
            core = _core(browser, server, studies / RUNNING, options.seconds)
    found = [
        _line(f"first paint of {options.studies} studies, ms", paints, FIRST_PAINT_MS),
        _line(f"charts of a run of {options.hours:g} hours, ms", charts, TELEMETRY_MS),
        _line("the server with a client on the live page, % of a core", core, CORE_PCT),
    ]
    return 0 if all(found) else 1


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="bench/run serve", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--studies", type=int, default=500, metavar="N", help="studies in the folder (default 500)")
    parser.add_argument("--hours", type=float, default=10.0, metavar="N", help="length of the long run (default 10)")
    parser.add_argument("--rounds", type=int, default=9, metavar="N", help="times each page is opened (default 9)")
    parser.add_argument("--seconds", type=int, default=60, metavar="N", help="of the live page (default 60)")
    return parser


def _make(studies: Path, count: int, hours: float) -> None:
    """`count` small studies, one of them running, and one with a long run."""
    say(f"making {count} studies and a run of {hours:g} hours")
    first = studies / "allocators-20260101T000000Z"
    build(first, SMALL)
    for number in range(1, count):
        day, hour = divmod(number, 24)
        shutil.copytree(first, studies / f"allocators-2026{1 + day // 28:02}{1 + day % 28:02}T{hour:02}0000Z")
    long = Shape(arms=("glibc",), workloads=("oltp_read_only",), connections=(8,), blocks=1, warmup_s=60,
                 measure_s=3600 * hours, summarise=False)  # fmt: skip
    build(studies / LONG, long)
    shutil.copytree(first, studies / RUNNING)
    (studies / RUNNING / "summary.json").unlink()


def _origin(server: WebServer) -> str:
    return f"http://127.0.0.1:{server.port}"


def _first_paint(context: BrowserContext, url: str) -> float:
    """Milliseconds from the navigation to the first content."""
    page = context.new_page()
    page.goto(url)
    found = 0.0
    while not found:  # wait_for_function() evaluates a string in the page, which its security policy refuses
        found = float(page.evaluate(PAINT))
    page.close()
    return found


def _charts(context: BrowserContext, url: str) -> float:
    """Milliseconds until the telemetry of a run is drawn."""
    page = context.new_page()
    began = time.monotonic()
    page.goto(url)
    _drawn(page)
    found = 1000 * (time.monotonic() - began)
    page.close()
    return found


def _drawn(page: Page) -> None:
    page.wait_for_selector("#zoom:not([hidden])", state="attached")


def _core(browser: Browser, server: WebServer, study: Path, seconds: int) -> list[float]:
    """Percent of a core that the server took, in tenths of the time."""
    with LiveWriter(study) as writer:
        context = browser.new_context()
        page = context.new_page()
        page.goto(f"{_origin(server)}/#token={server.token}")
        page.wait_for_selector("#results")
        page.goto(f"{_origin(server)}/studies/{study.name}/live")
        found = []
        parts = 6
        for _ in range(parts):
            before, began = _cpu_s(server.pid), time.monotonic()
            while time.monotonic() - began < seconds / parts:
                writer.write("second", state="slice", arm="glibc", step="a-8", qps=1234.5, latency_us={"p99": 2500.0})
                time.sleep(1)
            found.append(100 * (_cpu_s(server.pid) - before) / (time.monotonic() - began))
        context.close()
    return found


def _cpu_s(pid: int) -> float:
    """User and system time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _line(name: str, values: Sequence[float], limit: float) -> bool:
    """Print one figure; whether its median is within the limit."""
    middle = median(values)
    fine = middle <= limit
    print(
        f"{name}: {middle:.3g} ({min(values):.3g} to {max(values):.3g}); limit {limit:g}: {'ok' if fine else 'ABOVE'}"
    )
    return fine


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BenchError as error:
        say(f"error: {error}")
        sys.exit(2)
