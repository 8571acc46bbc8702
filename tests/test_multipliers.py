"""What age and votes make of a relevance, worked out by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from psycopg.rows import dict_row

from lore_retriever import Memories, MemoryStore, NewMemory
from lore_retriever.testing import HashEmbedder
from support import as_application, as_service, kept_database, scoped

Row = dict[str, Any]


@pytest.fixture(scope="module")
def admin(create_database: Callable[..., str], template: str) -> Iterator[str]:
    with kept_database(create_database, template) as conninfo:
        yield conninfo


@pytest.fixture(scope="module")
def open_store(admin: str) -> Iterator[MemoryStore]:
    with MemoryStore.connect(as_application(admin), embedder=HashEmbedder(32)) as store:
        yield store


@pytest.fixture
def org(request: pytest.FixtureRequest) -> str:
    """Each test has an organisation of its own."""
    return request.node.name


@pytest.fixture
def ana(open_store: MemoryStore, org: str) -> Memories:
    return open_store.as_user(org, "ana")


def recall(admin: str, org: str, query: str, vector: str | None = None, **arguments: Any) -> list[Row]:
    """Rows of the SQL function for ana, in the order in which they come."""
    given = {"k": 10, "filter": None, "kinds": None, "as_of": None} | arguments
    with scoped(admin, org, "ana") as connection, connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(
            "SELECT * FROM recall(ARRAY[%(query)s], ARRAY[%(vector)s]::halfvec[], %(k)s, %(filter)s, %(kinds)s, %(as_of)s)",
            given | {"query": query, "vector": vector},
        ).fetchall()


def remember(view: Memories, texts: dict[str, str], **fields: Any) -> None:
    """Memories by id; of a kind that never fades, unless told otherwise."""
    view.remember_many([NewMemory(content=text, id=i, **{"kind": "document"} | fields) for i, text in texts.items()])


AS_OF = datetime(2026, 6, 1, 12, tzinfo=UTC)


def test_recency_halves_per_kind_down_to_its_floor(ana: Memories, admin: str, org: str) -> None:
    with scoped(admin, org, "ana") as connection:
        kinds = connection.execute("SELECT kind, half_life_days, recency_floor FROM kinds").fetchall()
    assert {kind for kind, _, _ in kinds} >= {"fact", "episode", "task", "document", ""}
    expected = {}
    memories = []
    for kind, days, floor in kinds:
        for name, halves in (("young", 0.1), ("aged", 1.0), ("old", 40.0)):
            age = timedelta(days=(days or 365) * halves)
            memory_id = f"{kind or 'unheard-of'} {name}"
            expected[memory_id] = 1.0 if days is None else max(floor, 0.5**halves)
            memories.append(
                NewMemory(content="walrus", id=memory_id, kind=kind or "unheard-of", created_at=AS_OF - age)
            )
    ana.remember_many(memories)
    rows = recall(admin, org, "walrus", k=100, as_of=AS_OF)
    assert {row["id"]: row["recency"] for row in rows} == pytest.approx(expected)
    assert all(row["score"] == pytest.approx(row["relevance"] * row["recency"]) for row in rows)
    assert recall(admin, org, "walrus", k=100, as_of=AS_OF) == rows


def test_half_lives_are_those_documented(admin: str) -> None:
    with as_service(admin) as connection:
        half_lives = dict(connection.execute("SELECT kind, half_life_days FROM kinds").fetchall())
    assert half_lives == {
        "decision": 3650,
        "convention": 3650,
        "preference": 1825,
        "reference": 1825,
        "runbook": 1825,
        "gotcha": 1095,
        "fact": 365,
        "episode": 30,
        "task": 14,
        "open-question": 14,
        "document": None,
        "": 365,
    }


def test_floors_are_those_documented(admin: str) -> None:
    with as_service(admin) as connection:
        floors = dict(connection.execute("SELECT kind, recency_floor FROM kinds WHERE kind <> 'document'").fetchall())
    assert {kind: floor for kind, floor in floors.items() if floor != 0.95} == {
        "episode": 0.85,
        "task": 0.8,
        "open-question": 0.8,
    }


def test_a_future_date_counts_as_now(ana: Memories, admin: str, org: str) -> None:
    remember(ana, {"a": "walrus"}, kind="task", created_at=datetime.now(UTC) + timedelta(days=300))
    assert [row["recency"] for row in recall(admin, org, "walrus")] == [1]


def test_recency_counts_from_the_last_change_of_the_text(ana: Memories, admin: str, org: str) -> None:
    then = datetime.now(UTC) - timedelta(days=14)
    remember(ana, {"a": "walrus", "b": "walrus"}, kind="task", created_at=then)
    ana.update("a", content="walrus again")
    ana.update("b", metadata={"seen": True})
    recency = {row["id"]: row["recency"] for row in recall(admin, org, "walrus")}
    assert recency["a"] == pytest.approx(1, abs=1e-4)
    assert recency["b"] == pytest.approx(0.8)  # one half-life: 0.5, below the floor


def test_reinforcement_multiplies(ana: Memories, admin: str, org: str) -> None:
    remember(ana, {"a": "walrus", "b": "walrus", "c": "walrus"})
    with as_service(admin) as connection:
        for memory_id, multiplier in (("a", 1.4), ("b", 0.5)):
            connection.execute(
                "INSERT INTO reinforcement (org, key, multiplier, useful, misleading)"
                " SELECT org, key, %s, 0, 0 FROM memories WHERE org = %s AND id = %s",
                [multiplier, org, memory_id],
            )
    rows = {row["id"]: row for row in recall(admin, org, "walrus")}
    assert {i: row["reinforcement"] for i, row in rows.items()} == {"a": 1.4, "b": 0.5, "c": 1}
    assert list(rows) == ["a", "c", "b"]
    assert all(row["score"] == pytest.approx(row["relevance"] * row["reinforcement"]) for row in rows.values())
