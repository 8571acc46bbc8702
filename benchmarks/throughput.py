"""How many searches a second, and how long each takes, when 1 to 32 clients ask at once.

    python benchmarks/throughput.py                                     # 10,000 memories, 384 dimensions, built-in Postgres
    python benchmarks/throughput.py --database "host=…" --filled --pgbouncer "host=… port=6432 dbname=…"

Threads on a `MemoryStore`, tasks on an `AsyncMemoryStore`, as many connections as clients; embedding excluded. With
`--pgbouncer`, the same through a PgBouncer in transaction mode that the caller runs before the same database. Clients share
one Python process: beside a server with more cores, start several of these commands.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import random
import threading
import time
from typing import Any

from corpora import add_world, world_of
from figures import Cell, add_output, database_of, machine, markdown, percentile, positive, publish, run_command
from generated import Question, generate, questions
from search import VectorsOfTheBenchmark
from search import fill as fill_store
from systems import K

from lore_retriever import AsyncMemoryStore, MemoryStore


class ByText(VectorsOfTheBenchmark):
    """Hands back each question's own vector, whoever asks."""

    def __init__(self, asked: list[Question], dimensions: int) -> None:
        super().__init__(dimensions)
        self.known = {question.text: question.vector.tolist() for question in asked}

    def embed_texts(self, texts: Any, /) -> Any:
        return [self.known[text] for text in texts]

    embed_queries = embed_texts

    async def aembed_queries(self, texts: Any, /) -> Any:
        return self.embed_texts(texts)


def shuffled(asked: list[Question], client: int) -> itertools.cycle[Question]:
    """The questions in an order of the client's own, again and again."""
    return itertools.cycle(random.Random(client).sample(asked, len(asked)))


def by_threads(
    conninfo: str, embedder: ByText, asked: list[Question], clients: int, seconds: float, **options: Any
) -> list[float]:
    """Milliseconds of every search that ended in time."""
    taken: list[float] = []

    def ask(store: MemoryStore, client: int, until: float) -> None:
        for question in shuffled(asked, client):
            began = time.perf_counter()
            if began > until:
                return
            store.as_user(question.org, question.user).recall(question.text, limit=K)
            taken.append((time.perf_counter() - began) * 1000)

    with MemoryStore.connect(conninfo, embedder=embedder, min_size=clients, max_size=clients, **options) as store:
        for warming in (True, False):
            taken.clear()
            until = time.perf_counter() + (seconds / 2 if warming else seconds)
            threads = [threading.Thread(target=ask, args=(store, n, until)) for n in range(clients)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
    return taken


async def by_tasks(
    conninfo: str, embedder: ByText, asked: list[Question], clients: int, seconds: float, **options: Any
) -> list[float]:
    """Milliseconds of every search that ended in time."""
    taken: list[float] = []

    async def ask(store: AsyncMemoryStore, client: int, until: float) -> None:
        for question in shuffled(asked, client):
            began = time.perf_counter()
            if began > until:
                return
            await store.as_user(question.org, question.user).recall(question.text, limit=K)
            taken.append((time.perf_counter() - began) * 1000)

    async with AsyncMemoryStore.connect(
        conninfo, embedder=embedder, min_size=clients, max_size=clients, **options
    ) as store:
        for warming in (True, False):
            taken.clear()
            until = time.perf_counter() + (seconds / 2 if warming else seconds)
            await asyncio.gather(*(ask(store, n, until) for n in range(clients)))
    return taken


def measure(given: argparse.Namespace, asked: list[Question]) -> dict[str, dict[int, list[float]]]:
    """Milliseconds by way and number of clients."""
    embedder = ByText(asked, given.dimensions)
    ways: dict[str, tuple[str, dict[str, Any]]] = {"": (given.database, {})}
    if given.pgbouncer:
        ways[", PgBouncer"] = (given.pgbouncer, {"prepare_threshold": None})
    taken: dict[str, dict[int, list[float]]] = {}
    for clients in given.clients:
        for way, (conninfo, options) in ways.items():
            threads = by_threads(conninfo, embedder, asked, clients, given.seconds, **options)
            taken.setdefault("threads" + way, {})[clients] = threads
            tasks = asyncio.run(by_tasks(conninfo, embedder, asked, clients, given.seconds, **options))
            taken.setdefault("asyncio" + way, {})[clients] = tasks
    return taken


def main() -> None:
    """Fill, ask, publish."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_world(parser, memories=10_000, organisations=50, dimensions=384)
    parser.add_argument("--questions", type=positive, default=200)
    parser.add_argument("--clients", type=positive, nargs="+", default=[1, 2, 4, 8, 16, 32])
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--database", help="an administrator's connection string; the built-in Postgres if left out")
    parser.add_argument("--pgbouncer", help="the way to the same database through a PgBouncer in transaction mode")
    parser.add_argument("--filled", action="store_true", help="the database was filled by an earlier run")
    add_output(parser)
    given = parser.parse_args()
    world = world_of(given)
    with database_of(given.database) as conninfo:
        given.database = conninfo
        memories = generate(world)
        if not given.filled:
            fill_store(conninfo, world, memories)
        taken = measure(given, questions(world, memories, given.questions))
        rows: list[list[Cell]] = []
        figures: dict[str, Any] = {}
        for way, by_clients in taken.items():
            for clients, times in by_clients.items():
                found = {"per_second": len(times) / given.seconds, "p50": percentile(times, 0.5)}
                found["p99"] = percentile(times, 0.99)
                figures.setdefault(way, {})[clients] = found
                rows.append([way, clients, found["per_second"], found["p50"], found["p99"]])
        table = markdown(["clients as", "clients", "searches a second", "p50 ms", "p99 ms"], rows, digits=1)
        publish(given, [table], {"machine": machine(conninfo), "ways": figures})


if __name__ == "__main__":
    run_command(main)
