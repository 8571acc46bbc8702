"""Chooses which part of a text to show: the sentences that hold most of what was asked. Pure and deterministic."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Mapping, Sequence

from lore_retriever.context.duplicates import words_of

__all__ = ["Span", "best_passage", "marks_of", "one_line"]

Span = tuple[int, int]
"""Half-open range of code points."""

_STOP_WORDS = """
a an and are as at be but by can did do does for from had has have how i if in into is it its me my not of on or our
s she he that the their them they this to was we were what when where which who whom why will with would you your
"""
_STOP = frozenset(_STOP_WORDS.split())
_BREAK = re.compile(r"(?<=[.!?…])[\s]+|(?<=[。！？])|\n+")
_SPACE = re.compile(r"\s+")
_JOINERS = ("\u200d", "\ufe0f", "\u20e3")


def marks_of(queries: Sequence[str], texts: Sequence[str]) -> dict[str, float]:
    """The beginnings of the queries' words, each with its weight: the rarer among these texts, the heavier."""
    asked = dict.fromkeys(word for query in queries for word in words_of(query))
    telling = [word for word in asked if word not in _STOP] or list(asked)
    lowered = [text.casefold() for text in texts]
    marks: dict[str, float] = {}
    for word in telling:
        mark = _stem(word)
        held = sum(mark in text for text in lowered)
        marks[mark] = math.log(1 + (len(texts) + 1) / (held + 0.5))
    return marks


def best_passage(text: str, marks: Mapping[str, float], most_chars: int) -> Span:
    """The run of whole sentences of at most `most_chars` characters that holds the heaviest marks; first wins ties.

    A text that fits comes whole. Where no mark is found, the beginning. A sentence longer than the limit is cut
    between words, beside the first mark in it.
    """
    if len(text) <= most_chars:
        return 0, len(text)
    units = [part for span in _sentences(text) for part in _within(text, span, most_chars)]
    lowered = [text[start:end].casefold() for start, end in units]
    found = [[mark for mark in marks if mark in unit] for unit in lowered]
    best, best_worth = (0, 0), 0.0
    for first in range(len(units)):
        held: set[str] = set()
        worth = 0.0
        for last in range(first, len(units)):
            if units[last][1] - units[first][0] > most_chars:
                break
            fresh = [mark for mark in found[last] if mark not in held]
            held.update(fresh)
            worth += sum(marks[mark] for mark in fresh)
            if worth > best_worth + 1e-9:
                best, best_worth = (first, last), worth
    first, last = _widened(units, *best, most_chars)
    return units[first][0], units[last][1]


def one_line(text: str, marks: Mapping[str, float], most_chars: int) -> tuple[str, Span]:
    """One line of at most `most_chars` characters, white space collapsed, and where it stands in the text."""
    start, end = best_passage(text, marks, most_chars)
    return _SPACE.sub(" ", text[start:end]).strip(), (start, end)


def _stem(word: str) -> str:
    """A crude stem: enough to find "restarts" by "restarting" in a substring search."""
    return word if len(word) <= 4 or any(c.isdigit() for c in word) else word[: max(4, len(word) - 3)]


def _sentences(text: str) -> list[Span]:
    spans: list[Span] = []
    start = 0
    for match in _BREAK.finditer(text):
        if match.end() > start and text[start : match.start()].strip():
            spans.append((start, match.start()))
        start = match.end()
    if text[start:].strip():
        spans.append((start, len(text)))
    return spans or [(0, len(text))]


def _within(text: str, span: Span, most_chars: int) -> list[Span]:
    """The span, or pieces of it that keep to the limit and end between words where they can."""
    pieces: list[Span] = []
    start, end = span
    while end - start > most_chars:
        cut = _cut_before(text, start, start + most_chars)
        pieces.append((start, cut))
        start = cut
        while start < end and text[start].isspace():
            start += 1
    if start < end:
        pieces.append((start, end))
    return pieces


def _cut_before(text: str, start: int, limit: int) -> int:
    """The last place to cut in `(start, limit]`: after a word if one ends in the second half, never inside a cluster."""
    for cut in range(limit, start + (limit - start) // 2, -1):
        if text[cut].isspace():
            return cut
    for cut in range(limit, start, -1):
        if not _is_inside_cluster(text, cut):
            return cut
    return limit


def _is_inside_cluster(text: str, cut: int) -> bool:
    after, before = text[cut], text[cut - 1]
    return (
        bool(unicodedata.combining(after))
        or after in _JOINERS
        or before == "\u200d"
        or "\U0001f3fb" <= after <= "\U0001f3ff"
    )


def _widened(units: Sequence[Span], first: int, last: int, most_chars: int) -> tuple[int, int]:
    """The run with the sentences after it, then those before it, as far as they fit."""
    while last + 1 < len(units) and units[last + 1][1] - units[first][0] <= most_chars:
        last += 1
    while first > 0 and units[last][1] - units[first - 1][0] <= most_chars:
        first -= 1
    return first, last
