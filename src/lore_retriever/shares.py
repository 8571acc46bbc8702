"""Work of the service role on several connections at once, committed together or not at all."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from queue import Empty, Full, Queue
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from lore_retriever.queries import query

if TYPE_CHECKING:
    import psycopg

    from lore_retriever.admin import StoreAdmin

__all__ = ["Shares"]

Work = TypeVar("Work")

_WAITING = 2
"""Pieces of work that wait for a share: enough to keep it busy, few enough to bound memory."""


class Shares(Generic[Work]):
    """Transactions on `count` connections, each in a thread of its own; a context manager.

    At its end all have committed, or all were rolled back and the first error is raised. A connection that breaks in the
    very moment of its commit, after others have committed, is the one case that leaves a part. A share waits for a lock for
    half a minute at most: whoever holds it may wait for another share, which no server can see.
    """

    def __init__(self, admin: StoreAdmin, count: int, write: Callable[[psycopg.Cursor[Any], Work], None]) -> None:
        self._admin = admin
        self._write = write
        self._queues: list[Queue[Work | None]] = [Queue(maxsize=_WAITING) for _ in range(count)]
        self._done = threading.Barrier(count)
        self._failed = threading.Event()
        self._threads = ThreadPoolExecutor(count, thread_name_prefix="lore-share")
        self._shares: list[Future[None]] = []

    def __enter__(self) -> Shares[Work]:
        self._shares = [self._threads.submit(self._run, queue) for queue in self._queues]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._abandon()
        for number in range(len(self._queues)):
            self._hand(number, None)
        if self._failed.is_set():
            self._release()
        self._threads.shutdown()
        if error is None:
            self._raise_first()

    def give(self, share: int, work: Work) -> None:
        """Hand work to a share, which does it in the order given; waits while it is busy. Raises what made any share fail."""
        self._hand(share, work)
        if self._failed.is_set():
            self._release()
            self._threads.shutdown()
            self._raise_first()

    def _hand(self, share: int, work: Work | None) -> None:
        while not self._failed.is_set():
            with suppress(Full):
                self._queues[share].put(work, timeout=0.1)
                return

    def _run(self, queue: Queue[Work | None]) -> None:
        try:
            with self._admin.service() as cursor:
                cursor.execute(query("begin_share"))
                while (work := queue.get()) is not None:
                    self._write(cursor, work)
                self._done.wait()
        except BaseException:
            self._abandon()
            raise

    def _abandon(self) -> None:
        self._failed.set()
        self._done.abort()

    def _release(self) -> None:
        """Let every share that still waits for work come to its end."""
        for queue in self._queues:
            with suppress(Empty):
                while True:
                    queue.get_nowait()
            queue.put_nowait(None)

    def _raise_first(self) -> None:
        errors = [error for share in self._shares if (error := share.exception()) is not None]
        for error in sorted(errors, key=lambda error: isinstance(error, threading.BrokenBarrierError)):
            raise error
