"""`LoreRetriever`, and the retriever that `LoreVectorStore.as_retriever` returns."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, ClassVar

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever, LangSmithRetrieverParams
from langchain_core.vectorstores import VectorStoreRetriever
from pydantic import Field

from lore_retriever.bridge import View, acall, call
from lore_retriever.errors import InvalidInput
from lore_retriever.langchain.documents import annotated_documents
from lore_retriever.langchain.vectorstore import LoreVectorStore
from lore_retriever.limits import MAX_LIMIT
from lore_retriever.types import Recall
from lore_retriever.views import AsyncMemories, Memories

__all__ = ["LoreRetriever", "LoreVectorStoreRetriever"]


class LoreRetriever(BaseRetriever):
    """Finds memories for a query: one search statement, best first, every document annotated.

    `page_content` is the memory where it has 1,200 characters or fewer, else the passage that matched; `Document.id`
    is the memory's id, and the metadata are the user's own with the `lore_` keys beside them. `k`, `filter`, `kinds`
    and `as_of` may also be given to `invoke`, where they take the field's place for that call. Whose memories are
    searched is settled by `memories` and by nothing that a call can say.

    Works from synchronous and asynchronous code with the view of either store.
    """

    memories: Memories | AsyncMemories = Field(exclude=True, repr=False)
    """`store.as_user(org=…, user=…)` of a `MemoryStore` or an `AsyncMemoryStore`."""

    k: int = Field(default=10, ge=1, le=MAX_LIMIT)
    """How many documents, at most 1,000."""

    filter: dict[str, Any] | None = None
    """Conditions on metadata and `lore_` fields, in the `$` language."""

    kinds: list[str] | None = None
    """Only memories of these kinds."""

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, **options: Any
    ) -> list[Document]:
        asked = self._asked(options)
        return annotated_documents(call(self.memories, lambda view: view.recall(query, **asked)))

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, **options: Any
    ) -> list[Document]:
        asked = self._asked(options)
        return annotated_documents(await acall(self.memories, lambda view: view.recall(query, **asked)))

    def _asked(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Arguments of `recall`: the fields, and what this call gives instead.

        Raises:
            InvalidInput: If the call gives anything else.
        """
        known = {"k": self.k, "filter": self.filter, "kinds": self.kinds, "as_of": None}
        if unknown := [name for name in options if name not in known and name != "verbose"]:
            raise InvalidInput(
                f"the retriever knows no argument {unknown[0]!r}; it takes k, filter, kinds and as_of. Whose memories are"
                " searched is settled by the view that it was given."
            )
        asked = known | {name: value for name, value in options.items() if value is not None and name in known}
        return {"limit": asked.pop("k"), **asked}

    def _get_ls_params(self, **kwargs: Any) -> LangSmithRetrieverParams:
        return _ls_params(super()._get_ls_params(**kwargs), self.memories)


def _ls_params(params: LangSmithRetrieverParams, view: View) -> LangSmithRetrieverParams:
    """Tracing parameters that name the store and its model, as far as that is known without asking the database."""
    params["ls_vector_store_provider"] = "lore-retriever"
    embedder = view.store.known_embedder
    if embedder is not None:
        params["ls_embedding_provider"] = type(embedder).__name__
    if (space := view.store.known_space) is not None:
        params["ls_embedding_model"] = space.model
    return params


class LoreVectorStoreRetriever(VectorStoreRetriever):
    """A retriever over a `LoreVectorStore`; its documents carry all `lore_` keys.

    `hybrid` and `similarity` are the same search.
    """

    vectorstore: LoreVectorStore
    search_type: str = "hybrid"
    allowed_search_types: ClassVar[Collection[str]] = ("hybrid", "similarity", "similarity_score_threshold", "mmr")

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, **kwargs: Any
    ) -> list[Document]:
        options = self.search_kwargs | kwargs
        if self.search_type == "mmr":
            return annotated_documents(self.vectorstore.diverse(query, **options))
        least = options.pop("score_threshold", None)
        if self.search_type == "similarity_score_threshold":
            return _at_least(least, *self.vectorstore.scored(query, **options))
        return annotated_documents(self.vectorstore.recall(query, **options))

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, **kwargs: Any
    ) -> list[Document]:
        options = self.search_kwargs | kwargs
        if self.search_type == "mmr":
            return annotated_documents(await self.vectorstore.adiverse(query, **options))
        least = options.pop("score_threshold", None)
        if self.search_type == "similarity_score_threshold":
            return _at_least(least, *await self.vectorstore.ascored(query, **options))
        return annotated_documents(await self.vectorstore.arecall(query, **options))

    def _get_ls_params(self, **kwargs: Any) -> LangSmithRetrieverParams:
        return _ls_params(super()._get_ls_params(**kwargs), self.vectorstore.memories)


def _at_least(least: float | None, found: Recall, scores: list[float]) -> list[Document]:
    documents = annotated_documents(found)
    return [document for document, score in zip(documents, scores, strict=True) if score >= (least or 0.0)]
