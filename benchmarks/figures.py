"""What the benchmarks share: percentiles by size of organisation, tables, JSON, a plot."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from lore_retriever.errors import LoreError

STRATA: tuple[tuple[str, int, int], ...] = (
    ("small", 0, 400),
    ("middle", 400, 2500),
    ("large", 2500, 10**9),
    ("all", 0, 10**9),
)
"""Organisations by their number of memories; `all` is the mix that the questions make."""

Cell = str | float | int | None


def percentile(values: Iterable[float], share: float) -> float:
    """The value below which that share of the values lies; NaN where there are none."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else float("nan")


def timed(call: Callable[[], object]) -> float:
    """Milliseconds that a call takes."""
    began = time.perf_counter()
    call()
    return (time.perf_counter() - began) * 1000


def by_stratum(taken: Sequence[tuple[int, float]]) -> dict[str, dict[str, float]]:
    """p50, p95, p99, mean and n of (memories in the organisation, milliseconds), for each stratum that has any."""
    found = {}
    for name, least, most in STRATA:
        values = [value for size, value in taken if least <= size < most]
        if values:
            found[name] = {
                "p50": percentile(values, 0.5),
                "p95": percentile(values, 0.95),
                "p99": percentile(values, 0.99),
                "mean": sum(values) / len(values),
                "n": len(values),
            }
    return found


def number(value: Cell, digits: int = 2) -> str:
    """A cell of a table: floats rounded, absent ones as a dash."""
    if value is None or value != value:
        return "–"
    return f"{value:,.{digits}f}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else value


def markdown(head: Sequence[str], rows: Iterable[Sequence[Cell]], *, digits: int = 2) -> str:
    """A Markdown table; the first column to the left, the others to the right."""
    lines = ["| " + " | ".join(head) + " |", "|---|" + "--:|" * (len(head) - 1)]
    lines += ["| " + " | ".join(number(cell, digits) for cell in row) + " |" for row in rows]
    return "\n".join(lines)


@contextmanager
def database_of(given: str | None) -> Iterator[str]:
    """The database that was named, or one of a built-in Postgres that ends with the command."""
    if given is not None:
        yield given
        return
    from lore_retriever import embedded

    with tempfile.TemporaryDirectory(prefix="lore-benchmark-") as folder, embedded.start(folder) as server:
        yield server.conninfo()


def machine(conninfo: str) -> dict[str, str]:
    """What the figures were measured on."""
    with psycopg.connect(conninfo) as connection:
        told = dict(
            connection.execute(
                "SELECT name, current_setting(name) FROM pg_settings WHERE name IN ('server_version', 'shared_buffers',"
                " 'work_mem', 'max_connections', 'fsync', 'random_page_cost')"
            ).fetchall()
        )
        row = connection.execute("SELECT extversion FROM pg_extension WHERE extname = 'vector'").fetchone()
    return told | {"pgvector": row[0] if row else "", "python": platform.python_version()}


def positive(text: str) -> int:
    """A whole number from 1 on, as a parser's type."""
    if not text.isascii() or not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 1 on")
    return int(text)


def writable(text: str) -> Path:
    """A file that can be written, as a parser's type: a run of an hour should not end without one."""
    path = Path(text)
    folder = path.parent
    if path.is_dir() or not folder.is_dir() or not os.access(path if path.exists() else folder, os.W_OK):
        raise argparse.ArgumentTypeError(f"{text!r} cannot be written; give a file in a folder that is there")
    return path


def run_command(main: Callable[[], None]) -> None:
    """A benchmark from the command line: what the user can mend is told in a line."""
    try:
        main()
    except (LoreError, OSError) as error:
        sys.exit(f"{Path(sys.argv[0]).name}: {error}")


def add_output(parser: argparse.ArgumentParser, *, plot: bool = False) -> None:
    """The options that say where figures go."""
    parser.add_argument("--json", type=writable, help="write all figures to this file")
    parser.add_argument("--markdown", type=writable, help="write the tables to this file, too")
    if plot:
        parser.add_argument("--plot", type=writable, help="draw them into this file (SVG or PNG; needs matplotlib)")


def publish(given: argparse.Namespace, tables: Sequence[str], figures: Mapping[str, Any]) -> None:
    """Print the tables and write what was asked for."""
    text = "\n\n".join(tables)
    print(text, flush=True)
    if given.markdown is not None:
        given.markdown.write_text(text + "\n", encoding="utf-8")
    if given.json is not None:
        arguments = {name: str(value) if isinstance(value, Path) else value for name, value in vars(given).items()}
        arguments.pop("database", None)
        given.json.write_text(json.dumps({"arguments": arguments, **figures}, indent=1) + "\n", encoding="utf-8")


def plot_bars(path: Path, groups: Sequence[str], bars: Mapping[str, Sequence[float]], *, title: str) -> None:
    """Bars by group on a logarithmic axis of milliseconds."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(9, 4.5))
    width = 0.8 / len(bars)
    for place, (name, heights) in enumerate(bars.items()):
        axes.bar([n + place * width for n in range(len(groups))], heights, width, label=name)
    axes.set_yscale("log")
    axes.set_ylabel("milliseconds")
    axes.set_xticks([n + 0.4 - width / 2 for n in range(len(groups))], groups)
    axes.set_title(title)
    axes.legend(fontsize=8, ncols=4, loc="upper center", bbox_to_anchor=(0.5, -0.08))
    figure.tight_layout()
    figure.savefig(path)


def plot_lines(path: Path, lines: Mapping[str, Sequence[tuple[float, float]]], *, x: str, y: str, title: str) -> None:
    """Lines over a logarithmic axis."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4))
    for name, points in lines.items():
        axes.plot([p[0] for p in points], [p[1] for p in points], marker="o", label=name)
    axes.set_xscale("log")
    axes.set_ylim(bottom=0)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.set_title(title)
    axes.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path)
