"""Pending work: memories that wait for windows or vectors in a space.

The same plan serves a client, who embeds a few memories of its own after a write, and the keeper's workers, who drain
the whole queue (`draining`). Windows are cut here where a memory has none in the space yet.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from lore_retriever.embeddings.base import Embedder, Vector
from lore_retriever.errors import EmbeddingFailed, InvalidInput
from lore_retriever.operations.common import OpenSpace, fetch
from lore_retriever.steps import Body, Embed, HalfVectors, Operation, Row, Statement, Transact
from lore_retriever.windows import Window, split_windows

__all__ = [
    "MAX_WINDOWS",
    "MOST_ATTEMPTS",
    "EmbedderDown",
    "Planned",
    "claim_body",
    "embed_apart",
    "embed_pending_of_scope",
    "embed_planned",
    "embed_waiting",
    "finish_body",
    "pending_counts",
    "plan",
    "postpone_body",
    "windows_of",
]

MOST_ATTEMPTS = 8
"""Failures after which a memory waits no longer; `doctor` reports it and `embed --retry` starts anew."""

MAX_WINDOWS = 32_768
"""Windows of one memory. More than the longest text needs with any known tokenizer; the rest would be reported."""

WINDOWS_AT_ONCE = 64
"""Windows embedded in one transaction: what a killed worker has to do again, at most."""

_AT_A_WRITE = 4
"""Memories that one write picks up: enough to drain a short outage, few enough not to be felt."""

_SLICE = 16
"""Windows handed to the embedder at once: a batch for the model, and a progress bar that moves."""

_PROBE = "a word"
"""What any embedder can embed: tells a bad text from an embedder that is down."""

Place = tuple[str, int]
"""Organisation and key of a memory."""


class EmbedderDown(EmbeddingFailed):
    """The embedder fails whatever it is given."""


def windows_of(content: str, embedder: Embedder) -> tuple[tuple[Window, ...], bool]:
    """A memory's windows in the embedder's space, and whether it would need more than one memory may have.

    Raises:
        InvalidInput: If the embedder reads less than one of its characters.
    """
    windows = split_windows(content, max_tokens=embedder.max_tokens, count_tokens=embedder.count_tokens)
    return tuple(windows[:MAX_WINDOWS]), len(windows) > MAX_WINDOWS


def embed_apart(texts: Sequence[str], labels: Sequence[str]) -> Operation:
    """One vector for each text, None where it cannot be embedded, and why by its place.

    A batch that fails is halved until the texts at fault stand alone, so that one bad text holds up no other.

    Raises:
        EmbedderDown: If the embedder cannot even embed a plain word.
    """
    found: list[Vector | None] = [None] * len(texts)
    errors: dict[int, str] = {}
    parts = [(0, len(texts))] if texts else []
    is_alive = False
    while parts:
        start, end = parts.pop()
        try:
            found[start:end] = yield Embed(texts[start:end], labels=labels[start:end])
            is_alive = True
        except EmbeddingFailed as error:
            if not is_alive:
                yield from _require_alive()
                is_alive = True
            if end - start == 1:
                errors[start] = str(error)
            else:
                middle = (start + end) // 2
                parts += [(middle, end), (start, middle)]
    return found, errors


def _require_alive() -> Operation:
    try:
        yield Embed([_PROBE], labels=["a plain word"])
    except EmbeddingFailed as error:
        raise EmbedderDown(str(error)) from error


@dataclass(frozen=True, slots=True)
class Planned:
    """What is to be done for one claimed memory.

    Attributes:
        place: Its organisation and key.
        new_windows: Its windows, where the space has none of it yet.
        missing: Windows to embed now.
        vectors: Those made, by ordinal.
        error: Why some could not be.
    """

    id: str
    place: Place
    content: str
    content_hash: bytes
    new_windows: tuple[Window, ...] = ()
    partly_embedded: bool = False
    missing: tuple[Window, ...] = ()
    vectors: Mapping[int, Vector] = field(default_factory=dict)
    error: str | None = None


def plan(rows: Sequence[Row], embedder: Embedder, *, most: int = WINDOWS_AT_ONCE) -> list[Planned]:
    """Rows of `claimed_memories` as work, in their order, with at most `most` windows to embed. Pure."""
    work: list[Planned] = []
    left = most
    for row in rows:
        if left <= 0:
            break
        work.append(_planned(row, embedder, left))
        left -= len(work[-1].missing)
    return work


def _planned(row: Row, embedder: Embedder, most: int) -> Planned:
    planned = Planned(row["id"], (row["org"], row["key"]), row["content"], bytes(row["content_hash"]))
    if row["is_split"]:
        spans = zip(row["ordinals"], row["starts"], row["ends"], strict=True)
        return replace(planned, missing=tuple(Window(*span) for span in islice(spans, most)))
    try:
        windows, partly = windows_of(row["content"], embedder)
    except InvalidInput as error:
        return replace(planned, error=str(error))
    return replace(planned, new_windows=windows, partly_embedded=partly, missing=windows[:most])


def embed_planned(work: Sequence[Planned], *, progress: Callable[[int], None] | None = None) -> Operation:
    """The work with vectors, or with errors where they cannot be made; and why the embedder is down, if it is.

    `progress` is called with the number of windows after each slice of them.
    """
    wanted = [(number, window) for number, item in enumerate(work) for window in item.missing]
    made: list[dict[int, Vector]] = [{} for _ in work]
    errors: dict[int, str] = {}
    down = None
    for start in range(0, len(wanted), _SLICE):
        part = wanted[start : start + _SLICE]
        texts = [work[number].content[window.start : window.end] for number, window in part]
        labels = [f"memory {work[number].id!r}, window {window.ordinal}" for number, window in part]
        try:
            vectors, refused = yield from embed_apart(texts, labels)
        except EmbedderDown as error:
            down = str(error)
            break
        for place, (number, window) in enumerate(part):
            if place in refused:
                errors.setdefault(number, refused[place])
            else:
                made[number][window.ordinal] = vectors[place]
        if progress is not None:
            progress(len(part) - len(refused))
    return [_made(item, made[number], errors.get(number), down) for number, item in enumerate(work)], down


def _made(item: Planned, vectors: Mapping[int, Vector], error: str | None, down: str | None) -> Planned:
    if error is None and len(vectors) < len(item.missing):
        error = down
    return replace(item, vectors=vectors, error=item.error or error)


def claim_body(space: int, limit: int) -> Body:
    """Claim up to `limit` memories that are due, until the transaction ends: rows of `claimed_memories`, and how many."""
    params = {"space": space, "limit": limit, "most_attempts": MOST_ATTEMPTS}
    claimed = yield Statement("claim_pending", params)
    if not claimed:
        return [], 0
    places = {"orgs": [row["org"] for row in claimed], "keys": [row["key"] for row in claimed]}
    rows = yield Statement("claimed_memories", {"space": space, **places})
    return rows, len(claimed)


def finish_body(space: int, work: Sequence[Planned]) -> Body:
    """Store what was made, where the memory still has the text it was made of; the rest waits on."""
    places = _places(work) | {"hashes": [item.content_hash for item in work]}
    rows = yield Statement("lock_unchanged", places)
    unchanged = {(row["org"], row["key"]) for row in rows}
    kept = [item for item in work if item.place in unchanged]
    yield from _store_windows(space, kept, rows[0]["halfvec_oid"] if rows else 0)
    if done := [item for item in kept if item.error is None]:
        yield Statement("delete_pending", {"space": space, **_places(done)})
    yield from postpone_body(space, [item for item in kept if item.error is not None])


def _store_windows(space: int, work: Sequence[Planned], halfvec_oid: int) -> Body:
    if new := [(item.place, window) for item in work for window in item.new_windows]:
        yield Statement(
            "insert_missing_windows",
            {
                "space": space,
                "orgs": [org for (org, _), _ in new],
                "keys": [key for (_, key), _ in new],
                "ordinals": [window.ordinal for _, window in new],
                "starts": [window.start for _, window in new],
                "ends": [window.end for _, window in new],
            },
        )
    if partly := [item for item in work if item.partly_embedded]:
        yield Statement("mark_partly_embedded", _places(partly))
    if vectors := [(item, ordinal, vector) for item in work for ordinal, vector in item.vectors.items()]:
        yield Statement(
            "insert_vectors",
            {
                "space": space,
                **_places([item for item, _, _ in vectors]),
                "ordinals": [ordinal for _, ordinal, _ in vectors],
                "hashes": [item.content_hash for item, _, _ in vectors],
                "vectors": HalfVectors([vector for _, _, vector in vectors], halfvec_oid),
            },
        )


def postpone_body(space: int, work: Sequence[Planned]) -> Body:
    """Let memories wait longer, each with its own error."""
    if work:
        errors = [item.error for item in work]
        yield Statement("postpone_pending", {"space": space, **_places(work), "errors": errors})


def _places(work: Sequence[Planned]) -> dict[str, list[str] | list[int]]:
    return {"orgs": [item.place[0] for item in work], "keys": [item.place[1] for item in work]}


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
    rows, claimed = yield Transact(lambda: claim_body(space.number, limit))
    if not rows:
        return 0, claimed
    work, _ = yield from embed_planned(plan(rows, space.embedder), progress=progress)
    yield Transact(lambda: finish_body(space.number, work))
    return sum(len(item.vectors) for item in work), claimed


def pending_counts(space: int) -> Operation:
    """Memories and windows that wait, and those given up."""
    rows = yield from fetch("pending_counts", space=space, most_attempts=MOST_ATTEMPTS)
    return rows[0]
