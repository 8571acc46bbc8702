"""Pending work: windows that wait for vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lore_retriever.embeddings.base import Vector
from lore_retriever.errors import EmbeddingFailed
from lore_retriever.operations.common import OpenSpace, fetch, halfvec_text
from lore_retriever.steps import Body, Embed, Operation, Row, Statement, Transact

__all__ = [
    "MOST_ATTEMPTS",
    "embed_pending_of_scope",
    "embed_waiting",
    "pending_counts",
    "postpone_body",
    "vectors_body",
]

MOST_ATTEMPTS = 8
"""Failures after which a memory waits no longer; `doctor` reports it and `embed --retry` starts anew."""

_AT_A_WRITE = 4
"""Memories that one write picks up: enough to drain a short outage, few enough not to be felt."""

_SLICE = 16
"""Windows handed to the embedder at once: a batch for the model, and a progress bar that moves."""


def vectors_body(space: int, rows: Sequence[Row], embeddings: Sequence[str]) -> Body:
    """Store vectors for claimed windows and end their waiting. `rows` without a text need none."""
    texts = [row for row in rows if row["text"] is not None]
    if texts:
        yield Statement(
            "insert_vectors",
            {
                "space": space,
                "orgs": [row["org"] for row in texts],
                "keys": [row["key"] for row in texts],
                "ordinals": [row["ordinal"] for row in texts],
                "hashes": [row["content_hash"] for row in texts],
                "embeddings": list(embeddings),
            },
        )
    yield Statement(
        "delete_pending",
        {"space": space, "orgs": [row["org"] for row in rows], "keys": [row["key"] for row in rows]},
    )


def postpone_body(space: int, rows: Sequence[Row], error: str) -> Body:
    keys = sorted({(row["org"], row["key"]) for row in rows})
    yield Statement(
        "postpone_pending",
        {"space": space, "orgs": [org for org, _ in keys], "keys": [key for _, key in keys], "error": error},
    )


def embed_pending_of_scope(space: OpenSpace) -> Operation:
    """Embed a few of the caller's own waiting memories, if any; a failure postpones them again."""
    done, _ = yield from embed_waiting(space)
    return done


def embed_waiting(
    space: OpenSpace, *, limit: int = _AT_A_WRITE, progress: Callable[[int], None] | None = None
) -> Operation:
    """Embed up to `limit` of the caller's own memories that are due: how many windows were, how many memories were due.

    A failure postpones them. `progress` is called with the number of windows after each slice of them.
    """
    rows = yield from fetch("claim_pending", space=space.number, limit=limit, most_attempts=MOST_ATTEMPTS)
    if not rows:
        return 0, 0
    claimed = len({(row["org"], row["key"]) for row in rows})
    texts = [row["text"] for row in rows if row["text"] is not None]
    labels = [f"memory {row['id']!r}, window {row['ordinal']}" for row in rows if row["text"] is not None]
    vectors: list[Vector] = []
    try:
        for start in range(0, len(texts), _SLICE):
            vectors += yield Embed(texts[start : start + _SLICE], labels=labels[start : start + _SLICE])
            if progress is not None:
                progress(len(vectors) - start)
    except EmbeddingFailed as error:
        message = str(error)
        yield Transact(lambda: postpone_body(space.number, rows, message))
        return 0, claimed
    embeddings = [halfvec_text(vector) for vector in vectors]
    yield Transact(lambda: vectors_body(space.number, rows, embeddings))
    return len(texts), claimed


def pending_counts(space: int) -> Operation:
    """Memories and windows that wait, and those given up."""
    rows = yield from fetch("pending_counts", space=space, most_attempts=MOST_ATTEMPTS)
    return rows[0]
