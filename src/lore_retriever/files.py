"""Files that appear whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

__all__ = ["replacing"]


@contextmanager
def replacing(path: Path, *, private: bool = False) -> Iterator[TextIO]:
    """A file of text that takes the place of another, and its rights, when it is whole. What is no plain file is written at once.

    Args:
        private: Whether only its owner may read a file that was not there before.
    """
    path = path.resolve()
    is_plain = not path.exists() or path.is_file()
    target = path.with_name(f".{path.name}.{os.getpid()}.part") if is_plain else path
    try:
        with open(target, "w", encoding="utf-8", newline="\n", opener=_opened_privately if private else None) as file:
            if path.exists() and is_plain:
                target.chmod(path.stat().st_mode)
            yield file
        if is_plain:
            target.replace(path)
    finally:
        if is_plain:
            target.unlink(missing_ok=True)


def _opened_privately(path: str, flags: int) -> int:
    return os.open(path, flags, mode=0o600)
