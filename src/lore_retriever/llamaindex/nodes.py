"""LlamaIndex nodes as memories, and memories and hits as nodes. Pure.

What a memory has no field for (relationships, excluded keys, offsets, templates, the node's type) stands under two
metadata keys that are no part of the user's metadata: they are added on the way in and taken off on the way out.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from string import Formatter
from typing import Any, Final

from lore_retriever.annotations import (
    ADAPTER_KIND,
    WRITE_KEYS,
    refuse_excerpt,
    reserved_fields,
)
from lore_retriever.annotations import annotations as lore_keys
from lore_retriever.errors import InvalidInput
from lore_retriever.inputs import RESERVED_PREFIX, new_memory
from lore_retriever.types import Hit, Memory, NewMemory, Recall, Visibility

try:
    from llama_index.core.schema import (
        BaseNode,
        Document,
        ImageNode,
        IndexNode,
        MetadataMode,
        Node,
        NodeWithScore,
        TextNode,
    )
except ImportError as error:
    raise ImportError('this needs llama-index-core: pip install "lore-retriever[llamaindex]".') from error

__all__ = [
    "NODE_KEY",
    "REF_DOC_KEY",
    "LoreNode",
    "checked_nodes",
    "memory_of_node",
    "node_of_hit",
    "node_of_memory",
    "scored_nodes",
]

NODE_KEY: Final = "_node_content"
"""Metadata key that holds what a node is beside its text and metadata: a JSON object of what differs from the defaults."""

REF_DOC_KEY: Final = "_ref_doc_id"
"""Metadata key that holds the id of the document a node was cut from; `delete` and `doc_ids` go by it."""

_log = logging.getLogger("lore_retriever")

_HELD_ELSEWHERE: Final = frozenset({"id_", "embedding", "metadata", "text", "class_name"})
_EXCLUDED_KEYS: Final = ("excluded_embed_metadata_keys", "excluded_llm_metadata_keys")
_SAME: Final = "same"
"""Stands for metadata of a related node that equals the node's own; splitters copy it into every neighbour."""


class _StableHash:
    """Hashes a search's node by the memory it shows, so that fusion over several searches sees one memory as one.

    A node's own hash is made of its text and metadata, which change with every query here (excerpt, ranks, scores).
    """

    metadata: dict[str, Any]

    @property
    def hash(self) -> str:
        """Made of the memory's owner, id and last change of its text; LlamaIndex's own hash without these."""
        identity = [self.metadata.get(f"{RESERVED_PREFIX}{name}") for name in ("owner", "id", "updated_at")]
        if not all(isinstance(part, str) for part in identity):
            plain: str = super().hash  # type: ignore[misc]
            return plain
        return sha256("\0".join(map(str, identity)).encode("utf-8", "surrogatepass")).hexdigest()


class LoreNode(_StableHash, TextNode):
    """A hit as a node: the excerpt as text, the user's metadata, and every rank and score under `lore_` keys.

    The `lore_` keys are excluded from what a language or embedding model is shown. `hash` depends on the memory
    alone, not on the query that found it.
    """


class _LoreIndexNode(_StableHash, IndexNode):
    """As `LoreNode`, for a memory that was written as an `IndexNode`."""


class _LoreImageNode(_StableHash, ImageNode):
    """As `LoreNode`, for a memory that was written as an `ImageNode`."""


class _LoreMediaNode(_StableHash, Node):
    """As `LoreNode`, for a memory that was written as a `Node`."""


class _LoreDocument(_StableHash, Document):
    """As `LoreNode`, for a memory that was written as a `Document`."""


_PLAIN: Final[Mapping[str, type[BaseNode]]] = {
    kind.class_name(): kind for kind in (TextNode, IndexNode, ImageNode, Node, Document)
}
_FOUND: Final[Mapping[str, type[BaseNode]]] = {
    kind.class_name(): kind for kind in (LoreNode, _LoreIndexNode, _LoreImageNode, _LoreMediaNode, _LoreDocument)
}


def checked_nodes(nodes: Iterable[BaseNode]) -> list[BaseNode]:
    """Nodes as a list.

    Raises:
        InvalidInput: If one is no node.
    """
    found = list(nodes)
    for place, node in enumerate(found):
        if not isinstance(node, BaseNode):
            raise InvalidInput(f"item {place} is {type(node).__name__}; give LlamaIndex nodes.")
    return found


def memory_of_node(node: BaseNode, *, visibility: Visibility = "private") -> NewMemory:
    """What to store for a node: its text and metadata, and the rest of it under two reserved keys.

    Metadata keys such as `lore_kind` set fields of the memory; the kind is `document` if none is given. Keys that
    a search added are left out.

    Raises:
        InvalidInput: If the node is an excerpt of the memory of its own id, or a reserved key holds what it cannot.
    """
    refuse_excerpt(node.node_id, node.metadata)
    metadata, fields = reserved_fields(node.metadata)
    metadata = {key: value for key, value in metadata.items() if key not in (NODE_KEY, REF_DOC_KEY)}
    content = _packed(node, metadata)
    stored = metadata | ({NODE_KEY: content} if content else {})
    if node.ref_doc_id is not None:
        stored[REF_DOC_KEY] = node.ref_doc_id
    return new_memory(
        id=node.node_id,
        content=node.get_content(metadata_mode=MetadataMode.NONE),
        metadata=stored,
        **({"kind": ADAPTER_KIND, "visibility": visibility} | fields),
    )


def _packed(node: BaseNode, metadata: Mapping[str, Any]) -> dict[str, Any]:
    """What differs from a bare TextNode of this text and metadata."""
    dumped = node.model_dump(mode="json", exclude_defaults=True)
    content = {key: value for key, value in dumped.items() if key not in _HELD_ELSEWHERE}
    if node.class_name() != TextNode.class_name():
        content["type"] = node.class_name()
    for name, names in _TEMPLATES.items():
        if name in content and not _is_harmless(content[name], names):
            raise InvalidInput(
                f"the {name} of node {node.node_id!r} is {content[name]!r:.80}; it may hold {' and '.join(sorted(names))}"
                " in braces, as they are, and no other field."
            )
    if isinstance(content.get("text_resource"), dict):
        resource = {
            key: value for key, value in content["text_resource"].items() if key != "text" and value is not None
        }
        content["text_resource"] = resource
    for name in _EXCLUDED_KEYS:
        if name in content:
            content[name] = [key for key in content[name] if not key.startswith(RESERVED_PREFIX)]
    if "relationships" in content:
        own = dumped.get("metadata", {})
        content["relationships"] = {key: _related(value, own) for key, value in content["relationships"].items()}
    if list(metadata) != sorted(metadata, key=_stored_order):
        content["order"] = list(metadata)
    return {key: value for key, value in content.items() if value not in ([], {})}


def _stored_order(key: str) -> tuple[int, bytes]:
    """How jsonb orders keys: by length, then by bytes."""
    encoded = key.encode("utf-8", "surrogatepass")
    return len(encoded), encoded


def _related(info: Any, own: Mapping[str, Any]) -> Any:
    """A relationship, short: without its class's name, and without metadata that the node itself has."""
    if isinstance(info, list):
        return [_related(each, own) for each in info]
    short = {key: value for key, value in info.items() if key != "class_name" and value not in (None, {})}
    if own and short.get("metadata") == own:
        short["metadata"] = _SAME
    return short


def _unrelated(info: Any, own: Mapping[str, Any]) -> Any:
    if isinstance(info, list):
        return [_unrelated(each, own) for each in info]
    return info | {"metadata": dict(own)} if info.get("metadata") == _SAME else info


def _opened(stored: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The user's metadata in the order it was given, and what else the node is made of."""
    metadata = {key: value for key, value in stored.items() if key not in (NODE_KEY, REF_DOC_KEY)}
    content = stored.get(NODE_KEY)
    content = dict(content) if isinstance(content, Mapping) else {}
    order = content.pop("order", None)
    if isinstance(order, list):
        first = {key: metadata[key] for key in order if key in metadata}
        metadata = first | metadata
    return metadata, content


_TEMPLATES: Final[Mapping[str, frozenset[str]]] = {
    "text_template": frozenset({"content", "metadata_str"}),
    "metadata_template": frozenset({"key", "value"}),
}


def _is_harmless(template: object, names: frozenset[str]) -> bool:
    """Whether formatting a template that somebody stored does no more than put texts together.

    A colleague's shared memory may hold any template; one could reach into objects, or pad to gigabytes.
    """
    if not isinstance(template, str):
        return False
    try:
        fields = list(Formatter().parse(template))
    except ValueError:
        return False
    return all(name is None or (name in names and not spec and not conversion) for _, name, spec, conversion in fields)


def _built(
    kinds: Mapping[str, type[BaseNode]],
    *,
    id: str,  # noqa: A002 (a memory's id)
    text: str,
    metadata: Mapping[str, Any],
    marks: Mapping[str, Any],
    content: dict[str, Any],
) -> BaseNode:
    """A node of what was stored; a bare text node where that cannot be read (anyone may write metadata)."""
    content = dict(content)
    kind = kinds.get(str(content.pop("type", TextNode.class_name())), kinds[TextNode.class_name()])
    own: dict[str, Any] = {"id_": id, "metadata": {**metadata, **marks}}
    if issubclass(kind, Node):
        own["text_resource"] = {**content.pop("text_resource", {}), "text": text}
    else:
        own["text"] = text
    try:
        for name, names in _TEMPLATES.items():
            if name in content and not _is_harmless(content[name], names):
                raise ValueError(f"its {name} is {content[name]!r:.80}")
        relationships = content.pop("relationships", {})
        content["relationships"] = {key: _unrelated(value, metadata) for key, value in relationships.items()}
        for name in _EXCLUDED_KEYS:
            content[name] = [*content.get(name, ()), *marks]
        return kind.from_dict({**content, **own})
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        _log.warning("memory %r is shown as plain text, its node cannot be read: %s", id, error)
        bare = {name: [*marks] for name in _EXCLUDED_KEYS}
        return kinds[TextNode.class_name()].from_dict(
            {"id_": id, "text": text, "metadata": {**metadata, **marks}, **bare}
        )


def _span(content: Mapping[str, Any], hit: Hit) -> dict[str, Any]:
    """Offsets of an excerpt: in the document that the node was cut from where it tells, else in the memory."""
    if not hit.truncated:
        return {}
    start, end = hit.span
    begins = content.get("start_char_idx")
    shift = begins if isinstance(begins, int) else 0
    return {"start_char_idx": shift + start, "end_char_idx": shift + end}


def node_of_hit(hit: Hit, recall: Recall) -> BaseNode:
    """A hit as a node of the type that was written, with `lore_` keys in its metadata that no model is shown."""
    metadata, content = _opened(hit.metadata)
    if str(content.get("type")) not in (Node.class_name(), Document.class_name()):
        content |= _span(content, hit)
    return _built(_FOUND, id=hit.id, text=hit.text, metadata=metadata, marks=lore_keys(hit, recall), content=content)


def scored_nodes(recall: Recall, scores: Sequence[float] | None = None) -> list[NodeWithScore]:
    """The hits in their order, with `scores` or their own."""
    given = [hit.score for hit in recall.hits] if scores is None else scores
    return [
        NodeWithScore(node=node_of_hit(hit, recall), score=score) for hit, score in zip(recall.hits, given, strict=True)
    ]


def node_of_memory(memory: Memory) -> BaseNode:
    """The whole memory as the node that was written; fields that are not the adapters' default as `lore_` keys."""
    metadata, content = _opened(memory.metadata)
    return _built(_PLAIN, id=memory.id, text=memory.content, metadata=metadata, marks=_fields(memory), content=content)


_DEFAULTS: Final[Mapping[str, Any]] = {"kind": ADAPTER_KIND, "visibility": "private", "pinned": False}


def _fields(memory: Memory) -> dict[str, Any]:
    """Reserved keys that say on a later write what the memory's fields are, where that is not what a write does anyhow."""
    dumped = memory.model_dump(mode="json")
    # created_at stays by itself when a memory is replaced; aliases are no part of what is read.
    names = {key: name for key, name in WRITE_KEYS.items() if name in dumped and name != "created_at"}
    return {key: dumped[name] for key, name in names.items() if dumped[name] != _DEFAULTS.get(name)}
