"""Counts tokens the way the caller's model does, or as nearly as can be known. Pure."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sized
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from lore_retriever.embeddings.base import Embedder
from lore_retriever.errors import InvalidInput

__all__ = ["CountTokens", "Counter", "counter_of", "default_counter", "estimated_tokens"]

CountTokens = Callable[[str], int] | Callable[[str], Sized] | Any
"""A function from text to a number of tokens or to the tokens, or a tokenizer that has `encode`."""

ESTIMATE = "an estimate: a quarter of the text's bytes in UTF-8"
_PROBE = "Nine ordinary words, and hardly as many tokens more."


@dataclass(frozen=True, slots=True)
class Counter:
    """Counts tokens.

    Attributes:
        count: Tokens of a text.
        name: What counts, for the record.
        base: Tokens of an empty text, which a tokenizer adds to every text that it is given alone.
    """

    count: Callable[[str], int]
    name: str
    base: int

    def of_part(self, text: str) -> int:
        """What a text adds to a longer one; never negative."""
        return max(0, self.count(text) - self.base)


def estimated_tokens(text: str) -> int:
    """A quarter of the bytes in UTF-8, rounded up: near the truth for English, above it for most other scripts."""
    return -(-len(text.encode("utf-8", "surrogatepass")) // 4)


def counter_of(given: CountTokens | None, embedder: Embedder | None = None) -> Counter:
    """A counter from what a caller gave, or the default for an embedder.

    Accepted are functions that return a number (`len`, a model's `get_num_tokens`), functions that return the
    tokens (LlamaIndex's tokenizer, `encoding.encode`), tokenizers with `encode` (tiktoken, transformers), and
    LangChain's counters of messages.

    Raises:
        InvalidInput: If it is none of these, or does not count a short text.
    """
    if given is None:
        return default_counter(embedder)
    counting = _as_function(given)
    return Counter(counting, getattr(given, "__name__", None) or type(given).__name__, counting(""))


def default_counter(embedder: Embedder | None) -> Counter:
    """The embedder's own tokenizer without the special tokens, or the estimate where it only bounds by bytes."""
    if embedder is not None:
        base = embedder.count_tokens("")
        if embedder.count_tokens(_PROBE) - base < len(_PROBE):
            counting = _remembered(lambda text: max(0, embedder.count_tokens(text) - base))
            return Counter(counting, f"the tokenizer of {embedder.space.model}", 0)
    return Counter(estimated_tokens, ESTIMATE, 0)


def _as_function(given: Any) -> Callable[[str], int]:
    # tiktoken's `encode` raises on texts that hold its special tokens; `encode_ordinary` takes them as text.
    owner = given if not callable(given) else getattr(given, "__self__", None)
    plain = getattr(owner, "encode_ordinary", None)
    function = plain if plain is not None else given if callable(given) else getattr(given, "encode", None)
    if not callable(function) or isinstance(given, str | bytes):
        raise InvalidInput(
            f"count_tokens is {given!r}; give a function from text to a number of tokens, or a tokenizer with `encode`."
        )
    wanted = (lambda text: [("user", text)]) if _counts_messages(function) else (lambda text: text)
    return _remembered(lambda text: _number(function(wanted(text))))


def _counts_messages(function: Callable[..., Any]) -> bool:
    try:
        first = next(iter(inspect.signature(function).parameters), "")
    except (TypeError, ValueError):
        return False
    return first == "messages"


def _number(counted: Any) -> int:
    if isinstance(counted, int) and not isinstance(counted, bool) and counted >= 0:
        return counted
    if isinstance(counted, Sized):
        return len(getattr(counted, "ids", counted))
    raise InvalidInput(
        f"count_tokens returned {counted!r}; it must return a number of tokens, 0 or more, or the tokens."
    )


def _remembered(count: Callable[[str], int]) -> Callable[[str], int]:
    """Packing asks for the same text more than once; a tokenizer takes about a millisecond a window."""
    return lru_cache(maxsize=2048)(count)
