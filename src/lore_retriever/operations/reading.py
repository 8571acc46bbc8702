"""Reading: recall, get, list."""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from lore_retriever import limits
from lore_retriever.embeddings.base import Vector
from lore_retriever.errors import EmbeddingFailed, InvalidInput, NotFound
from lore_retriever.explanation import explanation_from_rows
from lore_retriever.filters import parse_filter, to_json
from lore_retriever.filters.tree import And, Condition, Filter, Not, Or
from lore_retriever.inputs import (
    checked_flag,
    checked_id,
    checked_limit,
    checked_name,
    checked_queries,
    checked_text,
    items_of,
    utc,
)
from lore_retriever.operations.common import OpenSpace, asked_vectors, fetch, run
from lore_retriever.operations.language import canonical_queries
from lore_retriever.results import memory_from_row, recall_from_rows
from lore_retriever.steps import Body, Embed, Operation, Statement, Transact
from lore_retriever.types import Memory

__all__ = ["checked_kinds", "explain", "filter_json", "get_memory", "list_memories", "recall", "recall_params"]

_log = logging.getLogger("lore_retriever")


def filter_json(given: Mapping[str, Any] | Filter | None) -> str | None:
    """A filter in either spelling as the JSON that the database reads, or None for no filter.

    Raises:
        InvalidInput: If an operator, key or value cannot be used, or it is no filter at all.
    """
    if not (given is None or isinstance(given, Mapping | Condition | And | Or | Not)):
        raise InvalidInput(f"filter is {given!r:.80}; give a mapping such as {{'team': 'infra'}}.")
    tree = parse_filter(given) if given is None or isinstance(given, Mapping) else given
    plain = to_json(tree)
    return None if not plain else json.dumps(plain, ensure_ascii=False)


def _query_vectors(space: OpenSpace, texts: Sequence[str]) -> Operation:
    """One vector for each query (None for a blank one), and why there is none where embedding failed."""
    wanted = [text for text in texts if text.strip()]
    if not wanted:
        return None, None
    try:
        vectors = iter((yield Embed(wanted, as_queries=True, labels=[f"the query {text[:40]!r}" for text in wanted])))
    except EmbeddingFailed as error:
        if space.on_embedding_error == "raise":
            raise
        _log.warning("recall answers from the lexical legs only: %s", error)
        return None, f"the query could not be embedded: {error}"
    return [next(vectors) if text.strip() else None for text in texts], None


def recall_params(
    space: OpenSpace,
    queries: str | Iterable[str],
    *,
    limit: int,
    filter: Mapping[str, Any] | Filter | None,  # noqa: A002 (the hosts' own name)
    kinds: Sequence[str] | None,
    as_of: datetime | None,
    vectors: Sequence[Vector | None] | None = None,
) -> Operation:
    """Parameters of the statement `recall`, queries translated and embedded, and why the search is degraded (or None)."""
    texts, note = checked_queries(queries)
    params: dict[str, Any] = {
        "queries": list(texts),
        "k": checked_limit(limit),
        "filter": filter_json(filter),
        "kinds": checked_kinds(kinds),
        "as_of": utc(as_of, what="as_of"),
    }
    params["queries"], untranslated = yield from canonical_queries(space, texts)
    degraded = None
    if vectors is None:
        vectors, degraded = yield from _query_vectors(space, params["queries"])
    params |= {"vectors": vectors} | asked_vectors(vectors, len(params["queries"]))
    return params, degraded or untranslated or note


def recall(
    space: OpenSpace,
    queries: str | Iterable[str],
    *,
    limit: int,
    filter: Mapping[str, Any] | Filter | None,  # noqa: A002 (the hosts' own name)
    kinds: Sequence[str] | None,
    as_of: datetime | None,
    vectors: Sequence[Vector | None] | None = None,
) -> Operation:
    """Search; `vectors` are those of the queries where a host embedded them itself."""
    params, degraded = yield from recall_params(
        space, queries, limit=limit, filter=filter, kinds=kinds, as_of=as_of, vectors=vectors
    )
    rows = yield Transact(lambda: run(Statement("recall", params)), at_once=Statement("recall_at_once", params))
    return recall_from_rows(
        rows, recall_id=str(uuid.uuid4()), queries=tuple(params["queries"]), degraded=degraded, evidence=space.evidence
    )


def _explanation_body(params: Mapping[str, Any]) -> Body:
    legs = yield Statement("explain_legs", params)
    words = yield Statement("explain_words", {"queries": params["queries"]})
    queries = yield Statement("explain_queries", {"queries": params["queries"]})
    rows = yield Statement("recall", params)
    return legs, words, queries, rows


def explain(
    space: OpenSpace,
    queries: str | Iterable[str],
    *,
    limit: int,
    filter: Mapping[str, Any] | Filter | None,  # noqa: A002 (the hosts' own name)
    kinds: Sequence[str] | None,
    as_of: datetime | None,
) -> Operation:
    """The search taken apart: what each leg proposed, the words looked for, and the result itself."""
    params, degraded = yield from recall_params(space, queries, limit=limit, filter=filter, kinds=kinds, as_of=as_of)
    legs, words, asked, rows = yield Transact(lambda: _explanation_body(params))
    found = recall_from_rows(
        rows, recall_id=str(uuid.uuid4()), queries=tuple(params["queries"]), degraded=degraded, evidence=space.evidence
    )
    return explanation_from_rows(found, asked, words, legs)


def checked_kinds(kinds: Sequence[str] | None) -> list[str] | None:
    """Kinds as a list, or None for any."""
    if kinds is None:
        return None
    return [
        checked_text(kind, what="a kind", most=limits.MAX_NAME_CHARS)
        for kind in items_of(kinds, what="kinds", of="kinds")
    ]


def get_memory(id: str) -> Operation:  # noqa: A002 (a memory's id)
    """The whole memory, or NotFound."""
    rows = yield from fetch("get_memory", id=checked_id(id))
    if not rows:
        raise NotFound(f"no memory {id!r} is visible here.")
    return memory_from_row(rows[0])


def list_memories(
    *,
    limit: int,
    kind: str | None,
    pinned: bool | None,
    after: str | Memory | None,
    filter: Mapping[str, Any] | Filter | None,  # noqa: A002 (the hosts' own name)
) -> Operation:
    """Visible, live memories, newest first, after the one named `after`."""
    owner, after_id = (after.owner, after.id) if isinstance(after, Memory) else (None, after)
    rows = yield from fetch(
        "list_memories",
        limit=checked_limit(limit),
        kind=checked_name(kind, what="kind"),
        pinned=checked_flag(pinned, what="pinned"),
        after_id=None if after_id is None else checked_id(after_id),
        after_owner=owner,
        filter=filter_json(filter),
    )
    if after_id is not None and not rows and not (yield from fetch("visible_memory", id=after_id)):
        # An empty page would look like the end of the list.
        raise NotFound(f"no memory {after_id!r} is visible here, so no page comes after it. List again from the start.")
    return [memory_from_row(row) for row in rows]
