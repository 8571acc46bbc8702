"""Documents in and out by id: the half of the vector store interface that does not search."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from langchain_core.documents import Document
from langchain_core.vectorstores import VectorStore

from lore_retriever.bridge import View, acall, aperform, call, perform
from lore_retriever.errors import InvalidInput
from lore_retriever.langchain.documents import aligned_ids, memory_document, new_memories, require_one_each
from lore_retriever.operations import adapters
from lore_retriever.types import NewMemory, Visibility

__all__ = ["StoredDocuments"]


class StoredDocuments(VectorStore):
    """Adds, replaces, reads and deletes documents; `LoreVectorStore` adds the search."""

    memories: View
    visibility: Visibility

    def add_texts(
        self,
        texts: Iterable[str],
        metadatas: Iterable[Mapping[str, Any] | None] | None = None,
        *,
        ids: Sequence[str | None] | None = None,
        **kwargs: Any,
    ) -> list[str]:
        """Store texts in one transaction, whole or not at all; one id for each, in order.

        Args:
            texts: Any iterable.
            metadatas: One for each text, or None.
            ids: One for each text, None where one shall be made; an own memory of that id is replaced, text,
                metadata and vectors. The last of several texts with one id wins.
            **kwargs: Those of other stores are accepted and have no effect.

        Raises:
            InvalidInput: If anything cannot be stored; it names the item, and nothing is stored.
        """
        batch, given = self._batch(texts, metadatas, ids)
        return aligned_ids(given, call(self.memories, lambda view: view.remember_many(batch)))

    async def aadd_texts(
        self,
        texts: Iterable[str],
        metadatas: Iterable[Mapping[str, Any] | None] | None = None,
        *,
        ids: Sequence[str | None] | None = None,
        **kwargs: Any,
    ) -> list[str]:
        """As `add_texts`."""
        batch, given = self._batch(texts, metadatas, ids)
        return aligned_ids(given, await acall(self.memories, lambda view: view.remember_many(batch)))

    def _batch(
        self,
        texts: Iterable[str],
        metadatas: Iterable[Mapping[str, Any] | None] | None,
        ids: Iterable[str | None] | None,
    ) -> tuple[list[NewMemory], list[str | None]]:
        listed = _listed(texts, "texts")
        about = None if metadatas is None else list(metadatas)
        given: list[str | None] = [None] * len(listed) if ids is None else list(_listed(ids, "ids"))
        require_one_each(listed, about or None, "metadatas")
        require_one_each(listed, given, "ids")
        return list(new_memories(listed, about or None, given, visibility=self.visibility)), given

    def add_documents(self, documents: Iterable[Document], **kwargs: Any) -> list[str]:
        """As `add_texts`, with each document's own id and metadata; `ids` overrule the documents' own."""
        texts, metadatas, ids = _parts(documents, kwargs.pop("ids", None))
        return self.add_texts(texts, metadatas, ids=ids, **kwargs)

    async def aadd_documents(self, documents: Iterable[Document], **kwargs: Any) -> list[str]:
        """As `add_documents`."""
        texts, metadatas, ids = _parts(documents, kwargs.pop("ids", None))
        return await self.aadd_texts(texts, metadatas, ids=ids, **kwargs)

    def delete(self, ids: Iterable[str] | None = None, *, delete_all: bool = False, **kwargs: Any) -> bool:
        """Forget own memories, for good; unknown ids are no error.

        Args:
            ids: Which.
            delete_all: Forget everything that is the caller's own, when no ids are given.

        Raises:
            InvalidInput: If neither is given.
        """
        wanted = _to_delete(ids, delete_all)
        if wanted is None:
            perform(self.memories, lambda space: adapters.forget_all())
        elif wanted:
            call(self.memories, lambda view: view.forget_many(wanted))
        return True

    async def adelete(self, ids: Iterable[str] | None = None, *, delete_all: bool = False, **kwargs: Any) -> bool:
        """As `delete`."""
        wanted = _to_delete(ids, delete_all)
        if wanted is None:
            await aperform(self.memories, lambda space: adapters.forget_all())
        elif wanted:
            await acall(self.memories, lambda view: view.forget_many(wanted))
        return True

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """The whole documents of these ids, in their order; unknown ids are left out."""
        found = perform(self.memories, lambda space: adapters.get_memories(ids))
        return [memory_document(memory) for memory in found]

    async def aget_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """As `get_by_ids`."""
        found = await aperform(self.memories, lambda space: adapters.get_memories(ids))
        return [memory_document(memory) for memory in found]


def _listed(values: Iterable[Any], what: str) -> list[Any]:
    """The values as a list; a string, which would be read letter by letter, is refused."""
    if isinstance(values, str | bytes):
        raise InvalidInput(f"{what} is a {type(values).__name__}; give a list of them.")
    return list(values)


def _parts(
    documents: Iterable[Document], ids: Iterable[str | None] | None
) -> tuple[list[str], list[dict[str, Any]], list[str | None]]:
    listed = list(documents)
    own = [document.id for document in listed] if ids is None else list(_listed(ids, "ids"))
    return [document.page_content for document in listed], [document.metadata for document in listed], own


def _to_delete(ids: Iterable[str] | None, delete_all: bool) -> list[str] | None:
    """Ids to forget, or None for all.

    Raises:
        InvalidInput: If it is not clear which.
    """
    if ids is not None:
        return adapters.checked_ids(ids)
    if not delete_all:
        raise InvalidInput(
            "delete was given no ids. Give a list of them, or delete_all=True to forget everything of yours."
        )
    return None
