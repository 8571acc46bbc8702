"""Work of an import on several connections at once, committed together or not at all. As the service role."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from queue import Empty, Full, Queue
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from lore_retriever.errors import StoreUnavailable
from lore_retriever.queries import query

if TYPE_CHECKING:
    import psycopg

    from lore_retriever.admin import StoreAdmin

__all__ = ["Shares"]

Work = TypeVar("Work")

_WAITING = 2
"""Pieces of work that wait for a share: enough to keep it busy, few enough to bound memory."""


class Shares(Generic[Work]):
    """Transactions on `count` connections, each in a thread of its own; a context manager. One import at a time in a store.

    At its end all have committed, or all were rolled back and the first error is raised. A connection that breaks in the
    very moment of its commit, after others have committed, is the one case that leaves a part. Several shares wait for a lock
    for some seconds at most: whoever holds it may wait for another share, which no server can see.
    """

    def __init__(self, admin: StoreAdmin, count: int, write: Callable[[psycopg.Cursor[Any], Work], None]) -> None:
        self._admin = admin
        self._write = write
        self._queues: list[Queue[Work | None]] = [Queue(maxsize=_WAITING) for _ in range(count)]
        self._claimed = threading.Event()  # by the first share, before another one holds anything
        self._done = threading.Barrier(count)
        self._threads = ThreadPoolExecutor(count, thread_name_prefix="lore-share")
        self._shares: list[Future[None]] = []
        self._connections: set[psycopg.Connection[Any]] = set()
        self._at_work = threading.Lock()  # a connection that has gone back to its pool is not ours to cancel

    def __enter__(self) -> Shares[Work]:
        self._shares = [self._threads.submit(self._run, number) for number in range(len(self._queues))]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            for number in range(len(self._queues)):
                self._hand(number, None)
            self._end()
        else:
            self._abandon()
            self._release()

    def give(self, share: int, work: Work) -> None:
        """Hand work to a share, which does it in the order given; waits while it is busy. Raises what made any share fail."""
        self._hand(share, work)
        if self._done.broken:
            self._end()

    def _hand(self, share: int, work: Work | None) -> None:
        while not self._done.broken:
            with suppress(Full):
                self._queues[share].put(work, timeout=0.1)
                return

    def _run(self, number: int) -> None:
        try:
            if number > 0:
                self._claimed.wait()
            if not self._done.broken:
                with self._admin.service() as cursor, self._cancellable(cursor.connection):
                    self._work(cursor, number)
        except BaseException:
            self._abandon()
            raise

    def _work(self, cursor: psycopg.Cursor[Any], number: int) -> None:
        cursor.execute(query("begin_bulk"))
        if len(self._queues) > 1:
            cursor.execute(query("bound_waiting"))
        if number == 0:
            claim = cursor.execute(query("claim_import")).fetchone()
            if claim is None or not claim["is_ours"]:
                raise StoreUnavailable(
                    "another import is writing into this store. Start this one again when it has ended."
                )
            self._claimed.set()
        while (work := self._queues[number].get()) is not None:
            self._write(cursor, work)
        self._done.wait()

    def _abandon(self) -> None:
        self._done.abort()  # from now on it is broken: some share has failed, or the import
        self._claimed.set()

    def _end(self) -> None:
        """Wait for all shares, and raise the first error: of those that were only abandoned the last."""
        if self._done.broken:
            self._release()
        self._threads.shutdown()
        errors = [error for share in self._shares if (error := share.exception()) is not None]
        for error in sorted(errors, key=lambda error: isinstance(error, threading.BrokenBarrierError)):
            raise error

    def _release(self) -> None:
        """Let every share come to its end: those that wait for work, and those that wait for the server."""
        for queue in self._queues:
            with suppress(Empty):
                while True:
                    queue.get_nowait()
            queue.put_nowait(None)
        with self._at_work:
            for connection in self._connections:
                with suppress(Exception):  # it broke, or has just ended
                    connection.cancel_safe(timeout=5)
        self._threads.shutdown()

    @contextmanager
    def _cancellable(self, connection: psycopg.Connection[Any]) -> Iterator[None]:
        with self._at_work:
            self._connections.add(connection)
        try:
            yield
        finally:
            with self._at_work:
                self._connections.discard(connection)
