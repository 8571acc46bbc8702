"""Words that thousands of memories hold: found among the newest memories, as the full-text index would find them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from plans import Node, executed, indexes
from support import as_service, kept_database, scoped

MEMORIES = 30_000
OLDEST = 29_999  # that ana sees
HOLDERS = 400  # that a leg reads of a word
SEARCH = "SELECT id, exact_rank, relaxed_rank FROM recall(ARRAY[%(query)s])"

# A third of acme is private to ben; of what ana sees, newest first: every one is about the gateway, every other one about a
# census, the older ones about mammoths; some are invalid, some have expired. All come from host-7.
FILL = f"""
INSERT INTO memories (org, owner, id, visibility, content, created_at, invalidated_at, expires_at)
SELECT 'acme', CASE WHEN n % 3 = 0 THEN 'ben' ELSE 'ana' END, 'm' || n, CASE WHEN n % 3 = 1 THEN 'shared' ELSE 'private' END,
       'gateway host-7' || CASE WHEN n % 2 = 0 THEN ' census' ELSE '' END || CASE WHEN n > 3000 THEN ' mammoth' ELSE '' END
       || CASE WHEN n = {OLDEST} THEN ' walrus' ELSE '' END,
       now() - n * interval '1 minute', CASE WHEN n % 11 = 0 THEN now() END, CASE WHEN n % 13 = 0 THEN now() - interval '1 hour' END
FROM generate_series(1, {MEMORIES}) AS n
"""  # noqa: S608


@pytest.fixture(scope="module")
def just_written(create_database: Callable[..., str], template: str) -> Iterator[str]:
    """What is stored; the planner knows nothing of it, and will not while the tests run."""
    with kept_database(create_database, template) as conninfo:
        with psycopg.connect(conninfo) as connection:
            connection.execute("ALTER TABLE lore.memories SET (autovacuum_enabled = false)")
        with as_service(conninfo) as connection:
            connection.execute(FILL.encode())
            connection.execute("SELECT rebuild_statistics()")
        yield conninfo


@pytest.fixture(scope="module")
def admin(just_written: str, create_database: Callable[..., str]) -> Iterator[str]:
    """The same, analysed."""
    with kept_database(create_database, str(conninfo_to_dict(just_written)["dbname"])) as conninfo:
        with psycopg.connect(conninfo) as connection:
            connection.execute("ANALYZE lore.memories")
        yield conninfo


def newest(admin: str, wanted: str, most: int) -> list[int]:
    """The `most` newest that ana sees and that match, by reading all."""
    with scoped(admin, "acme", "ana", role="lore_search") as connection:
        rows = connection.execute(
            "SELECT key FROM memories WHERE org = 'acme' AND tsv @@ %s::tsquery AND invalidated_at IS NULL"
            " AND (visibility = 'shared' OR owner = 'ana') AND (expires_at IS NULL OR expires_at > now())"
            " ORDER BY created_at DESC, key DESC LIMIT %s",
            [wanted, most],
        ).fetchall()
    return [row[0] for row in rows]


def found(admin: str, wanted: str, stems: list[str], most: int) -> list[int] | None:
    with scoped(admin, "acme", "ana", role="lore_search") as connection:
        row = connection.execute("SELECT newest_holders(%s::tsquery, %s, 0, %s)", [wanted, stems, most]).fetchone()
    assert row is not None
    return row[0]


@pytest.mark.parametrize("most", [1, 40, HOLDERS])
@pytest.mark.parametrize(
    ("wanted", "stems"), [("'gateway'", ["gateway"]), ("'gateway' & 'census'", ["gateway", "census"])]
)
def test_the_newest_holders_of_common_words_are_those_of_the_index(
    admin: str, wanted: str, stems: list[str], most: int
) -> None:
    assert found(admin, wanted, stems, most) == newest(admin, wanted, most)


@pytest.mark.parametrize(
    ("wanted", "stems"),
    [
        ("'walrus'", ["walrus"]),  # rare: the index is the shorter way
        ("'dodo'", ["dodo"]),
        ("'mammoth'", ["mammoth"]),  # as frequent as the gateway, and on none of the newest
        ("'gateway'", []),
    ],
)
def test_the_index_is_asked_for_the_rest(admin: str, wanted: str, stems: list[str]) -> None:
    assert found(admin, wanted, stems, HOLDERS) is None


def search(admin: str, query: str) -> list[Node]:
    """What a search has run; a plan holds more than that."""
    return [node for node in executed(admin, SEARCH, {"query": query}) if node["Actual Loops"]]


@pytest.mark.parametrize("query", ["gateway", "gateways census", "the census"])
def test_a_search_for_common_words_reads_the_newest_memories_and_no_others(admin: str, query: str) -> None:
    nodes = search(admin, query)
    assert "memories_newest" in indexes(nodes)
    assert all(n["Actual Rows"] < 8 * HOLDERS for n in nodes if n.get("Index Name") == "memories_newest")
    assert not any(n["Actual Rows"] for n in nodes if n.get("Index Name") == "memories_tsv")
    assert "Incremental Sort" not in {n["Node Type"] for n in nodes}  # memories of one date would all be sorted


@pytest.mark.parametrize(
    "query", ["mammoth", "walrus", "gateway walrus", "mammoth OR walrus", "census -gateway mammoth"]
)
def test_every_other_search_is_answered_by_the_text_index(admin: str, query: str) -> None:
    assert "memories_tsv" in indexes(search(admin, query))


def test_a_common_word_finds_the_newest_and_a_rare_one_its_only_holder(admin: str) -> None:
    with scoped(admin, "acme", "ana") as connection:
        numbers = [int(row[0][1:]) for row in connection.execute(SEARCH, {"query": "gateway"}).fetchall()]
        assert len(numbers) == 10
        assert max(numbers) < 2 * HOLDERS
        first = connection.execute(SEARCH, {"query": "gateway walrus"}).fetchone()
    assert first is not None
    assert first[0] == f"m{OLDEST}"


@pytest.mark.parametrize("query", ["walrus gateway", "mammoth walrus", "the gateway"])
def test_a_store_that_has_not_been_analysed_yet_is_not_read_whole_for_its_words(just_written: str, query: str) -> None:
    nodes = search(just_written, query)
    by_id = [n for n in nodes if n.get("Index Name") in ("memories_own_id", "memories_shared_id")]
    assert all("(id = " in n["Index Cond"] for n in by_id)
    assert not any("tsv @@ " in n.get("Filter", "") for n in nodes if n.get("Relation Name") == "memories")


def test_a_pasted_list_of_names_that_nobody_wrote_is_a_query_like_any_other(admin: str) -> None:
    """Each of them is one word of the query and ten stems, all of them rare."""
    names = " ".join(
        f"Abstract{chr(97 + n)}xAnnotation{chr(97 + n)}yConfigDispatcher{chr(97 + n)}zInitializerBean"
        for n in range(26)
    )
    with scoped(admin, "acme", "ana") as connection:
        assert connection.execute(SEARCH, {"query": names}).fetchall() == []


@pytest.mark.parametrize("counted", [0, 1, None])
def test_sizes_that_are_wrong_mislead_no_search(admin: str, counted: int | None) -> None:
    """As after everything was invalidated, counted and restored; None: as long as nothing has been counted."""
    change = "DELETE FROM scope_statistics" if counted is None else "UPDATE scope_statistics SET memories = %(n)s"
    with as_service(admin) as connection:
        connection.execute(change, {"n": counted})
        connection.execute(
            "SELECT set_config('role', 'lore_user', true), set_config('lore.org_id', 'acme', true),"
            " set_config('lore.user_id', 'ana', true)"
        )
        for query in ("gateway", "gateway census", "walrus gateway", "mammoth"):
            found = connection.execute("SELECT id FROM recall(ARRAY[%s], k => 50)", [query]).fetchall()
            assert len(found) == (1 if "walrus" in query else 50)
        connection.rollback()


def test_of_an_identifier_that_all_carry_few_rows_are_read(admin: str) -> None:
    nodes = search(admin, "host-7")
    heaps = [n for n in nodes if n["Node Type"] == "Bitmap Heap Scan" and "identifiers @> " in n["Recheck Cond"]]
    assert heaps
    assert all(n["Actual Rows"] <= 11 for n in heaps)
