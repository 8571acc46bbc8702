"""Two organisations of two users each, with a memory of every sort made to be found by the wrong one.

Every memory carries the marker of its place in text, id, metadata, alias and source: whatever shows a marker that its
reader may not see has let something through. The users of both organisations have the same names and ids.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from lore_retriever import LoreError, MemoryStore, NewMemory
from lore_retriever.admin import StoreAdmin
from lore_retriever.testing import HashEmbedder
from support import as_application, as_service

ORGS = ("acme", "globex")
USERS = ("ana", "ben")
SCOPES = tuple((org, user) for org in ORGS for user in USERS)
LIMITS = (1, 10, 1000)
COMMON = "gateway restarts nightly"


def marker(org: str, user: str, visibility: str) -> str:
    return f"{org}{user}{visibility}"


MARKERS = {
    marker(org, user, visibility): (org, user, visibility)
    for org, user in SCOPES
    for visibility in ("private", "shared")
}


def foreign(org: str, user: str) -> set[str]:
    """Markers that this scope may never see."""
    return {
        wire
        for wire, (its_org, its_user, visibility) in MARKERS.items()
        if its_org != org or (its_user != user and visibility == "private")
    }


def shown_to(org: str, user: str, text: str) -> set[str]:
    """Foreign markers in a text; empty is right."""
    return {wire for wire in foreign(org, user) if wire in text}


def _memories(wire: str, visibility: Any) -> list[NewMemory]:
    base: dict[str, Any] = {
        "visibility": visibility,
        "kind": "document",
        "metadata": {"team": "infra", "wire": wire},
        "source": wire,
        "agent": wire,
        "session": wire,
    }
    past = datetime.now(UTC) - timedelta(minutes=5)
    text = f"The {COMMON}, says {wire}. See ERR-4471 and {wire}-77."
    # The private one has the id that everybody uses; shared ids are unique in an organisation.
    own_id = "note" if visibility == "private" else f"note-{wire}"
    long = "\n\n".join(f"Paragraph {n} tells of {wire} and how the {COMMON}." for n in range(40))
    return [
        NewMemory(content=text, id=own_id, aliases=(f"{wire} nickname", "the usual nickname"), **base),
        NewMemory(content=long, id=f"long-{wire}", pinned=True, **base),
        NewMemory(content=text, id=f"gone-{wire}", expires_at=past, **base),
        NewMemory(content=text, id=f"old-{wire}", **base),
    ]


def plant(store: Any) -> None:
    """Store everybody's memories through the library; `store` is synchronous or has a synchronous face."""
    for org, user in SCOPES:
        view = store.as_user(org, user)
        for visibility in ("private", "shared"):
            wire = marker(org, user, visibility)
            view.remember_many(_memories(wire, visibility))
            view.invalidate(f"old-{wire}")
            view.remember_many(
                [NewMemory(content=f"{COMMON} and waits, {wire}", kind="document", visibility=visibility)], embed=False
            )
        view.add_alias("lighthouse", f"{marker(org, user, 'shared')} beacon")


def plant_everywhere(conninfo: str) -> None:
    """Everybody's memories, and a row of everybody's in every other table of tenant data."""
    with MemoryStore.connect(as_application(conninfo), embedder=HashEmbedder(32)) as store:
        plant(store)
    StoreAdmin.connect(conninfo).maintain()
    with as_service(conninfo) as connection:
        # What only other operations would write: a row of everybody's in every table.
        connection.execute(
            "INSERT INTO feedback (org, key, voter, useful) SELECT m.org, m.key, m.owner, true FROM memories AS m"
        )
        connection.execute("INSERT INTO untranslated (org, key, owner) SELECT m.org, m.key, m.owner FROM memories AS m")
        connection.execute(
            "INSERT INTO reinforcement (org, key, multiplier, useful, misleading)"
            " SELECT m.org, m.key, 1.1, 1, 0 FROM memories AS m ON CONFLICT DO NOTHING"
        )
        connection.execute(
            "INSERT INTO centres (space, centre, embedding) SELECT 1, 1, ('[' || repeat('0,', 31) || '0]')::halfvec"
        )
        connection.execute(
            "INSERT INTO codes SELECT v.org, v.space, 1, v.key, v.ordinal, v.owner, v.shared, v.live, v.expires_at,"
            " v.created_at, binary_quantize(v.embedding) FROM vectors AS v"
        )


def searches(org: str, user: str) -> Iterator[dict[str, Any]]:
    """Arguments of recalls that would love to find what they may not."""
    for limit in LIMITS:
        yield {"query": COMMON, "limit": limit}
        yield {"query": "ERR-4471", "limit": limit}
        yield {"query": "the usual nickname", "limit": limit}
        yield {"query": COMMON, "limit": limit, "filter": {"team": "infra"}}
        yield {"query": COMMON, "limit": limit, "kinds": ["document"]}
        yield {"query": COMMON, "limit": limit, "as_of": datetime.now(UTC)}
    yield {"query": "lighthouse"}
    for wire in MARKERS:
        misspelt = wire[:-2] + "x" + wire[-1]
        yield {
            "query": [wire, f"{wire}-77", f"{wire} nickname", f"old-{wire}", f"long-{wire}", misspelt, f"{wire} beacon"]
        }
        yield {"query": wire, "filter": {"$or": [{"wire": wire}, {"lore_source": wire}, {"lore_owner": {"$ne": user}}]}}


def _attempts(view: Any, wire: str, owner: str) -> Iterator[tuple[str, Callable[[], Any]]]:
    for memory_id in ("note", f"note-{wire}", f"long-{wire}", f"gone-{wire}", f"old-{wire}"):
        yield memory_id, lambda i=memory_id: view.get(i)
    for memory_id in (f"note-{wire}", f"long-{wire}", f"old-{wire}"):
        yield memory_id, lambda i=memory_id: view.update(i, content="overwritten")
        yield memory_id, lambda i=memory_id: view.invalidate(i)
        yield memory_id, lambda i=memory_id: view.restore(i)
        yield memory_id, lambda i=memory_id: view.forget(i)
        yield memory_id, lambda i=memory_id: view.feedback(i, useful=True)
        yield memory_id, lambda i=memory_id: view.history(i)
    yield f"long-{wire}", lambda: view.invalidate("note", superseded_by=f"long-{wire}")
    yield f"long-{wire}", lambda: view.forget_many([f"long-{wire}"])


def leaks(view: Any, org: str, user: str) -> list[tuple[Any, set[str]]]:
    """What a view shows of others to whoever asks for it in every way: (what was asked, markers). Empty is right."""
    found: list[tuple[Any, set[str]]] = []

    def look(asked: Any, text: str) -> None:
        if shown := shown_to(org, user, text):
            found.append((asked, shown))

    for search in searches(org, user):
        recall = view.recall(**search)
        look(search, "".join(hit.model_dump_json() for hit in recall.hits) + str(recall.degraded))
    for listing in (
        {"limit": 1000},
        {"pinned": True},
        {"kind": "document"},
        {"filter": {"lore_visibility": "private"}},
    ):
        look(listing, "".join(memory.model_dump_json() for memory in view.list(**listing)))
    look("aliases", str(view.aliases()))
    for query in (None, COMMON, "ERR-4471"):
        look(("briefing", query), view.build_context(query, max_tokens=100_000).model_dump_json())
    for wire in foreign(org, user):
        for memory_id, attempt in _attempts(view, wire, user):
            try:
                result = attempt()
            except LoreError as error:
                look(memory_id, str(error).replace(memory_id, ""))
            else:
                look(memory_id, str(result))
    return found
