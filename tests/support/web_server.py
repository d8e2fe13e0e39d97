"""`mydyno serve` as a process of its own, and requests to it without a browser."""

from __future__ import annotations

import http.client
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support import ROOT
from tests.support.patience import HANG_S, ended, first_line


@dataclass(frozen=True)
class Answer:
    """One response."""

    status: int
    headers: Mapping[str, str]
    text: str


class WebServer:
    """The server of a folder of studies. A context manager."""

    def __init__(self, studies: Path, *options: str, launcher: Sequence[str] = ("-m", "mydyno.cli")) -> None:
        self.studies = studies
        self._options = options
        self._launcher = launcher

    def __enter__(self) -> WebServer:
        cache = self.studies.parent / "cache"
        self._process = subprocess.Popen(
            [sys.executable, *self._launcher, "serve", "--studies", str(self.studies), "--port", "0",
             *self._options],
            env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "MYDYNO_CACHE": str(cache)},
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.url = first_line(self._process, "mydyno serve").strip()
        origin, _, self.token = self.url.partition("/#token=")
        self.port = int(origin.rpartition(":")[2])
        self.cookie = ""
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        try:
            ended(self._process, "mydyno serve")
        finally:
            assert self._process.stdout is not None
            self._process.stdout.close()

    @property
    def pid(self) -> int:
        """The server's process."""
        return self._process.pid

    def request(
        self, path: str, method: str = "GET", body: str | None = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """One request, by the path as it is written."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=HANG_S)
        try:
            connection.putrequest(method, path, skip_host="Host" in (headers or {}))
            sent = {"Content-Length": str(len(body or "")), **(headers or {})}
            for name, value in sent.items():
                connection.putheader(name, value)
            connection.endheaders((body or "").encode())
            response = connection.getresponse()
            found = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, found, response.read().decode(errors="replace"))
        finally:
            connection.close()

    def log_in(self) -> None:
        """Exchange the token for the cookie; get() then carries it."""
        answer = self.request("/session", "POST", self.token, {"X-Mydyno": "1"})
        assert answer.status == 204, answer
        self.cookie = answer.headers["set-cookie"].partition(";")[0]

    def get(self, path: str) -> Answer:
        """A page, with the cookie."""
        return self.request(path, headers={"Cookie": self.cookie})

    def post(self, path: str, headers: Mapping[str, str] | None = None) -> Answer:
        """A POST as a page of the server sends it, with the cookie."""
        return self.request(path, "POST", "", {"Cookie": self.cookie, "X-Mydyno": "1", **(headers or {})})
