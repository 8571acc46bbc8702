"""The command line, `lore-retriever`. Needs the `cli` extra."""

from __future__ import annotations

import contextlib
import io
import signal
import sys
from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; ends the process with its exit code.

    Args:
        arguments: What follows the program's name; those of the process if None.
    """
    try:
        from lore_retriever.cli.app import app
    except ImportError as error:
        if error.name not in ("typer", "rich"):
            raise
        print(f'the command line needs {error.name}: pip install "lore-retriever[cli]"', file=sys.stderr)
        raise SystemExit(1) from None
    for stream in (sys.stdout, sys.stderr):
        # A memory may hold characters that the terminal's encoding lacks.
        with contextlib.suppress(AttributeError, ValueError, io.UnsupportedOperation):
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    for name in ("SIGTERM", "SIGHUP"):
        _leave_in_order(name)
    app(args=arguments, prog_name="lore-retriever")


def _leave_in_order(name: str) -> None:
    """Asked to end, or left by its terminal, let go of the built-in Postgres on the way out; what is ignored stays so."""
    asked = getattr(signal, name, None)  # Windows knows no SIGHUP
    if asked is not None and signal.getsignal(asked) is signal.SIG_DFL:
        signal.signal(asked, lambda number, _: sys.exit(128 + number))
