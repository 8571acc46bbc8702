"""Texts longer than a model reads: a count that never errs downwards, and vectors that leave nothing out."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lore_retriever.embeddings.base import Vector
from lore_retriever.embeddings.checking import unit_or_same
from lore_retriever.windows import split_windows

__all__ = ["ASSUMED_MAX_TOKENS", "Parts", "cut_to_fit", "token_bound"]

ASSUMED_MAX_TOKENS = 512
"""Token window of a model that does not tell its own. Give `max_tokens` where a model reads more, or less."""

_OVERHEAD = 16
"""Room for special tokens and for a short prefix that a remote model may add."""


def token_bound(text: str) -> int:
    """At least as many tokens as any common tokenizer makes of a text, specials and a short prefix included.

    Every token of a byte-level, WordPiece or SentencePiece vocabulary covers one byte or more of the text or
    of its compatibility normalisation, so the longer of the two in UTF-8 bounds their number. English has
    about a quarter as many tokens, Chinese a third: give an embedder the real tokenizer for fuller windows.
    """
    normalised = unicodedata.normalize("NFKC", text)
    return _OVERHEAD + max(len(form.encode("utf-8", "replace")) for form in (text, normalised))


@dataclass(frozen=True, slots=True)
class Parts:
    """Texts cut to what a model reads, and which part belongs to which text.

    Attributes:
        texts: The parts, in order; a text that fits is one part, unchanged.
        spans: For each text the half-open range of its parts.
    """

    texts: list[str]
    spans: list[tuple[int, int]]

    def merged(self, vectors: Sequence[Vector]) -> list[Vector]:
        """One vector for each text: that of its only part, or the direction of its parts' mean."""
        if len(vectors) != len(self.texts):
            # Whoever checks the vectors shall see that their number is wrong.
            return list(vectors)
        return [_mean_direction(vectors[first:last]) for first, last in self.spans]


def cut_to_fit(texts: Sequence[str], *, max_tokens: int | None, count_tokens: Callable[[str], int]) -> Parts:
    """Cuts what is too long for a model, so that nothing is truncated in silence.

    Stored texts are windows and fit already; this is for queries, and for texts that reach an embedder past
    the store.

    Args:
        texts: Any texts.
        max_tokens: Tokens that the model reads of one text; None if unbounded.
        count_tokens: Tokens of a text, prefix and special tokens included.
    """
    parts: list[str] = []
    spans: list[tuple[int, int]] = []
    for text in texts:
        first = len(parts)
        if max_tokens is None or count_tokens(text) <= max_tokens:
            parts.append(text)
        else:
            windows = split_windows(text, max_tokens=max_tokens, count_tokens=count_tokens)
            parts.extend(text[window.start : window.end] for window in windows)
        spans.append((first, len(parts)))
    return Parts(parts, spans)


def _mean_direction(vectors: Sequence[Vector]) -> Vector:
    """The unit vector nearest to all of some vectors; a single one as it is."""
    if len(vectors) == 1:
        return vectors[0]
    return unit_or_same([math.fsum(numbers) for numbers in zip(*vectors, strict=True)])
