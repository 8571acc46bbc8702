"""Bringing texts and queries into the store's language, and what waits for it."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from functools import partial
from typing import Any

from lore_retriever.detection import foreign_language
from lore_retriever.language import Canonical, Canonicalizer, canonicalize, canonicalize_soon
from lore_retriever.operations.common import OpenSpace
from lore_retriever.operations.embedding import MOST_ATTEMPTS
from lore_retriever.operations.storing import Item, store_windows, with_vectors, with_windows
from lore_retriever.steps import Body, Call, Operation, Row, Statement, Transact
from lore_retriever.types import NewMemory

__all__ = [
    "canonical_for",
    "canonical_queries",
    "canonical_texts",
    "claim_untranslated_body",
    "known_canonical",
    "postpone_translations_body",
    "translate_pending_of_scope",
    "translated_body",
]

MOST_FAILURES = 2
"""Failures in a row after which the rest of a batch is not tried: a translator that is down delays nothing."""

_AT_A_WRITE = 2
"""Memories that one write picks up; a translator is slower than an embedder."""

_log = logging.getLogger("lore_retriever")


def canonical_texts(canonicalizer: Canonicalizer, texts: Sequence[tuple[str, str | None]]) -> Operation:
    """Each text, with its language where that is known, in the canonical language: a list of `Canonical`.

    One that cannot be translated comes back as it is, `pending`; so does the rest after `MOST_FAILURES` in a row.
    """
    done: list[Canonical] = []
    failures = 0
    for text, language in texts:
        if failures >= MOST_FAILURES:
            done.append(Canonical(text, language=language, translation="pending", error=done[-1].error))
            continue
        found: Canonical = yield Call(
            partial(canonicalize, canonicalizer, text, language),
            partial(canonicalize_soon, canonicalizer, text, language),
        )
        failures = failures + 1 if found.error else 0
        if found.error:
            _log.warning("a text waits for its translation: %s", found.error)
        done.append(found)
    return done


def canonical_for(space: OpenSpace, texts: Sequence[tuple[str, str | None]]) -> Operation:
    """Texts to be stored, with their languages where known, as the space stores them: a list of `Canonical`.

    Without a translator they stay as they are; a text that the model was not made for is marked with its language.
    """
    if space.canonicalizer is not None:
        return (yield from canonical_texts(space.canonicalizer, texts))
    return [Canonical(text, language=language or foreign_language(space.embedder, text)) for text, language in texts]


def known_canonical(text: str, given_hash: bytes, row: Row | None) -> Canonical | None:
    """What a row of `own_hashes` tells of a text: its translation, or that it waits for one; None where it must be asked.

    Args:
        text: What is given.
        given_hash: Its hash, as the database computes it.
    """
    if row is None or bytes(row["given_hash"]) != given_hash:
        return None
    if row["translation"] == "done":
        return Canonical(row["translated"], original=text, language=row["language"], translation="done")
    if row["translation"] == "pending":
        return Canonical(text, language=row["language"], translation="pending")
    return None


def canonical_queries(space: OpenSpace, texts: Sequence[str]) -> Operation:
    """Queries as they are searched, and a note where one could not be translated."""
    if space.canonicalizer is None:
        return list(texts), None
    asked = [text for text in texts if text.strip()]
    found = yield from canonical_texts(space.canonicalizer, [(text, None) for text in asked])
    made = iter(found)
    error = next((one.error for one in found if one.error), None)
    note = None if error is None else f"a query could not be translated: {error}"
    return [next(made).text if text.strip() else text for text in texts], note


def claim_untranslated_body(limit: int) -> Body:
    """Claim up to `limit` memories whose translation is due, until the transaction ends: rows of `claimed_untranslated`."""
    claimed = yield Statement("claim_untranslated", {"limit": limit, "most_attempts": MOST_ATTEMPTS})
    if not claimed:
        return []
    places = _places(claimed)
    rows = yield Statement("claimed_untranslated", places)
    held = {(row["org"], row["key"]) for row in rows}
    if left := [row for row in claimed if (row["org"], row["key"]) not in held]:
        yield Statement("delete_translated", _places(left))
    return rows


def translated_body(rows: Sequence[Row], found: Sequence[Canonical], partly_embedded: Sequence[bool]) -> Body:
    """Give memories their translations, where they still have the text that was translated; rows of `translate_memories`."""
    done = [
        {
            "org": row["org"],
            "key": row["key"],
            "content_hash": bytes(row["content_hash"]).hex(),
            "content": one.text,
            "content_original": one.original,
            "language": one.language,
            "translation": one.translation,
            "partly_embedded": partly,
        }
        for row, one, partly in zip(rows, found, partly_embedded, strict=True)
    ]
    changed = yield Statement("translate_memories", {"memories": json.dumps(done, ensure_ascii=False)})
    yield Statement("delete_translated", _places(rows))
    return changed


def postpone_translations_body(rows: Sequence[Row], found: Sequence[Canonical]) -> Body:
    """Let memories wait longer for their translation; after `MOST_ATTEMPTS` they are marked as failed."""
    if rows:
        params = {**_places(rows), "errors": [one.error for one in found], "most_attempts": MOST_ATTEMPTS}
        yield Statement("postpone_untranslated", params)


def translate_pending_of_scope(space: OpenSpace) -> Operation:
    """Translate a few of the caller's own waiting memories, if any, and embed them; how many were."""
    if space.canonicalizer is None:
        return 0
    rows: list[Row] = yield Transact(lambda: claim_untranslated_body(_AT_A_WRITE))
    if not rows:
        return 0
    texts = [(row["content"], row["language"]) for row in rows]
    found: list[Canonical] = yield from canonical_texts(space.canonicalizer, texts)
    failed = [(row, one) for row, one in zip(rows, found, strict=True) if one.error]
    done = [(row, one) for row, one in zip(rows, found, strict=True) if not one.error]
    if failed:
        yield Transact(lambda: postpone_translations_body(*_columns(failed)))
    if done:
        items = [with_windows(Item(NewMemory(content=one.text), row["id"]), space.embedder) for row, one in done]
        items, _ = yield from with_vectors(items)
        yield Transact(lambda: _store_translated(space.number, done, items))
    return len(done)


def _store_translated(space: int, done: Sequence[tuple[Row, Canonical]], items: Sequence[Item]) -> Body:
    rows, found = _columns(done)
    changed = yield from translated_body(rows, found, [item.partly_embedded for item in items])
    stored = {row["id"]: row for row in changed}
    yield from store_windows(stored, [item for item in items if item.id in stored], space)


def _columns(pairs: Sequence[tuple[Row, Canonical]]) -> tuple[list[Row], list[Canonical]]:
    return [row for row, _ in pairs], [one for _, one in pairs]


def _places(rows: Sequence[Row]) -> dict[str, list[Any]]:
    return {"orgs": [row["org"] for row in rows], "keys": [row["key"] for row in rows]}
