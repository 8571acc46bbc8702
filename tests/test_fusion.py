"""Reciprocal ranks worked out by hand, the knobs and ties."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.errors import CheckViolation, NotNullViolation, UniqueViolation
from psycopg.rows import dict_row
from pydantic import ValidationError

from lore_retriever import FusionConfig, Memories, MemoryStore, NewMemory
from lore_retriever.testing import HashEmbedder
from support import SEARCH_PATH, as_application, as_service, kept_database, scoped

Knobs = Callable[..., None]
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


@pytest.fixture
def knobs(admin: str) -> Iterator[Knobs]:
    """Sets knobs of the search for this test, as the service role."""

    def turn(**values: Any) -> None:
        names = sql.SQL(", ").join(map(sql.Identifier, values))
        places = sql.SQL(", ").join(sql.Placeholder() * len(values))
        with as_service(admin) as connection:
            connection.execute("DELETE FROM fusion_config")
            connection.execute(
                sql.SQL("INSERT INTO fusion_config ({}) VALUES ({})").format(names, places), list(values.values())
            )

    yield turn
    with as_service(admin) as connection:
        connection.execute("DELETE FROM fusion_config")


def at_angle(similarity: float) -> str:
    """A unit vector of 32 numbers at this cosine from the first axis."""
    return str([similarity, math.sqrt(1 - similarity**2)] + [0] * 30)


AXIS = at_angle(1)


def place(admin: str, org: str, similarities: dict[str, float]) -> None:
    """Give the windows of memories these cosine similarities to the first axis."""
    with as_service(admin) as connection:
        for memory_id, similarity in similarities.items():
            connection.execute(
                "UPDATE vectors AS v SET embedding = %s::halfvec FROM memories AS m"
                " WHERE m.org = v.org AND m.key = v.key AND m.org = %s AND m.id = %s",
                [at_angle(similarity), org, memory_id],
            )


def recall(admin: str, org: str, query: str, vector: str | None = AXIS, **arguments: Any) -> list[Row]:
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


TWO_LEGS = {"relaxed_weight": 0, "alias_weight": 0}


def test_first_in_two_legs(ana: Memories, admin: str, org: str, knobs: Knobs) -> None:
    knobs(**TWO_LEGS)
    remember(ana, {"a": "walrus census"})
    place(admin, org, {"a": 0.9})
    [hit] = recall(admin, org, "walrus census")
    assert (hit["vector_rank"], hit["exact_rank"], hit["relaxed_rank"], hit["alias_rank"]) == (1, 1, None, None)
    assert hit["relevance"] == pytest.approx(1 / 61 + 1 / 61) == pytest.approx(0.0327869, abs=5e-8)
    assert hit["score"] == hit["relevance"]
    assert (hit["recency"], hit["reinforcement"]) == (1, 1)
    assert hit["similarity"] == pytest.approx(0.9, abs=1e-3)


def test_first_in_one_leg(ana: Memories, admin: str, org: str, knobs: Knobs) -> None:
    knobs(**TWO_LEGS)
    remember(ana, {"a": "walrus census"})
    [hit] = recall(admin, org, "walrus census", vector=None)
    assert (hit["vector_rank"], hit["exact_rank"]) == (None, 1)
    assert hit["relevance"] == pytest.approx(1 / 61) == pytest.approx(0.0163934, abs=5e-8)
    [hit] = recall(admin, org, "")
    assert (hit["vector_rank"], hit["exact_rank"]) == (1, None)
    assert hit["relevance"] == pytest.approx(1 / 61)


def test_first_in_one_leg_and_tenth_in_the_other(ana: Memories, admin: str, org: str, knobs: Knobs) -> None:
    knobs(**TWO_LEGS)
    remember(ana, {"a": "walrus census"} | {f"b{n}": f"other {n}" for n in range(9)})
    place(admin, org, {"a": 0.1} | {f"b{n}": 0.9 - n / 100 for n in range(9)})
    rows = recall(admin, org, "walrus census")
    [hit] = [row for row in rows if row["id"] == "a"]
    assert (hit["exact_rank"], hit["vector_rank"]) == (1, 10)
    assert hit["relevance"] == pytest.approx(1 / 61 + 1 / 70) == pytest.approx(0.0306792, abs=5e-8)
    assert [row["id"] for row in rows] == ["a", *(f"b{n}" for n in range(9))]


def test_weights_and_the_constant_enter_as_written(ana: Memories, admin: str, org: str, knobs: Knobs) -> None:
    knobs(rrf_k=10, vector_weight=2, exact_weight=3, relaxed_weight=0.5, alias_weight=0)
    remember(ana, {"a": "walrus census"})
    [hit] = recall(admin, org, "walrus census")
    assert hit["relevance"] == pytest.approx(2 / 11 + 3 / 11 + 0.5 / 11)


def test_an_identifier_outweighs_first_places_in_all_other_legs(ana: Memories, admin: str, org: str) -> None:
    remember(ana, {"a": "notes on ERR-4471", "b": "walrus census"}, aliases=())
    ana.update("b", aliases=("err 4471",))
    place(admin, org, {"a": -0.9, "b": 0.9})
    rows = recall(admin, org, "ERR-4471")
    assert [row["id"] for row in rows] == ["a", "b"]
    assert rows[0]["relevance"] == pytest.approx(4 / 61 + 1 / 61 + 1 / 62)  # identifier, relaxed, second by vector
    assert rows[1]["relevance"] == pytest.approx(1 / 61 + 1 / 61)  # alias and vector


def test_a_leg_proposes_no_more_than_its_pool(ana: Memories, admin: str, org: str, knobs: Knobs) -> None:
    knobs(pool_multiplier=2, **TWO_LEGS)
    remember(ana, {f"m{n:02}": f"walrus {n}" for n in range(30)})
    place(admin, org, {f"m{n:02}": 1 - n / 100 for n in range(30)})
    rows = recall(admin, org, "29", k=10)
    assert len(rows) == 10
    by_id = {row["id"]: row for row in rows}
    assert (by_id["m29"]["exact_rank"], by_id["m29"]["vector_rank"]) == (1, None)
    with scoped(admin, org, "ana") as connection:
        candidates = "SELECT vector_rank FROM candidates(ARRAY[''], ARRAY[%s]::halfvec[], %s, NULL) ORDER BY 1"
        for k in (1, 10, 14):
            ranks = [rank for (rank,) in connection.execute(candidates, [AXIS, k]).fetchall()]
            assert ranks == list(range(1, 2 * k + 1))


def test_the_order_of_the_cursor_is_the_order_of_the_result(ana: Memories, admin: str, org: str) -> None:
    remember(ana, {f"m{n}": f"walrus census number {n} {'of many ' * (n % 7)}" for n in range(60)}, kind="fact")
    rows = recall(admin, org, "walrus census", k=40)
    assert len(rows) == 40
    assert rows == sorted(rows, key=lambda row: (-row["score"], -row["created_at"].timestamp(), row["id"]))
    hits = ana.recall("walrus census", limit=40).hits
    assert [hit.rank for hit in hits] == list(range(1, 41))
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert all(hit.score == pytest.approx(hit.relevance * hit.recency * hit.reinforcement) for hit in hits)


@pytest.mark.parametrize("limit", [1, 3, 7])
def test_at_most_k_rows_leave_the_database(ana: Memories, admin: str, org: str, limit: int) -> None:
    remember(ana, {f"m{n}": f"walrus {n}" for n in range(8)})
    assert len(recall(admin, org, "walrus", k=limit)) == limit
    assert len(ana.recall("walrus", limit=limit).hits) == limit


def test_no_row_of_the_knobs_means_the_defaults(ana: Memories, admin: str, org: str, knobs: Knobs) -> None:
    def used() -> Row:
        with scoped(admin, org, "ana") as connection, connection.cursor(row_factory=dict_row) as cursor:
            row = cursor.execute("SELECT * FROM fusion()").fetchone()
        assert row is not None
        return {name: value for name, value in row.items() if name in FusionConfig.model_fields}

    remember(ana, {f"m{n}": f"walrus census ERR-{n:04}" for n in range(30)})
    without, rows = used(), recall(admin, org, "walrus ERR-0007")
    assert FusionConfig(**without) == FusionConfig()
    with as_service(admin) as connection:
        connection.execute("INSERT INTO fusion_config DEFAULT VALUES")
    assert used() == without
    assert recall(admin, org, "walrus ERR-0007") == rows


def test_there_is_one_row_of_knobs(admin: str, knobs: Knobs) -> None:
    knobs(rrf_k=61)
    for statement in ("INSERT INTO fusion_config DEFAULT VALUES", "INSERT INTO fusion_config (rrf_k) VALUES (3)"):
        with pytest.raises(UniqueViolation), as_service(admin) as connection:
            connection.execute(statement.encode())
    with pytest.raises(CheckViolation), as_service(admin) as connection:
        connection.execute("INSERT INTO fusion_config (one) VALUES (false)")


BOUNDS: dict[str, tuple[float, float, float, float]] = {
    # below, least, most, above
    "rrf_k": (0, 1, 1000, 1001),
    "pool_multiplier": (0, 1, 20, 21),
    **dict.fromkeys(("vector_weight", "exact_weight", "relaxed_weight", "alias_weight"), (-0.1, 0, 100, 100.1)),
    "identifier_weight": (-0.1, 0, 100, 100.1),
    "identifier_rows": (-1, 0, 1000, 1001),
    "relaxed_coverage": (-0.1, 0, 1, 1.1),
    "relaxed_proposals": (9, 10, 100_000, 100_001),
    "relaxed_stems": (0, 1, 256, 257),
    "bm25_k1": (-0.1, 0, 10, 10.1),
    "bm25_b": (-0.1, 0, 1, 1.1),
    "near_miss_similarity": (0.09, 0.1, 1, 1.1),
    "near_miss_penalty": (-0.1, 0, 1, 1.1),
    "scan_numbers": (-1, 0, 2**62, -(2**62)),
    "code_candidates": (9, 10, 100_000, 100_001),
}


def test_every_knob_is_tried_here() -> None:
    assert set(BOUNDS) == set(FusionConfig.model_fields)


@pytest.mark.parametrize("name", BOUNDS)
def test_each_knob_is_bounded_alike_in_the_database_and_in_python(admin: str, name: str) -> None:
    below, least, most, above = BOUNDS[name]
    insert = sql.SQL("INSERT INTO fusion_config ({}) VALUES (%s)").format(sql.Identifier(name))
    is_float = FusionConfig.model_fields[name].annotation is float
    for value in (below, above, *([math.nan] if is_float else [])):
        with pytest.raises(CheckViolation), as_service(admin) as connection:
            connection.execute(insert, [value])
        with pytest.raises(ValidationError):
            FusionConfig(**{name: value})
    with pytest.raises(NotNullViolation), as_service(admin) as connection:
        connection.execute(insert, [None])
    for value in (least, most):
        with as_service(admin) as connection:
            connection.execute(insert, [value])
            connection.rollback()
        assert getattr(FusionConfig(**{name: value}), name) == value


def test_equal_scores_come_newest_first(ana: Memories, admin: str, org: str) -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    # 7 and 500 have no common divisor: stored in another order than the ages'.
    minutes = {f"m{n:03}": n * 7 % 500 for n in range(500)}
    ana.remember_many(
        [
            NewMemory(content="the very same text", id=i, kind="document", created_at=start + timedelta(minutes=m))
            for i, m in minutes.items()
        ]
    )
    newest = sorted(minutes, key=lambda i: -minutes[i])[:10]
    assert [row["id"] for row in recall(admin, org, "the very same text")] == newest
    assert [row["id"] for row in recall(admin, org, "")] == newest
    assert [row["id"] for row in recall(admin, org, "same text", vector=None)] == newest


def test_five_hundred_equal_texts_give_the_same_ten_however_the_tables_lie(ana: Memories, admin: str, org: str) -> None:
    remember(ana, {f"m{n * 7 % 500:03}": "the very same text" for n in range(500)})
    [vector] = HashEmbedder(32).embed_queries(["the very same text"])

    def answer(*settings: str) -> list[str]:
        with psycopg.connect(admin, autocommit=True) as connection, connection.transaction():
            for setting in settings:
                connection.execute(setting.encode())
            connection.execute(
                "SELECT set_config('search_path', %s, true), set_config('role', 'lore_user', true),"
                " set_config('lore.org_id', %s, true), set_config('lore.user_id', 'ana', true)",
                [SEARCH_PATH, org],
            )
            found = connection.execute(
                "SELECT id FROM recall(ARRAY['the very same text'], ARRAY[%s]::halfvec[])", [str(list(vector))]
            )
            return [row[0] for row in found.fetchall()]

    first = answer()
    assert len(first) == 10
    assert [answer() for _ in range(20)] == [first] * 20
    with psycopg.connect(admin, autocommit=True) as connection:
        # New row versions lie in another order, then the old ones go.
        connection.execute("UPDATE lore.memories SET pinned = true WHERE org = %s AND key %% 3 = 0", [org])
        connection.execute("UPDATE lore.vectors SET live = live WHERE org = %s AND key %% 2 = 0", [org])
        assert answer() == first
        connection.execute("VACUUM (FULL, ANALYZE) lore.memories")
        connection.execute("VACUUM (ANALYZE) lore.vectors")
    parallel = (
        "SET LOCAL max_parallel_workers_per_gather = 4",
        "SET LOCAL parallel_setup_cost = 0",
        "SET LOCAL parallel_tuple_cost = 0",
        "SET LOCAL min_parallel_table_scan_size = 0",
    )
    assert [answer(*parallel) for _ in range(5)] == [first] * 5
    assert ana.recall("the very same text").hits[0].id == first[0]


def test_a_memory_of_sixty_windows_has_one_rank_in_a_leg(ana: Memories, admin: str, org: str) -> None:
    paragraphs = "\n\n".join(
        f"Paragraph {n}: walrus. {'The bay is cold and the ice is thick. ' * 30}" for n in range(60)
    )
    remember(ana, {"long": paragraphs, "a": "walrus", "b": "walrus census", "c": "walruses of the north"})
    with scoped(admin, org, "ana") as connection:
        windows = connection.execute("SELECT max(ordinal) + 1 FROM windows").fetchone()
    assert windows is not None
    assert windows[0] >= 60
    hits = ana.recall("walrus").hits
    assert sorted(hit.id for hit in hits) == ["a", "b", "c", "long"]
    for leg in ("vector", "exact", "relaxed"):
        assert sorted(hit.legs[leg].rank for hit in hits) == [1, 2, 3, 4]


def test_near_identical_windows_leave_no_place_of_the_pool_empty(ana: Memories, admin: str, org: str) -> None:
    paragraphs = "\n\n".join("The walrus. " + "The bay is cold and the ice is thick. " * 30 for _ in range(60))
    remember(ana, {f"long{n}": paragraphs for n in range(3)} | {f"short{n}": f"walrus {n}" for n in range(40)})
    place(admin, org, {f"long{n}": 0.95 for n in range(3)} | {f"short{n}": 0.9 - n / 100 for n in range(40)})
    with scoped(admin, org, "ana") as connection:
        ranks = connection.execute(
            "SELECT vector_rank FROM candidates(ARRAY[''], ARRAY[%s]::halfvec[], 10, NULL) ORDER BY 1", [AXIS]
        ).fetchall()
    assert [rank for (rank,) in ranks] == list(range(1, 41))


def test_a_short_memory_that_fits_beats_a_long_one_that_hardly_does(ana: Memories, org: str) -> None:
    filler = "The harbour office keeps tide tables, and the tide tables are printed every spring. "
    long = "\n\n".join(f"{filler * 13} A walrus." if n % 2 else filler * 14 for n in range(60))
    remember(ana, {"long": long, "short": "The walrus census counts every walrus."})
    assert [hit.id for hit in ana.recall("walrus census").hits] == ["short", "long"]


def test_several_queries_give_a_memory_one_rank_in_a_leg(ana: Memories, admin: str, org: str, knobs: Knobs) -> None:
    knobs(vector_weight=0, **TWO_LEGS)
    remember(ana, {"both": "walrus and penguin", "one": "walrus"})
    hits = {hit.id: hit for hit in ana.recall(["walrus", "penguin", "walrus"]).hits}
    assert hits["both"].legs["exact"].rank == 1
    assert hits["both"].relevance == pytest.approx(1 / 61)
    assert hits["one"].relevance in (pytest.approx(1 / 61), pytest.approx(1 / 62))
