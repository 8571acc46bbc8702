"""Where the time of one search goes: embedding, statement, legs, excerpts, decoding, Python.

    python benchmarks/parts.py                                          # 20,000 memories, 384 dimensions, built-in Postgres
    python benchmarks/parts.py --database "host=…" --filled --memories 100000 --dimensions 1024

The whole search and the same statement by bare psycopg take turns, question by question, after a round that warms up; the
difference is what Python adds: by the clock, and in CPU time of the client, which other load does not touch. Legs are timed
by the database itself (`explain`), one after the other; excerpts as a statement of their own, which reads the hits and looks for
the window that holds most of the question's words; all of it on pages that the round before has warmed. End to end, a model
(`--model`) embeds the question first, for its time; what is searched is the question's vector in this store, drawn or made of the
corpus, so that hits are those of the other rows.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from typing import Any

import psycopg
from corpora import add_world, world_of
from figures import Cell, add_output, database_of, machine, markdown, percentile, positive, publish, run_command, timed
from generated import Question, generate, questions
from psycopg.rows import dict_row
from search import fill as fill_store
from systems import K, Lore

from lore_retriever.evidence import Evidence
from lore_retriever.operations.common import OpenSpace
from lore_retriever.operations.reading import recall_params
from lore_retriever.queries import query_in
from lore_retriever.results import recall_from_rows
from lore_retriever.steps import Embed

EXCERPTS = """
WITH whole AS MATERIALIZED (
    SELECT m.key, m.content || '' AS content, m.full_length FROM lore.memories AS m WHERE m.org = %(org)s AND m.id = ANY (%(ids)s))
SELECT w.key, coalesce(lore.marked_window(w.content, w.full_length, s.starts, s.ends, %(words)s, %(weights)s), 1)
FROM whole AS w
CROSS JOIN LATERAL (
    SELECT array_agg(i.window_start ORDER BY i.ordinal) AS starts, array_agg(i.window_end ORDER BY i.ordinal) AS ends
    FROM lore.windows AS i WHERE i.org = %(org)s AND i.key = w.key AND w.full_length > 1200) AS s"""


class Bare:
    """The statements of a search by bare psycopg, prepared, with binary results, and what they carry made beforehand."""

    def __init__(self, conninfo: str, space: OpenSpace) -> None:
        self.connection = psycopg.connect(conninfo, autocommit=True)
        self.space = space
        self.rows: list[Any] = []

    def params(self, question: Question) -> dict[str, Any]:
        """What `recall` is called with, as the package makes it."""
        operation = recall_params(self.space, question.text, limit=K, filter=None, kinds=None, as_of=None)
        step = next(operation)
        try:
            while True:
                step = operation.send([question.vector.tolist()] if isinstance(step, Embed) else None)
        except StopIteration as end:
            made: dict[str, Any] = end.value[0]
            return made

    def search(self, question: Question, params: dict[str, Any]) -> dict[str, float]:
        """Milliseconds of the one statement: it enters the scope, searches, and is a transaction by itself."""
        scope = {"role": "lore_user", "org": question.org, "user": question.user, "token": ""}
        scope["space"] = str(self.space.number)
        with self.connection.cursor(row_factory=dict_row, binary=True) as cursor:
            statement = query_in("lore", "recall_at_once")
            spent = {"statement": timed(lambda: self.take(cursor.execute(statement, {**params, **scope})))}
            spent["… SELECT 1 in its place"] = timed(lambda: cursor.execute("SELECT 1").fetchall())
        return spent

    def excerpts(self, question: Question) -> float:
        """Milliseconds of reading the hits once more and choosing their windows."""
        words = question.text.lower().split()
        params = {
            "org": question.org,
            "ids": [row["id"] for row in self.rows],
            "words": words,
            "weights": [1.0] * len(words),
        }
        return timed(lambda: self.connection.execute(EXCERPTS, params).fetchall())

    def take(self, cursor: psycopg.Cursor[Any]) -> None:
        """Keep the rows, for decoding."""
        self.rows = cursor.fetchall()

    def decode(self, question: Question) -> None:
        """Rows to a `Recall`."""
        recall_from_rows(self.rows, recall_id="", queries=(question.text,), degraded=None, evidence=Evidence())


def measure(given: argparse.Namespace, asked: list[Question]) -> dict[str, list[float]]:
    """Milliseconds of every part, one for each question and round."""
    taken: dict[str, list[float]] = defaultdict(list)
    system = Lore(given.database, given.dimensions)
    bare = Bare(given.database, system.store.space)
    for turn in range(given.rounds + 1):
        for question in asked:
            clock = time.thread_time()
            whole = timed(lambda: system.search(question))  # noqa: B023
            whole_cpu = (time.thread_time() - clock) * 1000
            params = bare.params(question)
            clock = time.thread_time()
            spent = bare.search(question, params)
            bare_cpu = (time.thread_time() - clock) * 1000
            decoding = timed(lambda: bare.decode(question))  # noqa: B023
            excerpts = bare.excerpts(question)
            if not turn:
                continue
            taken["whole search"].append(whole)
            for name, value in spent.items():
                taken[name].append(value)
            taken["Python"].append(whole - spent["statement"])
            taken["Python, by its CPU time"].append(whole_cpu - bare_cpu)
            taken["decoding of rows, in Python's share"].append(decoding)
            taken["excerpts, as a statement of their own"].append(excerpts)
    for question in asked:
        system.embedder.next = question.vector.tolist()
        told = system.store.as_user(question.org, question.user).explain(question.text, limit=K)
        for leg in told.legs:
            taken[f"leg: {leg.leg}"].append(leg.took_ms)
    system.close()
    return taken


def with_model(given: argparse.Namespace, asked: list[Question]) -> dict[str, list[float]]:
    """Milliseconds of the model for each question, and of the model and the search behind it."""
    from measured import model_of  # what a model needs, where there is one

    embedder = model_of(given.model, None)
    embedder.embed_queries(["warm"])
    system = Lore(given.database, given.dimensions)
    taken: dict[str, list[float]] = defaultdict(list)
    for turn in range(2):
        for question in asked:
            model = timed(lambda: embedder.embed_queries([question.text]))  # noqa: B023
            search = timed(lambda: system.search(question))  # noqa: B023
            if turn:
                taken[f"embedding of the question, {given.model} model"].append(model)
                taken[f"end to end: {given.model} model and search"].append(model + search)
    system.close()
    return taken


def main() -> None:
    """Fill, ask, publish."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_world(parser, memories=20_000, organisations=50, dimensions=384)
    parser.add_argument("--questions", type=positive, default=150)
    parser.add_argument("--rounds", type=positive, default=2)
    parser.add_argument("--database", help="an administrator's connection string; the built-in Postgres if left out")
    parser.add_argument("--filled", action="store_true", help="the database was filled by an earlier run")
    parser.add_argument(
        "--no-model", action="store_true", help="leave the embedding out (the offline one needs the extra `offline`)"
    )
    add_output(parser)
    given = parser.parse_args()
    world = world_of(given)
    with database_of(given.database) as conninfo:
        given.database = conninfo
        memories = generate(world)
        if not given.filled:
            fill_store(conninfo, world, memories)
        asked = questions(world, memories, given.questions)
        taken = measure(given, asked)
        if not given.no_model:
            taken.update(with_model(given, asked))
        figures = {name: {"p50": percentile(v, 0.5), "p95": percentile(v, 0.95)} for name, v in taken.items()}
        rows: list[list[Cell]] = [[name, each["p50"], each["p95"]] for name, each in figures.items()]
        publish(given, [markdown(["part", "p50 ms", "p95 ms"], rows)], {"machine": machine(conninfo), "parts": figures})


if __name__ == "__main__":
    run_command(main)
