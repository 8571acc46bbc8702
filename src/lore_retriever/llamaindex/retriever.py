"""`LoreRetriever`: recall behind LlamaIndex's retriever interface."""

from __future__ import annotations

import re
from typing import Any, Final

from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.callbacks.base import CallbackManager
from llama_index.core.instrumentation import get_dispatcher  # type: ignore[attr-defined]
from llama_index.core.schema import IndexNode, NodeWithScore, QueryBundle
from llama_index.core.vector_stores.types import MetadataFilters

from lore_retriever.bridge import View, aperform, checked_view, perform
from lore_retriever.inputs import checked_limit
from lore_retriever.llamaindex.nodes import scored_nodes
from lore_retriever.llamaindex.operations import fits, search
from lore_retriever.llamaindex.querying import node_filter
from lore_retriever.operations.common import OpenSpace
from lore_retriever.steps import Operation

__all__ = ["LoreRetriever", "plain_query"]

dispatcher = get_dispatcher(__name__)

_TOOL_FORM: Final = re.compile(r"\n(?:input|query|query_str) is (?P<query>.*)\n", re.DOTALL)


def plain_query(text: str) -> str:
    """The query that an agent gave to a `RetrieverTool`, which hands on a line feed, "input is …" and a line feed."""
    found = _TOOL_FORM.fullmatch(text)
    return (found["query"] if found else text).strip("\n")


class LoreRetriever(BaseRetriever):
    """Finds memories for a query: one search statement, best first, every node annotated.

    A node's text is the memory where it has 1,200 characters or fewer, else the passage that matched. Its metadata
    are the user's own and, under `lore_` keys that no model is shown, ranks and measures of each leg, the score and
    what it is the product of. `NodeWithScore.score` is the score of `recall`, comparable within one result only.
    Whose memories are searched is settled by `memories` and by nothing that a query can say.

    Works from synchronous and asynchronous code with the view of either store.

    Args:
        memories: `store.as_user(org=…, user=…)` of a `MemoryStore` or an `AsyncMemoryStore`.
        similarity_top_k: How many nodes, at most 1,000.
        filters: Conditions on metadata and on `lore_` fields.
        callback_manager, object_map, objects, verbose: As for every LlamaIndex retriever.

    Raises:
        InvalidInput: If an argument cannot be used.
    """

    def __init__(
        self,
        memories: View,
        *,
        similarity_top_k: int = 10,
        filters: MetadataFilters | None = None,
        callback_manager: CallbackManager | None = None,
        object_map: dict[str, Any] | None = None,
        objects: list[IndexNode] | None = None,
        verbose: bool = False,
    ) -> None:
        self._memories = checked_view(memories)
        self._similarity_top_k = checked_limit(similarity_top_k)
        self._filter = node_filter(filters)
        super().__init__(callback_manager=callback_manager, object_map=object_map, objects=objects, verbose=verbose)

    @property
    def similarity_top_k(self) -> int:
        """How many nodes."""
        return self._similarity_top_k

    @similarity_top_k.setter
    def similarity_top_k(self, value: int) -> None:
        self._similarity_top_k = checked_limit(value)

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return scored_nodes(perform(self._memories, lambda space: self._search(space, query_bundle)))

    @dispatcher.span
    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return scored_nodes(await aperform(self._memories, lambda space: self._search(space, query_bundle)))

    def _search(self, space: OpenSpace, query_bundle: QueryBundle) -> Operation:
        """The search for a bundle: by its embedding if it has one of the right length, else by its embedding texts.

        An embedding of another length was left in the bundle by a retriever with another model, and is made anew.
        """
        text = plain_query(query_bundle.query_str)
        vector = query_bundle.embedding
        if vector is not None and text.strip() and not fits(space, vector):
            vector = None
        return search(
            space,
            text,
            limit=self._similarity_top_k,
            filter=self._filter,
            vector=vector,
            instead=query_bundle.custom_embedding_strs or (),
        )
