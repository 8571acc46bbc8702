"""A TCP relay before a Postgres that holds everything back for a while, and counts the turns that client and server take."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from psycopg.conninfo import conninfo_to_dict, make_conninfo


class Relay:
    """One relay on its own thread.

    Attributes:
        delay_s: What a round trip costs beyond the server's own time; half of it each way.
        turns: How often a client spoke after it had been answered: round trips.
        port: Where it listens.
    """

    def __init__(self, host: str, port: int) -> None:
        self.target = (host, port)
        self.delay_s = 0.0
        self.turns = 0
        self.port = 0
        self.loop = asyncio.new_event_loop()
        ready = threading.Event()
        threading.Thread(target=self._serve, args=(ready,), daemon=True).start()
        ready.wait()

    def close(self) -> None:
        """End all that runs on the loop, and the loop; called on it."""
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        self.loop.call_later(0.1, self.loop.stop)

    def _serve(self, ready: threading.Event) -> None:
        async def begin() -> None:
            server = await asyncio.start_server(self._relay, "127.0.0.1", 0)
            self.port = server.sockets[0].getsockname()[1]
            ready.set()

        self.loop.run_until_complete(begin())
        self.loop.run_forever()

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, port = self.target
        if host.startswith("/"):
            server, back = await asyncio.open_unix_connection(f"{host}/.s.PGSQL.{port}")
        else:
            server, back = await asyncio.open_connection(host, port)
        was_answered = [True]
        with suppress(asyncio.CancelledError):  # the relay ends
            await asyncio.gather(
                self._one_way(reader, back, was_answered, is_client=True),
                self._one_way(server, writer, was_answered, is_client=False),
            )

    async def _one_way(
        self, source: asyncio.StreamReader, target: asyncio.StreamWriter, was_answered: list[bool], *, is_client: bool
    ) -> None:
        with suppress(ConnectionError):
            while data := await source.read(1 << 16):
                if is_client and was_answered[0]:
                    self.turns += 1
                was_answered[0] = not is_client
                if self.delay_s:
                    self.loop.call_later(self.delay_s / 2, target.write, data)
                else:
                    target.write(data)
        self.loop.call_later(self.delay_s, target.close)


@contextmanager
def relayed(conninfo: str) -> Iterator[tuple[Relay, str]]:
    """A relay before the server of a connection string, and the connection string that goes through it."""
    parts = conninfo_to_dict(conninfo)
    relay = Relay(str(parts.get("host", "127.0.0.1")), int(parts.get("port", 5432) or 5432))
    try:
        yield relay, make_conninfo(conninfo, host="127.0.0.1", port=relay.port, sslmode="disable", gssencmode="disable")
    finally:
        relay.loop.call_soon_threadsafe(relay.close)
