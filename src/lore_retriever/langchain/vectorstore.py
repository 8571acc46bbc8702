"""`LoreVectorStore`: LangChain's vector store interface over hybrid search."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, cast

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings

from lore_retriever.bridge import View, acall, aperform, call, checked_view, perform
from lore_retriever.errors import InvalidInput
from lore_retriever.langchain.documents import plain_documents
from lore_retriever.langchain.embeddings import as_langchain_embeddings
from lore_retriever.langchain.opening import aopened, embedder_for, opened
from lore_retriever.langchain.scores import clamped, relevance_scores
from lore_retriever.langchain.storing import StoredDocuments
from lore_retriever.operations import adapters
from lore_retriever.operations.adapters import Conditions
from lore_retriever.operations.common import OpenSpace
from lore_retriever.steps import Operation
from lore_retriever.store import AsyncMemoryStore, MemoryStore
from lore_retriever.types import Recall, Scope, Visibility

if TYPE_CHECKING:
    from lore_retriever.langchain.retrievers import LoreVectorStoreRetriever

__all__ = ["LoreVectorStore"]

_CONDITIONS = ("filter", "kinds", "as_of")


def checked_conditions(options: Mapping[str, Any]) -> Conditions:
    """The conditions among a search's keyword arguments.

    Raises:
        InvalidInput: If there is any other argument: a misspelt `filter` would search everything.
    """
    # `verbose` is LangChain's own and reaches retrievers among the arguments of a search.
    unknown = [name for name in options if name not in _CONDITIONS and name != "verbose"]
    if unknown:
        raise InvalidInput(
            f"the search knows no argument {unknown[0]!r}; it takes k, filter, kinds and as_of. Whose memories are searched is"
            " settled by the view that the store was given."
        )
    return cast(Conditions, {name: options[name] for name in _CONDITIONS if options.get(name) is not None})


class LoreVectorStore(StoredDocuments):
    """Documents stored as memories and found by every leg of the search, for one caller.

    Search is hybrid: by meaning, by exact words and identifiers, by rare words with near misses in spelling, and by
    other names. Memories of 1,200 characters or fewer come back as they were stored, with their metadata untouched;
    longer ones as the passage that matched, marked by `lore_truncated` and its companions. Documents without a kind
    are stored as `document`, which never fades. Reserved metadata keys set a memory's fields on write: `lore_kind`,
    `lore_visibility`, `lore_created_at`, `lore_expires_at`, `lore_pinned`, `lore_aliases`, `lore_source`,
    `lore_agent`, `lore_session`.

    Works from synchronous and asynchronous code with the view of either store.

    Args:
        memories: `store.as_user(org=…, user=…)` of a `MemoryStore` or an `AsyncMemoryStore`; it stays the caller's
            to close.
        visibility: Of documents that do not say: `private` to the user, or `shared` with the organisation.

    Raises:
        InvalidInput: If `memories` is no view.
    """

    def __init__(self, memories: View, *, visibility: Visibility = "private") -> None:
        self.memories = checked_view(memories)
        self.visibility: Visibility = visibility
        self._owned: MemoryStore | AsyncMemoryStore | None = None

    @property
    def embeddings(self) -> Embeddings | None:
        """The store's embedder as LangChain embeddings; None until an asynchronous store has asked its database."""
        embedder = self.memories.store.known_embedder
        return None if embedder is None else as_langchain_embeddings(embedder)

    # Searching

    def recall(self, query: str, k: int = 4, **conditions: Any) -> Recall:
        """The search itself, with all it knows of each hit; `conditions` are `filter`, `kinds` and `as_of`."""
        checked = checked_conditions(conditions)
        return call(self.memories, lambda view: view.recall(query, limit=k, **checked))

    async def arecall(self, query: str, k: int = 4, **conditions: Any) -> Recall:
        """As `recall`."""
        checked = checked_conditions(conditions)
        found: Recall = await acall(self.memories, lambda view: view.recall(query, limit=k, **checked))
        return found

    def similarity_search(self, query: str, k: int = 4, **kwargs: Any) -> list[Document]:
        """The best documents for a query, by hybrid search.

        Args:
            query: A question, a few words, or an identifier as typed.
            k: How many, at most 1,000.
            **kwargs: `filter` (the `$` language), `kinds`, `as_of`.
        """
        return plain_documents(self.recall(query, k, **kwargs))

    async def asimilarity_search(self, query: str, k: int = 4, **kwargs: Any) -> list[Document]:
        """As `similarity_search`."""
        return plain_documents(await self.arecall(query, k, **kwargs))

    def similarity_search_with_score(self, query: str, k: int = 4, **kwargs: Any) -> list[tuple[Document, float]]:
        """The best documents and `Hit.score` of each: larger is better, comparable within one result only."""
        return _with_scores(self.recall(query, k, **kwargs))

    async def asimilarity_search_with_score(
        self, query: str, k: int = 4, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        """As `similarity_search_with_score`."""
        return _with_scores(await self.arecall(query, k, **kwargs))

    def scored(self, query: str, k: int = 4, **kwargs: Any) -> tuple[Recall, list[float]]:
        """A search and the relevance of each hit from 0 to 1: see `relevance_scores`."""
        found = self.recall(query, k, **kwargs)
        return found, relevance_scores(found, perform(self.memories, lambda space: adapters.fusion_knobs()))

    async def ascored(self, query: str, k: int = 4, **kwargs: Any) -> tuple[Recall, list[float]]:
        """As `scored`."""
        found = await self.arecall(query, k, **kwargs)
        return found, relevance_scores(found, await aperform(self.memories, lambda space: adapters.fusion_knobs()))

    def _similarity_search_with_relevance_scores(
        self, query: str, k: int = 4, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        found, scores = self.scored(query, k, **kwargs)
        return list(zip(plain_documents(found), scores, strict=True))

    async def _asimilarity_search_with_relevance_scores(
        self, query: str, k: int = 4, **kwargs: Any
    ) -> list[tuple[Document, float]]:
        found, scores = await self.ascored(query, k, **kwargs)
        return list(zip(plain_documents(found), scores, strict=True))

    def _select_relevance_score_fn(self) -> Callable[[float], float]:
        return clamped

    def similarity_search_by_vector(self, embedding: list[float], k: int = 4, **kwargs: Any) -> list[Document]:
        """The documents nearest to a vector, by the vector leg alone.

        Args:
            embedding: A query vector of the store's own embedding space: made by `embeddings`, or by the same model.
            k: How many.
            **kwargs: `filter`, `kinds`, `as_of`.

        Raises:
            InvalidInput: If it has another number of dimensions than the store's vectors, or no direction.
        """
        return plain_documents(perform(self.memories, _nearest(embedding, k, kwargs)))

    async def asimilarity_search_by_vector(self, embedding: list[float], k: int = 4, **kwargs: Any) -> list[Document]:
        """As `similarity_search_by_vector`."""
        return plain_documents(await aperform(self.memories, _nearest(embedding, k, kwargs)))

    def diverse(self, query: str, k: int = 4, fetch_k: int = 20, lambda_mult: float = 0.5, **conditions: Any) -> Recall:
        """`max_marginal_relevance_search` with all that is known of each hit; ranks are those of the search."""
        found: Recall = perform(self.memories, _diverse(query, k, fetch_k, lambda_mult, conditions))
        return found

    async def adiverse(
        self, query: str, k: int = 4, fetch_k: int = 20, lambda_mult: float = 0.5, **conditions: Any
    ) -> Recall:
        """As `diverse`."""
        found: Recall = await aperform(self.memories, _diverse(query, k, fetch_k, lambda_mult, conditions))
        return found

    def max_marginal_relevance_search(
        self, query: str, k: int = 4, fetch_k: int = 20, lambda_mult: float = 0.5, **kwargs: Any
    ) -> list[Document]:
        """Documents near the query and unlike each other, in the order in which they were picked.

        Args:
            query: As for `similarity_search`.
            k: How many.
            fetch_k: How many of the best hits to pick from.
            lambda_mult: 1 asks for the most similar, 0 for the most diverse.
            **kwargs: `filter`, `kinds`, `as_of`.
        """
        return plain_documents(self.diverse(query, k, fetch_k, lambda_mult, **kwargs))

    async def amax_marginal_relevance_search(
        self, query: str, k: int = 4, fetch_k: int = 20, lambda_mult: float = 0.5, **kwargs: Any
    ) -> list[Document]:
        """As `max_marginal_relevance_search`."""
        return plain_documents(await self.adiverse(query, k, fetch_k, lambda_mult, **kwargs))

    def max_marginal_relevance_search_by_vector(
        self, embedding: list[float], k: int = 4, fetch_k: int = 20, lambda_mult: float = 0.5, **kwargs: Any
    ) -> list[Document]:
        """As `max_marginal_relevance_search`, for a vector of the store's own embedding space, by the vector leg."""
        return plain_documents(perform(self.memories, _diverse(embedding, k, fetch_k, lambda_mult, kwargs)))

    async def amax_marginal_relevance_search_by_vector(
        self, embedding: list[float], k: int = 4, fetch_k: int = 20, lambda_mult: float = 0.5, **kwargs: Any
    ) -> list[Document]:
        """As `max_marginal_relevance_search_by_vector`."""
        return plain_documents(await aperform(self.memories, _diverse(embedding, k, fetch_k, lambda_mult, kwargs)))

    def as_retriever(self, **kwargs: Any) -> LoreVectorStoreRetriever:
        """A retriever over this store, whose documents carry all `lore_` keys.

        Args:
            **kwargs: `search_type` (`hybrid`, the default and the same as `similarity`; `mmr`;
                `similarity_score_threshold`), `search_kwargs`, and whatever a LangChain retriever takes.
        """
        from lore_retriever.langchain.retrievers import LoreVectorStoreRetriever

        tags = kwargs.pop("tags", None) or self._get_retriever_tags()
        return LoreVectorStoreRetriever(vectorstore=self, tags=tags, **kwargs)

    # Opening and closing

    @classmethod
    def from_texts(
        cls,
        texts: Iterable[str],
        embedding: Embeddings,
        metadatas: Iterable[Mapping[str, Any] | None] | None = None,
        *,
        ids: Sequence[str | None] | None = None,
        connection: str | None = None,
        org: str = "",
        user: str = "",
        schema: str = "lore",
        visibility: Visibility = "private",
        **options: Any,
    ) -> Self:
        """A vector store on a database of its own making, with these texts in it.

        The schema is created, or brought up to date, if it is not current. Close it with `close`, or use it as a
        context manager.

        Args:
            texts, metadatas, ids: As for `add_texts`.
            embedding: Makes the vectors, of documents and of queries.
            connection: Connection string or URL of a Postgres with pgvector; None for the built-in Postgres, which
                takes its folder as `path`.
            org, user: On whose behalf to write and search; both are needed.
            schema: Where the store lives.
            visibility: As for the constructor.
            **options: Those of `MemoryStore.connect` or `MemoryStore.embedded`.

        Raises:
            ScopeMissing: If `org` or `user` is not given.
            EmbeddingSpaceMismatch: If the store holds vectors of another model.
            PermissionDenied: If the schema is not current and this connection may not make it so.
        """
        scope = Scope(org=org, user=user)
        store = opened(connection, embedder_for(embedding), schema, options)
        try:
            made = cls(store.as_user(scope.org, scope.user), visibility=visibility)
            made._owned = store
            made.add_texts(texts, metadatas, ids=ids)
        except BaseException:
            store.close()
            raise
        return made

    @classmethod
    async def afrom_texts(
        cls,
        texts: Iterable[str],
        embedding: Embeddings,
        metadatas: Iterable[Mapping[str, Any] | None] | None = None,
        *,
        ids: Sequence[str | None] | None = None,
        connection: str | None = None,
        org: str = "",
        user: str = "",
        schema: str = "lore",
        visibility: Visibility = "private",
        **options: Any,
    ) -> Self:
        """As `from_texts`, on an asynchronous store; close it with `aclose`."""
        scope = Scope(org=org, user=user)
        store = await aopened(connection, embedder_for(embedding), schema, options)
        try:
            made = cls(store.as_user(scope.org, scope.user), visibility=visibility)
            made._owned = store
            await made.aadd_texts(texts, metadatas, ids=ids)
        except BaseException:
            await store.close()
            raise
        return made

    def close(self) -> None:
        """Close the store that `from_texts` opened; one that was given stays open.

        Raises:
            InvalidInput: If `afrom_texts` opened it.
        """
        if isinstance(self._owned, AsyncMemoryStore):
            raise InvalidInput("this store was opened by afrom_texts; close it with `await aclose()`.")
        if self._owned is not None:
            self._owned.close()

    async def aclose(self) -> None:
        """As `close`, for either store."""
        if isinstance(self._owned, AsyncMemoryStore):
            await self._owned.close()
        else:
            self.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


def _nearest(vector: Sequence[float], k: int, options: Mapping[str, Any]) -> Callable[[OpenSpace], Operation]:
    wanted = checked_conditions(options)
    return lambda space: adapters.recall_by_vector(space, vector, limit=k, **wanted)


def _diverse(
    query: str | Sequence[float], k: int, fetch_k: int, lambda_mult: float, options: Mapping[str, Any]
) -> Callable[[OpenSpace], Operation]:
    """The operation for a text, or for a vector of the store's space."""
    wanted: dict[str, Any] = {"k": k, "fetch_k": fetch_k, "lambda_mult": lambda_mult, **checked_conditions(options)}
    if isinstance(query, str):
        return lambda space: adapters.diverse(space, query, **wanted)
    return lambda space: adapters.diverse_by_vector(space, query, **wanted)


def _with_scores(found: Recall) -> list[tuple[Document, float]]:
    return [(document, hit.score) for document, hit in zip(plain_documents(found), found.hits, strict=True)]
