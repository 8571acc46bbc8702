"""What a compared system must offer, and the two that need nothing but psycopg: this package, and SQL written by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

import psycopg
from generated import Question
from peer_rows import set_for_database
from search import VectorsOfTheBenchmark

from lore_retriever import MemoryStore
from lore_retriever.steps import HalfVector

K = 10


class System(Protocol):
    """One way to search the same rows.

    Attributes:
        name: As the tables show it.
        settings: What it runs with, word for word, for the record.
        is_async: `search` is awaited.
    """

    name: str
    settings: dict[str, str]
    is_async: bool

    def search(self, question: Question) -> Any:
        """Ids of the memories found, one for each row that came back, best first; a coroutine if `is_async`."""

    def nearest(self, question: Question) -> Any:
        """The first ten of its vector part alone: ids of its own unit (windows, or memories); a coroutine if `is_async`."""

    def close(self) -> Any:
        """Let the connections go; a coroutine if `is_async`."""


class Lore:
    """This package, as an application uses it."""

    name = "lore-retriever"
    is_async = False

    def __init__(self, conninfo: str, dimensions: int, connections: int = 1) -> None:
        self.conninfo = conninfo
        self.embedder = VectorsOfTheBenchmark(dimensions)
        self.store = MemoryStore.connect(conninfo, embedder=self.embedder, max_size=connections)
        self.settings = {
            "search": "recall(query, limit=10): four legs, pool 40 each, recency, excerpt, row-level security",
            "settings": "as shipped",
            "connections": "MemoryStore, synchronous",
        }

    def search(self, question: Question) -> list[str]:
        self.embedder.next = question.vector.tolist()
        found = self.store.as_user(question.org, question.user).recall(question.text, limit=K)
        return [f"{question.org}/{hit.id}" for hit in found.hits]

    def nearest(self, question: Question) -> list[str]:
        self.embedder.next = question.vector.tolist()
        told = self.store.as_user(question.org, question.user).explain(question.text, limit=K)
        return [f"{question.org}/{proposal.id}" for proposal in told.leg("vector").proposals[:K]]

    def close(self) -> None:
        self.store.close()


class LoreExact:
    """The same search computed in full: every visible window compared, no bound on what the stems may propose."""

    KNOBS = "scan_numbers = 1000000000000, relaxed_proposals = 100000"

    def __init__(self, conninfo: str) -> None:
        self.connection = psycopg.connect(conninfo, autocommit=True)

    def search(self, question: Question) -> list[str]:
        """What the whole search finds without its bounds; the knobs are set in a transaction that is rolled back."""
        with self.connection.transaction(force_rollback=True):
            self.connection.execute("SET LOCAL search_path = lore, public")
            self.connection.execute("INSERT INTO fusion_config DEFAULT VALUES ON CONFLICT DO NOTHING")
            self.connection.execute(f"UPDATE fusion_config SET {self.KNOBS}")  # noqa: S608
            self.connection.execute(
                "SELECT set_config('role', 'lore_user', true), set_config('lore.org_id', %s, true),"
                " set_config('lore.user_id', %s, true)",
                [question.org, question.user],
            )
            rows = self.connection.execute(
                "SELECT id FROM recall(ARRAY[%s], ARRAY[%s::halfvec], 10)",
                [question.text, HalfVector(question.vector.tolist())],
            ).fetchall()
        return [f"{question.org}/{row[0]}" for row in rows]


NEAREST_WINDOWS = """
SELECT m.org || '/' || m.id || '#' || v.ordinal, m.org || '/' || m.id
FROM lore.vectors AS v JOIN lore.memories AS m ON m.org = v.org AND m.key = v.key
WHERE v.org = %(org)s AND v.space = 1 AND v.live AND (v.shared OR v.owner = %(user)s)
ORDER BY v.embedding <#> %(vector)s::halfvec
LIMIT 400"""

VISIBLE = """
SELECT count(*) FROM lore.memories
WHERE org = %(org)s AND invalidated_at IS NULL AND (visibility = 'shared' OR owner = %(user)s)"""


class Truth:
    """Exact search over the store's vectors, by an administrator's connection."""

    def __init__(self, conninfo: str) -> None:
        self.connection = psycopg.connect(conninfo, autocommit=True)
        self.connection.execute("SET enable_seqscan = off")

    def nearest(self, question: Question) -> tuple[list[str], list[str]]:
        """The ten nearest windows, and the ten memories with the nearest windows."""
        params = {"org": question.org, "user": question.user, "vector": HalfVector(question.vector.tolist())}
        rows = self.connection.execute(NEAREST_WINDOWS, params).fetchall()
        return [row[0] for row in rows[:K]], list(dict.fromkeys(row[1] for row in rows))[:K]

    def visible(self, question: Question) -> int:
        """How many memories the asker may see."""
        row = self.connection.execute(VISIBLE, {"org": question.org, "user": question.user}).fetchone()
        return 0 if row is None else int(row[0])


class Handwritten:
    """One SQL function under row-level security, over `handwritten.sql`."""

    is_async = False

    def __init__(self, conninfo: str, *, any_word: bool, exact: bool = False) -> None:
        self.name = "hand-written SQL, any word" if any_word else "hand-written SQL, all words"
        self.any_word = any_word
        self.settings = {
            "search": "one SQL function: ts_rank_cd over "
            + ("any of the words" if any_word else "websearch_to_tsquery (all words)")
            + ", 40 rows; halfvec HNSW (m 16, ef_construction 64), 40 rows; RRF 60",
            "settings": "hnsw.ef_search 100, hnsw.iterative_scan relaxed_order, random_page_cost 1.1",
            "indexes": "HNSW (embedding), GIN (fts), btree (org, owner)",
            "security": "row-level security by two settings, one transaction per search, binary parameters",
        }
        self.connection = psycopg.connect(
            conninfo, autocommit=True, options="-c enable_indexscan=off" if exact else None
        )

    @staticmethod
    def fill(conninfo: str, dimensions: int) -> None:
        """Make the table, its indexes and functions out of `rows`."""
        set_for_database(conninfo, {"random_page_cost": "1.1", "jit": "off"})
        text = Path(__file__).with_name("handwritten.sql").read_text(encoding="utf-8")
        with psycopg.connect(conninfo, autocommit=True) as connection:
            connection.execute("SET maintenance_work_mem = '2GB'")
            connection.execute("SET max_parallel_maintenance_workers = 0")
            connection.execute(text.replace("{dimensions}", str(dimensions)))  # type: ignore[arg-type]

    def _scoped(self, question: Question, statement: str, params: list[Any]) -> list[tuple[Any, ...]]:
        with self.connection.transaction(), self.connection.cursor(binary=True) as cursor:
            cursor.execute(
                "SELECT set_config('role', 'peers_user', true), set_config('app.org', %s, true), set_config('app.user', %s, true)",
                [question.org, question.user],
            )
            return cursor.execute(statement, params).fetchall()  # type: ignore[arg-type]

    def search(self, question: Question) -> list[str]:
        params = [question.text, HalfVector(question.vector.tolist()), K, self.any_word]
        rows = self._scoped(
            question, "SELECT id, memory, content, score FROM hybrid_search(%s, %s::halfvec, %s, %s)", params
        )
        return [row[1] for row in rows]

    def nearest(self, question: Question) -> list[str]:
        params = [HalfVector(question.vector.tolist()), K]
        return [row[0] for row in self._scoped(question, "SELECT id FROM nearest(%s::halfvec, %s)", params)]

    def close(self) -> None:
        self.connection.close()
