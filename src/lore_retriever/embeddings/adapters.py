"""Embedders made from what a program has: a LangChain or LlamaIndex embedding class, or a function."""

from __future__ import annotations

import asyncio
import copy
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from lore_retriever.embeddings.base import Embedder, EmbeddingSpace, Vector
from lore_retriever.embeddings.checking import unit_or_same
from lore_retriever.embeddings.lengths import ASSUMED_MAX_TOKENS, Parts, cut_to_fit, token_bound
from lore_retriever.errors import InvalidInput

__all__ = ["CallableEmbedder", "LangChainEmbedder", "LlamaIndexEmbedder"]

_UNVERSIONED = "unversioned"
_UNBOUNDED = 10**9


class _HasLangChainMethods(Protocol):
    """The part of `langchain_core.embeddings.Embeddings` that is used."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]: ...
    def embed_query(self, text: str) -> list[float]: ...
    async def aembed_documents(self, texts: list[str]) -> list[list[float]]: ...
    async def aembed_query(self, text: str) -> list[float]: ...


class _HasLlamaIndexMethods(Protocol):
    """The part of `llama_index.core.embeddings.BaseEmbedding` that is used."""

    def get_query_embedding(self, query: str) -> list[float]: ...
    async def aget_query_embedding(self, query: str) -> list[float]: ...
    def get_text_embedding_batch(self, texts: list[str]) -> list[list[float]]: ...
    async def aget_text_embedding_batch(self, texts: list[str]) -> list[list[float]]: ...


class _Adapter(ABC):
    """What the three have in common: a space, a token window, and vectors of unit length."""

    def __init__(
        self,
        *,
        model: str,
        revision: str | None,
        dimensions: int | None,
        max_tokens: int | None,
        count_tokens: Callable[[str], int] | None,
        centre: Vector | None,
    ) -> None:
        for name, value in (("dimensions", dimensions), ("max_tokens", max_tokens)):
            if value is not None and value < 1:
                raise InvalidInput(f"{name} is {value}: it must be at least 1.")
        self._model = model
        self._revision = revision or _UNVERSIONED
        self._dimensions = dimensions
        self._max_tokens = ASSUMED_MAX_TOKENS if max_tokens is None else max_tokens
        self._count_tokens = count_tokens or token_bound
        self._centre = centre
        self._measuring = threading.Lock()

    @property
    def space(self) -> EmbeddingSpace:
        """Name and revision as given or found, and the dimensions (measured once if not given)."""
        with self._measuring:
            if self._dimensions is None:
                self._dimensions = len(unit_or_same(self._embed_texts(["dimensions"])[0]))
        return EmbeddingSpace(model=self._model, revision=self._revision, dimensions=self._dimensions)

    @property
    def max_tokens(self) -> int | None:
        """Tokens of one window: as given or found, else 512."""
        return self._max_tokens

    @property
    def centre(self) -> Vector | None:
        """As given; None if unknown."""
        return self._centre

    def count_tokens(self, text: str) -> int:
        """Tokens under the tokenizer that was given or found, else an upper bound from the text's bytes."""
        return self._count_tokens(text)

    def embed_texts(self, texts: Sequence[str], /) -> list[Vector]:
        """One unit vector for each stored text, shape `(len(texts), dimensions)`."""
        parts = self._cut(texts)
        return parts.merged(_units(self._embed_texts(parts.texts)))

    def embed_queries(self, texts: Sequence[str], /) -> list[Vector]:
        """One unit vector for each query, shape `(len(texts), dimensions)`."""
        parts = self._cut(texts)
        return parts.merged(_units(self._embed_queries(parts.texts)))

    def _cut(self, texts: Sequence[str]) -> Parts:
        return cut_to_fit(texts, max_tokens=self._max_tokens, count_tokens=self._count_tokens)

    @abstractmethod
    def _embed_texts(self, texts: list[str]) -> Sequence[Any]:
        """One vector for each stored text, of any length."""

    @abstractmethod
    def _embed_queries(self, texts: list[str]) -> Sequence[Any]:
        """One vector for each query, of any length."""


class _AsyncAdapter(_Adapter):
    """An adapter of a class that has asynchronous methods of its own."""

    async def aembed_texts(self, texts: Sequence[str], /) -> list[Vector]:
        """As `embed_texts`, through the asynchronous method of the class that is adapted."""
        parts = self._cut(texts)
        return parts.merged(_units(await self._aembed_texts(parts.texts)))

    async def aembed_queries(self, texts: Sequence[str], /) -> list[Vector]:
        """As `embed_queries`, through the asynchronous method of the class that is adapted."""
        parts = self._cut(texts)
        return parts.merged(_units(await self._aembed_queries(parts.texts)))

    @abstractmethod
    async def _aembed_texts(self, texts: list[str]) -> Sequence[Any]:
        """As `_embed_texts`."""

    @abstractmethod
    async def _aembed_queries(self, texts: list[str]) -> Sequence[Any]:
        """As `_embed_queries`."""


def _units(vectors: Sequence[Any]) -> list[Vector]:
    return [unit_or_same(vector) for vector in vectors]


class LangChainEmbedder(_AsyncAdapter):
    """Embeds with any LangChain `Embeddings`: `embed_query` for queries, `embed_documents` for stored texts.

    Args:
        embeddings: The LangChain object; its asynchronous methods serve asynchronous stores.
        dimension: Numbers in a vector; measured with one short text when first needed if None.
        model: Name of the space; the object's own `model_name` or `model`, else its class, if None.
        revision: Version of the model; `unversioned` if None. Name one if the provider may change the model.
        max_tokens: Tokens that the model reads of one text; found where the object tells, else 512, if None.
        count_tokens: Tokens of a text, special tokens and prefix included; the model's tokenizer where the
            object has one, else an upper bound from the text's bytes, if None.
        centre: Mean vector of the space, shape `(dimension,)`, if known.

    Raises:
        InvalidInput: If `embeddings` has no `embed_documents` and `embed_query`, or a number is below 1.
    """

    def __init__(
        self,
        embeddings: _HasLangChainMethods,
        dimension: int | None = None,
        *,
        model: str | None = None,
        revision: str | None = None,
        max_tokens: int | None = None,
        count_tokens: Callable[[str], int] | None = None,
        centre: Vector | None = None,
    ) -> None:
        _require(embeddings, "LangChainEmbedder", "embed_documents", "embed_query")
        found = _Found(embeddings)
        super().__init__(
            model=model or found.model,
            revision=revision or found.revision,
            dimensions=found.dimensions if dimension is None else dimension,
            max_tokens=found.max_tokens if max_tokens is None else max_tokens,
            count_tokens=count_tokens or found.count_tokens,
            centre=found.centre if centre is None else centre,
        )
        self._embeddings = embeddings

    def _embed_texts(self, texts: list[str]) -> Sequence[Any]:
        return self._embeddings.embed_documents(texts)

    def _embed_queries(self, texts: list[str]) -> Sequence[Any]:
        return [self._embeddings.embed_query(text) for text in texts]

    async def _aembed_texts(self, texts: list[str]) -> Sequence[Any]:
        return await self._embeddings.aembed_documents(texts)

    async def _aembed_queries(self, texts: list[str]) -> Sequence[Any]:
        return await asyncio.gather(*(self._embeddings.aembed_query(text) for text in texts))


class LlamaIndexEmbedder(_AsyncAdapter):
    """Embeds with any LlamaIndex `BaseEmbedding`, its query method for queries, its text method for texts.

    Args:
        embed_model: The LlamaIndex object; its asynchronous methods serve asynchronous stores.
        dimension: Numbers in a vector; measured with one short text when first needed if None.
        model: Name of the space; the object's own `model_name`, else its class, if None.
        revision: Version of the model; `unversioned` if None. Name one if the provider may change the model.
        max_tokens: Tokens that the model reads of one text; found where the object tells, else 512, if None.
        count_tokens: Tokens of a text, special tokens and prefix included; the model's tokenizer where the
            object has one, else an upper bound from the text's bytes, if None.
        centre: Mean vector of the space, shape `(dimension,)`, if known.

    Raises:
        InvalidInput: If `embed_model` is no `BaseEmbedding`, or a number is below 1.
    """

    def __init__(
        self,
        embed_model: _HasLlamaIndexMethods,
        dimension: int | None = None,
        *,
        model: str | None = None,
        revision: str | None = None,
        max_tokens: int | None = None,
        count_tokens: Callable[[str], int] | None = None,
        centre: Vector | None = None,
    ) -> None:
        _require(embed_model, "LlamaIndexEmbedder", "get_query_embedding", "get_text_embedding_batch")
        found = _Found(embed_model)
        super().__init__(
            model=model or found.model,
            revision=revision or found.revision,
            dimensions=found.dimensions if dimension is None else dimension,
            max_tokens=found.max_tokens if max_tokens is None else max_tokens,
            count_tokens=count_tokens or found.count_tokens,
            centre=found.centre if centre is None else centre,
        )
        self._embed_model = embed_model

    def _embed_texts(self, texts: list[str]) -> Sequence[Any]:
        return self._embed_model.get_text_embedding_batch(texts)

    def _embed_queries(self, texts: list[str]) -> Sequence[Any]:
        return [self._embed_model.get_query_embedding(text) for text in texts]

    async def _aembed_texts(self, texts: list[str]) -> Sequence[Any]:
        return await self._embed_model.aget_text_embedding_batch(texts)

    async def _aembed_queries(self, texts: list[str]) -> Sequence[Any]:
        return await asyncio.gather(*(self._embed_model.aget_query_embedding(text) for text in texts))


class CallableEmbedder(_Adapter):
    """Embeds with a function of your own.

    Args:
        embed: Takes a list of texts, returns one vector (list, tuple or array) for each, of any norm but 0.
        dimensions: Numbers in a vector.
        model: Name of the space: two embedders of one name, revision and dimensions count as the same.
        embed_query: The same for queries, where the model treats them differently; `embed` if None.
        revision: Version of the model; `unversioned` if None.
        max_tokens: Tokens that the model reads of one text; 512 if None.
        count_tokens: Tokens of a text, special tokens and prefix included; an upper bound from the text's
            bytes if None.
        centre: Mean vector of the space, shape `(dimensions,)`, if known.

    Raises:
        InvalidInput: If a number is below 1.
    """

    def __init__(
        self,
        embed: Callable[[list[str]], Sequence[Any]],
        *,
        dimensions: int,
        model: str,
        embed_query: Callable[[list[str]], Sequence[Any]] | None = None,
        revision: str | None = None,
        max_tokens: int | None = None,
        count_tokens: Callable[[str], int] | None = None,
        centre: Vector | None = None,
    ) -> None:
        super().__init__(
            model=model,
            revision=revision,
            dimensions=dimensions,
            max_tokens=max_tokens,
            count_tokens=count_tokens,
            centre=centre,
        )
        self._embed = embed
        self._embed_query = embed_query or embed

    def _embed_texts(self, texts: list[str]) -> Sequence[Any]:
        return self._embed(texts)

    def _embed_queries(self, texts: list[str]) -> Sequence[Any]:
        return self._embed_query(texts)


def _require(value: object, embedder: str, *methods: str) -> None:
    missing = [method for method in methods if not callable(getattr(value, method, None))]
    if missing:
        raise InvalidInput(f"{embedder} was given a {type(value).__name__}, which has no {' and no '.join(missing)}.")


class _Found:
    """What a framework's embedding class tells of its model; everything, if it wraps an embedder of ours."""

    def __init__(self, value: object) -> None:
        own = getattr(value, "embedder", None)
        self.model = _name_of(value)
        self.revision: str | None = None
        self.dimensions: int | None = None
        self.max_tokens = _token_window_of(value)
        self.count_tokens = _tokenizer_of(value)
        self.centre: Vector | None = None
        if isinstance(own, Embedder):
            space = own.space
            self.model, self.revision, self.dimensions = space.model, space.revision, space.dimensions
            self.max_tokens = own.max_tokens or _UNBOUNDED
            self.count_tokens = own.count_tokens
            self.centre = own.centre


def _name_of(value: object) -> str:
    """The model's name as the frameworks' classes keep it, else the name of the class."""
    names = (getattr(value, attribute, None) for attribute in ("model_name", "model"))
    # LlamaIndex says "unknown" where a class sets none.
    known = (name for name in names if isinstance(name, str) and name and name != "unknown")
    return next(known, type(value).__name__)


def _inner_model(value: object) -> Any:
    """The sentence-transformers model inside the frameworks' local embedding classes, or None."""
    inner = (getattr(value, attribute, None) for attribute in ("_client", "client", "_model"))
    return next((model for model in inner if hasattr(model, "max_seq_length")), None)


def _token_window_of(value: object) -> int | None:
    """The token window where an embedding class tells it: local models, and OpenAI's under LangChain."""
    told = (
        getattr(_inner_model(value), "max_seq_length", None),
        getattr(value, "embedding_ctx_length", None),
        getattr(value, "max_length", None),
    )
    return next((number for number in told if isinstance(number, int) and number > 0), None)


_PROMPT_TOKENS = 16


def _tokenizer_of(value: object) -> Callable[[str], int] | None:
    """A counter over the tokenizer of a local model, with room for a short prompt that its class may add."""
    tokenizer = getattr(_inner_model(value), "tokenizer", None)
    if not hasattr(tokenizer, "backend_tokenizer"):
        return None
    own: Any = copy.deepcopy(tokenizer)

    def count(text: str) -> int:
        return _PROMPT_TOKENS + len(own(text, truncation=False, padding=False, verbose=False)["input_ids"])

    return count
