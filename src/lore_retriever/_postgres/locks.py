"""Locks on files: they end with their holder, however it ends, and no process id is asked."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

from lore_retriever.errors import StoreUnavailable

__all__ = ["POLL_S", "locked", "open_lock", "try_lock"]

POLL_S = 0.01
"""Seconds between two looks at something that another process does."""


def open_lock(path: Path) -> int:
    """A descriptor to lock, closed by `os.close`; the lock ends with its last copy."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def try_lock(fd: int, operation: int) -> bool:
    """Take a lock (`fcntl.LOCK_SH` or `LOCK_EX`) at once; False where another holder forbids it."""
    try:
        fcntl.flock(fd, operation | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextlib.contextmanager
def locked(path: Path, deadline: float) -> Iterator[None]:
    """Hold the lock on `path`, for starting or stopping the server of its folder.

    Raises:
        StoreUnavailable: If another process keeps it until `deadline` (of `time.monotonic`).
    """
    fd = open_lock(path)
    try:
        while not try_lock(fd, fcntl.LOCK_EX):
            if time.monotonic() >= deadline:
                raise StoreUnavailable(
                    f"Another process is still starting or stopping the built-in Postgres in {path.parent}. "
                    "Try again, or allow a longer timeout_s."
                )
            time.sleep(POLL_S)
        yield
    finally:
        os.close(fd)
