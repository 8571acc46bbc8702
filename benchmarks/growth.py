"""Does a search get slower as the store grows around the tenant? And as the tenant itself grows?

    python benchmarks/growth.py --database "host=…" --sizes 10000 100000 300000     # or 1000000, with 20 GB of disk
    python benchmarks/growth.py --database "host=…" --filled --tenant               # and a tenant of 100,000 memories

The same tenants (20 organisations, 10,000 memories) are asked the same questions in stores of every size: the rest are
copies of them under other names. One database for each size beside the given one (`growth_…`), the sizes in turn, block by
block. `--tenant` puts all memories of the 100,000 into one more organisation, which then owns half of its store.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
from figures import (
    Cell,
    add_output,
    database_of,
    machine,
    markdown,
    percentile,
    plot_lines,
    positive,
    publish,
    run_command,
)
from generated import Question, Shape, World, generate, questions
from peer_rows import create_database, database_beside
from search import fill as fill_store
from systems import Lore

GENERATED = ("content_hash", "full_length", "tsv", "partly_indexed", "identifiers")
INDEXES = ("memories_tsv", "memories_identifiers")
STATISTICS = {
    "terms": "owner, stem, df",
    "scope_statistics": "owner, memories, characters, windows, stems, last_key, refreshed_at",
}
TENANT = "tenant"


def prepare(conninfo: str) -> None:
    """Let copies take what the database computes for a text, since it would compute the same again."""
    with psycopg.connect(conninfo, autocommit=True) as connection:
        for column in GENERATED:
            connection.execute(f"ALTER TABLE lore.memories ALTER COLUMN {column} DROP EXPRESSION")  # type: ignore[arg-type]


def copy_rows(connection: psycopg.Connection[Any], organisations: str, ids: str) -> None:
    """Copy all memories of the first 20 organisations; the SQL expressions name their new organisations and ids."""
    text = Path(__file__).with_name("growth.sql").read_text(encoding="utf-8")
    connection.execute(text.replace("{organisations}", organisations).replace("{ids}", ids))  # type: ignore[arg-type]


def grow(conninfo: str, copies: Sequence[int]) -> None:
    """Add these copies of the first organisations, indexes rebuilt at the end."""
    with psycopg.connect(conninfo, autocommit=True) as connection:
        connection.execute("SET search_path = lore, public")
        connection.execute("SET session_replication_role = replica")  # the rows are consistent as they are
        connection.execute("SET maintenance_work_mem = '512MB'")
        made = [without_index(connection, name) for name in INDEXES]
        for number in copies:
            with connection.transaction():
                copy_rows(connection, f"m.org || '-{number}'", "m.id")
                for table, columns in STATISTICS.items():
                    taken = f"SELECT org || '-{number}', {columns} FROM {table} WHERE org ~ '^org0[01][0-9]$'"  # noqa: S608
                    connection.execute(f"INSERT INTO {table} (org, {columns}) {taken}")  # type: ignore[arg-type]
        for definition in made:
            connection.execute(definition)  # type: ignore[arg-type]
        connection.execute("VACUUM (ANALYZE)")


def without_index(connection: psycopg.Connection[Any], name: str) -> str:
    """Drop an index; what makes it again."""
    row = connection.execute("SELECT pg_get_indexdef(%s::regclass)", [name]).fetchone()
    assert row is not None
    connection.execute(f"DROP INDEX {name}")  # type: ignore[arg-type]
    return str(row[0])


def add_tenant(conninfo: str, copies: int = 10) -> int:
    """One more organisation with that many copies of all that the first twenty hold; how many memories."""
    with psycopg.connect(conninfo, autocommit=True) as connection:
        connection.execute("SET search_path = lore, public")
        connection.execute("SET session_replication_role = replica")
        for number in range(copies):
            with connection.transaction():
                copy_rows(connection, f"'{TENANT}'", f"m.org || '-' || m.id || '-{number}'")
        connection.execute("SET session_replication_role = origin")
        connection.execute(
            "SELECT count_part(%(org)s, p.part, 0)"
            " FROM (SELECT DISTINCT part_of(owner, visibility) AS part FROM memories WHERE org = %(org)s) AS p",
            {"org": TENANT},
        )
        connection.execute("VACUUM (ANALYZE)")
        row = connection.execute("SELECT count(*) FROM memories WHERE org = %s", [TENANT]).fetchone()
        return int(row[0]) if row else 0


def fill(given: argparse.Namespace, world: World, memories: list[Any]) -> None:
    """One database for each size, each grown out of the one before."""
    before = None
    for size in given.sizes:
        began = time.perf_counter()
        name = f"{given.prefix}{size}"
        if before is None:
            made = create_database(given.database, name)
            fill_store(made, world, memories)
            prepare(made)
        else:
            made = create_database(given.database, name, template=f"{given.prefix}{before}")
        grow(made, range(1 if before is None else before // given.base, size // given.base))
        print(f"{size:,} memories in {time.perf_counter() - began:.0f} s", flush=True)
        before = size


def fill_tenant(given: argparse.Namespace) -> None:
    """The store in which one organisation owns half of everything."""
    source = max(size for size in given.sizes if size <= 100_000)
    made = create_database(given.database, f"{given.prefix}tenant", template=f"{given.prefix}{source}")
    print(f"a tenant of {add_tenant(made):,} memories among {source:,} others", flush=True)


def measure(systems: dict[str, tuple[Lore, list[Question]]], rounds: int, block: int) -> dict[str, list[float]]:
    """Milliseconds of each, in turn, block by block, each block warmed up."""
    taken: dict[str, list[float]] = {name: [] for name in systems}
    count = max(len(asked) for _, asked in systems.values())
    for _ in range(rounds):
        for start in range(0, count, block):
            for name, (system, asked) in systems.items():
                for is_timed in (False, True):
                    for question in asked[start : start + block]:
                        began = time.perf_counter()
                        system.search(question)
                        if is_timed:
                            taken[name].append((time.perf_counter() - began) * 1000)
    return taken


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=positive, nargs="+", default=[10_000, 100_000, 300_000])
    parser.add_argument("--base", type=positive, default=10_000, help="memories of the tenants that are asked")
    parser.add_argument("--dimensions", type=positive, default=384)
    parser.add_argument("--questions", type=positive, default=150)
    parser.add_argument("--rounds", type=positive, default=2)
    parser.add_argument("--block", type=positive, default=50)
    parser.add_argument("--tenant", action="store_true", help="also a tenant of ten times the base")
    parser.add_argument("--database", help="an administrator's connection string; the built-in Postgres if left out")
    parser.add_argument("--prefix", default="growth_")
    parser.add_argument("--filled", action="store_true", help="the databases were filled by an earlier run")
    add_output(parser, plot=True)
    return parser.parse_args()


def run(given: argparse.Namespace) -> None:
    """Fill, ask, publish."""
    world = World(Shape(given.base, 20, given.dimensions))
    memories = generate(world)
    if not given.filled:
        fill(given, world, memories)
        if given.tenant:
            fill_tenant(given)
    asked = questions(world, memories, given.questions)
    systems: dict[str, tuple[Lore, list[Question]]] = {}
    for size in given.sizes:
        system = Lore(database_beside(given.database, f"{given.prefix}{size}"), given.dimensions)
        systems[f"{size:,}"] = (system, asked)
    if given.tenant:
        system = Lore(database_beside(given.database, f"{given.prefix}tenant"), given.dimensions)
        systems["a tenant of ten times the base"] = (system, [replace(q, org=TENANT) for q in asked])
    taken = measure(systems, given.rounds, given.block)
    figures = {name: {"p50": percentile(times, 0.5), "p95": percentile(times, 0.95)} for name, times in taken.items()}
    first = figures[f"{given.sizes[0]:,}"]
    rows: list[list[Cell]] = [
        [name, each["p50"], each["p95"], each["p50"] / first["p50"], each["p95"] / first["p95"]]
        for name, each in figures.items()
    ]
    head = ["memories in the store", "p50 ms", "p95 ms", "p50, times the first", "p95, times the first"]
    publish(given, [markdown(head, rows)], {"machine": machine(given.database), "sizes": figures})
    if given.plot is not None:
        lines = {
            share: [(float(size), figures[f"{size:,}"][share]) for size in given.sizes] for share in ("p50", "p95")
        }
        title = "A search of the same tenants, as the store grows around them"
        plot_lines(given.plot, lines, x="memories", y="milliseconds", title=title)
    for system, _ in systems.values():
        system.close()


def main() -> None:
    """Run on the given database, or on the built-in Postgres."""
    given = parsed()
    with database_of(given.database) as conninfo:
        given.database = conninfo
        run(given)


if __name__ == "__main__":
    run_command(main)
