"""The map of the SQL is complete, and its program runs in plain psql."""

from __future__ import annotations

import re
from pathlib import Path

import psycopg

from lore_retriever import MemoryStore
from lore_retriever.testing import HashEmbedder
from support import as_application, run_psql


def readme(repository: Path) -> str:
    return (repository / "sql" / "README.md").read_text(encoding="utf-8")


def test_every_table_stands_in_the_map(database: str, repository: Path) -> None:
    rows = re.findall(r"^\| `(\w+)` \|", readme(repository), re.MULTILINE)
    with psycopg.connect(database) as connection:
        tables = connection.execute(
            "SELECT relname FROM pg_class WHERE relnamespace = 'lore'::regnamespace AND relkind = 'r'"
        )
        assert {name for (name,) in tables.fetchall()} == set(rows) - {
            "lore_owner",
            "lore_search",
            "lore_service",
            "lore_user",
        }


def test_every_function_that_the_map_names_is_there(database: str, repository: Path) -> None:
    pipeline = readme(repository).split("## The pipeline", 1)[1].split("## Tables", 1)[0]
    named = set(re.findall(r"^[ │├└─]*([a-z]+_[a-z_]+)  ", pipeline, re.MULTILINE)) | set(
        re.findall(r"`([a-z]+_[a-z_]+)`", pipeline)
    )
    with psycopg.connect(database) as connection:
        rows = connection.execute("SELECT proname FROM pg_proc WHERE pronamespace = 'lore'::regnamespace").fetchall()
    assert len(named) > 10
    assert named - {name for (name,) in rows} == set()


def test_the_program_of_the_map_finds_memories_in_plain_psql(database: str, repository: Path) -> None:
    application = as_application(database)
    with MemoryStore.connect(application, embedder=HashEmbedder(32)) as store:
        store.as_user("acme", "ana").remember("ERR-4471 came back with the second deploy", id="err")
        store.as_user("acme", "ben").remember("ERR-4471, ben's private view", id="ben")
    [program] = re.findall(r"```sql\n(.*?)```", readme(repository), re.DOTALL)
    printed = run_psql(application, program)
    assert "err|" in printed
    assert "ERR-4471 came back with the second deploy" in printed
    assert "ben" not in printed


def test_what_it_calls_public_is_what_recall_and_the_tables_are(database: str, repository: Path) -> None:
    public = readme(repository).split("## What is public", 1)[1].split("## The pipeline", 1)[0]
    with psycopg.connect(database) as connection:
        row = connection.execute("SELECT proargnames[1:6] FROM pg_proc WHERE oid = 'lore.recall'::regproc").fetchone()
    assert row is not None
    assert f"recall({', '.join(row[0])})" in public
