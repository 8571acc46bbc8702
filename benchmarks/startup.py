"""How long a process takes until its first hit: import, connect, first search; each in a fresh process.

python benchmarks/startup.py                                        # 5,000 memories, 384 dimensions, built-in Postgres
python benchmarks/startup.py --database "host=…" --filled
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

from figures import Cell, add_output, database_of, machine, markdown, percentile, positive, publish, run_command
from generated import Shape, World, generate
from search import fill as fill_store

CHILD = """
import json, sys, time
began = time.perf_counter()
import lore_retriever
imported = time.perf_counter()
from lore_retriever import MemoryStore
from lore_retriever.embeddings.base import EmbeddingSpace
named = time.perf_counter()

class Handed:
    max_tokens = None
    def __init__(self, dimensions):
        self.space = EmbeddingSpace("benchmark", "1", dimensions)
        self.one = [1.0] + [0.0] * (dimensions - 1)
    def count_tokens(self, text):
        return len(text)
    def embed_texts(self, texts, /):
        return [self.one for _ in texts]
    embed_queries = embed_texts

embedder = Handed(int(sys.argv[2]))
ready = time.perf_counter()
with MemoryStore.connect(sys.argv[1], embedder=embedder, max_size=1) as store:
    connected = time.perf_counter()
    view = store.as_user("org000", "user0")
    times = []
    for _ in range(10):
        start = time.perf_counter()
        view.recall("what went wrong")
        times.append(time.perf_counter() - start)
print(json.dumps({
    "import lore_retriever": imported - began,
    "import of MemoryStore": named - imported,
    "connect": connected - ready,
    "first search": times[0],
    "second search": times[1],
    "tenth search": times[-1],
    "until the first hit": connected - began + times[0],
}))
"""


def once(conninfo: str, dimensions: int) -> dict[str, float]:
    """Milliseconds of each step of one fresh process."""
    command = [sys.executable, "-c", CHILD, conninfo, str(dimensions)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parent)
    return {name: value * 1000 for name, value in json.loads(done.stdout).items()}


def main() -> None:
    """Fill, start often, publish."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memories", type=positive, default=5_000)
    parser.add_argument("--organisations", type=positive, default=20)
    parser.add_argument("--dimensions", type=positive, default=384)
    parser.add_argument("--starts", type=positive, default=15)
    parser.add_argument("--database", help="an administrator's connection string; the built-in Postgres if left out")
    parser.add_argument("--filled", action="store_true", help="the database was filled by an earlier run")
    add_output(parser)
    given = parser.parse_args()
    with database_of(given.database) as conninfo:
        given.database = conninfo
        if not given.filled:
            world = World(Shape(given.memories, given.organisations, given.dimensions))
            fill_store(conninfo, world, generate(world))
        taken: dict[str, list[float]] = defaultdict(list)
        for number in range(given.starts + 1):
            for name, value in once(conninfo, given.dimensions).items():
                if number:  # the first one writes the compiled modules
                    taken[name].append(value)
        figures = {name: {"p50": percentile(v, 0.5), "p95": percentile(v, 0.95)} for name, v in taken.items()}
        rows: list[list[Cell]] = [[name, each["p50"], each["p95"]] for name, each in figures.items()]
        table = markdown(["step", "p50 ms", "p95 ms"], rows, digits=1)
        publish(given, [table], {"machine": machine(conninfo), "steps": figures})


if __name__ == "__main__":
    run_command(main)
