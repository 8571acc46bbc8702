"""How fast a whole search is beside the raw parts that no search can do without.

    python benchmarks/search.py                    # 100,000 memories, 200 organisations, 1024 dimensions
    python benchmarks/search.py --memories 20000 --database "host=…"   # an administrator's connection

In one run, wire to wire, embedding excluded: the whole search as an application does it (one statement, scope included); in a
transaction of its own each (BEGIN, scope, the statement, COMMIT) the raw scoped vector leg and the raw scoped GIN query (OR of
the two rarest stems, 40 rows), both without row security; SELECT 1. Each takes all questions before the next one does, in every
round, so that none finds its pages warmed by another; the first round warms up.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import psycopg
from corpora import add_world, world_of
from figures import database_of, positive, run_command, timed, writable
from generated import Generated, Question, Shape, World, generate, load, questions

from lore_retriever import MemoryStore
from lore_retriever.admin import StoreAdmin
from lore_retriever.embeddings.base import EmbeddingSpace
from lore_retriever.steps import HalfVector

STRATA = (("S", 0, 400), ("M", 400, 2500), ("L", 2500, 10**9), ("ALL", 0, 10**9))

SCOPE = "SELECT set_config('lore.org_id', %s, true), set_config('lore.user_id', %s, true)"

RAW_VECTOR = """
SELECT key, min(d) FROM (
    SELECT v.key, v.embedding <#> %(vector)s::halfvec AS d FROM vectors AS v
    WHERE v.org = %(org)s AND v.space = 1 AND v.live AND (v.shared OR v.owner = %(user)s)
    ORDER BY v.embedding <#> %(vector)s::halfvec LIMIT 80) AS w
GROUP BY key ORDER BY 2 LIMIT 40"""

RAW_CODES = """
WITH asked AS MATERIALIZED (
    SELECT binary_quantize(%(vector)s::halfvec - n.embedding) AS bits FROM centres AS n WHERE n.space = 1)
SELECT v.key, min(v.embedding <#> %(vector)s::halfvec) FROM (
    SELECT c.key, c.ordinal
    FROM (SELECT s.key, s.ordinal, s.bits <~> (SELECT bits FROM asked) AS distance FROM codes AS s
          WHERE s.org = %(org)s AND s.space = 1 AND s.centre = 1 AND s.live AND s.shared
          UNION ALL
          SELECT p.key, p.ordinal, p.bits <~> (SELECT bits FROM asked) FROM codes AS p
          WHERE p.org = %(org)s AND p.space = 1 AND p.centre = 1 AND p.live AND NOT p.shared AND p.owner = %(user)s) AS c
    ORDER BY c.distance LIMIT %(candidates)s) AS p
JOIN vectors AS v ON v.org = %(org)s AND v.space = 1 AND v.key = p.key AND v.ordinal = p.ordinal
GROUP BY v.key ORDER BY 2 LIMIT 40"""

RAW_GIN = """
SELECT key, ts_rank_cd(tsv, q) FROM memories, to_tsquery('simple', %(stems)s) AS q
WHERE org = %(org)s AND tsv @@ q AND invalidated_at IS NULL AND (visibility = 'shared' OR owner = %(user)s)
ORDER BY 2 DESC LIMIT 40"""


class VectorsOfTheBenchmark:
    """An embedder that hands back the question's own vector: embedding is not what is measured."""

    def __init__(self, dimensions: int, centre: list[float] | None = None) -> None:
        self.space = EmbeddingSpace("benchmark", "1", dimensions)
        self.max_tokens = None
        self.centre = centre
        self.next: Any = None

    def count_tokens(self, text: str) -> int:
        return len(text)

    def embed_texts(self, texts: Any, /) -> Any:
        return [self.next for _ in texts]

    embed_queries = embed_texts


def fill(conninfo: str, world: World, memories: list[Generated]) -> None:
    """Migrate, load and vacuum a store."""
    StoreAdmin.connect(conninfo).migrate(
        VectorsOfTheBenchmark(world.shape.dimensions, [float(x) for x in world.centre()])
    )
    with psycopg.connect(conninfo, autocommit=True) as connection:
        connection.execute("SET search_path = lore, public")
        began = time.perf_counter()
        load(connection, world, memories, space=1)
        print(f"{len(memories):,} memories loaded in {time.perf_counter() - began:.0f} s", flush=True)
        connection.execute("SELECT rebuild_statistics()")
        connection.execute("VACUUM (ANALYZE)")


def rarest_stems(connection: psycopg.Connection, question: Question) -> str:
    rows = connection.execute(
        "SELECT s.stem FROM unnest(tsvector_to_array(text_vector('english', %s, false))) AS s(stem)"
        " LEFT JOIN terms t ON t.org = %s AND t.stem = s.stem GROUP BY 1 ORDER BY sum(coalesce(t.df, 0)) LIMIT 2",
        [question.text, question.org],
    ).fetchall()
    return " | ".join("'" + row[0] + "'" for row in rows) or "'nothing'"


class Raw:
    """The parts that no search can do without, as bare statements on a connection that row security does not hold."""

    def __init__(self, conninfo: str, dimensions: int) -> None:
        self.connection = psycopg.connect(conninfo, autocommit=True)
        self.connection.execute("SET search_path = lore, public")
        self.connection.execute("SET enable_seqscan = off")
        numbers, codes = self.connection.execute("SELECT scan_numbers, code_candidates FROM fusion()").fetchone()
        self.budget = numbers / dimensions
        self.candidates = max(80, round(codes * (384 / max(384, dimensions)) ** 0.5))
        self.windows = dict(
            self.connection.execute("SELECT org, sum(windows)::int FROM scope_statistics GROUP BY org").fetchall()
        )

    def ask(self, question: Question, statement: str, params: dict[str, Any]) -> None:
        with self.connection.transaction():
            self.connection.execute(SCOPE, [question.org, question.user])
            self.connection.cursor(binary=True).execute(
                statement, {"org": question.org, "user": question.user, **params}
            ).fetchall()

    def vector(self, question: Question, numbers: list[float]) -> None:
        """The vector leg: an exact scan, or codes where the store would use them."""
        statement = RAW_CODES if self.windows[question.org] > self.budget else RAW_VECTOR
        self.ask(question, statement, {"vector": HalfVector(numbers), "candidates": self.candidates})


def measure(conninfo: str, asked: list[Question], shape: Shape, rounds: int) -> dict[str, list[tuple[int, float]]]:
    """Milliseconds of each system for each question."""
    embedder = VectorsOfTheBenchmark(shape.dimensions)
    raw = Raw(conninfo, shape.dimensions)
    work = [
        (question, question.vector.tolist(), {"stems": rarest_stems(raw.connection, question)}) for question in asked
    ]
    with MemoryStore.connect(conninfo, embedder=embedder, max_size=1) as store, raw.connection:

        def search(question: Question, numbers: list[float], _: dict[str, Any]) -> None:
            embedder.next = numbers
            store.as_user(question.org, question.user).recall(question.text)

        systems: dict[str, Callable[[Question, list[float], dict[str, Any]], None]] = {
            "search": search,
            "vector": lambda question, numbers, _: raw.vector(question, numbers),
            "gin": lambda question, _, stems: raw.ask(question, RAW_GIN, stems),
            "SELECT 1": lambda question, _, __: raw.ask(question, "SELECT 1", {}),
        }
        taken: dict[str, list[tuple[int, float]]] = {name: [] for name in systems}
        for turn in range(rounds + 1):
            for name, system in systems.items():
                for question, numbers, stems in work:
                    took = timed(lambda: system(question, numbers, stems))  # noqa: B023
                    if turn:
                        taken[name].append((question.memories_in_org, took))
    return taken


def table(taken: dict[str, list[tuple[int, float]]]) -> list[dict[str, Any]]:
    """One row per system and stratum of organisation sizes."""
    rows = []
    for stratum, least, most in STRATA:
        medians: dict[str, float] = {}
        for name, values in taken.items():
            chosen = sorted(value for size, value in values if least <= size < most)
            if chosen:
                medians[name] = statistics.median(chosen)
                rows.append(
                    {
                        "stratum": stratum,
                        "system": name,
                        "p50": medians[name],
                        "p95": chosen[int(len(chosen) * 0.95)],
                        "n": len(chosen),
                    }
                )
        if medians:
            rows.append(
                {
                    "stratum": stratum,
                    "system": "search / (vector + gin)",
                    "p50": medians["search"] / (medians["vector"] + medians["gin"]),
                }
            )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_world(parser, memories=100_000, organisations=200, dimensions=1024)
    parser.add_argument("--questions", type=positive, default=300)
    parser.add_argument("--rounds", type=positive, default=2)
    parser.add_argument(
        "--database",
        help="an administrator's connection string to an empty database; the built-in Postgres if left out",
    )
    parser.add_argument(
        "--filled", action="store_true", help="the database was filled by an earlier run with the same numbers"
    )
    parser.add_argument("--json", type=writable, help="write all figures to this file")
    given = parser.parse_args()
    world = world_of(given)
    memories = generate(world)
    with database_of(given.database) as conninfo:
        if not given.filled:
            fill(conninfo, world, memories)
        taken = measure(conninfo, questions(world, memories, given.questions), world.shape, given.rounds)
    rows = table(taken)
    print("| organisation | system | p50 ms | p95 ms |\n|---|---|--:|--:|")
    for row in rows:
        p95 = f"{row['p95']:.2f}" if "p95" in row else "–"
        print(f"| {row['stratum']} | {row['system']} | {row['p50']:.2f} | {p95} |")
    if given.json:
        with open(given.json, "w") as file:
            asked = {name: value for name, value in vars(given).items() if name != "database"}  # it may hold a password
            json.dump({"arguments": asked, "rows": rows}, file, indent=1, default=str)


if __name__ == "__main__":
    run_command(main)
