"""What is printed: tables for people, JSON for programs. Memories are untrusted: nothing in them steers a terminal."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from lore_retriever.types import LEGS, Hit, Memory, Recall

__all__ = [
    "complain",
    "console",
    "counted",
    "hits_view",
    "memories_view",
    "notes",
    "print_json",
    "shown",
    "snippet",
    "status_line",
    "tell_waiting",
]

WIDTH_ELSEWHERE = 100
"""Columns where the output is no terminal."""

_LEAD = 20
_STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def console(*, stderr: bool = False) -> Console:
    """A console on standard output, or on standard error for what is no result."""
    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() or "COLUMNS" in os.environ else WIDTH_ELSEWHERE
    # Nothing in a memory is markup.
    return Console(stderr=stderr, width=width, highlight=False, markup=False, emoji=False)


def complain(line: str) -> None:
    """Print one line about an error."""
    print(f"lore-retriever: {shown(line)}", file=sys.stderr)


def status_line(text: str) -> None:
    """Print a line that is no result."""
    console(stderr=True).print(Text(shown(text)), soft_wrap=True)


def counted(counts: Mapping[str, int], always: str) -> str:
    """What was done, as `2 stored, 1 kept`: those that are not 0, and one that is always told."""
    return ", ".join(f"{n:,} {what}" for what, n in counts.items() if n or what == always)


def tell_waiting(memories: int, way_out: str = "makes them") -> None:
    """Say how many memories wait for vectors, if any do, and what `embed` does about it."""
    if memories:
        status_line(f"{memories:,} memories wait for their vectors; `lore-retriever embed` {way_out}.")


def shown(text: str) -> str:
    """A text as it may go to a terminal: control characters and marks of writing direction become visible escapes."""
    plain = text.replace("\r\n", "\n")
    return _STEERING.sub(lambda found: found[0].encode("unicode_escape", "surrogatepass").decode(), plain)


def print_json(value: BaseModel | Sequence[BaseModel] | Mapping[str, Any]) -> None:
    """Print a record, records, or plain values as JSON."""
    print(json.dumps(_plain(value), ensure_ascii=False, indent=2))


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def snippet(text: str, queries: Iterable[str], chars: int) -> str:
    """At most `chars` characters of a text, from where most of the queries' words stand together."""
    text = " ".join(text.split())
    if len(text) <= chars:
        return text
    lower = text.lower() if len(text.lower()) == len(text) else text
    places = sorted((found.start(), word) for word in _words(queries) for found in re.finditer(_begins(word), lower))
    start, most = 0, 0
    for place, _ in places:
        reached = len({word for other, word in places if place <= other < place + chars - _LEAD})
        if reached > most:
            start, most = place, reached
    # A little of what stands before, from the beginning of a word; never so far on that the excerpt shrinks.
    start = max(0, min(start - _LEAD, len(text) - chars + 2))
    if start:
        start = text.find(" ", start, start + _LEAD) + 1 or start
    cut = text[start : start + chars - 1 - bool(start)]
    return ("…" if start else "") + cut + ("…" if start + len(cut) < len(text) else "")


def _words(queries: Iterable[str]) -> set[str]:
    """Words that may tell one passage from another: longer ones, numbers, and runs of scripts without spaces."""
    return {word for query in queries for word in re.findall(r"\w{4,}|\w*\d\w*|[^\W\x00-\u2e7f]+", query.lower())}


def _begins(word: str) -> str:
    return ("" if ord(word[0]) > 0x2E7F else r"\b") + re.escape(word[:6])


def hits_view(recall: Recall, *, limit: int | None = None, lines: int = 2, mark: str | None = None) -> RenderableType:
    """Hits: a line with score and the rank in every leg, and under it the excerpt over the whole width.

    Args:
        limit: Only the first so many.
        lines: How many lines of each excerpt.
        mark: Id of a memory to mark.
    """
    parts: list[RenderableType] = [
        _columns(["#", "memory", "score", *LEGS, "evidence"], style="dim"),
        Rule(style="dim"),
    ]
    for hit in recall.hits[:limit]:
        ranks = [Text(str(hit.legs[leg].rank)) if leg in hit.legs else Text("–", style="dim") for leg in LEGS]
        number = Text(f"✓ {hit.rank}", style="green") if hit.id == mark else Text(str(hit.rank))
        parts.append(_columns([number, _title(hit), Text(f"{hit.score:.5f}"), *ranks, _strength_text(hit.strength)]))
        parts.append(_Excerpt(hit, recall.queries, lines))
    return Group(*parts)


def _columns(cells: Sequence[RenderableType], style: str = "") -> Table:
    table = Table.grid(padding=(0, 1, 0, 0), expand=True)
    table.add_column(width=3, justify="right", style=style)
    table.add_column(ratio=1, style=style)
    for width in (7, *(len(leg) for leg in LEGS)):
        table.add_column(width=width, justify="right", style=style)
    table.add_column(width=8, style=style)
    table.add_row(*cells)
    return table


class _Excerpt:
    """So much of a hit's text as fits on some lines, from where the queries' words stand; before it the hit's span."""

    def __init__(self, hit: Hit, queries: Sequence[str], lines: int) -> None:
        self._hit, self._queries, self._lines = hit, queries, lines

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        hit, width = self._hit, max(20, options.max_width - 5)
        place = f"{hit.span[0]:,}–{hit.span[1]:,} of {hit.full_length:,}:  " if hit.truncated else ""
        lines: list[Text] = []
        # Words that do not fit leave a line short, wide characters take two places: shorten until it fits.
        for chars in range(width * self._lines, 0, -8):
            text = Text.assemble((place, "dim"), shown(snippet(hit.text, self._queries, chars)))
            lines = [*text.wrap(console, width)]
            if len(lines) <= self._lines:
                break
        yield Padding(Text("\n").join(lines), (0, 0, 0, 4))


def _title(hit: Hit) -> Text:
    title = Text(shown(hit.id), style="bold", overflow="fold")
    about = f"  {hit.kind}" + (f", {hit.owner}'s" if hit.visibility == "shared" else "")
    return title.append(shown(about), style="not bold dim")


def _strength_text(strength: str) -> Text:
    return Text(strength, style={"strong": "green", "medium": "yellow"}.get(strength, "dim"))


def notes(recall: Recall) -> list[str]:
    """What a reader of the table should also know."""
    found = []
    if len(recall.queries) > 1:
        found.append(f"{len(recall.queries)} queries in one ranking; put one query in quotes to ask for all its words.")
    if recall.degraded:
        found.append(f"degraded: {recall.degraded}")
    if recall.omitted:
        found.append(f"{recall.omitted} more hits left out, the result would have grown too large.")
    return found


def memories_view(memories: Sequence[Memory]) -> RenderableType:
    """Memories: a line about each, and under it the beginning of its text."""
    parts: list[RenderableType] = [
        _facts(["memory", "kind", "owner", "visibility", "created"], "dim"),
        Rule(style="dim"),
    ]
    for memory in memories:
        title = Text(shown(memory.id), style="bold", overflow="fold")
        title.append("  pinned" if memory.pinned else "", style="not bold dim")
        created = f"{memory.created_at:%Y-%m-%d %H:%M}"
        parts.append(_facts([title, shown(memory.kind), shown(memory.owner), memory.visibility, created]))
        start = Text(" ".join(shown(memory.content).split()), no_wrap=True, overflow="ellipsis")
        parts.append(Padding(start, (0, 0, 0, 2)))
    return Group(*parts)


def _facts(cells: Sequence[RenderableType], style: str = "") -> Table:
    table = Table.grid(padding=(0, 1, 0, 0), expand=True)
    table.add_column(ratio=1, style=style)
    for width in (13, 12, 10, 16):
        table.add_column(width=width, style=style, no_wrap=True, overflow="ellipsis")
    table.add_row(*cells)
    return table
