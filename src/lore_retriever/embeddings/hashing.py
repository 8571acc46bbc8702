"""An embedder without a model, for tests and examples."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from hashlib import blake2b

from lore_retriever.embeddings.base import EmbeddingSpace, Vector
from lore_retriever.errors import InvalidInput

__all__ = ["HashEmbedder"]

_WORD = re.compile(r"\w+|[^\w\s]")
_TOKEN = re.compile(r"\w{1,8}|[^\w\s]")
_TRIGRAM_WEIGHT = 0.5
_PLACES = 8


class HashEmbedder:
    """Texts that share words, or parts of words, lie near each other; the same text always lies in one place.

    Each word, and with half of its weight each of its trigrams, is hashed to eight signed places of the
    vector. No meaning is known: synonyms are as far apart as any two words. Queries are embedded like texts.

    Args:
        dimensions: Numbers in a vector, at least 1.
        model: Name of the space; embedders of two names do not mix.
        max_tokens: Tokens read of one text, for trying windows that are bounded by them; unbounded if None. A
            token is a punctuation mark or up to eight characters of a word, and each text costs two more.

    Raises:
        InvalidInput: If `dimensions` is below 1.
    """

    def __init__(
        self, dimensions: int = 32, *, model: str = "lore-retriever/hash", max_tokens: int | None = None
    ) -> None:
        if dimensions < 1:
            raise InvalidInput(f"dimensions is {dimensions}: a vector has at least 1 number.")
        self._space = EmbeddingSpace(model=model, revision="1", dimensions=dimensions)
        self._max_tokens = max_tokens

    @property
    def space(self) -> EmbeddingSpace:
        """The model's name, revision `1` and the dimensions."""
        return self._space

    @property
    def max_tokens(self) -> int | None:
        """As given."""
        return self._max_tokens

    @property
    def centre(self) -> Vector | None:
        """None: hashed vectors lie around the origin."""
        return None

    def count_tokens(self, text: str) -> int:
        """Two, and one for each punctuation mark and each eight characters of a word."""
        return 2 + len(_TOKEN.findall(text))

    def embed_texts(self, texts: Sequence[str], /) -> list[Vector]:
        """One unit vector for each text, shape `(len(texts), dimensions)`."""
        return [self._embed(text) for text in texts]

    def embed_queries(self, texts: Sequence[str], /) -> list[Vector]:
        """The same as `embed_texts`."""
        return [self._embed(text) for text in texts]

    def _embed(self, text: str) -> Vector:
        sums = [0.0] * self._space.dimensions
        for feature, weight in _features(text):
            for place, sign in _places(feature, self._space.dimensions):
                sums[place] += sign * weight
        norm = math.hypot(*sums)
        if norm < 1e-9:
            # No word at all, or signs that cancel out: still a direction, the same one every time.
            return [1.0] + [0.0] * (self._space.dimensions - 1)
        return [number / norm for number in sums]


def _features(text: str) -> Iterator[tuple[str, float]]:
    """Every word and every trigram of a word, with its weight."""
    for word in _WORD.findall(text.lower()):
        yield word, 1.0
        padded = f"\0{word}\0"
        for start in range(len(padded) - 2):
            yield padded[start : start + 3], _TRIGRAM_WEIGHT


@lru_cache(maxsize=65_536)
def _places(feature: str, dimensions: int) -> tuple[tuple[int, float], ...]:
    """The signed places that a feature adds to."""
    digest = blake2b(feature.encode("utf-8", "surrogatepass"), digest_size=4 * _PLACES).digest()
    parts = [int.from_bytes(digest[start : start + 4], "little") for start in range(0, len(digest), 4)]
    return tuple(((part >> 1) % dimensions, 1.0 if part & 1 else -1.0) for part in parts)
