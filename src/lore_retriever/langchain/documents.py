"""Hits and memories as LangChain documents, and documents as new memories. Pure."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from typing import Any

from langchain_core.documents import Document

from lore_retriever.annotations import ADAPTER_KIND, excerpt_marks, refuse_excerpt, reserved_fields
from lore_retriever.annotations import annotations as lore_keys
from lore_retriever.errors import InvalidInput
from lore_retriever.inputs import new_memory
from lore_retriever.types import Hit, Memory, NewMemory, Recall, Visibility

__all__ = [
    "aligned_ids",
    "annotated_documents",
    "memory_document",
    "new_memories",
    "plain_documents",
    "require_one_each",
]

_log = logging.getLogger("lore_retriever")


def annotated_documents(found: Recall) -> list[Document]:
    """One document per hit, in order: the text that matched, the user's metadata and all `lore_` keys."""
    return [
        Document(id=hit.id, page_content=hit.text, metadata={**hit.metadata, **lore_keys(hit, found)})
        for hit in found.hits
    ]


def plain_documents(found: Recall) -> list[Document]:
    """One document per hit, in order, with the user's metadata untouched; only excerpts carry marks.

    There is no place for what holds for the whole search, so that goes to the log.
    """
    if found.omitted:
        _log.warning("%d hits were left out: the result outgrew the store's budget of characters.", found.omitted)
    return [_plain(hit) for hit in found.hits]


def _plain(hit: Hit) -> Document:
    marks: Mapping[str, Any] = {"lore_id": hit.id, **excerpt_marks(hit)} if hit.truncated else {}
    return Document(id=hit.id, page_content=hit.text, metadata={**hit.metadata, **marks})


def memory_document(memory: Memory) -> Document:
    """A whole memory as a document, with the user's metadata."""
    return Document(id=memory.id, page_content=memory.content, metadata=dict(memory.metadata))


def new_memories(
    texts: Iterable[str],
    metadatas: Iterable[Mapping[str, Any] | None] | None,
    ids: Sequence[str | None] | None,
    *,
    visibility: Visibility,
) -> Iterator[NewMemory]:
    """Texts as memories of kind `document`, unless reserved metadata keys say otherwise.

    Raises:
        InvalidInput: If there are more or fewer metadatas or ids than texts, or a reserved key holds what it cannot.
    """
    given = zip(
        texts, repeat(None) if metadatas is None else metadatas, repeat(None) if ids is None else ids, strict=False
    )
    for number, (text, metadata, id_) in enumerate(given):
        kept, fields = reserved_fields(metadata or {})
        refuse_excerpt(id_, metadata or {})
        try:
            yield new_memory(
                **{"kind": ADAPTER_KIND, "visibility": visibility}
                | fields
                | {"content": text, "id": id_, "metadata": kept}
            )
        except InvalidInput as error:
            raise InvalidInput(f"item {number}{f' ({id_!r})' if id_ else ''}: {error}") from error


def require_one_each(texts: Sequence[str], others: Sequence[Any] | None, what: str) -> None:
    """Refuse lists of different lengths.

    Raises:
        InvalidInput: Naming both lengths.
    """
    if others is not None and len(others) != len(texts):
        raise InvalidInput(f"{len(texts)} texts came with {len(others)} {what}; give one for each, or none.")


def aligned_ids(given: Sequence[str | None], stored: Sequence[str]) -> list[str]:
    """One id for each text, where `stored` has one for each different id.

    Args:
        given: The ids asked for; None where one was made.
        stored: What `remember_many` returned.
    """
    fresh = iter(stored)
    seen: set[str] = set()
    ids: list[str] = []
    for wanted in given:
        ids.append(wanted if wanted is not None and wanted in seen else next(fresh))
        seen.add(ids[-1])
    return ids
