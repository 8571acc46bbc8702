"""Draining the queues of memories that wait for vectors or translations, as the service role.

Several workers may run at once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from threading import Lock
from typing import Any

import psycopg

from lore_retriever.driver import embed_now
from lore_retriever.embeddings.base import Embedder
from lore_retriever.errors import EmbeddingFailed, InvalidInput
from lore_retriever.language import Canonical, Canonicalizer, canonicalize
from lore_retriever.operations.embedding import claim_body, embed_planned, finish_body, plan
from lore_retriever.operations.language import (
    MOST_FAILURES,
    claim_untranslated_body,
    postpone_translations_body,
    translated_body,
)
from lore_retriever.steps import Body, Embed, Operation, Row, Statement

__all__ = ["Service", "drain", "embedded", "take", "translate"]

_log = logging.getLogger("lore_retriever")

CLAIMED_AT_ONCE = 64
"""Memories that one worker claims in one transaction; of long ones, as many as `WINDOWS_AT_ONCE` allows."""

MOST_OUTAGES = 3
"""Batches in a row that an embedder may fail altogether before a worker stops: what is left waits for the next run."""

Service = Callable[[], AbstractContextManager["psycopg.Cursor[Row]"]]
"""Opens one transaction as the service role."""


def take(cursor: psycopg.Cursor[Row], body: Body) -> Any:
    """Run a body on an open transaction."""
    try:
        statement = next(body)
        while True:
            cursor.execute(statement.sql, statement.params)
            statement = body.send(cursor.fetchall() if cursor.description else [])
    except StopIteration as end:
        return end.value


def embedded(operation: Operation, embedder: Embedder) -> Any:
    """Run an operation that only embeds."""
    try:
        step = next(operation)
        while True:
            assert isinstance(step, Embed)
            try:
                vectors = embed_now(embedder, step)
            except EmbeddingFailed as error:
                step = operation.throw(error)
            else:
                step = operation.send(vectors)
    except StopIteration as end:
        return end.value


def drain(
    service: Service,
    space: int,
    embedder: Embedder,
    *,
    workers: int = 1,
    progress: Callable[[int], None] | None = None,
) -> int:
    """Embed what is due in a space until nothing is left, or the embedder is down; how many windows were.

    A claim lasts as long as its transaction, so that what a killed worker had claimed is free at once.

    Args:
        workers: Threads, each with a connection of its own.
        progress: Called with the number of windows after each slice of them; by one thread at a time.
    """
    if workers < 1:
        raise InvalidInput(f"workers is {workers}; give 1 or more.")
    tell = None if progress is None else _one_at_a_time(progress)
    if workers == 1:
        return _work(service, space, embedder, tell)
    with ThreadPoolExecutor(workers, thread_name_prefix="lore-embed") as pool:
        running = [pool.submit(_work, service, space, embedder, tell) for _ in range(workers)]
        return sum(worker.result() for worker in running)


def _one_at_a_time(progress: Callable[[int], None]) -> Callable[[int], None]:
    lock = Lock()

    def tell(windows: int) -> None:
        with lock:
            progress(windows)

    return tell


def _work(service: Service, space: int, embedder: Embedder, progress: Callable[[int], None] | None) -> int:
    total = outages = 0
    while outages < MOST_OUTAGES:
        with service() as cursor:
            rows, claimed = take(cursor, claim_body(space, CLAIMED_AT_ONCE))
            if not claimed:
                return total
            work, down = embedded(embed_planned(plan(rows, embedder), progress=progress), embedder)
            take(cursor, finish_body(space, work))
        total += sum(len(item.vectors) for item in work)
        outages = outages + 1 if down else 0
        if down:
            _log.warning("%d memories wait longer: %s", len(work), down)
    return total


def translate(service: Service, canonicalizer: Canonicalizer, *, progress: Callable[[int], None] | None = None) -> int:
    """Translate what is due, one memory a transaction, until nothing is left or the translator is down; how many were.

    Their windows are queued anew, in every space.
    """
    total = failures = 0
    while failures < MOST_FAILURES:
        with service() as cursor:
            rows = take(cursor, claim_untranslated_body(1))
            if not rows:
                return total
            found = canonicalize(canonicalizer, rows[0]["content"], rows[0]["language"])
            take(cursor, _translation_body(rows, found))
        if found.error:
            failures += 1
            _log.warning("a memory waits longer for its translation: %s", found.error)
            continue
        failures = 0
        total += 1
        if progress is not None:
            progress(1)
    return total


def _translation_body(rows: list[Row], found: Canonical) -> Body:
    if found.error:
        yield from postpone_translations_body(rows, [found])
        return
    changed = [row for row in (yield from translated_body(rows, [found], [False])) if row["fresh"]]
    if changed:
        places = {"orgs": [row["org"] for row in changed], "keys": [row["key"] for row in changed]}
        yield Statement("delete_windows_of", places)
        yield Statement("queue_memories", places)
