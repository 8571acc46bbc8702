"""A wire to Postgres that breaks where a test tells it to: before a message arrives, before its answer does, or amid it."""

from __future__ import annotations

import contextlib
import select
import shutil
import socket
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self

from psycopg.conninfo import conninfo_to_dict, make_conninfo

Where = Literal["before", "after", "amid"]
_READY = b"Z\x00\x00\x00\x05"  # ReadyForQuery, less its last byte


@dataclass(frozen=True, slots=True)
class Order:
    """Where the next message that holds `words` is cut off, and what happens just then."""

    words: bytes
    where: Where
    then: Callable[[], object] | None


class FaultyWire:
    """A Unix socket that passes everything on to a server, but for what `cut` orders."""

    def __init__(self, conninfo: str) -> None:
        self._original = conninfo
        self._folder = Path(tempfile.mkdtemp(prefix="wire-"))
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self._folder / ".s.PGSQL.5432"))
        self._listener.listen(64)
        self._lock = threading.Lock()
        self._orders: list[Order] = []
        self._is_open = True
        self.cuts = 0
        self.requests = 0
        """How often a client has sent something: its round trips, and its partings."""
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def conninfo(self) -> str:
        """The server's connection string, by way of this wire."""
        return make_conninfo(self._original, host=str(self._folder), port=5432)

    def cut(self, words: bytes, where: Where, *, times: int = 1, then: Callable[[], object] | None = None) -> None:
        """Break at the next message that holds these words: before it is sent, after it was answered, amid the answer."""
        with self._lock:
            self._orders += [Order(words, where, then)] * times

    def close(self) -> None:
        """Break every connection and remove the socket."""
        self._is_open = False
        self._listener.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _server(self) -> socket.socket:
        values = conninfo_to_dict(self._original)
        host, port = str(values["host"]), int(str(values.get("port", 5432)))
        if not host.startswith("/"):
            return socket.create_connection((host, port))
        end = socket.socket(socket.AF_UNIX)
        end.connect(f"{host}/.s.PGSQL.{port}")
        return end

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while self._is_open:
                client, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=[client], daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError), client, self._server() as server:
            while self._is_open:
                readable, _, _ = select.select([client, server], [], [], 0.2)
                for end in readable:
                    data = end.recv(1 << 16)
                    self.requests += end is client
                    order = self._order_for(data) if end is client else None
                    if order is not None:
                        self._break(order, data, client, server)
                        return
                    if not data:
                        return
                    (server if end is client else client).sendall(data)

    def _order_for(self, data: bytes) -> Order | None:
        with self._lock:
            if not self._orders or self._orders[0].words not in data:
                return None
            self.cuts += 1
            return self._orders.pop(0)

    def _break(self, order: Order, data: bytes, client: socket.socket, server: socket.socket) -> None:
        if order.where == "before":
            server.close()  # which rolls back
        else:
            server.sendall(data)
            answer = b""
            while answer[-6:-1] != _READY and (part := server.recv(1 << 16)):
                answer += part
            if order.where == "amid":
                client.sendall(answer[: len(answer) // 2])
        if order.then is not None:
            order.then()
