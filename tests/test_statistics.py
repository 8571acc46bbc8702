"""Document frequencies: kept per part of an organisation, in step with writes, counted once."""

from __future__ import annotations

import threading
from typing import Any

import psycopg
import pytest

from lore_retriever import Memories, MemoryStore, NewMemory
from lore_retriever.admin import StoreAdmin


def frequencies(connection: psycopg.Connection[Any], stem: str) -> dict[tuple[str, str], int]:
    rows = connection.execute("SELECT org, owner, df FROM terms WHERE stem = %s", [stem]).fetchall()
    return {(org, owner): df for org, owner, df in rows}


def test_a_stem_is_counted_per_part_of_its_organisation(
    store: MemoryStore, admin_connection: psycopg.Connection[Any]
) -> None:
    store.as_user("acme", "ana").remember("penguin one")
    store.as_user("acme", "ana").remember("penguin two", visibility="shared")
    store.as_user("acme", "ben").remember("penguin three")
    store.as_user("globex", "gil").remember("penguin four")
    expected = {("acme", "ana"): 1, ("acme", ""): 1, ("acme", "ben"): 1, ("globex", "gil"): 1}
    assert frequencies(admin_connection, "penguin") == expected


def test_writers_at_once_are_counted_once(
    store: MemoryStore, database: str, admin_connection: psycopg.Connection[Any]
) -> None:
    def write(number: int) -> None:
        view = store.as_user("acme", "ana")
        for turn in range(5):
            view.remember(f"penguin {number} {turn}", visibility="shared")

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    counted = frequencies(admin_connection, "penguin")[("acme", "")]
    assert counted <= 20
    StoreAdmin.connect(database).maintain()
    assert frequencies(admin_connection, "penguin") == {("acme", ""): 20}
    row = admin_connection.execute(
        "SELECT memories, stems FROM scope_statistics WHERE org = 'acme' AND owner = ''"
    ).fetchone()
    stems = admin_connection.execute("SELECT count(*) FROM terms WHERE org = 'acme' AND owner = ''").fetchone()
    assert row == (20, stems[0] if stems else None)


@pytest.mark.parametrize("maintained", [False, True])
def test_search_is_right_whether_or_not_maintenance_ever_ran(
    ana: Memories, database: str, admin_connection: psycopg.Connection[Any], maintained: bool
) -> None:
    ana.remember_many([NewMemory(content=f"the gateway note {n}", id=f"m{n}") for n in range(30)])
    ana.remember("the gateway walrus", id="rare")
    if maintained:
        StoreAdmin.connect(database).maintain()
    else:
        admin_connection.execute("TRUNCATE terms, scope_statistics")
    hits = ana.recall("gateway walrus").hits
    assert hits[0].id == "rare"
    assert hits[0].legs["relaxed"].rank == 1


def test_an_expired_memory_is_purged_by_maintenance(
    ana: Memories, database: str, admin_connection: psycopg.Connection[Any]
) -> None:
    ana.remember("old", id="old")
    admin_connection.execute("UPDATE memories SET expires_at = now() - interval '1 day'")
    assert StoreAdmin.connect(database).maintain()["expired"] == 1
    assert admin_connection.execute("SELECT count(*) FROM memories").fetchone() == (0,)
