"""Memories on their way in: cut into windows, embedded as far as the embedder goes, stored with what they lack queued."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

from lore_retriever.embeddings.base import Embedder, Vector
from lore_retriever.language import Canonical
from lore_retriever.operations.embedding import EmbedderDown, embed_apart, windows_of
from lore_retriever.steps import Body, HalfVectors, Operation, Row, Statement
from lore_retriever.types import NewMemory
from lore_retriever.windows import Window

__all__ = ["Item", "store_windows", "with_vectors", "with_windows"]

EMBEDDED_AT_ONCE = 64
"""Windows handed to the embedder in one call: enough for a batch, few enough for a progress bar to move."""

STORED_AT_ONCE = 1024
"""Vectors handed to the database in one statement: so many of 1,024 numbers pass through its memory, not its disk."""

_log = logging.getLogger("lore_retriever")


@dataclass(frozen=True, slots=True)
class Item:
    """A checked memory as it is stored.

    Attributes:
        memory: Its content in the store's language.
        original: What was given, where that is a translation.
        translation: `done`, or `pending` where it failed, with `translation_error`.
        vectors: Those of its windows that were made, in order; some may lack at the end.
        error: Why some were not.
        is_bad: Its own text is at fault, not an embedder that is down.
    """

    memory: NewMemory
    id: str
    original: str | None = None
    translation: str | None = None
    translation_error: str | None = None
    windows: tuple[Window, ...] = ()
    partly_embedded: bool = False
    vectors: tuple[Vector | None, ...] = ()
    error: str | None = None
    is_bad: bool = False

    @property
    def hash(self) -> bytes:
        """Of its content, as the database computes it."""
        return sha256(self.memory.content.encode()).digest()

    def as_json(self) -> dict[str, Any]:
        """What `upsert_memories` takes."""
        plain = self.memory.model_dump(mode="json", exclude={"aliases", "id", "verbatim"})
        return plain | self.text_fields() | {"id": self.id}

    def text_fields(self) -> dict[str, Any]:
        """What changes with the text."""
        fields = {
            "content": self.memory.content,
            "content_original": self.original,
            "translation": self.translation,
            "partly_embedded": self.partly_embedded,
        }
        return fields if self.memory.language is None else fields | {"language": self.memory.language}

    def in_language(self, found: Canonical) -> Item:
        """The item with its text as it is stored, in place of what was given."""
        return replace(
            self,
            memory=self.memory.model_copy(update={"content": found.text, "language": found.language}),
            original=found.original,
            translation=found.translation,
            translation_error=found.error,
        )


def with_windows(item: Item, embedder: Embedder) -> Item:
    """The item cut into windows for an embedder."""
    windows, partly = windows_of(item.memory.content, embedder)
    return replace(item, windows=windows, partly_embedded=partly)


def with_vectors(items: Sequence[Item], progress: Callable[[int, int], None] | None = None) -> Operation:
    """The items with vectors, as far as the embedder made them; and whether it is down."""
    texts = [item.memory.content[w.start : w.end] for item in items for w in item.windows]
    labels = [f"memory {item.id!r}, window {w.ordinal}" for item in items for w in item.windows]
    made: list[Vector | None] = []
    errors: dict[int, str] = {}
    down = None
    for start in range(0, len(texts), EMBEDDED_AT_ONCE):
        end = start + EMBEDDED_AT_ONCE
        try:
            vectors, refused = yield from embed_apart(texts[start:end], labels[start:end])
        except EmbedderDown as error:
            down = str(error)
            _log.warning("%d windows wait for their vectors: %s", len(texts) - start, error)
            break
        made += vectors
        errors |= {start + place: why for place, why in refused.items()}
        if progress is not None:
            progress(len(made), len(texts))
    for why in errors.values():
        _log.warning("a memory waits for its vectors: %s", why)
    return _shared_out(items, made, errors, down), down is not None


def _shared_out(
    items: Sequence[Item], made: Sequence[Vector | None], errors: Mapping[int, str], down: str | None
) -> list[Item]:
    """The items with their share of the vectors, which stand in order for the windows of all; some may lack at the end."""
    done: list[Item] = []
    start = 0
    for item in items:
        end = start + len(item.windows)
        vectors = tuple(made[start:end])
        bad = next((errors[place] for place in range(start, end) if place in errors), None)
        error = bad or (down if len(vectors) < len(item.windows) else None)
        done.append(replace(item, vectors=vectors, error=error, is_bad=bad is not None))
        start = end
    return done


def store_windows(stored: Mapping[str, Row], items: Sequence[Item], space: int) -> Body:
    """Replace the windows and vectors of memories whose text is new."""
    fresh = [(stored[item.id], item) for item in items if stored[item.id]["fresh"]]
    if not fresh:
        return
    yield Statement("delete_windows", {"keys": [row["key"] for row, _ in fresh]})
    spread = [(row, window) for row, item in fresh for window in item.windows]
    yield Statement(
        "insert_windows",
        {
            "keys": [row["key"] for row, _ in spread],
            "ordinals": [window.ordinal for _, window in spread],
            "starts": [window.start for _, window in spread],
            "ends": [window.end for _, window in spread],
        },
    )
    embedded = [
        (row, window.ordinal, vector)
        for row, item in fresh
        for window, vector in zip(item.windows, item.vectors, strict=False)  # those after an outage have none
        if vector is not None
    ]
    for start in range(0, len(embedded), STORED_AT_ONCE):
        part = embedded[start : start + STORED_AT_ONCE]
        yield Statement(
            "insert_vectors",
            {
                "space": space,
                "orgs": [row["org"] for row, _, _ in part],
                "keys": [row["key"] for row, _, _ in part],
                "ordinals": [ordinal for _, ordinal, _ in part],
                "hashes": [row["content_hash"] for row, _, _ in part],
                "vectors": HalfVectors([vector for _, _, vector in part], part[0][0]["halfvec_oid"]),
            },
        )
    yield from _queue(fresh, space)


def _queue(fresh: Sequence[tuple[Row, Item]], space: int) -> Body:
    """Let memories wait where they lack vectors: in this space, as far as they do, and in every other one."""
    waiting: dict[tuple[bool, bool, str | None], list[int]] = {}
    replaced: list[Row] = []
    for row, item in fresh:
        # No windows: the text was the stored one, until another writer changed that.
        is_done = 0 < len(item.vectors) == len(item.windows) and None not in item.vectors
        if is_done and not row.get("created"):
            replaced.append(row)  # its old text may be waiting
        waiting.setdefault((is_done, item.is_bad, item.error), []).append(row["key"])
    for (is_done, is_bad, error), keys in waiting.items():
        params = {"keys": keys, "error": error, "done_spaces": [space] if is_done else []}
        yield Statement("insert_pending", params | {"failed_space": space if is_bad else None})
    if replaced:
        places = {"orgs": [row["org"] for row in replaced], "keys": [row["key"] for row in replaced]}
        yield Statement("delete_pending", {"space": space, **places})
