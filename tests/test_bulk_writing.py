"""What the full-text indexes gather before they sort it in: every search reads through it, so it is bounded, and gone after bulk."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import psycopg
import pytest

from lore_retriever import NewMemory
from lore_retriever.admin import StoreAdmin
from lore_retriever.exported import FORMAT
from support import opened, scoped

BOTH = pytest.mark.parametrize("kind", ["sync", "async"])
PAGES = 512 // 8 + 4  # of the bound, and what the last memory adds
WRITE = "INSERT INTO memories (org, owner, id, content) VALUES ('acme', 'ana', %s, %s)"


def texts(count: int) -> list[str]:
    """Of 150 words each that no other has: some 6 kB of entries a text."""
    chance = random.Random(7)
    return [" ".join(f"{chance.getrandbits(40):010x}q" for _ in range(150)) for _ in range(count)]


def gathered(admin: str) -> int:
    """Pages that were not sorted in, of the index that has more of them; they are thereafter."""
    with psycopg.connect(admin) as connection:
        row = connection.execute(
            "SELECT greatest(gin_clean_pending_list('lore.memories_tsv'), gin_clean_pending_list('lore.memories_identifiers'))"
        ).fetchone()
    assert row is not None
    return int(row[0])


def test_what_single_writes_gather_is_bounded(database: str) -> None:
    for n, text in enumerate(texts(200)):
        with scoped(database, "acme", "ana") as connection:
            connection.execute(WRITE, [f"m{n}", text])
            connection.commit()
    assert 0 < gathered(database) <= PAGES


def test_a_transaction_that_says_so_gathers_more_and_sorts_it_in_itself(database: str) -> None:
    for sorts_in in (False, True):
        with scoped(database, "acme", "ana") as connection:
            connection.execute("SELECT set_config('lore.bulk', 'on', true)")
            with connection.cursor() as cursor:
                cursor.executemany(WRITE, [(f"{sorts_in}{n}", text) for n, text in enumerate(texts(200))])
            if sorts_in:
                connection.execute("SELECT sort_in()")
            connection.commit()
        assert (gathered(database) > PAGES) is not sorts_in


@BOTH
def test_after_many_memories_in_one_call_nothing_is_left_to_sort_in(
    database: str, app_database: str, kind: Any
) -> None:
    with opened(kind, app_database) as store:
        ana = store.as_user("acme", "ana")
        ana.remember_many([NewMemory(content=text) for text in texts(250)])
        assert gathered(database) == 0
        ana.remember_many([NewMemory(content=text) for text in texts(30)])
        assert gathered(database) > 0


def test_an_index_by_another_name_is_sorted_in_too(database: str, app_database: str) -> None:
    with psycopg.connect(database) as connection:
        connection.execute("ALTER INDEX lore.memories_tsv RENAME TO words_of_memories")
    with opened("sync", app_database) as store:
        ids = store.as_user("acme", "ana").remember_many([NewMemory(content=text) for text in texts(200)])
    assert len(ids) == 200
    with psycopg.connect(database) as connection:
        assert connection.execute("SELECT gin_clean_pending_list('lore.words_of_memories')").fetchone() == (0,)


def test_after_an_import_nothing_is_left_to_sort_in(database: str, tmp_path: Path) -> None:
    one = {"org": "acme", "owner": "ana", "created_at": "2026-01-01T00:00:00Z"}
    lines = [{"memory": one | {"id": f"m{n}", "content": text}} for n, text in enumerate(texts(50))]
    path = tmp_path / "in.jsonl"
    path.write_text("\n".join(json.dumps(line) for line in [{"format": FORMAT}, *lines]))
    assert StoreAdmin.connect(database).import_jsonl(path)["stored"] == 50
    assert gathered(database) == 0
