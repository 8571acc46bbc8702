"""`LoreVectorStore`: a view of a store behind LlamaIndex's vector store interface."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.bridge.pydantic import ConfigDict, PrivateAttr
from llama_index.core.schema import BaseNode, MetadataMode
from llama_index.core.vector_stores.types import (
    BasePydanticVectorStore,
    MetadataFilters,
    VectorStoreQuery,
    VectorStoreQueryResult,
)

from lore_retriever.bridge import View, aperform, checked_view, perform
from lore_retriever.embeddings.adapters import LlamaIndexEmbedder
from lore_retriever.embeddings.base import Vector
from lore_retriever.errors import EmbeddingSpaceMismatch, InvalidInput, StoreUnavailable
from lore_retriever.llamaindex.nodes import checked_nodes, memory_of_node, node_of_hit, node_of_memory
from lore_retriever.llamaindex.operations import (
    checked_vector,
    diverse,
    forget_document,
    forget_nodes,
    pick_memories,
    remember_nodes,
    search,
)
from lore_retriever.llamaindex.querying import Mode, Plan, node_filter, planned, refined
from lore_retriever.operations.adapters import forget_all
from lore_retriever.operations.common import OpenSpace
from lore_retriever.steps import Operation
from lore_retriever.types import Memory, NewMemory, Recall
from lore_retriever.windows import split_windows

__all__ = ["LoreVectorStore"]


class LoreVectorStore(BasePydanticVectorStore):
    """One caller's memories as a LlamaIndex vector store: nodes in, nodes out, every query mode that has a meaning here.

    For `VectorStoreIndex.from_vector_store`, `StorageContext` and `IngestionPipeline`. Every method works from
    synchronous and asynchronous code with the view of either store.

    A node becomes the memory of its id, an own one of that id is replaced. What a search returns are excerpts: the
    whole text up to 1,200 characters, else the passage that matched; `get_nodes` returns whole texts. `similarities`
    are the scores that `recall` gives, comparable within one result only; the cosine is `lore_similarity` in the
    node's metadata.

    Args:
        memories: `store.as_user(org=…, user=…)` of a `MemoryStore` or an `AsyncMemoryStore`.
        embed_model: The embedding model of the index above, if it is the store's own (`as_llamaindex_embedding`, or
            the one inside the store's `LlamaIndexEmbedder`): its vectors are then used as they come. Without it texts
            and queries are embedded here, and vectors of the host are used only for queries without a text.
        default_mode: What mode DEFAULT means: `hybrid`, all legs as `recall` runs them, or `vector`, that leg alone.
        visibility: Of nodes that do not say it themselves (`lore_visibility` in their metadata).

    Raises:
        InvalidInput: If `memories` is no view.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    stores_text: bool = True
    is_embedding_query: bool = True
    flat_metadata: bool = False
    default_mode: Mode = "hybrid"
    visibility: Literal["private", "shared"] = "private"

    _memories: View | None = PrivateAttr(default=None)
    _embed_model: BaseEmbedding | None = PrivateAttr(default=None)

    def __init__(self, memories: View, *, embed_model: BaseEmbedding | None = None, **settings: Any) -> None:
        super().__init__(**settings)
        self._memories = checked_view(memories)
        self._embed_model = embed_model

    @classmethod
    def class_name(cls) -> str:
        """The name under which it is serialised; the view is not, `from_dict(…, memories=…)` takes one."""
        return "LoreVectorStore"

    @property
    def client(self) -> View:
        """The view."""
        return self._view

    @property
    def uses_embeddings(self) -> bool:
        """Whether vectors of the host are used, because `embed_model` was given."""
        return self._embed_model is not None

    @property
    def _view(self) -> View:
        # Unpickling leaves private attributes out altogether.
        view: View | None = (self.__pydantic_private__ or {}).get("_memories")
        if view is None:
            raise StoreUnavailable(
                "this LoreVectorStore was unpickled and has no view. Make one: LoreVectorStore(memories=…)."
            )
        return view

    def add(self, nodes: Sequence[BaseNode], **add_kwargs: Any) -> list[str]:
        """Store nodes in one transaction, whole or not at all; their ids, in order.

        Keyword arguments of other stores are accepted and have no effect.

        Raises:
            InvalidInput: If a node cannot be stored; it names the node, and nothing is stored.
            EmbeddingSpaceMismatch: If `embed_model` was given and a node's vector has another length than the store's.
        """
        given, memories = self._batch(nodes)
        perform(self._view, lambda space: remember_nodes(space, memories, self._known_vectors(space, given)))
        return [node.node_id for node in given]

    async def async_add(self, nodes: Sequence[BaseNode], **kwargs: Any) -> list[str]:
        """As `add`."""
        given, memories = self._batch(nodes)
        await aperform(self._view, lambda space: remember_nodes(space, memories, self._known_vectors(space, given)))
        return [node.node_id for node in given]

    def delete(self, ref_doc_id: str, **delete_kwargs: Any) -> None:
        """Forget, for good, the own memories that were cut from this source document; none is no error."""
        perform(self._view, lambda space: forget_document(ref_doc_id))

    async def adelete(self, ref_doc_id: str, **delete_kwargs: Any) -> None:
        """As `delete`."""
        await aperform(self._view, lambda space: forget_document(ref_doc_id))

    def delete_nodes(
        self,
        node_ids: Sequence[str] | None = None,
        filters: MetadataFilters | None = None,
        *,
        delete_all: bool = False,
        **delete_kwargs: Any,
    ) -> None:
        """Forget, for good, the own memories of these ids that pass the filters.

        Args:
            node_ids: Which; any if None, none if empty.
            filters: Conditions; none if None.
            delete_all: Forget everything that is the caller's own, when neither is given.

        Raises:
            InvalidInput: If nothing says which.
        """
        make = _deletion(node_ids, filters, delete_all)
        perform(self._view, lambda space: make())

    async def adelete_nodes(
        self,
        node_ids: Sequence[str] | None = None,
        filters: MetadataFilters | None = None,
        *,
        delete_all: bool = False,
        **delete_kwargs: Any,
    ) -> None:
        """As `delete_nodes`."""
        make = _deletion(node_ids, filters, delete_all)
        await aperform(self._view, lambda space: make())

    def clear(self) -> None:
        """Forget every memory of the caller's own, however it was written; colleagues' shared ones stay."""
        perform(self._view, lambda space: forget_all())

    async def aclear(self) -> None:
        """As `clear`."""
        await aperform(self._view, lambda space: forget_all())

    def get_nodes(
        self, node_ids: Sequence[str] | None = None, filters: MetadataFilters | None = None
    ) -> list[BaseNode]:
        """The whole nodes of these ids (any if None) that pass the filters, as they were written.

        In the order of the ids, else of writing. Unknown ids are left out. Memories that were never nodes come as
        text nodes.
        """
        tree = node_filter(filters)
        found = perform(self._view, lambda space: pick_memories(node_ids, tree))
        return _nodes_in_order(found, node_ids)

    async def aget_nodes(
        self, node_ids: Sequence[str] | None = None, filters: MetadataFilters | None = None
    ) -> list[BaseNode]:
        """As `get_nodes`."""
        tree = node_filter(filters)
        found = await aperform(self._view, lambda space: pick_memories(node_ids, tree))
        return _nodes_in_order(found, node_ids)

    def query(self, query: VectorStoreQuery, **kwargs: Any) -> VectorStoreQueryResult:
        """Search, best first.

        Args:
            query: Modes DEFAULT, HYBRID, SEMANTIC_HYBRID, TEXT_SEARCH, SPARSE and MMR. `alpha` weighs the vector leg
                against the text legs (0 text, 1 vector); without it the store's own weights hold.
            **kwargs: In mode MMR: `mmr_threshold`, and `mmr_prefetch_factor` (4) or `mmr_prefetch_k`.

        Raises:
            InvalidInput: If a mode is not known, or a field cannot be used or would have no effect.
            EmbeddingSpaceMismatch: If a vector that has to be used is not of the store's length.
        """
        plan = self._planned(query, kwargs)
        result: VectorStoreQueryResult = perform(self._view, lambda space: self._searched(space, plan))
        return result

    async def aquery(self, query: VectorStoreQuery, **kwargs: Any) -> VectorStoreQueryResult:
        """As `query`."""
        plan = self._planned(query, kwargs)
        result: VectorStoreQueryResult = await aperform(self._view, lambda space: self._searched(space, plan))
        return result

    def _planned(self, query: VectorStoreQuery, options: Mapping[str, Any]) -> Plan:
        return planned(query, options, default_mode=self.default_mode, uses_embeddings=self.uses_embeddings)

    def _searched(self, space: OpenSpace, plan: Plan) -> Operation:
        self._require_own_model(space)
        wanted: dict[str, Any] = {"filter": plan.filter, "legs": plan.legs, "vector": plan.vector}
        if plan.diversity is None:
            found = yield from search(space, plan.text, limit=plan.fetch, **wanted)
        else:
            found = yield from diverse(
                space, plan.text, keep=plan.keep, fetch=plan.fetch, threshold=plan.diversity, **wanted
            )
        return _result(refined(found, plan))

    def _batch(self, nodes: Sequence[BaseNode]) -> tuple[list[BaseNode], list[NewMemory]]:
        given = checked_nodes(nodes)
        return given, [memory_of_node(node, visibility=self.visibility) for node in given]

    def _require_own_model(self, space: OpenSpace) -> None:
        """Refuse an embedding model of another space than the store's."""
        if self._embed_model is None:
            return
        theirs, ours = LlamaIndexEmbedder(self._embed_model).space, space.embedder.space
        if theirs != ours:
            raise EmbeddingSpaceMismatch(
                f"embed_model makes vectors of {theirs}, the store's are those of {ours}. Leave embed_model out, or give"
                " as_llamaindex_embedding(store.embedder)."
            )

    def _known_vectors(self, space: OpenSpace, nodes: Sequence[BaseNode]) -> dict[str, Vector]:
        """Vectors that nodes bring and that may be used, by text.

        A node's vector stands for its text with its metadata before it: used where both fit one window, so that
        nothing was cut off before it was embedded.
        """
        self._require_own_model(space)
        if self._embed_model is None:
            return {}
        known: dict[str, Vector] = {}
        unclear: set[str] = set()
        for node in nodes:
            text, embedded = node.get_content(metadata_mode=MetadataMode.NONE), node.get_content(MetadataMode.EMBED)
            if node.embedding is None or not (_is_one_window(space, text) and _is_one_window(space, embedded)):
                unclear.add(text)
                continue
            vector = checked_vector(space, node.embedding, label=f"node {node.node_id!r}")
            if known.setdefault(text, vector) != vector:
                unclear.add(text)
        return {text: vector for text, vector in known.items() if text not in unclear}


def _is_one_window(space: OpenSpace, text: str) -> bool:
    embedder = space.embedder
    return len(split_windows(text, max_tokens=embedder.max_tokens, count_tokens=embedder.count_tokens)) == 1


def _deletion(node_ids: Sequence[str] | None, filters: MetadataFilters | None, delete_all: bool) -> Any:
    """Makes the operation that forgets what was named.

    Raises:
        InvalidInput: If nothing was.
    """
    tree = node_filter(filters)
    if node_ids is None and tree is None:
        if not delete_all:
            raise InvalidInput(
                "delete_nodes was given neither node_ids nor filters. Give one, or delete_all=True to forget everything of yours."
            )
        return forget_all
    return lambda: forget_nodes(node_ids, tree)


def _nodes_in_order(found: Sequence[Memory], node_ids: Sequence[str] | None) -> list[BaseNode]:
    by_id = {memory.id: memory for memory in found}
    order = by_id if node_ids is None else [given for given in dict.fromkeys(node_ids) if given in by_id]
    return [node_of_memory(by_id[given]) for given in order]


def _result(found: Recall) -> VectorStoreQueryResult:
    return VectorStoreQueryResult(
        nodes=[node_of_hit(hit, found) for hit in found.hits],
        similarities=[hit.score for hit in found.hits],
        ids=[hit.id for hit in found.hits],
    )
