"""A TCP proxy: its connections break when a test says so, as in an SSH tunnel that ends, or go to several servers."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from itertools import cycle


class BreakingProxy:
    """Passes connections to ports of this host on, to each in turn. A context manager."""

    def __init__(self, *target_ports: int) -> None:
        self.leads_to(*target_ports)
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._broken = threading.Event()

    def __enter__(self) -> BreakingProxy:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.breaks()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def leads_to(self, *target_ports: int) -> None:
        """Of each new connection, from now on."""
        self._targets = cycle(target_ports)

    def breaks(self) -> None:
        """Close every connection, and each new one, until heals() is called."""
        self._broken.set()
        with self._lock:
            for one in self._open:
                with suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)

    def heals(self) -> None:
        """Pass connections on again."""
        self._broken.clear()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self._broken.is_set():
                client.close()
                continue
            server = socket.create_connection(("127.0.0.1", next(self._targets)))
            with self._lock:
                self._open |= {client, server}
            for pair in ((client, server), (server, client)):
                threading.Thread(target=self._pump, args=pair, daemon=True).start()

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while content := source.recv(65536):
                target.sendall(content)
        for one in (source, target):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        with self._lock:
            self._open.discard(source)
        source.close()
