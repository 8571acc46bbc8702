"""How fast memories are written: one by one, in bulk, by import and by COPY as an administrator; updated, invalidated,
forgotten.

    python benchmarks/writing.py --memories 10000 --dimensions 384             # on the built-in Postgres
    .venv-peers/bin/python benchmarks/writing.py --database … --filled --peers # beside the peers' own bulk calls

Into a store that holds memories already, all indexes in place. Embedding excluded: vectors are handed back. Peers write the
same texts cut into the same windows, as `peers.py` filled them. What was written is removed again.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import psycopg
from figures import Cell, add_output, database_of, machine, markdown, percentile, positive, publish, run_command
from generated import TOPICS, Generated, Shape, World, generate, load
from peer_rows import database_beside
from search import VectorsOfTheBenchmark
from search import fill as fill_store

from lore_retriever import MemoryStore, NewMemory
from lore_retriever.admin import StoreAdmin
from lore_retriever.exported import FORMAT
from lore_retriever.operations.common import halfvec_text
from lore_retriever.transfer import import_lines
from lore_retriever.windows import split_windows

ORG = "bulk"
USER = "user0"


@dataclass(frozen=True)
class Wrote:
    """One way to write: how many memories and windows in how many seconds, and of each call the milliseconds."""

    way: str
    memories: int
    windows: int
    seconds: float
    calls: tuple[float, ...] = ()

    @property
    def rate(self) -> float:
        """Memories a second."""
        return self.memories / self.seconds


class Prepared(VectorsOfTheBenchmark):
    """Hands back vectors that were made before the clock started."""

    def __init__(self, world: World, count: int) -> None:
        super().__init__(world.shape.dimensions)
        self.ready = [v.tolist() for v in world.vectors(world.rng.integers(0, TOPICS, size=count), 0.35)]
        self.used = 0

    def take(self, count: int) -> list[list[float]]:
        """The next vectors."""
        start = self.used % max(1, len(self.ready) - count)
        self.used += count
        return self.ready[start : start + count]

    def embed_texts(self, texts: Any, /) -> Any:
        return self.take(len(texts))

    embed_queries = embed_texts


def each(calls: list[Callable[[], object]]) -> tuple[float, tuple[float, ...]]:
    """Seconds of all calls together, and milliseconds of each."""
    times = []
    for call in calls:
        began = time.perf_counter()
        call()
        times.append((time.perf_counter() - began) * 1000)
    return sum(times) / 1000, tuple(times)


def windows_of(text: str) -> list[str]:
    """The windows that this package cuts a text into; peers get them as their documents."""
    return [text[w.start : w.end] for w in split_windows(text, max_tokens=None, count_tokens=len)]


def ours(conninfo: str, texts: list[str], embedder: Prepared, batch: int, singles: int) -> list[Wrote]:
    """As `lore_user`: remember, remember_many, update, invalidate, forget."""
    windows = sum(len(windows_of(text)) for text in texts)
    made: list[Wrote] = []

    def note(way: str, calls: list[Callable[[], object]], memories: int, spread: int) -> None:
        seconds, times = each(calls)
        made.append(Wrote(way, memories, spread, seconds, times))

    with MemoryStore.connect(conninfo, embedder=embedder, max_size=2) as store:
        view = store.as_user(ORG, USER)
        view.remember("warm the connection")
        few = texts[:singles]
        ids: list[str] = []
        one_by_one = [lambda text=text: ids.append(view.remember(text)) for text in few]
        note("remember, one by one", one_by_one, len(few), sum(len(windows_of(text)) for text in few))
        given = [[NewMemory(content=text) for text in texts[n : n + batch]] for n in range(0, len(texts), batch)]
        in_bulk = [lambda part=part: view.remember_many(part) for part in given]
        note(f"remember_many, {batch} a call", in_bulk, len(texts), windows)
        half = len(texts) // 2
        note(
            "remember_many, from two threads", [lambda: at_once(store, texts[:half], texts[half:])], len(texts), windows
        )
        note("update of the text", [lambda i=i: view.update(i, content=f"{few[0]} {i}") for i in ids], len(ids), 0)
        note("update of a mark (pinned)", [lambda i=i: view.update(i, pinned=True) for i in ids], len(ids), 0)
        note("invalidate", [lambda i=i: view.invalidate(i) for i in ids], len(ids), 0)
        note("forget", [lambda i=i: view.forget(i) for i in ids], len(ids), 0)
    clear(conninfo)
    return made


def at_once(store: MemoryStore, *shares: list[str]) -> None:
    """Each share in a call and a thread of its own."""
    with ThreadPoolExecutor(len(shares)) as threads:
        view = store.as_user(ORG, USER)
        calls = [threads.submit(view.remember_many, [NewMemory(content=text) for text in share]) for share in shares]
        for call in calls:
            call.result()


def by_import(conninfo: str, texts: list[str], jobs: int) -> Wrote:
    """An administrator's import of JSON lines: memories with all but their vectors, which `embed` makes."""
    one = {"org": ORG, "owner": USER, "visibility": "shared", "created_at": "2026-01-01T00:00:00Z"}
    lines = [json.dumps({"format": FORMAT})] + [
        json.dumps({"memory": one | {"id": f"imported{n}", "content": text}}) for n, text in enumerate(texts)
    ]
    admin = StoreAdmin.connect(conninfo)
    began = time.perf_counter()
    import_lines(admin, lines, jobs=jobs)
    seconds = time.perf_counter() - began
    clear(conninfo)
    many = "" if jobs == 1 else f", {jobs} jobs"
    return Wrote(f"import as an administrator, vectors left to embed{many}", len(texts), 0, seconds)


def clear(conninfo: str) -> None:
    """Remove all that this command wrote into the store."""
    with psycopg.connect(conninfo, autocommit=True) as connection:
        connection.execute("SET search_path = lore, public")
        connection.execute("DELETE FROM memories WHERE org = %s", [ORG])
        connection.execute("DELETE FROM terms WHERE org = %s", [ORG])
        connection.execute("DELETE FROM scope_statistics WHERE org = %s", [ORG])


def by_copy(conninfo: str, world: World, texts: list[str]) -> Wrote:
    """As an administrator: COPY into memories, windows and vectors, codes by trigger; then the statistics."""
    one = Generated(ORG, "", USER, True, "fact", "", "2026-01-01", False, 0, len(texts))
    memories = [replace(one, id=f"copied{n}", text=text) for n, text in enumerate(texts)]
    with psycopg.connect(conninfo, autocommit=True) as connection:
        connection.execute("SET search_path = lore, public")
        row = connection.execute("SELECT coalesce(max(key), 0) FROM memories").fetchone()
        assert row is not None
        began = time.perf_counter()
        with connection.transaction():
            connection.execute("SELECT set_config('lore.bulk', 'on', true)")
            load(connection, world, memories, space=1, after_key=row[0])
            connection.execute("SELECT sort_in()")
            connection.execute("SELECT count_part(%s, '', 0)", [ORG])
        seconds = time.perf_counter() - began
        found = connection.execute("SELECT count(*) FROM windows WHERE org = %s", [ORG]).fetchone()
        clear(conninfo)
    return Wrote("COPY as an administrator", len(texts), found[0] if found else 0, seconds)


def handwritten(conninfo: str, texts: list[str], embedder: Prepared, *, hnsw: bool) -> Wrote:
    """INSERT of many rows in one transaction, with and without the HNSW index; rolled back."""
    pieces = [piece for text in texts for piece in windows_of(text)]
    vectors = [halfvec_text(v) for v in embedder.take(len(pieces))]
    rows = [(f"bulk{n}", piece, vector) for n, (piece, vector) in enumerate(zip(pieces, vectors, strict=True))]
    into = "INSERT INTO documents (id, org, owner, shared, memory, content, embedding)"
    insert = f"{into} VALUES (%s, '{ORG}', '{USER}', false, '', %s, %s)"
    with psycopg.connect(conninfo) as connection, connection.cursor() as cursor:
        if not hnsw:
            cursor.execute("DROP INDEX documents_embedding")
        began = time.perf_counter()
        cursor.executemany(insert, rows)  # type: ignore[arg-type]
        seconds = time.perf_counter() - began
        connection.rollback()
    return Wrote(f"hand-written: executemany{'' if hnsw else ', HNSW dropped'}", len(texts), len(pieces), seconds)


def peers(given: argparse.Namespace, texts: list[str], embedder: Prepared) -> list[Wrote]:
    """Each peer's own call for many rows, its indexes in place."""
    from peer_langchain import LangChain
    from peer_llamaindex import LlamaIndex

    def place(name: str) -> str:
        return database_beside(given.database, given.prefix + name)

    documented = LangChain(place("langchain"), tuned=False)
    documented.open()
    tuned = LangChain(place("langchain_tuned"), tuned=True)
    tuned.open()  # its synchronous twin writes the same statements
    stores: list[tuple[str, str, Any, str]] = [
        ("langchain-postgres: add_embeddings", "langchain", documented, "DELETE FROM documents WHERE org = %s"),
        ("langchain-postgres, tuned", "langchain_tuned", tuned, "DELETE FROM documents WHERE org = %s"),
    ]
    for is_tuned in (False, True):
        name = "llamaindex_tuned" if is_tuned else "llamaindex"
        store = LlamaIndex(place(name), given.dimensions, tuned=is_tuned)
        gone = "DELETE FROM data_documents WHERE metadata_ ->> 'org' = %s"
        stores.append(("llama-index, tuned" if is_tuned else "llama-index: add", name, store, gone))
    made = []
    pieces = [piece for text in texts for piece in windows_of(text)]
    names = [f"bulk{n}" for n in range(len(pieces))]
    for way, name, store, gone in stores:
        vectors = embedder.take(len(pieces))
        began = time.perf_counter()
        store.add(pieces, vectors, names)
        made.append(Wrote(way, len(texts), len(pieces), time.perf_counter() - began))
        with psycopg.connect(place(name), autocommit=True) as connection:
            connection.execute(gone, [ORG])  # type: ignore[arg-type]
    for hnsw in (True, False):
        made.append(handwritten(place("handwritten"), texts, embedder, hnsw=hnsw))
    return made


def report(made: list[Wrote]) -> tuple[list[str], dict[str, Any]]:
    """The table, and all figures."""
    bulk = next(one for one in made if one.way.startswith("remember_many"))
    rows: list[list[Cell]] = []
    for one in made:
        p50 = percentile(one.calls, 0.5) if len(one.calls) > 10 else None
        p95 = percentile(one.calls, 0.95) if len(one.calls) > 10 else None
        spread = one.windows / one.seconds or None
        # a peer's row is a window
        times = bulk.rate / one.rate if spread is None else bulk.windows / bulk.seconds / spread
        rows.append([one.way, one.rate, spread, p50, p95, times])
    head = ["", "memories a second", "windows a second", "p50 ms", "p95 ms", "remember_many is … times as fast"]
    figures = {
        one.way: {
            "memories": one.memories,
            "windows": one.windows,
            "seconds": one.seconds,
            "memories_per_second": one.rate,
            "windows_per_second": one.windows / one.seconds,
            "p50_ms": percentile(one.calls, 0.5),
            "p95_ms": percentile(one.calls, 0.95),
        }
        for one in made
    }
    return [markdown(head, rows, digits=1)], {"ways": figures}


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memories", type=positive, default=10_000, help="how many the store holds before")
    parser.add_argument("--organisations", type=positive, default=50)
    parser.add_argument("--dimensions", type=positive, default=1024)
    parser.add_argument("--rows", type=positive, default=2000, help="memories to write in bulk")
    parser.add_argument("--peer-rows", type=int, default=2000, help="memories that each peer writes, of the same ones")
    parser.add_argument("--batch", type=positive, default=2000, help="memories in one call of remember_many")
    parser.add_argument("--singles", type=positive, default=100)
    parser.add_argument("--database", help="an administrator's connection string; the built-in Postgres if left out")
    parser.add_argument("--prefix", default="peers_")
    parser.add_argument("--filled", action="store_true", help="the database was filled by an earlier run")
    parser.add_argument("--peers", action="store_true", help="the peers of peers.py too, in their databases")
    add_output(parser)
    return parser.parse_args()


def main() -> None:
    """Write, in every way."""
    given = parsed()
    with database_of(given.database) as conninfo:
        given.database = conninfo
        if not given.filled:
            world = World(Shape(given.memories, given.organisations, given.dimensions))
            fill_store(conninfo, world, generate(world))
        writer = World(Shape(given.rows, 1, given.dimensions, seed=11))
        texts = [memory.text for memory in generate(writer)]
        embedder = Prepared(writer, len(texts) * 3)
        made = ours(conninfo, texts, embedder, given.batch, given.singles)
        made += [by_import(conninfo, texts, jobs) for jobs in (1, 2)]
        made.append(by_copy(conninfo, writer, texts))
        if given.peers:
            made += peers(given, texts[: given.peer_rows], embedder)
        tables, figures = report(made)
        publish(given, tables, {"machine": machine(conninfo), **figures})


if __name__ == "__main__":
    run_command(main)
