"""Progress bars, on standard error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from lore_retriever.cli.output import console

__all__ = ["Bar", "bar"]


class Bar(Protocol):
    """Moves a bar, says beside it what was done so far, and learns the total where that comes later."""

    def __call__(self, steps: int, said: str = "", /, *, total: int | None = None) -> None: ...


@contextmanager
def bar(what: str, total: int, *, counted: bool = True, shown: bool = True) -> Iterator[Bar]:
    """A bar of `total` steps that is called with steps taken.

    Args:
        counted: Whether the steps mean something to a reader (windows do, bytes do not).
        shown: False draws nothing.
    """
    count = MofNCompleteColumn() if counted else TaskProgressColumn()
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        count,
        TimeRemainingColumn(),
        TextColumn("{task.fields[said]}"),
    )
    with Progress(*columns, console=console(stderr=True), disable=not shown) as progress:
        task = progress.add_task(what, total=total, said="")

        def advance(steps: int, said: str = "", /, *, total: int | None = None) -> None:
            progress.update(task, advance=steps, total=total)
            if said:
                progress.update(task, said=said)

        yield advance
