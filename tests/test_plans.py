"""Which index serves which leg, read from the plans of a real search as the user role (nested auto_explain)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import psycopg
import pytest

from lore_retriever.admin import StoreAdmin
from lore_retriever.embeddings import Vector
from lore_retriever.testing import HashEmbedder
from plans import Node, executed, indexes
from support import SEARCH_PATH, as_service, kept_database

TENANT_TABLES = {
    "memories",
    "windows",
    "vectors",
    "codes",
    "pending",
    "terms",
    "scope_statistics",
    "aliases",
    "reinforcement",
}
DIMENSIONS = 256


class CentredEmbedder(HashEmbedder):
    """A space wide enough for codes, with a centre."""

    @property
    def centre(self) -> Vector:
        return [1 / math.sqrt(DIMENSIONS)] * DIMENSIONS

    def embed_queries(self, texts: Sequence[str], /) -> list[Vector]:
        return super().embed_queries(texts)


EMBEDDER = CentredEmbedder(DIMENSIONS)

# 4,200 memories in 21 organisations, most of them in acme: enough that an index pays, few enough to be made in seconds.
FILL = """
INSERT INTO memories (org, owner, id, visibility, kind, content, created_at)
SELECT CASE WHEN n %% 3 = 0 THEN 'org' || n %% 20 ELSE 'acme' END, CASE WHEN n %% 2 = 0 THEN 'ana' ELSE 'ben' END, 'm' || n,
       CASE WHEN n %% 5 = 0 THEN 'shared' ELSE 'private' END, 'fact',
       format('The gateway of region %%s restarts nightly because of host-%%s and ERR-%%s, word%%s, %%s', n %% 7, n %% 50, n, n %% 500,
              repeat('filler text of no interest ', n %% 5)),
       now() - n * interval '1 minute'
FROM generate_series(1, 4200) AS n;
INSERT INTO windows (org, space, key, ordinal, window_start, window_end)
SELECT m.org, 1, m.key, 0, 0, length(m.content) FROM memories AS m;
INSERT INTO vectors (org, space, key, ordinal, owner, shared, live, created_at, embedding)
SELECT m.org, 1, m.key, 0, m.owner, m.visibility = 'shared', true, m.created_at,
       (SELECT '[' || string_agg((0.0625 + (random() - 0.5) / 4)::real::text, ',') || ']'
        FROM generate_series(1, %(dimensions)s) AS d WHERE m.key > 0)::halfvec
FROM memories AS m;
INSERT INTO aliases (org, folded, name, group_no, owner, shared)
SELECT 'acme', 'name ' || n, 'Name ' || n, n / 2, 'ana', true FROM generate_series(1, 400) AS n
"""


@pytest.fixture(scope="module")
def admin(create_database: Callable[..., str]) -> Iterator[str]:
    with kept_database(create_database) as conninfo:
        StoreAdmin.connect(conninfo).migrate(EMBEDDER)
        with psycopg.connect(conninfo) as connection:
            connection.execute("SELECT set_config('search_path', %s, true)", [SEARCH_PATH])
            for statement in FILL.split(";"):
                connection.execute(statement.encode(), {"dimensions": DIMENSIONS})
        StoreAdmin.connect(conninfo).maintain()
        yield conninfo


@pytest.fixture
def codes_only(admin: str) -> Iterator[None]:
    """No exact scan is within the budget."""
    with as_service(admin) as connection:
        connection.execute("INSERT INTO fusion_config (scan_numbers) VALUES (0)")
    yield
    with as_service(admin) as connection:
        connection.execute("DELETE FROM fusion_config")


def recall(admin: str, query: str, *, vector: bool = True, arguments: str = "") -> list[Node]:
    [embedding] = EMBEDDER.embed_queries([query or "x"])
    params = {"query": query, "vector": str(list(embedding)) if vector else None}
    return executed(admin, f"SELECT * FROM recall(ARRAY[%(query)s], ARRAY[%(vector)s]::halfvec[] {arguments})", params)  # noqa: S608


def scans_of(nodes: list[Node], table: str) -> list[str]:
    """Scans of whole tables of tenant data."""
    return [node["Query Text"] for node in nodes if node["Node Type"] == "Seq Scan" and node["Relation Name"] == table]


QUERIES = {
    "natural question": "why does the gateway of region 3 restart nightly",
    "identifier": "ERR-1400",
    "identifier in a sentence": "what was ERR-1400 on host-7 again",
    "misspelling": "gatway restrats",
    "rare word": "word77",
    "alias": "name 12 and the gateway",
    "unsplit script": "部署",
    "nothing": "",
}


@pytest.mark.parametrize("name", QUERIES)
def test_no_search_reads_a_whole_table_of_tenant_data(admin: str, name: str) -> None:
    for arguments in ("", ', 10, \'{"team": "infra"}\'', ", 10, NULL, '{fact}'", ", 10, NULL, NULL, now()"):
        nodes = recall(admin, QUERIES[name], arguments=arguments)
        assert nodes
        assert {table: scans_of(nodes, table) for table in TENANT_TABLES if scans_of(nodes, table)} == {}


def test_an_exact_scan_reads_the_organisation_s_vectors_by_their_key(admin: str) -> None:
    nodes = [node for node in recall(admin, "") if node.get("Index Name") == "vectors_pkey"]
    assert nodes
    assert all("org = " in node["Index Cond"] for node in nodes)
    assert "codes_shared" not in indexes(recall(admin, ""))


def test_codes_are_read_from_their_index_alone(admin: str, codes_only: None) -> None:
    nodes = recall(admin, "")
    scans = {node["Index Name"]: node for node in nodes if node.get("Index Name") in ("codes_shared", "codes_private")}
    assert set(scans) == {"codes_shared", "codes_private"}
    for scan in scans.values():
        assert scan["Node Type"] == "Index Only Scan"
        assert scan["Heap Fetches"] == 0
        assert "org = " in scan["Index Cond"]
    # Other members' private codes are not so much as read.
    assert "owner = " in scans["codes_private"]["Index Cond"]
    # The vectors that they propose are re-ranked one by one, not scanned.
    reranked = [node for node in nodes if node.get("Index Name") == "vectors_pkey"]
    assert reranked
    assert not scans_of(nodes, "vectors")


def test_the_query_s_code_is_made_once(admin: str, codes_only: None) -> None:
    texts = {node["Query Text"] for node in recall(admin, "") if node.get("Index Name") == "codes_shared"}
    assert texts
    # As an expression over a column it would run for every row: 2.7 µs each.
    assert not [text for text in texts if "binary_quantize" in text]


def test_words_are_found_by_organisation_and_text_together(admin: str) -> None:
    for query in ("gateway region nightly", "word77 restarts"):
        nodes = [node for node in recall(admin, query, vector=False) if node.get("Index Name") == "memories_tsv"]
        assert nodes
        for node in nodes:
            assert "org = " in node["Index Cond"]
            assert "tsv @@ " in node["Index Cond"]


def test_identifiers_are_found_by_their_own_index(admin: str) -> None:
    nodes = [n for n in recall(admin, "about ERR-1400", vector=False) if n.get("Index Name") == "memories_identifiers"]
    assert nodes
    assert all("org = " in n["Index Cond"] and "identifiers @> " in n["Index Cond"] for n in nodes)


@pytest.fixture(scope="module")
def crowded(create_database: Callable[..., str]) -> Iterator[str]:
    """A large organisation among a thousand of one memory, all just written: nothing is vacuumed, all is analysed."""
    with kept_database(create_database) as conninfo:
        StoreAdmin.connect(conninfo).migrate(EMBEDDER)
        with psycopg.connect(conninfo) as connection:
            connection.execute("SELECT set_config('search_path', %s, true)", [SEARCH_PATH])
            connection.execute(FILL.split(";")[0].encode(), {})
            connection.execute(
                "INSERT INTO memories (org, owner, id, content) SELECT 'tiny' || n, 'ana', 'm', 'gateway ' || n"
                " FROM generate_series(1, 1000) AS n"
            )
            connection.execute("ANALYZE")
        yield conninfo


@pytest.mark.parametrize(
    "query", ["gateway region nightly", "what was ERR-1400 on host-7 again", "name 12 and the gateway"]
)
def test_a_large_organisation_among_tiny_ones_is_not_read_whole_for_its_words(crowded: str, query: str) -> None:
    nodes = recall(crowded, query, vector=False)
    assert "memories_tsv" in indexes(nodes)
    for node in nodes:
        assert "tsv @@ " not in node.get("Filter", "")
        assert "identifiers @> " not in node.get("Filter", "")


def test_near_misses_are_found_by_the_index_of_spellings(admin: str) -> None:
    nodes = [node for node in recall(admin, "gatwey", vector=False) if node.get("Index Name") == "terms_spelling"]
    assert nodes
    assert all("org = " in node["Index Cond"] and "stem % " in node["Index Cond"] for node in nodes)


def test_aliases_and_a_memory_s_own_id_are_looked_up(admin: str) -> None:
    assert "aliases_folded" in indexes(recall(admin, "who is name 12", vector=False))
    assert {"memories_own_id", "memories_shared_id"} & indexes(recall(admin, "m14", vector=False))


def test_the_rows_are_read_under_row_security_by_key(admin: str) -> None:
    """The second step: what the candidates name is read by key, and each row passes the policy of the caller."""
    second = [node for node in recall(admin, "gateway nightly") if "visible AS MATERIALIZED" in node["Query Text"]]
    by_key = [node for node in second if node.get("Index Name") == "memories_pkey"]
    assert [node for node in by_key if "key = ANY" in node["Index Cond"] and "org = " in node["Index Cond"]]
    policy = "(visibility = 'shared'::text) OR (owner = (InitPlan"
    assert [node["Index Cond"] for node in by_key if policy not in node.get("Filter", "")] == []


def test_a_direct_search_under_row_security_could_not_use_the_text_index(admin: str) -> None:
    """Why there are candidate functions at all: @@ is not leakproof, so no index condition for the caller."""
    statement = "SELECT id FROM memories WHERE org = 'acme' AND tsv @@ 'gateway'::tsquery"
    assert "memories_tsv" not in indexes(executed(admin, statement))


def test_a_list_is_read_in_order_by_organisation(admin: str) -> None:
    from lore_retriever.queries import query

    params = {"kind": None, "pinned": None, "after_id": None, "after_owner": None, "filter": None, "limit": 50}
    with psycopg.connect(admin) as connection:
        text = psycopg.ClientCursor(connection).mogrify(query("list_memories"), params)
    nodes = executed(admin, text)
    assert "memories_newest" in indexes(nodes)
    assert not scans_of(nodes, "memories")
