"""Moving in: PGVector, PGVectorStore, and any table or query, broken off and taken up again."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest

from cli_tools import CommandLine, ana_of
from lore_retriever import InvalidInput, Memories, StoreUnavailable
from lore_retriever.langchain import LoreVectorStore, import_pgvector, import_pgvectorstore
from lore_retriever.rows import Columns, Imported, import_rows

# The tables as langchain-postgres 0.0.19 (and langchain-community before it) makes them.
PGVECTOR = """
CREATE EXTENSION vector;
CREATE TABLE langchain_pg_collection (uuid uuid PRIMARY KEY, name varchar UNIQUE NOT NULL, cmetadata json);
CREATE TABLE langchain_pg_embedding (
    id varchar PRIMARY KEY, collection_id uuid REFERENCES langchain_pg_collection ON DELETE CASCADE,
    embedding vector, document varchar, cmetadata jsonb);
"""
OLDER_PGVECTOR = PGVECTOR.replace("id varchar PRIMARY KEY,", "uuid uuid PRIMARY KEY, custom_id varchar,")
PGVECTORSTORE = """
CREATE EXTENSION vector;
CREATE TABLE "Hotel notes" (langchain_id uuid PRIMARY KEY, content text NOT NULL, embedding vector(3) NOT NULL,
                            stars integer, langchain_metadata json);
"""


@pytest.fixture
def source(empty_database: str) -> Iterator[psycopg.Connection[Any]]:
    """A database of another application."""
    with psycopg.connect(empty_database, autocommit=True) as connection:
        yield connection


def held(view: Memories) -> dict[str, tuple[str, dict[str, Any]]]:
    return {memory.id: (memory.content, memory.metadata) for memory in view.list(limit=1000)}


def fill(source: psycopg.Connection[Any], rows: int) -> None:
    source.execute(
        "CREATE TABLE notes (id text PRIMARY KEY, content text, metadata jsonb, team text, written timestamptz)"
    )
    with source.cursor() as cursor:
        cursor.executemany(
            "INSERT INTO notes VALUES (%s, %s, %s, %s, %s)",
            [
                (
                    f"n{n:03}",
                    f"note {n} of the gateway",
                    json.dumps({"n": n}),
                    "infra",
                    datetime(2026, 1, 1, tzinfo=UTC),
                )
                for n in range(rows)
            ],
        )


@pytest.mark.parametrize("prefix", ["postgresql", "postgresql+psycopg"])
def test_a_pgvector_collection_moves_in_with_ids_and_metadata(
    source: psycopg.Connection[Any], ana: Memories, prefix: str
) -> None:
    source.execute(PGVECTOR)
    mine, other = uuid.uuid4(), uuid.uuid4()
    source.execute("INSERT INTO langchain_pg_collection VALUES (%s, 'mine'), (%s, 'other')", [mine, other])
    source.execute(
        "INSERT INTO langchain_pg_embedding VALUES ('a', %s, '[1,0]', 'alpha', '{\"n\": 1}'), ('b', %s, '[0,1]', 'bravo', NULL),"
        " ('c', %s, '[1,1]', 'other''s', '{}')",
        [mine, mine, other],
    )
    info = source.info
    url = f"{prefix}://{info.user}@/{info.dbname}?host={info.host}&port={info.port}"
    assert import_pgvector(url, ana, collection="mine") == Imported(stored=2)
    assert held(ana) == {"a": ("alpha", {"n": 1}), "b": ("bravo", {})}
    assert {hit.kind for hit in ana.recall("alpha").hits} == {"document"}
    assert [document.id for document in LoreVectorStore(ana).similarity_search("bravo", k=1)] == ["b"]


def test_the_older_table_of_pgvector_moves_in_too(source: psycopg.Connection[Any], ana: Memories) -> None:
    source.execute(OLDER_PGVECTOR)
    mine, row = uuid.uuid4(), uuid.uuid4()
    source.execute("INSERT INTO langchain_pg_collection VALUES (%s, 'mine')", [mine])
    source.execute(
        "INSERT INTO langchain_pg_embedding VALUES (%s, 'named', %s, '[1]', 'alpha', NULL), (%s, NULL, %s, '[1]', 'bravo', NULL)",
        [uuid.uuid4(), mine, row, mine],
    )
    import_pgvector(source.info.dsn, ana, collection="mine")
    assert held(ana).keys() == {"named", str(row)}


def test_a_missing_collection_is_named(source: psycopg.Connection[Any], ana: Memories) -> None:
    with pytest.raises(InvalidInput, match="no PGVector collections"):
        import_pgvector(source.info.dsn, ana, collection="mine")
    source.execute(PGVECTOR)
    with pytest.raises(InvalidInput, match="'mine'"):
        import_pgvector(source.info.dsn, ana, collection="mine")


def test_a_pgvectorstore_table_moves_in_with_its_columns(source: psycopg.Connection[Any], ana: Memories) -> None:
    source.execute(PGVECTORSTORE)
    row = uuid.uuid4()
    source.execute(
        'INSERT INTO "Hotel notes" VALUES (%s, %s, %s, 4, %s)', [row, "sea view", "[1,2,3]", '{"city": "Rome"}']
    )
    done = import_pgvectorstore(source.info.dsn, ana, table="Hotel notes", metadata_columns=["stars"])
    assert done.stored == 1
    assert held(ana) == {str(row): ("sea view", {"city": "Rome", "stars": 4})}


def test_a_table_moves_in_by_its_columns(source: psycopg.Connection[Any], ana: Memories) -> None:
    fill(source, 3)
    columns = Columns(metadata="metadata", keys={"group": "team"}, fields={"created_at": "written"})
    import_rows(source, ana, table="public.notes", columns=columns, defaults={"kind": "fact", "source": "notes"})
    memory = ana.get("n001")
    assert (memory.content, memory.metadata) == ("note 1 of the gateway", {"n": 1, "group": "infra"})
    assert (memory.kind, memory.source, memory.created_at) == ("fact", "notes", datetime(2026, 1, 1, tzinfo=UTC))


def test_a_query_moves_in_and_rows_without_an_id_get_one_that_lasts(
    source: psycopg.Connection[Any], ana: Memories
) -> None:
    fill(source, 5)
    asked = {"query": "SELECT content || '!' AS text FROM notes WHERE id > %(after)s", "params": {"after": "n002"}}
    first = import_rows(source, ana, columns=Columns(content="text", id=None), **asked)
    again = import_rows(source, ana, columns=Columns(content="text", id=None), **asked)
    assert (first, again) == (Imported(stored=2), Imported(unchanged=2))
    assert {content for content, _ in held(ana).values()} == {"note 3 of the gateway!", "note 4 of the gateway!"}


def test_a_broken_run_goes_on_where_it_stopped(source: psycopg.Connection[Any], ana: Memories) -> None:
    fill(source, 50)
    columns = Columns(metadata="metadata")

    def stop(done: Imported) -> None:
        if done.read >= 20:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        import_rows(source.info.dsn, ana, table="notes", columns=columns, batch_size=10, progress=stop)
    assert len(held(ana)) == 20
    seen: list[int] = []
    done = import_rows(
        source.info.dsn,
        ana,
        table="notes",
        columns=columns,
        batch_size=10,
        progress=lambda done: seen.append(done.read),
    )
    assert (done.stored, done.unchanged, seen) == (30, 20, [10, 20, 30, 40, 50])
    assert ana.get("n000").version == 1
    source.execute("UPDATE notes SET content = 'rewritten' WHERE id = 'n007'")
    assert import_rows(source.info.dsn, ana, table="notes", columns=columns) == Imported(stored=1, unchanged=49)
    assert ana.get("n007").content == "rewritten"


def test_a_row_that_cannot_be_stored_is_named_or_passed_over(source: psycopg.Connection[Any], ana: Memories) -> None:
    fill(source, 3)
    source.execute("UPDATE notes SET content = NULL WHERE id = 'n001'")
    with pytest.raises(InvalidInput, match=r"row \d \('n001'\)"):
        import_rows(source, ana, table="notes")
    assert held(ana) == {}
    done = import_rows(source, ana, table="notes", on_error="skip")
    assert done.stored == 2
    assert len(done.refused) == 1
    assert "n001" in done.refused[0]


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"table": "notes", "columns": Columns(content="body")}, "body"),
        ({"table": "nowhere"}, "nowhere"),
        ({"query": "SELECT content FROM notes"}, "'id'"),
        ({}, "either a table or a query"),
        ({"table": "notes", "query": "SELECT 1"}, "either a table or a query"),
        ({"table": "notes", "columns": Columns(metadata="team")}, "JSON"),
        ({"table": 'notes"; DROP TABLE notes; --'}, "DROP TABLE"),
        ({"table": "notes", "defaults": {"colour": "red"}}, "colour"),
        ({"table": "notes", "on_error": "ignore"}, "on_error"),
    ],
)
def test_what_cannot_be_read_is_refused_clearly(
    source: psycopg.Connection[Any], ana: Memories, options: dict[str, Any], match: str
) -> None:
    fill(source, 1)
    with pytest.raises(InvalidInput, match=match):
        import_rows(source.info.dsn, ana, **options)
    assert held(ana) == {}
    assert source.execute("SELECT count(*) FROM notes").fetchone() == (1,)


def test_a_column_cannot_set_what_is_not_a_field() -> None:
    with pytest.raises(InvalidInput, match="colour"):
        Columns(fields={"colour": "team"})


def test_a_source_that_is_not_there_is_unavailable(ana: Memories) -> None:
    with pytest.raises(StoreUnavailable):
        import_rows("host=/nowhere dbname=none", ana, table="notes")


def test_vectors_may_follow_later(source: psycopg.Connection[Any], ana: Memories) -> None:
    fill(source, 2)
    import_rows(source, ana, table="notes", embed=False)
    found = ana.recall("note 1 of the gateway").hits
    assert found[0].id == "n001"
    assert all("vector" not in hit.legs for hit in found)


def test_writes_to_the_source_are_impossible(
    source: psycopg.Connection[Any], ana: Memories, create_database: Callable[..., str]
) -> None:
    fill(source, 1)
    with pytest.raises(psycopg.Error):
        import_rows(source.info.dsn, ana, query="DELETE FROM notes RETURNING id, content")
    assert source.execute("SELECT count(*) FROM notes").fetchone() == (1,)


# The command line


@pytest.fixture
def lore(app_database: str) -> CommandLine:
    return ana_of(app_database)


def test_import_does_what_is_missing_and_says_so(
    source: psycopg.Connection[Any], lore: CommandLine, ana: Memories
) -> None:
    fill(source, 30)
    asked = ["import", source.info.dsn, "--table", "notes", "--metadata", "metadata", "--key", "team"]
    first = lore(*asked, "--field", "created_at=written", "--kind", "fact")
    assert (first.exit_code, first.stdout) == (0, "30 stored\n"), first.stderr
    memory = ana.get("n007")
    assert (memory.metadata, memory.kind) == ({"n": 7, "team": "infra"}, "fact")
    assert memory.created_at == datetime(2026, 1, 1, tzinfo=UTC)
    assert "vector" in ana.recall("note 7").hits[0].legs
    source.execute("INSERT INTO notes (id, content) VALUES ('new', 'one more'), ('bad', NULL)")
    again = lore(*asked, "--field", "created_at=written", "--kind", "fact", "--json")
    assert again.exit_code == 1
    said = json.loads(again.stdout)
    assert (said["stored"], said["unchanged"], said["waiting"]) == (1, 30, 0)
    assert "bad" in said["refused"][0]
    assert "refused: row" in again.stderr


def test_import_knows_langchain_s_own_tables(source: psycopg.Connection[Any], lore: CommandLine, ana: Memories) -> None:
    source.execute(PGVECTOR)
    source.execute(PGVECTORSTORE.partition(";")[2])
    mine = uuid.uuid4()
    source.execute("INSERT INTO langchain_pg_collection VALUES (%s, 'mine')", [mine])
    source.execute("INSERT INTO langchain_pg_embedding VALUES ('a', %s, '[1]', 'alpha', '{\"n\": 1}')", [mine])
    source.execute('INSERT INTO "Hotel notes" VALUES (%s, %s, %s, 4, NULL)', [uuid.uuid4(), "sea view", "[1,2,3]"])
    assert lore("import", source.info.dsn, "--pgvector", "mine").stdout == "1 stored\n"
    made = lore("import", source.info.dsn, "--pgvectorstore", "Hotel notes", "--key", "stars", "--no-embed")
    assert made.stdout == "1 stored\n"
    assert "1 memories wait" in made.stderr
    assert sorted(held(ana).values(), key=str) == [("alpha", {"n": 1}), ("sea view", {"stars": 4})]


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ([], "give one of --pgvector"),
        (["--table", "notes", "--query", "SELECT 1"], "give one of --pgvector"),
        (["--table", "notes", "--field", "created_at"], "FIELD=COLUMN"),
        (["--table", "notes", "--field", "colour=team"], "colour"),
        (["--table", "notes", "--visibility", "public"], "visibility"),
        (["--pgvector", "mine", "--content", "x"], "knows its columns"),
        (["--pgvectorstore", "notes", "--field", "kind=team"], "--field"),
    ],
)
def test_import_refuses_what_it_cannot_mean(
    source: psycopg.Connection[Any], lore: CommandLine, options: list[str], match: str
) -> None:
    fill(source, 1)
    refused = lore("import", source.info.dsn, *options)
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert match in refused.stderr


def test_a_source_that_is_not_there_or_no_connection_string_is_named_at_once(ana: Any) -> None:
    dead = "postgresql+psycopg://user@127.0.0.1:1/notes"
    for move in (
        lambda source: import_pgvector(source, ana, collection="mine"),
        lambda source: import_pgvectorstore(source, ana, table="mine"),
    ):
        with pytest.raises(StoreUnavailable, match=r"source did not answer: .*refused.*Check that its server runs"):
            move(dead)
        with pytest.raises(InvalidInput, match="no connection string"):
            move("hots=localhost")
