"""What a store takes: bytes on disk for each memory, memory of a server process and of a client.

    python benchmarks/footprint.py                                      # 10,000 memories, 384 dimensions, built-in Postgres
    python benchmarks/footprint.py --database "host=…" --filled --memories 100000 --dimensions 1024

Memory is read from /proc, so on Linux and beside the server only: of the server what its process holds for itself, without the
shared buffers; of a client, which has loaded nothing but the package, all that it held at its peak.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import psycopg
from figures import Cell, add_output, database_of, machine, markdown, positive, publish, run_command
from generated import Question, Shape, World, generate, questions
from search import fill as fill_store
from systems import Lore

SIZES = """
SELECT c.relname, pg_table_size(c.oid), pg_indexes_size(c.oid)
FROM pg_class AS c WHERE c.relnamespace = 'lore'::regnamespace AND c.relkind = 'r' AND pg_total_relation_size(c.oid) > 100000
ORDER BY pg_total_relation_size(c.oid) DESC"""


CLIENT = """
import json, sys
asked = json.load(sys.stdin)

def megabytes():  # not resource.getrusage, which counts in what the parent held
    try:
        with open("/proc/self/status") as status:
            return next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmHWM"))
    except OSError:
        return None

told = {"python": megabytes()}
from lore_retriever import MemoryStore
from lore_retriever.embeddings.base import EmbeddingSpace

class Handed:
    max_tokens = None
    space = EmbeddingSpace("benchmark", "1", len(asked["vector"]))
    def count_tokens(self, text):
        return len(text)
    def embed_texts(self, texts, /):
        return [asked["vector"] for _ in texts]
    embed_queries = embed_texts

with MemoryStore.connect(sys.argv[1], embedder=Handed(), max_size=1) as store:
    told["connected"] = megabytes()
    for org, user, text in asked["questions"]:
        store.as_user(org, user).recall(text)
    told["searched"] = megabytes()
print(json.dumps(told))
"""


def on_disk(conninfo: str) -> tuple[list[list[Cell]], dict[str, Any]]:
    """Bytes for each memory, by table."""
    with psycopg.connect(conninfo) as connection:
        count = connection.execute("SELECT count(*), avg(octet_length(content)) FROM lore.memories").fetchone()
        assert count is not None
        found = connection.execute(SIZES).fetchall()
    memories, text = int(count[0]), float(count[1])
    rows: list[list[Cell]] = [
        [name, heap / memories, indexes / memories, (heap + indexes) / memories] for name, heap, indexes in found
    ]
    whole = [sum(row[place] for row in rows) for place in (1, 2, 3)]  # type: ignore[misc]
    rows.append(["together", *whole])
    rows.append(["for comparison: the text itself", text, None, text])
    figures = {str(row[0]): {"heap": row[1], "indexes": row[2]} for row in rows}
    return rows, {"memories": memories, "bytes_per_memory": figures}


def private_bytes(pid: int) -> int | None:
    """Memory that a process shares with no other; None where /proc does not tell."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
    except OSError:
        return None
    lines = [line.split() for line in text.splitlines() if line.startswith(("Private_Clean", "Private_Dirty"))]
    return sum(int(line[1]) for line in lines) * 1024


def of_a_client(conninfo: str, asked: list[Question]) -> dict[str, float | None]:
    """Megabytes at the peak of a fresh client process."""
    wanted = {"vector": asked[0].vector.tolist(), "questions": [[q.org, q.user, q.text] for q in asked]}
    command = [sys.executable, "-c", CLIENT, conninfo]
    done = subprocess.run(command, input=json.dumps(wanted), capture_output=True, text=True, check=True)
    told = json.loads(done.stdout)
    return {
        "client, Python alone": told["python"],
        "client, connected": told["connected"],
        f"client, after {len(asked)} searches": told["searched"],
    }


def of_the_server(given: argparse.Namespace, asked: list[Question]) -> dict[str, float | None]:
    """Megabytes of the process that serves a connection, before and after searches."""
    system = Lore(given.database, given.dimensions)
    with system.store._driver.pool.connection() as connection:
        pid = connection.info.backend_pid
    fresh = private_bytes(pid)
    for question in asked:
        system.search(question)
    used = private_bytes(pid)
    system.close()
    return {
        "server process, connected": None if fresh is None else fresh / (1 << 20),
        f"server process, after {len(asked)} searches": None if used is None else used / (1 << 20),
    }


def main() -> None:
    """Fill, weigh, publish."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memories", type=positive, default=10_000)
    parser.add_argument("--organisations", type=positive, default=50)
    parser.add_argument("--dimensions", type=positive, default=384)
    parser.add_argument("--questions", type=positive, default=300)
    parser.add_argument("--database", help="an administrator's connection string; the built-in Postgres if left out")
    parser.add_argument("--filled", action="store_true", help="the database was filled by an earlier run")
    add_output(parser)
    given = parser.parse_args()
    with database_of(given.database) as conninfo:
        given.database = conninfo
        world = World(Shape(given.memories, given.organisations, given.dimensions))
        memories = generate(world)
        if not given.filled:
            fill_store(conninfo, world, memories)
        rows, figures = on_disk(conninfo)
        asked = questions(world, memories, given.questions)
        held = of_a_client(conninfo, asked) | of_the_server(given, asked)
        tables = [
            markdown(["bytes a memory", "table", "indexes", "together"], rows, digits=0),
            markdown(["process", "MB"], [[name, value] for name, value in held.items()], digits=1),
        ]
        publish(given, tables, {"machine": machine(conninfo), **figures, "megabytes": held})


if __name__ == "__main__":
    run_command(main)
