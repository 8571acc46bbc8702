"""Opens pools: gives up at once where no connection can ever be had, and tells the reason where none came in time."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any, Self

import psycopg
from psycopg.conninfo import conninfo_to_dict
from psycopg_pool import AsyncConnectionPool, ConnectionPool, PoolTimeout

from lore_retriever.errors import InvalidInput, StoreUnavailable

__all__ = ["AsyncTries", "Tries", "checked_conninfo", "connected"]

# libpq passes on no SQLSTATE of a refused connection, only the text. What stands here no waiting mends; all else might be
# a server that is starting, and so is a text in another language.
_NEVER = (
    "authentication failed",
    "does not exist",
    "no password supplied",
    "no pg_hba.conf entry",
    "is not permitted to log in",
    "permission denied for database",
)


def checked_conninfo(conninfo: str) -> str:
    """The connection string, if libpq can read it.

    Raises:
        InvalidInput: If it cannot. It is not quoted, nor is the driver's reason: either may hold a password.
    """
    try:
        conninfo_to_dict(conninfo)
    except psycopg.ProgrammingError:
        raise InvalidInput(
            "this is no connection string. Give a URL such as postgresql://user@host/database, or host=… dbname=…"
        ) from None
    return conninfo


def connected(conninfo: str, **options: Any) -> psycopg.Connection[Any]:
    """One connection of its own, as to a database that is only read once.

    Raises:
        InvalidInput: As `checked_conninfo`.
        StoreUnavailable: If there is no connection; with the reason.
    """
    try:
        return psycopg.connect(checked_conninfo(conninfo), **options)
    except psycopg.OperationalError as error:
        raise StoreUnavailable(
            f"the source did not answer: {' '.join(str(error).split()).rstrip('.?')}. Check that its server runs and its"
            " connection string is right."
        ) from error


def is_final(error: Exception) -> bool:
    """Whether the same try would fail again, however long one waits. Pure."""
    if not isinstance(error, psycopg.OperationalError):
        return isinstance(error, psycopg.ProgrammingError | TypeError)
    text = str(error)
    return any(words in text for words in _NEVER) and "Multiple connection attempts" not in text


class _Tries:
    """What became of a pool's first tries to connect."""

    def __init__(self, settled: threading.Event | asyncio.Event) -> None:
        self._settled = settled
        self._reason: str | None = None
        self._is_final = False

    def note(self, error: Exception | None) -> None:
        """A connection was made, or was not."""
        self._reason = None if error is None else " ".join(str(error).split()).rstrip(".?")
        self._is_final = error is not None and is_final(error)
        if error is None or self._is_final:
            self._settled.set()

    def failure(self, timeout_s: float) -> StoreUnavailable:
        """What to raise where there is no connection."""
        if self._is_final:
            return StoreUnavailable(f"the connection is refused: {self._reason}. Check the connection string.")
        return StoreUnavailable(
            f"no connection within {timeout_s:g} s: {self._reason or 'the server does not answer'}. Check that the server runs"
            " and the connection string is right."
        )


class Tries(_Tries):
    """For a pool of synchronous connections."""

    def __init__(self) -> None:
        super().__init__(threading.Event())

    def connection_class(self) -> type[psycopg.Connection[Any]]:
        """Connections whose making is noted here; the pool's `connection_class`."""
        note = self.note

        class Noted(psycopg.Connection[Any]):
            @classmethod
            def connect(cls, *args: Any, **kwargs: Any) -> Self:
                try:
                    made = super().connect(*args, **kwargs)
                except Exception as error:
                    note(error)
                    raise
                note(None)
                return made

        return Noted

    def open(self, pool: ConnectionPool[Any], timeout_s: float) -> None:
        """Open the pool, with as many connections as it keeps.

        Raises:
            StoreUnavailable: If none can be had, or none in time; the pool is closed then.
        """
        assert isinstance(self._settled, threading.Event)
        until = time.monotonic() + timeout_s
        pool.open()
        try:
            if pool.min_size and (not self._settled.wait(timeout_s) or self._is_final):
                raise self.failure(timeout_s)
            pool.wait(max(until - time.monotonic(), 0.01))
        except PoolTimeout as error:
            pool.close()
            raise self.failure(timeout_s) from error
        except BaseException:
            pool.close()
            raise


class AsyncTries(_Tries):
    """For a pool of asynchronous connections, on the running loop."""

    def __init__(self) -> None:
        super().__init__(asyncio.Event())

    def connection_class(self) -> type[psycopg.AsyncConnection[Any]]:
        """As `Tries.connection_class`."""
        note = self.note

        class Noted(psycopg.AsyncConnection[Any]):
            @classmethod
            async def connect(cls, *args: Any, **kwargs: Any) -> Self:
                try:
                    made = await super().connect(*args, **kwargs)
                except Exception as error:
                    note(error)
                    raise
                note(None)
                return made

        return Noted

    async def open(self, pool: AsyncConnectionPool[Any], timeout_s: float) -> None:
        """As `Tries.open`."""
        until = time.monotonic() + timeout_s
        await pool.open()
        try:
            if pool.min_size and (not await self._is_settled(timeout_s) or self._is_final):
                raise self.failure(timeout_s)
            await pool.wait(max(until - time.monotonic(), 0.01))
        except PoolTimeout as error:
            await pool.close()
            raise self.failure(timeout_s) from error
        except BaseException:
            await pool.close()
            raise

    async def _is_settled(self, timeout_s: float) -> bool:
        assert isinstance(self._settled, asyncio.Event)
        try:
            await asyncio.wait_for(self._settled.wait(), timeout_s)
        except TimeoutError:
            return False
        return True
