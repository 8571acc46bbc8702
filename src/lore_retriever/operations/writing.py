"""Writing: remember, update, invalidate, restore, forget.

Texts are embedded before the transaction opens. A failing embedder loses nothing: the memory is stored, found by the
lexical legs, and waits in `pending`.
"""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

from lore_retriever.errors import IdTaken, InvalidInput, NotFound
from lore_retriever.inputs import checked_id, checked_ids, checked_memory, checked_version, items_of, new_memory
from lore_retriever.operations.common import BeforeWrite, OpenSpace, fetch
from lore_retriever.operations.embedding import embed_pending_of_scope
from lore_retriever.operations.language import canonical_for, known_canonical, translate_pending_of_scope
from lore_retriever.operations.life import guarded, guarded_changes, look_for_similar
from lore_retriever.operations.storing import Item, store_windows, with_vectors, with_windows
from lore_retriever.steps import Body, Operation, Row, Statement, Transact
from lore_retriever.types import NewMemory, Similar

__all__ = [
    "StoredIds",
    "forget",
    "forget_one",
    "invalidate",
    "remember_many",
    "restore",
    "update",
]

_BULK = 200
"""Memories in one call from which on the indexes of words gather more before they sort it in (sql/migrations/0004)."""

_log = logging.getLogger("lore_retriever")


class StoredIds(list[str]):
    """Ids of what was stored, in order.

    Attributes:
        refused: (place in the batch, why) of what was skipped.
        similar: Memories that were there and say nearly what a new one says; only looked for in batches of up to
            `life.NEIGHBOURS_ASKED_FOR` new texts.
    """

    def __init__(
        self,
        ids: Iterable[str] = (),
        refused: Sequence[tuple[int, InvalidInput]] = (),
        similar: Sequence[Similar] = (),
    ) -> None:
        super().__init__(ids)
        self.refused = tuple(refused)
        self.similar = tuple(similar)


def _checked(
    memories: Iterable[NewMemory], on_error: Literal["raise", "skip"], before_write: BeforeWrite | None
) -> tuple[list[Item], list[tuple[int, InvalidInput]]]:
    """Items in order, the last of each id kept in its first place; and what was refused."""
    if on_error not in ("raise", "skip"):
        raise InvalidInput(f"on_error is {str(on_error)[:80]!r}; give 'raise' or 'skip'.")
    items: dict[str, Item] = {}
    refused: list[tuple[int, InvalidInput]] = []
    for number, memory in enumerate(items_of(memories, what="memories", of="NewMemory")):
        try:
            what = f"item {number}" + (f" ({str(memory.id)[:80]!r})" if getattr(memory, "id", None) else "")
            checked = guarded(checked_memory(memory, what=what), before_write, what=what)
        except InvalidInput as error:
            if on_error == "raise":
                raise
            _log.warning("skipped: %s", error)
            refused.append((number, error))
            continue
        item_id = checked.id or str(uuid.uuid4())
        items[item_id] = Item(checked, item_id)
    return list(items.values()), refused


def _store(space: OpenSpace, items: Sequence[Item], changed: Sequence[Item], known: Sequence[str]) -> Body:
    """Ids of the items, and what was there already and says nearly the same as those that changed."""
    similar = yield from look_for_similar(space, changed)
    if len(items) >= _BULK:
        yield Statement("begin_bulk")
    if known:
        yield Statement("lock_own", {"ids": known})
    given = json.dumps([item.as_json() for item in items], ensure_ascii=False)
    rows = yield Statement("upsert_memories", {"memories": given})
    stored = {row["id"]: row for row in rows}
    yield from store_windows(stored, items, space.number)
    yield from _queue_translations(stored, items)
    named = [(stored[item.id]["key"], alias) for item in items for alias in item.memory.aliases]
    replaced = [row["key"] for row in rows if not row["fresh"] or not row["created"]]
    if named or replaced:
        yield Statement(
            "replace_memory_aliases",
            {"keys": replaced, "alias_keys": [key for key, _ in named], "names": [name for _, name in named]},
        )
    return [item.id for item in items], similar


def _queue_translations(stored: Mapping[str, Row], items: Sequence[Item]) -> Body:
    """Let memories wait whose translation has just failed."""
    failed = [(stored[item.id]["key"], item.translation_error) for item in items if item.translation_error]
    if failed:
        yield Statement(
            "insert_untranslated", {"keys": [key for key, _ in failed], "errors": [error for _, error in failed]}
        )


def _held(items: Sequence[Item]) -> Operation:
    """What the database holds under the ids of the items: rows of `own_hashes` by id."""
    named = [item.id for item in items if item.memory.id is not None]
    rows = (yield from fetch("own_hashes", ids=named)) if named else []
    return {row["id"]: row for row in rows}


def _in_language(space: OpenSpace, items: Sequence[Item], held: Mapping[str, Row]) -> Operation:
    """The items in the store's language; what is held translated, or waits for it, is not translated again."""
    wanted = [item for item in items if not item.memory.verbatim]
    known = {item.id: known_canonical(item.memory.content, item.hash, held.get(item.id)) for item in wanted}
    asked = [item for item in wanted if known[item.id] is None]
    found = yield from canonical_for(space, [(item.memory.content, item.memory.language) for item in asked])
    made = known | {item.id: one for item, one in zip(asked, found, strict=True)}
    return [item.in_language(made[item.id]) if item.id in made else item for item in items]


def remember_many(
    space: OpenSpace,
    memories: Iterable[NewMemory],
    *,
    embed: bool = True,
    on_error: Literal["raise", "skip"] = "raise",
    progress: Callable[[int, int], None] | None = None,
) -> Operation:
    """Store memories, whole or not at all; their ids, in the order given (one each; the last of an id wins)."""
    items, refused = _checked(memories, on_error, space.before_write)
    if not items:
        return StoredIds((), refused)
    held = yield from _held(items)
    items = yield from _in_language(space, items, held)
    is_same = {item.id: item.id in held and bytes(held[item.id]["content_hash"]) == item.hash for item in items}
    same = [item for item in items if is_same[item.id]]
    changed = [with_windows(item, space.embedder) for item in items if not is_same[item.id]]
    is_down = False
    if embed:
        changed, is_down = yield from with_vectors(changed, progress)
    by_id = {item.id: item for item in [*changed, *same]}
    ordered = [by_id[item.id] for item in items]
    known = [item.id for item in items] if held else []
    try:
        ids, similar = yield Transact(lambda: _store(space, ordered, changed, known))
    except IdTaken as taken:
        yield from _name_taken([item.id for item in items], taken)
    if len(items) >= _BULK:
        yield from fetch("sort_in")
    yield from fetch("refresh_statistics")
    if embed and not is_down:
        if not any(item.translation_error for item in ordered):
            yield from translate_pending_of_scope(space)
        yield from embed_pending_of_scope(space)
    return StoredIds(ids, refused, similar)


def _name_taken(ids: Sequence[str], taken: IdTaken) -> Operation:
    """Raise the error anew, naming the ids that colleagues share."""
    rows = yield from fetch("ids_shared_by_others", ids=list(ids))
    names = ", ".join(repr(row["id"]) for row in rows)
    raise IdTaken(
        f"the id {names} already names a shared memory of a colleague. Choose another id, or keep yours private."
    ) from taken


def update(space: OpenSpace, id: str, changes: Mapping[str, Any], *, version: int | None) -> Operation:  # noqa: A002
    """Change the own memory of that id; text, windows and vectors change together."""
    checked_id(id)
    checked_version(version)
    if space.before_write is not None:
        changes = yield from guarded_changes(id, changes, space.before_write)
    content = changes.get("content")
    item = Item(checked_memory(new_memory(**({"content": "unchanged"} | dict(changes))), what=f"memory {id!r}"), id)
    given = {
        name: value
        for name, value in item.memory.model_dump(mode="json").items()
        if name in changes and name not in ("aliases", "verbatim")
    }
    if content is not None:
        [item] = yield from _in_language(space, [item], {})
        [item], _ = yield from with_vectors([with_windows(item, space.embedder)])
        given |= item.text_fields()
    aliases = item.memory.aliases if "aliases" in changes else None
    done: list[bool] = []
    try:
        yield Transact(lambda: _update(space.number, item, given, version, aliases, done))
    except IdTaken as taken:
        yield from _name_taken([id], taken)


def _update(
    space: int,
    item: Item,
    given: Mapping[str, Any],
    version: int | None,
    aliases: tuple[str, ...] | None,
    done: list[bool],
) -> Body:
    """`done` tells a second try that the first one came to its end, so that only its commit is in doubt."""
    params = {"id": item.id, "changes": json.dumps(given, ensure_ascii=False), "version": version}
    rows = yield Statement("update_memory", params)
    if not rows and done and version is not None and (yield Statement("own_as_changed", params)):
        return
    if not rows:
        # Without a version asked for, whatever appears meanwhile was not there to be changed.
        seen = [] if version is None else (yield Statement("own_version", {"id": item.id}))
        if seen:
            raise InvalidInput(
                f"memory {item.id!r} is at version {seen[0]['version']}, not {version}. Read it again and repeat the change."
            )
        raise NotFound(f"no memory {item.id!r} of your own is here.")
    if "content" in given:
        stored = {item.id: rows[0]}
        yield from store_windows(stored, [item], space)
        yield from _queue_translations(stored, [item])
    if aliases is not None:
        key = rows[0]["key"]
        yield Statement(
            "replace_memory_aliases",
            {"keys": [key], "alias_keys": [key] * len(aliases), "names": list(aliases)},
        )
    done.append(True)


def _change_own(name: str, **params: Any) -> Operation:
    rows = yield from fetch(name, **params)
    if not rows:
        raise NotFound(f"no memory {params['id']!r} of your own is here.")
    return None


def _invalidate(id: str, superseded_by: str | None) -> Body:  # noqa: A002
    if superseded_by is not None and not (yield Statement("visible_memory", {"id": superseded_by})):
        raise NotFound(f"no memory {superseded_by!r} is visible here, so it cannot supersede {id!r}.")
    rows = yield Statement("invalidate_memory", {"id": id, "superseded_by": superseded_by})
    if not rows:
        raise NotFound(f"no memory {id!r} of your own is here.")


def invalidate(id: str, *, superseded_by: str | None) -> Operation:  # noqa: A002
    """Take the own memory of that id out of every leg; it can be restored."""
    checked_id(id)
    if superseded_by is not None:
        checked_id(superseded_by)
        if superseded_by == id:
            raise InvalidInput(f"memory {id!r} cannot supersede itself. Name its successor, or none.")
    yield Transact(lambda: _invalidate(id, superseded_by))


def restore(id: str) -> Operation:  # noqa: A002
    """Make an invalidated own memory live again."""
    yield from _change_own("restore_memory", id=checked_id(id))


def forget(ids: Iterable[str]) -> Operation:
    """Remove own memories from every table; the ids that were there."""
    wanted = checked_ids(ids)
    gone: dict[str, None] = {}  # over all tries: the commit of one that was cut may have arrived

    def remove() -> Body:
        rows = yield Statement("forget_memories", {"ids": wanted})
        gone.update(dict.fromkeys(row["id"] for row in rows))

    yield Transact(remove)
    return list(gone)


def forget_one(id: str) -> Operation:  # noqa: A002
    """Remove one own memory from every table, or NotFound."""
    gone = yield from forget([id])
    if not gone:
        raise NotFound(f"no memory {id!r} of your own is here.")
