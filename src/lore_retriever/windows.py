"""Cuts a memory into windows, the spans that one vector each stands for. Pure: no model, no I/O.

Windows follow each other without gap or overlap. Where to cut is one shortest path over the places where
a cut is possible: each window costs 1 plus the square of what it lacks to a full one, each cut costs what it
breaks. That keeps windows few, of similar length (1,250 characters become two of about 625, not
1,200 and 50), and cut between sections or paragraphs rather than inside sentences.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from lore_retriever.errors import InvalidInput
from lore_retriever.limits import MAX_WINDOW_CHARS

__all__ = ["Window", "split_windows"]


@dataclass(frozen=True, slots=True)
class Window:
    """The half-open span `[start, end)` of a memory, in code points.

    Attributes:
        ordinal: Place among the memory's windows, from 0.
        start: Offset of the first character.
        end: Offset after the last character.
    """

    ordinal: int
    start: int
    end: int


def split_windows(content: str, *, max_tokens: int | None, count_tokens: Callable[[str], int]) -> list[Window]:
    """The windows of a text, in order: every character lies in exactly one.

    A text of at most `limits.MAX_WINDOW_CHARS` characters that fits `max_tokens` is one window.

    Args:
        content: The text; an empty one has no windows.
        max_tokens: Most tokens of one window, prefix and special tokens included; None if unbounded.
        count_tokens: Tokens of a text under the embedder's own tokenizer, prefix and special tokens included.
            Called about once for each window.

    Raises:
        InvalidInput: If a single character needs more than `max_tokens`.
    """
    spans = _fitting(content, 0, len(content), MAX_WINDOW_CHARS, max_tokens, count_tokens)
    return [Window(ordinal, start, end) for ordinal, (start, end) in enumerate(spans)]


_SPARE = 0.95
"""Share of the token window that a second cut aims at, since tokens lie unevenly in a text."""


def _fitting(
    content: str,
    start: int,
    end: int,
    max_chars: int,
    max_tokens: int | None,
    count_tokens: Callable[[str], int],
) -> Iterator[tuple[int, int]]:
    """Spans of `content[start:end]` that keep to both limits; each that has too many tokens is cut again."""
    pending = [(start, end, max_chars)] if end > start else []
    while pending:
        start, end, max_chars = pending.pop()
        if end - start <= max_chars:
            tokens = 0 if max_tokens is None else count_tokens(content[start:end])
            if max_tokens is None or tokens <= max_tokens:
                yield start, end
                continue
            if end - start == 1:
                raise InvalidInput(
                    f"the character {content[start]!r} costs {tokens} tokens with prefix and special tokens, "
                    f"the embedder reads {max_tokens}: give it a larger max_tokens."
                )
            max_chars = min(end - start - 1, max(1, int(_SPARE * (end - start) * max_tokens / tokens)))
        edges = [start + edge for edge in _edges(content[start:end], max_chars)]
        pending.extend((a, b, max_chars) for a, b in reversed(list(pairwise(edges))))


# What a cut breaks, in units of one more window. Only the order and rough distances matter: windows that are
# three quarters full are cut between paragraphs, emptier ones give way to a cut after a sentence; no sentence
# is broken to save a window.
_HEADING = -0.5
_PARAGRAPH = 0.05
_LINE = 0.3
_SENTENCE = 0.5
_LEAD_IN = 0.4
_CODE_PARAGRAPH = 0.5
_WRAP = 0.7
_CODE_LINE = 0.8
_WORD = 1.5
_AFTER_HEADING = 2.0
_CHARACTER = 3.0
_CLUSTER = 9.0

_Cut = tuple[int, float]
"""Offset of the first character after a cut, and what the cut costs."""


def _edges(text: str, max_chars: int) -> list[int]:
    """Offsets 0 to `len(text)` that cut a text into windows of at most `max_chars`, at least total cost."""
    cuts = _possible_cuts(text, max_chars)
    offsets = [0, *(offset for offset, _ in cuts), len(text)]
    costs = [0.0, *(cost for _, cost in cuts), 0.0]
    best = [0.0] * len(offsets)
    previous = [0] * len(offsets)
    first = 0
    for here in range(1, len(offsets)):
        offset = offsets[here]
        while offset - offsets[first] > max_chars:
            first += 1
        lowest = float("inf")
        for before in range(first, here):
            lack = 1.0 - (offset - offsets[before]) / max_chars
            total = best[before] + lack * lack
            if total < lowest:
                lowest, previous[here] = total, before
        best[here] = lowest + costs[here] + 1.0
    edges = [len(offsets) - 1]
    while edges[-1]:
        edges.append(previous[edges[-1]])
    return [offsets[edge] for edge in reversed(edges)]


def _possible_cuts(text: str, max_chars: int) -> list[_Cut]:
    """Where a text may be cut, in order, never more than a sixth of a window apart where avoidable."""
    spacing = max(1, max_chars // 20)
    reach = max(1, max_chars // 6)
    cuts: list[_Cut] = []
    last = 0
    for offset, cost in [*_thinned(text, spacing), (len(text), 0.0)]:
        if offset - last > reach:
            cuts.extend(_filled(text, last, offset, reach))
        if offset < len(text):
            cuts.append((offset, cost))
        last = offset
    return cuts


def _thinned(text: str, spacing: int) -> list[_Cut]:
    """The cheapest natural cut of each stretch of `spacing` characters; bounds the work per window."""
    kept: list[_Cut] = []
    stretch = -1
    for offset, cost in _natural_cuts(text, spacing):
        if not 0 < offset < len(text) or _joined(text, offset):
            continue
        if offset // spacing != stretch:
            stretch = offset // spacing
            kept.append((offset, cost))
        elif cost <= kept[-1][1]:
            kept[-1] = (offset, cost)
    return kept


# One class first, so that the engine skips to the next of its characters: five times as fast as `\r\n|[…]`.
_LINE_END = re.compile(r"[\n\r\x0b\x0c\x85\u2028\u2029](?:(?<=\r)\n)?")
_HEADING_LINE = re.compile(r" {0,3}#{1,6}(?:\s|$)")
_ITEM_LINE = re.compile(r"\s*(?:[-*+•|>]|\d{1,9}[.)]|[`~]{3})")
_FENCE = re.compile(r"\s*(`{3,}|~{3,})(.*)", re.DOTALL)
_SENTENCE_END = re.compile(r"[.!?…;。！？।؟][\"'”’»)\]*_`」』）]*\s*$")
_SENTENCE_CUT = re.compile(
    # One class first, so that the engine skips from end mark to end mark.
    r"[.!?…。！？।؟](?:"
    # The space tells the end of a sentence from "3.14"; the word before it is longer than in "e.g." or "1.".
    # Possessive, and never begun inside a run of dots, so that 60,000 of them cost no more than prose.
    r"(?<=[.!?…])(?<!\b\w.)(?<![.!?…].)[.!?…]*+[\"'”’»)\]*_]*+[ \t\u00a0]++(?=\S)"
    r"|(?<=[。！？।؟])[。！？।؟]*+[\"'”’»)\]」』）]*+[ \t\u3000]*+)"
)


def _natural_cuts(text: str, spacing: int) -> Iterator[_Cut]:
    """Cuts after lines, and after sentences within lines longer than `spacing` outside code, in order."""
    fence = ""
    above = before = ""
    start = 0
    for end in [*(match.end() for match in _LINE_END.finditer(text)), len(text)]:
        line = text[start:end]
        if start:
            blank = not before.strip()
            yield start, _line_cost(above, line, blank=blank, in_code=bool(fence))
        fence = _fence_after(line, fence)
        if end - start > spacing and not fence:
            yield from ((match.end(), _SENTENCE) for match in _SENTENCE_CUT.finditer(text, start, end))
        before = line
        if line.strip():
            above = line
        start = end


def _line_cost(above: str, below: str, *, blank: bool, in_code: bool) -> float:
    """What a cut between two lines costs; `above` is the last line that is not blank."""
    if in_code:
        return _CODE_PARAGRAPH if blank else _CODE_LINE
    if not below.strip():
        # The blank line belongs to what stands above it: cut after it instead.
        return _WRAP
    if _HEADING_LINE.match(above):
        return _AFTER_HEADING
    if _HEADING_LINE.match(below):
        return _HEADING
    if above.rstrip().endswith((":", "：")):
        return _LEAD_IN
    if blank:
        return _PARAGRAPH
    if _ITEM_LINE.match(below) or _SENTENCE_END.search(above):
        return _LINE
    return _WRAP


def _fence_after(line: str, fence: str) -> str:
    """The fence of the code block that is open after a line, or nothing; `fence` was open before it."""
    match = _FENCE.match(line)
    if match is None:
        return fence
    marks, rest = match.group(1), match.group(2)
    if not fence:
        return "" if marks[0] == "`" and "`" in rest else marks
    closes = marks[0] == fence[0] and len(marks) >= len(fence) and not rest.strip()
    return "" if closes else fence


_WORD_EDGE = re.compile(r"\s+|[、，,;：]+(?=\S)")

_WORD_LOOKBACK = 24
"""Characters around a cut where the start of a word is looked for first: nearly always one is there."""


def _filled(text: str, start: int, end: int, reach: int) -> Iterator[_Cut]:
    """Cuts at words, or between characters, that bridge `text[start:end]` in steps of at most `reach`."""
    last = start
    while end - last > reach:
        word = _last_word_edge(text, last, last + reach, end)
        if word is None:
            last, cost = _between_characters(text, last, min(last + reach, end))
        else:
            last, cost = word, _WORD
        yield last, cost


def _last_word_edge(text: str, low: int, high: int, end: int) -> int | None:
    """The last offset in `(low, high]`, before `end`, at which a word begins; None if there is none."""
    near = max(low, high - _WORD_LOOKBACK)
    for start in dict.fromkeys((near, low)):
        found = None
        # Of a match that goes beyond `high` it does not matter where it ends.
        for match in _WORD_EDGE.finditer(text, start, min(end, high + _WORD_LOOKBACK)):
            offset = match.end()
            if offset > high or offset == end:
                break
            if not _joined(text, offset):
                found = offset
        if found is not None:
            return found
    return None


def _between_characters(text: str, start: int, end: int) -> _Cut:
    """The place near `end` that splits nothing a reader sees as one character, else `end` itself."""
    # Up to five steps ahead still leaves every gap within one window.
    furthest = min(start + 5 * (end - start), len(text) - 1)
    for offset in [*range(end, start, -1), *range(end + 1, furthest + 1)]:
        if not _joined(text, offset, since=start):
            return offset, _CHARACTER
    return end, _CLUSTER


_ZERO_WIDTH_JOINER = "\u200d"


def _joined(text: str, offset: int, since: int = 0) -> bool:
    """Whether both sides of an offset are read as one: a mark, CRLF, an emoji sequence, a flag, a syllable.

    `since` is a place before it that splits nothing; flags are paired from there.
    """
    before, after = text[offset - 1], text[offset]
    if after < "\u0300":
        return before == "\r" and after == "\n"
    if unicodedata.category(after)[0] == "M" or _ZERO_WIDTH_JOINER in (before, after):
        return True
    if "\U0001f3fb" <= after <= "\U0001f3ff" or "\U000e0020" <= after <= "\U000e007f":
        return True
    if before in _FLAG_HALVES and after in _FLAG_HALVES:
        run = text[since:offset]
        return (len(run) - len(run.rstrip(_FLAG_HALVES))) % 2 == 1
    return "\u1160" <= after <= "\u11ff" and "\u1100" <= before <= "\ud7a3"


_FLAG_HALVES = "".join(map(chr, range(0x1F1E6, 0x1F200)))
