"""What a store takes: bytes on disk for each memory, memory of a server process and of a client.

    python benchmarks/footprint.py                                      # 10,000 memories, 384 dimensions, built-in Postgres
    python benchmarks/footprint.py --database "host=…" --filled --memories 100000 --dimensions 1024

Memory of the server is read from /proc, so on Linux and beside the server only: what its process holds for itself, without
the shared buffers.
"""

from __future__ import annotations

import argparse
import resource
import sys
from pathlib import Path
from typing import Any

import psycopg
from figures import Cell, add_output, database_of, machine, markdown, publish
from generated import Question, Shape, World, generate, questions
from search import fill as fill_store
from systems import Lore

SIZES = """
SELECT c.relname, pg_table_size(c.oid), pg_indexes_size(c.oid)
FROM pg_class AS c WHERE c.relnamespace = 'lore'::regnamespace AND c.relkind = 'r' AND pg_total_relation_size(c.oid) > 100000
ORDER BY pg_total_relation_size(c.oid) DESC"""


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


def in_memory(given: argparse.Namespace, asked: list[Question]) -> dict[str, float | None]:
    """Megabytes of client and server process, before and after searches."""

    def client() -> float:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak / (1 << 20 if sys.platform == "darwin" else 1 << 10)

    system = Lore(given.database, given.dimensions)
    before = client()
    with system.store._driver.pool.connection() as connection:
        pid = connection.info.backend_pid
    fresh = private_bytes(pid)
    for question in asked:
        system.search(question)
    used = private_bytes(pid)
    made = {
        "client, connected (peak; with this benchmark's data)": before,
        f"client, after {len(asked)} searches (peak)": client(),
        "server process, connected": None if fresh is None else fresh / (1 << 20),
        f"server process, after {len(asked)} searches": None if used is None else used / (1 << 20),
    }
    system.close()
    return made


def main() -> None:
    """Fill, weigh, publish."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memories", type=int, default=10_000)
    parser.add_argument("--organisations", type=int, default=50)
    parser.add_argument("--dimensions", type=int, default=384)
    parser.add_argument("--questions", type=int, default=300)
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
        held = in_memory(given, questions(world, memories, given.questions))
        tables = [
            markdown(["bytes a memory", "table", "indexes", "together"], rows, digits=0),
            markdown(["process", "MB"], [[name, value] for name, value in held.items()], digits=1),
        ]
        publish(given, tables, {"machine": machine(conninfo), **figures, "megabytes": held})


if __name__ == "__main__":
    main()
